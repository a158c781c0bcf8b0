//! What the tests share: artefacts (fetched by the program itself on first use), an engine with parts under the test's control, waiting
//! with a deadline instead of sleeping.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rehearsal::config::{Deadlines, RolloutSection};
use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal::progress::Quiet;
use rehearsal::ractor::ActorStatus;
use rehearsal::{Engine, EngineConfig, Limits, RewardRule, Sandbox, Task, Tests};
use rehearsal_actors::supervision::restart::RestartPolicy;
use rehearsal_sandboxes::{End, Execution, JudgeRequest, Judgement, Program, TestCase, Verdict};

/// The longest any single wait of a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The policy file of the main job.
pub(crate) fn policy_file() -> PathBuf {
    prepare::policy_path(&Home::open().unwrap(), prepare::DEFAULT_POLICY, &Quiet).unwrap()
}

/// The real Python sandbox, opened once for the whole test binary.
pub(crate) fn python() -> Arc<dyn Sandbox> {
    static SANDBOX: OnceLock<Arc<dyn Sandbox>> = OnceLock::new();
    Arc::clone(SANDBOX.get_or_init(|| prepare::sandbox(&Home::open().unwrap(), "python", &Quiet).unwrap()))
}

/// Fails the test, rather than hanging it, when `future` takes too long.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nothing within {PATIENCE:?}"),
    }
}

/// Polls until `condition` holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(crate) async fn stopped(engine: &Engine) {
    let cell = engine.cell();
    eventually("the tree's end", || cell.get_status() == ActorStatus::Stopped).await;
}

pub(crate) fn engine_config(group_size: u32) -> EngineConfig {
    EngineConfig {
        seed: 7,
        rollout: RolloutSection {
            group_size,
            temperature: 1.0,
            top_p: 1.0,
            max_tokens: 200,
            max_in_flight_groups: 4,
            max_pending_groups: 64,
        },
        sandbox_workers: 2,
        rewards: RewardRule::default(),
        deadlines: Deadlines { backoff_ms: 1, ..Deadlines::default() },
        restart: RestartPolicy { backoff: Duration::from_millis(1), ..RestartPolicy::default() },
        learner: None,
        cursor: Default::default(),
    }
}

pub(crate) fn add_task(id: &str) -> Arc<Task> {
    let cases = vec![TestCase { args: vec![1.into(), 2.into()], expected: 3.into(), public: false }];
    let mut task = Task::new(
        id.into(),
        format!("task {id}: write add(a, b)"),
        Tests::Call { entry_point: "add".into(), cases, rule: Default::default() },
    );
    task.limits = Limits { wall_ms: 60_000, ..Limits::default() };
    Arc::new(task)
}

/// A sandbox under the test's control: it judges by what the code says, so that failures of the host can be had at will.
///
/// `pass` in the code passes, `panic N` panics on the first N judgements of that code, `infra N` fails as the host would on the first N,
/// `hang` sleeps past every deadline of the tests; anything else fails.
#[derive(Debug, Default)]
pub(crate) struct ObedientSandbox {
    judged: AtomicU32,
    seen: Mutex<HashMap<String, u32>>,
}

impl ObedientSandbox {
    pub(crate) fn judged(&self) -> u32 {
        self.judged.load(Ordering::Relaxed)
    }

    fn times(&self, code: &str) -> u32 {
        let mut seen = self.seen.lock().unwrap();
        let times = seen.entry(code.to_owned()).or_insert(0);
        *times += 1;
        *times
    }
}

fn number_after(code: &str, word: &str) -> Option<u32> {
    code.split(word).nth(1)?.split_whitespace().next()?.parse().ok()
}

impl Sandbox for ObedientSandbox {
    fn execute(&self, _program: &Program, _limits: &Limits) -> Execution {
        panic!("no test of the tree executes without judging")
    }

    fn judge(&self, request: &JudgeRequest) -> Judgement {
        self.judged.fetch_add(1, Ordering::Relaxed);
        let times = self.times(&request.code);
        if number_after(&request.code, "panic").is_some_and(|n| times <= n) {
            panic!("told to");
        }
        if request.code.contains("hang") {
            std::thread::sleep(Duration::from_secs(4));
        }
        let verdict = if number_after(&request.code, "infra").is_some_and(|n| times <= n) {
            Verdict::InfraError { detail: format!("told to, time {times}") }
        } else if request.code.contains("pass") {
            Verdict::Passed
        } else {
            Verdict::Failed { test: "case 1".into(), expected: "3".into(), got: "4".into() }
        };
        let passed = u32::from(verdict == Verdict::Passed);
        Judgement {
            verdict,
            tests_declared: 1,
            tests_executed: 1,
            tests_passed: passed,
            cases: vec![],
            fuel_used: 1,
            start_us: 1,
            wall_us: 1,
            peak_memory_bytes: 1,
            stdout: vec![],
            stderr: vec![],
            end: End::Exited,
        }
    }

    fn image(&self) -> &str {
        "obedient"
    }
}
