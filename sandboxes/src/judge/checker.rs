//! Programs that decide whether an output is right: each question runs one in an instance of its own.

use super::assert::judge_limits;
use super::runs::{RunEnd, ended};
use crate::engine::Engine;
use crate::program::{Execution, File, Program};
use crate::run::run_program;
use crate::verdict::{Checker, JudgeRequest, StdioCase, Verdict};

const YES: [&str; 7] = ["1", "1.0", "ok", "yes", "true", "accepted", "correct"];
const NO: [&str; 6] = ["0", "0.0", "no", "false", "wrong", "incorrect"];
/// Characters of the checker's word that a message shows.
const SHOWN: usize = 200;

/// What a checker said.
pub(super) enum Word {
    Yes,
    /// … and why, in its own words.
    No(String),
}

/// Asks the checker about the output of one case.
///
/// # Errors
/// [`Verdict::TaskError`] where it does not answer, [`Verdict::InfraError`] where the host could not ask.
pub(super) fn ask(
    engine: &Engine,
    request: &JudgeRequest,
    checker: &Checker,
    case: &StdioCase,
    output: &[u8],
) -> Result<Word, Verdict> {
    let file = |path: &str, bytes: &[u8]| File { path: path.into(), bytes: bytes.to_vec() };
    let program = Program {
        arguments: ["input.txt", "expected.txt", "output.txt"].map(str::to_owned).to_vec(),
        files: vec![
            file("input.txt", case.stdin.as_bytes()),
            file("expected.txt", case.expected.as_bytes()),
            file("output.txt", output),
        ],
        ..Program::new(checker.source.as_str(), request.seed)
    };
    let execution = run_program(engine, &program, &judge_limits(&request.limits));
    match ended(&execution) {
        RunEnd::Well => word(&execution),
        RunEnd::ForGood(Verdict::InfraError { detail }) => Err(Verdict::InfraError { detail }),
        RunEnd::Badly(_, detail) | RunEnd::ForGood(Verdict::PolicyError { detail, .. }) => {
            Err(fault(&format!("ended with: {} ({detail})", execution.end.label())))
        }
        RunEnd::ForGood(verdict) => Err(verdict),
    }
}

fn word(execution: &Execution) -> Result<Word, Verdict> {
    let said = String::from_utf8_lossy(&execution.stdout);
    let first = said.split_whitespace().next().unwrap_or_default().to_lowercase();
    let first = first.trim_end_matches([':', ',', ';', '.', '!']);
    if YES.contains(&first) {
        Ok(Word::Yes)
    } else if NO.contains(&first) {
        Ok(Word::No(said.trim().chars().take(SHOWN).collect()))
    } else {
        let shown: String = said.chars().take(SHOWN).collect();
        Err(fault(&format!(
            "says neither yes nor no: {shown:?}; its first word must be one of `1 ok yes true accepted correct` or `0 no false wrong incorrect`"
        )))
    }
}

fn fault(what: &str) -> Verdict {
    Verdict::TaskError { detail: format!("the checker {what}") }
}
