//! The workers there may be: who is free, who has to be started, who just failed to.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::WorkerSpec;
use super::process::{Worker, WorkerFailure};
use super::protocol::{Answer, Question};

/// The wait after the first worker that did not start; it doubles with each further one.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// The longest a caller waits for a free worker.
const QUEUE: Duration = Duration::from_secs(600);

struct State {
    /// Workers that wait for a question.
    idle: Vec<Worker>,
    /// Workers that live, or are being started or asked.
    taken: usize,
    /// Process ids of those being asked.
    busy: Vec<u32>,
    /// Starts that failed in a row, and when the next may be tried.
    failures: u32,
    not_before: Option<Instant>,
}

/// At most so many workers at once.
pub(super) struct Pool {
    spec: WorkerSpec,
    key: String,
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

impl Pool {
    pub(super) fn new(spec: WorkerSpec, key: String, most: usize) -> Self {
        let state = State { idle: Vec::new(), taken: 0, busy: Vec::new(), failures: 0, not_before: None };
        Self { spec, key, most, state: Mutex::new(state), freed: Condvar::new() }
    }

    /// Asks a free worker. One that gives no proper answer is gone with it.
    pub(super) fn ask(&self, question: &Question<'_>, patience: Duration) -> Result<Answer, WorkerFailure> {
        let mut worker = self.take()?;
        let id = worker.id();
        self.state().busy.push(id);
        let answer = worker.ask(question, patience);
        let good = matches!(answer, Ok(Answer::Execution(_) | Answer::Judgement(_)));
        // Killing takes its time: before the lock is held.
        let kept = if good {
            Some(worker)
        } else {
            drop(worker);
            None
        };
        let mut state = self.state();
        state.busy.retain(|busy| *busy != id);
        match kept {
            Some(worker) => state.idle.push(worker),
            None => state.taken -= 1,
        }
        drop(state);
        self.freed.notify_one();
        answer
    }

    /// A worker: a waiting one, or a new one where there is room.
    fn take(&self) -> Result<Worker, WorkerFailure> {
        let deadline = Instant::now() + QUEUE;
        let mut state = self.state();
        loop {
            if let Some(mut worker) = state.idle.pop() {
                // Killed while it waited: that cost nobody anything.
                if worker.lives() {
                    return Ok(worker);
                }
                state.taken -= 1;
                continue;
            }
            let now = Instant::now();
            let wait = state.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            if state.taken < self.most && wait.is_zero() {
                state.taken += 1;
                drop(state);
                return self.start();
            }
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Err(WorkerFailure::Busy(QUEUE));
            }
            let wait = if state.taken < self.most { wait.min(left) } else { left };
            (state, _) = self.freed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts a worker in a place already taken, and gives the place back where that fails.
    fn start(&self) -> Result<Worker, WorkerFailure> {
        let started = Worker::start(&self.spec, &self.key);
        let mut state = self.state();
        match &started {
            Ok(_) => (state.failures, state.not_before) = (0, None),
            Err(_) => {
                state.taken -= 1;
                let wait = BACK_OFF.saturating_mul(1 << state.failures.min(10)).min(BACK_OFF_MAX);
                state.failures += 1;
                state.not_before = Some(Instant::now() + wait);
            }
        }
        drop(state);
        if started.is_err() {
            self.freed.notify_one();
        }
        started
    }

    pub(super) fn process_ids(&self) -> Vec<u32> {
        let state = self.state();
        state.idle.iter().map(Worker::id).chain(state.busy.iter().copied()).collect()
    }

    /// The state, which no panic can leave half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
