//! What the daemon and a training run serve over HTTP.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::{Stream, StreamExt};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::RwLock;

use rehearsal_actors::metrics::{FUEL_BUCKETS, SECONDS_BUCKETS, STALENESS_BUCKETS};
use rehearsal_actors::pipeline::credit::SubmitError;
use rehearsal_actors::{Purpose, Rollout};
use rehearsal_sandboxes::Limits;

use crate::engine::{Engine, EngineError, MAX_SUBMITTED_SIZE};
use crate::record::RolloutRecord;
use crate::tasks::TaskLine;

/// Bytes of one request body at most.
const BODY_MAX: usize = 16 << 20;
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A recorder of its own (nothing global), and what renders it.
pub fn recorder() -> Result<(PrometheusRecorder, PrometheusHandle)> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("rehearsal_sandbox_fuel".to_owned()), &FUEL_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("rehearsal_staleness_versions".to_owned()), &STALENESS_BUCKETS)?
        .build_recorder();
    let handle = recorder.handle();
    Ok((recorder, handle))
}

/// Binds `address`; port 0 takes a free one, found in the answer.
pub async fn bind(address: &str) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let bound = listener.local_addr().with_context(|| format!("cannot tell the address of {address}"))?;
    Ok((listener, bound))
}

/// Serves `/metrics` alone until the future is dropped. Every second the recorder's histograms are folded, so that a daemon that
/// nobody scrapes does not grow.
pub async fn serve_metrics(listener: TcpListener, handle: PrometheusHandle) -> Result<()> {
    let folding = upkeep(handle.clone());
    let app = Router::new().route("/metrics", get(move || metrics(handle.clone())));
    let serving = async { axum::serve(listener, app).await.context("the metrics server failed") };
    tokio::select! {
        served = serving => served,
        never = folding => match never {},
    }
}

async fn upkeep(handle: PrometheusHandle) -> Infallible {
    let mut every = tokio::time::interval(Duration::from_secs(5));
    loop {
        every.tick().await;
        handle.run_upkeep();
    }
}

async fn metrics(handle: PrometheusHandle) -> Response {
    ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], handle.render()).into_response()
}

/// What the daemon's handlers share. The engine leaves its slot when the daemon drains.
#[derive(Debug)]
pub struct Daemon {
    engine: RwLock<Option<Engine>>,
    limits: Limits,
    metrics: PrometheusHandle,
}

impl Daemon {
    /// Serves `engine`; `limits` apply to tasks without limits of their own.
    pub fn new(engine: Engine, limits: Limits, metrics: PrometheusHandle) -> Arc<Self> {
        Arc::new(Self { engine: RwLock::new(Some(engine)), limits, metrics })
    }

    /// Takes the engine out, to drain it. From then on submissions are refused and `/readyz` says no.
    pub async fn take(&self) -> Option<Engine> {
        self.engine.write().await.take()
    }
}

/// Serves the daemon until `shutdown`; requests under way are finished, streams end with their engine.
pub async fn serve(
    listener: TcpListener,
    daemon: Arc<Daemon>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let folding = upkeep(daemon.metrics.clone());
    let app = Router::new()
        .route("/metrics", get(|State(daemon): State<Arc<Daemon>>| metrics(daemon.metrics.clone())))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/v1/tasks", post(submit))
        .route("/v1/rollouts", get(rollouts))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(daemon);
    let serving =
        async { axum::serve(listener, app).with_graceful_shutdown(shutdown).await.context("the HTTP server failed") };
    tokio::select! {
        served = serving => served,
        never = folding => match never {},
    }
}

/// The process answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// The tree runs and takes tasks.
async fn readyz(State(daemon): State<Arc<Daemon>>) -> Response {
    match daemon.engine.read().await.as_ref() {
        Some(engine) if engine.is_running() => "ready\n".into_response(),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "the engine has ended\n").into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
    }
}

/// A submitted task: a line of a task file, and how many episodes.
#[derive(Debug, Deserialize)]
struct Submission {
    #[serde(default)]
    group_size: Option<u32>,
    #[serde(flatten)]
    task: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<Submission>),
    One(Box<Submission>),
}

