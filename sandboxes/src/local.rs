//! The sandbox of this process: a fresh instance per program, on the thread that calls.

use std::fmt;

use crate::data::{Int, Value, decode, encode};
use crate::guest::{Guest, TurnEnd};
use crate::judge;
use crate::program::{End, Execution, Limits, Program};
use crate::sandbox::Sandbox;
use crate::snapshot::Snapshot;
use crate::verdict::{JudgeRequest, Judgement};

/// Runs programs in this process. Cheap to clone; any number of threads may call, each runs its own instance.
///
/// At most [`crate::INSTANCES_MAX`] instances live at once; one more is an [`End::HostError`].
#[derive(Clone)]
pub struct LocalSandbox {
    snapshot: Snapshot,
}

impl fmt::Debug for LocalSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSandbox").field("image", &self.image()).finish_non_exhaustive()
    }
}

impl LocalSandbox {
    /// A sandbox whose instances start from `snapshot`.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { snapshot }
    }
}

impl Sandbox for LocalSandbox {
    fn execute(&self, program: &Program, limits: &Limits) -> Execution {
        let mut guest = match Guest::new(&self.snapshot.engine, limits, program.seed) {
            Ok(guest) => guest,
            Err(error) => return Execution::refused(format!("no instance: {error:#}")),
        };
        guest.set_stdin(program.stdin.clone());
        let job = Value::Tuple(vec![
            Value::str("program"),
            Value::Int(Int::from(i128::from(program.seed))),
            Value::str(&String::from_utf8_lossy(&program.source)),
        ]);
        let ended = guest.turn(encode(&job));
        let (end, exit, detail) = ending(ended, guest.memory_denied());
        let (stdout, stderr) = guest.take_output();
        Execution {
            end,
            exit,
            stdout,
            stderr,
            files: Vec::new(),
            fuel_used: guest.fuel_used(),
            start_us: guest.start_us(),
            wall_us: u64::try_from(guest.wall().as_micros()).unwrap_or(u64::MAX),
            peak_memory_bytes: guest.peak_memory_bytes(),
            detail,
        }
    }

    fn judge(&self, request: &JudgeRequest) -> Judgement {
        judge::judge(&self.snapshot.engine, request)
    }

    fn image(&self) -> &str {
        self.snapshot.image.name
    }
}

/// The outcome of a program's one turn: how it ended, its exit status, what there is to say.
fn ending(ended: TurnEnd, memory_denied: bool) -> (End, Option<i32>, String) {
    let reply = match ended {
        TurnEnd::Returned(reply) => reply,
        TurnEnd::Exit(code) => return (End::Exited, Some(code), String::new()),
        TurnEnd::CalleeEnded => return (End::HostError, None, "a program called nobody".into()),
        TurnEnd::Ended(end, detail) => return (end, None, detail),
    };
    let reply = reply.and_then(|frame| decode(&frame).ok());
    let parts = match &reply {
        Some(Value::Tuple(parts)) => parts.as_slice(),
        _ => &[],
    };
    let kind = parts.first().map(Value::to_text).unwrap_or_default();
    match (kind.as_str(), parts) {
        ("end", _) => (End::Exited, Some(0), String::new()),
        ("exit", [_, Value::Int(code)]) => {
            let code = code.to_i128().and_then(|code| i32::try_from(code).ok());
            (End::Exited, code, String::new())
        }
        ("raised", [_, class, _, line, _]) => {
            let end = if memory_denied && class.to_text() == "MemoryError" { End::OutOfMemory } else { End::Exception };
            (end, Some(1), line.to_text())
        }
        _ => (End::Exception, None, "the program broke its own interpreter".into()),
    }
}
