//! Against `transformers` in float32 on the same file: tokens, prompts, greedy continuations, log-probabilities.
//!
//! The file is `SmolLM2-135M-Instruct.Q4_1.gguf`; its path is read from `REHEARSAL_TEST_GGUF`, and without it these tests
//! pass with a line on standard error.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rehearsal_models::{
    Completion, Device, FinishReason, Generate, GenerationRequest, GeneratorOptions, LoadedPolicy, Message, Sampling,
};
use serde::Deserialize;

/// What the issue of the reference allows between two float32 implementations.
const LOGPROB_TOLERANCE: f32 = 2e-3;

#[derive(Deserialize)]
struct Reference {
    tokenizer: Vec<TokenizerCase>,
    chats: Vec<Chat>,
}

#[derive(Deserialize)]
struct TokenizerCase {
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Message>,
    prompt: String,
    prompt_ids: Vec<u32>,
    last_top10: Top,
    greedy_ids: Vec<u32>,
    greedy_text: String,
    greedy_logprobs: Vec<f32>,
    prompt_logprobs: Vec<f32>,
}

#[derive(Deserialize)]
struct Top {
    ids: Vec<u32>,
    logits: Vec<f32>,
}

fn reference() -> Reference {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/smollm2_135m_q4_1.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn policy() -> Option<&'static LoadedPolicy> {
    static POLICY: OnceLock<Option<LoadedPolicy>> = OnceLock::new();
    POLICY
        .get_or_init(|| match std::env::var_os("REHEARSAL_TEST_GGUF") {
            Some(path) => Some(LoadedPolicy::load(Path::new(&path), Device::Cpu).unwrap()),
            None => {
                eprintln!("skipped: REHEARSAL_TEST_GGUF is not set");
                None
            }
        })
        .as_ref()
}

fn request(id: u64, prompt_ids: &[u32], temperature: f32, max_tokens: usize) -> GenerationRequest {
    let sampling = Sampling { temperature, top_p: 1.0, max_tokens, seed: 7 + id };
    GenerationRequest { id, prompt_ids: prompt_ids.into(), sampling }
}

fn run(generator: &mut dyn Generate) -> Vec<Completion> {
    let mut all = Vec::new();
    while generator.active() > 0 {
        all.extend(generator.step().unwrap());
    }
    all.sort_by_key(|completion| completion.id);
    all
}

fn generate(policy: &LoadedPolicy, requests: Vec<GenerationRequest>) -> Vec<Completion> {
    let options = GeneratorOptions { max_batch: requests.len(), ..GeneratorOptions::default() };
    let mut generator = policy.generator(options).unwrap();
    generator.admit(requests).unwrap();
    run(&mut *generator)
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    eprintln!("{what}: largest difference {worst:e}");
    assert!(worst <= tolerance, "{what}: {worst} > {tolerance}");
}

#[test]
fn tokens() {
    let Some(policy) = policy() else { return };
    let text = policy.text();
    for case in reference().tokenizer {
        assert_eq!(text.encode(&case.text).unwrap(), case.ids, "{:?}", case.text);
        assert_eq!(text.decode(&case.ids), case.decoded, "{:?}", case.text);
    }
    assert_eq!(text.stop_ids(), [2]);
}

#[test]
fn chats() {
    let Some(policy) = policy() else { return };
    let text = policy.text();
    for (index, chat) in reference().chats.iter().enumerate() {
        let prompt = text.render(&chat.messages).unwrap();
        assert_eq!(prompt, chat.prompt);
        assert_eq!(text.encode(&prompt).unwrap(), chat.prompt_ids);

        let completion = generate(policy, vec![request(0, &chat.prompt_ids, 0.0, chat.greedy_ids.len())]).remove(0);
        assert_eq!(completion.completion_ids, chat.greedy_ids, "chat {index}");
        assert_eq!(text.decode_visible(&completion.completion_ids), chat.greedy_text);
        let name = |part: &str| format!("chat {index}, {part}");
        assert_close(&completion.logprobs, &chat.greedy_logprobs, LOGPROB_TOLERANCE, &name("greedy"));

        let scored = policy.score(&chat.prompt_ids[..1], &chat.prompt_ids[1..]).unwrap();
        assert_close(&scored, &chat.prompt_logprobs, LOGPROB_TOLERANCE, &name("prompt"));
        let scored = policy.score(&chat.prompt_ids, &chat.greedy_ids).unwrap();
        assert_close(&scored, &chat.greedy_logprobs, LOGPROB_TOLERANCE, &name("greedy, scored"));
        // Log-probabilities differ from logits by one constant.
        let top: Vec<f32> =
            chat.last_top10.ids.iter().map(|&id| policy.score(&chat.prompt_ids, &[id]).unwrap()[0]).collect();
        let below_first = |values: &[f32]| values.iter().map(|value| value - values[0]).collect::<Vec<_>>();
        let (found, expected) = (below_first(&top), below_first(&chat.last_top10.logits));
        assert_close(&found, &expected, LOGPROB_TOLERANCE, &name("top 10"));
    }
}

#[test]
fn a_row_does_not_notice_its_neighbours() {
    let Some(policy) = policy() else { return };
    let text = policy.text();
    let prompts: Vec<Arc<[u32]>> = (0..16)
        .map(|index| {
            text.encode(&format!("<|im_start|>user\n{}<|im_end|>\n", "a b ".repeat(index * 3))).unwrap().into()
        })
        .collect();
    let requests =
        |range: std::ops::Range<usize>| range.map(|i| request(i as u64, &prompts[i], 1.0, 12 + i)).collect::<Vec<_>>();
    let together = generate(policy, requests(0..16));
    for index in [0, 7, 15] {
        let alone = generate(policy, requests(index..index + 1)).remove(0);
        assert_eq!(alone.completion_ids, together[index].completion_ids);
        assert_close(&alone.logprobs, &together[index].logprobs, 1e-4, &format!("row {index}"));
        let scored = policy.score(&prompts[index], &alone.completion_ids).unwrap();
        assert_close(&scored, &together[index].logprobs, 1e-4, &format!("row {index}, scored"));
    }

    // The same rows, some admitted while others run.
    let mut generator = policy.generator(GeneratorOptions::default()).unwrap();
    generator.admit(requests(0..3)).unwrap();
    let mut staggered: Vec<Completion> = (0..5).flat_map(|_| generator.step().unwrap()).collect();
    generator.admit(requests(3..16)).unwrap();
    staggered.extend(run(&mut *generator));
    staggered.sort_by_key(|completion| completion.id);
    for (a, b) in staggered.iter().zip(&together) {
        assert_eq!(a.completion_ids, b.completion_ids);
    }
    assert!(together.iter().all(|c| matches!(c.finish_reason, FinishReason::MaxTokens | FinishReason::Eos)));
}
