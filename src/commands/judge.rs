//! `rehearsal judge`: completions against tasks, a line each, in the input's order.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use rehearsal::config::{WORKERS_MAX, sandboxes_at_once};
use rehearsal::home::Home;
use rehearsal::progress::Show;
use rehearsal::tasks::{self, TaskLine};
use rehearsal::{Outcome, RewardRule, Sandbox, Task};
use rehearsal_actors::pipeline::evaluator::{blame, checked_outcome};
use rehearsal_sandboxes::{JudgeRequest, Judgement, PolicyErrorReason, Verdict};

use crate::commands::exec::LimitArgs;
use crate::commands::{print_line, sandboxes};
use crate::console::Console;

/// How often a completion is judged where the host fails.
const ATTEMPTS: u32 = 3;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task file (JSONL).
    #[arg(long)]
    tasks: PathBuf,
    /// The completions: `{"task_id", "completion"}` a line. Code is the last fenced block, or all of it when nothing is fenced.
    #[arg(long, required_unless_present = "references")]
    completions: Option<PathBuf>,
    /// Judge each task's own reference instead.
    #[arg(long, conflicts_with = "completions")]
    references: bool,
    /// Seed of the guests' randomness.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sandboxes that run at once; 0 takes one per core.
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Run the sandboxes on threads of this process instead of processes of their own.
    #[arg(long)]
    in_process: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompletionLine {
    task_id: String,
    completion: String,
}

#[derive(Debug, Serialize)]
struct VerdictLine<'a> {
    task_id: &'a str,
    outcome: &'static str,
    reward: Option<f64>,
    detail: String,
    fuel_used: u64,
}

/// Exit code 0 when every completion got a verdict (and, with `--references`, passed); 1 when the host or a task failed for some.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let limits = args.limits.limits();
    let lines = tasks::load(&args.tasks)?;
    let completions = match &args.completions {
        Some(path) => read_completions(path)?,
        None => references(&lines),
    };
    if completions.is_empty() {
        bail!(
            "there is nothing to judge: {}",
            if args.references { "no task has a reference" } else { "no completion" }
        );
    }
    if args.workers > WORKERS_MAX {
        bail!("--workers is {}: at most {WORKERS_MAX} sandboxes can run at once", args.workers);
    }
    let tasks: HashMap<String, Task> =
        lines.into_iter().map(|line| (line.id.clone(), line.into_task(&limits))).collect();
    if let Some((at, line)) = completions.iter().enumerate().find(|(_, line)| !tasks.contains_key(&line.task_id)) {
        bail!("completion {}: there is no task `{}` in {}", at + 1, line.task_id, args.tasks.display());
    }
    let console = Console::new();
    let sandbox = sandboxes(&Home::open()?, ("python", args.workers, !args.in_process), &console)?;
    let started = Instant::now();
    let counts = judge_all(args, &tasks, &completions, sandbox.as_ref())?;
    let elapsed = started.elapsed().as_secs_f64();
    let failed_references = args.references && counts.iter().any(|(outcome, n)| *outcome != "passed" && *n > 0);
    let summary: Vec<String> = counts.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
    console.say(&format!(
        "{} completions judged in {elapsed:.2} s ({:.0}/s): {}",
        completions.len(),
        completions.len() as f64 / elapsed.max(1e-9),
        summary.join(", ")
    ));
    let unscored = counts.contains_key("infra_error") || counts.contains_key("task_error");
    Ok(if unscored || failed_references { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn references(lines: &[TaskLine]) -> Vec<CompletionLine> {
    let reference =
        |line: &TaskLine| Some(CompletionLine { task_id: line.id.clone(), completion: line.reference.clone()? });
    lines.iter().filter_map(reference).collect()
}

fn read_completions(path: &Path) -> Result<Vec<CompletionLine>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read the completions {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| serde_json::from_str(line).with_context(|| format!("{}, line {}", path.display(), at + 1)))
        .collect()
}

/// Judges on all workers and prints in order: a verdict is held back only until those before it are there.
fn judge_all(
    args: &Args,
    tasks: &HashMap<String, Task>,
    completions: &[CompletionLine],
    sandbox: &dyn Sandbox,
) -> Result<BTreeMap<&'static str, usize>> {
    let workers = sandboxes_at_once(args.workers);
    let (next, mut counts) = (AtomicUsize::new(0), BTreeMap::new());
    std::thread::scope(|scope| {
        let (sender, verdicts) = mpsc::channel();
        for _ in 0..workers.min(completions.len()) {
            let (sender, next) = (sender.clone(), &next);
            // Guests recurse on the thread's stack.
            let worker = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(line) = completions.get(at) else { return };
                    let verdict = judge_one(line, &tasks[&line.task_id], args.seed, sandbox);
                    if sender.send((at, verdict)).is_err() {
                        return;
                    }
                }
            });
            worker.context("cannot start a sandbox thread")?;
        }
        drop(sender);
        let (mut held, mut printed) = (BTreeMap::new(), 0);
        for (at, verdict) in verdicts {
            held.insert(at, verdict);
            while let Some(verdict) = held.remove(&printed) {
                *counts.entry(verdict.outcome).or_insert(0) += 1;
                print_line(&serde_json::to_string(&verdict)?)?;
                printed += 1;
            }
        }
        if printed < completions.len() {
            bail!("a sandbox thread died: {printed} of {} completions were judged", completions.len());
        }
        Ok(counts)
    })
}

/// A judgement; a failure of the host's is tried again, as the pipeline does.
fn judged(sandbox: &dyn Sandbox, request: &JudgeRequest) -> Judgement {
    let mut judgement = sandbox.judge(request);
    for _ in 1..ATTEMPTS {
        if !matches!(judgement.verdict, Verdict::InfraError { .. }) {
            break;
        }
        judgement = sandbox.judge(request);
    }
    judgement
}

fn judge_one<'a>(line: &'a CompletionLine, task: &Task, seed: u64, sandbox: &dyn Sandbox) -> VerdictLine<'a> {
    let (outcome, judgement) = match task.under_test(&line.completion) {
        None => (Outcome::PolicyError { reason: PolicyErrorReason::NoCode, detail: String::new() }, None),
        Some(code) => {
            let judgement = judged(sandbox, &task.judge_request(code, seed));
            let outcome = match checked_outcome(&judgement) {
                // Whose fault it is shows when the task's own reference meets the same tests.
                fault @ Outcome::TaskError { .. } => blame(fault, reference_passes(task, seed, sandbox)),
                outcome => outcome,
            };
            (outcome, Some(judgement))
        }
    };
    VerdictLine {
        task_id: &line.task_id,
        outcome: outcome.label(),
        reward: RewardRule::default().reward(&outcome, judgement.as_ref()),
        detail: outcome.detail(),
        fuel_used: judgement.map_or(0, |judgement| judgement.fuel_used),
    }
}

fn reference_passes(task: &Task, seed: u64, sandbox: &dyn Sandbox) -> bool {
    task.reference.as_ref().is_some_and(|reference| {
        checked_outcome(&judged(sandbox, &task.judge_request(reference.clone(), seed))) == Outcome::Passed
    })
}
