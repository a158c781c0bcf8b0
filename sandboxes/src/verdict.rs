//! Tests, and the exhaustive verdict that decides what may become a reward.

use serde::{Deserialize, Serialize};

use crate::program::{End, Limits};

/// How a completion is tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tests {
    /// Test source with `assert` statements (or a `check(candidate)`) about the function `entry_point`.
    Assert {
        /// The source; the completion's names are in its scope, `entry_point` also as `candidate`.
        code: String,
        /// The tested function.
        entry_point: String,
    },
    /// Calls of `entry_point`, compared by the host as plain data.
    Call {
        /// The called function.
        entry_point: String,
        /// At least one.
        cases: Vec<TestCase>,
    },
}

/// One call and the value it must return.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// Positional arguments, JSON.
    pub args: Vec<serde_json::Value>,
    /// The value expected, JSON; numbers compare as Python's `==`, lists match lists and tuples.
    pub expected: serde_json::Value,
}

/// Whether tests and tested code share an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Two instances; calls cross through the host as plain data.
    #[default]
    Separate,
    /// One instance, for tests that need rich objects across the border. Leaving early still never passes, but code that
    /// patches the interpreter it shares with its tests can cheat them: for trusted code, or where nothing else works.
    Shared,
}

/// Everything a verdict depends on: the same request gives the same judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeRequest {
    /// The code under test (already extracted from the completion).
    pub code: String,
    /// Its tests.
    pub tests: Tests,
    /// Where the tests run.
    pub isolation: Isolation,
    /// The player's limits. The judge has its own.
    pub limits: Limits,
    /// Seed of the guests' randomness.
    pub seed: u64,
}

/// What a judgement says. Only `Passed`, `Failed` and `PolicyError` may become a reward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Verdict {
    /// Every declared test ran and held.
    Passed,
    /// A test ran and did not hold.
    Failed {
        /// Which: `case 3` or the assert's source line.
        test: String,
        /// The value expected, as text; empty where the test does not say.
        expected: String,
        /// The value got, as text.
        got: String,
    },
    /// The code under test ended before the tests could.
    PolicyError {
        /// Why.
        reason: PolicyErrorReason,
        /// The exception's text or the limit.
        detail: String,
    },
    /// The task is at fault: its tests do not compile, name nothing, or run out of fuel of their own.
    TaskError {
        /// Why.
        detail: String,
    },
    /// The host is at fault: never scored, dispatched again.
    InfraError {
        /// Why.
        detail: String,
    },
}

/// Why code under test ended before its tests could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyErrorReason {
    /// The completion holds no code.
    NoCode,
    /// It does not compile.
    Compile,
    /// An uncaught exception at import or in a tested call.
    Runtime,
    /// It left the interpreter (`sys.exit`, `os._exit`, `SystemExit`).
    Exited,
    /// `entry_point` is not defined, or is not callable.
    MissingEntryPoint,
    /// The fuel limit.
    OutOfFuel,
    /// The memory limit.
    OutOfMemory,
    /// The output limit.
    OutputLimit,
    /// The stack.
    StackOverflow,
    /// A returned value is not plain data, or too large.
    Unserialisable,
}

/// A verdict and its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Tests the task declares. For `Assert`, the assert statements that ran count one by one where they can be told apart, else 1.
    pub tests_declared: u32,
    /// Tests that ran.
    pub tests_executed: u32,
    /// Tests that held.
    pub tests_passed: u32,
    /// Instructions used by the code under test.
    pub fuel_used: u64,
    /// Wall-clock time in sandboxes, microseconds (queue time excluded).
    pub wall_us: u64,
    /// Largest linear memory of the code under test, bytes.
    pub peak_memory_bytes: u64,
    /// What the code under test printed, cut at the limit.
    pub stdout: Vec<u8>,
    /// … and on standard error.
    pub stderr: Vec<u8>,
    /// How the player's sandbox ended (for the metrics).
    pub end: End,
}

impl Verdict {
    /// The outcome's name as in the metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed { .. } => "failed",
            Self::PolicyError { .. } => "policy_error",
            Self::TaskError { .. } => "task_error",
            Self::InfraError { .. } => "infra_error",
        }
    }
}
