//! The learner as its callers see it, on tiny random decoders.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use burn_flex::Flex;
use rehearsal_models::config::DecoderConfig;
use rehearsal_models::decoder::Decoder;
use rehearsal_models::learner::Learner;
use rehearsal_models::rl::{Advantage, Aggregation, Objective};
use rehearsal_models::{OptimizerConfig, StepReport, Train, TrainError, TrainGroup, TrainSequence, Weights};

const VOCAB: usize = 50;

fn config() -> DecoderConfig {
    DecoderConfig {
        vocab_size: VOCAB,
        hidden_size: 32,
        intermediate_size: 48,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 8,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        max_position_embeddings: 64,
        tie_word_embeddings: true,
        bos_token_id: Some(1),
        eos_token_ids: vec![2],
    }
}

fn optimizer() -> OptimizerConfig {
    OptimizerConfig {
        learning_rate: 1e-2,
        warmup_steps: 0,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.01,
        max_grad_norm: 1.0,
        micro_batch_tokens: 24,
    }
}

fn objective() -> Objective {
    Objective { advantage: Advantage::DrGrpo {}, clip_low: 0.2, clip_high: 0.2, aggregation: Aggregation::TokenMean }
}

fn learner() -> Learner<Flex> {
    learner_with(optimizer())
}

fn learner_with(optimizer: OptimizerConfig) -> Learner<Flex> {
    Learner::new(Arc::new(Decoder::random(config(), 3, &Default::default())), optimizer, Default::default())
}

fn sequence(ids: &[u32], advantage: f64) -> TrainSequence {
    TrainSequence {
        completion_ids: ids.to_vec(),
        loss_mask: vec![true; ids.len()],
        logprobs: vec![-(VOCAB as f32).ln(); ids.len()],
        old_logprobs: None,
        advantage,
    }
}

fn groups() -> Vec<TrainGroup> {
    vec![
        TrainGroup {
            prompt_ids: [4, 5, 6, 7].into(),
            sequences: vec![sequence(&[8, 9, 10, 2], 1.0), sequence(&[11, 12, 13, 14, 15, 2], -1.0)],
        },
        TrainGroup { prompt_ids: [20, 21].into(), sequences: vec![sequence(&[22, 2], 0.5), sequence(&[23], -0.5)] },
    ]
}

fn step(learner: &mut Learner<Flex>, groups: &[TrainGroup]) -> Result<StepReport, TrainError> {
    learner.step(groups, &objective(), 1.0, &mut |_, _| ())
}

/// Every parameter's bits.
fn bits(weights: &Weights) -> Vec<u32> {
    let decoder = weights.downcast::<Decoder<Flex>>().unwrap();
    decoder.to_named_tensors().iter().flat_map(|tensor| tensor.values.iter().map(|value| value.to_bits())).collect()
}

#[test]
fn a_rewarded_sequence_becomes_likelier_and_the_report_says_what_happened() {
    let mut learner = learner();
    let rewarded = [TrainGroup { prompt_ids: [4, 5, 6].into(), sequences: vec![sequence(&[7, 8, 9, 2], 1.0)] }];
    // On policy the loss is −A whatever the log-probabilities are, so the rise shows in the mismatch to the first policy's.
    let first = step(&mut learner, &rewarded).unwrap();
    assert_eq!((first.trained_tokens, first.forward_tokens, first.clip_fraction), (4, 3 + 3, 0.0));
    assert!((first.loss + 1.0).abs() < 1e-9, "{first:?}");
    assert!(first.grad_norm > 0.0 && first.learning_rate == 1e-2);
    assert!((first.entropy - (VOCAB as f64).ln()).abs() < 0.1, "a new policy is nearly uniform: {first:?}");
    assert!(first.logprob_mismatch_max < 0.5 && first.logprob_mismatch_kl >= 0.0);
    let mut last = first;
    for _ in 0..15 {
        last = step(&mut learner, &rewarded).unwrap();
    }
    assert_eq!(learner.weights().version(), 16);
    assert!(last.entropy < 2.0 && last.logprob_mismatch_max > 1.5, "{last:?}");
}

