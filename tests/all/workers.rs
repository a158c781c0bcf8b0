//! Worker processes: the same judgements as in this process, and nothing but one attempt lost with any of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rehearsal::home::Home;
use rehearsal::prepare::{self, WORKER_COMMAND};
use rehearsal::progress::Quiet;
use rehearsal_sandboxes::{
    End, Isolation, JudgeRequest, Judgement, Limits, ProcessSandbox, Program, Sandbox, Tests, Verdict, WorkerSpec,
};

use crate::support::{eventually, python};

fn spec(
    program: impl Into<PathBuf>,
    arguments: &[&str],
    grace: Duration,
) -> (WorkerSpec, rehearsal_sandboxes::Snapshot) {
    let home = Home::open().unwrap();
    let (snapshot, image_dir) = prepare::snapshot(&home, "python", &Quiet).unwrap();
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    (WorkerSpec { program: program.into(), arguments, image_dir, cache_dir: home.snapshots(), grace }, snapshot)
}

fn workers(processes: usize, grace: Duration) -> ProcessSandbox {
    let (spec, snapshot) = spec(env!("CARGO_BIN_EXE_rehearsal"), &[WORKER_COMMAND], grace);
    ProcessSandbox::new(spec, &snapshot, processes)
}

fn patient() -> Duration {
    Duration::from_secs(60)
}

fn request(code: &str) -> JudgeRequest {
    JudgeRequest {
        code: code.into(),
        tests: Tests::Assert { code: "assert f(2) == 4\nassert f('a') == 'aa'".into(), entry_point: "f".into() },
        isolation: Isolation::Separate,
        limits: Limits { fuel: 2_000_000_000, wall_ms: 120_000, ..Limits::default() },
        seed: 9,
    }
}

fn without_times(judgement: Judgement) -> Judgement {
    Judgement { start_us: 0, wall_us: 0, ..judgement }
}

fn signal(name: &str, id: u32) {
    assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
}

#[test]
fn a_worker_says_what_this_process_says() {
    let (there, here) = (workers(1, patient()), python());
    for code in [
        "def f(x): return x * 2",
        "def f(x): return x",
        "def f(x): 1 / 0",
        "while True: pass",
        "",
        "def f(x): print('é' * 9); return x * 2",
    ] {
        let request = request(code);
        assert_eq!(without_times(there.judge(&request)), without_times(here.judge(&request)), "{code}");
    }
    let program = Program {
        stdin: b"\xFF\n".to_vec(),
        collect: vec!["o".into()],
        ..Program::new("import sys\nopen('o', 'wb').write(sys.stdin.buffer.read())\nprint('x' * 100_000)", 1)
    };
    let (a, b) = (there.execute(&program, &Limits::default()), here.execute(&program, &Limits::default()));
    assert_eq!((a.end, a.stdout, a.files, a.fuel_used), (b.end, b.stdout, b.files, b.fuel_used));
    assert_eq!(there.process_ids().len(), 1, "one worker answered everything");
}

/// Runs for as long as it is let.
fn endless() -> (Program, Limits) {
    (Program::new("while True: pass", 0), Limits { fuel: u64::MAX, wall_ms: 600_000, ..Limits::default() })
}

#[tokio::test]
async fn a_worker_killed_in_a_run_costs_that_run_alone() {
    let sandbox = Arc::new(workers(2, patient()));
    let asked = Arc::clone(&sandbox);
    let lost = tokio::task::spawn_blocking(move || {
        let (program, limits) = endless();
        asked.execute(&program, &limits)
    });
    eventually("a worker", || !sandbox.process_ids().is_empty()).await;
    signal("-9", sandbox.process_ids()[0]);
    let ended = lost.await.unwrap();
    assert_eq!(ended.end, End::HostError);
    assert!(ended.detail.contains("died (signal 9)"), "{}", ended.detail);
    let next = tokio::task::spawn_blocking(move || sandbox.judge(&request("def f(x): return x * 2"))).await.unwrap();
    assert_eq!(next.verdict, Verdict::Passed);
}

#[test]
fn a_worker_killed_while_it_waits_costs_nothing() {
    let sandbox = workers(1, patient());
    for _ in 0..3 {
        assert_eq!(sandbox.judge(&request("def f(x): return x * 2")).verdict, Verdict::Passed);
        let id = sandbox.process_ids()[0];
        signal("-9", id);
        while !is_dead(id) {
            std::thread::yield_now();
        }
    }
    assert_eq!(sandbox.judge(&request("def f(x): return x * 2")).verdict, Verdict::Passed);
}

