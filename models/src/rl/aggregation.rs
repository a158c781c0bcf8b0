//! From token losses to one number.
//!
//! Every aggregation is linear in the token losses, so it is a weight per sequence: loss = Σ_i w_i Σ_t m_{i,t} ℓ_{i,t}.
//! The weights depend on the whole step's masks only, which is why any split into micro-batches gives the same gradient.

use super::Aggregation;

impl Aggregation {
    /// w_i for the sequences of a whole step, given how many trained tokens (Σ_t m) each has.
    ///
    /// A sequence without a trained token gets weight 0 and still counts among the N of a sequence mean.
    pub fn sequence_weights(&self, trained_tokens: &[usize]) -> Vec<f64> {
        let sequences = trained_tokens.len() as f64;
        let all: usize = trained_tokens.iter().sum();
        let weight = |trained: usize| match self {
            _ if trained == 0 => 0.0,
            Self::TokenMean => 1.0 / all as f64,
            Self::SeqMeanTokenSum => 1.0 / sequences,
            Self::SeqMeanTokenMean => 1.0 / (sequences * trained as f64),
            Self::SeqMeanTokenSumNorm(length) => 1.0 / (sequences * length),
        };
        trained_tokens.iter().map(|&trained| weight(trained)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_the_definitions() {
        let trained = [3, 1, 0, 4];
        let weights = |aggregation: Aggregation| aggregation.sequence_weights(&trained);
        assert_eq!(weights(Aggregation::TokenMean), [0.125, 0.125, 0.0, 0.125]);
        assert_eq!(weights(Aggregation::SeqMeanTokenSum), [0.25, 0.25, 0.0, 0.25]);
        assert_eq!(weights(Aggregation::SeqMeanTokenSumNorm(2.0)), [0.125, 0.125, 0.0, 0.125]);
        assert_eq!(weights(Aggregation::SeqMeanTokenMean), [1.0 / 12.0, 0.25, 0.0, 0.0625]);
    }

    #[test]
    fn nothing_to_train_is_a_state() {
        assert_eq!(Aggregation::TokenMean.sequence_weights(&[0, 0]), [0.0, 0.0]);
        assert!(Aggregation::TokenMean.sequence_weights(&[]).is_empty());
    }

    #[test]
    fn aggregations_can_disagree_in_sign() {
        // One long good sequence against two short bad ones.
        let (trained, sums) = ([10, 1, 1], [-1.0, 0.3, 0.3]);
        let loss = |aggregation: Aggregation| -> f64 {
            aggregation.sequence_weights(&trained).iter().zip(sums).map(|(weight, sum)| weight * sum).sum()
        };
        assert!(loss(Aggregation::TokenMean) < 0.0);
        assert!(loss(Aggregation::SeqMeanTokenMean) > 0.0);
    }
}
