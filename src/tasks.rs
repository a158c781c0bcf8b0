//! Task files: JSON Lines, one task a line. An error names the file and the line.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use rehearsal_actors::Task;
use rehearsal_sandboxes::{Isolation, Limits, Tests};

/// One line of a task file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLine {
    /// Unique within the file.
    pub id: String,
    /// The user's message.
    pub prompt: String,
    /// How a completion is tested; at least one test.
    pub tests: Tests,
    /// A solution known to be right; checked before the task is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// `train`, `heldout`, or any other name a recipe asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Whether tests and tested code share an interpreter; apart unless said.
    #[serde(default)]
    pub isolation: Isolation,
    /// Limits of the code under test, where the task needs its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// Why a task file was refused.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The file cannot be read.
    #[error("cannot read the task file {file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// A line is not a task.
    #[error("{file}, line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong and what to do.
        reason: String,
    },
    /// No task is left.
    #[error("{file} has no task{of}")]
    Empty {
        /// The file.
        file: String,
        /// Which split was asked for.
        of: String,
    },
}

impl TaskLine {
    /// Reads and checks one task from JSON.
    pub fn parse(json: &str) -> Result<Self, String> {
        let task: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        task.check()?;
        Ok(task)
    }

    /// What the types cannot say: no empty ids, prompts or tests.
    pub fn check(&self) -> Result<(), String> {
        if self.id.trim().is_empty() {
            return Err("`id` is empty: give each task a name of its own".to_owned());
        }
        if self.prompt.trim().is_empty() {
            return Err(format!("task `{}`: `prompt` is empty", self.id));
        }
        if self.tests.declared() == 0 {
            return Err(format!("task `{}`: there is no test: a task without tests would pass anything", self.id));
        }
        let (entry_point, fault) = match &self.tests {
            Tests::Assert { code, entry_point } if code.trim().is_empty() => {
                (Some(entry_point), Some("`tests.code` is empty"))
            }
            Tests::Assert { code, entry_point } if !code.contains("assert") && !code.contains("check") => {
                (Some(entry_point), Some("`tests.code` asserts nothing"))
            }
            Tests::Assert { entry_point, .. } | Tests::Call { entry_point, .. } => (Some(entry_point), None),
            Tests::Unit { code, .. } if code.trim().is_empty() => (None, Some("`tests.code` is empty")),
            _ => (None, None),
        };
        if let Some(fault) = fault {
            return Err(format!("task `{}`: {fault}: a task without tests would pass anything", self.id));
        }
        if let Some(entry_point) = entry_point
            && !entry_point.split('.').all(is_identifier)
        {
            return Err(format!(
                "task `{}`: `tests.entry_point` is `{entry_point}`: name the function under test",
                self.id
            ));
        }
        if let Tests::Call { cases, .. } = &self.tests
            && cases.iter().any(|case| case.args.iter().chain([&case.expected]).any(loses_digits))
        {
            return Err(format!(
                "task `{}`: a number of `tests.cases` is beyond 64 bits and would lose digits: write {{\"$int\": \"digits\"}}",
                self.id
            ));
        }
        self.tests.check().map_err(|fault| format!("task `{}`: {fault}", self.id))?;
        self.limits
            .as_ref()
            .map_or(Ok(()), check_limits)
            .map_err(|fault| format!("task `{}`: `limits`: {fault}", self.id))
    }

    /// The task as the engine takes it; `limits` apply where the line has none of its own.
    pub fn into_task(self, limits: &Limits) -> Task {
        let mut task = Task::new(self.id.as_str().into(), self.prompt, self.tests);
        task.isolation = self.isolation;
        task.limits = self.limits.unwrap_or_else(|| limits.clone());
        task.reference = self.reference;
        task
    }
}

/// A name as Python takes it.
fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// JSON integers beyond 64 bits arrive as floats.
fn loses_digits(value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().is_some_and(|x| x.fract() == 0.0 && x.abs() >= 2_f64.powi(63))
        }
        Value::Array(items) => items.iter().any(loses_digits),
        Value::Object(entries) => entries.values().any(loses_digits),
        _ => false,
    }
}

