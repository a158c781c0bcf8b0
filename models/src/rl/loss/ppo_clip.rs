//! −min(r·A, clip(r, 1 − ε_low, 1 + ε_high)·A), r = exp(logπ_new − logπ_old). PPO, arXiv 1707.06347.

use super::TokenLoss;

/// The loss of one token.
///
/// The gradient is −r·A (dr/dlogπ_new = r), except where the minimum takes the clipped, constant branch: r above the upper
/// bound for A > 0, r below the lower bound for A < 0. On the bounds themselves it flows.
pub(super) fn token_loss(log_ratio: f64, advantage: f64, clip_low: f64, clip_high: f64) -> TokenLoss {
    let ratio = log_ratio.exp();
    let (low, high) = (1.0 - clip_low, 1.0 + clip_high);
    let clipped = (advantage > 0.0 && ratio > high) || (advantage < 0.0 && ratio < low);
    if clipped {
        return TokenLoss { value: -advantage * ratio.clamp(low, high), gradient: 0.0, clipped };
    }
    TokenLoss { value: -advantage * ratio, gradient: -advantage * ratio, clipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pessimistic_side_is_clipped() {
        let loss = |ratio: f64, advantage| token_loss(ratio.ln(), advantage, 0.2, 0.28);
        for (ratio, advantage, value, clipped) in [
            (1.5, 1.0, -1.28, true),
            (1.5, -1.0, 1.5, false),
            (0.5, 1.0, -0.5, false),
            (0.5, -1.0, 0.8, true),
            (1.1, 2.0, -2.2, false),
            (1.5, 0.0, 0.0, false),
        ] {
            let token = loss(ratio, advantage);
            assert!((token.value - value).abs() < 1e-12, "{ratio} {advantage}: {token:?}");
            assert_eq!(token.clipped, clipped, "{ratio} {advantage}");
            let gradient = if clipped { 0.0 } else { value };
            assert!((token.gradient - gradient).abs() < 1e-12, "{ratio} {advantage}: {token:?}");
        }
    }

    #[test]
    fn an_overflowing_ratio_is_bounded_for_a_positive_advantage_and_infinite_for_a_negative_one() {
        assert_eq!(token_loss(1e4, 1.0, 0.2, 0.28).value, -1.28);
        assert!(token_loss(1e4, -1.0, 0.2, 0.28).value.is_infinite(), "the step is then refused");
    }
}
