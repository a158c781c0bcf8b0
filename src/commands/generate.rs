//! `rehearsal generate`: one completion of a chat.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal_models::{Device, FinishReason, GenerationRequest, GeneratorOptions, Message, Sampling};

use crate::commands::print_line;
use crate::console::Console;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A shipped policy's name, a GGUF file or a Hugging Face directory.
    #[arg(long, default_value = prepare::DEFAULT_POLICY)]
    policy: String,
    /// A JSON file with the chat: `[{"role", "content"}, …]`.
    #[arg(long, required_unless_present = "prompt")]
    messages: Option<PathBuf>,
    /// One user message, instead of a file.
    #[arg(long, conflicts_with = "messages")]
    prompt: Option<String>,
    /// Softmax temperature; 0 takes the most likely token.
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// Nucleus; 1 keeps every token.
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Tokens at most.
    #[arg(long, default_value_t = 256)]
    max_tokens: usize,
    /// Seed of the draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// `cpu` or `cuda:N`.
    #[arg(long, default_value_t = Device::Cpu)]
    device: Device,
    /// Print one JSON object instead of the text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Output<'a> {
    prompt: &'a str,
    prompt_ids: &'a [u32],
    completion_ids: &'a [u32],
    text: &'a str,
    /// Raw softmax, a token each.
    logprobs: &'a [f32],
    finish_reason: FinishReason,
    weights_version: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    check(args)?;
    let messages = messages(args)?;
    let policy = prepare::policy(&Home::open()?, &args.policy, args.device, &Console::new())?;
    let text = policy.text();
    let prompt = text.render(&messages)?;
    let prompt_ids: Arc<[u32]> = text.encode(&prompt)?.into();
    let mut generator = policy.generator(GeneratorOptions { max_batch: 1, ..GeneratorOptions::default() })?;
    let sampling =
        Sampling { temperature: args.temperature, top_p: args.top_p, max_tokens: args.max_tokens, seed: args.seed };
    generator.admit(vec![GenerationRequest { id: 0, prompt_ids: Arc::clone(&prompt_ids), sampling }])?;
    let completion = loop {
        if let Some(completion) = generator.step()?.pop() {
            break completion;
        }
        if generator.active() == 0 {
            bail!("the generator lost the request");
        }
    };
    let visible = text.decode_visible(&completion.completion_ids);
    if !args.json {
        print_line(&visible)?;
        return Ok(ExitCode::SUCCESS);
    }
    let output = Output {
        prompt: &prompt,
        prompt_ids: &prompt_ids,
        completion_ids: &completion.completion_ids,
        text: &visible,
        logprobs: &completion.logprobs,
        finish_reason: completion.finish_reason,
        weights_version: completion.versions.last().copied().unwrap_or(0),
    };
    print_line(&serde_json::to_string(&output)?)?;
    Ok(ExitCode::SUCCESS)
}

fn check(args: &Args) -> Result<()> {
    if !(args.temperature.is_finite() && args.temperature >= 0.0) {
        bail!("--temperature is {}: it must be 0 or above", args.temperature);
    }
    if !(args.top_p > 0.0 && args.top_p <= 1.0) {
        bail!("--top-p is {}: it must be above 0 and at most 1", args.top_p);
    }
    if args.max_tokens == 0 {
        bail!("--max-tokens is 0: it must be at least 1");
    }
    Ok(())
}

fn messages(args: &Args) -> Result<Vec<Message>> {
    if let Some(prompt) = &args.prompt {
        return Ok(vec![Message::new("user", prompt)]);
    }
    let path = args.messages.as_ref().ok_or_else(|| anyhow!("give --messages or --prompt"))?;
    let json = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let messages: Vec<Message> = serde_json::from_str(&json)
        .with_context(|| format!("{} is not a list of {{\"role\", \"content\"}}", path.display()))?;
    if messages.is_empty() {
        bail!("{} has no message", path.display());
    }
    Ok(messages)
}
