//! Test files in the manner of `unittest` and `pytest`: as many tests must hold as the file holds.

use std::sync::{Arc, Mutex};

use super::assert::{Mark, beside, run, verdict_frame};
use super::player::Player;
use super::{Outcome, lock};
use crate::data::{Int, Value, decode};
use crate::engine::Engine;
use crate::verdict::{CaseOutcome, CaseReport, JudgeRequest, PolicyErrorReason, Verdict};

/// Runs a test file in an instance of its own; the module it imports lies across the border.
pub(super) fn separate(
    engine: &Engine,
    player: &Arc<Mutex<Player>>,
    code: &str,
    module: &str,
    request: &JudgeRequest,
) -> Outcome {
    let seed = Value::Int(Int::from(i128::from(request.seed)));
    let job = vec![Value::str("unit"), seed, Value::str(code), Value::str(module)];
    let (ended, marks) = match run(engine, player, job, request) {
        Ok(ended) => ended,
        Err(refused) => return refused,
    };
    let mut player = lock(player);
    match verdict_frame(&player, ended) {
        Ok(parts) => read(&mut player, &parts, &marks),
        Err(verdict) => cut_short(verdict, &marks, player.fuel_used()),
    }
}

/// Runs a test file beside the code under test.
pub(super) fn shared(player: &mut Player, code: &str, module: &str) -> Outcome {
    match beside(player, ["shared_unit", code, module]) {
        Ok(parts) => match read(player, &parts, &[]) {
            // The harness writes no such frame: only the code beside it can have.
            Outcome { verdict: Verdict::InfraError { .. }, .. } => {
                Outcome::before_tests(player.broken().into_verdict(), 1)
            }
            outcome => outcome,
        },
        Err(verdict) => Outcome::before_tests(verdict, 1),
    }
}

/// The verdict frame of the harness that ran the file.
fn read(player: &mut Player, parts: &[Value], marks: &[Mark]) -> Outcome {
    let text = |index: usize| parts.get(index).map(Value::to_text).unwrap_or_default();
    let malformed = || Verdict::InfraError { detail: "the verdict's frame is malformed".into() };
    let verdict = match (text(0).as_str(), parts.get(1)) {
        ("unit", Some(Value::List(tests))) => {
            let cases = cases(tests, marks);
            return match cases {
                Some(cases) if !cases.is_empty() => judged(player, cases, tests),
                _ => Outcome::before_tests(malformed(), 1),
            };
        }
        ("player", _) => player.raised(&text(1), text(2)).into_verdict(),
        ("missing", _) => player.fail(PolicyErrorReason::MissingEntryPoint, text(1)).into_verdict(),
        ("broken", _) => player.broken().into_verdict(),
        ("task", _) => Verdict::TaskError { detail: text(1) },
        ("exit", _) => Verdict::TaskError { detail: format!("the tests leave with status {}", text(1)) },
        _ => malformed(),
    };
    Outcome::before_tests(verdict, 1)
}

/// The report of each test: `(name, outcome, detail, trace)` of the harness, and the fuel between two marks.
fn cases(tests: &[Value], marks: &[Mark]) -> Option<Vec<CaseReport>> {
    let report = |(index, test): (usize, &Value)| {
        let Value::Tuple(parts) = test else { return None };
        let [name, outcome, detail, _] = parts.as_slice() else { return None };
        let outcome = match outcome.to_text().as_str() {
            "passed" => CaseOutcome::Passed,
            "failed" | "skipped" => CaseOutcome::Failed,
            "player" => CaseOutcome::PolicyError(PolicyErrorReason::Runtime),
            _ => return None,
        };
        let fuel_used = match marks.get(index..index + 2) {
            Some([(_, before), (_, after)]) => after.saturating_sub(*before),
            _ => 0,
        };
        Some(CaseReport { test: name.to_text(), outcome, detail: detail.to_text(), public: false, fuel_used })
    };
    tests.iter().enumerate().map(report).collect()
}

/// The verdict on a file whose tests all ran: that of the first which did not hold.
fn judged(player: &mut Player, cases: Vec<CaseReport>, tests: &[Value]) -> Outcome {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let passed = cases.iter().filter(|case| case.outcome == CaseOutcome::Passed).count();
    let verdict = match cases.iter().position(|case| case.outcome != CaseOutcome::Passed) {
        None => Verdict::Passed,
        Some(at) if cases[at].outcome == CaseOutcome::Failed => {
            Verdict::Failed { test: cases[at].test.clone(), expected: String::new(), got: cases[at].detail.clone() }
        }
        Some(at) => {
            let trace = match &tests[at] {
                Value::Tuple(parts) => parts.last().map(Value::to_text).unwrap_or_default(),
                _ => String::new(),
            };
            player.raised(&cases[at].detail, trace).into_verdict()
        }
    };
    Outcome { verdict, declared: count(cases.len()), executed: count(cases.len()), passed: count(passed), cases }
}

/// What is known of a file whose tests did not all run: those that did, the one that ended it, and those that never ran.
fn cut_short(verdict: Verdict, marks: &[Mark], fuel_used: u64) -> Outcome {
    let names = marks.first().and_then(|(mark, _)| match decode(mark) {
        Ok(Value::Tuple(parts)) => match parts.into_iter().nth(1) {
            Some(Value::List(names)) => Some(names),
            _ => None,
        },
        _ => None,
    });
    let ran: Option<Vec<_>> = marks.iter().skip(1).map(|(mark, _)| decode(mark).ok()).collect();
    let ran = ran.and_then(|tests| cases(&tests, marks));
    let (Some(names), Some(mut cases), Verdict::PolicyError { reason, detail }) = (names, ran, &verdict) else {
        return Outcome::before_tests(verdict, 1);
    };
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let executed = count(cases.len());
    let passed = count(cases.iter().filter(|case| case.outcome == CaseOutcome::Passed).count());
    let before = marks.last().map_or(0, |(_, fuel)| *fuel);
    for (index, name) in names.iter().enumerate().skip(cases.len()) {
        let ended = index == executed as usize;
        cases.push(CaseReport {
            test: name.to_text(),
            outcome: if ended { CaseOutcome::PolicyError(*reason) } else { CaseOutcome::NotRun },
            detail: if ended { detail.clone() } else { String::new() },
            public: false,
            fuel_used: if ended { fuel_used.saturating_sub(before) } else { 0 },
        });
    }
    Outcome { declared: count(cases.len()), executed, passed, cases, verdict }
}
