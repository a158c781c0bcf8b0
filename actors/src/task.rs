//! A task: a prompt, how it is verified, its limits.

use std::sync::Arc;

use tokio::sync::OnceCell;

use rehearsal_sandboxes::{Isolation, JudgeRequest, Limits, Tests};

use crate::types::TaskId;

/// A prompt, how it is verified, its limits.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// The user's message.
    pub prompt: String,
    /// How a completion is tested.
    pub tests: Tests,
    /// Whether tests and tested code share an interpreter.
    pub isolation: Isolation,
    /// Limits of the code under test.
    pub limits: Limits,
    /// A solution known to be right; checked before the task's first episode.
    pub reference: Option<String>,
    /// What that check said: `None` for a pass, otherwise why the task is at fault. Shared by clones, run once.
    admission: Arc<OnceCell<Option<String>>>,
}

impl Task {
    /// A task with default limits, tests apart from the code, and no reference.
    pub fn new(id: TaskId, prompt: String, tests: Tests) -> Self {
        Self {
            id,
            prompt,
            tests,
            isolation: Isolation::default(),
            limits: Limits::default(),
            reference: None,
            admission: Arc::default(),
        }
    }

    /// Everything the verdict on `code` depends on.
    pub fn judge_request(&self, code: String, seed: u64) -> JudgeRequest {
        JudgeRequest { code, tests: self.tests.clone(), isolation: self.isolation, limits: self.limits.clone(), seed }
    }

    /// What of a completion is tested: its code, or all of it where the tests look for an answer. `None` where that is nothing.
    pub fn under_test(&self, completion: &str) -> Option<String> {
        if self.tests.wants_code() { extract_code(completion) } else { Some(completion.to_owned()) }
    }

    pub(crate) fn admission(&self) -> &OnceCell<Option<String>> {
        &self.admission
    }

    #[cfg(test)]
    pub(crate) fn example(id: &str) -> Self {
        let tests = Tests::Assert { code: "assert f() == 1".into(), entry_point: "f".into() };
        Self::new(id.into(), "Write f.".into(), tests)
    }
}

/// Takes the program out of a completion: the last fenced block, or all of it when nothing is fenced.
///
/// A fence that is never closed (the completion was cut) counts as a block that reaches to the end: what was written is judged,
/// and almost always does not compile. `None` where no code is left.
pub fn extract_code(completion: &str) -> Option<String> {
    let mut last_block: Option<String> = None;
    let mut open: Option<(usize, String)> = None;
    for line in completion.lines() {
        let trimmed = line.trim_start();
        let ticks = trimmed.len() - trimmed.trim_start_matches('`').len();
        match &mut open {
            Some((fence, block)) if ticks >= *fence && trimmed[ticks..].trim().is_empty() => {
                last_block = Some(std::mem::take(block));
                open = None;
            }
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
            None if ticks >= 3 => open = Some((ticks, String::new())),
            None => {}
        }
    }
    let mut code = match (open, last_block) {
        (Some((_, block)), _) | (None, Some(block)) => block,
        (None, None) => completion.to_owned(),
    };
    // A byte-order mark is no part of a program.
    if code.starts_with('\u{feff}') {
        code.remove(0);
    }
    (!code.trim().is_empty()).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_fenced_block_is_the_code() {
        let cases: [(&str, Option<&str>); 10] = [
            ("def f(): pass", Some("def f(): pass")),
            ("```python\ndef f(): pass\n```", Some("def f(): pass\n")),
            ("a\n```\nx = 1\n```\nb\n```py\ny = 2\n```\nc", Some("y = 2\n")),
            ("```python\ndef f():\n    return 1", Some("def f():\n    return 1\n")),
            ("```python\nx\n```\ntext\n```python\ny", Some("y\n")),
            ("````\n```\ninner\n```\n````", Some("```\ninner\n```\n")),
            ("  ```python\n  x = 1\n  ```", Some("  x = 1\n")),
            ("```\n```", None),
            ("  \n", None),
            ("", None),
        ];
        for (completion, code) in cases {
            assert_eq!(extract_code(completion).as_deref(), code, "{completion:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC*", fences in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
            let mut text = text;
            for at in fences {
                let at = at.index(text.len() + 1);
                if text.is_char_boundary(at) { text.insert_str(at, "\n```\n"); }
            }
            if let Some(code) = extract_code(&text) { prop_assert!(!code.trim().is_empty()); }
        }
    }
}
