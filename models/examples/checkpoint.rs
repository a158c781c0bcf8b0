//! Checkpoints, seen from outside.
//!
//! ```text
//! cargo run --release -p rehearsal-models --example checkpoint -- save POLICY DIRECTORY
//! cargo run --release -p rehearsal-models --example checkpoint -- facts DIRECTORY
//! ```
//!
//! `save` loads a policy, takes one gradient step on one sequence, and saves the result. `facts` loads a directory and prints
//! what `scripts/check_checkpoint.py` compares with `transformers`: token ids of texts, a rendered chat, and log-probabilities.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::path::Path;

use rehearsal_models::rl::{Advantage, Aggregation, Objective};
use rehearsal_models::{Device, LoadedPolicy, Message, OptimizerConfig, TextError, TrainGroup, TrainSequence};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TEXTS: [&str; 6] = [
    "def add(a, b):\n    return a + b\n",
    "  leading and trailing  ",
    "naïve façade — 你好, мир 🦀",
    "12345 678\t\r\n",
    "<|im_start|>user\nhi<|im_end|>",
    "",
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["save", policy, directory] => save(Path::new(policy), Path::new(directory)),
        ["facts", directory] => facts(Path::new(directory)),
        _ => Err("usage: checkpoint save POLICY DIRECTORY | checkpoint facts DIRECTORY".into()),
    }
}

fn chat() -> [Message; 1] {
    [Message::new("user", "Which language is this engine written in?")]
}

fn facts(directory: &Path) -> Result<(), Box<dyn Error>> {
    let policy = LoadedPolicy::load(directory, Device::Cpu)?;
    let text = policy.text();
    let prompt = text.render(&chat())?;
    let prompt_ids = text.encode(&prompt)?;
    let completion_ids = text.encode("It is written in Rust, a systems language.<|im_end|>")?;
    let logprobs = policy.score(&prompt_ids, &completion_ids)?;
    let texts =
        TEXTS.iter().map(|&string| Ok((string, text.encode(string)?))).collect::<Result<Vec<_>, TextError>>()?;
    let facts = serde_json::json!({
        "texts": texts,
        "messages": chat(),
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "completion_ids": completion_ids,
        "logprobs": logprobs,
    });
    println!("{facts}");
    Ok(())
}

fn save(policy: &Path, directory: &Path) -> Result<(), Box<dyn Error>> {
    let policy = LoadedPolicy::load(policy, Device::Cpu)?;
    let text = policy.text();
    let prompt = text.render(&chat())?;
    let prompt_ids = text.encode(&prompt)?;
    let completion_ids = text.encode("Rust.<|im_end|>")?;
    let logprobs = policy.score(&prompt_ids, &completion_ids)?;
    let mut learner = policy.learner(OptimizerConfig {
        learning_rate: 1e-5,
        warmup_steps: 0,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.0,
        max_grad_norm: 1.0,
        micro_batch_tokens: 1024,
    })?;
    let objective = Objective {
        advantage: Advantage::DrGrpo {},
        clip_low: 0.2,
        clip_high: 0.2,
        aggregation: Aggregation::TokenMean,
    };
    let sequence = TrainSequence {
        loss_mask: vec![true; completion_ids.len()],
        completion_ids,
        logprobs,
        old_logprobs: None,
        advantage: 1.0,
    };
    let group = TrainGroup { prompt_ids: prompt_ids.into(), sequences: vec![sequence] };
    let report = learner.step(&[group], &objective, 1.0, &mut |_, _| ())?;
    println!("{report:#?}");
    learner.save(directory)?;
    println!("saved to {}", directory.display());
    Ok(())
}
