//! Runs of a completion as a program, each in an instance of its own: how one ended, and the evidence of several.

use super::{Outcome, bare};
use crate::program::{End, Execution, Limits};
use crate::verdict::{Judgement, PolicyErrorReason, Verdict};

/// Classes of Python's that say a program does not compile.
const SYNTAX: [&str; 3] = ["SyntaxError", "IndentationError", "TabError"];

/// How one run ended, short of looking at what it left.
pub(super) enum RunEnd {
    /// To its end, with status 0.
    Well,
    /// Badly, and only this run: others may still go well.
    Badly(PolicyErrorReason, String),
    /// So that no other run needs to be tried: it does not compile, a limit, the host.
    ForGood(Verdict),
}

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

/// How a run ended, as the tests see it.
pub(super) fn ended(execution: &Execution) -> RunEnd {
    use PolicyErrorReason as Reason;

    let detail = execution.detail.clone();
    let Some(reason) = Reason::of(execution.end) else { return RunEnd::ForGood(Verdict::InfraError { detail }) };
    let for_good = |reason, detail| RunEnd::ForGood(Verdict::PolicyError { reason, detail });
    match execution.end {
        End::Exited if execution.exit == Some(0) => RunEnd::Well,
        End::Exited => {
            let status = execution.exit.map_or("a status that is none".to_owned(), |code| format!("status {code}"));
            RunEnd::Badly(reason, format!("left with {status}"))
        }
        End::Exception if SYNTAX.iter().any(|class| detail.starts_with(class)) => for_good(Reason::Compile, detail),
        End::Exception => RunEnd::Badly(reason, detail),
        _ => for_good(reason, detail),
    }
}

/// The task's fault where it gives a program more input than the limits allow; `input` names it.
pub(super) fn too_much_input(input: &str, stdin: &str, limits: &Limits) -> Option<Verdict> {
    let (size, limit) = (stdin.len(), limits.stdin_bytes);
    let detail = || format!("{input} has {size} bytes, `limits.stdin_bytes` allows {limit}");
    (size > limit).then(|| Verdict::TaskError { detail: detail() })
}