#[test]
fn a_punished_sequence_becomes_less_likely() {
    let mut learner = learner();
    let punished = [TrainGroup { prompt_ids: [4, 5, 6].into(), sequences: vec![sequence(&[7, 8, 9, 2], -1.0)] }];
    let old = vec![-(VOCAB as f32).ln(); 4];
    let mut off_policy = punished.clone();
    off_policy[0].sequences[0].old_logprobs = Some(old);
    let first = step(&mut learner, &punished).unwrap();
    for _ in 0..5 {
        step(&mut learner, &punished).unwrap();
    }
    // Against the first policy's log-probabilities the ratio has fallen below its lower bound.
    let last = step(&mut learner, &off_policy).unwrap();
    assert!(first.clip_fraction == 0.0 && last.clip_fraction == 1.0, "{last:?}");
    assert_eq!(last.grad_norm, 0.0);
}

#[test]
fn the_split_into_micro_batches_does_not_change_the_step() {
    let whole = OptimizerConfig { micro_batch_tokens: 10_000, ..optimizer() };
    let single = OptimizerConfig { micro_batch_tokens: 1, ..optimizer() };
    let (mut whole, mut single) = (learner_with(whole), learner_with(single));
    let mut calls = Vec::new();
    let one = whole.step(&groups(), &objective(), 0.8, &mut |done, all| calls.push((done, all))).unwrap();
    assert_eq!(calls, [(0, 1), (1, 1)]);
    let many = single.step(&groups(), &objective(), 0.8, &mut |_, _| ()).unwrap();
    assert!((one.loss - many.loss).abs() < 1e-9 && (one.entropy - many.entropy).abs() < 1e-6);
    assert!((one.grad_norm - many.grad_norm).abs() < 1e-5 * one.grad_norm, "{one:?} {many:?}");
    assert!(many.forward_tokens > one.forward_tokens, "prompts are forwarded again");
    assert_eq!(one.trained_tokens, many.trained_tokens);
}

#[test]
fn refused_steps_change_nothing() {
    let mut learner = learner();
    step(&mut learner, &groups()).unwrap();
    let before = bits(&learner.weights());
    let refuse = |learner: &mut Learner<Flex>, change: &dyn Fn(&mut TrainSequence)| {
        let mut groups = groups();
        change(&mut groups[0].sequences[1]);
        step(learner, &groups).unwrap_err()
    };
    type Change = (&'static str, &'static dyn Fn(&mut TrainSequence));
    let not_finite: [Change; 4] = [
        ("advantage", &|sequence| sequence.advantage = f64::NAN),
        ("logprob", &|sequence| sequence.logprobs[2] = f32::NEG_INFINITY),
        ("logprob", &|sequence| sequence.old_logprobs = Some(vec![f32::NAN; 6])),
        // A ratio of e^1000 with a negative advantage.
        ("loss", &|sequence| sequence.old_logprobs = Some(vec![-1000.0; 6])),
    ];
    for (expected, change) in not_finite {
        let refused = refuse(&mut learner, change);
        assert!(matches!(&refused, TrainError::NonFinite { what } if *what == expected), "{expected}: {refused}");
    }
    let malformed: [Change; 4] = [
        ("loss_mask has 1 entries for 6 tokens", &|sequence| sequence.loss_mask = vec![true]),
        ("logprobs has 5 entries", &|sequence| sequence.logprobs.truncate(5)),
        ("old_logprobs has 0 entries", &|sequence| sequence.old_logprobs = Some(vec![])),
        ("token id 50 is outside the vocabulary of 50", &|sequence| sequence.completion_ids[0] = 50),
    ];
    for (expected, change) in malformed {
        let refused = refuse(&mut learner, change).to_string();
        assert!(refused.contains(expected) && refused.contains("group 0"), "{refused}");
    }
    assert_eq!(bits(&learner.weights()), before);
    assert_eq!(learner.weights().version(), 1);
    let mut untouched = learner_with(optimizer());
    step(&mut untouched, &groups()).unwrap();
    step(&mut untouched, &groups()).unwrap();
    step(&mut learner, &groups()).unwrap();
    assert_eq!(bits(&learner.weights()), bits(&untouched.weights()), "the optimiser's state is untouched as well");
}

