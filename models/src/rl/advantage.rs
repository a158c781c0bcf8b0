//! From the rewards of a group to the advantage of each episode.
//!
//! Formulas and sources are at [`Advantage`]'s variants. Only episodes that may become a reward belong in the slice: the
//! caller takes the others out before mean and standard deviation are formed.

use super::{Advantage, StdKind};

/// Why a group has no advantages.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AdvantageError {
    /// A reward is NaN or infinite: a fault upstream, never a number to train on.
    #[error("reward {index} of the group is {value}: a reward must be a finite number")]
    NonFinite {
        /// Position in the group.
        index: usize,
        /// The reward.
        value: f64,
    },
    /// Finite rewards so large that the formula leaves the range of `f64`.
    #[error("the rewards of the group are too large to compare: scale them down")]
    Overflow,
    /// The formula is undefined for so few episodes.
    #[error("a group of {size} is too small for this advantage: it needs at least {least}")]
    GroupTooSmall {
        /// Episodes in the group.
        size: usize,
        /// Episodes needed.
        least: usize,
    },
}

impl Advantage {
    /// Episodes a group needs for the formula to be defined.
    pub fn min_group_size(&self) -> usize {
        match self {
            Self::Grpo { .. } | Self::DrGrpo {} => 1,
            Self::Rloo {} => 2,
        }
    }

    /// The advantages of one group, in the order of its `rewards`; an empty group has none.
    ///
    /// # Errors
    /// A reward that is not finite, and a group smaller than [`min_group_size`](Self::min_group_size).
    pub fn of_group(&self, rewards: &[f64]) -> Result<Vec<f64>, AdvantageError> {
        if let Some((index, &value)) = rewards.iter().enumerate().find(|(_, reward)| !reward.is_finite()) {
            return Err(AdvantageError::NonFinite { index, value });
        }
        let (size, least) = (rewards.len(), self.min_group_size());
        if size > 0 && size < least {
            return Err(AdvantageError::GroupTooSmall { size, least });
        }
        // Said outright, because the rounded mean of equal numbers need not be that number.
        if rewards.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(vec![0.0; size]);
        }
        let advantages = match self {
            Self::Grpo { std, epsilon } => grpo(rewards, *std, *epsilon),
            Self::DrGrpo {} => deviations(rewards),
            Self::Rloo {} => rloo(rewards),
        };
        let finite = advantages.iter().all(|advantage| advantage.is_finite());
        if finite { Ok(advantages) } else { Err(AdvantageError::Overflow) }
    }
}

/// R − mean.
fn deviations(rewards: &[f64]) -> Vec<f64> {
    let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
    rewards.iter().map(|reward| reward - mean).collect()
}

/// (R − mean) / (std + ε).
fn grpo(rewards: &[f64], kind: StdKind, epsilon: f64) -> Vec<f64> {
    let deviations = deviations(rewards);
    let divisor = standard_deviation(&deviations, kind) + epsilon;
    deviations.iter().map(|deviation| deviation / divisor).collect()
}

/// G/(G−1) · (R − mean).
fn rloo(rewards: &[f64]) -> Vec<f64> {
    let size = rewards.len() as f64;
    deviations(rewards).iter().map(|deviation| deviation * size / (size - 1.0)).collect()
}

