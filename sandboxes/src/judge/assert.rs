//! Tests that are source: run by a judge's instance apart from the player, or beside it where the task says so.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use super::border::Border;
use super::frozen::frozen;
use super::player::{Player, Reply};
use super::{Outcome, lock};
use crate::data::{Int, Value, decode, encode};
use crate::engine::Engine;
use crate::guest::{Guest, TurnEnd};
use crate::program::{End, Limits};
use crate::verdict::{JudgeRequest, PolicyErrorReason, Verdict};

/// What the tests themselves may use. Past it the task is at fault, not the code under test.
pub(super) fn judge_limits(player: &Limits) -> Limits {
    Limits {
        fuel: 20_000_000_000,
        memory_bytes: 1 << 30,
        output_bytes: 1 << 20,
        // A checker finds a case's input and both outputs in its workspace.
        workspace_bytes: 512 << 20,
        // The judge waits while the player runs, which has a backstop of its own.
        wall_ms: player.wall_ms.saturating_add(60_000),
        ..Limits::default()
    }
}

/// Runs the tests in an instance of their own. Its calls cross to the player through this host.
pub(super) fn separate(
    engine: &Engine,
    player: &Arc<Mutex<Player>>,
    code: &str,
    entry_point: &str,
    request: &JudgeRequest,
) -> Outcome {
    let tests = match frozen(engine, code) {
        Ok(tests) => tests,
        Err(verdict) => return Outcome::before_tests(verdict, 1),
    };
    let job = vec![
        Value::str("judge"),
        Value::Int(Int::from(i128::from(request.seed))),
        Value::str(code),
        Value::str(entry_point),
        Value::Bytes(tests.to_vec()),
    ];
    match run(engine, player, job, request) {
        Ok((ended, _)) => outcome(&mut lock(player), ended),
        Err(refused) => refused,
    }
}

/// A mark of the tests' harness, and the fuel the player had used by then.
pub(super) type Mark = (Vec<u8>, u64);

/// Runs a job of the harness's in an instance of the judge's.
pub(super) fn run(
    engine: &Engine,
    player: &Arc<Mutex<Player>>,
    job: Vec<Value>,
    request: &JudgeRequest,
) -> Result<(TurnEnd, Vec<Mark>), Outcome> {
    let mut judge = Guest::new(engine, &judge_limits(&request.limits), request.seed).map_err(|error| {
        let verdict = Verdict::InfraError { detail: format!("no instance for the tests: {error:#}") };
        Outcome::before_tests(verdict, 1)
    })?;
    let border = Arc::new(Mutex::new(Border::new(player)));
    let crossing = Arc::clone(&border);
    let locked =
        |border: &Mutex<Border>, frame: &[u8]| border.lock().unwrap_or_else(PoisonError::into_inner).request(frame);
    judge.set_callee(Box::new(move |frame| locked(&crossing, frame)));
    let ended = judge.turn(encode(&Value::Tuple(job)));
    let marks = border.lock().unwrap_or_else(PoisonError::into_inner).finish();
    Ok((ended, marks))
}

/// The verdict on a judge's turn.
fn outcome(player: &mut Player, ended: TurnEnd) -> Outcome {
    match verdict_frame(player, ended) {
        Ok(parts) => read(player, &parts),
        Err(verdict) => Outcome::before_tests(verdict, 1),
    }
}

/// The frame with which a judge's turn ended, or what there is to say without one.
pub(super) fn verdict_frame(player: &Player, ended: TurnEnd) -> Result<Vec<Value>, Verdict> {
    if let Some(fault) = player.fault() {
        return Err(fault.into_verdict());
    }
    let detail = match ended {
        TurnEnd::Returned(Some(frame)) => match decode(&frame) {
            Ok(Value::Tuple(parts)) => return Ok(parts),
            _ => "the tests broke their interpreter".into(),
        },
        TurnEnd::Returned(None) => "the tests broke their interpreter".into(),
        TurnEnd::Exit(code) => format!("the tests leave with status {code}"),
        TurnEnd::Ended(End::WallBackstop | End::HostError, detail) => return Err(Verdict::InfraError { detail }),
        TurnEnd::Ended(_, detail) => format!("the tests end before their verdict: {detail}"),
        TurnEnd::CalleeEnded => "the tests called a player that had ended".into(),
    };
    Err(Verdict::TaskError { detail })
}

