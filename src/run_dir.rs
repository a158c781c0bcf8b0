//! A run's directory: what was asked for, what happened, and what is needed to go on.
//!
//! ```text
//! RUN/recipe.toml            the resolved recipe
//! RUN/metrics.jsonl          one line a step
//! RUN/eval.jsonl             one line an evaluation
//! RUN/rollouts/*.jsonl       every rollout: step-000001.jsonl …, eval-before.jsonl, eval-after.jsonl
//! RUN/checkpoints/step-N/    Hugging Face directory, optimiser state beside it
//! RUN/state.json             the checkpoint to go on from, and where the run stood
//! RUN/report.html            the curves
//! ```
//!
//! Files that are replaced are written to a temporary name and renamed; a reader never sees half of one. Calls block.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use rehearsal_actors::pipeline::credit::Cursor;
use rehearsal_actors::{Rollout, StepSummary};

use crate::config::Recipe;
use crate::evaluate::Evaluation;
use crate::record::RolloutRecord;

/// The point a run can go on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Batches consumed at that point.
    pub step: u64,
    /// The checkpoint, relative to the run directory.
    pub checkpoint: PathBuf,
    /// Where the task source stood.
    pub cursor: Cursor,
}

/// A run's directory.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes a new run directory. An existing one is never written over.
    pub fn create(path: &Path, recipe: &Recipe) -> Result<Self> {
        if path.join("recipe.toml").exists() {
            bail!("{} holds a run already: choose another --run-dir, or go on with --resume {0}", path.display());
        }
        fs::create_dir_all(path.join("rollouts")).with_context(|| format!("cannot create {}", path.display()))?;
        fs::create_dir_all(path.join("checkpoints"))?;
        let dir = Self { path: path.to_owned() };
        let mut resolved = recipe.clone();
        resolved.tasks.file = resolved.tasks.file.canonicalize().unwrap_or(resolved.tasks.file);
        let source = Path::new(&resolved.policy.source);
        if source.exists() {
            resolved.policy.source = source.canonicalize()?.display().to_string();
        }
        dir.replace("recipe.toml", toml::to_string_pretty(&resolved).context("cannot write the recipe")?.as_bytes())?;
        Ok(dir)
    }

    /// Opens an existing run directory with its recipe.
    pub fn open(path: &Path) -> Result<(Self, Recipe)> {
        let recipe = path.join("recipe.toml");
        if !recipe.is_file() {
            bail!("{} is not a run directory: it has no recipe.toml", path.display());
        }
        Ok((Self { path: path.to_owned() }, Recipe::load(&recipe)?))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state to go on from, if a checkpoint was completed.
    pub fn state(&self) -> Result<Option<RunState>> {
        let path = self.path.join("state.json");
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).map(Some).with_context(|| {
            format!(
                "{} is damaged: write it anew from the newest of checkpoints/, or begin another run",
                path.display()
            )
        })
    }

    /// Records that `state`'s checkpoint is complete.
    pub fn write_state(&self, state: &RunState) -> Result<()> {
        self.replace("state.json", &serde_json::to_vec_pretty(state)?)
    }

    /// Adds a step's line.
    pub fn add_step(&self, summary: &StepSummary) -> Result<()> {
        self.add_line("metrics.jsonl", summary)
    }

    /// Adds an evaluation's line.
    pub fn add_evaluation(&self, evaluation: &Evaluation) -> Result<()> {
        self.add_line("eval.jsonl", evaluation)
    }

    /// The steps recorded so far.
    pub fn steps(&self) -> Result<Vec<StepSummary>> {
        self.lines("metrics.jsonl")
    }

    /// The evaluations recorded so far.
    pub fn evaluations(&self) -> Result<Vec<Evaluation>> {
        self.lines("eval.jsonl")
    }

    /// Writes the rollouts of `name` (`step-000001`, `eval-before`), whole.
    pub fn write_rollouts(&self, name: &str, rollouts: &[Arc<Rollout>]) -> Result<()> {
        let mut lines = Vec::new();
        for rollout in rollouts {
            serde_json::to_writer(&mut lines, &RolloutRecord::from(rollout.as_ref()))?;
            lines.push(b'\n');
        }
        self.replace(&format!("rollouts/{name}.jsonl"), &lines)
    }

    /// Writes a file of the run, whole or not at all.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let part = path.with_extension("part");
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(&part)?);
            file.write_all(bytes)?;
            file.into_inner()?.sync_all()?;
            fs::rename(&part, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Forgets everything after `step`, so that a resumed run does not record it twice.
    pub fn rewind(&self, step: u64) -> Result<()> {
        let mut kept = Vec::new();
        for summary in self.steps()?.into_iter().filter(|summary| summary.step <= step) {
            serde_json::to_writer(&mut kept, &summary)?;
            kept.push(b'\n');
        }
        self.replace("metrics.jsonl", &kept)?;
        let mut kept = Vec::new();
        for evaluation in
            self.evaluations()?.into_iter().filter(|evaluation| evaluation.step <= step && evaluation.when == "before")
        {
            serde_json::to_writer(&mut kept, &evaluation)?;
            kept.push(b'\n');
        }
        self.replace("eval.jsonl", &kept)?;
        for entry in fs::read_dir(self.path.join("rollouts"))? {
            let path = entry?.path();
            let after = path.file_stem().and_then(|stem| stem.to_str()?.strip_prefix("step-")?.parse::<u64>().ok());
            if after.is_some_and(|after| after > step) {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn add_line<T: Serialize>(&self, name: &str, line: &T) -> Result<()> {
        let path = self.path.join(name);
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let append = || File::options().create(true).append(true).open(&path)?.write_all(&bytes);
        append().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Lines of a JSONL file. A last line cut by a crash is left out.
    fn lines<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        let path = self.path.join(name);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        whole
            .lines()
            .enumerate()
            .map(|(at, line)| {
                serde_json::from_str(line).with_context(|| format!("{}, line {}", path.display(), at + 1))
            })
            .collect()
    }
}
