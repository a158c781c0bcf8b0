//! The shipped policy against numbers computed by `transformers` from the same file (tests/reference/smollm2_135m_q4_1.json).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rehearsal_models::{
    Completion, Device, Generate, GenerationRequest, GeneratorOptions, LoadedPolicy, Message, Sampling,
};
use serde::Deserialize;

use crate::support::policy_file;

#[derive(Deserialize)]
struct Reference {
    tokenizer: Vec<Tokenised>,
    chats: Vec<Chat>,
}

#[derive(Deserialize)]
struct Tokenised {
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Message>,
    prompt: String,
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
    greedy_text: String,
    greedy_logprobs: Vec<f32>,
    prompt_logprobs: Vec<f32>,
}

fn reference() -> Reference {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/smollm2_135m_q4_1.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Loaded once for the whole test binary.
fn policy() -> &'static LoadedPolicy {
    static POLICY: OnceLock<LoadedPolicy> = OnceLock::new();
    POLICY.get_or_init(|| LoadedPolicy::load(&policy_file(), Device::Cpu).unwrap())
}

fn request(id: u64, prompt_ids: &[u32], temperature: f32, max_tokens: usize, seed: u64) -> GenerationRequest {
    let sampling = Sampling { temperature, top_p: 1.0, max_tokens, seed };
    GenerationRequest { id, prompt_ids: prompt_ids.into(), sampling }
}

fn run(generator: &mut dyn Generate) -> HashMap<u64, Completion> {
    let mut done = HashMap::new();
    while generator.active() > 0 {
        done.extend(generator.step().unwrap().into_iter().map(|completion| (completion.id, completion)));
    }
    done
}

fn generator(max_batch: usize) -> Box<dyn Generate> {
    policy().generator(GeneratorOptions { max_batch, ..GeneratorOptions::default() }).unwrap()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn token_ids_and_decoded_text_are_the_references() {
    let text = policy().text();
    for case in reference().tokenizer {
        let ids = text.encode(&case.text).unwrap();
        assert_eq!(ids, case.ids, "{:?}", case.text);
        assert_eq!(text.decode(&ids), case.decoded);
    }
}

#[test]
fn prompts_render_and_continue_greedily_as_the_reference() {
    let text = policy().text();
    let mut generator = generator(4);
    for chat in reference().chats {
        assert_eq!(text.render(&chat.messages).unwrap(), chat.prompt);
        assert_eq!(text.encode(&chat.prompt).unwrap(), chat.prompt_ids);
        generator.admit(vec![request(1, &chat.prompt_ids, 0.0, chat.greedy_ids.len(), 0)]).unwrap();
        let completion = run(generator.as_mut()).remove(&1).unwrap();
        assert_eq!(completion.completion_ids, chat.greedy_ids);
        assert_eq!(text.decode_visible(&completion.completion_ids), chat.greedy_text);
        let difference = largest_difference(&completion.logprobs, &chat.greedy_logprobs);
        assert!(difference < 2e-3, "greedy log-probs differ by {difference}");
    }
}

#[test]
fn one_full_forward_gives_the_references_log_probs() {
    for chat in reference().chats {
        let prompt_logprobs = policy().score(&chat.prompt_ids[..1], &chat.prompt_ids[1..]).unwrap();
        let difference = largest_difference(&prompt_logprobs, &chat.prompt_logprobs);
        assert!(difference < 2e-3, "prompt log-probs differ by {difference}");
    }
}

#[test]
fn what_else_is_in_the_batch_does_not_matter() {
    let chats = reference().chats;
    let wanted = request(0, &chats[0].prompt_ids, 1.0, 24, 42);
    let mut alone = generator(1);
    alone.admit(vec![wanted.clone()]).unwrap();
    let alone = run(alone.as_mut()).remove(&0).unwrap();

    let mut crowd = generator(16);
    let others = (1..12).map(|n| request(n, &chats[n as usize % chats.len()].prompt_ids, 1.0, 4 + 3 * n as usize, n));
    crowd.admit(others.collect()).unwrap();
    // It joins a batch that is under way.
    for _ in 0..3 {
        crowd.step().unwrap();
    }
    crowd.admit(vec![wanted]).unwrap();
    let crowded = run(crowd.as_mut()).remove(&0).unwrap();
    assert_eq!(alone.completion_ids, crowded.completion_ids);
    let difference = largest_difference(&alone.logprobs, &crowded.logprobs);
    assert!(difference < 1e-4, "log-probs differ by {difference} with the batch");

    // Cached decoding against one full forward.
    let scored = policy().score(&chats[0].prompt_ids, &alone.completion_ids).unwrap();
    let difference = largest_difference(&alone.logprobs, &scored);
    assert!(difference < 1e-3, "cached and full forward differ by {difference}");
}

#[test]
fn a_group_shares_its_prompt_and_not_its_draws() {
    let prompt: Arc<[u32]> = reference().chats[0].prompt_ids.as_slice().into();
    let mut together = generator(8);
    let group =
        (0..4).map(|seed| GenerationRequest { prompt_ids: Arc::clone(&prompt), ..request(seed, &[], 1.0, 12, seed) });
    together.admit(group.collect()).unwrap();
    let together = run(together.as_mut());
    for seed in 0..4 {
        let mut alone = generator(1);
        alone.admit(vec![request(seed, &prompt, 1.0, 12, seed)]).unwrap();
        assert_eq!(run(alone.as_mut())[&seed].completion_ids, together[&seed].completion_ids);
    }
    let different: std::collections::HashSet<_> = together.values().map(|c| &c.completion_ids).collect();
    assert!(different.len() > 1, "four seeds drew the same completion");
}