/// The verdict frame of the harness that ran the tests.
fn read(player: &mut Player, parts: &[Value]) -> Outcome {
    let kind = parts.first().map(Value::to_text).unwrap_or_default();
    let number = |index: usize| parts.get(index).and_then(Value::as_u32);
    let text = |index: usize| parts.get(index).map(Value::to_text).unwrap_or_default();
    match (kind.as_str(), number(1), number(2)) {
        ("done", Some(declared), Some(executed)) if executed == declared && declared > 0 => {
            Outcome { verdict: Verdict::Passed, declared, executed, passed: executed, cases: Vec::new() }
        }
        ("done", Some(declared), Some(executed)) => {
            let detail = format!("only {executed} of {declared} unconditional asserts ran");
            Outcome { verdict: Verdict::TaskError { detail }, declared, executed, passed: 0, cases: Vec::new() }
        }
        ("failed", Some(declared), Some(executed)) => Outcome {
            verdict: Verdict::Failed { test: text(4), expected: text(5), got: text(6) },
            declared,
            executed,
            passed: number(3).unwrap_or(0),
            cases: Vec::new(),
        },
        ("player", Some(declared), Some(executed)) => {
            let verdict = player.raised(&text(3), text(4)).into_verdict();
            Outcome { verdict, declared, executed, passed: executed, cases: Vec::new() }
        }
        // The code under test answered the judge with what no harness writes.
        ("broken", ..) => Outcome::before_tests(player.broken().into_verdict(), 1),
        ("task", ..) => Outcome::before_tests(Verdict::TaskError { detail: text(1) }, 1),
        ("exit", ..) => {
            let detail = format!("the tests leave with status {}", text(1));
            Outcome::before_tests(Verdict::TaskError { detail }, 1)
        }
        _ => Outcome::before_tests(Verdict::InfraError { detail: "the verdict's frame is malformed".into() }, 1),
    }
}

/// Runs the tests in the player's interpreter. What the code under test learns there it could misuse; what it cannot do
/// is leave early, or know the nonce before the tests run.
pub(super) fn shared(player: &mut Player, code: &str, entry_point: &str) -> Outcome {
    let verdict = match beside(player, ["shared", code, entry_point]) {
        Ok(verdict) => verdict,
        Err(verdict) => return Outcome::before_tests(verdict, 1),
    };
    match read(player, &verdict) {
        // The harness writes no such frame: only the code beside it can have.
        Outcome { verdict: Verdict::InfraError { .. }, .. } => Outcome::before_tests(player.broken().into_verdict(), 1),
        outcome => outcome,
    }
}

/// The verdict frame of a job that runs beside the code under test.
pub(super) fn beside(player: &mut Player, [job, code, tested]: [&str; 3]) -> Result<Vec<Value>, Verdict> {
    // Not part of the verdict: bytes the code under test cannot foresee, always as many, so that fuel stays the same.
    let nonce = Value::Bytes(RandomState::new().build_hasher().finish().to_le_bytes().to_vec());
    let job = Value::Tuple(vec![Value::str(job), nonce.clone(), Value::str(code), Value::str(tested)]);
    let parts = match player.ask(encode(&job)) {
        Ok(Reply::Other(parts)) => parts,
        Ok(_) => return Err(player.broken().into_verdict()),
        Err(fault) => return Err(fault.into_verdict()),
    };
    match parts.as_slice() {
        [kind, echoed, Value::Tuple(verdict)] if *kind == Value::str("shared") && *echoed == nonce => {
            if verdict.first() == Some(&Value::str("exit")) {
                let fault = player.fail(PolicyErrorReason::Exited, "left while the tests ran".into());
                return Err(fault.into_verdict());
            }
            Ok(verdict.clone())
        }
        _ => Err(player.broken().into_verdict()),
    }
}
