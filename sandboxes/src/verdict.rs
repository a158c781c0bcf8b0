//! Tests, and the exhaustive verdict that decides what may become a reward.

use serde::{Deserialize, Serialize};

use crate::data::from_json;
use crate::program::{End, File, Limits};
use crate::workspace::check_path;

/// How a completion is tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tests {
    /// Test source with `assert` statements (or a `check(candidate)`) about the function `entry_point`.
    Assert {
        /// The source; the completion's names are in its scope, `entry_point` also as `candidate`.
        code: String,
        /// The tested function, or class.
        entry_point: String,
    },
    /// Calls of `entry_point`, compared by the host as plain data.
    Call {
        /// The called function; `Class.method` makes an instance without arguments for each call.
        entry_point: String,
        /// At least one.
        cases: Vec<TestCase>,
        /// How values compare.
        #[serde(default)]
        rule: ValueRule,
    },
    /// Runs of the completion as a program: standard input in, standard output compared by the host. Each case has a fresh instance.
    Stdio {
        /// At least one.
        cases: Vec<StdioCase>,
        /// How outputs compare, where no checker decides.
        #[serde(default)]
        rule: TextRule,
        /// A program that decides instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checker: Option<Checker>,
    },
    /// A test file in the manner of `unittest` or `pytest`, in which the completion is the module `module`.
    Unit {
        /// The test file.
        code: String,
        /// The name under which it imports the completion.
        #[serde(default = "solution_module")]
        module: String,
    },
    /// An answer in words or numbers: the completion is a text, no program.
    Answer {
        /// The right answers: any one of them will do. At least one.
        expected: Vec<String>,
        /// Where in the completion the answer is.
        #[serde(default)]
        from: AnswerFrom,
        /// When two answers are the same.
        #[serde(default)]
        rule: AnswerRule,
    },
    /// Files that the completion, run as a program, leaves in its workspace.
    Files {
        /// Its standard input.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stdin: String,
        /// Files it finds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<File>,
        /// Files it must leave. At least one.
        expected: Vec<File>,
        /// How contents compare.
        #[serde(default)]
        rule: TextRule,
    },
}

fn solution_module() -> String {
    "solution".to_owned()
}

/// One call and the value it must return.
///
/// Values are JSON. What JSON cannot say is an object with one key: `{"$tuple": […]}`, `{"$set": […]}`, `{"$frozenset": […]}`,
/// `{"$dict": [[key, value], …]}`, `{"$int": "digits"}`, `{"$float": "nan" | "inf" | "-inf"}`, `{"$complex": [re, im]}`,
/// `{"$bytes": "hex"}`; an object whose one key begins with `$` otherwise is written as a `$dict`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestCase {
    /// Positional arguments.
    pub args: Vec<serde_json::Value>,
    /// The value expected.
    pub expected: serde_json::Value,
    /// Whether the prompt shows it.
    #[serde(skip_serializing_if = "is_false")]
    pub public: bool,
}

/// One run as a program and the output it must write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StdioCase {
    /// Standard input.
    pub stdin: String,
    /// Standard output expected.
    pub expected: String,
    /// Whether the prompt shows it.
    #[serde(skip_serializing_if = "is_false")]
    pub public: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// A program that decides whether an output is right. It runs in a sandbox of its own, in the image's language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checker {
    /// Its source. It is called with three arguments, files of its workspace: `input.txt expected.txt output.txt`.
    ///
    /// It says yes by leaving with status 0 and a first word on standard output that is `1`, `1.0`, `ok`, `yes`, `true`, `accepted` or
    /// `correct`, no by `0`, `0.0`, `no`, `false`, `wrong` or `incorrect` (in any case, a mark after it not counted). Anything else is the task's fault.
    pub source: String,
}

/// When two values are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ValueRule {
    /// Python's `==`, where a list expected matches a tuple too.
    #[default]
    PyEq,
    /// … and numbers that differ by no more than `absolute + relative · |expected|`, at every level.
    Approx {
        /// Absolute tolerance.
        absolute: f64,
        /// Relative tolerance.
        relative: f64,
    },
    /// … and the outermost sequence in any order.
    Unordered,
    /// … and the outermost sequence as a set: in any order, however often.
    Set,
}

/// When two texts are the same. Each rule is one that a published grader uses; see the table in `docs/formats.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TextRule {
    /// The same bytes.
    Exact,
    /// Line ends at the end of the text do not count.
    RstripNl,
    /// White space at the end of lines and empty lines at the end do not count.
    #[default]
    Judge,
    /// White space around lines and around the text does not count; as many lines.
    StripLines,
    /// The same words, whatever lies between them.
    Tokens,
    /// `StripLines`, else line by line the same decimal numbers (LiveCodeBench).
    Lcb,
    /// `StripLines` without regard to case, where a line that is one number may differ by 1e-5 relatively (SandboxFusion).
    SfOj,
    /// The same words, where numbers may differ by no more than `absolute` or `relative · |expected|`.
    Float {
        /// Absolute tolerance.
        absolute: f64,
        /// Relative tolerance.
        relative: f64,
    },
    /// The same lines in any order, after `StripLines`.
    UnorderedLines,
}

/// Where in a completion its answer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AnswerFrom {
    /// The last `\\boxed{…}`, else what follows the last `####`, else what follows the last `answer is` or `answer:`, else the last line.
    #[default]
    Auto,
    /// All of it.
    Whole,
    /// The last line that is not empty.
    LastLine,
    /// The last `\\boxed{…}`; without one there is no answer.
    Boxed,
    /// What follows the last occurrence of this text, to the end of its line; without one there is no answer.
    After(String),
}

