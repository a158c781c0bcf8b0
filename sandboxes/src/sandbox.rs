//! Who runs programs. The seam between the in-process engine and, later, worker processes.

use std::fmt;

use crate::program::{Execution, Limits, Program};
use crate::verdict::{JudgeRequest, Judgement};

/// Runs each program in a fresh instance. Calls block for as long as the guest runs: own a thread.
///
/// Requests and answers are plain data, so an implementation may sit on the other side of a pipe.
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// Runs a program on its own. Never fails: the host's own failures are an [`Execution`] that says so.
    fn execute(&self, program: &Program, limits: &Limits) -> Execution;

    /// Judges code against tests. Never fails: the host's own failures are `Verdict::InfraError`.
    fn judge(&self, request: &JudgeRequest) -> Judgement;

    /// The image's name, for the metrics' label.
    fn image(&self) -> &str;
}
