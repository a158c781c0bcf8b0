//! Policy losses: value and closed-form gradient with respect to the new log-probabilities.
//!
//! One file per loss. A loss maps one token's numbers to a [`TokenLoss`]; [`evaluate`] puts the tokens of a step together.

mod ppo_clip;

use super::Objective;

/// What one token adds to the loss, before its aggregation weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLoss {
    /// ℓ.
    pub value: f64,
    /// ∂ℓ/∂logπ_new.
    pub gradient: f64,
    /// The clip bound was active, so the gradient is 0.
    pub clipped: bool,
}

impl Objective {
    /// The loss of one trained token, from logπ_new, logπ_old and its advantage.
    ///
    /// `old_logprob: None` means logπ_new with a stopped gradient: the ratio is exactly 1 and its gradient flows.
    pub fn token_loss(&self, new_logprob: f64, old_logprob: Option<f64>, advantage: f64) -> TokenLoss {
        let log_ratio = old_logprob.map_or(0.0, |old| new_logprob - old);
        ppo_clip::token_loss(log_ratio, advantage, self.clip_low, self.clip_high)
    }
}

/// One sequence's numbers, each slice as long as its completion.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// logπ_new; values under mask `false` are never read.
    pub new_logprobs: &'a [f64],
    /// logπ_old; `None` for an on-policy step.
    pub old_logprobs: Option<&'a [f64]>,
    /// Does the token take part in the loss?
    pub loss_mask: &'a [bool],
    /// The advantage of every token of the sequence.
    pub advantage: f64,
}

/// The loss of a whole step.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The aggregated value; 0 when no token is trained.
    pub value: f64,
    /// ∂value/∂logπ_new per sequence and token; 0 under mask `false`.
    pub gradient: Vec<Vec<f64>>,
    /// Tokens whose ratio was clipped.
    pub clipped_tokens: usize,
    /// Tokens in the loss.
    pub trained_tokens: usize,
}

