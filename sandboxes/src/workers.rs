//! Sandboxes in processes of their own: the same binary again, one request at a time over a pipe.
//!
//! A guest that takes its process down takes one attempt with it, never the engine; and page faults of guests in several
//! address spaces do not wait for each other, which is what lets two cores judge nearly twice as fast as one.

mod pool;
mod process;
mod protocol;
mod serve;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::program::{Execution, Limits, Program};
use crate::sandbox::Sandbox;
use crate::snapshot::Snapshot;
use crate::verdict::{JudgeRequest, Judgement, Tests};

use pool::Pool;
use protocol::{Answer, Question};

pub use serve::serve_worker;

/// What a worker may take beyond the guests' own backstops before it is given up: queues of the system, copying, a slow start.
pub const GRACE: Duration = Duration::from_secs(30);
/// What tests may take beyond the player's backstop, as `judge_limits` has it.
const TESTS: Duration = Duration::from_secs(60);

/// The longest any question may take: a task of many runs does not get for ever.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// How workers are started.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments: they make it call [`serve_worker`].
    pub arguments: Vec<String>,
    /// Where the image's members are unpacked.
    pub image_dir: PathBuf,
    /// Where its snapshot is.
    pub cache_dir: PathBuf,
    /// What a worker may take beyond the guests' own backstops before it is given up. See [`GRACE`].
    pub grace: Duration,
}

/// Runs programs in worker processes. Any number of threads may call; each waits for a free worker.
///
/// A worker that dies, does not answer in time or answers nonsense is killed and replaced; what it was asked ends as the
/// host's failure ([`End::HostError`](crate::End::HostError), `Verdict::InfraError`), which is never a reward.
pub struct ProcessSandbox {
    pool: Pool,
    grace: Duration,
    image: &'static str,
}

impl fmt::Debug for ProcessSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSandbox").field("image", &self.image).finish_non_exhaustive()
    }
}

impl ProcessSandbox {
    /// A sandbox of at most `processes` workers, each started when it is first needed. `snapshot` is what they must have.
    pub fn new(spec: WorkerSpec, snapshot: &Snapshot, processes: usize) -> Self {
        let image = snapshot.image.name;
        let grace = spec.grace;
        Self { grace, pool: Pool::new(spec, snapshot.key.clone(), processes.max(1)), image }
    }

    /// The process ids of the workers that live now.
    pub fn process_ids(&self) -> Vec<u32> {
        self.pool.process_ids()
    }
}

impl Sandbox for ProcessSandbox {
    fn execute(&self, program: &Program, limits: &Limits) -> Execution {
        let patience = Duration::from_millis(limits.wall_ms) + self.grace;
        match self
            .pool
            .ask(&Question::Execute { program: Cow::Borrowed(program), limits: Cow::Borrowed(limits) }, patience)
        {
            Ok(Answer::Execution(execution)) => *execution,
            Ok(_) => Execution::refused("a sandbox worker answered something else".into()),
            Err(failure) => Execution::refused(failure.to_string()),
        }
    }

    fn judge(&self, request: &JudgeRequest) -> Judgement {
        let refused = |detail| Judgement::infra(detail, request.tests.declared());
        match self.pool.ask(&Question::Judge(Cow::Borrowed(request)), longest(request) + self.grace) {
            Ok(Answer::Judgement(judgement)) => *judgement,
            Ok(_) => refused("a sandbox worker answered something else".into()),
            Err(failure) => refused(failure.to_string()),
        }
    }

    fn image(&self) -> &str {
        self.image
    }
}

/// The longest that a judgement takes where every part of it runs into its own backstop.
fn longest(request: &JudgeRequest) -> Duration {
    let wall = Duration::from_millis(request.limits.wall_ms);
    let (runs, checked) = match &request.tests {
        Tests::Stdio { cases, checker, .. } => (cases.len(), checker.is_some()),
        _ => (1, true),
    };
    let one = if checked { wall.saturating_mul(2).saturating_add(TESTS) } else { wall };
    one.saturating_mul(u32::try_from(runs.max(1)).unwrap_or(u32::MAX)).min(LONGEST)
}
