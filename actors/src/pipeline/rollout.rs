//! Stage: drives episodes. One small async task per group and per episode, no thread and no actor each.
//!
//! A driver asks the generator for an action, the sandbox pool for its effect and the evaluator for a verdict, each with a deadline,
//! and asks again where the host failed. Dropping this actor's state aborts its drivers, whose permits then hand their groups out
//! again.
//!
//! Invariant: every group that is run ends exactly once, with one rollout per episode, whatever fails underneath.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, Message, RpcReplyPort};
use tokio::task::JoinSet;

use rehearsal_models::{FinishReason, Sampling};
use rehearsal_sandboxes::{JudgeRequest, Judgement, Verdict};

use crate::codec::TextCodec;
use crate::hub::Event;
use crate::pipeline::Shared;
use crate::pipeline::credit::Permit;
use crate::pipeline::evaluator::{EvaluatorMsg, Evidence, Scored};
use crate::pipeline::generator::{GenerateCall, Generated, GeneratorMsg, NotGenerated, generating};
use crate::pipeline::learner::LearnerMsg;
use crate::pipeline::sandbox_pool::{JudgeCall, Judged, SandboxMsg, judging};
use crate::progress::{CountGuard, Progress};
use crate::task::Task;
use crate::types::{Action, EpisodeKey, Group, GroupSpec, Outcome, Purpose, Rollout, Timing, episode_seed};

/// How long each request may take, and how often it is asked again when the host failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// One completion, the generator's queue included.
    pub generate: Duration,
    /// One verdict, the pool's queue included.
    pub judge: Duration,
    /// A whole group; what has not ended by then ends as an infrastructure error.
    pub group: Duration,
    /// Further attempts after a failure of the host.
    pub retries: u32,
    /// Wait before the first of them; doubled each time.
    pub backoff: Duration,
}

/// Messages of the rollout stage.
#[derive(Debug)]
pub enum RolloutMsg {
    /// Run a group.
    Run {
        /// The group.
        spec: GroupSpec,
        /// Its place in the pipeline.
        permit: Permit,
    },
}

/// The rollout actor.
#[derive(Debug)]
pub struct RolloutStage;

/// What the rollout stage starts from.
#[derive(Debug, Clone)]
pub struct RolloutArgs {
    /// Renders, encodes and decodes.
    pub codec: Arc<dyn TextCodec>,
    /// Deadlines and retries.
    pub patience: Patience,
    /// The stages it asks, wired before it.
    pub generator: ActorRef<GeneratorMsg>,
    /// Runs code.
    pub sandbox: ActorRef<SandboxMsg>,
    /// Scores it.
    pub evaluator: ActorRef<EvaluatorMsg>,
    /// Takes complete training groups; absent where nothing is learned.
    pub learner: Option<ActorRef<LearnerMsg>>,
    /// Ledger, hub, metrics.
    pub shared: Shared,
}

/// The drivers at work.
#[derive(Debug)]
pub struct RolloutState {
    args: Arc<RolloutArgs>,
    groups: JoinSet<()>,
}

impl Actor for RolloutStage {
    type Msg = RolloutMsg;
    type State = RolloutState;
    type Arguments = RolloutArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<RolloutMsg>,
        args: RolloutArgs,
    ) -> Result<RolloutState, ActorProcessingErr> {
        Ok(RolloutState { args: Arc::new(args), groups: JoinSet::new() })
    }

    async fn handle(
        &self,
        _myself: ActorRef<RolloutMsg>,
        msg: RolloutMsg,
        state: &mut RolloutState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            RolloutMsg::Run { spec, permit } => {
                // Collect the finished, so that the set does not grow.
                while state.groups.try_join_next().is_some() {}
                state.groups.spawn(run_group(Arc::clone(&state.args), spec, permit));
            }
        }
        Ok(())
    }
}

async fn run_group(args: Arc<RolloutArgs>, spec: GroupSpec, permit: Permit) {
    let started = Instant::now();
    let mut rollouts: Vec<Arc<Rollout>> = Vec::with_capacity(spec.size as usize);
    let fault = match tokio::time::timeout(args.patience.group, admission_fault(&args, &spec.task)).await {
        Ok(fault) => fault,
        Err(_) => Some(Outcome::InfraError {
            detail: format!("the reference was not judged within {:?}", args.patience.group),
        }),
    };
    if let Some(fault) = fault {
        for index in 0..spec.size {
            rollouts.push(Arc::new(unrun(&spec, index, permit.attempt(), fault.clone())));
        }
        for rollout in &rollouts {
            publish(&args.shared, rollout).await;
        }
    } else {
        rollouts = run_episodes(&args, &spec, permit.attempt()).await;
    }
    args.shared.metrics.group_fill_seconds.record(started.elapsed().as_secs_f64());
    finish_group(&args, &spec, permit, rollouts).await;
}

