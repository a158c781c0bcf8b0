//! Tests compiled once: a task's tests judge many completions, and their compilation costs more than their run.
//!
//! The bytes come from an instance of the judge's that has run nothing else, and no code under test ever meets it.
//! Every judgement runs tests from these bytes, the first as well, so that each uses the same instructions.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::assert::judge_limits;
use crate::data::{Value, decode, encode};
use crate::engine::Engine;
use crate::guest::{Guest, TurnEnd};
use crate::program::{End, Limits};
use crate::verdict::Verdict;

/// Bytes of compiled tests kept; past them all are dropped.
const KEPT_BYTES: usize = 64 << 20;

type Kept = HashMap<[u8; 32], Arc<Vec<u8>>>;

/// Compiled tests by the hash of their source. One binary has one harness and one interpreter for assert tests, so the
/// source alone decides.
static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// The compiled tests of a source, or whose fault it is that there are none.
pub(super) fn frozen(engine: &Engine, code: &str) -> Result<Arc<Vec<u8>>, Verdict> {
    let key: [u8; 32] = Sha256::digest(code).into();
    if let Some(found) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(Arc::clone(found));
    }
    let made = Arc::new(make(engine, code)?);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.values().map(|bytes| bytes.len()).sum::<usize>() + made.len() > KEPT_BYTES {
        kept.clear();
    }
    kept.insert(key, Arc::clone(&made));
    Ok(made)
}

fn make(engine: &Engine, code: &str) -> Result<Vec<u8>, Verdict> {
    let infra = |detail: String| Verdict::InfraError { detail };
    let task = |detail: String| Verdict::TaskError { detail };
    let mut guest = Guest::new(engine, &judge_limits(&Limits::default()), 0)
        .map_err(|error| infra(format!("no instance for the tests: {error:#}")))?;
    let job = Value::Tuple(vec![Value::str("freeze"), Value::str(code)]);
    let frame = match guest.turn(encode(&job)) {
        TurnEnd::Returned(Some(frame)) => frame,
        TurnEnd::Ended(End::WallBackstop | End::HostError, detail) => return Err(infra(detail)),
        TurnEnd::Ended(_, detail) => return Err(task(format!("the tests do not compile: {detail}"))),
        ended => return Err(infra(format!("the tests were not compiled: {ended:?}"))),
    };
    match decode(&frame) {
        Ok(Value::Tuple(parts)) => match parts.as_slice() {
            [kind, Value::Bytes(bytes)] if *kind == Value::str("frozen") => Ok(bytes.clone()),
            [kind, detail] if *kind == Value::str("task") => Err(task(detail.to_text())),
            // Compiled tests larger than a frame may be.
            [kind, detail] if *kind == Value::str("unserialisable") => Err(task(detail.to_text())),
            _ => Err(infra("the compiled tests' frame is malformed".into())),
        },
        _ => Err(infra("the compiled tests' frame is malformed".into())),
    }
}
