//! Every limit at its border and one step past it, each with its own outcome.

use rehearsal_sandboxes::{End, Execution, Limits, Program};

use crate::support::python;

fn run(source: &str, limits: &Limits) -> Execution {
    python().execute(&Program::new(source, 0), &Limits { wall_ms: 120_000, ..limits.clone() })
}

fn base() -> Limits {
    Limits { fuel: 4_000_000_000, ..Limits::default() }
}

/// A limit, a program that stays within it, and one that goes one step further.
#[track_caller]
fn border(limits: Limits, within: &str, beyond: &str, end: End) {
    let ended = run(within, &limits);
    assert_eq!(ended.end, End::Exited, "within: {} {}", ended.detail, String::from_utf8_lossy(&ended.stderr));
    let ended = run(beyond, &limits);
    assert_eq!(ended.end, end, "beyond: {ended:?}");
}

#[test]
fn bytes_of_the_workspace() {
    let limits = Limits { workspace_bytes: 100_000, ..base() };
    border(
        limits.clone(),
        "with open('a', 'w') as f: f.write('x' * 100_000)",
        "with open('a', 'w') as f: f.write('x' * 100_001)",
        End::WorkspaceLimit,
    );
    border(
        limits.clone(),
        "f = open('a', 'w'); f.truncate(100_000); f.truncate(0); f.close(); f = open('b', 'w'); f.write('x' * 100_000); f.close()",
        "f = open('a', 'w'); f.truncate(100_001)",
        End::WorkspaceLimit,
    );
    border(
        limits,
        "f = open('a', 'wb'); f.seek(99_999); f.write(b'x')",
        "f = open('a', 'wb', 0); f.seek(1 << 40); f.write(b'x')",
        End::WorkspaceLimit,
    );
}

#[test]
fn number_of_files() {
    let limits = Limits { workspace_files: 20, ..base() };
    let files = |count| format!("for i in range({count}): open(f'f{{i}}', 'w').close()");
    border(limits.clone(), &files(20), &files(21), End::WorkspaceLimit);
    let mixed =
        |count| format!("import os\nfor i in range({count}):\n    os.mkdir(f'd{{i}}'); os.symlink('x', f'l{{i}}')");
    border(limits.clone(), &mixed(10), &mixed(11), End::WorkspaceLimit);
    border(
        limits,
        "import os\nfor i in range(500):\n    open('f', 'w').close(); os.remove('f')",
        &files(4000),
        End::WorkspaceLimit,
    );
}

#[test]
fn open_files() {
    let limits = Limits { open_files: 16, ..base() };
    let opens = |count| format!("held = [open('f', 'a') for _ in range({count})]");
    border(limits, &opens(16), &opens(17), End::WorkspaceLimit);
}

#[test]
fn length_and_depth_of_paths() {
    let limits = Limits { path_bytes: 200, path_depth: 10, ..base() };
    // As the file system sees it: from the root, `work/` before it.
    let long = |bytes: usize| {
        format!("import os\nos.makedirs('{0}')\nopen('{0}/' + 'b' * {1}, 'w')", "a".repeat(90), bytes - 96)
    };
    border(limits.clone(), &long(200), &long(201), End::WorkspaceLimit);
    // A file whose directories are `/work` and nine more.
    let deep = |levels: usize| {
        format!(
            "import os\nos.makedirs('{}')\nopen('{}/f', 'w')",
            vec!["d"; levels].join("/"),
            vec!["d"; levels].join("/")
        )
    };
    border(limits, &deep(9), &deep(10), End::WorkspaceLimit);
}

#[test]
fn a_quota_come_to_terms_with_is_the_programs_own_business() {
    let ended = run(
        "try:\n    with open('a', 'w', 1) as f: f.write('x' * 200_000)\nexcept OSError as e: print(e.errno)",
        &Limits { workspace_bytes: 100_000, ..base() },
    );
    assert_eq!((ended.end, ended.stdout.as_slice()), (End::Exited, b"51\n".as_slice()), "{ended:?}");
}

#[test]
fn size_of_what_is_collected() {
    let program = |bytes: usize| Program {
        collect: vec!["a".into()],
        ..Program::new(format!("open('a', 'w').write('x' * {bytes})"), 0)
    };
    let limits = Limits { result_bytes: 1000, ..base() };
    assert_eq!(python().execute(&program(1000), &limits).end, End::Exited);
    let ended = python().execute(&program(1001), &limits);
    assert_eq!((ended.end, ended.files.len()), (End::WorkspaceLimit, 0), "{}", ended.detail);
    assert!(ended.detail.contains("result_bytes"), "{}", ended.detail);
}

#[test]
fn size_of_the_standard_input() {
    let limits = Limits { stdin_bytes: 10, ..base() };
    let program = |bytes: usize| Program { stdin: vec![b'x'; bytes], ..Program::new("print(len(input()))", 0) };
    assert_eq!(python().execute(&program(10), &limits).stdout, b"10\n");
    let ended = python().execute(&program(11), &limits);
    assert_eq!(ended.end, End::HostError);
    assert!(ended.detail.contains("stdin_bytes"), "{}", ended.detail);
}

/// Fuel is looked at where functions and loops begin: a run may end a few instructions past its limit.
#[test]
fn fuel_to_the_last_block() {
    let source = "sum(range(1000))";
    let used = run(source, &base()).fuel_used;
    assert_eq!(run(source, &Limits { fuel: used, ..base() }).end, End::Exited);
    assert_eq!(run(source, &Limits { fuel: used - 1000, ..base() }).end, End::OutOfFuel);
}

#[test]
fn recursion_is_an_exception_of_the_program() {
    let ended = run("def f(n): return f(n + 1)\nf(0)", &base());
    assert_eq!(ended.end, End::Exception);
    assert!(ended.detail.starts_with("RecursionError"), "{}", ended.detail);
    let ended = run("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(n): return f(n + 1)\nf(0)", &base());
    assert!(matches!(ended.end, End::StackOverflow | End::OutOfMemory | End::Exception), "{ended:?}");
}
