//! Tests that are runs of the completion as a program: a fresh instance for each, its output compared by the host.

use super::cases::Cases;
use super::checker::{self, Word};
use super::runs::{RunEnd, Runs, ended, too_much_input};
use crate::compare::{difference, texts_equal};
use crate::engine::Engine;
use crate::program::Program;
use crate::run::run_program;
use crate::verdict::{Checker, JudgeRequest, Judgement, StdioCase, TextRule};

/// Characters of an output that a checker refused which a verdict shows.
const SHOWN: usize = 400;

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
        if let Some(fault) = too_much_input(&format!("{}: its input", seen.name()), &case.stdin, &request.limits) {
            return runs.judgement(seen.stopped(fault));
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
