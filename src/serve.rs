//! The daemon: the same tree as a training run's, kept up, fed and read over HTTP.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use metrics_exporter_prometheus::{PrometheusHandle, PrometheusRecorder};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use rehearsal_sandboxes::Sandbox;

use crate::config::DaemonConfig;
use crate::engine::{Engine, EngineConfig, EngineError, PolicyParts};
use crate::http::{self, Daemon};

/// How long open connections may take to end after the engine has drained.
const HTTP_PATIENCE: Duration = Duration::from_secs(5);

/// A daemon about to run.
#[derive(Debug)]
pub struct ServeJob {
    /// What to keep up.
    pub config: DaemonConfig,
    /// The policy; no trainer.
    pub policy: PolicyParts,
    /// Runs code.
    pub sandbox: Arc<dyn Sandbox>,
    /// Bound already, so that the address is known before the policy is loaded.
    pub listener: TcpListener,
}

/// Serves until `shutdown`, then drains: nothing new is taken, what is queued and running ends (for at most the configured time), streams
/// are closed.
///
/// # Errors
/// The first cause, if the engine ends by itself; what was still in flight, if it did not drain in time.
pub async fn serve(
    job: ServeJob,
    (recorder, handle): (&PrometheusRecorder, PrometheusHandle),
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let address = job.listener.local_addr()?;
    let device = job.config.policy.device.to_string();
    let engine = Engine::builder(EngineConfig::from(&job.config), job.policy, job.sandbox)
        .recorder(recorder, &device)
        .start()
        .await?;
    let mut events = engine.subscribe();
    let daemon = Daemon::new(engine, job.config.sandbox.limits.clone(), handle);
    let (close, closed) = oneshot::channel::<()>();
    let until_closed = async move { drop(closed.await) };
    let mut server = tokio::spawn(http::serve(job.listener, Arc::clone(&daemon), until_closed));
    ready(address);

    let ended = async {
        loop {
            match events.next().await {
                Some(rehearsal_actors::Event::Stopped(cause)) => {
                    return cause.unwrap_or_else(|| "it was stopped".to_owned());
                }
                Some(_) => {}
                None => return "it ended without saying why".to_owned(),
            }
        }
    };
    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        cause = ended => Err(anyhow::anyhow!("the engine ended: {cause}")),
        served = &mut server => match served {
            Ok(Ok(())) => Err(anyhow::anyhow!("the HTTP server ended")),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(anyhow::anyhow!("the HTTP server failed: {error}")),
        },
    };
    let drained = drain(&daemon, Duration::from_secs(job.config.drain_s)).await;
    // The server may have ended already; then nobody listens to this.
    let _ = close.send(());
    if !server.is_finished() && tokio::time::timeout(HTTP_PATIENCE, &mut server).await.is_err() {
        server.abort();
    }
    outcome?;
    match drained {
        Ok(()) => Ok(()),
        Err(error) => bail!("{error}; raise `drain_s` to wait longer"),
    }
}

async fn drain(daemon: &Daemon, deadline: Duration) -> Result<(), EngineError> {
    match daemon.take().await {
        Some(engine) => engine.drain(deadline).await,
        None => Ok(()),
    }
}
