//! Counting cases that are told apart: a report for each, the first that did not hold as the verdict.

use super::Outcome;
use crate::verdict::{CaseOutcome, CaseReport, PolicyErrorReason, Verdict};

/// Characters of an error that a case's report keeps.
const DETAIL_MAX: usize = 400;

/// The cases seen so far of all that there are.
pub(super) struct Cases {
    /// Of every case, whether the prompt shows it.
    public: Vec<bool>,
    reports: Vec<CaseReport>,
    passed: u32,
    executed: u32,
    verdict: Verdict,
}

impl Cases {
    /// Before the first; `public` has an item for every case.
    pub(super) fn new(public: impl Iterator<Item = bool>) -> Self {
        Self { public: public.collect(), reports: Vec::new(), passed: 0, executed: 0, verdict: Verdict::Passed }
    }

    /// The name of the next case.
    pub(super) fn name(&self) -> String {
        format!("case {}", self.reports.len() + 1)
    }

    /// The next case held.
    pub(super) fn passed(&mut self, fuel_used: u64) {
        self.passed += 1;
        self.executed += 1;
        self.report(CaseOutcome::Passed, String::new(), fuel_used);
    }

    /// The next case did not hold.
    pub(super) fn failed(&mut self, expected: String, got: String, fuel_used: u64) {
        self.executed += 1;
        let detail = format!("expected {expected}, got {got}");
        self.first(|test| Verdict::Failed { test, expected, got });
        self.report(CaseOutcome::Failed, detail, fuel_used);
    }

    /// The code under test ended the next case with an error of its own, and others can still be run.
    pub(super) fn error(&mut self, reason: PolicyErrorReason, detail: String, fuel_used: u64) {
        self.executed += 1;
        self.first(|_| Verdict::PolicyError { reason, detail: detail.clone() });
        self.report(CaseOutcome::PolicyError(reason), detail, fuel_used);
    }

    /// The next case ended for good: no other is run.
    pub(super) fn ended(mut self, verdict: Verdict, fuel_used: u64) -> Outcome {
        match verdict {
            Verdict::PolicyError { reason, detail } => {
                self.error(reason, detail, fuel_used);
                self.finish()
            }
            verdict => self.stopped(verdict),
        }
    }

    /// Nothing more can be said: the task's fault or the host's, which no earlier verdict hides.
    pub(super) fn stopped(mut self, verdict: Verdict) -> Outcome {
        self.verdict = verdict;
        self.finish()
    }

    /// What came of them all; those not seen were not run.
    pub(super) fn finish(mut self) -> Outcome {
        let declared = u32::try_from(self.public.len()).unwrap_or(u32::MAX);
        while self.reports.len() < self.public.len() {
            self.report(CaseOutcome::NotRun, String::new(), 0);
        }
        let Self { verdict, executed, passed, reports, .. } = self;
        Outcome { verdict, declared, executed, passed, cases: reports }
    }

    /// Whether every case so far held.
    pub(super) fn all_held(&self) -> bool {
        self.verdict == Verdict::Passed
    }

    fn first(&mut self, verdict: impl FnOnce(String) -> Verdict) {
        if self.all_held() {
            self.verdict = verdict(self.name());
        }
    }

    fn report(&mut self, outcome: CaseOutcome, detail: String, fuel_used: u64) {
        let public = self.public.get(self.reports.len()).copied().unwrap_or(false);
        // The end of a trace says more than its beginning.
        let cut = detail.char_indices().rev().nth(DETAIL_MAX).map_or(0, |(at, c)| at + c.len_utf8());
        self.reports.push(CaseReport {
            test: self.name(),
            outcome,
            detail: detail[cut..].to_owned(),
            public,
            fuel_used,
        });
    }
}
