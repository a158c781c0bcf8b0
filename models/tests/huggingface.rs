//! Hugging Face directories: what loads, and what is refused with which sentence.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::Path;

use rehearsal_models::{
    Completion, Device, FinishReason, GenerateError, GenerationRequest, GeneratorOptions, LoadedPolicy, Message,
    Sampling, Weights,
};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

const VOCAB: usize = 8;
const HIDDEN: usize = 16;
const KV: usize = 8;
const INTERMEDIATE: usize = 24;

fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 32, "tie_word_embeddings": true,
        "eos_token_id": 7, "hidden_act": "silu",
    })
}

fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut all = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..2 {
        let shapes = [
            ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", vec![KV, HIDDEN]),
            ("self_attn.v_proj", vec![KV, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.gate_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.up_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INTERMEDIATE]),
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
        ];
        all.extend(shapes.map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
    }
    all
}

/// Small numbers without a pattern a product could cancel.
fn values(seed: usize, count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|i| ((((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0) * 0.4).to_le_bytes())
        .collect()
}

fn write_tensors(path: &Path, wanted: impl Fn(usize) -> bool) {
    let all = tensors();
    let data: Vec<Vec<u8>> =
        all.iter().enumerate().map(|(seed, (_, shape))| values(seed, shape.iter().product())).collect();
    let views: HashMap<&str, TensorView<'_>> = all
        .iter()
        .zip(&data)
        .enumerate()
        .filter(|(index, _)| wanted(*index))
        .map(|(_, ((name, shape), data))| (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap()))
        .collect();
    safetensors::serialize_to_file(&views, None, path).unwrap();
}

fn write_json(path: &Path, value: &Value) {
    std::fs::write(path, serde_json::to_vec(value).unwrap()).unwrap();
}

fn write_text(dir: &Path) {
    let vocab = json!({"a": 0, "b": 1, "c": 2, "ab": 3, "d": 4, "e": 5, "f": 6, "<end>": 7});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [{"id": 7, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": ["a b"], "dropout": null, "unk_token": null,
                  "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
                  "byte_fallback": false, "ignore_merges": false},
    });
    write_json(&dir.join("tokenizer.json"), &tokenizer);
    let template = "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}";
    write_json(
        &dir.join("tokenizer_config.json"),
        &json!({"eos_token": {"content": "<end>"}, "chat_template": template}),
    );
}

fn write_policy(dir: &Path) {
    write_json(&dir.join("config.json"), &config());
    write_tensors(&dir.join("model.safetensors"), |_| true);
    write_text(dir);
}

fn load_error(dir: &Path) -> String {
    LoadedPolicy::load(dir, Device::Cpu).unwrap_err().to_string()
}

fn request(id: u64, prompt: &[u32], temperature: f32, top_p: f32, max_tokens: usize) -> GenerationRequest {
    GenerationRequest {
        id,
        prompt_ids: prompt.into(),
        sampling: Sampling { temperature, top_p, max_tokens, seed: 40 + id },
    }
}

fn generate(policy: &LoadedPolicy, requests: Vec<GenerationRequest>) -> Vec<Completion> {
    let mut generator = policy.generator(GeneratorOptions::default()).unwrap();
    generator.admit(requests).unwrap();
    let mut all = Vec::new();
    while generator.active() > 0 {
        all.extend(generator.step().unwrap());
    }
    all.sort_by_key(|completion| completion.id);
    all
}

#[test]
fn a_directory_loads_whole_or_sharded() {
    let dir = tempfile::tempdir().unwrap();
    write_policy(dir.path());
    let whole = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    let text = whole.text();
    assert_eq!(text.encode("abc<end>").unwrap(), [3, 2, 7]);
    assert_eq!(text.render(&[Message::new("user", "ab")]).unwrap(), "ab<end>");
    assert_eq!(text.stop_ids(), [7]);
    let scored = whole.score(&[0, 1], &[2, 3, 4]).unwrap();

    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    write_tensors(&dir.path().join("part-1.safetensors"), |index| index % 2 == 0);
    write_tensors(&dir.path().join("part-2.safetensors"), |index| index % 2 == 1);
    let map: serde_json::Map<String, Value> = tensors()
        .into_iter()
        .enumerate()
        .map(|(index, (name, _))| (name, format!("part-{}.safetensors", index % 2 + 1).into()))
        .collect();
    write_json(&dir.path().join("model.safetensors.index.json"), &json!({"weight_map": map}));
    let sharded = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    assert_eq!(sharded.score(&[0, 1], &[2, 3, 4]).unwrap(), scored);
}

#[test]
fn end_ids_come_from_the_generation_config_first() {
    let dir = tempfile::tempdir().unwrap();
    write_policy(dir.path());
    write_json(&dir.path().join("generation_config.json"), &json!({"eos_token_id": [5, 6]}));
    let policy = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    assert_eq!(policy.text().stop_ids(), [5, 6, 7]);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    assert!(load_error(path).contains("this directory holds no policy"));
    assert!(load_error(&path.join("nowhere")).contains("no such file or directory"));

    write_json(&path.join("config.json"), &json!({"architectures": ["MambaForCausalLM"]}));
    let error = load_error(path);
    assert!(error.contains("MambaForCausalLM") && error.contains("LlamaForCausalLM"), "{error}");

    let mut scaled = config();
    scaled["rope_scaling"] = json!({"rope_type": "yarn", "factor": 4.0});
    write_json(&path.join("config.json"), &scaled);
    assert!(load_error(path).contains("yarn"));

    write_json(&path.join("config.json"), &config());
    assert!(load_error(path).contains("weights are missing"));
    write_tensors(&path.join("model.safetensors"), |index| index != 3);
    assert!(load_error(path).contains("tokenizer.json"));
    write_text(path);
    let error = load_error(path);
    assert!(error.contains("`model.layers.0.self_attn.k_proj.weight` is missing"), "{error}");

    write_tensors(&path.join("model.safetensors"), |_| true);
    let mut wide = config();
    wide["vocab_size"] = json!(9);
    write_json(&path.join("config.json"), &wide);
    let error = load_error(path);
    assert!(error.contains("model.embed_tokens.weight") && error.contains("[8, 16]"), "{error}");

    write_json(&path.join("config.json"), &config());
    let bytes = std::fs::read(path.join("model.safetensors")).unwrap();
    for length in [0, 4, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(path.join("model.safetensors"), &bytes[..length]).unwrap();
        assert!(load_error(path).contains("model.safetensors"), "cut to {length}");
    }
}

