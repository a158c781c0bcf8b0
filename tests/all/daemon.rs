//! The daemon as a real client sees it: a process, HTTP, server-sent events, signals.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{PATIENCE, policy_file, python};

struct Daemon {
    child: Child,
    base: String,
}

impl Daemon {
    fn start() -> Self {
        policy_file();
        python();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        let config = std::fs::read_to_string(repository.join("recipes/daemon.toml")).unwrap();
        let config = config.replace("127.0.0.1:8900", "127.0.0.1:0").replace("max_tokens = 64", "max_tokens = 16");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.toml");
        std::fs::write(&path, config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rehearsal"))
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let base = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("said {line:?}")).to_owned();
        Self { child, base }
    }

    fn agent() -> ureq::Agent {
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build().into()
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut response = Self::agent().get(format!("{}{path}", self.base)).call().unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    fn post(&self, body: &str) -> (u16, Value) {
        let mut response = Self::agent().post(format!("{}/v1/tasks", self.base)).send(body).unwrap();
        (response.status().as_u16(), serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap())
    }

    /// Every rollout from now on.
    fn stream(&self) -> mpsc::Receiver<Value> {
        let response = Self::agent().get(format!("{}/v1/rollouts", self.base)).call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (sender, rollouts) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(response.into_body().into_reader()).lines().map_while(Result::ok) {
                if let Some(data) = line.strip_prefix("data:")
                    && sender.send(serde_json::from_str(data).unwrap()).is_err()
                {
                    return;
                }
            }
        });
        rollouts
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Ended already in a test that went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn task(id: &str) -> Value {
    json!({
        "id": id, "prompt": "Write a Python function add(a, b) that returns the sum of a and b. Reply with code only.", "group_size": 2,
        "tests": {"kind": "call", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]},
        "reference": "def add(a, b):\n    return a + b\n",
    })
}

/// `promtool check metrics`, where it is installed.
fn promtool(text: &str) {
    let child =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        println!("promtool is not installed: its check is left out");
        return;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tasks_go_in_rollouts_come_out_and_sigterm_drains() {
    let mut daemon = Daemon::start();
    assert_eq!(daemon.get("/healthz").0, 200);
    assert_eq!(daemon.get("/readyz"), (200, "ready\n".to_owned()));
    let rollouts = daemon.stream();

    let (status, accepted) = daemon.post(&json!([task("a"), task("b")]).to_string());
    assert_eq!(status, 202, "{accepted}");
    assert_eq!(accepted["groups"].as_array().unwrap().len(), 2);
    let (status, accepted) = daemon.post(&task("c").to_string());
    assert_eq!((status, &accepted["groups"][0]["episodes"]), (202, &json!(2)), "{accepted}");
    for _ in 0..6 {
        let rollout = rollouts.recv_timeout(PATIENCE).unwrap();
        assert!(["passed", "failed", "policy_error"].contains(&rollout["outcome"].as_str().unwrap()), "{rollout}");
        assert!(rollout["reward"].is_number() && !rollout["completion_ids"].as_array().unwrap().is_empty());
    }

    for (body, status, says) in [
        ("{", 400, "not a task"),
        ("[]", 400, "no task"),
        (r#"{"id": "x"}"#, 422, "prompt"),
        (&task("x").to_string().replace("\"prompt\"", "\"promt\""), 422, "promt"),
        (&task("x").to_string().replace("\"group_size\":2", "\"group_size\":0"), 422, "group_size"),
    ] {
        let (got, answer) = daemon.post(body);
        assert_eq!(got, status, "{body}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(says), "{answer}");
    }

    let (status, metrics) = daemon.get("/metrics");
    assert_eq!(status, 200);
    for name in [
        "rehearsal_episodes_total{outcome=\"passed\"}",
        "rehearsal_actor_up{role=\"generator\"} 1",
        "rehearsal_sandbox_fuel_bucket",
        "rehearsal_build_info",
    ] {
        assert!(metrics.contains(name), "no {name} in {metrics}");
    }
    promtool(&metrics);

    let (_, accepted) = daemon.post(&task("last").to_string());
    assert_eq!(accepted["groups"].as_array().unwrap().len(), 1);
    assert!(Command::new("kill").args(["-TERM", &daemon.child.id().to_string()]).status().unwrap().success());
    // What was taken ends, and only then the stream.
    for _ in 0..2 {
        assert_eq!(rollouts.recv_timeout(PATIENCE).unwrap()["task_id"], "last");
    }
    assert_eq!(rollouts.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = daemon.child.try_wait().unwrap() {
            break status;
        }
        assert!(std::time::Instant::now() < deadline, "the daemon did not end");
        std::thread::yield_now();
    };
    assert!(status.success(), "{status}");
}
