//! Configuration, in two forms: the raw TOML, whose every key is consumed or refused by name, and what it is checked into.
//!
//! A recipe (`rehearsal train`) and a daemon configuration (`rehearsal serve`) share their sections.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use rehearsal_actors::RewardRule;
use rehearsal_actors::pipeline::credit::Sampler;
use rehearsal_actors::pipeline::learner::ZeroVariance;
use rehearsal_actors::pipeline::rollout::Patience;
use rehearsal_models::rl::Objective;
use rehearsal_models::{Device, OptimizerConfig, Sampling};
use rehearsal_sandboxes::Limits;

use crate::engine::MAX_SUBMITTED_SIZE;

/// The only version of both file formats so far.
const VERSION: u32 = 1;

/// Sandbox threads at most: each may hold two of the 256 instances a process can have.
pub const WORKERS_MAX: usize = 64;

/// Which policy, and where it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySection {
    /// A shipped policy's name (`smollm2-135m-instruct`), a GGUF file or a Hugging Face directory.
    pub source: String,
    /// `cpu` or `cuda:N`. Default `cpu`.
    #[serde(default)]
    pub device: Device,
    /// Completions under generation at once. Memory grows with it: one KV cache row each. Default 32.
    #[serde(default = "default_max_batch")]
    pub max_batch: usize,
}

fn default_max_batch() -> usize {
    32
}

/// How episodes are sampled and how many run at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolloutSection {
    /// Episodes per group.
    pub group_size: u32,
    /// Softmax temperature; 0 takes the most likely token.
    pub temperature: f32,
    /// Nucleus; 1 keeps every token.
    pub top_p: f32,
    /// Tokens per completion at most.
    pub max_tokens: usize,
    /// Groups between task source and learner at most. Default 8.
    #[serde(default = "default_in_flight")]
    pub max_in_flight_groups: usize,
    /// Submitted groups that may wait. Default 1024.
    #[serde(default = "default_pending")]
    pub max_pending_groups: usize,
}

fn default_in_flight() -> usize {
    8
}

fn default_pending() -> usize {
    1024
}

/// Where code runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSection {
    /// The image. Default `python`.
    pub image: String,
    /// Sandboxes that run at once; 0 takes one per core. Default 0.
    pub workers: usize,
    /// Whether each worker is a process of its own; otherwise they are threads of this one. Default true.
    pub processes: bool,
    /// Limits of the code under test, where a task has none of its own.
    pub limits: Limits,
}

/// How many sandboxes `workers` stands for: itself, or one per core for 0.
pub fn sandboxes_at_once(workers: usize) -> usize {
    if workers == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { workers }
}

impl Default for SandboxSection {
    fn default() -> Self {
        Self { image: "python".to_owned(), workers: 0, processes: true, limits: Limits::default() }
    }
}

/// Deadlines and retries. Nothing waits for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Deadlines {
    /// Seconds for one completion, its queue included. Default 300.
    pub generate_s: u64,
    /// Seconds for one verdict, its queue included. Default 120.
    pub judge_s: u64,
    /// Seconds for a whole group. Default 900.
    pub group_s: u64,
    /// Seconds without any progress, work in flight, after which the run ends with a diagnosis. Default 600.
    pub watchdog_s: u64,
    /// Further attempts after a failure of the host. Default 3.
    pub retries: u32,
    /// Milliseconds before the first of them; doubled each time. Default 200.
    pub backoff_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { generate_s: 300, judge_s: 120, group_s: 900, watchdog_s: 600, retries: 3, backoff_ms: 200 }
    }
}

impl Deadlines {
    /// As the rollout stage takes it.
    pub fn patience(&self) -> Patience {
        Patience {
            generate: Duration::from_secs(self.generate_s),
            judge: Duration::from_secs(self.judge_s),
            group: Duration::from_secs(self.group_s),
            retries: self.retries,
            backoff: Duration::from_millis(self.backoff_ms),
        }
    }
}

/// Which tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksSection {
    /// A JSONL file; a relative path starts at the recipe's directory.
    pub file: PathBuf,
    /// The split trained on.
    pub train_split: String,
    /// The split evaluated on.
    pub heldout_split: String,
}

/// How long and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSection {
    /// Batches to consume.
    pub steps: u64,
    /// Groups per batch.
    pub groups_per_step: usize,
    /// Order of the tasks.
    pub sampler: Sampler,
    /// Versions a group may be behind when it is consumed; 0 is strictly on-policy.
    pub max_staleness: u64,
    /// Groups whose rewards are all equal: `keep` them in the denominators, or `drop` them.
    pub zero_variance: ZeroVariance,
    /// Take completions cut by the token limit out of the loss and its denominators.
    pub mask_truncated: bool,
    /// Steps between checkpoints; 0 writes one at the end alone.
    pub checkpoint_every: u64,
}

/// Evaluation on the held-out split, before and after training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalSection {
    /// Completions per task; pass@1 is the mean over all of them.
    pub samples: u32,
    /// Sampling temperature; 0 with one sample is greedy.
    pub temperature: f32,
    /// Nucleus.
    pub top_p: f32,
}

