//! Reinforcement-learning maths: advantages and policy losses in plain `f64`, with closed-form gradients.
//!
//! Nothing here touches a tensor. A learner computes log-probabilities on its device, hands them to [`loss`] as numbers,
//! and sends the gradient with respect to each log-probability back: what is tested against the published vectors is
//! what trains.
//!
//! "GRPO" differs between systems, so every part of an objective is named in the recipe and nothing is implied.
//!
//! Reading order: [`advantage`] (rewards → A) → [`aggregation`] (token losses → one number) → [`loss`] (A, logπ → ℓ, ∂ℓ).

pub mod advantage;
pub mod aggregation;
pub mod loss;

use serde::{Deserialize, Serialize};

pub use advantage::AdvantageError;

/// The objective of a step, each part named.
///
/// The loss of a token is −min(r·A, clip(r, 1 − ε_low, 1 + ε_high)·A) with r = exp(logπ_new − logπ_old)
/// (PPO, arXiv 1707.06347; the asymmetric bounds are DAPO's clip-higher, arXiv 2503.14476).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// How rewards become advantages.
    pub advantage: Advantage,
    /// Lower clip bound ε_low of the ratio, in (0, 1]; usual: 0.2.
    pub clip_low: f64,
    /// Upper clip bound ε_high of the ratio, above 0; usual: 0.2 (PPO) or 0.28 (DAPO).
    pub clip_high: f64,
    /// How token losses become one number.
    pub aggregation: Aggregation,
}

/// How the rewards of a group become advantages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Advantage {
    /// (R − mean) / (std + ε). GRPO, arXiv 2402.03300. Rewards that are all equal, and a group of one, give exactly 0.
    Grpo {
        /// Which standard deviation.
        std: StdKind,
        /// ε, at least 0; usual: 1e-6.
        epsilon: f64,
    },
    /// R − mean. Dr. GRPO, arXiv 2503.20783.
    DrGrpo {},
    /// G/(G−1) · (R − mean): the mean of the *other* rewards as baseline. RLOO, arXiv 2402.14740. Refuses a group of one.
    Rloo {},
}

/// Which standard deviation GRPO divides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdKind {
    /// Divides the sum of squares by G − 1 (the paper's code, TRL).
    Sample,
    /// Divides the sum of squares by G.
    Population,
}

/// How token losses become one number, over the whole step (m: loss mask, ℓ: token loss, N: sequences of the step).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Σmℓ / Σm: every token counts alike (DAPO).
    TokenMean,
    /// (1/N) Σ_i Σ_t mℓ.
    SeqMeanTokenSum,
    /// (1/N) Σ_i (Σ_t mℓ / Σ_t m): every sequence counts alike (GRPO); an all-masked sequence gives 0 and counts in N.
    SeqMeanTokenMean,
    /// (1/N) Σ_i Σ_t mℓ / L, for the constant L given, in tokens (Dr. GRPO).
    SeqMeanTokenSumNorm(f64),
}

/// A value of an [`Objective`] that cannot be meant.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("objective key `{key}` is {value}: {expected}")]
pub struct ObjectiveError {
    /// The key, as the recipe spells it.
    pub key: &'static str,
    /// What it holds.
    pub value: f64,
    /// What it may hold.
    pub expected: &'static str,
}

impl Objective {
    /// Checks every number, and that `group_size` episodes suffice for the advantage.
    ///
    /// # Errors
    /// Names the first key whose value cannot be meant.
    pub fn validate(&self, group_size: usize) -> Result<(), ObjectiveError> {
        let check = |valid: bool, key, value, expected| {
            if valid { Ok(()) } else { Err(ObjectiveError { key, value, expected }) }
        };
        check(self.clip_low > 0.0 && self.clip_low <= 1.0, "clip_low", self.clip_low, "write a number in (0, 1]")?;
        let high = self.clip_high;
        check(high > 0.0 && high.is_finite(), "clip_high", high, "write a number above 0")?;
        if let Advantage::Grpo { epsilon, .. } = self.advantage {
            let valid = epsilon >= 0.0 && epsilon.is_finite();
            check(valid, "advantage.epsilon", epsilon, "write a number of at least 0")?;
        }
        if let Aggregation::SeqMeanTokenSumNorm(length) = self.aggregation {
            let valid = length > 0.0 && length.is_finite();
            check(valid, "aggregation.seq_mean_token_sum_norm", length, "write a length in tokens above 0")?;
        }
        let least = self.advantage.min_group_size();
        let expected = "this advantage compares the episodes of a group, so raise the group size to 2 or more";
        check(group_size >= least, "group_size", group_size as f64, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objective() -> Objective {
        Objective {
            advantage: Advantage::Grpo { std: StdKind::Sample, epsilon: 1e-6 },
            clip_low: 0.2,
            clip_high: 0.28,
            aggregation: Aggregation::TokenMean,
        }
    }

    #[test]
    fn numbers_that_cannot_be_meant_are_refused_by_key() {
        assert_eq!(objective().validate(8), Ok(()));
        assert_eq!(objective().validate(1), Ok(()), "a group of one has advantage 0");
        let refused = |change: fn(&mut Objective), size| {
            let mut changed = objective();
            change(&mut changed);
            changed.validate(size).unwrap_err().key
        };
        assert_eq!(refused(|o| o.clip_low = 0.0, 8), "clip_low");
        assert_eq!(refused(|o| o.clip_low = f64::NAN, 8), "clip_low");
        assert_eq!(refused(|o| o.clip_high = f64::INFINITY, 8), "clip_high");
        assert_eq!(
            refused(|o| o.aggregation = Aggregation::SeqMeanTokenSumNorm(0.0), 8),
            "aggregation.seq_mean_token_sum_norm"
        );
        assert_eq!(
            refused(|o| o.advantage = Advantage::Grpo { std: StdKind::Sample, epsilon: -1.0 }, 8),
            "advantage.epsilon"
        );
        assert_eq!(refused(|o| o.advantage = Advantage::Rloo {}, 1), "group_size");
    }

    #[test]
    fn unknown_keys_are_refused_in_every_variant() {
        let parse = |text: &str| serde_json::from_str::<Advantage>(text);
        assert_eq!(parse(r#"{"kind": "dr_grpo"}"#).unwrap(), Advantage::DrGrpo {});
        assert!(parse(r#"{"kind": "dr_grpo", "epsilon": 1e-6}"#).is_err());
        assert!(parse(r#"{"kind": "rloo", "baseline": "mean"}"#).is_err());
        assert!(parse(r#"{"kind": "grpo", "std": "sample", "epsilon": 1e-6, "eps": 1}"#).is_err());
        assert!(parse(r#"{"kind": "grpo", "std": "sample"}"#).is_err(), "nothing is implied");
    }
}
