//! The shipped task set: every reference passes, and what does not solve a task does not pass it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rehearsal::Limits;
use rehearsal::tasks::{TaskLine, load};
use rehearsal_sandboxes::{Tests, Verdict};

use crate::support::python;

fn shipped() -> Vec<TaskLine> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tasks/python-basics.jsonl")).unwrap()
}

fn entry_point(task: &TaskLine) -> &str {
    match &task.tests {
        Tests::Assert { entry_point, .. } | Tests::Call { entry_point, .. } => entry_point,
        other => panic!("the shipped tasks are functions: {other:?}"),
    }
}

/// The tasks whose verdict on `code` is not as wanted.
fn surprises(code: impl Fn(&TaskLine) -> String + Sync, wanted: impl Fn(&Verdict) -> bool + Sync) -> Vec<String> {
    let (lines, sandbox, next, found) = (shipped(), python(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let work = || {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let task = line.clone().into_task(&Limits { wall_ms: 120_000, ..Limits::default() });
                    let verdict = sandbox.judge(&task.judge_request(code(line), 0)).verdict;
                    if !wanted(&verdict) {
                        found.lock().unwrap().push(format!("{}: {verdict:?}", line.id));
                    }
                }
            };
            std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, work).unwrap();
        }
    });
    found.into_inner().unwrap()
}

fn is_scored_and_not_passed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed { .. } | Verdict::PolicyError { .. })
}

#[test]
fn the_set_is_as_large_and_split_as_it_says() {
    let lines = shipped();
    let of = |split: &str| lines.iter().filter(|line| line.split.as_deref() == Some(split)).count();
    assert!(of("train") >= 64 && of("heldout") >= 24, "{} train, {} heldout", of("train"), of("heldout"));
    assert_eq!(of("train") + of("heldout"), lines.len());
    assert!(lines.len() >= 96);
    let mut names: Vec<_> = lines.iter().map(entry_point).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), lines.len(), "a function is asked for twice");
}

#[test]
fn every_reference_passes() {
    let failed = surprises(|line| line.reference.clone().unwrap(), |verdict| *verdict == Verdict::Passed);
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn what_does_not_solve_a_task_does_not_pass_it() {
    for body in [
        "pass",
        "return 0",
        "return ''",
        "return []",
        "return True",
        "return args[0]",
        "import os; os._exit(0)",
        "raise SystemExit(0)",
    ] {
        let passed =
            surprises(|line| format!("def {}(*args):\n    {body}\n", entry_point(line)), is_scored_and_not_passed);
        assert!(passed.is_empty(), "`{body}`: {passed:#?}");
    }
    let always_equal =
        "class E:\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 0\n";
    let passed = surprises(
        |line| format!("{always_equal}def {}(*args):\n    return E()\n", entry_point(line)),
        is_scored_and_not_passed,
    );
    assert!(passed.is_empty(), "an always-equal object: {passed:#?}");
}
