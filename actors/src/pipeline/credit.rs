//! The bound: permits that travel in the messages, and the ledger that counts them.
//!
//! A group may be anywhere in the pipeline exactly once. Its [`Permit`] is taken here, travels with the work, and ends in one of
//! two ways: concluded by whoever finished the group, or dropped with a crashed stage, in which case the ledger hands the group
//! out again as a new attempt. So a crash neither loses a group nor counts it twice, and no message is needed to say so.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use tokio::sync::Notify;

use rehearsal_models::Sampling;
use serde::{Deserialize, Serialize};

use crate::task::Task;
use crate::types::{GroupId, GroupSpec, Purpose, TaskId, episode_seed};

/// How much may be in flight, and how far ahead of the learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Groups anywhere between source and learner at most.
    pub max_in_flight: usize,
    /// Submitted groups that may wait for a place.
    pub max_pending: usize,
    /// Training groups the learner consumes per step; 0 where there is no learner.
    pub groups_per_step: usize,
    /// Versions a training group may be behind when it is consumed; 0 is strictly on-policy.
    pub max_staleness: u64,
    /// Times one group may be lost to crashes before its task is quarantined.
    pub max_losses: u32,
}

/// In which order training tasks are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// As in the file, again and again.
    Sequential,
    /// Each epoch a new order, from the seed.
    Shuffled,
}

/// The training tasks and how many groups of them to run.
#[derive(Debug, Clone)]
pub struct Curriculum {
    /// At least one.
    pub tasks: Vec<Arc<Task>>,
    /// The order.
    pub sampler: Sampler,
    /// Episodes per group.
    pub group_size: u32,
    /// How to sample; the seed here is the run's.
    pub sampling: Sampling,
    /// Steps to train for, those of a resumed run included.
    pub steps: u64,
}

/// Where a run stands: enough to go on after a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    /// Groups ever numbered.
    pub next_group: u64,
    /// Training tasks drawn and accepted.
    pub drawn: u64,
    /// Batches consumed.
    pub batches: u64,
}

/// Why a group was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The waiting room is full.
    #[error("{pending} groups are waiting already, and {max} may; try again later")]
    Full {
        /// Groups waiting.
        pending: usize,
        /// Groups that may wait.
        max: usize,
    },
    /// The engine stops.
    #[error("the engine is shutting down")]
    Closed,
    /// The task took down too many workers, or its reference fails.
    #[error("task `{task}` is quarantined: {reason}")]
    Quarantined {
        /// The task.
        task: TaskId,
        /// Why.
        reason: String,
    },
    /// A group without episodes.
    #[error("a group needs at least one episode")]
    EmptyGroup,
}

struct Running {
    spec: GroupSpec,
    attempt: u32,
    drawn: bool,
}

#[derive(Default)]
struct Books {
    pending: VecDeque<(GroupSpec, u32, bool)>,
    running: BTreeMap<GroupId, Running>,
    losses: HashMap<TaskId, u32>,
    quarantined: BTreeMap<TaskId, String>,
    abandoned: Vec<(GroupId, TaskId)>,
    curriculum: Option<Curriculum>,
    training_since: Option<Instant>,
    order: Vec<usize>,
    order_epoch: Option<u64>,
    draws: u64,
    accepted: u64,
    cursor: Cursor,
    refusing: bool,
    closed: bool,
}

/// The books of one engine.
#[derive(Debug)]
pub struct Ledger {
    admission: Admission,
    books: Mutex<Books>,
    changed: Notify,
}

