//! Gradients by hand against Burn's autodiff over the shared forward code, on tiny random decoders.

use burn::backend::Autodiff;
use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_flex::Flex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::gradient::Gradient;
use super::head::{self, Tally};
use super::kernels::index_tensor;
use super::parameters::{assemble, slots};
use super::pass::Pass;
use super::plan::{MicroBatch, micro_batches};
use crate::config::DecoderConfig;
use crate::decoder::{Decoder, PackedAttention, Rotation};
use crate::rl::{Advantage, Aggregation, Objective};
use crate::train::{TrainGroup, TrainSequence};

pub(super) fn tiny(tied: bool) -> DecoderConfig {
    DecoderConfig {
        vocab_size: 37,
        hidden_size: 24,
        intermediate_size: 40,
        num_hidden_layers: 3,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 8,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        max_position_embeddings: 64,
        tie_word_embeddings: tied,
        bos_token_id: None,
        eos_token_ids: vec![2],
    }
}

/// Random parameters in slot order.
pub(super) fn random_parameters<B: Backend>(config: &DecoderConfig, seed: u64) -> Vec<Tensor<B, 1>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let device = B::Device::default();
    let values = |random: &mut ChaCha8Rng, count: usize, centre: f32| -> Vec<f32> {
        (0..count).map(|_| centre + random.random_range(-0.3..0.3)).collect()
    };
    slots(config)
        .iter()
        .map(|slot| {
            let centre = if slot.is_decayed() { 0.0 } else { 1.0 };
            Tensor::from_data(TensorData::new(values(&mut random, slot.len(), centre), [slot.len()]), &device)
        })
        .collect()
}

/// Two groups with completions of several lengths, an untrained gap, an empty and an all-masked sequence.
pub(super) fn groups(seed: u64) -> Vec<TrainGroup> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ids = |count: usize| -> Vec<u32> { (0..count).map(|_| random.random_range(0..37)).collect() };
    let mut group = |prompt: usize, lengths: &[usize]| TrainGroup {
        prompt_ids: ids(prompt).into(),
        sequences: lengths
            .iter()
            .enumerate()
            .map(|(index, &length)| TrainSequence {
                completion_ids: ids(length),
                loss_mask: (0..length).map(|token| index != 3 && !(index == 1 && token == 2)).collect(),
                logprobs: vec![-3.0; length],
                old_logprobs: None,
                advantage: 0.7 - index as f64 * 0.5,
            })
            .collect(),
    };
    vec![group(5, &[4, 7, 1, 3, 0]), group(3, &[6, 2])]
}

pub(super) fn objective() -> Objective {
    Objective {
        advantage: Advantage::DrGrpo {},
        clip_low: 0.2,
        clip_high: 0.2,
        aggregation: Aggregation::SeqMeanTokenMean,
    }
}

fn plan(config: &DecoderConfig, budget: usize) -> Vec<MicroBatch> {
    micro_batches(&groups(5), &objective(), config.vocab_size, 64, budget).unwrap()
}

/// The step's gradient by hand, in slot order.
fn by_hand(config: &DecoderConfig, budget: usize, temperature: f32) -> Vec<Vec<f32>> {
    let decoder: Decoder<Flex> = assemble(config, random_parameters(config, 11));
    let (mut tally, mut sum) = (Tally::default(), Gradient::zero(slots(config).len()));
    for batch in plan(config, budget) {
        let (pass, hidden) = Pass::forward(&decoder, &batch, &Default::default());
        let of_hidden =
            head::loss_and_gradient(&decoder, hidden, &batch.targets, &objective(), temperature, &mut tally, &mut sum)
                .unwrap();
        pass.backward(&decoder, &batch, of_hidden, &mut sum);
    }
    sum.into_slots().into_iter().map(|slot| slot.unwrap().into_data().to_vec().unwrap()).collect()
}

/// The building blocks in plain tensor operations, which Burn differentiates.
impl super::kernels::Kernels for Autodiff<Flex> {}

/// The same by automatic differentiation of −Σ w·A·logπ, whose gradient an on-policy step has.
fn by_autodiff(config: &DecoderConfig, temperature: f32) -> Vec<Vec<f32>> {
    type B = Autodiff<Flex>;
    let device = Default::default();
    let leaves: Vec<Tensor<B, 1>> =
        random_parameters(config, 11).into_iter().map(|parameter| parameter.require_grad()).collect();
    let decoder = assemble(config, leaves.clone());
    let mut loss = Tensor::<B, 1>::zeros([1], &device);
    for batch in plan(config, usize::MAX) {
        let ids = index_tensor::<B>(batch.ids.iter().map(|&id| id as usize), &device);
        let rotation = Rotation::new(config, &batch.positions, &device);
        let mut attention = PackedAttention::new(batch.segments.clone(), config);
        let hidden = decoder.forward_hidden(ids, &rotation, &mut attention);
        let logprobs = log_softmax(decoder.logits(hidden) / temperature, 1);
        for target in &batch.targets {
            let logprob =
                logprobs.clone().slice([target.row..target.row + 1, target.id as usize..target.id as usize + 1]);
            loss = loss - logprob.reshape([1]) * (target.weight * target.advantage);
        }
    }
    let gradients = loss.backward();
    leaves.iter().map(|leaf| leaf.grad(&gradients).unwrap().into_data().to_vec().unwrap()).collect()
}

fn assert_close(actual: &[Vec<f32>], expected: &[Vec<f32>], tolerance: f32) {
    let config_slots = actual.len();
    assert_eq!(config_slots, expected.len());
    for (slot, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let scale = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        assert!(scale > 0.0, "slot {slot} has no gradient to compare");
        for (position, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            let error = (actual - expected).abs() / scale;
            assert!(error < tolerance, "slot {slot}, value {position}: {actual} instead of {expected}");
        }
    }
}

#[test]
fn gradients_equal_those_of_autodiff() {
    for tied in [true, false] {
        for temperature in [1.0, 0.7] {
            let config = tiny(tied);
            assert_close(&by_hand(&config, usize::MAX, temperature), &by_autodiff(&config, temperature), 1e-5);
        }
    }
}

#[test]
fn splits_into_micro_batches_give_the_same_gradient() {
    let config = tiny(true);
    let whole = by_hand(&config, usize::MAX, 1.0);
    assert_eq!(plan(&config, usize::MAX).len(), 1);
    for (budget, batches) in [(1, 4), (8, 4), (14, 2), (20, 2)] {
        let plan = plan(&config, budget);
        assert_eq!(plan.len(), batches, "{budget}: {plan:?}");
        assert_close(&by_hand(&config, budget, 1.0), &whole, 1e-5);
    }
}
