//! Evaluation: completions of held-out tasks, not learned from, and the share that passes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use rehearsal_actors::{Event, Outcome, Purpose, Rollout, Subscription, Task};
use rehearsal_models::Sampling;

use crate::engine::{Engine, EngineError};

/// One evaluation in numbers: a line of `eval.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// `before` or `after` training.
    pub when: String,
    /// Steps taken by then.
    pub step: u64,
    /// The weights version evaluated.
    pub weights_version: u64,
    /// Mean over tasks of the share of scored completions that passed: the unbiased estimate of pass@1.
    pub pass_at_1: f64,
    /// Standard error of that mean over tasks.
    pub standard_error: f64,
    /// Tasks with at least one scored completion.
    pub tasks: usize,
    /// Completions per task.
    pub samples: u32,
    /// Completions by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Mean tokens per completion.
    pub completion_tokens_mean: f64,
    /// How long it took.
    pub seconds: f64,
}

/// Runs `samples` episodes of every task and waits for all of them. `seen` is told of each rollout.
pub async fn evaluate(
    engine: &Engine,
    events: &mut Subscription,
    tasks: &[Arc<Task>],
    samples: u32,
    sampling: &Sampling,
    mut seen: impl FnMut(usize, usize),
) -> Result<Vec<Arc<Rollout>>> {
    let total = tasks.len() * samples as usize;
    let (mut waiting, mut open) = (tasks.iter().rev().cloned().collect::<Vec<_>>(), HashSet::new());
    // Keyed by episode: an attempt that was lost to a crash after it was seen is replaced by the one that counts.
    let mut rollouts = BTreeMap::new();
    loop {
        // As many as the engine's waiting room takes; the rest follow as groups end.
        while let Some(task) = waiting.pop() {
            match engine.submit_with(Arc::clone(&task), samples, sampling.clone(), Purpose::Evaluate) {
                Ok(id) => drop(open.insert(id)),
                Err(EngineError::Submit(rehearsal_actors::pipeline::credit::SubmitError::Full { .. }))
                    if !open.is_empty() =>
                {
                    waiting.push(task);
                    break;
                }
                Err(error) => tracing::warn!(task = %task.id, %error, "not evaluated"),
            }
        }
        if open.is_empty() {
            return Ok(rollouts.into_values().collect());
        }
        match events.next().await {
            Some(Event::Rollout(rollout)) if open.contains(&rollout.key.group_id) => {
                rollouts.insert((rollout.key.group_id, rollout.key.index), rollout);
                seen(rollouts.len(), total);
            }
            Some(Event::GroupEnded { id, .. }) => drop(open.remove(&id)),
            Some(Event::Stopped(cause)) => {
                bail!("the engine ended during evaluation: {}", cause.unwrap_or_else(|| "it was stopped".into()))
            }
            Some(_) => {}
            None => bail!("the engine ended during evaluation"),
        }
    }
}

impl Evaluation {
    /// The numbers of a finished evaluation.
    pub fn of(
        when: &str,
        step: u64,
        weights_version: u64,
        samples: u32,
        rollouts: &[Arc<Rollout>],
        started: Instant,
    ) -> Self {
        let (mut by_task, mut outcomes) = (BTreeMap::<&str, (u64, u64)>::new(), BTreeMap::new());
        let (mut tokens, mut acted) = (0_usize, 0_usize);
        for rollout in rollouts {
            *outcomes.entry(rollout.outcome.label().to_owned()).or_insert(0) += 1;
            if let Some(action) = &rollout.action {
                tokens += action.completion_ids.len();
                acted += 1;
            }
            if rollout.outcome.is_scored() {
                let (passed, scored) = by_task.entry(&rollout.key.task_id.0).or_default();
                *passed += u64::from(rollout.outcome == Outcome::Passed);
                *scored += 1;
            }
        }
        let shares: Vec<f64> = by_task.values().map(|(passed, scored)| *passed as f64 / *scored as f64).collect();
        let n = shares.len().max(1) as f64;
        let mean = shares.iter().sum::<f64>() / n;
        let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Self {
            when: when.to_owned(),
            step,
            weights_version,
            pass_at_1: mean,
            standard_error: (variance / n).sqrt(),
            tasks: shares.len(),
            samples,
            outcomes,
            completion_tokens_mean: tokens as f64 / acted.max(1) as f64,
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}
