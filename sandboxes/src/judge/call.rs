//! Tests that are calls: the host holds the expected values and compares.

use super::Outcome;
use super::player::{Player, Reply};
use crate::data::{Value, encode, expected_eq, from_json, repr};
use crate::verdict::{PolicyErrorReason, TestCase, Verdict};

/// Characters of a value shown in a verdict.
const REPR_MAX: usize = 400;

/// Calls every case, whether or not an earlier one held; the verdict names the first that did not.
pub(super) fn run(player: &mut Player, entry_point: &str, cases: &[TestCase]) -> Outcome {
    let declared = u32::try_from(cases.len()).unwrap_or(u32::MAX);
    let mut outcome = Outcome { verdict: Verdict::Passed, declared, executed: 0, passed: 0, cases: Vec::new() };
    for (index, case) in cases.iter().enumerate() {
        let got = match player.ask(job(entry_point, case)) {
            Ok(Reply::Value(got)) => got,
            Ok(Reply::Raised { text, .. }) => {
                outcome.verdict = player.fail(PolicyErrorReason::Runtime, text).into_verdict();
                return outcome;
            }
            Ok(Reply::Crossed(_) | Reply::Other(_)) => {
                outcome.verdict = player.broken().into_verdict();
                return outcome;
            }
            Err(fault) => {
                outcome.verdict = fault.into_verdict();
                return outcome;
            }
        };
        outcome.executed += 1;
        let expected = from_json(&case.expected);
        if expected_eq(&got, &expected) {
            outcome.passed += 1;
        } else if outcome.verdict == Verdict::Passed {
            outcome.verdict = Verdict::Failed {
                test: format!("case {}", index + 1),
                expected: repr(&expected, REPR_MAX),
                got: repr(&got, REPR_MAX),
            };
        }
    }
    outcome
}

fn job(entry_point: &str, case: &TestCase) -> Vec<u8> {
    encode(&Value::Tuple(vec![
        Value::str("call"),
        Value::str(entry_point),
        Value::Tuple(case.args.iter().map(from_json).collect()),
        Value::Dict(Vec::new()),
    ]))
}
