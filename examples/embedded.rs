//! A foreign service that embeds the tree under a supervisor of its own: submits ten tasks to a scripted policy, receives ten rollouts
//! judged in real sandboxes, stops the tree, and would hear of its failure.
//!
//! `cargo run --release --example embedded`

#![allow(clippy::print_stdout, reason = "its output is the result")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;

use rehearsal::config::{Deadlines, RolloutSection};
use rehearsal::home::Home;
use rehearsal::progress::Quiet;
use rehearsal::ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use rehearsal::{Engine, EngineConfig, Outcome, Purpose, RewardRule, ScriptedPolicy, Task, Tests, prepare};

/// The host's own root: it sees the engine start, end and fail as it does any other child.
#[derive(Debug)]
struct HostRoot;

impl Actor for HostRoot {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<()>,
        event: SupervisionEvent,
        _: &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, cause) = event {
            eprintln!("the engine gave up: {cause}");
        }
        Ok(())
    }
}

fn task(number: i64) -> Arc<Task> {
    let code = format!("assert plus(1) == {}\nassert plus(-1) == {}\n", number + 1, number - 1);
    let tests = Tests::Assert { code, entry_point: "plus".to_owned() };
    let mut task =
        Task::new(format!("plus-{number}").as_str().into(), format!("Write plus(x) that returns x + {number}."), tests);
    task.reference = Some(format!("def plus(x):\n    return x + {number}\n"));
    Arc::new(task)
}

#[tokio::main]
async fn main() -> Result<()> {
    let sandbox = tokio::task::spawn_blocking(|| prepare::sandbox(&Home::open()?, "python", &Quiet)).await??;
    // The number is the last word of the prompt. Every third answer is wrong, to see a failure too.
    let policy = ScriptedPolicy::new(|prompt, _seed| {
        let number: i64 =
            prompt.trim_end_matches('.').rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let answer = if number % 3 == 0 { number + 1 } else { number };
        format!("```python\ndef plus(x):\n    return x + {answer}\n```")
    });
    let config = EngineConfig {
        seed: 1,
        rollout: RolloutSection {
            group_size: 1,
            temperature: 1.0,
            top_p: 1.0,
            max_tokens: 256,
            max_in_flight_groups: 4,
            max_pending_groups: 16,
        },
        sandbox_workers: 2,
        rewards: RewardRule::default(),
        deadlines: Deadlines::default(),
        restart: Default::default(),
        learner: None,
        cursor: Default::default(),
    };

    let (root, root_ended) = Actor::spawn(None, HostRoot, ()).await.context("the host's supervisor did not start")?;
    let engine = Engine::builder(config, policy, sandbox).start_linked(root.get_cell()).await?;
    let mut rollouts = engine.rollouts();
    for number in 0..10 {
        engine.submit(task(number), Purpose::Serve)?;
    }
    let mut passed = 0;
    for _ in 0..10 {
        let rollout =
            tokio::time::timeout(Duration::from_secs(60), rollouts.next()).await?.context("the engine ended")?;
        println!(
            "{:8} {:7} reward {:?} {}",
            rollout.key.task_id,
            rollout.outcome.label(),
            rollout.reward,
            rollout.outcome.detail()
        );
        passed += usize::from(rollout.outcome == Outcome::Passed);
    }
    engine.stop().await;
    root.stop(None);
    root_ended.await?;
    ensure!(passed == 6, "six of the ten scripted answers are right, and {passed} passed");
    println!("ten rollouts, {passed} passed");
    Ok(())
}
