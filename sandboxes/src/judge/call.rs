//! Tests that are calls: the host holds the expected values and compares.

use super::Outcome;
use super::cases::Cases;
use super::player::{Player, Reply};
use crate::data::{Value, encode, from_json, repr, values_equal};
use crate::verdict::{PolicyErrorReason, TestCase, ValueRule, Verdict};

/// Characters of a value shown in a verdict.
const REPR_MAX: usize = 400;

/// Calls every case, whether or not an earlier one held or raised; the verdict names the first that did not hold. A limit
/// reached, or an interpreter left, ends them all.
pub(super) fn run(player: &mut Player, entry_point: &str, cases: &[TestCase], rule: ValueRule) -> Outcome {
    let mut seen = Cases::new(cases.iter().map(|case| case.public));
    let mut fuel = player.fuel_used();
    for case in cases {
        let (job, expected) = match (job(entry_point, case), from_json(&case.expected)) {
            (Ok(job), Ok(expected)) => (job, expected),
            (Err(detail), _) | (_, Err(detail)) => return seen.stopped(Verdict::TaskError { detail }),
        };
        let reply = player.ask(job);
        let used = player.fuel_used() - fuel;
        fuel += used;
        match reply {
            Ok(Reply::Value(got)) if values_equal(rule, &got, &expected) => seen.passed(used),
            Ok(Reply::Value(got)) => {
                let (expected, got) = (repr(&expected, REPR_MAX), repr(&got, REPR_MAX));
                seen.failed(expected, got, used);
            }
            Ok(Reply::Raised { text, .. }) => {
                player.note_exception();
                seen.error(PolicyErrorReason::Runtime, text, used);
            }
            Ok(Reply::Crossed(_) | Reply::Other(_)) => {
                let verdict = player.broken().into_verdict();
                return seen.ended(verdict, used);
            }
            Err(fault) => return seen.ended(fault.into_verdict(), used),
        }
    }
    seen.finish()
}

fn job(entry_point: &str, case: &TestCase) -> Result<Vec<u8>, String> {
    let arguments = case.args.iter().map(from_json).collect::<Result<_, _>>()?;
    Ok(encode(&Value::Tuple(vec![
        Value::str("call"),
        Value::str(entry_point),
        Value::Tuple(arguments),
        Value::Dict(Vec::new()),
    ])))
}
