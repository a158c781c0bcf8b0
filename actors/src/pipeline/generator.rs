//! Stage: prompts → completions. Owns the device thread.
//!
//! Asked by episode drivers; answers each with its completion. The thread samples one token for every active request per step,
//! lets requests join and leave in between, and looks at the weights channel there too: it serves nothing before it holds the
//! current version. When it dies, its callers see a dropped reply port and ask again after the restart.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError, bounded};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::watch;

use rehearsal_models::{Completion, Generate, GenerateError, GenerationRequest, Sampling, Weights};

use crate::pipeline::Shared;
use crate::progress::{CountGuard, Progress};
use crate::worker;

/// How long an idle generator waits for more requests before its first step, so that a group's equal prompts are admitted
/// together and prefilled once.
const GATHER: Duration = Duration::from_millis(3);
const STACK_BYTES: usize = 16 << 20;

/// Builds the decoder, on the device thread; called again at every restart.
pub type GeneratorFactory = Arc<dyn Fn() -> Result<Box<dyn Generate>, String> + Send + Sync>;

/// Why a request was not answered with a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGenerated {
    /// The request itself cannot be met (a prompt longer than the context): asking again is no use.
    Refused(String),
    /// The host failed: it may be asked again.
    Host(String),
}

/// The answer to a request.
pub type Generated = Result<Completion, NotGenerated>;

/// One request in flight.
#[derive(Debug)]
pub struct GenerateCall {
    /// The prompt's tokens.
    pub prompt_ids: Arc<[u32]>,
    /// How to sample.
    pub sampling: Sampling,
    /// Where the answer goes. Dropped without one: the generator died.
    pub reply: RpcReplyPort<Generated>,
    /// Counts the request while it lives.
    pub guard: CountGuard,
    /// When it was asked.
    pub asked: Instant,
}

/// Messages of the generator.
#[derive(Debug)]
pub enum GeneratorMsg {
    /// Sample a completion.
    Generate(GenerateCall),
    /// The device thread ended with this cause.
    Died(String),
}

/// The generator actor.
#[derive(Debug)]
pub struct Generator;

/// What a generator starts from.
#[derive(Clone)]
pub struct GeneratorArgs {
    /// Builds the decoder.
    pub factory: GeneratorFactory,
    /// Requests that may be inside at once (the permits bound them already; this is the backstop).
    pub queue: usize,
    /// Ledger, metrics, weights.
    pub shared: Shared,
}

impl std::fmt::Debug for GeneratorArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeneratorArgs").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The actor's side of the thread's queue. Dropping it ends the thread.
#[derive(Debug)]
pub struct GeneratorState {
    queue: Sender<GenerateCall>,
}

impl Actor for Generator {
    type Msg = GeneratorMsg;
    type State = GeneratorState;
    type Arguments = GeneratorArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<GeneratorMsg>,
        args: GeneratorArgs,
    ) -> Result<GeneratorState, ActorProcessingErr> {
        let (queue, requests) = bounded(args.queue);
        let report = myself.clone();
        let died = move |cause: String| drop(report.cast(GeneratorMsg::Died(cause)));
        let report_end = died.clone();
        let work = move || {
            if let Err(cause) = DeviceLoop::start(&args, requests).and_then(DeviceLoop::run) {
                report_end(cause);
            }
        };
        worker::spawn("rehearsal-generator", STACK_BYTES, work, died)?;
        Ok(GeneratorState { queue })
    }

    async fn handle(
        &self,
        _myself: ActorRef<GeneratorMsg>,
        msg: GeneratorMsg,
        state: &mut GeneratorState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            GeneratorMsg::Generate(call) => state.enqueue(call),
            GeneratorMsg::Died(cause) => Err(cause.into()),
        }
    }
}

impl GeneratorState {
    fn enqueue(&self, call: GenerateCall) -> Result<(), ActorProcessingErr> {
        match self.queue.try_send(call) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(call)) => {
                // The asker may be gone; that is not our failure.
                let full = format!("the generator's queue of {} is full", self.queue.len());
                let _ = call.reply.send(Err(NotGenerated::Host(full)));
                Ok(())
            }
            // The thread is gone and its `Died` is on its way; dropping the call tells the asker.
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// The device thread.
struct DeviceLoop {
    decoder: Box<dyn Generate>,
    requests: Receiver<GenerateCall>,
    weights: watch::Receiver<Weights>,
    active: HashMap<u64, GenerateCall>,
    next_id: u64,
    shared: Shared,
}

impl DeviceLoop {
    fn start(args: &GeneratorArgs, requests: Receiver<GenerateCall>) -> Result<Self, String> {
        let decoder = (args.factory)()?;
        let weights = args.shared.weights.subscribe();
        Ok(Self { decoder, requests, weights, active: HashMap::new(), next_id: 0, shared: args.shared.clone() })
    }

