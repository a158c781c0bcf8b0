//! Decoding speed: tokens per second at several batch sizes, prompts' prefill included and apart.
//!
//! ```text
//! cargo run --release -p rehearsal-models --example decode_speed -- POLICY [--batch N] [--tokens N] [--prompts FILE] [--json]
//! ```
//!
//! `FILE` is a JSON list of prompts, each a list of token ids; they are repeated to fill the batch.

#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rehearsal_models::{Device, GenerationRequest, GeneratorOptions, LoadedPolicy, Sampling};

// As in the binary: decoding allocates and frees the same few sizes over and over.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Arguments {
    policy: PathBuf,
    batches: Vec<usize>,
    tokens: usize,
    prompts: Option<PathBuf>,
    json: bool,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut found =
        Arguments { policy: PathBuf::new(), batches: vec![1, 8, 16, 32], tokens: 64, prompts: None, json: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--batch" => found.batches = vec![value()?.parse()?],
            "--tokens" => found.tokens = value()?.parse()?,
            "--prompts" => found.prompts = Some(value()?.into()),
            "--json" => found.json = true,
            _ => found.policy = word.into(),
        }
    }
    if found.policy.as_os_str().is_empty() {
        return Err("usage: decode_speed POLICY [--batch N] [--tokens N] [--prompts FILE] [--json]".into());
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let policy = LoadedPolicy::load(&arguments.policy, Device::Cpu)?;
    let prompts = prompts(&policy, arguments.prompts.as_deref())?;
    for batch in arguments.batches {
        let options = GeneratorOptions { max_batch: batch, ignore_stop_ids: true, ..GeneratorOptions::default() };
        let mut generator = policy.generator(options)?;
        let requests = (0..batch).map(|index| GenerationRequest {
            id: index as u64,
            prompt_ids: prompts[index % prompts.len()].as_slice().into(),
            sampling: Sampling { temperature: 1.0, top_p: 1.0, max_tokens: arguments.tokens, seed: index as u64 },
        });
        generator.admit(requests.collect())?;
        let start = Instant::now();
        let mut completions = generator.step()?;
        let prefill_seconds = start.elapsed().as_secs_f64();
        while generator.active() > 0 {
            completions.extend(generator.step()?);
        }
        let seconds = start.elapsed().as_secs_f64();
        let tokens: usize = completions.iter().map(|completion| completion.completion_ids.len()).sum();
        let per_second = tokens as f64 / seconds;
        let decode_per_second = (tokens - batch) as f64 / (seconds - prefill_seconds);
        if arguments.json {
            let line = serde_json::json!({
                "batch": batch, "tokens": tokens, "seconds": seconds, "prefill_seconds": prefill_seconds,
                "tokens_per_second": per_second, "decode_tokens_per_second": decode_per_second,
            });
            println!("{line}");
        } else {
            println!(
                "batch {batch:3}: {per_second:7.1} tokens/s with prefill ({prefill_seconds:.2} s), {decode_per_second:7.1} without"
            );
        }
    }
    Ok(())
}

fn prompts(policy: &LoadedPolicy, file: Option<&Path>) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    if let Some(file) = file {
        return Ok(serde_json::from_slice(&std::fs::read(file)?)?);
    }
    let text = policy.text();
    let tasks = ["adds two numbers", "reverses a string", "returns the largest item of a list that may be empty"];
    let prompt = |task| format!("Write a Python function that {task}. Reply with code only.");
    Ok(tasks.into_iter().map(|task| text.encode(&prompt(task))).collect::<Result<_, _>>()?)
}
