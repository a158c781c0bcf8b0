//! The sandbox of this process: a fresh instance per program, on the thread that calls.

use std::fmt;

use crate::judge;
use crate::program::{Execution, Limits, Program};
use crate::run::{kept, run_program};
use crate::sandbox::Sandbox;
use crate::snapshot::Snapshot;
use crate::verdict::{JudgeRequest, Judgement};

/// Runs programs in this process. Cheap to clone; any number of threads may call, each runs its own instance.
///
/// At most [`crate::INSTANCES_MAX`] instances live at once; one more is an [`End::HostError`](crate::End::HostError).
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
        let mut execution = run_program(&self.snapshot.engine, program, limits);
        execution.stdout = kept(execution.stdout, limits.output_kept_bytes);
        execution.stderr = kept(execution.stderr, limits.output_kept_bytes);
        execution
    }

    fn judge(&self, request: &JudgeRequest) -> Judgement {
        judge::judge(&self.snapshot.engine, request)
    }

    fn image(&self) -> &str {
        self.snapshot.image.name
    }
}
