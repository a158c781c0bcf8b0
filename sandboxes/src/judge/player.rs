//! The player: an instance that holds the code under test and answers calls with plain data.

use crate::data::{Int, Value, decode, encode};
use crate::engine::Engine;
use crate::guest::{Callee, Guest, TurnEnd};
use crate::program::End;
use crate::verdict::{JudgeRequest, PolicyErrorReason, Tests, Verdict};

/// Why a player answers no more.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The code under test is at fault.
    Policy(PolicyErrorReason, String),
    /// The host is.
    Infra(String),
}

impl Fault {
    pub(super) fn into_verdict(self) -> Verdict {
        match self {
            Self::Policy(reason, detail) => Verdict::PolicyError { reason, detail },
            Self::Infra(detail) => Verdict::InfraError { detail },
        }
    }
}

/// What a live player answers.
pub(super) enum Reply {
    /// A value.
    Value(Value),
    /// The called function raised: the whole answer, for whoever may catch it.
    Raised {
        /// The exception's traceback.
        text: String,
        /// The answer as it came.
        answer: Value,
    },
    /// A value for the judge, which no one reads on the way: its first byte is `!`.
    Crossed(Vec<u8>),
    /// Anything else the harness says.
    Other(Vec<Value>),
}

/// An instance with the code under test.
pub(super) struct Player {
    guest: Guest,
    load: Vec<u8>,
    fault: Option<Fault>,
    end: End,
}

impl Player {
    /// An instance that has not run anything yet.
    pub(super) fn new(engine: &Engine, request: &JudgeRequest) -> wasmtime::Result<Self> {
        let (entry_point, module) = match &request.tests {
            Tests::Assert { entry_point, .. } | Tests::Call { entry_point, .. } => (entry_point.as_str(), "solution"),
            Tests::Unit { module, .. } => ("", module.as_str()),
            _ => ("", "solution"),
        };
        let load = encode(&Value::Tuple(vec![
            Value::str("load"),
            Value::Int(Int::from(i128::from(request.seed))),
            Value::str(&request.code),
            Value::str(entry_point),
            Value::str(module),
        ]));
        let guest = Guest::new(engine, &request.limits, request.seed)?;
        Ok(Self { guest, load, fault: None, end: End::Exited })
    }

    /// Runs the code under test as a module.
    pub(super) fn load(&mut self) -> Result<(), Fault> {
        let job = std::mem::take(&mut self.load);
        match self.ask(job)? {
            Reply::Other(parts) if parts.first().is_some_and(|kind| *kind == Value::str("loaded")) => Ok(()),
            Reply::Raised { text, .. } => Err(self.fail(PolicyErrorReason::Runtime, text)),
            Reply::Value(_) | Reply::Crossed(_) | Reply::Other(_) => Err(self.broken()),
        }
    }

