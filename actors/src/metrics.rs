//! Every metric: its name, unit, help and labels, declared once.
//!
//! Nothing global is installed. An engine registers its handles with the recorder it is given, so that two engines in one
//! process do not meet. Label values are fixed sets: no task ids.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};

use rehearsal_sandboxes::End;

use crate::types::Outcome;

/// Stages that queue and take time, in flow order.
pub const STAGES: [&str; 4] = ["generator", "sandbox", "evaluator", "learner"];
/// Actors under supervision, in wiring order.
pub const ROLES: [&str; 6] = ["learner", "evaluator", "sandbox", "generator", "rollout", "source"];
/// What became of a group.
pub const FATES: [&str; 5] = ["consumed", "zero_variance", "stale", "shrunk", "quarantined"];
/// Why sampling stopped.
pub const STOPS: [&str; 4] = ["eos", "max_tokens", "context_full", "deadline"];
/// Why a step was refused.
pub const REFUSALS: [&str; 3] = ["non_finite", "empty", "error"];

/// Upper bounds, in seconds, for every `_seconds` histogram.
pub const SECONDS_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];
/// Upper bounds, in instructions, for `rehearsal_sandbox_fuel`.
pub const FUEL_BUCKETS: [f64; 7] = [1e6, 1e7, 5e7, 1e8, 5e8, 1e9, 5e9];
/// Upper bounds, in versions, for `rehearsal_staleness_versions`.
pub const STALENESS_BUCKETS: [f64; 7] = [0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0];

/// One handle per label value.
#[derive(Clone)]
pub struct ByLabel<H> {
    handles: BTreeMap<&'static str, H>,
}

impl<H> fmt::Debug for ByLabel<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handles.keys()).finish()
    }
}

impl ByLabel<Counter> {
    /// Adds `n` under `label`. A label outside the declared set is a mistake in this crate, and is logged as one.
    pub fn add(&self, label: &str, n: u64) {
        match self.handles.get(label) {
            Some(counter) => counter.increment(n),
            None => tracing::error!(label, "undeclared metric label"),
        }
    }
}

impl ByLabel<Gauge> {
    /// Sets the gauge of `label`.
    pub fn set(&self, label: &str, value: f64) {
        match self.handles.get(label) {
            Some(gauge) => gauge.set(value),
            None => tracing::error!(label, "undeclared metric label"),
        }
    }
}

impl ByLabel<Histogram> {
    /// Records a duration under `label`.
    pub fn record(&self, label: &str, elapsed: Duration) {
        match self.handles.get(label) {
            Some(histogram) => histogram.record(elapsed.as_secs_f64()),
            None => tracing::error!(label, "undeclared metric label"),
        }
    }
}

/// The handles of one engine. Cheap to clone.
pub type Metrics = Arc<MetricHandles>;

/// The handles themselves; each field is one metric, `rehearsal_` and the field's name.
#[allow(missing_docs, reason = "each field's help text is in `register`, once")]
pub struct MetricHandles {
    pub episodes_total: ByLabel<Counter>,
    pub episode_stop_total: ByLabel<Counter>,
    pub episode_seconds: Histogram,
    pub queue_seconds: ByLabel<Histogram>,
    pub stage_seconds: ByLabel<Histogram>,
    pub in_flight: ByLabel<Gauge>,
    pub queue_depth: ByLabel<Gauge>,
    pub group_fill_seconds: Histogram,
    pub groups_total: ByLabel<Counter>,
    pub reward: Gauge,
    pub reward_std: Gauge,
    pub tokens_total: ByLabel<Counter>,
    pub tokens_per_second: ByLabel<Gauge>,
    pub generator_batch_size: ByLabel<Gauge>,
    pub sandbox_run_seconds: Histogram,
    pub sandbox_start_seconds: Histogram,
    pub sandbox_fuel: Histogram,
    pub sandbox_total: ByLabel<Counter>,
    pub sandboxes_live: Gauge,
    pub weights_version: ByLabel<Gauge>,
    pub staleness_versions: Histogram,
    pub logprob_mismatch_max: Gauge,
    pub logprob_mismatch_kl: Gauge,
    pub loss: Gauge,
    pub grad_norm: Gauge,
    pub entropy: Gauge,
    pub clip_fraction: Gauge,
    pub learning_rate: Gauge,
    pub step: Gauge,
    pub step_seconds: Histogram,
    pub step_refused_total: ByLabel<Counter>,
    pub idle_ratio: ByLabel<Gauge>,
    pub actor_restarts_total: ByLabel<Counter>,
    pub actor_up: ByLabel<Gauge>,
    pub build_info: Gauge,
}