/// Runs every episode of a group; a straggler ends at the group's deadline.
async fn run_episodes(args: &Arc<RolloutArgs>, spec: &GroupSpec, attempt: u32) -> Vec<Arc<Rollout>> {
    let deadline = tokio::time::Instant::now() + args.patience.group;
    let mut episodes = JoinSet::new();
    for index in 0..spec.size {
        let (args, spec) = (Arc::clone(args), spec.clone());
        episodes.spawn(async move {
            let _open = CountGuard::new(&args.shared.progress, |progress: &Progress| &progress.episodes);
            Driver::new(&args, &spec, index, attempt).run().await
        });
    }
    let mut done: Vec<Option<Arc<Rollout>>> = vec![None; spec.size as usize];
    while let Ok(Some(joined)) = tokio::time::timeout_at(deadline, episodes.join_next()).await {
        match joined {
            Ok(rollout) => {
                let rollout = Arc::new(rollout);
                publish(&args.shared, &rollout).await;
                let index = rollout.key.index as usize;
                done[index] = Some(rollout);
            }
            Err(error) => tracing::error!(group = spec.id.0, %error, "episode driver failed"),
        }
    }
    episodes.abort_all();
    let mut rollouts = Vec::with_capacity(done.len());
    for (index, rollout) in done.into_iter().enumerate() {
        let rollout = match rollout {
            Some(rollout) => rollout,
            None => {
                let detail = format!("not ended within the group's deadline of {:?}", args.patience.group);
                let rollout = Arc::new(unrun(spec, index as u32, attempt, Outcome::InfraError { detail }));
                args.shared.metrics.episode_stop_total.add("deadline", 1);
                publish(&args.shared, &rollout).await;
                rollout
            }
        };
        rollouts.push(rollout);
    }
    rollouts
}

/// Judges the task's reference, once per task. `None`: the task may be used.
async fn admission_fault(args: &Arc<RolloutArgs>, task: &Arc<Task>) -> Option<Outcome> {
    let reference = task.reference.clone()?;
    let verdict = task.admission().get_or_try_init(|| async {
        let request = task.judge_request(reference, 0);
        let judged = judge_with_retries(args, &request).await.map_err(|(detail, _)| Outcome::InfraError { detail })?;
        if let Verdict::InfraError { detail } = &judged.judgement.verdict {
            return Err(Outcome::InfraError { detail: detail.clone() });
        }
        let admit =
            |reply| EvaluatorMsg::Admit { task: Arc::clone(task), judgement: Box::new(judged.judgement), reply };
        ask(&args.evaluator, admit, args.patience.judge, "evaluator")
            .await
            .map_err(|detail| Outcome::InfraError { detail })
    });
    match verdict.await {
        Ok(None) => None,
        Ok(Some(reason)) => Some(Outcome::TaskError { detail: reason.clone() }),
        Err(outcome) => Some(outcome),
    }
}

/// A rollout for an episode the policy never acted in.
fn unrun(spec: &GroupSpec, index: u32, attempt: u32, outcome: Outcome) -> Rollout {
    let seed = episode_seed(spec.sampling.seed, index);
    Rollout {
        key: EpisodeKey { task_id: spec.task.id.clone(), group_id: spec.id, index, attempt, seed },
        purpose: spec.purpose,
        action: None,
        code: None,
        outcome,
        reward: None,
        judgement: None,
        timing: Timing::default(),
    }
}

async fn publish(shared: &Shared, rollout: &Arc<Rollout>) {
    shared.progress.tick();
    shared.progress.episodes_done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    shared.metrics.episodes_total.add(rollout.outcome.label(), 1);
    shared.metrics.episode_seconds.record(rollout.timing.total_s);
    if let Some(action) = &rollout.action {
        shared.metrics.episode_stop_total.add(stop_label(action.finish_reason), 1);
    }
    shared.hub.publish(Event::Rollout(Arc::clone(rollout))).await;
}

fn stop_label(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Eos => "eos",
        FinishReason::MaxTokens => "max_tokens",
        FinishReason::ContextFull => "context_full",
    }
}

