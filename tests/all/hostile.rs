//! The corpus of hostile programs: each gets exactly its outcome, none scores, and the host is as before.
//!
//! A file of `tests/hostile` begins with its header, lines of comments (`# ` in Python, `;; ` in WAT):
//!
//! ```text
//! # tries: what the program attempts, in one line
//! # channel: where it is tried: any of call assert shared unit program stdio
//! # expected: its outcome: `failed`, `policy_error REASON`, `task_error`; for `program`: `end END [exit STATUS]`
//! # expected[CHANNEL]: where one channel's outcome differs
//! ```
//!
//! What it attacks is a function `add` of two arguments; no file solves that task.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rehearsal_sandboxes::{
    Isolation, JudgeRequest, Judgement, Limits, Program, Sandbox, StdioCase, TestCase, Tests, Verdict,
};
use serde_json::json;

use crate::support::python;

/// Programs between two looks at the host.
const BATCH: usize = 24;

const ASSERTS: &str = "assert add(1, 2) == 3\nassert add(-1, 1) == 0\nassert add('a', 'b') == 'ab'\n";
const UNIT: &str = "import unittest\nfrom solution import add\n\n\
    class TestAdd(unittest.TestCase):\n    def test_numbers(self):\n        self.assertEqual(add(1, 2), 3)\n\n\
    def test_negative():\n    assert add(-1, 1) == 0\n\n\
    def test_text():\n    assert add('a', 'b') == 'ab'\n";
const HONEST: &str = "def add(a, b):\n    return a + b\n";

/// A file of the corpus.
struct Trick {
    name: String,
    source: String,
    channels: Vec<String>,
    expected: HashMap<String, String>,
}

impl Trick {
    /// Reads a file's header.
    fn read(path: &Path) -> Self {
        let source = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mark = if path.extension().is_some_and(|extension| extension == "wat") { ";; " } else { "# " };
        let header: HashMap<_, _> = source
            .lines()
            .map_while(|line| line.strip_prefix(mark).and_then(|line| line.split_once(": ")))
            .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
            .collect();
        assert!(header.get("tries").is_some_and(|tries| !tries.is_empty()), "{name} does not say what it tries");
        let channels: Vec<_> = header["channel"].split_whitespace().map(str::to_owned).collect();
        assert!(!channels.is_empty(), "{name} names no channel");
        let wanted = |channel: &String| {
            let own = header.get(&format!("expected[{channel}]")).or_else(|| header.get("expected"));
            (channel.clone(), own.unwrap_or_else(|| panic!("{name} expects nothing of {channel}")).clone())
        };
        let expected = channels.iter().map(wanted).collect();
        Self { name, source, channels, expected }
    }

    /// The outcome on a channel, in the words of the header.
    fn outcome(&self, sandbox: &dyn Sandbox, channel: &str) -> String {
        if channel == "program" {
            let ended = sandbox.execute(&Program::new(self.source.as_str(), 3), &limits());
            let status = ended.exit.map(|status| format!(" exit {status}")).unwrap_or_default();
            return format!("end {}{status}", ended.end.label());
        }
        outcome(&sandbox.judge(&request(&self.source, channel)))
    }
}

fn limits() -> Limits {
    Limits { fuel: 3_000_000_000, memory_bytes: 64 << 20, wall_ms: 120_000, ..Limits::default() }
}

fn request(code: &str, channel: &str) -> JudgeRequest {
    let case = |args, expected| TestCase { args, expected, public: false };
    let tests = match channel {
        "call" => Tests::Call {
            entry_point: "add".into(),
            cases: vec![
                case(vec![json!(1), json!(2)], json!(3)),
                case(vec![json!(-1), json!(1)], json!(0)),
                case(vec![json!("a"), json!("b")], json!("ab")),
            ],
            rule: Default::default(),
        },
        "assert" | "shared" => Tests::Assert { code: ASSERTS.into(), entry_point: "add".into() },
        "unit" => Tests::Unit { code: UNIT.into(), module: "solution".into() },
        "stdio" => Tests::Stdio {
            cases: vec![StdioCase { stdin: "1 2\n".into(), expected: "3\n".into(), public: false }],
            rule: Default::default(),
            checker: None,
        },
        other => panic!("no channel is called {other}"),
    };
    let isolation = if channel == "shared" { Isolation::Shared } else { Isolation::Separate };
    JudgeRequest { code: code.into(), tests, isolation, limits: limits(), seed: 3 }
}

fn outcome(judgement: &Judgement) -> String {
    match &judgement.verdict {
        Verdict::PolicyError { reason, .. } => {
            format!("policy_error {}", serde_json::to_value(reason).unwrap().as_str().unwrap())
        }
        other => other.outcome().to_owned(),
    }
}

fn corpus() -> Vec<Trick> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    paths.sort();
    paths.iter().map(|path| Trick::read(path)).collect()
}

/// What a hostile program could change: the verdict on honest code by every channel, without its times.
fn control(sandbox: &dyn Sandbox) -> Vec<Judgement> {
    let judge = |channel| {
        let judgement = sandbox.judge(&request(HONEST, channel));
        assert_eq!(judgement.verdict, Verdict::Passed, "honest code by {channel}");
        Judgement { wall_us: 0, start_us: 0, ..judgement }
    };
    ["call", "assert", "shared", "unit"].map(judge).into()
}

/// Open descriptors and resident bytes of this process.
fn footprint() -> (usize, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    (open, resident * 4096)
}

#[test]
fn no_hostile_program_scores_and_each_has_its_outcome() {
    let (tricks, sandbox) = (corpus(), python());
    assert!(tricks.len() >= 80, "only {} programs", tricks.len());
    let before = control(sandbox.as_ref());
    let (mut footprints, mut surprises) = (vec![], vec![]);
    for batch in tricks.chunks(BATCH) {
        let runs: Vec<_> = batch.iter().flat_map(|trick| trick.channels.iter().map(move |c| (trick, c))).collect();
        let (next, seen) = (AtomicUsize::new(0), Mutex::new(vec![]));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some((trick, channel)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let got = trick.outcome(sandbox.as_ref(), channel);
                        seen.lock().unwrap().push((&trick.name, *channel, &trick.expected[*channel], got));
                    }
                });
            }
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        for (name, channel, expected, got) in seen {
            println!("{name:32} {channel:8} {got}");
            assert_ne!(got, "passed", "{name} scores by {channel}");
            if got != *expected {
                surprises.push(format!("{name} by {channel}: {got}, not {expected}"));
            }
        }
        assert_eq!(
            control(sandbox.as_ref()),
            before,
            "the batch that ends with {} changed a verdict",
            batch[batch.len() - 1].name
        );
        footprints.push(footprint());
    }
    assert!(surprises.is_empty(), "{} surprises: {surprises:#?}", surprises.len());
    let (first, last) = (footprints[0], footprints[footprints.len() - 1]);
    // Other tests of this binary may run beside this one: the bounds are for leaks, not for noise.
    assert!(last.0 <= first.0 + 200, "descriptors grew from {} to {}", first.0, last.0);
    assert!(last.1 <= first.1 + (2 << 30), "resident bytes grew from {} to {}", first.1, last.1);
}