/// Groups that were queued.
#[derive(Debug, Serialize)]
struct Accepted {
    groups: Vec<Ticket>,
}

/// One of them.
#[derive(Debug, Serialize)]
struct Ticket {
    task_id: String,
    group_id: u64,
    episodes: u32,
}

/// A refusal: what was wrong, and what was queued before it.
#[derive(Debug, Serialize)]
struct Refused {
    error: String,
    accepted: Vec<Ticket>,
}

fn refuse(status: StatusCode, error: String, accepted: Vec<Ticket>) -> Response {
    (status, Json(Refused { error, accepted })).into_response()
}

/// `POST /v1/tasks`: one task or a list. All are checked before the first is queued.
async fn submit(State(daemon): State<Arc<Daemon>>, body: Bytes) -> Response {
    let submissions = match serde_json::from_slice(&body) {
        Ok(OneOrMany::One(one)) => vec![*one],
        Ok(OneOrMany::Many(many)) => many,
        Err(error) => {
            return refuse(
                StatusCode::BAD_REQUEST,
                format!("the body is not a task or a list of tasks: {error}"),
                vec![],
            );
        }
    };
    if submissions.is_empty() {
        return refuse(StatusCode::BAD_REQUEST, "the list has no task".to_owned(), vec![]);
    }
    let mut checked = Vec::with_capacity(submissions.len());
    for (at, submission) in submissions.into_iter().enumerate() {
        match check(submission) {
            Ok(task) => checked.push(task),
            Err(error) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, format!("task {at}: {error}"), vec![]),
        }
    }
    let engine = daemon.engine.read().await;
    let Some(engine) = engine.as_ref() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the daemon is draining".to_owned(), vec![]);
    };
    queue(engine, &daemon.limits, checked)
}

fn check(submission: Submission) -> Result<(TaskLine, Option<u32>), String> {
    if submission.group_size.is_some_and(|size| size == 0 || size > MAX_SUBMITTED_SIZE) {
        return Err(format!("`group_size` must lie between 1 and {MAX_SUBMITTED_SIZE}"));
    }
    let task: TaskLine = serde_json::from_value(submission.task.into()).map_err(|error| error.to_string())?;
    task.check()?;
    Ok((task, submission.group_size))
}

fn queue(engine: &Engine, limits: &Limits, tasks: Vec<(TaskLine, Option<u32>)>) -> Response {
    let mut accepted = Vec::with_capacity(tasks.len());
    for (line, size) in tasks {
        let task_id = line.id.clone();
        let task = Arc::new(line.into_task(limits));
        let episodes = size.unwrap_or(engine.group_size());
        match engine.submit_with(task, episodes, engine.sampling(), Purpose::Serve) {
            Ok(id) => accepted.push(Ticket { task_id, group_id: id.0, episodes }),
            Err(error) => {
                let status = match &error {
                    EngineError::Submit(SubmitError::Full { .. }) => StatusCode::TOO_MANY_REQUESTS,
                    EngineError::Submit(SubmitError::Quarantined { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                return refuse(status, format!("task `{task_id}`: {error}"), accepted);
            }
        }
    }
    (StatusCode::ACCEPTED, Json(Accepted { groups: accepted })).into_response()
}

/// `GET /v1/rollouts`: every rollout that ends from now on, as server-sent events named `rollout`. A client that does not read is cut
/// off rather than waited for.
async fn rollouts(State(daemon): State<Arc<Daemon>>) -> Response {
    match daemon.engine.read().await.as_ref() {
        Some(engine) => Sse::new(events(engine.rollouts())).keep_alive(KeepAlive::default()).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
    }
}

fn events(
    rollouts: impl Stream<Item = Arc<Rollout>> + Send,
) -> impl Stream<Item = Result<axum::response::sse::Event, axum::Error>> + Send {
    rollouts.map(|rollout| {
        let id = format!("{}-{}-{}", rollout.key.group_id.0, rollout.key.index, rollout.key.attempt);
        axum::response::sse::Event::default().event("rollout").id(id).json_data(RolloutRecord::from(rollout.as_ref()))
    })
}