/// What `rehearsal train` runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Format version: 1.
    pub version: u32,
    /// Names the run directory.
    pub name: String,
    /// Seeds the order of tasks and every draw.
    pub seed: u64,
    /// See [`PolicySection`].
    pub policy: PolicySection,
    /// See [`TasksSection`].
    pub tasks: TasksSection,
    /// See [`RolloutSection`].
    pub rollout: RolloutSection,
    /// See [`SandboxSection`].
    #[serde(default)]
    pub sandbox: SandboxSection,
    /// How outcomes become rewards.
    pub reward: RewardRule,
    /// Advantage, clip bounds, aggregation: each named.
    pub objective: Objective,
    /// AdamW and its schedule.
    pub optimizer: OptimizerConfig,
    /// See [`TrainSection`].
    pub train: TrainSection,
    /// See [`EvalSection`].
    pub eval: EvalSection,
    /// See [`Deadlines`].
    #[serde(default)]
    pub deadlines: Deadlines,
}

/// What `rehearsal serve` keeps up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// Format version: 1.
    pub version: u32,
    /// Seeds every draw.
    pub seed: u64,
    /// Address and port of the HTTP server; port 0 takes a free one and prints it.
    pub listen: String,
    /// Seconds a draining daemon waits for what is in flight. Default 60.
    #[serde(default = "default_drain")]
    pub drain_s: u64,
    /// See [`PolicySection`].
    pub policy: PolicySection,
    /// See [`RolloutSection`].
    pub rollout: RolloutSection,
    /// See [`SandboxSection`].
    #[serde(default)]
    pub sandbox: SandboxSection,
    /// How outcomes become rewards.
    #[serde(default)]
    pub reward: RewardRule,
    /// See [`Deadlines`].
    #[serde(default)]
    pub deadlines: Deadlines,
}

fn default_drain() -> u64 {
    60
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // toml's own message names the key, the line and the known keys.
    toml::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

impl Recipe {
    /// Reads and checks a recipe. Relative paths in it become absolute, from the recipe's directory.
    pub fn load(path: &Path) -> Result<Self> {
        let mut recipe: Self = read(path)?;
        let base = path.parent().unwrap_or(Path::new("."));
        if recipe.tasks.file.is_relative() {
            recipe.tasks.file = base.join(&recipe.tasks.file);
        }
        recipe.policy.source = from_base(base, &recipe.policy.source);
        recipe.check().with_context(|| format!("{}", path.display()))?;
        Ok(recipe)
    }

    /// What the types cannot say.
    pub fn check(&self) -> Result<()> {
        check_version(self.version)?;
        check_rollout(&self.rollout, &self.policy)?;
        check_sandbox(&self.sandbox)?;
        check_rewards(&self.reward)?;
        check_deadlines(&self.deadlines)?;
        at_least_one("train.groups_per_step", self.train.groups_per_step)?;
        at_least_one("eval.samples", self.eval.samples as usize)?;
        check_sampling("eval", self.eval.temperature, self.eval.top_p)?;
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            bail!("`name` is `{}`: use letters, digits, `-`, `_` and `.` (it names a directory)", self.name);
        }
        if self.rollout.temperature <= 0.0 {
            bail!("`rollout.temperature` is {}: training samples need a temperature above 0", self.rollout.temperature);
        }
        if self.rollout.top_p < 1.0 && self.train.max_staleness > 0 {
            bail!(
                "`rollout.top_p` below 1 with `train.max_staleness` above 0: the learner cannot reproduce the log-probs of a cut distribution"
            );
        }
        if self.rollout.max_in_flight_groups < self.train.groups_per_step {
            bail!(
                "`rollout.max_in_flight_groups` is {} and `train.groups_per_step` {}: a batch would never be complete",
                self.rollout.max_in_flight_groups,
                self.train.groups_per_step
            );
        }
        if self.rollout.group_size < 2 {
            bail!(
                "`rollout.group_size` is 1: an advantage compares the episodes of a group, so training needs at least 2"
            );
        }
        self.objective.validate(self.rollout.group_size as usize).context("`objective`")?;
        self.optimizer.validate().context("`optimizer`")
    }

    /// How training episodes are sampled.
    pub fn sampling(&self) -> Sampling {
        self.rollout.sampling(self.seed)
    }
}

impl DaemonConfig {
    /// Reads and checks a daemon configuration.
    pub fn load(path: &Path) -> Result<Self> {
        let mut config: Self = read(path)?;
        let base = path.parent().unwrap_or(Path::new("."));
        config.policy.source = from_base(base, &config.policy.source);
        config.check().with_context(|| format!("{}", path.display()))?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        check_version(self.version)?;
        check_rollout(&self.rollout, &self.policy)?;
        check_sandbox(&self.sandbox)?;
        check_rewards(&self.reward)?;
        check_deadlines(&self.deadlines)
    }
}

impl RolloutSection {
    /// As the pipeline takes it.
    pub fn sampling(&self, seed: u64) -> Sampling {
        Sampling { temperature: self.temperature, top_p: self.top_p, max_tokens: self.max_tokens, seed }
    }
}

