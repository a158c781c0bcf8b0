//! The supervision tree: what happens when parts of it fail, and what never happens.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use rehearsal::config::Deadlines;
use rehearsal::{
    Engine, EngineConfig, Event, Outcome, PolicyParts, Purpose, Rollout, ScriptedPolicy, Subscription, Task,
};
use rehearsal_actors::pipeline::credit::{Curriculum, Sampler};
use rehearsal_actors::pipeline::learner::{LearnerConfig, ZeroVariance};
use rehearsal_actors::supervision::restart::RestartPolicy;
use rehearsal_models::rl::{Advantage, Aggregation, Objective, StdKind};
use rehearsal_models::{Sampling, StepReport, Train, TrainError, TrainGroup, Weights};

use crate::support::{ObedientSandbox, add_task, engine_config, eventually, soon, stopped};

/// Says back the prompt: a task's prompt is its completion, and so decides what the obedient sandbox does.
fn echo() -> ScriptedPolicy {
    ScriptedPolicy::new(|prompt, _seed| prompt.to_owned())
}

fn task(id: &str, code: &str) -> Arc<Task> {
    let mut task = Task::clone(&add_task(id));
    task.prompt = code.to_owned();
    Arc::new(task)
}

async fn start(config: EngineConfig, policy: impl Into<PolicyParts>, sandbox: &Arc<ObedientSandbox>) -> Engine {
    Engine::builder(config, policy, Arc::clone(sandbox) as Arc<dyn rehearsal::Sandbox>).start().await.unwrap()
}

/// Rollouts until `groups` groups have ended.
async fn until_ended(events: &mut Subscription, groups: usize) -> Vec<Arc<Rollout>> {
    let (mut rollouts, mut ended) = (Vec::new(), 0);
    while ended < groups {
        match soon("an event", events.next()).await {
            Some(Event::Rollout(rollout)) => rollouts.push(rollout),
            Some(Event::GroupEnded { .. }) => ended += 1,
            Some(Event::Stopped(cause)) => panic!("the tree ended: {cause:?}"),
            Some(_) => {}
            None => panic!("the stream ended after {ended} groups"),
        }
    }
    rollouts
}

