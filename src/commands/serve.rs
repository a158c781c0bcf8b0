//! `rehearsal serve`: the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use rehearsal::config::DaemonConfig;
use rehearsal::engine::PolicyParts;
use rehearsal::home::Home;
use rehearsal::progress::Show;
use rehearsal::serve::{ServeJob, serve};
use rehearsal::{http, prepare};

use crate::commands::{print_line, sandboxes, shutdown_signal};
use crate::console::Console;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The daemon's configuration (TOML).
    config: PathBuf,
}

/// SIGTERM or Ctrl-C drains and exits with 0; a second Ctrl-C ends at once.
pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let console = Console::new();
    let said = console.clone();
    let shutdown =
        shutdown_signal(move || said.say("draining: what is in flight ends first; Ctrl-C again ends at once"))?;
    let config = DaemonConfig::load(&args.config)?;
    let (listener, _) = http::bind(&config.listen).await?;
    let (recorder, handle) = http::recorder()?;
    let (shown, wanted) = (console.clone(), config.clone());
    let preparing = tokio::task::spawn_blocking(move || {
        let home = Home::open()?;
        let policy = prepare::policy(&home, &wanted.policy.source, wanted.policy.device, &shown)?;
        let sandbox =
            sandboxes(&home, (&wanted.sandbox.image, wanted.sandbox.workers, wanted.sandbox.processes), &shown)?;
        let parts = PolicyParts {
            codec: policy.text(),
            weights: policy.weights(),
            generator: prepare::generator(policy, wanted.policy.max_batch),
            trainer: None,
        };
        anyhow::Ok((parts, sandbox))
    });
    tokio::pin!(shutdown);
    let (policy, sandbox) = tokio::select! {
        // Nothing has been taken in yet, so nothing is to be drained.
        () = &mut shutdown => return Ok(ExitCode::SUCCESS),
        prepared = preparing => prepared.context("preparing the daemon failed")??,
    };
    let job = ServeJob { config, policy, sandbox, listener };
    let ready = |address| {
        // The address is data: a script that asked for port 0 reads it here.
        if let Err(error) = print_line(&format!("listening on http://{address}")) {
            tracing::warn!(%error, "the address was not printed");
        }
    };
    serve(job, (&recorder, handle), ready, shutdown).await?;
    console.say("drained");
    Ok(ExitCode::SUCCESS)
}