impl fmt::Debug for MetricHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricHandles").finish_non_exhaustive()
    }
}

/// Registers with one recorder, under fixed labels of its own.
struct Registrar<'a> {
    recorder: &'a dyn Recorder,
    metadata: Metadata<'a>,
}

impl Registrar<'_> {
    fn key(name: &'static str, labels: &[(&'static str, String)]) -> Key {
        let labels: Vec<Label> = labels.iter().map(|(key, value)| Label::new(*key, value.clone())).collect();
        Key::from_parts(format!("rehearsal_{name}"), labels)
    }

    fn counters(
        &self,
        name: &'static str,
        help: &'static str,
        key: &'static str,
        values: &[&'static str],
    ) -> ByLabel<Counter> {
        self.counters_with(name, help, key, values, &[])
    }

    fn counters_with(
        &self,
        name: &'static str,
        help: &'static str,
        key: &'static str,
        values: &[&'static str],
        fixed: &[(&'static str, String)],
    ) -> ByLabel<Counter> {
        self.recorder.describe_counter(KeyName::from(format!("rehearsal_{name}")), Some(Unit::Count), help.into());
        let register = |value: &&'static str| {
            let labels: Vec<_> = fixed.iter().cloned().chain([(key, (*value).to_owned())]).collect();
            let counter = self.recorder.register_counter(&Self::key(name, &labels), &self.metadata);
            // A series that exists from the start lets `rate()` see the first increment.
            counter.increment(0);
            (*value, counter)
        };
        ByLabel { handles: values.iter().map(register).collect() }
    }

    fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&'static str, String)]) -> Gauge {
        self.recorder.describe_gauge(KeyName::from(format!("rehearsal_{name}")), None, help.into());
        self.recorder.register_gauge(&Self::key(name, labels), &self.metadata)
    }

    fn gauges(
        &self,
        name: &'static str,
        help: &'static str,
        key: &'static str,
        values: &[&'static str],
    ) -> ByLabel<Gauge> {
        ByLabel { handles: values.iter().map(|v| (*v, self.gauge(name, help, &[(key, (*v).to_owned())]))).collect() }
    }

    fn histogram(&self, name: &'static str, help: &'static str, labels: &[(&'static str, String)]) -> Histogram {
        self.recorder.describe_histogram(KeyName::from(format!("rehearsal_{name}")), None, help.into());
        self.recorder.register_histogram(&Self::key(name, labels), &self.metadata)
    }

    fn histograms(
        &self,
        name: &'static str,
        help: &'static str,
        key: &'static str,
        values: &[&'static str],
    ) -> ByLabel<Histogram> {
        ByLabel {
            handles: values.iter().map(|v| (*v, self.histogram(name, help, &[(key, (*v).to_owned())]))).collect(),
        }
    }
}

impl MetricHandles {
    /// Registers every metric with `recorder`. `image` labels the sandbox metrics, `device` the build's.
    pub fn register(recorder: &dyn Recorder, image: &str, device: &str) -> Metrics {
        let r = Registrar { recorder, metadata: Metadata::new("rehearsal", Level::INFO, None) };
        let image = [("image", image.to_owned())];
        let ends = End::ALL.map(End::label);
        let handles = Self {
            episodes_total: r.counters("episodes_total", "Finished episodes by outcome.", "outcome", &Outcome::LABELS),
            episode_stop_total: r.counters("episode_stop_total", "Why sampling stopped.", "reason", &STOPS),
            episode_seconds: r.histogram("episode_seconds", "From admission to reward.", &[]),
            queue_seconds: r.histograms("queue_seconds", "Waiting before a stage.", "stage", &STAGES),
            stage_seconds: r.histograms("stage_seconds", "Time in a stage.", "stage", &STAGES),
            in_flight: r.gauges("in_flight", "Requests inside a stage.", "stage", &STAGES),
            queue_depth: r.gauges("queue_depth", "Requests waiting before a stage.", "stage", &STAGES),
            group_fill_seconds: r.histogram("group_fill_seconds", "First to last episode of a group.", &[]),
            groups_total: r.counters("groups_total", "What became of groups.", "fate", &FATES),
            reward: r.gauge("reward", "Mean reward of the last step.", &[]),
            reward_std: r.gauge("reward_std", "Standard deviation of the last step's rewards.", &[]),
            tokens_total: r.counters(
                "tokens_total",
                "Tokens by kind.",
                "kind",
                &["prompt", "cached_prompt", "completion", "environment", "trained"],
            ),
            tokens_per_second: r.gauges("tokens_per_second", "Throughput by role.", "role", &["generator", "learner"]),
            generator_batch_size: r.gauges(
                "generator_batch_size",
                "Requests in the generator.",
                "state",
                &["running", "waiting"],
            ),
            sandbox_run_seconds: r.histogram("sandbox_run_seconds", "Wall time in a sandbox.", &image),
            sandbox_fuel: r.histogram("sandbox_fuel", "Instructions used.", &image),
            sandbox_start_seconds: r.histogram(
                "sandbox_start_seconds",
                "Wall time until a program could start.",
                &image,
            ),
            sandbox_total: r.counters_with("sandbox_total", "Sandbox runs by how they ended.", "end", &ends, &image),
            sandboxes_live: r.gauge("sandboxes_live", "Sandboxes running now.", &image),
            weights_version: r.gauges("weights_version", "Weights version held.", "role", &["learner", "generator"]),
            staleness_versions: r.histogram("staleness_versions", "Age of tokens at consumption, in versions.", &[]),
            logprob_mismatch_max: r.gauge(
                "logprob_mismatch_max",
                "Largest log-prob difference, learner against generator.",
                &[],
            ),
            logprob_mismatch_kl: r.gauge(
                "logprob_mismatch_kl",
                "Divergence of learner and generator on the same tokens (k3).",
                &[],
            ),
            loss: r.gauge("loss", "Objective of the last step.", &[]),
            grad_norm: r.gauge("grad_norm", "Gradient norm before clipping.", &[]),
            entropy: r.gauge("entropy", "Mean entropy of the policy, nats.", &[]),
            clip_fraction: r.gauge("clip_fraction", "Share of tokens with a clipped ratio.", &[]),
            learning_rate: r.gauge("learning_rate", "Learning rate of the last step.", &[]),
            step: r.gauge("step", "Steps taken.", &[]),
            step_seconds: r.histogram(
                "step_seconds",
                "From the first rollout asked for to the weights published.",
                &[],
            ),
            step_refused_total: r.counters("step_refused_total", "Steps refused.", "reason", &REFUSALS),
            idle_ratio: r.gauges(
                "idle_ratio",
                "Share of the last step spent waiting.",
                "role",
                &["generator", "learner"],
            ),
            actor_restarts_total: r.counters("actor_restarts_total", "Restarts by role.", "role", &ROLES),
            actor_up: r.gauges("actor_up", "1 while the actor runs.", "role", &ROLES),
            build_info: r.gauge(
                "build_info",
                "1; version and device as labels.",
                &[("version", env!("CARGO_PKG_VERSION").to_owned()), ("device", device.to_owned())],
            ),
        };
        handles.build_info.set(1.0);
        Arc::new(handles)
    }

    /// Handles that lead nowhere.
    pub fn disabled() -> Metrics {
        Self::register(&metrics::NoopRecorder, "none", "none")
    }
}