#[tokio::test(flavor = "multi_thread")]
async fn every_episode_ends_exactly_once() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let engine = start(engine_config(3), echo(), &sandbox).await;
    let mut events = engine.subscribe();
    for n in 0..10 {
        engine.submit(task(&format!("t{n}"), &format!("pass {n}")), Purpose::Serve).unwrap();
    }
    let rollouts = until_ended(&mut events, 10).await;
    let mut times = HashMap::new();
    for rollout in &rollouts {
        assert_eq!((&rollout.outcome, rollout.reward), (&Outcome::Passed, Some(1.0)));
        *times.entry((rollout.key.group_id, rollout.key.index)).or_insert(0) += 1;
    }
    assert_eq!((times.len(), times.values().max()), (30, Some(&1)));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_sandbox_worker_costs_one_attempt_and_never_a_verdict() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let engine = start(engine_config(1), echo(), &sandbox).await;
    let mut events = engine.subscribe();
    engine.submit(task("a", "panic 2 then pass"), Purpose::Serve).unwrap();
    let rollouts = until_ended(&mut events, 1).await;
    assert_eq!(rollouts.len(), 1);
    assert_eq!(rollouts[0].outcome, Outcome::Passed);
    assert_eq!(sandbox.judged(), 3);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_host_is_dispatched_again_and_never_scored() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let engine = start(engine_config(1), echo(), &sandbox).await;
    let mut events = engine.subscribe();
    engine.submit(task("recovers", "infra 2 then pass"), Purpose::Serve).unwrap();
    engine.submit(task("never", "infra 99 then pass"), Purpose::Serve).unwrap();
    for rollout in until_ended(&mut events, 2).await {
        if &*rollout.key.task_id.0 == "recovers" {
            assert_eq!((&rollout.outcome, rollout.reward), (&Outcome::Passed, Some(1.0)));
        } else {
            let Outcome::InfraError { detail } = &rollout.outcome else { panic!("{:?}", rollout.outcome) };
            assert!(detail.contains("time 1 ") || detail.contains("time 1"), "the first cause is kept: {detail}");
            assert_eq!(rollout.reward, None);
            assert_eq!(rollout.key.attempt, 3);
        }
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_straggler_ends_at_its_groups_deadline_and_the_rest_go_on() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let mut config = engine_config(1);
    config.deadlines = Deadlines { group_s: 1, judge_s: 1, retries: 0, ..config.deadlines };
    let engine = start(config, echo(), &sandbox).await;
    let mut events = engine.subscribe();
    engine.submit(task("slow", "hang"), Purpose::Serve).unwrap();
    engine.submit(task("quick", "pass"), Purpose::Serve).unwrap();
    let outcomes: HashMap<_, _> =
        until_ended(&mut events, 2).await.iter().map(|r| (r.key.task_id.to_string(), r.outcome.label())).collect();
    assert_eq!(outcomes, HashMap::from([("slow".to_owned(), "infra_error"), ("quick".to_owned(), "passed")]));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_reference_fails_is_never_scored_and_blocks_nobody_elses() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let engine = start(engine_config(2), echo(), &sandbox).await;
    let mut events = engine.subscribe();
    let mut broken = Task::clone(&task("same-name", "pass"));
    broken.reference = Some("this does not do it".to_owned());
    engine.submit(Arc::new(broken), Purpose::Serve).unwrap();
    for rollout in until_ended(&mut events, 1).await {
        assert_eq!((rollout.outcome.label(), rollout.reward), ("task_error", None));
        assert!(rollout.outcome.detail().contains("reference"), "{:?}", rollout.outcome);
    }
    engine.submit(task("same-name", "pass"), Purpose::Serve).unwrap();
    for rollout in until_ended(&mut events, 1).await {
        assert_eq!(rollout.outcome, Outcome::Passed);
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_every_task_is_at_fault_ends_and_says_why() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let mut parts = PolicyParts::from(echo());
    parts.trainer = Some(Box::new(ObedientTrainer { steps: 0, asked: 0, refuse: 0, groups: Arc::default() }));
    let mut config = engine_config(2);
    config.learner = Some(learner_config(1));
    let engine = start(config, parts, &sandbox).await;
    let mut events = engine.subscribe();
    let broken = |name: &str| {
        let mut broken = Task::clone(&task(name, "pass"));
        broken.reference = Some("this does not do it".to_owned());
        Arc::new(broken)
    };
    engine.train(curriculum(vec![broken("a"), broken("b")], 2, 5));
    let cause = loop {
        if let Some(Event::Stopped(cause)) = soon("the end", events.next()).await {
            break cause.unwrap();
        }
    };
    assert!(cause.contains("every training task is quarantined") && cause.contains("reference"), "{cause}");
}

fn learner_config(groups_per_step: usize) -> LearnerConfig {
    LearnerConfig {
        objective: Objective {
            advantage: Advantage::Grpo { std: StdKind::Sample, epsilon: 1e-6 },
            clip_low: 0.2,
            clip_high: 0.2,
            aggregation: Aggregation::TokenMean,
        },
        temperature: 1.0,
        groups_per_step,
        max_staleness: 0,
        zero_variance: ZeroVariance::Drop,
        mask_truncated: false,
    }
}

fn curriculum(tasks: Vec<Arc<Task>>, group_size: u32, steps: u64) -> Curriculum {
    let sampling = Sampling { temperature: 1.0, top_p: 1.0, max_tokens: 64, seed: 1 };
    Curriculum { tasks, sampler: Sampler::Shuffled, group_size, sampling, steps }
}

/// A policy whose decoder fails `deaths` times over its restarts, while it holds requests.
fn dying_policy(deaths: u32) -> (PolicyParts, Arc<AtomicU32>) {
    #[derive(Debug)]
    struct Dying(Box<dyn rehearsal_models::Generate>, Arc<AtomicU32>, u32);
    impl rehearsal_models::Generate for Dying {
        fn admit(
            &mut self,
            requests: Vec<rehearsal_models::GenerationRequest>,
        ) -> Result<(), rehearsal_models::GenerateError> {
            self.0.admit(requests)
        }
        fn step(&mut self) -> Result<Vec<rehearsal_models::Completion>, rehearsal_models::GenerateError> {
            if self.1.fetch_add(1, Ordering::Relaxed) < self.2 {
                panic!("the device is gone");
            }
            self.0.step()
        }
        fn active(&self) -> usize {
            self.0.active()
        }
        fn capacity(&self) -> usize {
            self.0.capacity()
        }
        fn cancel(&mut self, id: u64) {
            self.0.cancel(id);
        }
        fn set_weights(&mut self, weights: &Weights) -> Result<(), rehearsal_models::GenerateError> {
            self.0.set_weights(weights)
        }
        fn version(&self) -> u64 {
            self.0.version()
        }
    }
    let mut parts = PolicyParts::from(echo());
    let (inner, died) = (Arc::clone(&parts.generator), Arc::new(AtomicU32::new(0)));
    let counter = Arc::clone(&died);
    parts.generator = Arc::new(move || {
        Ok(Box::new(Dying(inner()?, Arc::clone(&counter), deaths)) as Box<dyn rehearsal_models::Generate>)
    });
    (parts, died)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_generator_is_restarted_and_no_group_is_lost_or_run_twice() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let (policy, _) = dying_policy(3);
    let engine = start(engine_config(2), policy, &sandbox).await;
    let mut events = engine.subscribe();
    for n in 0..6 {
        engine.submit(task(&format!("t{n}"), &format!("pass {n}")), Purpose::Serve).unwrap();
    }
    let rollouts = until_ended(&mut events, 6).await;
    let ended: HashMap<_, _> = rollouts.iter().map(|r| ((r.key.group_id, r.key.index), r.outcome.label())).collect();
    assert_eq!(ended.len(), 12);
    assert!(ended.values().all(|outcome| *outcome == "passed"), "{ended:?}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_keeps_dying_ends_the_run_with_the_first_cause() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let (policy, _) = dying_policy(u32::MAX);
    let mut config = engine_config(1);
    config.deadlines.retries = 100;
    config.restart = RestartPolicy { max_restarts: 3, ..config.restart };
    let engine = start(config, policy, &sandbox).await;
    let mut events = engine.subscribe();
    engine.submit(task("a", "pass"), Purpose::Serve).unwrap();
    let cause = loop {
        match soon("the end", events.next()).await {
            Some(Event::Stopped(cause)) => break cause.unwrap(),
            Some(_) => {}
            None => panic!("the stream ended without a cause"),
        }
    };
    assert!(cause.contains("generator failed 4 times") && cause.contains("the device is gone"), "{cause}");
    stopped(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moving_ends_the_run_with_a_diagnosis() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let mut config = engine_config(1);
    config.deadlines.watchdog_s = 1;
    let engine = start(config, echo(), &sandbox).await;
    let mut events = engine.subscribe();
    engine.submit(task("slow", "hang"), Purpose::Serve).unwrap();
    let cause = loop {
        if let Some(Event::Stopped(cause)) = soon("the end", events.next()).await {
            break cause.unwrap();
        }
    };
    assert!(cause.contains("no progress") && cause.contains("sandbox pool 1"), "{cause}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_in_one_process_do_not_meet() {
    let (left, right) = (Arc::new(ObedientSandbox::default()), Arc::new(ObedientSandbox::default()));
    let first = start(engine_config(1), echo(), &left).await;
    let second = start(engine_config(1), echo(), &right).await;
    let (mut from_first, mut from_second) = (first.rollouts(), second.rollouts());
    first.submit(task("left", "pass"), Purpose::Serve).unwrap();
    second.submit(task("right", "fail"), Purpose::Serve).unwrap();
    assert_eq!(&*soon("left", from_first.next()).await.unwrap().key.task_id.0, "left");
    assert_eq!(&*soon("right", from_second.next()).await.unwrap().key.task_id.0, "right");
    first.stop().await;
    second.submit(task("again", "pass"), Purpose::Serve).unwrap();
    assert_eq!(&*soon("again", from_second.next()).await.unwrap().key.task_id.0, "again");
    assert_eq!((left.judged(), right.judged()), (1, 2));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_lets_what_was_taken_end_and_takes_nothing_new() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let engine = start(engine_config(2), echo(), &sandbox).await;
    let mut events = engine.subscribe();
    for n in 0..8 {
        engine.submit(task(&format!("t{n}"), "pass"), Purpose::Serve).unwrap();
    }
    engine.drain(Duration::from_secs(60)).await.unwrap();
    let mut rollouts = 0;
    while let Some(event) = soon("an event", events.next()).await {
        rollouts += usize::from(matches!(event, Event::Rollout(_)));
    }
    assert_eq!(rollouts, 16);
}

/// A trainer under the test's control: counts steps, refuses those it is told to.
#[derive(Debug)]
struct ObedientTrainer {
    steps: u64,
    asked: u64,
    refuse: u64,
    groups: Arc<Mutex<Vec<usize>>>,
}

impl Train for ObedientTrainer {
    fn step(
        &mut self,
        groups: &[TrainGroup],
        _: &Objective,
        _: f32,
        _: &mut dyn FnMut(usize, usize),
    ) -> Result<StepReport, TrainError> {
        self.asked += 1;
        if self.asked == self.refuse {
            return Err(TrainError::NonFinite { what: "gradient" });
        }
        self.steps += 1;
        self.groups.lock().unwrap().push(groups.len());
        let sum: f64 = groups.iter().flat_map(|group| &group.sequences).map(|sequence| sequence.advantage).sum();
        assert!(sum.abs() < 1e-9, "advantages of whole groups sum to 0");
        Ok(StepReport {
            loss: 0.0,
            grad_norm: 1.0,
            entropy: 1.0,
            clip_fraction: 0.0,
            learning_rate: 0.1,
            trained_tokens: 1,
            forward_tokens: 1,
            logprob_mismatch_max: 0.0,
            logprob_mismatch_kl: 0.0,
        })
    }

    fn weights(&self) -> Weights {
        Weights::new(self.steps, Arc::new(()))
    }

    fn save(&self, _dir: &Path) -> Result<(), TrainError> {
        Ok(())
    }

    fn restore(&mut self, _dir: &Path) -> Result<(), TrainError> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn training_is_on_policy_and_a_refused_step_changes_nothing_but_is_counted() {
    let sandbox = Arc::new(ObedientSandbox::default());
    let groups = Arc::new(Mutex::new(Vec::new()));
    // Half of the episodes of a group pass, by the parity of their seed's low bits.
    let policy =
        ScriptedPolicy::new(|_prompt, seed| if seed.count_ones() % 2 == 0 { "pass".into() } else { "nothing".into() });
    let mut parts = PolicyParts::from(policy);
    parts.trainer = Some(Box::new(ObedientTrainer { steps: 0, asked: 0, refuse: 2, groups: Arc::clone(&groups) }));
    let mut config = engine_config(8);
    config.learner = Some(learner_config(3));
    let engine = start(config, parts, &sandbox).await;
    let mut events = engine.subscribe();
    engine.train(curriculum((0..5).map(|n| task(&format!("t{n}"), "unused")).collect(), 8, 5));
    let mut summaries = Vec::new();
    while summaries.len() < 5 {
        match soon("an event", events.next()).await {
            Some(Event::Step(summary)) => summaries.push(summary),
            Some(Event::Stopped(cause)) => panic!("{cause:?}"),
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    }
    assert_eq!(summaries.iter().map(|s| s.step).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(summaries.iter().map(|s| s.weights_version).collect::<Vec<_>>(), [1, 1, 2, 3, 4]);
    assert!(summaries.iter().all(|s| s.staleness_max == 0 && s.groups == 3));
    assert!(summaries[1].refused.as_ref().unwrap().contains("gradient is not finite"));
    assert_eq!(engine.cursor().batches, 5);
    eventually("idle", || engine.progress().episodes.load(Ordering::Relaxed) == 0).await;
    engine.stop().await;
}
