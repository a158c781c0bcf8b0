//! Judging: the player runs the code under test and only answers calls; the tests and what they expect never enter it.
//!
//! A pass needs the positive word of whoever holds the tests — this host for calls, outputs and answers, the judge's instance for asserts —
//! and as many tests run as the task declares. Silence, an exit status or a broken frame is never a pass.

mod answer;
mod assert;
mod border;
mod call;
mod cases;
mod checker;
mod files;
mod frozen;
mod player;
mod runs;
mod stdio;
mod unit;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::engine::Engine;
use crate::program::End;
use crate::run::kept;
use crate::verdict::{CaseReport, Isolation, JudgeRequest, Judgement, PolicyErrorReason, Tests, Verdict};

use player::Player;

/// A verdict and how many tests stand behind it.
struct Outcome {
    verdict: Verdict,
    declared: u32,
    executed: u32,
    passed: u32,
    cases: Vec<CaseReport>,
}

impl Outcome {
    /// An outcome before any test ran.
    fn before_tests(verdict: Verdict, declared: u32) -> Self {
        Self { verdict, declared, executed: 0, passed: 0, cases: Vec::new() }
    }
}

/// Judges code against tests in fresh instances.
pub(crate) fn judge(engine: &Engine, request: &JudgeRequest) -> Judgement {
    let started = Instant::now();
    let declared = request.tests.declared();
    let refused = |verdict, end| bare(Outcome::before_tests(verdict, declared), end);
    if declared == 0 {
        return refused(Verdict::TaskError { detail: "the task has no tests".into() }, End::HostError);
    }
    if request.tests.wants_code() && request.code.trim().is_empty() {
        let reason = PolicyErrorReason::NoCode;
        return refused(Verdict::PolicyError { reason, detail: "there is no code".into() }, End::Exited);
    }
    let mut judgement = match &request.tests {
        Tests::Answer { expected, from, rule } => bare(answer::run(&request.code, expected, from, *rule), End::Exited),
        Tests::Stdio { cases, rule, checker } => stdio::run(engine, request, cases, *rule, checker.as_ref()),
        Tests::Files { stdin, files, expected, rule } => files::run(engine, request, (stdin, files), expected, *rule),
        Tests::Assert { .. } | Tests::Call { .. } | Tests::Unit { .. } => with_player(engine, request),
    };
    judgement.wall_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    judgement.stdout = kept(judgement.stdout, request.limits.output_kept_bytes);
    judgement.stderr = kept(judgement.stderr, request.limits.output_kept_bytes);
    judgement
}

/// Judges code whose functions the tests call.
fn with_player(engine: &Engine, request: &JudgeRequest) -> Judgement {
    let declared = request.tests.declared();
    let player = match Player::new(engine, request) {
        Ok(player) => Arc::new(Mutex::new(player)),
        Err(error) => {
            let verdict = Verdict::InfraError { detail: format!("no instance: {error:#}") };
            return bare(Outcome::before_tests(verdict, declared), End::HostError);
        }
    };
    let loaded = lock(&player).load();
    let outcome = match (loaded, &request.tests, request.isolation) {
        (Err(fault), ..) => Outcome::before_tests(fault.into_verdict(), declared),
        (Ok(()), Tests::Call { entry_point, cases, rule }, _) => {
            call::run(&mut lock(&player), entry_point, cases, *rule)
        }
        (Ok(()), Tests::Assert { code, entry_point }, Isolation::Shared) => {
            assert::shared(&mut lock(&player), code, entry_point)
        }
        (Ok(()), Tests::Assert { code, entry_point }, Isolation::Separate) => {
            assert::separate(engine, &player, code, entry_point, request)
        }
        (Ok(()), Tests::Unit { code, module }, Isolation::Shared) => unit::shared(&mut lock(&player), code, module),
        (Ok(()), Tests::Unit { code, module }, Isolation::Separate) => {
            unit::separate(engine, &player, code, module, request)
        }
        (Ok(()), Tests::Stdio { .. } | Tests::Answer { .. } | Tests::Files { .. }, _) => {
            let detail = "these tests call nothing".into();
            Outcome::before_tests(Verdict::InfraError { detail }, declared)
        }
    };
    let mut player = lock(&player);
    let (stdout, stderr) = player.take_output();
    let end = player.end();
    let mut judgement = bare(outcome, end);
    judgement.fuel_used = player.fuel_used();
    judgement.start_us = player.start_us();
    judgement.peak_memory_bytes = player.peak_memory_bytes();
    (judgement.stdout, judgement.stderr) = (stdout, stderr);
    judgement
}

/// The player, which one thread uses: a panic while it was held has ended the judgement already.
fn lock(player: &Mutex<Player>) -> MutexGuard<'_, Player> {
    player.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bare(outcome: Outcome, end: End) -> Judgement {
    Judgement {
        verdict: outcome.verdict,
        tests_executed: outcome.executed,
        tests_passed: outcome.passed,
        cases: outcome.cases,
        end,
        ..Judgement::infra(String::new(), outcome.declared)
    }
}