/// Limits that a host can keep: none is 0, and none lets one guest hold a worker for good.
pub(crate) fn check_limits(limits: &Limits) -> Result<(), String> {
    let bounds = [
        ("fuel", limits.fuel, 1_000_000_000_000),
        ("memory_bytes", limits.memory_bytes, 4 << 30),
        ("output_bytes", limits.output_bytes as u64, 64 << 20),
        ("output_kept_bytes", limits.output_kept_bytes as u64, 64 << 20),
        ("table_elements", u64::from(limits.table_elements), 10_000_000),
        ("stdin_bytes", limits.stdin_bytes as u64, 1 << 30),
        ("open_files", u64::from(limits.open_files), 4096),
        ("workspace_bytes", limits.workspace_bytes, 4 << 30),
        ("workspace_files", u64::from(limits.workspace_files), 1_000_000),
        ("path_bytes", u64::from(limits.path_bytes), 65_536),
        ("path_depth", u64::from(limits.path_depth), 1024),
        ("result_bytes", limits.result_bytes, 4 << 30),
        ("wall_ms", limits.wall_ms, 600_000),
    ];
    match bounds.into_iter().find(|(_, value, most)| *value == 0 || value > most) {
        Some((key, value, most)) => Err(format!("`{key}` is {value}: it must lie between 1 and {most}")),
        None => Ok(()),
    }
}

/// Reads a whole task file.
///
/// # Errors
/// The first bad line, by number: malformed JSON, unknown or missing keys, no tests, an id used twice. An empty file.
pub fn load(path: &Path) -> Result<Vec<TaskLine>, TaskError> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|error| TaskError::Unreadable { file: file.clone(), reason: error.to_string() })?;
    let (mut tasks, mut seen) = (Vec::new(), HashMap::new());
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if line.trim().is_empty() {
            continue;
        }
        let fault = |reason| TaskError::Line { file: file.clone(), line: number, reason };
        let task = TaskLine::parse(line).map_err(fault)?;
        if let Some(first) = seen.insert(task.id.clone(), number) {
            return Err(fault(format!("task id `{}` was used in line {first} already", task.id)));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(TaskError::Empty { file, of: String::new() });
    }
    Ok(tasks)
}

/// The tasks of one split, ready for the engine.
pub fn load_split(path: &Path, split: &str, limits: &Limits) -> Result<Vec<Arc<Task>>, TaskError> {
    let tasks: Vec<_> = load(path)?
        .into_iter()
        .filter(|task| task.split.as_deref() == Some(split))
        .map(|task| Arc::new(task.into_task(limits)))
        .collect();
    if tasks.is_empty() {
        return Err(TaskError::Empty { file: path.display().to_string(), of: format!(" of split `{split}`") });
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"a","prompt":"p","tests":{"kind":"call","entry_point":"f","cases":[{"args":[1],"expected":2}]},"split":"train"}"#;

    fn load_text(text: &str) -> Result<Vec<TaskLine>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        fs::write(&path, text).unwrap();
        load(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bad_line_is_named_by_number() {
        let cases = [
            ("{", "line 3"),
            (r#"{"id":"b"}"#, "missing field `prompt`"),
            (&GOOD.replace(r#""id":"a""#, r#""id":"b","tag":1"#), "unknown field `tag`"),
            (&GOOD.replace(r#"[{"args":[1],"expected":2}]"#, "[]").replace(r#""a""#, r#""b""#), "without tests"),
            (&GOOD.replace(r#""f""#, r#""""#).replace(r#""a""#, r#""b""#), "entry_point"),
            (GOOD, "used in line 1"),
        ];
        for (line, says) in cases {
            let error = load_text(&format!("{GOOD}\n\n{line}\n")).unwrap_err();
            assert!(error.contains("line 3") && error.contains(says), "{line} gave {error}");
        }
        assert_eq!(load_text(GOOD).unwrap().len(), 1);
        assert!(load_text("\n").unwrap_err().contains("no task"));
    }

    #[test]
    fn assert_tests_must_assert_something() {
        let line = |code: &str| {
            serde_json::json!({"id": "a", "prompt": "p", "tests": {"kind": "assert", "code": code, "entry_point": "f"}})
                .to_string()
        };
        assert!(TaskLine::parse(&line("assert f(1) == 2")).is_ok());
        for empty in ["", "  \n", "f(1)", "pass"] {
            assert!(TaskLine::parse(&line(empty)).unwrap_err().contains("without tests"), "{empty:?}");
        }
    }
}