/// Hands a complete group on, or ends it here. Episodes that may not become a reward leave before any mean is taken.
async fn finish_group(args: &RolloutArgs, spec: &GroupSpec, permit: Permit, rollouts: Vec<Arc<Rollout>>) {
    let scored: Vec<_> = rollouts.iter().filter(|rollout| rollout.reward.is_some()).cloned().collect();
    let task_fault = rollouts.iter().any(|rollout| matches!(rollout.outcome, Outcome::TaskError { .. }));
    let learner = args.learner.as_ref().filter(|_| spec.purpose == Purpose::Train);
    let fate = match learner {
        Some(learner) if scored.len() >= 2 || (spec.size == 1 && scored.len() == 1) => {
            let group = Group { id: spec.id, task_id: spec.task.id.clone(), rollouts: scored };
            if rollouts.len() > group.rollouts.len() {
                args.shared.metrics.groups_total.add("shrunk", 1);
            }
            // If the learner is gone the message is dropped, and its permit hands the group out again.
            let _ = learner.cast(LearnerMsg::Consume { group, permit });
            return;
        }
        _ if task_fault => "quarantined",
        Some(_) => "shrunk",
        None => "finished",
    };
    match rollouts.first().filter(|_| fate == "shrunk" && scored.is_empty()) {
        Some(unscored) => permit.fail(&spec.task.id, &unscored.outcome.detail()),
        None => permit.retire(),
    };
    if fate != "finished" {
        args.shared.metrics.groups_total.add(fate, 1);
    }
    args.shared.hub.publish(Event::GroupEnded { id: spec.id, task_id: spec.task.id.clone(), fate }).await;
}

/// One episode: an action, its effect, a verdict.
struct Driver<'a> {
    args: &'a Arc<RolloutArgs>,
    spec: &'a GroupSpec,
    key: EpisodeKey,
    timing: Timing,
    started: Instant,
}

impl<'a> Driver<'a> {
    fn new(args: &'a Arc<RolloutArgs>, spec: &'a GroupSpec, index: u32, attempt: u32) -> Self {
        let seed = episode_seed(spec.sampling.seed, index);
        let key = EpisodeKey { task_id: spec.task.id.clone(), group_id: spec.id, index, attempt, seed };
        Self { args, spec, key, timing: Timing::default(), started: Instant::now() }
    }

    async fn run(mut self) -> Rollout {
        match self.act().await {
            Ok(action) => self.verify(action).await,
            Err(outcome) => self.end(None, None, Scored { outcome, reward: None, judgement: None }),
        }
    }

    /// Asks for one completion, again if the host failed. A prompt that no policy of this context could answer is the task's fault.
    async fn act(&mut self) -> Result<Action, Outcome> {
        let codec = &self.args.codec;
        let task_fault = |detail| Outcome::TaskError { detail };
        let prompt: Arc<str> = codec.render(&self.spec.task.prompt).map_err(task_fault)?.into();
        let prompt_ids: Arc<[u32]> = codec.encode(&prompt).map_err(task_fault)?.into();
        let started = Instant::now();
        let mut failures = Failures::new(&self.args.patience);
        loop {
            match self.generate_once(&prompt_ids).await {
                Ok(completion) => {
                    self.timing.generate_s = started.elapsed().as_secs_f64();
                    return Ok(Action {
                        prompt,
                        prompt_ids,
                        text: codec.decode(&completion.completion_ids),
                        completion_ids: completion.completion_ids,
                        logprobs: completion.logprobs,
                        sampling_logprobs: completion.sampling_logprobs,
                        versions: completion.versions,
                        finish_reason: completion.finish_reason,
                    });
                }
                Err(NotGenerated::Refused(detail)) => return Err(task_fault(detail)),
                Err(NotGenerated::Host(cause)) => {
                    failures.again(cause).await.map_err(|detail| Outcome::InfraError { detail })?;
                    self.key.attempt += 1;
                }
            }
        }
    }

    async fn generate_once(&self, prompt_ids: &Arc<[u32]>) -> Generated {
        let sampling = Sampling { seed: self.key.seed, ..self.spec.sampling.clone() };
        let call = |reply| {
            GeneratorMsg::Generate(GenerateCall {
                prompt_ids: Arc::clone(prompt_ids),
                sampling,
                reply,
                guard: CountGuard::new(&self.args.shared.progress, generating),
                asked: Instant::now(),
            })
        };
        let answered = ask(&self.args.generator, call, self.args.patience.generate, "generator").await;
        answered.map_err(NotGenerated::Host)?
    }