/// Evaluates `objective` over the sequences of a step whose log-probabilities are all known.
///
/// # Errors
/// Slices whose lengths disagree: the position of the sequence.
pub fn evaluate(objective: &Objective, sequences: &[Sequence<'_>]) -> Result<Loss, LengthMismatch> {
    if let Some(sequence) = sequences.iter().position(|sequence| !sequence.lengths_agree()) {
        return Err(LengthMismatch { sequence });
    }
    let trained: Vec<usize> =
        sequences.iter().map(|sequence| sequence.loss_mask.iter().filter(|&&trained| trained).count()).collect();
    let weights = objective.aggregation.sequence_weights(&trained);
    let mut loss = Loss { value: 0.0, gradient: Vec::new(), clipped_tokens: 0, trained_tokens: trained.iter().sum() };
    for (sequence, weight) in sequences.iter().zip(weights) {
        let mut gradient = vec![0.0; sequence.loss_mask.len()];
        for (position, _) in sequence.loss_mask.iter().enumerate().filter(|&(_, &trained)| trained) {
            let old = sequence.old_logprobs.map(|old| old[position]);
            let token = objective.token_loss(sequence.new_logprobs[position], old, sequence.advantage);
            loss.value += weight * token.value;
            loss.clipped_tokens += usize::from(token.clipped);
            gradient[position] = weight * token.gradient;
        }
        loss.gradient.push(gradient);
    }
    Ok(loss)
}

/// A sequence whose slices have different lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sequence {sequence}: log-probabilities and loss mask differ in length")]
pub struct LengthMismatch {
    /// Its position.
    pub sequence: usize,
}

impl Sequence<'_> {
    fn lengths_agree(&self) -> bool {
        let length = self.loss_mask.len();
        self.new_logprobs.len() == length && self.old_logprobs.is_none_or(|old| old.len() == length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rl::{Advantage, Aggregation};

    const AGGREGATIONS: [Aggregation; 4] = [
        Aggregation::TokenMean,
        Aggregation::SeqMeanTokenSum,
        Aggregation::SeqMeanTokenMean,
        Aggregation::SeqMeanTokenSumNorm(7.0),
    ];

    fn objective(aggregation: Aggregation) -> Objective {
        Objective { advantage: Advantage::DrGrpo {}, clip_low: 0.2, clip_high: 0.28, aggregation }
    }

    #[derive(Debug, Clone)]
    struct Owned {
        new: Vec<f64>,
        old: Vec<f64>,
        mask: Vec<bool>,
        advantage: f64,
    }

    impl Owned {
        fn sequence(&self, on_policy: bool) -> Sequence<'_> {
            Sequence {
                new_logprobs: &self.new,
                old_logprobs: (!on_policy).then_some(&self.old),
                loss_mask: &self.mask,
                advantage: self.advantage,
            }
        }
    }

    fn batch() -> impl Strategy<Value = Vec<Owned>> {
        let token = (-4.0..0.0, -0.6..0.6, any::<bool>());
        let sequence = (prop::collection::vec(token, 1..9), -2.0..2.0).prop_map(|(tokens, advantage)| Owned {
            new: tokens.iter().map(|token| token.0).collect(),
            old: tokens.iter().map(|token| token.0 - token.1).collect(),
            mask: tokens.iter().map(|token| token.2).collect(),
            advantage,
        });
        prop::collection::vec(sequence, 1..6)
    }

    fn run(objective: &Objective, batch: &[Owned], on_policy: bool) -> Loss {
        let sequences: Vec<_> = batch.iter().map(|owned| owned.sequence(on_policy)).collect();
        evaluate(objective, &sequences).unwrap()
    }

    #[test]
    fn lengths_must_agree() {
        let sequence = Sequence { new_logprobs: &[-1.0], old_logprobs: None, loss_mask: &[true, true], advantage: 1.0 };
        let refused = evaluate(&objective(Aggregation::TokenMean), &[sequence]);
        assert_eq!(refused, Err(LengthMismatch { sequence: 0 }));
    }

    #[test]
    fn a_step_without_sequences_is_a_state() {
        let loss = evaluate(&objective(Aggregation::SeqMeanTokenMean), &[]).unwrap();
        assert_eq!((loss.value, loss.trained_tokens), (0.0, 0));
    }

    proptest! {
        #[test]
        fn the_gradient_is_the_slope_of_the_value(batch in batch(), on in 0_usize..64) {
            for aggregation in AGGREGATIONS {
                let objective = objective(aggregation);
                let row = on % batch.len();
                let column = on % batch[row].new.len();
                let gradient = run(&objective, &batch, false).gradient[row][column];
                let at = |step: f64| {
                    let mut moved = batch.clone();
                    moved[row].new[column] += step;
                    run(&objective, &moved, false).value
                };
                let (left, right) = ((at(0.0) - at(-1e-6)) / 1e-6, (at(1e-6) - at(0.0)) / 1e-6);
                // At a clip bound the slopes of the two sides differ and the gradient is one of them.
                let error = (left - gradient).abs().min((right - gradient).abs());
                prop_assert!(error < 1e-5, "{gradient} is neither {left} nor {right}");
            }
        }

        #[test]
        fn on_policy_the_gradient_is_that_of_reinforce(batch in batch()) {
            for aggregation in AGGREGATIONS {
                let objective = objective(aggregation);
                let loss = run(&objective, &batch, true);
                let same = {
                    let mut batch = batch.clone();
                    batch.iter_mut().for_each(|owned| owned.old.clone_from(&owned.new));
                    run(&objective, &batch, false)
                };
                prop_assert_eq!(&loss, &same);
                prop_assert_eq!(loss.clipped_tokens, 0);
                let trained: Vec<_> = batch.iter().map(|owned| owned.mask.iter().filter(|&&m| m).count()).collect();
                let weights = objective.aggregation.sequence_weights(&trained);
                for ((owned, gradient), weight) in batch.iter().zip(&loss.gradient).zip(weights) {
                    for (&trained, &gradient) in owned.mask.iter().zip(gradient) {
                        let expected = if trained { -weight * owned.advantage } else { 0.0 };
                        prop_assert!((gradient - expected).abs() < 1e-12);
                    }
                }
            }
        }

        #[test]
        fn nan_under_mask_moves_nothing(batch in batch()) {
            for aggregation in AGGREGATIONS {
                let objective = objective(aggregation);
                let mut poisoned = batch.clone();
                for owned in &mut poisoned {
                    for position in 0..owned.mask.len() {
                        if !owned.mask[position] {
                            owned.new[position] = f64::NAN;
                            owned.old[position] = f64::INFINITY;
                        }
                    }
                }
                prop_assert_eq!(run(&objective, &batch, false), run(&objective, &poisoned, false));
            }
        }

        #[test]
        fn padding_changes_nothing(batch in batch(), padding in 1_usize..5) {
            for aggregation in AGGREGATIONS {
                let objective = objective(aggregation);
                let mut padded = batch.clone();
                for owned in &mut padded {
                    let length = owned.mask.len() + padding;
                    owned.new.resize(length, 0.0);
                    owned.old.resize(length, 0.0);
                    owned.mask.resize(length, false);
                }
                let (plain, mut long) = (run(&objective, &batch, false), run(&objective, &padded, false));
                for (row, owned) in long.gradient.iter_mut().zip(&batch) {
                    row.truncate(owned.mask.len());
                }
                prop_assert_eq!(plain, long);
            }
        }

        #[test]
        fn the_order_of_sequences_does_not_matter(batch in batch(), turn in 0_usize..6) {
            let turn = turn % batch.len();
            let mut rotated = batch.clone();
            rotated.rotate_left(turn);
            for aggregation in AGGREGATIONS {
                let objective = objective(aggregation);
                let (plain, moved) = (run(&objective, &batch, false), run(&objective, &rotated, false));
                prop_assert!((plain.value - moved.value).abs() < 1e-12);
                let mut expected = plain.gradient;
                expected.rotate_left(turn);
                prop_assert_eq!(expected, moved.gradient);
            }
        }
    }
}