impl std::fmt::Debug for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Books")
            .field("pending", &self.pending.len())
            .field("running", &self.running.len())
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    /// Opens empty books, or those of a resumed run.
    pub fn new(admission: Admission, cursor: Cursor) -> Arc<Self> {
        let accepted = cursor.batches * admission.groups_per_step as u64;
        let books = Books { cursor, draws: cursor.drawn, accepted, ..Books::default() };
        Arc::new(Self { admission, books: Mutex::new(books), changed: Notify::new() })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Every update below leaves the books consistent at each step, so a poisoned lock is still good.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one group; its id is the answer.
    pub fn submit(
        &self,
        task: Arc<Task>,
        size: u32,
        sampling: Sampling,
        purpose: Purpose,
    ) -> Result<GroupId, SubmitError> {
        let mut books = self.books();
        if books.closed || books.refusing {
            return Err(SubmitError::Closed);
        }
        if size == 0 {
            return Err(SubmitError::EmptyGroup);
        }
        if let Some(reason) = books.quarantined.get(&task.id) {
            return Err(SubmitError::Quarantined { task: task.id.clone(), reason: reason.clone() });
        }
        if books.pending.len() >= self.admission.max_pending {
            return Err(SubmitError::Full { pending: books.pending.len(), max: self.admission.max_pending });
        }
        let id = books.number();
        books.pending.push_back((GroupSpec { id, task, size, sampling, purpose }, 0, false));
        drop(books);
        self.changed.notify_waiters();
        Ok(id)
    }

    /// Starts drawing training groups.
    pub fn start_curriculum(&self, curriculum: Curriculum) {
        let mut books = self.books();
        books.curriculum = Some(curriculum);
        books.training_since = Some(Instant::now());
        drop(books);
        self.changed.notify_waiters();
    }

    /// When training groups were first drawn: what came before (an evaluation, idling) is not part of a step's time.
    pub fn training_since(&self) -> Option<Instant> {
        self.books().training_since
    }

    /// The next group to run, if the bounds allow one now.
    pub fn next(self: &Arc<Self>) -> Option<(GroupSpec, Permit)> {
        let mut books = self.books();
        if books.closed || books.running.len() >= self.admission.max_in_flight {
            return None;
        }
        let training_room = self.training_room(&books);
        let waiting = books.pending.iter().position(|(spec, ..)| spec.purpose != Purpose::Train || training_room > 0);
        let (spec, attempt, drawn) = match waiting.and_then(|at| books.pending.remove(at)) {
            Some(waiting) => waiting,
            None => (books.draw(training_room, self.admission.groups_per_step)?, 0, true),
        };
        books.running.insert(spec.id, Running { spec: spec.clone(), attempt, drawn });
        let permit = Permit { ledger: Arc::clone(self), group_id: spec.id, attempt, open: true };
        Some((spec, permit))
    }

    /// `(max_staleness + version + 1) · groups_per_step − (accepted + running)`, with the batches consumed as the version: a step
    /// that was refused or empty consumed its batch all the same.
    fn training_room(&self, books: &Books) -> u64 {
        let running = books.running.values().filter(|running| running.spec.purpose == Purpose::Train).count() as u64;
        let ahead = (self.admission.max_staleness + books.cursor.batches + 1) * self.admission.groups_per_step as u64;
        ahead.saturating_sub(books.accepted + running)
    }

    /// Waits until [`next`](Self::next) may have something new.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// The learner consumed a batch (trained on it, or refused it): frees the next one.
    pub fn batch_consumed(&self) {
        self.books().cursor.batches += 1;
        self.changed.notify_waiters();
    }

    /// Takes a task of the curriculum out of the run for good.
    pub fn quarantine(&self, task: &TaskId, reason: &str) {
        let mut books = self.books();
        if !books.is_drawn_from(task) {
            return;
        }
        books.quarantined.entry(task.clone()).or_insert_with(|| reason.to_owned());
        books.pending.retain(|(spec, ..)| &spec.task.id != task);
        drop(books);
        self.changed.notify_waiters();
    }

    /// Tasks out of the run, with the reason.
    pub fn quarantined(&self) -> Vec<(TaskId, String)> {
        self.books().quarantined.iter().map(|(task, reason)| (task.clone(), reason.clone())).collect()
    }

    /// Groups given up since the last call, because every attempt took its worker down.
    pub fn take_abandoned(&self) -> Vec<(GroupId, TaskId)> {
        std::mem::take(&mut self.books().abandoned)
    }

    /// True once training cannot go on: a curriculum is set and every task of it is quarantined.
    pub fn is_starved(&self) -> bool {
        let books = self.books();
        books.curriculum.as_ref().is_some_and(|c| c.tasks.iter().all(|task| books.quarantined.contains_key(&task.id)))
    }

    /// Hands out nothing more; what is dropped from now on is gone.
    pub fn close(&self) {
        let mut books = self.books();
        books.closed = true;
        books.pending.clear();
        drop(books);
        self.changed.notify_waiters();
    }

    /// Takes no new submissions and draws no new tasks; what is queued and running goes on.
    pub fn refuse_new(&self) {
        let mut books = self.books();
        books.refusing = true;
        books.curriculum = None;
    }

    /// True when nothing is queued or running.
    pub fn is_idle(&self) -> bool {
        let books = self.books();
        books.running.is_empty() && books.pending.is_empty()
    }

    /// Groups between source and learner.
    pub fn running(&self) -> usize {
        self.books().running.len()
    }

    /// Groups that wait for a place.
    pub fn pending(&self) -> usize {
        self.books().pending.len()
    }

    /// Where the run stands. Drawn groups still in flight count as not drawn: a resumed run draws them again.
    pub fn cursor(&self) -> Cursor {
        let books = self.books();
        let in_flight = books.running.values().filter(|running| running.drawn).count() as u64;
        Cursor { drawn: books.draws.saturating_sub(in_flight), ..books.cursor }
    }

    fn conclude(&self, group_id: GroupId, attempt: u32, accepted: bool) -> bool {
        let mut books = self.books();
        let current = books.running.get(&group_id).is_some_and(|running| running.attempt == attempt);
        if current {
            books.running.remove(&group_id);
            books.accepted += u64::from(accepted);
        }
        drop(books);
        self.changed.notify_waiters();
        current
    }

    /// A permit was dropped unconcluded: its holder crashed. Queues the group again, first in line.
    fn lost(&self, group_id: GroupId, attempt: u32) {
        let mut books = self.books();
        if books.running.get(&group_id).is_none_or(|running| running.attempt != attempt) {
            return;
        }
        let Some(Running { spec, drawn, .. }) = books.running.remove(&group_id) else { return };
        if !books.closed && attempt >= self.admission.max_losses {
            tracing::error!(task = %spec.task.id, group = group_id.0, "group given up: every attempt took its worker down");
            books.abandoned.push((group_id, spec.task.id.clone()));
            books.count_loss(&spec.task.id, 0, "its worker crashed");
            drop(books);
            return self.changed.notify_waiters();
        }
        if !books.closed {
            books.pending.push_front((spec, attempt + 1, drawn));
        }
        drop(books);
        self.changed.notify_waiters();
    }

    /// Counts a group that ended without one scored episode, or a fault that only some completions provoke, against its task.
    pub fn strike(&self, task: &TaskId, cause: &str) {
        self.books().count_loss(task, self.admission.max_losses, cause);
    }
}

