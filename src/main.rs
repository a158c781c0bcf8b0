//! The command line. Everything global is here alone: the allocator, the log, the runtime, signals, exit codes.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod commands;
mod console;

/// Tensors and guests both allocate in large blocks from many threads; measured a third faster than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc's header; the binding does not name it.
const MI_OPTION_PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed memory instead of handing it back to the kernel: a training step frees and takes the same gigabyte again and again, and
/// clearing its pages anew cost a fifth of the step.
fn keep_freed_memory() {
    // SAFETY: sets one number in the allocator's own table; called before any other thread exists.
    unsafe { libmimalloc_sys::mi_option_set(MI_OPTION_PURGE_DELAY, -1) }
}

/// An actor-model rollout engine for reinforcement-learning post-training of language models.
#[derive(Debug, Parser)]
#[command(name = "rehearsal", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch the shipped policy and the Python image, and build the sandbox snapshot (train does it by itself).
    Setup(commands::setup::Args),
    /// Post-train a policy by a recipe.
    Train(commands::train::Args),
    /// Keep the engine up as a daemon: tasks in and rollouts out over HTTP.
    Serve(commands::serve::Args),
    /// Run a Python file in a fresh sandbox and print what came of it as JSON.
    Exec(commands::exec::Args),
    /// Judge completions against tasks, a JSON line each.
    Judge(commands::judge::Args),
    /// Sample one completion.
    Generate(commands::generate::Args),
    /// Run programs for the engine that started this process.
    #[command(hide = true)]
    SandboxWorker,
    /// Token ids of JSON strings, one a line on standard input.
    Tokenize(commands::tokenize::Args),
}

fn main() -> ExitCode {
    keep_freed_memory();
    let cli = Cli::parse();
    // Logs go to standard error; what a command prints on standard output is data.
    let filter = tracing_subscriber::EnvFilter::try_from_env("REHEARSAL_LOG").unwrap_or_else(|_| "warn".into());
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let outcome = runtime.block_on(run(cli.command));
        // Threads inside a long call (a training step) must not hold up the end.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Setup(args) => commands::blocking(move || commands::setup::run(&args)).await,
        Command::Train(args) => commands::train::run(args).await,
        Command::Serve(args) => commands::serve::run(args).await,
        Command::Exec(args) => commands::blocking(move || commands::exec::run(&args)).await,
        Command::Judge(args) => commands::blocking(move || commands::judge::run(&args)).await,
        Command::Generate(args) => commands::blocking(move || commands::generate::run(&args)).await,
        Command::Tokenize(args) => commands::blocking(move || commands::tokenize::run(&args)).await,
        Command::SandboxWorker => commands::blocking(commands::serve_sandboxes).await,
    }
}