    /// Runs the completion's code against the task's tests and scores what came of it.
    async fn verify(mut self, action: Action) -> Rollout {
        let code = self.spec.task.under_test(&action.text);
        let evidence = match code.clone() {
            None => Evidence::NoCode,
            Some(source) => {
                let request = self.spec.task.judge_request(source, self.key.seed);
                match judge_with_retries(self.args, &request).await {
                    Ok(judged) => {
                        self.timing.sandbox_queue_s = judged.queued.as_secs_f64();
                        self.timing.sandbox_s = judged.judgement.wall_us as f64 / 1e6;
                        Evidence::Judged(judged.judgement)
                    }
                    Err((detail, attempts)) => {
                        self.key.attempt += attempts;
                        let scored = Scored { outcome: Outcome::InfraError { detail }, reward: None, judgement: None };
                        return self.end(Some(action), code, scored);
                    }
                }
            }
        };
        let asked = Instant::now();
        let score =
            |reply| EvaluatorMsg::Score { task: Arc::clone(&self.spec.task), evidence: Box::new(evidence), reply };
        let scored = ask(&self.args.evaluator, score, self.args.patience.judge, "evaluator").await;
        self.args.shared.metrics.stage_seconds.record("evaluator", asked.elapsed());
        let scored = scored.unwrap_or_else(|detail| Scored {
            outcome: Outcome::InfraError { detail },
            reward: None,
            judgement: None,
        });
        self.end(Some(action), code, scored)
    }

    fn end(mut self, action: Option<Action>, code: Option<String>, scored: Scored) -> Rollout {
        self.timing.total_s = self.started.elapsed().as_secs_f64();
        Rollout {
            key: self.key,
            purpose: self.spec.purpose,
            action,
            code,
            outcome: scored.outcome,
            reward: scored.reward,
            judgement: scored.judgement,
            timing: self.timing,
        }
    }
}

/// Judges, again where the host failed: an infrastructure error is never handed on while attempts are left. The error carries the
/// first cause and the further attempts made.
async fn judge_with_retries(args: &Arc<RolloutArgs>, request: &JudgeRequest) -> Result<Judged, (String, u32)> {
    let mut failures = Failures::new(&args.patience);
    loop {
        let call = |reply: RpcReplyPort<Result<Judged, String>>| {
            SandboxMsg::Judge(Box::new(JudgeCall {
                request: request.clone(),
                reply,
                guard: CountGuard::new(&args.shared.progress, judging),
                asked: Instant::now(),
            }))
        };
        let judged = ask(&args.sandbox, call, args.patience.judge, "sandbox pool").await.and_then(|judged| judged);
        let cause = match judged {
            Ok(Judged { judgement: Judgement { verdict: Verdict::InfraError { detail }, .. }, .. }) => detail,
            Ok(judged) => return Ok(judged),
            Err(cause) => cause,
        };
        failures.again(cause).await.map_err(|cause| (cause, args.patience.retries))?;
    }
}

/// Counts the host's failures of one request, keeps the first cause, and waits longer each time.
struct Failures<'a> {
    patience: &'a Patience,
    count: u32,
    first: Option<String>,
}

impl<'a> Failures<'a> {
    fn new(patience: &'a Patience) -> Self {
        Self { patience, count: 0, first: None }
    }

    /// Waits and returns `Ok` if there is another attempt, or gives up with the first cause.
    async fn again(&mut self, cause: String) -> Result<(), String> {
        tracing::warn!(cause, attempt = self.count, "host failure, episode dispatched again");
        let first = self.first.get_or_insert(cause);
        self.count += 1;
        if self.count > self.patience.retries {
            return Err(format!("{first} (given up after {} attempts)", self.count));
        }
        tokio::time::sleep(self.patience.backoff.saturating_mul(1 << (self.count - 1).min(10))).await;
        Ok(())
    }
}

/// Asks an actor, with a deadline; a dropped reply port is an answer.
async fn ask<M: Message, T: Send + 'static>(
    actor: &ActorRef<M>,
    message: impl FnOnce(RpcReplyPort<T>) -> M,
    deadline: Duration,
    who: &str,
) -> Result<T, String> {
    match actor.call(message, Some(deadline)).await {
        Ok(CallResult::Success(answer)) => Ok(answer),
        Ok(CallResult::Timeout) => Err(format!("{who} did not answer within {deadline:?}")),
        Ok(CallResult::SenderError) => Err(format!("{who} died before it answered")),
        Err(error) => Err(format!("{who} is gone: {error}")),
    }
}
