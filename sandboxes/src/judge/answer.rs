//! Tests that are an answer in words or numbers: the host alone reads and compares, and no sandbox is used.

use super::Outcome;
use crate::compare::{answer_in, answers_equal};
use crate::verdict::{AnswerFrom, AnswerRule, PolicyErrorReason, Verdict};

/// Characters of an answer shown in a verdict.
const SHOWN: usize = 400;

/// Whether the completion's answer is one of those expected.
pub(super) fn run(completion: &str, expected: &[String], from: &AnswerFrom, rule: AnswerRule) -> Outcome {
    let Some(answer) = answer_in(from, completion) else {
        let verdict = Verdict::PolicyError {
            reason: PolicyErrorReason::NoAnswer,
            detail: format!("the completion holds no answer (looked for: {from:?})"),
        };
        return Outcome::before_tests(verdict, 1);
    };
    let holds = expected.iter().any(|expected| answers_equal(rule, &answer, expected));
    let verdict = if holds {
        Verdict::Passed
    } else {
        let got = answer.chars().take(SHOWN).collect();
        Verdict::Failed { test: "answer".into(), expected: expected.join(" or ").chars().take(SHOWN).collect(), got }
    };
    Outcome { verdict, declared: 1, executed: 1, passed: u32::from(holds), cases: Vec::new() }
}
