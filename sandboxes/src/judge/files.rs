//! Tests of the files that a program leaves: one run, then each file expected is a case.

use super::cases::Cases;
use super::runs::{RunEnd, Runs, ended, too_much_input};
use crate::compare::{difference, texts_equal};
use crate::engine::Engine;
use crate::program::{File, Program};
use crate::run::run_program;
use crate::verdict::{JudgeRequest, Judgement, TextRule, Verdict};
use crate::workspace::Workspace;

/// Runs the program and looks at what it left. A program that ends badly has left nothing that counts.
pub(super) fn run(
    engine: &Engine,
    request: &JudgeRequest,
    (stdin, files): (&str, &[File]),
    expected: &[File],
    rule: TextRule,
) -> Judgement {
    let mut seen = Cases::new(expected.iter().map(|_| false));
    let mut runs = Runs::default();
    if let Some(fault) = too_much_input("`tests.stdin`", stdin, &request.limits) {
        return runs.judgement(seen.stopped(fault));
    }
    // Tried out first: a workspace that cannot even begin is the task's fault, and a run would call it the host's.
    if let Err(detail) = Workspace::for_guest(engine.library(), &request.limits).put(files) {
        return runs.judgement(seen.stopped(Verdict::TaskError { detail }));
    }
    let program = Program {
        stdin: stdin.as_bytes().to_vec(),
        files: files.to_vec(),
        collect: expected.iter().map(|file| file.path.clone()).collect(),
        ..Program::new(request.code.as_str(), request.seed)
    };
    let mut execution = run_program(engine, &program, &request.limits);
    let left = std::mem::take(&mut execution.files);
    let used = execution.fuel_used;
    let end = ended(&execution);
    runs.add(execution, true);
    match end {
        RunEnd::ForGood(verdict) => return runs.judgement(seen.ended(verdict, used)),
        RunEnd::Badly(reason, detail) => {
            return runs.judgement(seen.ended(Verdict::PolicyError { reason, detail }, used));
        }
        RunEnd::Well => {}
    }
    for (at, wanted) in expected.iter().enumerate() {
        // The run is one: the first case bears its cost.
        let used = if at == 0 { used } else { 0 };
        match left.iter().find(|file| file.path == wanted.path) {
            Some(file) if texts_equal(rule, &file.bytes, &wanted.bytes) => seen.passed(used),
            Some(file) => {
                let (expected, got) = difference(&file.bytes, &wanted.bytes);
                seen.failed(format!("`{}`: {expected}", wanted.path), got, used);
            }
            None => seen.failed(format!("the file `{}`", wanted.path), "no such file".into(), used),
        }
    }
    runs.judgement(seen.finish())
}
