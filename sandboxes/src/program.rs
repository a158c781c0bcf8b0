//! A program, the limits it runs under, and what came of it.

use serde::{Deserialize, Serialize};

/// What one run may use. Each limit has its own outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Instructions: the time limit. The same program uses the same fuel whatever the load. → [`End::OutOfFuel`]
    pub fuel: u64,
    /// Linear memory the program may add to the image's own, bytes. → [`End::OutOfMemory`]
    pub memory_bytes: u64,
    /// Elements its tables may add to the image's own. → [`End::OutOfMemory`]
    pub table_elements: u32,
    /// Bytes allowed on each of stdout and stderr. → [`End::OutputLimit`]
    pub output_bytes: usize,
    /// Bytes of each stream that a result keeps: its head and its tail, with a marker where the middle was cut.
    pub output_kept_bytes: usize,
    /// Bytes of standard input. More is refused before the program starts: the task is at fault.
    pub stdin_bytes: usize,
    /// Files and directories open at once. The guest sees `EMFILE`. → [`End::WorkspaceLimit`]
    pub open_files: u32,
    /// Bytes of all files of the workspace together. The guest sees `ENOSPC`. → [`End::WorkspaceLimit`]
    pub workspace_bytes: u64,
    /// Files, directories and links of the workspace. The guest sees `ENOSPC`. → [`End::WorkspaceLimit`]
    pub workspace_files: u32,
    /// Bytes of one path. The guest sees `ENAMETOOLONG`. → [`End::WorkspaceLimit`]
    pub path_bytes: u32,
    /// Directories above a file of the workspace. The guest sees `ENAMETOOLONG`. → [`End::WorkspaceLimit`]
    pub path_depth: u32,
    /// Host memory that the values of one verdict may take, bytes. → `Unserialisable`
    pub result_bytes: u64,
    /// Wall-clock backstop, milliseconds: hit while fuel remained, it is the host's failure and never a verdict.
    pub wall_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 5_000_000_000,
            memory_bytes: 256 << 20,
            table_elements: 10_000,
            output_bytes: 4 << 20,
            output_kept_bytes: 64 << 10,
            stdin_bytes: 64 << 20,
            open_files: 128,
            workspace_bytes: 64 << 20,
            workspace_files: 4096,
            path_bytes: 1024,
            path_depth: 32,
            result_bytes: 64 << 20,
            wall_ms: 30_000,
        }
    }
}

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where, relative to the workspace, with `/` between names.
    pub path: String,
    /// What it holds. In JSON, text; bytes that are not UTF-8 as an array of numbers.
    #[serde(with = "crate::text_or_bytes")]
    pub bytes: Vec<u8>,
}

/// A program for a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Program {
    /// The program: source text in the image's language, or a module for the image `wasm`.
    #[serde(with = "crate::text_or_bytes")]
    pub source: Vec<u8>,
    /// Arguments after the program's own name.
    pub arguments: Vec<String>,
    /// Standard input: a real descriptor 0, at its end once all is read.
    #[serde(with = "crate::text_or_bytes")]
    pub stdin: Vec<u8>,
    /// Files it finds in its workspace.
    pub files: Vec<File>,
    /// Paths whose files [`Execution::files`] is to hold, where the program leaves them; a directory stands for all files in it.
    pub collect: Vec<String>,
    /// Seed of the guest's randomness.
    pub seed: u64,
}

impl Program {
    /// A program that is nothing but its source.
    pub fn new(source: impl Into<Vec<u8>>, seed: u64) -> Self {
        Self { source: source.into(), seed, ..Self::default() }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The program ran to its end, or left with an exit status (see [`Execution::exit`]).
    Exited,
    /// An uncaught exception, a syntax error included; a trap of a compiled program.
    Exception,
    /// The fuel limit.
    OutOfFuel,
    /// The memory limit, or the limit of the tables.
    OutOfMemory,
    /// The output limit.
    OutputLimit,
    /// The guest's stack.
    StackOverflow,
    /// A quota of the workspace, and the program did not come to terms with the error it got.
    WorkspaceLimit,
    /// The wall-clock backstop while fuel remained: the host's failure.
    WallBackstop,
    /// The sandbox itself failed: the host's failure.
    HostError,
}

impl End {
    /// Every way to end, for metrics that name them all from the start.
    pub const ALL: [Self; 9] = [
        Self::Exited,
        Self::Exception,
        Self::OutOfFuel,
        Self::OutOfMemory,
        Self::OutputLimit,
        Self::StackOverflow,
        Self::WorkspaceLimit,
        Self::WallBackstop,
        Self::HostError,
    ];

    /// The name in metrics and results.
    pub fn label(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Exception => "exception",
            Self::OutOfFuel => "out_of_fuel",
            Self::OutOfMemory => "out_of_memory",
            Self::OutputLimit => "output_limit",
            Self::StackOverflow => "stack_overflow",
            Self::WorkspaceLimit => "workspace_limit",
            Self::WallBackstop => "wall_backstop",
            Self::HostError => "host_error",
        }
    }
}

/// What came of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// How it ended.
    pub end: End,
    /// The exit status, where the program has one: 0 at its end, 1 after an exception, N after `sys.exit(N)`.
    pub exit: Option<i32>,
    /// Standard output: all of it, or its head and tail (see [`Limits::output_kept_bytes`]).
    #[serde(with = "crate::text_or_bytes")]
    pub stdout: Vec<u8>,
    /// Standard error, likewise.
    #[serde(with = "crate::text_or_bytes")]
    pub stderr: Vec<u8>,
    /// The files asked for by [`Program::collect`], sorted by path.
    pub files: Vec<File>,
    /// Instructions used.
    pub fuel_used: u64,
    /// Wall-clock time until the program could start, microseconds (queue time excluded).
    pub start_us: u64,
    /// Wall-clock time in the sandbox, its start included, microseconds (queue time excluded).
    pub wall_us: u64,
    /// Largest linear memory, bytes.
    pub peak_memory_bytes: u64,
    /// What failed, for `HostError` and traps.
    pub detail: String,
}

impl Execution {
    /// The host's failure before the program started.
    pub(crate) fn refused(detail: String) -> Self {
        Self {
            end: End::HostError,
            exit: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
            files: Vec::new(),
            fuel_used: 0,
            start_us: 0,
            wall_us: 0,
            peak_memory_bytes: 0,
            detail,
        }
    }
}
