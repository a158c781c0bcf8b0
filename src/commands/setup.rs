//! `rehearsal setup`: everything a first run would fetch and build, ahead of time.

use std::process::ExitCode;

use anyhow::Result;

use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal::progress::Show;

use crate::commands::print_line;
use crate::console::Console;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> Result<ExitCode> {
    let (home, console) = (Home::open()?, Console::new());
    let policy = prepare::policy_path(&home, prepare::DEFAULT_POLICY, &console)?;
    prepare::sandbox(&home, "python", &console)?;
    console.say(&format!("ready in {}", home.root().display()));
    // The policy's file is data: a script may want it.
    print_line(&policy.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}
