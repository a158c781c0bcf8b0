//! Tokens per second and peak memory of training steps on random weights of SmolLM2-135M's shape.
//!
//!     cargo run --release -p rehearsal-models --example train_speed -- [steps] [micro-batch tokens] [completion tokens]
//!
//! A step is 4 groups of 8 completions on prompts of 70 tokens.

#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use burn_flex::Flex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rehearsal_models::config::DecoderConfig;
use rehearsal_models::decoder::Decoder;
use rehearsal_models::learner::Learner;
use rehearsal_models::rl::{Advantage, Aggregation, Objective, StdKind};
use rehearsal_models::{OptimizerConfig, Train, TrainGroup, TrainSequence};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn smollm2_135m() -> DecoderConfig {
    DecoderConfig {
        vocab_size: 49_152,
        hidden_size: 576,
        intermediate_size: 1536,
        num_hidden_layers: 30,
        num_attention_heads: 9,
        num_key_value_heads: 3,
        head_dim: 64,
        rms_norm_eps: 1e-5,
        rope_theta: 100_000.0,
        max_position_embeddings: 8192,
        tie_word_embeddings: true,
        bos_token_id: Some(1),
        eos_token_ids: vec![2],
    }
}

fn groups(completion: usize) -> Vec<TrainGroup> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut ids = |count: usize| -> Vec<u32> { (0..count).map(|_| random.random_range(0..49_152)).collect() };
    (0..4)
        .map(|_| TrainGroup {
            prompt_ids: ids(70).into(),
            sequences: (0..8)
                .map(|index| TrainSequence {
                    completion_ids: ids(completion),
                    loss_mask: vec![true; completion],
                    logprobs: vec![-10.8; completion],
                    old_logprobs: None,
                    advantage: f64::from(index) - 3.5,
                })
                .collect(),
        })
        .collect()
}

/// The process's peak resident memory, as the kernel counts it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
}

/// Processor seconds used so far by all threads (user, system): comparable between runs on a machine with other work.
fn processor_seconds() -> (f64, f64) {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name, in brackets, may hold spaces; user and system time are the 12th and 13th fields after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let seconds = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (seconds(11) / TICKS_PER_SECOND, seconds(12) / TICKS_PER_SECOND)
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |index: usize, default: usize| std::env::args().nth(index).map_or(Ok(default), |text| text.parse());
    let (steps, micro_batch_tokens, completion) = (argument(1, 3)?, argument(2, 1200)?, argument(3, 64)?);
    let config = OptimizerConfig {
        learning_rate: 1e-5,
        warmup_steps: 0,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.01,
        max_grad_norm: 1.0,
        micro_batch_tokens,
    };
    let objective = Objective {
        advantage: Advantage::Grpo { std: StdKind::Sample, epsilon: 1e-6 },
        clip_low: 0.2,
        clip_high: 0.28,
        aggregation: Aggregation::TokenMean,
    };
    let decoder: Decoder<Flex> = Decoder::random(smollm2_135m(), 7, &Default::default());
    let mut learner = Learner::new(Arc::new(decoder), config, Default::default());
    let groups = groups(completion);
    for step in 1..=steps {
        let (start, (user, system)) = (Instant::now(), processor_seconds());
        let report = learner.step(&groups, &objective, 1.0, &mut |_, _| ())?;
        let (seconds, (user_now, system_now)) = (start.elapsed().as_secs_f64(), processor_seconds());
        println!(
            "step {step}: {seconds:.2} s, processor {:.2} s user + {:.2} s system, {:.0} forward tokens/s, {:.0} trained tokens/s, peak memory {}, loss {:.4}, gradient norm {:.3}, entropy {:.3}",
            user_now - user,
            system_now - system,
            report.forward_tokens as f64 / seconds,
            report.trained_tokens as f64 / seconds,
            peak_memory(),
            report.loss,
            report.grad_norm,
            report.entropy,
        );
    }
    Ok(())
}
