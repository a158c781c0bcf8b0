//! Reinforcement-learning maths: advantages (plain `f64`) and policy losses.

use serde::{Deserialize, Serialize};

/// The objective of a step, each part named (see `ALGORITHMS` in the documentation).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// How rewards become advantages.
    pub advantage: Advantage,
    /// Lower clip bound ε_low of the ratio.
    pub clip_low: f64,
    /// Upper clip bound ε_high of the ratio.
    pub clip_high: f64,
    /// How token losses become one number.
    pub aggregation: Aggregation,
}

/// How the rewards of a group become advantages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Advantage {
    /// (R − mean) / (std + ε). GRPO, arXiv 2402.03300.
    Grpo {
        /// Which standard deviation.
        std: StdKind,
        /// ε.
        epsilon: f64,
    },
    /// R − mean. Dr. GRPO, arXiv 2503.20783.
    DrGrpo,
    /// G/(G−1) · (R − mean). RLOO, arXiv 2402.14740.
    Rloo,
}

/// Which standard deviation GRPO divides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdKind {
    /// Divides by G − 1.
    Sample,
    /// Divides by G.
    Population,
}

/// How token losses become one number, over the whole step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Σmℓ / Σm.
    TokenMean,
    /// (1/N) Σ_i Σ_t mℓ.
    SeqMeanTokenSum,
    /// (1/N) Σ_i (Σ_t mℓ / Σ_t m).
    SeqMeanTokenMean,
    /// (1/N) Σ_i Σ_t mℓ / L, for the constant L given.
    SeqMeanTokenSumNorm(f64),
}