    fn run(mut self) -> Result<(), String> {
        self.take_weights()?;
        while let Some(joining) = self.gather() {
            self.take_weights()?;
            self.admit(joining)?;
            self.drop_abandoned();
            if self.active.is_empty() {
                continue;
            }
            let batch = self.active.len();
            let finished = self.decoder.step().map_err(|error| error.to_string())?;
            self.shared.progress.tick();
            self.shared.progress.tokens.fetch_add(batch as u64, std::sync::atomic::Ordering::Relaxed);
            self.shared.metrics.generator_batch_size.set("running", batch as f64);
            self.shared.metrics.generator_batch_size.set("waiting", self.requests.len() as f64);
            self.shared.metrics.queue_depth.set("generator", self.requests.len() as f64);
            self.shared.metrics.in_flight.set("generator", batch as f64);
            for completion in finished {
                self.answer(completion);
            }
        }
        Ok(())
    }

    /// Requests that join now; `None` once the actor is gone. Waits only while nothing is active.
    fn gather(&self) -> Option<Vec<GenerateCall>> {
        let mut joining = Vec::new();
        if self.active.is_empty() {
            self.shared.metrics.generator_batch_size.set("running", 0.0);
            self.shared.metrics.in_flight.set("generator", 0.0);
            joining.push(self.requests.recv().ok()?);
            while self.has_room(joining.len()) {
                match self.requests.recv_timeout(GATHER) {
                    Ok(call) => joining.push(call),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
        }
        while self.has_room(joining.len()) {
            match self.requests.try_recv() {
                Ok(call) => joining.push(call),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        Some(joining)
    }

    fn has_room(&self, joining: usize) -> bool {
        self.active.len() + joining < self.decoder.capacity()
    }

    fn take_weights(&mut self) -> Result<(), String> {
        // A closed channel means the engine is going down; the queue closes next.
        if self.weights.has_changed().unwrap_or(false) {
            let weights = self.weights.borrow_and_update().clone();
            if weights.version() != self.decoder.version() {
                self.decoder.set_weights(&weights).map_err(|error| error.to_string())?;
            }
            self.shared.metrics.weights_version.set("generator", weights.version() as f64);
        }
        Ok(())
    }

    fn admit(&mut self, joining: Vec<GenerateCall>) -> Result<(), String> {
        let mut requests = Vec::with_capacity(joining.len());
        for call in joining {
            self.next_id += 1;
            self.shared.metrics.queue_seconds.record("generator", call.asked.elapsed());
            requests.push(GenerationRequest {
                id: self.next_id,
                prompt_ids: Arc::clone(&call.prompt_ids),
                sampling: call.sampling.clone(),
            });
            self.active.insert(self.next_id, call);
        }
        match self.decoder.admit(requests.clone()) {
            Ok(()) => self.count_prompts(&requests),
            // One of them does not fit: admit one by one, so that only that one is refused.
            Err(_) => {
                for request in requests {
                    match self.decoder.admit(vec![request.clone()]) {
                        Ok(()) => self.count_prompts(&[request]),
                        Err(error) => self.refuse(request.id, &error),
                    }
                }
            }
        }
        Ok(())
    }

    fn count_prompts(&self, requests: &[GenerationRequest]) {
        let mut seen: Vec<&Arc<[u32]>> = Vec::new();
        for request in requests {
            let cached = seen.contains(&&request.prompt_ids);
            let kind = if cached { "cached_prompt" } else { "prompt" };
            self.shared.metrics.tokens_total.add(kind, request.prompt_ids.len() as u64);
            if !cached {
                seen.push(&request.prompt_ids);
            }
        }
    }

    fn refuse(&mut self, id: u64, error: &GenerateError) {
        if let Some(call) = self.active.remove(&id) {
            let detail = error.to_string();
            let not_generated = match error {
                GenerateError::PromptTooLong { .. }
                | GenerateError::EmptyPrompt
                | GenerateError::UnknownToken { .. } => NotGenerated::Refused(detail),
                GenerateError::BatchFull { .. }
                | GenerateError::WrongWeights(_)
                | GenerateError::NonFinite { .. }
                | GenerateError::Backend(_) => NotGenerated::Host(detail),
            };
            let _ = call.reply.send(Err(not_generated));
        }
    }

    /// Frees the places of requests whose asker has gone (deadline, shutdown).
    fn drop_abandoned(&mut self) {
        let decoder = &mut self.decoder;
        self.active.retain(|id, call| {
            let wanted = !call.reply.is_closed();
            if !wanted {
                decoder.cancel(*id);
            }
            wanted
        });
    }

    fn answer(&mut self, completion: Completion) {
        let Some(call) = self.active.remove(&completion.id) else { return };
        self.shared.metrics.tokens_total.add("completion", completion.completion_ids.len() as u64);
        self.shared.metrics.stage_seconds.record("generator", call.asked.elapsed());
        let _ = call.reply.send(Ok(completion));
    }
}

/// The gauge [`GenerateCall::guard`] counts on.
pub(crate) fn generating(progress: &Progress) -> &std::sync::atomic::AtomicI64 {
    &progress.generating
}
