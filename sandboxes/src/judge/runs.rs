//! The evidence of several runs, each in an instance of its own.

use super::{Outcome, bare};
use crate::program::{End, Execution};
use crate::verdict::Judgement;

/// What the runs so far used, and the one that is shown: the first that failed, else the last.
#[derive(Default)]
pub(super) struct Runs {
    shown: Option<Execution>,
    fuel_used: u64,
    start_us: u64,
    peak_memory_bytes: u64,
}

impl Runs {
    /// One more run; `held_before` says whether all before it held.
    pub(super) fn add(&mut self, execution: Execution, held_before: bool) {
        self.fuel_used = self.fuel_used.saturating_add(execution.fuel_used);
        self.start_us = self.start_us.saturating_add(execution.start_us);
        self.peak_memory_bytes = self.peak_memory_bytes.max(execution.peak_memory_bytes);
        if held_before {
            self.shown = Some(execution);
        }
    }

    /// The judgement on them.
    pub(super) fn judgement(self, outcome: Outcome) -> Judgement {
        let mut judgement = bare(outcome, End::HostError);
        judgement.fuel_used = self.fuel_used;
        judgement.start_us = self.start_us;
        judgement.peak_memory_bytes = self.peak_memory_bytes;
        if let Some(shown) = self.shown {
            (judgement.stdout, judgement.stderr, judgement.end) = (shown.stdout, shown.stderr, shown.end);
        }
        judgement
    }
}
