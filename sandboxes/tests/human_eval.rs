//! HumanEval's 164 reference solutions, judged as completions would be.
//!
//! `REHEARSAL_TEST_HUMAN_EVAL` names the data set, unpacked to JSON lines.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "the measurement is part of the test's report")]

mod common;

use common::sandbox;
use rehearsal_sandboxes::{Isolation, JudgeRequest, Limits, Sandbox as _, Tests, Verdict};

struct Task {
    id: String,
    prompt: String,
    solution: String,
    test: String,
    entry_point: String,
}

fn tasks() -> Vec<Task> {
    let path = std::env::var("REHEARSAL_TEST_HUMAN_EVAL").expect("set REHEARSAL_TEST_HUMAN_EVAL to run these tests");
    let field = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|row| Task {
            id: field(&row, "task_id"),
            prompt: field(&row, "prompt"),
            solution: field(&row, "canonical_solution"),
            test: field(&row, "test"),
            entry_point: field(&row, "entry_point"),
        })
        .collect()
}

fn verdict(task: &Task, code: String, isolation: Isolation) -> (Verdict, u64) {
    let tests = Tests::Assert { code: task.test.clone(), entry_point: task.entry_point.clone() };
    let limits = Limits { fuel: 20_000_000_000, ..Limits::default() };
    let judgement = sandbox().judge(&JudgeRequest { code, tests, isolation, limits, seed: 0 });
    (judgement.verdict, judgement.wall_us)
}

#[test]
fn every_reference_passes_apart_and_beside() {
    for isolation in [Isolation::Separate, Isolation::Shared] {
        let mut times = Vec::new();
        let mut refused = Vec::new();
        let tasks = tasks();
        for task in &tasks {
            let (verdict, wall_us) = verdict(task, format!("{}{}", task.prompt, task.solution), isolation);
            times.push(wall_us);
            if verdict != Verdict::Passed {
                refused.push(format!("{}: {verdict:?}", task.id));
            }
        }
        times.sort_unstable();
        eprintln!(
            "{isolation:?}: {} tasks, median {} us, sum {} us",
            tasks.len(),
            times[times.len() / 2],
            times.iter().sum::<u64>()
        );
        assert!(refused.is_empty(), "{isolation:?}: {refused:#?}");
    }
}

#[test]
fn no_empty_body_passes() {
    for task in tasks() {
        let (verdict, _) = verdict(&task, format!("{}    pass\n", task.prompt), Isolation::Separate);
        let honest = matches!(verdict, Verdict::Failed { .. } | Verdict::PolicyError { .. });
        assert!(honest, "{}: {verdict:?}", task.id);
    }
}
