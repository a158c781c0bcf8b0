//! Tests that are runs of the completion as a program: a fresh instance for each, its output compared by the host.

use super::cases::Cases;
use super::checker::{self, Word};
use super::runs::Runs;
use crate::compare::{difference, texts_equal};
use crate::engine::Engine;
use crate::program::{End, Execution, Program};
use crate::run::run_program;
use crate::verdict::{Checker, JudgeRequest, Judgement, PolicyErrorReason, StdioCase, TextRule, Verdict};

/// Classes of Python's that say a program does not compile.
const SYNTAX: [&str; 3] = ["SyntaxError", "IndentationError", "TabError"];

/// Characters of an output that a checker refused which a verdict shows.
const SHOWN: usize = 400;

/// How one run ended, short of looking at what it left.
pub(super) enum RunEnd {
    /// To its end, with status 0.
    Well,
    /// Badly, and only this run: others may still go well.
    Badly(PolicyErrorReason, String),
    /// So that no other run needs to be tried: it does not compile, a limit, the host.
    ForGood(Verdict),
}

/// Runs every case, whether or not an earlier one held; a limit reached ends them all.
pub(super) fn run(
    engine: &Engine,
    request: &JudgeRequest,
    cases: &[StdioCase],
    rule: TextRule,
    checker: Option<&Checker>,
) -> Judgement {
    let mut seen = Cases::new(cases.iter().map(|case| case.public));
    let mut runs = Runs::default();
    for case in cases {
        if case.stdin.len() > request.limits.stdin_bytes {
            let (size, limit) = (case.stdin.len(), request.limits.stdin_bytes);
            let detail = format!("{}: its input has {size} bytes, `limits.stdin_bytes` allows {limit}", seen.name());
            return runs.judgement(seen.stopped(Verdict::TaskError { detail }));
        }
        let program =
            Program { stdin: case.stdin.clone().into_bytes(), ..Program::new(request.code.as_str(), request.seed) };
        let execution = run_program(engine, &program, &request.limits);
        let (held_before, used) = (seen.all_held(), execution.fuel_used);
        match ended(&execution) {
            RunEnd::ForGood(verdict) => {
                runs.add(execution, held_before);
                return runs.judgement(seen.ended(verdict, used));
            }
            RunEnd::Badly(reason, detail) => seen.error(reason, detail, used),
            RunEnd::Well if let Some(checker) = checker => {
                match checker::ask(engine, request, checker, case, &execution.stdout) {
                    Ok(Word::Yes) => seen.passed(used),
                    Ok(Word::No(said)) => {
                        let got = String::from_utf8_lossy(&execution.stdout).chars().take(SHOWN).collect();
                        seen.failed(format!("what the checker takes; it says {said:?}"), got, used);
                    }
                    Err(verdict) => {
                        runs.add(execution, held_before);
                        return runs.judgement(seen.stopped(verdict));
                    }
                }
            }
            RunEnd::Well if texts_equal(rule, &execution.stdout, case.expected.as_bytes()) => seen.passed(used),
            RunEnd::Well => {
                let (expected, got) = difference(&execution.stdout, case.expected.as_bytes());
                seen.failed(expected, got, used);
            }
        }
        runs.add(execution, held_before);
    }
    runs.judgement(seen.finish())
}

/// How a run ended, as the tests see it.
pub(super) fn ended(execution: &Execution) -> RunEnd {
    use PolicyErrorReason as Reason;

    let detail = execution.detail.clone();
    let limit = |reason| RunEnd::ForGood(Verdict::PolicyError { reason, detail: detail.clone() });
    match execution.end {
        End::Exited if execution.exit == Some(0) => RunEnd::Well,
        End::Exited => {
            let status = execution.exit.map_or("a status that is none".to_owned(), |code| format!("status {code}"));
            RunEnd::Badly(Reason::Exited, format!("left with {status}"))
        }
        End::Exception if SYNTAX.iter().any(|class| detail.starts_with(class)) => limit(Reason::Compile),
        End::Exception => RunEnd::Badly(Reason::Runtime, detail),
        End::OutOfFuel => limit(Reason::OutOfFuel),
        End::OutOfMemory => limit(Reason::OutOfMemory),
        End::OutputLimit => limit(Reason::OutputLimit),
        End::StackOverflow => limit(Reason::StackOverflow),
        End::WorkspaceLimit => limit(Reason::WorkspaceLimit),
        End::WallBackstop | End::HostError => RunEnd::ForGood(Verdict::InfraError { detail }),
    }
}