/// When two answers are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AnswerRule {
    /// The same words without regard to case.
    Text,
    /// The same rational number, exactly; or within the tolerance, absolutely or relative to the expected one.
    Number {
        /// Tolerance; 0 is exact.
        #[serde(default)]
        tolerance: f64,
    },
    /// LaTeX-light mathematics: numbers, fractions, roots, percentages, units, intervals, tuples and sets after normalisation.
    #[default]
    Math,
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
    /// The code under test (already extracted from the completion); for [`Tests::Answer`] the completion itself.
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
    /// A quota of the workspace.
    WorkspaceLimit,
    /// The completion holds no answer where one is looked for.
    NoAnswer,
}

impl PolicyErrorReason {
    /// Whose fault a sandbox's end is: the code's, with its reason, or (`None`) the host's.
    pub(crate) fn of(end: End) -> Option<Self> {
        Some(match end {
            End::OutOfFuel => Self::OutOfFuel,
            End::OutOfMemory => Self::OutOfMemory,
            End::OutputLimit => Self::OutputLimit,
            End::StackOverflow => Self::StackOverflow,
            End::Exited => Self::Exited,
            End::Exception => Self::Runtime,
            End::WorkspaceLimit => Self::WorkspaceLimit,
            End::WallBackstop | End::HostError => return None,
        })
    }
}

/// How one test of several went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    /// It held.
    Passed,
    /// It did not.
    Failed,
    /// The code under test ended before it could be seen.
    PolicyError(PolicyErrorReason),
    /// It was not run: an earlier one ended the judgement.
    NotRun,
}

/// One test of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseReport {
    /// Which: `case 3`, or the test function's name.
    pub test: String,
    /// How it went.
    pub outcome: CaseOutcome,
    /// What was expected and got, or the error: a short text. Empty for a pass.
    pub detail: String,
    /// Whether the prompt shows it.
    pub public: bool,
    /// Instructions the code under test used in it.
    pub fuel_used: u64,
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
    /// Each test, where they can be told apart (calls, runs as a program, test functions); else empty.
    pub cases: Vec<CaseReport>,
    /// Instructions used by the code under test.
    pub fuel_used: u64,
    /// Wall-clock time until the code under test could start, microseconds.
    pub start_us: u64,
    /// Wall-clock time in sandboxes, microseconds (queue time excluded).
    pub wall_us: u64,
    /// Largest linear memory of the code under test, bytes.
    pub peak_memory_bytes: u64,
    /// What the code under test printed: all of it, or its head and tail. Of several runs, the first that failed, else the last.
    #[serde(with = "crate::text_or_bytes")]
    pub stdout: Vec<u8>,
    /// … and on standard error.
    #[serde(with = "crate::text_or_bytes")]
    pub stderr: Vec<u8>,
    /// How the player's sandbox ended (for the metrics).
    pub end: End,
}

impl Tests {
    /// Whether a completion is code, to be taken out of its fences; else it is judged as a text.
    pub fn wants_code(&self) -> bool {
        !matches!(self, Self::Answer { .. })
    }

    /// What the types cannot say: values that are written as they should be, tolerances that are numbers.
    ///
    /// # Errors
    /// The key that is wrong and what to write.
    pub fn check(&self) -> Result<(), String> {
        let tolerances = |list: &[f64]| match list.iter().find(|value| !value.is_finite() || **value < 0.0) {
            Some(value) => {
                Err(format!("`tests.rule` has the tolerance {value}: it must be a number that is not negative"))
            }
            None => Ok(()),
        };
        match self {
            Self::Call { cases, rule, .. } => {
                for (at, case) in cases.iter().enumerate() {
                    for value in case.args.iter().chain([&case.expected]) {
                        from_json(value).map_err(|fault| format!("`tests.cases[{at}]`: {fault}"))?;
                    }
                }
                match rule {
                    ValueRule::Approx { absolute, relative } => tolerances(&[*absolute, *relative]),
                    ValueRule::PyEq | ValueRule::Unordered | ValueRule::Set => Ok(()),
                }
            }
            Self::Stdio { rule: TextRule::Float { absolute, relative }, .. } => tolerances(&[*absolute, *relative]),
            Self::Answer { rule: AnswerRule::Number { tolerance }, .. } => tolerances(&[*tolerance]),
            Self::Files { files, expected, rule, .. } => {
                let named = [("files", files), ("expected", expected)];
                for (key, file) in named.iter().flat_map(|(key, list)| list.iter().map(move |file| (key, file))) {
                    check_path(&file.path).map_err(|fault| format!("`tests.{key}`: {fault}"))?;
                }
                match rule {
                    TextRule::Float { absolute, relative } => tolerances(&[*absolute, *relative]),
                    _ => Ok(()),
                }
            }
            Self::Assert { .. } | Self::Unit { .. } | Self::Stdio { .. } | Self::Answer { .. } => Ok(()),
        }
    }

    /// The tests declared, where they can be counted before they run.
    pub fn declared(&self) -> u32 {
        let count = match self {
            Self::Assert { .. } | Self::Unit { .. } => 1,
            Self::Call { cases, .. } => cases.len(),
            Self::Stdio { cases, .. } => cases.len(),
            Self::Answer { expected, .. } => expected.len().min(1),
            Self::Files { expected, .. } => expected.len(),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

impl Judgement {
    /// The host's failure before any test ran.
    pub fn infra(detail: String, declared: u32) -> Self {
        Self {
            verdict: Verdict::InfraError { detail },
            tests_declared: declared,
            tests_executed: 0,
            tests_passed: 0,
            cases: Vec::new(),
            fuel_used: 0,
            start_us: 0,
            wall_us: 0,
            peak_memory_bytes: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            end: End::HostError,
        }
    }
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