/// Whether a child can be reaped: its first thread is a zombie, and the others are gone.
fn is_dead(id: u32) -> bool {
    let zombie = std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    zombie && std::fs::read_dir(format!("/proc/{id}/task")).is_ok_and(|tasks| tasks.count() == 1)
}

#[test]
fn a_worker_that_stops_answering_is_killed_and_replaced() {
    let sandbox = workers(1, Duration::from_millis(200));
    let quick = Limits { wall_ms: 5_000, ..Limits::default() };
    assert_eq!(sandbox.execute(&Program::new("print(1)", 0), &quick).end, End::Exited);
    let stopped = sandbox.process_ids()[0];
    signal("-STOP", stopped);
    // More input than a pipe holds: writing must not wait for ever either.
    let program = Program { stdin: vec![b'x'; 1 << 20], ..Program::new("print(1)", 0) };
    let ended = sandbox.execute(&program, &Limits { wall_ms: 100, ..Limits::default() });
    assert_eq!(ended.end, End::HostError);
    assert!(ended.detail.contains("no answer within"), "{}", ended.detail);
    assert!(!Path::new(&format!("/proc/{stopped}")).exists(), "it is gone, and no zombie");
    assert_eq!(sandbox.execute(&Program::new("print(1)", 0), &quick).end, End::Exited);
}

#[test]
fn a_peer_that_is_no_worker_is_an_error_with_its_reason() {
    for (program, arguments, says) in [
        ("/no/such/program", vec![], "cannot start the sandbox worker /no/such/program"),
        ("true", vec![], "died (status 0)"),
        ("false", vec![], "died (status 1)"),
        ("yes", vec![], "no answer"),
        ("cat", vec![], "no answer"),
        ("sh", vec!["-c", "head -c 4 /dev/zero; exec sleep 600"], "no answer"),
    ] {
        let (spec, snapshot) = spec(program, &arguments, patient());
        let sandbox = ProcessSandbox::new(spec, &snapshot, 1);
        let judgement = sandbox.judge(&request("def f(x): return x * 2"));
        let Verdict::InfraError { detail } = &judgement.verdict else { panic!("{program}: {:?}", judgement.verdict) };
        assert!(detail.contains(says), "{program}: {detail}");
        assert!(sandbox.process_ids().is_empty(), "{program}");
    }
}

/// Children of a process.
fn children(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

#[tokio::test]
async fn judging_goes_on_where_a_worker_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (tasks, completions) = (dir.path().join("tasks.jsonl"), dir.path().join("completions.jsonl"));
    let task =
        r#"{"id":"t","prompt":"p","tests":{"kind":"call","entry_point":"f","cases":[{"args":[1],"expected":1}]}}"#;
    std::fs::write(&tasks, task).unwrap();
    // A second's work each, so that there is something to be killed in.
    let line = r#"{"task_id":"t","completion":"def f(x):\n    for _ in range(10_000_000): pass\n    return x"}"#;
    std::fs::write(&completions, [line; 4].join("\n")).unwrap();
    let judging = Command::new(env!("CARGO_BIN_EXE_rehearsal"))
        .args(["judge", "--workers", "1", "--tasks"])
        .arg(&tasks)
        .arg("--completions")
        .arg(&completions)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = judging.id();
    eventually("its worker", || !children(id).is_empty()).await;
    signal("-9", children(id)[0]);
    let output = tokio::task::spawn_blocking(move || judging.wait_with_output()).await.unwrap().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    assert_eq!(printed.matches(r#""outcome":"passed""#).count(), 4, "{printed}");
}

#[test]
fn nobody_is_left_when_the_sandbox_goes() {
    let sandbox = workers(2, patient());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(sandbox.judge(&request("def f(x): return x * 2")).verdict, Verdict::Passed));
        }
    });
    let ids = sandbox.process_ids();
    assert!(!ids.is_empty());
    drop(sandbox);
    assert!(ids.iter().all(|id| !Path::new(&format!("/proc/{id}")).exists()), "{ids:?}");
}

#[test]
fn a_worker_ends_with_its_engine() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_rehearsal"))
        .arg(WORKER_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(worker.stdin.take());
    assert!(worker.wait().unwrap().success());
}