impl Books {
    /// One more group lost by this task; true once it is quarantined for that.
    ///
    /// Only a curriculum's tasks are drawn again and so need it. What is submitted is judged each time on its own: one client's mistake
    /// must not block a task's name for all.
    fn count_loss(&mut self, task: &TaskId, max_losses: u32, cause: &str) -> bool {
        if !self.is_drawn_from(task) {
            return false;
        }
        let losses = self.losses.entry(task.clone()).or_insert(0);
        *losses += 1;
        if *losses <= max_losses {
            return false;
        }
        let reason = format!("{losses} of its groups were lost; the last because {cause}");
        tracing::error!(task = %task, reason, "task quarantined");
        self.quarantined.insert(task.clone(), reason);
        self.losses.remove(task);
        true
    }

    fn is_drawn_from(&self, task: &TaskId) -> bool {
        self.curriculum.as_ref().is_some_and(|curriculum| curriculum.tasks.iter().any(|known| &known.id == task))
    }

    fn number(&mut self) -> GroupId {
        let id = GroupId(self.cursor.next_group);
        self.cursor.next_group += 1;
        id
    }

    /// Draws the next training task that is not quarantined.
    fn draw(&mut self, room: u64, groups_per_step: usize) -> Option<GroupSpec> {
        let curriculum = self.curriculum.clone()?;
        let running = self.running.values().filter(|running| running.drawn).count() as u64;
        let wanted = curriculum.steps * groups_per_step as u64;
        if room == 0 || self.accepted + running >= wanted {
            return None;
        }
        for _ in 0..curriculum.tasks.len() * 2 {
            let draw = self.draws;
            let task = self.task_at(&curriculum, draw);
            self.draws += 1;
            if self.quarantined.contains_key(&task.id) {
                continue;
            }
            let id = self.number();
            // By the draw, not by the group's number: a resumed run draws the same tokens.
            let seed = episode_seed(curriculum.sampling.seed, 0).wrapping_add(draw);
            let sampling = Sampling { seed, ..curriculum.sampling };
            return Some(GroupSpec { id, task, size: curriculum.group_size, sampling, purpose: Purpose::Train });
        }
        None
    }

