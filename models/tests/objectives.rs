//! Advantages and losses against published vectors (float64, from an autograd implementation).

#![allow(clippy::unwrap_used, reason = "tests")]

use rehearsal_models::rl::loss::{Sequence, evaluate};
use rehearsal_models::rl::{Advantage, Aggregation, Objective, StdKind};
use serde::Deserialize;
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Vectors {
    rewards: Vec<Vec<f64>>,
    mask: Vec<Vec<f64>>,
    logprob_new: Vec<Vec<f64>>,
    logprob_old: Vec<Vec<f64>>,
    advantages: Value,
    losses: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    loss: String,
    params: Value,
    aggregation: String,
    length_norm: f64,
    correction: Value,
    kl: Option<Value>,
    value: f64,
    grad: Vec<Vec<f64>>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../tests/reference/objectives.json")).unwrap()
}

fn assert_close(actual: f64, expected: f64, what: &str) {
    assert!((actual - expected).abs() <= TOLERANCE, "{what}: {actual} instead of {expected}");
}

#[test]
fn advantages_match() {
    let vectors = vectors();
    for (name, advantage) in [
        ("grpo_sample_std", Advantage::Grpo { std: StdKind::Sample, epsilon: 1e-6 }),
        ("grpo_population_std", Advantage::Grpo { std: StdKind::Population, epsilon: 1e-6 }),
        ("dr_grpo", Advantage::DrGrpo {}),
        ("rloo", Advantage::Rloo {}),
    ] {
        let expected: Vec<Vec<f64>> = serde_json::from_value(vectors.advantages[name].clone()).unwrap();
        for (rewards, expected) in vectors.rewards.iter().zip(&expected) {
            let actual = advantage.of_group(rewards).unwrap();
            assert_eq!(actual.len(), expected.len());
            for (actual, expected) in actual.iter().zip(expected) {
                assert_close(*actual, *expected, name);
            }
        }
    }
}

fn aggregation(case: &Case) -> Aggregation {
    match case.aggregation.as_str() {
        "token_mean" => Aggregation::TokenMean,
        "seq_mean_token_sum" => Aggregation::SeqMeanTokenSum,
        "seq_mean_token_mean" => Aggregation::SeqMeanTokenMean,
        "seq_mean_token_sum_norm" => Aggregation::SeqMeanTokenSumNorm(case.length_norm),
        unknown => panic!("unknown aggregation {unknown}"),
    }
}

/// The cases of the objectives that exist: clipped PPO without dual clip, correction and KL term.
fn is_covered(case: &Case) -> bool {
    case.loss == "ppo_clip"
        && case.params.get("dual_clip").is_none()
        && case.correction["kind"] == "none"
        && case.kl.is_none()
}

#[test]
fn values_and_gradients_match() {
    let vectors = vectors();
    // The file's losses use the advantages of GRPO with the sample standard deviation, one per sequence.
    let advantage = Advantage::Grpo { std: StdKind::Sample, epsilon: 1e-6 };
    let advantages: Vec<f64> =
        vectors.rewards.iter().flat_map(|rewards| advantage.of_group(rewards).unwrap()).collect();
    let masks: Vec<Vec<bool>> =
        vectors.mask.iter().map(|mask| mask.iter().map(|&value| value == 1.0).collect()).collect();
    let covered: Vec<&Case> = vectors.losses.iter().filter(|case| is_covered(case)).collect();
    assert_eq!(covered.len(), 4, "one case per aggregation");
    for case in covered {
        let objective = Objective {
            advantage: advantage.clone(),
            clip_low: case.params["eps_low"].as_f64().unwrap(),
            clip_high: case.params["eps_high"].as_f64().unwrap(),
            aggregation: aggregation(case),
        };
        let sequences: Vec<Sequence<'_>> = (0..masks.len())
            .map(|index| Sequence {
                new_logprobs: &vectors.logprob_new[index],
                old_logprobs: Some(&vectors.logprob_old[index]),
                loss_mask: &masks[index],
                advantage: advantages[index],
            })
            .collect();
        let loss = evaluate(&objective, &sequences).unwrap();
        assert_close(loss.value, case.value, &case.aggregation);
        for (actual, expected) in loss.gradient.iter().flatten().zip(case.grad.iter().flatten()) {
            assert_close(*actual, *expected, &case.aggregation);
        }
    }
}
