//! Stage: code → judgement. A pool of threads, each running one guest at a time.
//!
//! Asked by episode drivers through one bounded queue. A worker that dies takes one attempt with it: its caller sees a dropped
//! reply port, the worker is replaced after a back-off, and a pool whose workers keep dying fails as a whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use rehearsal_sandboxes::{JudgeRequest, Judgement, Sandbox};

use crate::pipeline::Shared;
use crate::progress::{CountGuard, Progress};
use crate::supervision::restart::{Decision, RestartPolicy, RestartWindow};
use crate::worker;

/// Address space, not memory: guests recurse on the thread's stack.
const STACK_BYTES: usize = 64 << 20;

/// A judgement and how long it waited for a worker.
#[derive(Debug)]
pub struct Judged {
    /// The sandbox's answer.
    pub judgement: Judgement,
    /// Time in the queue: never part of a limit.
    pub queued: Duration,
}

/// One request in flight.
#[derive(Debug)]
pub struct JudgeCall {
    /// What to judge.
    pub request: JudgeRequest,
    /// Where the answer goes. Dropped without one: the worker died.
    pub reply: RpcReplyPort<Result<Judged, String>>,
    /// Counts the request while it lives.
    pub guard: CountGuard,
    /// When it was asked.
    pub asked: Instant,
}

/// Messages of the pool.
#[derive(Debug)]
pub enum SandboxMsg {
    /// Judge code against tests.
    Judge(Box<JudgeCall>),
    /// A worker died with this cause.
    Died(String),
    /// A back-off is over.
    Replace,
}

/// The pool's actor.
#[derive(Debug)]
pub struct SandboxPool;

/// What a pool starts from.
#[derive(Debug, Clone)]
pub struct SandboxArgs {
    /// Runs the guests; shared by the workers.
    pub sandbox: Arc<dyn Sandbox>,
    /// Threads.
    pub workers: usize,
    /// Requests that may wait.
    pub queue: usize,
    /// How often workers may die.
    pub restart: RestartPolicy,
    /// Metrics and progress.
    pub shared: Shared,
}

/// The actor's side of the workers' queue. Dropping it ends them.
#[derive(Debug)]
pub struct SandboxState {
    args: SandboxArgs,
    queue: Sender<Box<JudgeCall>>,
    requests: Receiver<Box<JudgeCall>>,
    deaths: RestartWindow,
    live: Arc<AtomicI64>,
}

impl Actor for SandboxPool {
    type Msg = SandboxMsg;
    type State = SandboxState;
    type Arguments = SandboxArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<SandboxMsg>,
        args: SandboxArgs,
    ) -> Result<SandboxState, ActorProcessingErr> {
        let (queue, requests) = bounded(args.queue);
        let state = SandboxState { args, queue, requests, deaths: RestartWindow::default(), live: Arc::default() };
        for _ in 0..state.args.workers {
            state.spawn_worker(&myself)?;
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SandboxMsg>,
        msg: SandboxMsg,
        state: &mut SandboxState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            SandboxMsg::Judge(call) => state.enqueue(call),
            SandboxMsg::Died(cause) => state.bury(&myself, &cause),
            SandboxMsg::Replace => state.spawn_worker(&myself),
        }
    }
}

impl SandboxState {
    fn enqueue(&self, call: Box<JudgeCall>) -> Result<(), ActorProcessingErr> {
        match self.queue.try_send(call) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(call)) => {
                let _ = call.reply.send(Err(format!("the sandbox queue of {} is full", self.args.queue)));
            }
        }
        self.args.shared.metrics.queue_depth.set("sandbox", self.queue.len() as f64);
        Ok(())
    }

    fn bury(&mut self, myself: &ActorRef<SandboxMsg>, cause: &str) -> Result<(), ActorProcessingErr> {
        match self.deaths.decide(&self.args.restart, Instant::now()) {
            Decision::Restart { after } => {
                tracing::warn!(cause, after_ms = after.as_millis() as u64, "sandbox worker died, replacing it");
                self.args.shared.metrics.actor_restarts_total.add("sandbox", 1);
                myself.send_after(after, || SandboxMsg::Replace);
                Ok(())
            }
            Decision::Escalate { restarts } => {
                Err(format!("sandbox workers died {restarts} times; last: {cause}").into())
            }
        }
    }

    fn spawn_worker(&self, myself: &ActorRef<SandboxMsg>) -> Result<(), ActorProcessingErr> {
        let (requests, sandbox) = (self.requests.clone(), Arc::clone(&self.args.sandbox));
        let (shared, live) = (self.args.shared.clone(), Arc::clone(&self.live));
        let report = myself.clone();
        let work = move || {
            for call in requests {
                run_one(*call, sandbox.as_ref(), &shared, &live);
            }
        };
        worker::spawn("rehearsal-sandbox", STACK_BYTES, work, move |cause| drop(report.cast(SandboxMsg::Died(cause))))?;
        Ok(())
    }
}

/// Counts one live sandbox until dropped, a panic included.
struct Live<'a>(&'a AtomicI64, &'a Shared);

impl<'a> Live<'a> {
    fn new(live: &'a AtomicI64, shared: &'a Shared) -> Self {
        shared.metrics.sandboxes_live.set((live.fetch_add(1, Ordering::Relaxed) + 1) as f64);
        Self(live, shared)
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.1.metrics.sandboxes_live.set((self.0.fetch_sub(1, Ordering::Relaxed) - 1) as f64);
    }
}

fn run_one(call: JudgeCall, sandbox: &dyn Sandbox, shared: &Shared, live: &AtomicI64) {
    let JudgeCall { request, reply, guard, asked } = call;
    let queued = asked.elapsed();
    shared.metrics.queue_seconds.record("sandbox", queued);
    // Nobody waits for it any more: a deadline passed or the engine stops.
    if reply.is_closed() {
        return;
    }
    let counted = Live::new(live, shared);
    let judgement = sandbox.judge(&request);
    drop(counted);
    let elapsed = asked.elapsed() - queued;
    shared.progress.tick();
    shared.metrics.stage_seconds.record("sandbox", elapsed);
    shared.metrics.sandbox_run_seconds.record(elapsed.as_secs_f64());
    shared.metrics.sandbox_start_seconds.record(judgement.start_us as f64 / 1e6);
    shared.metrics.sandbox_fuel.record(judgement.fuel_used as f64);
    shared.metrics.sandbox_total.add(judgement.end.label(), 1);
    drop(guard);
    let _ = reply.send(Ok(Judged { judgement, queued }));
}

/// The gauge [`JudgeCall::guard`] counts on.
pub(crate) fn judging(progress: &Progress) -> &AtomicI64 {
    &progress.judging
}