    fn task_at(&mut self, curriculum: &Curriculum, draw: u64) -> Arc<Task> {
        let n_tasks = curriculum.tasks.len() as u64;
        let (epoch, at) = (draw / n_tasks, (draw % n_tasks) as usize);
        if self.order_epoch != Some(epoch) {
            self.order = (0..curriculum.tasks.len()).collect();
            if curriculum.sampler == Sampler::Shuffled {
                let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(curriculum.sampling.seed.wrapping_add(epoch));
                self.order.shuffle(&mut rng);
            }
            self.order_epoch = Some(epoch);
        }
        Arc::clone(&curriculum.tasks[self.order[at]])
    }
}

/// The right to have one group in flight. Dropped without being concluded, the group is handed out again.
#[derive(Debug)]
pub struct Permit {
    ledger: Arc<Ledger>,
    group_id: GroupId,
    attempt: u32,
    open: bool,
}

impl Permit {
    /// Which attempt at the group this is.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The group was consumed by a step. False if another attempt already was.
    pub fn accept(mut self) -> bool {
        self.open = false;
        self.ledger.conclude(self.group_id, self.attempt, true)
    }

    /// The group ended without one scored episode: counts against its task, which is quarantined after too many.
    pub fn fail(self, task: &TaskId, cause: &str) -> bool {
        self.ledger.strike(task, cause);
        self.retire()
    }