/// The two-pass standard deviation of at least two numbers, from their deviations: E[x²] − mean² would cancel.
fn standard_deviation(deviations: &[f64], kind: StdKind) -> f64 {
    // Squares of the scaled numbers neither underflow nor overflow, so different rewards never divide by 0.
    let scale = deviations.iter().fold(0.0_f64, |largest, deviation| largest.max(deviation.abs()));
    let squares: f64 = deviations.iter().map(|deviation| (deviation / scale).powi(2)).sum();
    let count = match kind {
        StdKind::Sample => deviations.len() - 1,
        StdKind::Population => deviations.len(),
    };
    scale * (squares / count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GRPO: Advantage = Advantage::Grpo { std: StdKind::Sample, epsilon: 1e-6 };
    const GRPO_POPULATION: Advantage = Advantage::Grpo { std: StdKind::Population, epsilon: 1e-6 };
    const ALL: [Advantage; 4] = [GRPO, GRPO_POPULATION, Advantage::DrGrpo {}, Advantage::Rloo {}];

    #[test]
    fn equal_rewards_give_exactly_zero() {
        for advantage in ALL {
            // 0.95 and 0.1 are where E[x²] − mean² goes wrong.
            for reward in [0.95, 0.1, 0.0, -3.7, 1e300] {
                for size in [2, 3, 7, 8] {
                    assert_eq!(advantage.of_group(&vec![reward; size]), Ok(vec![0.0; size]), "{advantage:?} {reward}");
                }
            }
        }
        let no_epsilon = Advantage::Grpo { std: StdKind::Sample, epsilon: 0.0 };
        assert_eq!(no_epsilon.of_group(&[0.95; 8]), Ok(vec![0.0; 8]));
    }

    #[test]
    fn tiny_differences_do_not_divide_by_zero() {
        let no_epsilon = Advantage::Grpo { std: StdKind::Population, epsilon: 0.0 };
        let advantages = no_epsilon.of_group(&[1e-200, 3e-200]).unwrap();
        assert!((advantages[0] + 1.0).abs() < 1e-12 && (advantages[1] - 1.0).abs() < 1e-12, "{advantages:?}");
    }

    #[test]
    fn small_groups() {
        for advantage in ALL {
            assert_eq!(advantage.of_group(&[]), Ok(vec![]));
        }
        assert_eq!(GRPO.of_group(&[0.7]), Ok(vec![0.0]));
        assert_eq!(Advantage::DrGrpo {}.of_group(&[0.7]), Ok(vec![0.0]));
        assert_eq!(Advantage::Rloo {}.of_group(&[0.7]), Err(AdvantageError::GroupTooSmall { size: 1, least: 2 }));
    }

    #[test]
    fn rewards_that_are_no_numbers_are_errors() {
        for advantage in ALL {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let refused = advantage.of_group(&[1.0, bad, 0.0]);
                assert!(matches!(refused, Err(AdvantageError::NonFinite { index: 1, .. })), "{refused:?}");
            }
            assert_eq!(advantage.of_group(&[f64::MAX, f64::MAX, 0.0]), Err(AdvantageError::Overflow));
        }
    }

    fn close(left: &[f64], right: &[f64], tolerance: f64) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(a, b)| (a - b).abs() <= tolerance)
    }

    fn group() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-2.0..2.0, 2..16)
    }

    proptest! {
        #[test]
        fn permuting_a_group_permutes_its_advantages(rewards in group(), turn in 0_usize..16) {
            let turn = turn % rewards.len();
            let mut rotated = rewards.clone();
            rotated.rotate_left(turn);
            for advantage in ALL {
                let mut expected = advantage.of_group(&rewards).unwrap();
                expected.rotate_left(turn);
                prop_assert!(close(&advantage.of_group(&rotated).unwrap(), &expected, 1e-9));
            }
        }

        #[test]
        fn a_constant_added_to_the_rewards_changes_nothing(rewards in group(), shift in -10.0..10.0) {
            let shifted: Vec<f64> = rewards.iter().map(|reward| reward + shift).collect();
            for advantage in ALL {
                let (plain, moved) = (advantage.of_group(&rewards).unwrap(), advantage.of_group(&shifted).unwrap());
                prop_assert!(close(&plain, &moved, 1e-6), "{plain:?} {moved:?}");
            }
        }

        #[test]
        fn scaling_the_rewards_leaves_grpo_unchanged_without_epsilon(rewards in group(), scale in 0.01..100.0) {
            let scaled: Vec<f64> = rewards.iter().map(|reward| reward * scale).collect();
            for std in [StdKind::Sample, StdKind::Population] {
                let advantage = Advantage::Grpo { std, epsilon: 0.0 };
                let (plain, grown) = (advantage.of_group(&rewards).unwrap(), advantage.of_group(&scaled).unwrap());
                prop_assert!(close(&plain, &grown, 1e-9));
            }
        }

        #[test]
        fn advantages_of_a_group_sum_to_zero(rewards in group()) {
            for advantage in ALL {
                let sum: f64 = advantage.of_group(&rewards).unwrap().iter().sum();
                prop_assert!(sum.abs() < 1e-9, "{advantage:?}: {sum}");
            }
        }
    }
}
