//! `rehearsal exec`: a file in a fresh sandbox.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use rehearsal::Limits;
use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal_sandboxes::{End, Program};

use crate::commands::print_line;
use crate::console::Console;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Python file.
    file: PathBuf,
    /// Seed of the guest's randomness.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Limits of the code, where the task has none of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitArgs {
    /// Instructions at most: the time limit.
    #[arg(long, default_value_t = Limits::default().fuel)]
    fuel: u64,
    /// Bytes of memory the program may add.
    #[arg(long, default_value_t = Limits::default().memory_bytes)]
    memory_bytes: u64,
    /// Bytes on each of standard output and error.
    #[arg(long, default_value_t = Limits::default().output_bytes)]
    output_bytes: usize,
    /// Wall-clock backstop in milliseconds.
    #[arg(long, default_value_t = Limits::default().wall_ms)]
    wall_ms: u64,
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            fuel: self.fuel,
            memory_bytes: self.memory_bytes,
            output_bytes: self.output_bytes,
            wall_ms: self.wall_ms,
            ..Limits::default()
        }
    }
}

#[derive(Debug, Serialize)]
struct Output {
    outcome: End,
    exit: Option<i32>,
    stdout: String,
    stderr: String,
    fuel_used: u64,
    wall_ms: f64,
    peak_memory_bytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

/// Exit code 0 whenever the sandbox did its duty, whatever the program did; 1 when the host failed.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let bytes = fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let source = String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", args.file.display()))?;
    let sandbox = prepare::sandbox(&Home::open()?, "python", &Console::new())?;
    let limits = args.limits.limits();
    // Who asks for one program wants all it printed.
    let limits = Limits { output_kept_bytes: limits.output_bytes, ..limits };
    let execution = sandbox.execute(&Program::new(source, args.seed), &limits);
    let failed = matches!(execution.end, End::HostError | End::WallBackstop);
    let output = Output {
        outcome: execution.end,
        exit: execution.exit,
        stdout: String::from_utf8_lossy(&execution.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&execution.stderr).into_owned(),
        fuel_used: execution.fuel_used,
        wall_ms: execution.wall_us as f64 / 1000.0,
        peak_memory_bytes: execution.peak_memory_bytes,
        detail: execution.detail,
    };
    print_line(&serde_json::to_string(&output)?)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