#[test]
fn a_row_does_not_notice_its_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    write_policy(dir.path());
    let policy = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    let prompts: [&[u32]; 5] = [&[0], &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6], &[2, 2], &[0]];
    let requests = || {
        let parts = prompts.iter().enumerate();
        parts.map(|(id, prompt)| request(id as u64, prompt, 1.0, 0.8, 4 + id)).collect::<Vec<_>>()
    };
    let together = generate(&policy, requests());
    for (one, batched) in requests().into_iter().zip(&together) {
        let alone = generate(&policy, vec![one.clone()]).remove(0);
        assert_eq!(alone.completion_ids, batched.completion_ids);
        let scored = policy.score(&one.prompt_ids, &batched.completion_ids).unwrap();
        for ((a, b), c) in alone.logprobs.iter().zip(&batched.logprobs).zip(scored) {
            assert!((a - b).abs() < 1e-4 && (a - c).abs() < 1e-4, "{a} {b} {c}");
        }
        // Cutting tokens away makes the others more likely.
        assert!(batched.logprobs.iter().zip(&batched.sampling_logprobs).all(|(raw, sampled)| sampled >= raw));
    }
    assert_eq!(together, generate(&policy, requests()));

    let mut generator = policy.generator(GeneratorOptions::default()).unwrap();
    let mut staggered = Vec::new();
    for request in requests() {
        generator.admit(vec![request]).unwrap();
        staggered.extend(generator.step().unwrap());
    }
    while generator.active() > 0 {
        staggered.extend(generator.step().unwrap());
    }
    staggered.sort_by_key(|completion| completion.id);
    let ids = |all: &[Completion]| all.iter().map(|c| c.completion_ids.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&staggered), ids(&together));
}

#[test]
fn how_a_completion_ends() {
    let dir = tempfile::tempdir().unwrap();
    write_policy(dir.path());
    let policy = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    let all = generate(&policy, (0..16).map(|id| request(id, &[0, 1], 2.0, 1.0, 1000)).collect());
    for completion in &all {
        let last = *completion.completion_ids.last().unwrap();
        match completion.finish_reason {
            FinishReason::Eos => assert_eq!(last, 7),
            FinishReason::ContextFull => assert_eq!(completion.completion_ids.len(), 30),
            FinishReason::MaxTokens => panic!("1000 tokens do not fit"),
        }
        assert!(completion.completion_ids[..completion.completion_ids.len() - 1].iter().all(|&id| id != 7));
    }
    assert!(all.iter().any(|completion| completion.finish_reason == FinishReason::Eos));
}

#[test]
fn what_a_generator_refuses() {
    let dir = tempfile::tempdir().unwrap();
    write_policy(dir.path());
    let policy = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    let mut generator = policy.generator(GeneratorOptions { max_batch: 2, ..GeneratorOptions::default() }).unwrap();
    let mut refused = |prompt: &[u32]| generator.admit(vec![request(0, prompt, 1.0, 1.0, 4)]).unwrap_err();
    assert!(matches!(refused(&[]), GenerateError::EmptyPrompt));
    assert!(matches!(refused(&[8]), GenerateError::UnknownToken { id: 8, vocab: 8 }));
    assert!(matches!(refused(&[0; 32]), GenerateError::PromptTooLong { prompt: 32, context: 32 }));
    let three = (0..3).map(|id| request(id, &[0], 1.0, 1.0, 4)).collect();
    assert!(matches!(generator.admit(three), Err(GenerateError::BatchFull { capacity: 2 })));
    assert_eq!(generator.active(), 0);
    let foreign = Weights::new(3, std::sync::Arc::new(0_u8));
    assert!(matches!(generator.set_weights(&foreign), Err(GenerateError::WrongWeights(_))));

    generator.admit(vec![request(0, &[0], 1.0, 1.0, 4), request(1, &[0], 1.0, 1.0, 4)]).unwrap();
    generator.cancel(0);
    generator.cancel(99);
    assert_eq!(generator.active(), 1);
}

#[test]
fn non_finite_logits_are_an_error_and_empty_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    write_policy(dir.path());
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let policy = LoadedPolicy::load(dir.path(), Device::Cpu).unwrap();
    let mut generator = policy.generator(GeneratorOptions::default()).unwrap();
    generator.admit((0..8).map(|id| request(id as u64, &[id], 1.0, 1.0, 4)).collect()).unwrap();
    let error = (0..4).find_map(|_| generator.step().err());
    assert!(matches!(error, Some(GenerateError::NonFinite { version: 0 })), "{error:?}");
    assert_eq!(generator.active(), 0);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn cuda_without_the_feature_is_one_sentence() {
    let error = LoadedPolicy::load(Path::new("anything"), Device::Cuda(0)).unwrap_err().to_string();
    assert!(error.contains("--features cuda"), "{error}");
}
