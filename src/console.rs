//! What the binary shows on a terminal: bars while something is fetched, one line per step, and what goes on within a step.
//!
//! Where standard error is not a terminal, bars are left out and lines stay.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use rehearsal::progress::{Bar, Show};
use rehearsal::{EngineProgress, StepSummary};

/// The terminal.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    bars: MultiProgress,
    is_terminal: bool,
}

impl Console {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { bars: MultiProgress::with_draw_target(target), is_terminal }
    }

    fn add(&self, bar: ProgressBar, what: &str) -> ProgressBar {
        if !self.is_terminal {
            self.say(what);
        }
        let bar = self.bars.add(bar);
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// What goes on within a step; refreshed until the returned task is aborted.
    pub(crate) fn watch(
        &self,
        progress: Arc<EngineProgress>,
        text: impl Fn(&EngineProgress) -> String + Send + 'static,
    ) -> Watch {
        let bar = self.bars.add(ProgressBar::new_spinner());
        bar.set_style(style("{spinner} {msg}"));
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            loop {
                shown.set_message(text(&progress));
                shown.tick();
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        });
        Watch { bar, task }
    }
}

/// A line that shows what goes on; gone when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    bar: ProgressBar,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Show for Console {
    fn say(&self, line: &str) {
        if self.is_terminal {
            // A terminal that is gone must not end the run.
            let _ = self.bars.println(line);
        } else {
            eprintln!("{line}");
        }
    }

    fn bar(&self, what: &str, total: u64) -> Box<dyn Bar> {
        let bar = ProgressBar::new(total);
        bar.set_style(style("{msg} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} {eta}"));
        Box::new(TerminalBar(self.add(bar, what)))
    }

    fn spinner(&self, what: &str) -> Box<dyn Bar> {
        let bar = ProgressBar::new_spinner();
        bar.set_style(style("{spinner} {msg} {elapsed}"));
        Box::new(TerminalBar(self.add(bar, what)))
    }
}

#[derive(Debug)]
struct TerminalBar(ProgressBar);

impl Bar for TerminalBar {
    fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    fn text(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for TerminalBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The line of a step.
pub(crate) fn step_line(summary: &StepSummary, steps: u64) -> String {
    let count = |outcome: &str| summary.outcomes.get(outcome).copied().unwrap_or(0);
    let mut line = format!(
        "step {:>3}/{steps}  reward {:.3}  pass {:>3.0}%  ok {} fail {} err {}  tokens {:>4.1} cut {:>3.0}%  gen {:.0} tok/s  learn {:.0} tok/s  stale {}  {:.1} s",
        summary.step,
        summary.reward,
        100.0 * summary.pass_rate,
        count("passed"),
        count("failed"),
        count("policy_error"),
        summary.completion_tokens_mean,
        100.0 * summary.truncated,
        summary.generator_tokens_per_second,
        summary.learner_tokens_per_second,
        summary.staleness_max,
        summary.seconds,
    );
    if let Some(report) = &summary.learner {
        line.push_str(&format!("  |Δlogp| {:.1e}", report.logprob_mismatch_max));
    }
    if let Some(refused) = &summary.refused {
        line.push_str(&format!("  no step: {refused}"));
    }
    line
}

/// What goes on within a step, in words.
pub(crate) fn activity(progress: &EngineProgress) -> String {
    let of = |n: &std::sync::atomic::AtomicI64| n.load(Ordering::Relaxed);
    if of(&progress.learning) > 0 {
        let (done, all) =
            (progress.micro_batches_done.load(Ordering::Relaxed), progress.micro_batches.load(Ordering::Relaxed));
        return format!("learning: micro-batch {done} of {all}");
    }
    format!(
        "rolling out: {} episodes open, {} in the generator, {} in sandboxes, {} tokens sampled so far",
        of(&progress.episodes),
        of(&progress.generating),
        of(&progress.judging),
        progress.tokens.load(Ordering::Relaxed),
    )
}
