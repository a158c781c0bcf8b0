//! A program, the limits it runs under, and what came of it.

use serde::{Deserialize, Serialize};

/// What one run may use. Each limit has its own outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Instructions: the time limit. The same program uses the same fuel whatever the load.
    pub fuel: u64,
    /// Linear memory the program may add to the image's own, bytes.
    pub memory_bytes: u64,
    /// Bytes kept and allowed on each of stdout and stderr.
    pub output_bytes: usize,
    /// Wall-clock backstop, milliseconds: hit while fuel remained, it is the host's failure and never a verdict.
    pub wall_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel: 5_000_000_000, memory_bytes: 256 << 20, output_bytes: 64 << 10, wall_ms: 30_000 }
    }
}

/// A program for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Source text in the image's language.
    pub source: String,
    /// Seed of the guest's randomness.
    pub seed: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The program ran to its end, or left with an exit status (see [`Execution::exit`]).
    Exited,
    /// An uncaught exception, a syntax error included.
    Exception,
    /// The fuel limit.
    OutOfFuel,
    /// The memory limit.
    OutOfMemory,
    /// The output limit.
    OutputLimit,
    /// The guest's stack.
    StackOverflow,
    /// The wall-clock backstop while fuel remained: the host's failure.
    WallBackstop,
    /// The sandbox itself failed: the host's failure.
    HostError,
}

/// What came of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// How it ended.
    pub end: End,
    /// The exit status, where the program has one: 0 at its end, 1 after an exception, N after `sys.exit(N)`.
    pub exit: Option<i32>,
    /// Standard output as written, cut at the limit.
    pub stdout: Vec<u8>,
    /// Standard error as written, cut at the limit.
    pub stderr: Vec<u8>,
    /// Instructions used.
    pub fuel_used: u64,
    /// Wall-clock time in the sandbox, microseconds (queue time excluded).
    pub wall_us: u64,
    /// Largest linear memory, bytes.
    pub peak_memory_bytes: u64,
    /// What failed, for `HostError` and traps.
    pub detail: String,
}