    /// One turn of the player. A fault is final: it is given again to everybody who asks later.
    pub(super) fn ask(&mut self, job: Vec<u8>) -> Result<Reply, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        match self.guest.turn(job) {
            TurnEnd::Returned(frame) => self.reply(frame),
            TurnEnd::Exit(code) => Err(self.fail(PolicyErrorReason::Exited, format!("left with status {code}"))),
            TurnEnd::CalleeEnded => Err(self.broken()),
            TurnEnd::Ended(end, detail) => Err(self.ended(end, detail)),
        }
    }

    /// Sets who answers what the code under test asks while a turn runs: the judge, where it lent a callback.
    pub(super) fn set_callee(&mut self, callee: Callee) {
        self.guest.set_callee(callee);
    }

    fn reply(&mut self, frame: Option<Vec<u8>>) -> Result<Reply, Fault> {
        use PolicyErrorReason::{Compile, Exited, MissingEntryPoint, Unserialisable};

        if let Some(frame) = frame.as_ref().filter(|frame| frame.first() == Some(&b'!')) {
            return Ok(Reply::Crossed(frame.clone()));
        }
        let answer = match frame.as_deref().map(decode) {
            Some(Ok(answer @ Value::Tuple(_))) => answer,
            Some(Err(error)) => return Err(self.fail(Unserialisable, error.to_string())),
            _ => return Err(self.broken()),
        };
        let Value::Tuple(parts) = &answer else { return Err(self.broken()) };
        let kind = parts.first().map(Value::to_text).unwrap_or_default();
        match (kind.as_str(), parts.as_slice()) {
            ("value", [_, value]) => Ok(Reply::Value(value.clone())),
            (
                "raised",
                [_, class @ Value::Str(_), Value::List(bases), Value::Str(_), text @ Value::Str(_), rest @ ..],
            ) if matches!(rest, [] | [Value::Bytes(_)]) && bases.iter().all(|base| matches!(base, Value::Str(_))) => {
                if let Some(fault) = self.limit_behind(&class.to_text()) {
                    return Err(fault);
                }
                Ok(Reply::Raised { text: text.to_text(), answer: answer.clone() })
            }
            ("exit", [_, code]) => Err(self.fail(Exited, format!("left with status {}", code.to_text()))),
            ("compile", [_, text]) => Err(self.fail(Compile, text.to_text())),
            ("missing", [_, text]) => Err(self.fail(MissingEntryPoint, text.to_text())),
            ("unserialisable", [_, text]) => Err(self.fail(Unserialisable, text.to_text())),
            ("raised", _) => Err(self.broken()),
            _ => Ok(Reply::Other(parts.clone())),
        }
    }

    /// Records that the code under test is at fault.
    pub(super) fn fail(&mut self, reason: PolicyErrorReason, detail: String) -> Fault {
        use PolicyErrorReason::{Compile, Runtime};

        if matches!(reason, Runtime | Compile) {
            self.end = End::Exception;
        }
        let fault = Fault::Policy(reason, detail);
        self.fault = Some(fault.clone());
        fault
    }

    /// Records an exception of the code under test that ended the tests: its line, and its trace.
    pub(super) fn raised(&mut self, line: &str, text: String) -> Fault {
        let class = line.split(':').next().unwrap_or_default();
        match self.limit_behind(class) {
            Some(fault) => fault,
            None => self.fail(PolicyErrorReason::Runtime, text),
        }
    }

    /// The limit that an exception of this class tells of.
    fn limit_behind(&mut self, class: &str) -> Option<Fault> {
        match class {
            "MemoryError" if self.guest.memory_denied() => {
                Some(self.ended(End::OutOfMemory, "memory limit reached (MemoryError)".into()))
            }
            "OSError" if self.guest.workspace().exceeded => {
                Some(self.ended(End::WorkspaceLimit, "a quota of the workspace was reached (OSError)".into()))
            }
            _ => None,
        }
    }

    /// Records that a call raised, after which others may still be made.
    pub(super) fn note_exception(&mut self) {
        self.end = End::Exception;
    }

    /// The harness in the player does not answer as written: only the code beside it can have done that.
    pub(super) fn broken(&mut self) -> Fault {
        self.fail(PolicyErrorReason::Runtime, "the code under test broke its own interpreter".into())
    }

    /// Records that the host is at fault.
    pub(super) fn infra(&mut self, detail: String) {
        self.fault = Some(Fault::Infra(detail));
        self.end = End::HostError;
    }

    fn ended(&mut self, end: End, detail: String) -> Fault {
        self.end = end;
        let fault = match PolicyErrorReason::of(end) {
            Some(reason) => Fault::Policy(reason, detail),
            None => Fault::Infra(detail),
        };
        self.fault = Some(fault.clone());
        fault
    }

    /// The fault that ended it, if one did.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault.clone()
    }

    /// How the instance ended, or `Exited` where it just stopped being asked.
    pub(super) fn end(&self) -> End {
        self.end
    }

    pub(super) fn fuel_used(&self) -> u64 {
        self.guest.fuel_used()
    }

    pub(super) fn start_us(&self) -> u64 {
        self.guest.start_us()
    }

    pub(super) fn peak_memory_bytes(&self) -> u64 {
        self.guest.peak_memory_bytes()
    }

    pub(super) fn take_output(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.guest.take_output()
    }
}
