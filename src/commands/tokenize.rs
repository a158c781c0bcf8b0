//! `rehearsal tokenize`: token ids of JSON strings.

use std::io::BufRead;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal_models::LoadedPolicy;

use crate::commands::print_line;
use crate::console::Console;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A shipped policy's name, a GGUF file or a Hugging Face directory.
    #[arg(long, default_value = prepare::DEFAULT_POLICY)]
    policy: String,
    /// Print JSON lines: `{"ids", "decoded"}`. Without it, ids separated by spaces.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Line {
    ids: Vec<u32>,
    decoded: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let path = prepare::policy_path(&Home::open()?, &args.policy, &Console::new())?;
    let text = LoadedPolicy::load_text(&path)?;
    for (at, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.context("cannot read standard input")?;
        let string: String =
            serde_json::from_str(&line).with_context(|| format!("line {} is not a JSON string", at + 1))?;
        let ids = text.encode(&string)?;
        if args.json {
            let decoded = text.decode(&ids);
            print_line(&serde_json::to_string(&Line { ids, decoded })?)?;
        } else {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            print_line(&ids.join(" "))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