/// A policy given by a path is found from the configuration's directory; a shipped policy's name stays.
fn from_base(base: &Path, source: &str) -> String {
    let path = Path::new(source);
    let is_path = source.contains('/') || path.extension().is_some();
    if is_path && path.is_relative() { base.join(path).display().to_string() } else { source.to_owned() }
}

fn check_version(version: u32) -> Result<()> {
    if version != VERSION {
        bail!("`version` is {version}: this binary reads version {VERSION}");
    }
    Ok(())
}

fn at_least_one(key: &str, value: usize) -> Result<()> {
    if value == 0 {
        bail!("`{key}` is 0: it must be at least 1");
    }
    Ok(())
}

fn check_sampling(section: &str, temperature: f32, top_p: f32) -> Result<()> {
    if !temperature.is_finite() || temperature < 0.0 {
        bail!("`{section}.temperature` is {temperature}: it must be 0 or above");
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        bail!("`{section}.top_p` is {top_p}: it must be above 0 and at most 1");
    }
    Ok(())
}

fn check_rollout(rollout: &RolloutSection, policy: &PolicySection) -> Result<()> {
    at_least_one("rollout.group_size", rollout.group_size as usize)?;
    at_least_one("rollout.max_tokens", rollout.max_tokens)?;
    at_least_one("rollout.max_in_flight_groups", rollout.max_in_flight_groups)?;
    at_least_one("rollout.max_pending_groups", rollout.max_pending_groups)?;
    at_least_one("policy.max_batch", policy.max_batch)?;
    let bounds = [
        ("rollout.group_size", rollout.group_size as usize, MAX_SUBMITTED_SIZE as usize),
        ("rollout.max_in_flight_groups", rollout.max_in_flight_groups, 10_000),
        ("policy.max_batch", policy.max_batch, 4096),
    ];
    for (key, value, most) in bounds {
        if value > most {
            bail!("`{key}` is {value}: it must be at most {most}");
        }
    }
    check_sampling("rollout", rollout.temperature, rollout.top_p)
}

fn check_sandbox(sandbox: &SandboxSection) -> Result<()> {
    if sandbox.workers > WORKERS_MAX {
        bail!("`sandbox.workers` is {}: at most {WORKERS_MAX} sandboxes can run at once", sandbox.workers);
    }
    crate::tasks::check_limits(&sandbox.limits).map_err(|fault| anyhow::anyhow!("`sandbox.limits`: {fault}"))
}

fn check_rewards(reward: &RewardRule) -> Result<()> {
    let values = [
        ("passed", reward.passed),
        ("failed", reward.failed),
        ("policy_error", reward.policy_error),
        ("partial", reward.partial),
    ];
    for (key, value) in values {
        if !value.is_finite() {
            bail!("`reward.{key}` is {value}: a reward must be a finite number");
        }
    }
    Ok(())
}

fn check_deadlines(deadlines: &Deadlines) -> Result<()> {
    let values = [
        ("generate_s", deadlines.generate_s),
        ("judge_s", deadlines.judge_s),
        ("group_s", deadlines.group_s),
        ("watchdog_s", deadlines.watchdog_s),
    ];
    for (key, value) in values {
        if value == 0 {
            bail!("`deadlines.{key}` is 0: it must be at least 1 second");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> String {
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes/python-basics.toml")).unwrap()
    }

    fn load_text(text: &str) -> Result<Recipe> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("recipe.toml");
        fs::write(&path, text)?;
        Recipe::load(&path)
    }

    #[test]
    fn every_shipped_recipe_loads() {
        for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes")).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("listen =") {
                DaemonConfig::load(&path).unwrap();
            } else {
                Recipe::load(&path).unwrap();
            }
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_wherever_it_stands() {
        for section in [
            "",
            "policy",
            "tasks",
            "rollout",
            "sandbox",
            "reward",
            "objective",
            "optimizer",
            "train",
            "eval",
            "deadlines",
        ] {
            let text = match section {
                "" => format!("surprise = 1\n{}", shipped()),
                _ if shipped().contains(&format!("[{section}]\n")) => {
                    shipped().replace(&format!("[{section}]\n"), &format!("[{section}]\nsurprise = 1\n"))
                }
                _ => format!("{}\n[{section}]\nsurprise = 1\n", shipped()),
            };
            let error = format!("{:#}", load_text(&text).unwrap_err());
            assert!(error.contains("surprise") && error.contains("recipe.toml"), "[{section}]: {error}");
        }
    }

    #[test]
    fn bad_values_name_their_key() {
        let cases = [
            ("version = 1", "version = 2", "version"),
            ("temperature = 1.0", "temperature = -1.0", "temperature"),
            ("top_p = 1.0", "top_p = 0.0", "top_p"),
            ("group_size = 8", "group_size = 0", "group_size"),
            ("passed = 1.0", "passed = nan", "reward.passed"),
            ("beta1 = 0.9", "beta1 = 1.0", "beta1"),
        ];
        for (from, to, key) in cases {
            assert!(shipped().contains(from), "the recipe has no `{from}`");
            let error = format!("{:#}", load_text(&shipped().replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(key), "{to}: {error}");
        }
    }
}