#[test]
fn numbers_under_the_mask_may_be_anything() {
    let mut masked = groups();
    masked[0].sequences[0].loss_mask = vec![true, false, true, false];
    let mut poisoned = masked.clone();
    poisoned[0].sequences[0].logprobs[1] = f32::NAN;
    poisoned[0].sequences[0].logprobs[3] = f32::INFINITY;
    let untrained = TrainSequence { loss_mask: vec![false; 2], advantage: f64::NAN, ..sequence(&[3, 3], 0.0) };
    let (mut plain, mut odd) = (learner(), learner());
    let expected = step(&mut plain, &masked).unwrap();
    assert_eq!(step(&mut odd, &poisoned).unwrap(), expected);
    assert_eq!(bits(&odd.weights()), bits(&plain.weights()));
    poisoned[1].sequences.push(untrained);
    assert_eq!(step(&mut odd, &poisoned).unwrap(), step(&mut plain, &masked).unwrap());
}

#[test]
fn a_batch_without_a_trained_token_is_an_error_of_its_own() {
    let mut learner = learner();
    let mut masked = groups();
    for sequence in masked.iter_mut().flat_map(|group| &mut group.sequences) {
        sequence.loss_mask.fill(false);
    }
    for empty in [vec![], masked] {
        assert!(matches!(step(&mut learner, &empty), Err(TrainError::EmptyBatch)));
    }
    for temperature in [0.0, -1.0, f32::NAN] {
        let refused = learner.step(&groups(), &objective(), temperature, &mut |_, _| ());
        assert!(matches!(refused, Err(TrainError::Malformed(_))), "{temperature}");
    }
    assert_eq!(learner.weights().version(), 0);
}

#[test]
fn weights_that_were_handed_over_stay_as_they_are() {
    let mut learner = learner();
    let held = learner.weights();
    let before = bits(&held);
    step(&mut learner, &groups()).unwrap();
    assert_eq!(bits(&held), before);
    assert_ne!(bits(&learner.weights()), before);
    assert_eq!((held.version(), learner.weights().version()), (0, 1));
}

#[test]
fn warm_up_rises_to_the_peak() {
    let mut learner = learner_with(OptimizerConfig { warmup_steps: 4, ..optimizer() });
    let rates: Vec<f64> = (0..6).map(|_| step(&mut learner, &groups()).unwrap().learning_rate).collect();
    assert_eq!(rates, [0.25e-2, 0.5e-2, 0.75e-2, 1e-2, 1e-2, 1e-2]);
}

#[test]
fn a_restored_learner_goes_on_with_the_same_bits() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("checkpoint");
    let mut direct = learner();
    for _ in 0..2 {
        step(&mut direct, &groups()).unwrap();
    }
    direct.save(&dir).unwrap();
    let mut restored = Learner::<Flex>::new(
        Arc::new(Decoder::random(config(), 99, &Default::default())),
        optimizer(),
        Default::default(),
    );
    restored.restore(&dir).unwrap();
    assert_eq!(restored.weights().version(), 2);
    assert_eq!(bits(&restored.weights()), bits(&direct.weights()));
    let expected = step(&mut direct, &groups()).unwrap();
    assert_eq!(step(&mut restored, &groups()).unwrap(), expected);
    assert_eq!(bits(&restored.weights()), bits(&direct.weights()));
    direct.save(&dir).unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing but the checkpoint stays");
}

#[test]
fn a_damaged_or_foreign_checkpoint_is_refused_whole() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("checkpoint");
    let mut learner = learner();
    step(&mut learner, &groups()).unwrap();
    learner.save(&dir).unwrap();
    step(&mut learner, &groups()).unwrap();
    let before = bits(&learner.weights());
    assert!(matches!(learner.restore(&root.path().join("absent")), Err(TrainError::Checkpoint { .. })));

    let mut other = Learner::<Flex>::new(
        Arc::new(Decoder::random(DecoderConfig { rope_theta: 5e5, ..config() }, 3, &Default::default())),
        optimizer(),
        Default::default(),
    );
    assert!(other.restore(&dir).unwrap_err().to_string().contains("another policy"));

    let path = dir.join("optimizer.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 7, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let refused = learner.restore(&dir).unwrap_err().to_string();
        assert!(refused.contains("optimizer.safetensors"), "{refused}");
    }
    assert_eq!((bits(&learner.weights()), learner.weights().version()), (before, 2));
}
