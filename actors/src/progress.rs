//! Progress counters: what the watchdog looks at. "Something is in flight" is not progress; these are.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Counters every stage moves forward as it works.
#[derive(Debug, Default)]
pub struct Progress {
    ticks: AtomicU64,
    /// Episodes that have begun and not ended.
    pub episodes: AtomicI64,
    /// Requests in the generator, waiting ones included.
    pub generating: AtomicI64,
    /// Requests in the sandbox pool, waiting ones included.
    pub judging: AtomicI64,
    /// 1 while the learner takes a step.
    pub learning: AtomicI64,
    /// Tokens sampled since the start.
    pub tokens: AtomicU64,
    /// Episodes ended since the start.
    pub episodes_done: AtomicU64,
    /// Micro-batches done in the running step.
    pub micro_batches_done: AtomicU64,
    /// Micro-batches of the running step.
    pub micro_batches: AtomicU64,
}

impl Progress {
    /// Counts one piece of work done: a decode step, a verdict, a micro-batch.
    pub fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// Pieces of work done since the start.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Who holds what, in words: the diagnosis of a run that stands still.
    pub fn diagnosis(&self) -> String {
        let of = |n: &AtomicI64| n.load(Ordering::Relaxed);
        format!(
            "{} episodes open; generator holds {}, sandbox pool {}, learner {}",
            of(&self.episodes),
            of(&self.generating),
            of(&self.judging),
            if of(&self.learning) > 0 { "is in a step" } else { "waits for groups" },
        )
    }
}

/// Counts one while it lives; right even when its owner is dropped in a crash.
#[derive(Debug)]
pub struct CountGuard {
    progress: Arc<Progress>,
    gauge: fn(&Progress) -> &AtomicI64,
}

impl CountGuard {
    /// Adds one to `gauge` until dropped.
    pub fn new(progress: &Arc<Progress>, gauge: fn(&Progress) -> &AtomicI64) -> Self {
        gauge(progress).fetch_add(1, Ordering::Relaxed);
        Self { progress: Arc::clone(progress), gauge }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        (self.gauge)(&self.progress).fetch_sub(1, Ordering::Relaxed);
    }
}
