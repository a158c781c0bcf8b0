//! The main job at its smallest, as a process: it trains, is ended early, goes on, and leaves what it promises.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{policy_file, python};

/// A few short steps of the real policy on the real tasks.
fn small_recipe(dir: &Path) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut recipe = fs::read_to_string(repository.join("recipes/python-basics.toml")).unwrap();
    let tasks = dir.join("tasks.jsonl");
    let shipped = fs::read_to_string(repository.join("tasks/python-basics.jsonl")).unwrap();
    // Three held-out tasks, so that evaluation is short.
    let (train, heldout): (Vec<_>, Vec<_>) = shipped.lines().partition(|line| line.contains("\"train\""));
    let few: Vec<_> = train.into_iter().take(12).chain(heldout.into_iter().take(3)).collect();
    fs::write(&tasks, few.join("\n")).unwrap();
    let changes = [
        ("../tasks/python-basics.jsonl", tasks.to_str().unwrap()),
        ("group_size = 8", "group_size = 4"),
        ("max_tokens = 64", "max_tokens = 24"),
        ("groups_per_step = 4", "groups_per_step = 2"),
        ("zero_variance = \"drop\"", "zero_variance = \"keep\""),
        ("checkpoint_every = 10", "checkpoint_every = 1"),
        ("samples = 4", "samples = 1"),
        ("steps = 40", "steps = 3"),
    ];
    for (from, to) in changes {
        assert!(recipe.contains(from), "the recipe has no `{from}`");
        recipe = recipe.replacen(from, to, 1);
    }
    let path = dir.join("small.toml");
    fs::write(&path, recipe).unwrap();
    path.display().to_string()
}

fn train(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearsal"));
    command.arg("train").args(args).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads what the run says until a line holds `word`.
fn wait_for(child: &mut Child, word: &str) -> Vec<String> {
    let (mut seen, mut found) = (Vec::new(), false);
    for line in BufReader::new(child.stderr.as_mut().unwrap()).lines() {
        let line = line.unwrap();
        found = line.contains(word);
        seen.push(line);
        if found {
            break;
        }
    }
    assert!(found, "the run never said `{word}`: {seen:#?}");
    seen
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn json_lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_is_ended_early_goes_on_and_leaves_what_it_promises() {
    policy_file();
    python();
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let run_text = run.display().to_string();
    let recipe = small_recipe(dir.path());

    let mut child = train(&[&recipe, "--run-dir", &run_text, "--metrics-addr", "127.0.0.1:0"]);
    let said = wait_for(&mut child, "step   1/3");
    assert!(said.iter().any(|line| line.starts_with("metrics on http://127.0.0.1:")), "{said:#?}");
    signal(&child, "-INT");
    let rest: Vec<String> = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{rest:#?}");
    assert!(rest.iter().any(|line| line.contains("--resume")), "{rest:#?}");
    let state: Value = serde_json::from_str(&fs::read_to_string(run.join("state.json")).unwrap()).unwrap();
    let saved = state["step"].as_u64().unwrap();
    assert!((1..3).contains(&saved), "{state}");

    // Killed in the middle of what comes next: the last complete checkpoint is what counts.
    let mut child = train(&["--resume", &run_text]);
    wait_for(&mut child, "going on after step");
    child.kill().unwrap();
    child.wait().unwrap();

    let mut child = train(&["--resume", &run_text]);
    wait_for(&mut child, "done:");
    assert!(child.wait().unwrap().success());

    let steps = json_lines(&run.join("metrics.jsonl"));
    assert_eq!(steps.iter().map(|step| step["step"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    for step in &steps {
        assert!(step["staleness_max"] == 0 && step["seconds"].as_f64().unwrap() > 0.0, "{step}");
        if let Some(mismatch) = step["learner"]["logprob_mismatch_max"].as_f64() {
            assert!(mismatch < 1e-3, "learner and generator differ by {mismatch}");
        }
    }
    let evaluations = json_lines(&run.join("eval.jsonl"));
    assert_eq!(evaluations.iter().map(|e| e["when"].as_str().unwrap()).collect::<Vec<_>>(), ["before", "after"]);
    for step in 1..=3 {
        let rollouts = json_lines(&run.join(format!("rollouts/step-{step:06}.jsonl")));
        assert_eq!(rollouts.len(), 8);
        for rollout in rollouts {
            let tokens = rollout["completion_ids"].as_array().unwrap().len();
            assert!(tokens > 0 && rollout["logprobs"].as_array().unwrap().len() == tokens, "{rollout}");
            assert!(rollout["prompt"].is_string() && rollout["outcome"].is_string(), "{rollout}");
        }
    }
    let html = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(
        html.contains("Reward per step") && !html.contains("http://")
            || html.matches("http://").all(|_| html.contains("w3.org"))
    );
    for file in
        ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]
    {
        assert!(run.join("checkpoints/step-000003").join(file).is_file(), "the checkpoint has no {file}");
    }

    // The checkpoint is a policy like any other.
    let checkpoint = run.join("checkpoints/step-000003").display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_rehearsal"))
        .args([
            "generate",
            "--policy",
            &checkpoint,
            "--prompt",
            "Say hi.",
            "--temperature",
            "0",
            "--max-tokens",
            "4",
            "--json",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