    /// The group is finished and was not consumed: evaluated, served, stale, or not to be scored.
    pub fn retire(mut self) -> bool {
        self.open = false;
        self.ledger.conclude(self.group_id, self.attempt, false)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.open {
            self.ledger.lost(self.group_id, self.attempt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADMISSION: Admission =
        Admission { max_in_flight: 8, max_pending: 4, groups_per_step: 3, max_staleness: 0, max_losses: 2 };

    fn curriculum(n_tasks: usize, steps: u64) -> Curriculum {
        Curriculum {
            tasks: (0..n_tasks).map(|i| Arc::new(Task::example(&format!("t{i}")))).collect(),
            sampler: Sampler::Shuffled,
            group_size: 2,
            sampling: Sampling { temperature: 1.0, top_p: 1.0, max_tokens: 4, seed: 7 },
            steps,
        }
    }

    fn drain(ledger: &Arc<Ledger>) -> Vec<(GroupSpec, Permit)> {
        std::iter::from_fn(|| ledger.next()).collect()
    }

    #[test]
    fn on_policy_admits_exactly_one_batch_per_version() {
        let ledger = Ledger::new(ADMISSION, Cursor::default());
        ledger.start_curriculum(curriculum(5, 2));
        for batch in 0..2 {
            let groups = drain(&ledger);
            assert_eq!(groups.len(), 3, "batch {batch}");
            for (_, permit) in groups {
                assert!(permit.accept());
            }
            assert!(ledger.next().is_none(), "nothing runs ahead of the learner");
            ledger.batch_consumed();
        }
        assert!(ledger.next().is_none(), "the curriculum ends after its steps");
    }

    #[test]
    fn staleness_lets_generation_run_ahead_by_whole_batches() {
        let ledger = Ledger::new(Admission { max_staleness: 1, ..ADMISSION }, Cursor::default());
        ledger.start_curriculum(curriculum(5, 10));
        assert_eq!(drain(&ledger).len(), 6);
    }

    #[test]
    fn a_dropped_permit_hands_the_group_out_again_until_it_is_given_up() {
        let ledger = Ledger::new(ADMISSION, Cursor::default());
        let task = Arc::new(Task::example("poison"));
        let sampling = curriculum(1, 1).sampling;
        let id = ledger.submit(task, 1, sampling, Purpose::Serve).unwrap();
        for attempt in 0..=ADMISSION.max_losses {
            let (spec, permit) = ledger.next().unwrap();
            assert_eq!((spec.id, permit.attempt()), (id, attempt));
            drop(permit);
        }
        assert!(ledger.next().is_none());
        assert_eq!(ledger.take_abandoned(), [(id, "poison".into())]);
        assert!(ledger.quarantined().is_empty(), "a submitted task's name stays free");
    }

    #[test]
    fn a_curriculums_task_that_takes_down_workers_is_not_drawn_again() {
        let ledger = Ledger::new(Admission { groups_per_step: 1, ..ADMISSION }, Cursor::default());
        ledger.start_curriculum(curriculum(1, 5));
        for _ in 0..=ADMISSION.max_losses {
            drop(ledger.next().unwrap());
        }
        assert!(ledger.next().is_none() && ledger.is_starved());
    }

    #[test]
    fn a_retired_training_group_is_replaced() {
        let ledger = Ledger::new(ADMISSION, Cursor::default());
        ledger.start_curriculum(curriculum(5, 1));
        let mut groups = drain(&ledger);
        groups.pop().unwrap().1.retire();
        assert_eq!(drain(&ledger).len(), 1);
    }

    #[test]
    fn the_waiting_room_is_bounded_and_closes() {
        let ledger = Ledger::new(ADMISSION, Cursor::default());
        let submit = || ledger.submit(Arc::new(Task::example("a")), 1, curriculum(1, 1).sampling, Purpose::Serve);
        for _ in 0..4 {
            submit().unwrap();
        }
        assert_eq!(submit(), Err(SubmitError::Full { pending: 4, max: 4 }));
        ledger.close();
        assert_eq!(submit(), Err(SubmitError::Closed));
        assert!(ledger.is_idle());
    }

    #[test]
    fn a_resumed_run_draws_the_same_tasks_as_an_uninterrupted_one() {
        let names = |groups: &[(GroupSpec, Permit)]| groups.iter().map(|(s, _)| s.task.id.clone()).collect::<Vec<_>>();
        let whole = Ledger::new(ADMISSION, Cursor::default());
        whole.start_curriculum(curriculum(5, 4));
        let (mut uninterrupted, mut resumed, mut cursor) = (vec![], vec![], Cursor::default());
        for _ in 0..4 {
            let groups = drain(&whole);
            uninterrupted.extend(names(&groups));
            groups.into_iter().for_each(|(_, permit)| assert!(permit.accept()));
            whole.batch_consumed();

            let part = Ledger::new(ADMISSION, cursor);
            part.start_curriculum(curriculum(5, 4));
            let groups = drain(&part);
            resumed.extend(names(&groups));
            groups.into_iter().for_each(|(_, permit)| assert!(permit.accept()));
            part.batch_consumed();
            cursor = part.cursor();
        }
        assert_eq!(uninterrupted, resumed);
        assert_eq!(uninterrupted.len(), 12);
    }

    proptest! {
        /// Whatever the order of acceptances, losses and retirements, the bounds hold and each step consumes its groups once.
        #[test]
        fn bounds_hold_under_any_order(ends in prop::collection::vec(0_u8..3, 1..200), staleness in 0_u64..3) {
            let ledger = Ledger::new(Admission { max_staleness: staleness, max_losses: 1000, ..ADMISSION }, Cursor::default());
            ledger.start_curriculum(curriculum(4, 1000));
            let (mut held, mut accepted) = (VecDeque::new(), 0_u64);
            for end in ends {
                held.extend(drain(&ledger));
                prop_assert!(held.len() <= ADMISSION.max_in_flight);
                prop_assert_eq!(held.len(), ledger.running());
                let ahead = accepted + held.len() as u64;
                prop_assert!(ahead <= (staleness + accepted / 3 + 1) * 3, "{} ahead", ahead);
                let Some((_, permit)) = held.pop_front() else { continue };
                match end {
                    0 => { prop_assert!(permit.accept()); accepted += 1; if accepted.is_multiple_of(3) { ledger.batch_consumed(); } }
                    1 => { prop_assert!(permit.retire()); }
                    _ => drop(permit),
                }
            }
        }
    }
}
