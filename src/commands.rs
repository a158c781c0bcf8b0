//! One file per subcommand: arguments, and how they become calls of the library.

pub(crate) mod exec;
pub(crate) mod generate;
pub(crate) mod judge;
pub(crate) mod serve;
pub(crate) mod setup;
pub(crate) mod tokenize;
pub(crate) mod train;

use std::future::Future;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};

use rehearsal::config::sandboxes_at_once;
use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal::progress::Show;
use rehearsal_sandboxes::Sandbox;

/// The sandboxes a command runs its programs in: worker processes of this very binary, or threads.
pub(crate) fn sandboxes(
    home: &Home,
    (image, workers, processes): (&str, usize, bool),
    show: &dyn Show,
) -> Result<Arc<dyn Sandbox>> {
    if !processes {
        return prepare::sandbox(home, image, show);
    }
    let program =
        std::env::current_exe().context("cannot find this program's own file, which workers are started from")?;
    Ok(Arc::new(prepare::worker_sandbox(home, image, program, sandboxes_at_once(workers), show)?))
}

/// Runs programs for the engine that started this process, until it is gone.
pub(crate) fn serve_sandboxes() -> Result<ExitCode> {
    rehearsal_sandboxes::serve_worker().context("sandbox worker")?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a blocking command off the async workers.
pub(crate) async fn blocking(work: impl FnOnce() -> Result<ExitCode> + Send + 'static) -> Result<ExitCode> {
    tokio::task::spawn_blocking(work).await.map_err(|error| anyhow!("the command failed: {error}"))?
}

/// Writes one line of data to standard output. A reader that has gone (`| head`) ends the process quietly, as other tools do.
pub(crate) fn print_line(line: &str) -> Result<()> {
    let written = writeln!(std::io::stdout().lock(), "{line}");
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.context("cannot write to standard output"),
    }
}

/// Ends at the first Ctrl-C or SIGTERM; a second one ends the process at once.
pub(crate) fn shutdown_signal(on_first: impl FnOnce() + Send + 'static) -> Result<impl Future<Output = ()>> {
    let mut interrupt =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot watch for SIGTERM")?;
    let (first, asked) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        on_first();
        let _ = first.send(());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // 128 + SIGINT, as a shell reports it.
        std::process::exit(130);
    });
    Ok(async move {
        // The sender lives as long as the process; were it gone, nothing could ask for the end any more.
        if asked.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
