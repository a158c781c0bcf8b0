use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;

use super::GgufFile;
use super::blocks::BlockKind;
use crate::backend::Cpu;
use crate::decoder::Decoder;
use crate::load::LoadError;
use crate::{Device, Generate, GenerationRequest, GeneratorOptions, LoadedPolicy, Sampling};

const TOKENS: [&str; 8] = ["a", "b", "c", "ab", "abc", "\u{120}", "\u{120}a", "<|end|>"];
const HIDDEN: usize = 32;

/// A valid file: one layer, two query heads on one key head, tensors of several storage types.
fn tiny() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.text("general.architecture", "llama");
    writer.text("general.name", "tiny");
    let sizes = [
        ("block_count", 1),
        ("context_length", 64),
        ("embedding_length", HIDDEN as u32),
        ("feed_forward_length", 64),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ];
    for (key, size) in sizes {
        writer.number(&format!("llama.{key}"), size);
    }
    writer.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
    writer.text("tokenizer.ggml.model", "gpt2");
    writer.text("tokenizer.ggml.pre", "smollm");
    writer.texts("tokenizer.ggml.tokens", &TOKENS);
    writer.numbers("tokenizer.ggml.token_type", &[1, 1, 1, 1, 1, 1, 1, 3]);
    writer.texts("tokenizer.ggml.merges", &["a b", "ab c", "\u{120} a"]);
    writer.number("tokenizer.ggml.eos_token_id", 7);
    writer.text("tokenizer.chat_template", "{{ messages[0].content }}{{ eos_token }}");
    writer.tensor("token_embd.weight", &[HIDDEN, TOKENS.len()], 8);
    writer.tensor("output_norm.weight", &[HIDDEN], 0);
    writer.tensor("blk.0.attn_norm.weight", &[HIDDEN], 0);
    writer.tensor("blk.0.ffn_norm.weight", &[HIDDEN], 0);
    writer.tensor("blk.0.attn_q.weight", &[HIDDEN, 32], 3);
    writer.tensor("blk.0.attn_k.weight", &[HIDDEN, 16], 2);
    writer.tensor("blk.0.attn_v.weight", &[HIDDEN, 16], 1);
    writer.tensor("blk.0.attn_output.weight", &[32, HIDDEN], 30);
    writer.tensor("blk.0.ffn_gate.weight", &[HIDDEN, 64], 3);
    writer.tensor("blk.0.ffn_up.weight", &[HIDDEN, 64], 8);
    writer.tensor("blk.0.ffn_down.weight", &[64, HIDDEN], 0);
    writer.finish()
}

#[derive(Default)]
struct Writer {
    metadata: Vec<u8>,
    keys: u64,
    infos: Vec<u8>,
    tensors: u64,
    data: Vec<u8>,
}

impl Writer {
    fn key(&mut self, key: &str, kind: u32) {
        push_text(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        self.keys += 1;
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        push_text(&mut self.metadata, value);
    }

    fn number(&mut self, key: &str, value: u32) {
        self.key(key, 4);
        self.metadata.extend(value.to_le_bytes());
    }

    fn float(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.metadata.extend(value.to_le_bytes());
    }

    fn texts(&mut self, key: &str, values: &[&str]) {
        self.key(key, 9);
        self.metadata.extend(8_u32.to_le_bytes());
        self.metadata.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| push_text(&mut self.metadata, value));
    }

    fn numbers(&mut self, key: &str, values: &[i32]) {
        self.key(key, 9);
        self.metadata.extend(5_u32.to_le_bytes());
        self.metadata.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| self.metadata.extend(value.to_le_bytes()));
    }

    /// A tensor of storage type `kind` whose bytes are small patterns (so that half-precision scales stay finite).
    fn tensor(&mut self, name: &str, dimensions: &[usize], kind: u32) {
        push_text(&mut self.infos, name);
        self.infos.extend((dimensions.len() as u32).to_le_bytes());
        dimensions.iter().for_each(|&size| self.infos.extend((size as u64).to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        let bytes = BlockKind::from_id(kind).unwrap().byte_len(dimensions.iter().product()).unwrap();
        self.data.extend((0..bytes).map(|i| (i % 37) as u8));
        self.tensors += 1;
    }

    fn finish(self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3_u32.to_le_bytes());
        file.extend(self.tensors.to_le_bytes());
        file.extend(self.keys.to_le_bytes());
        file.extend(self.metadata);
        file.extend(self.infos);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(self.data);
        file
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Everything a load does, without a file.
fn load(bytes: Vec<u8>) -> Result<Decoder<Cpu>, LoadError> {
    let length = bytes.len() as u64;
    let mut file = GgufFile::read(Path::new("tiny.gguf"), Cursor::new(bytes), length)?;
    file.text_parts()?;
    Decoder::from_source(file.config().clone(), &mut file, &Default::default())
}

#[test]
fn a_tiny_file_loads_and_speaks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, tiny()).unwrap();
    let policy = LoadedPolicy::load(&path, Device::Cpu).unwrap();
    let text = policy.text();
    assert_eq!(policy.name(), "tiny");
    assert_eq!(text.encode("abcb a<|end|>").unwrap(), [4, 1, 6, 7]);
    assert_eq!(text.decode(&[4, 1, 6, 7]), "abcb a<|end|>");
    assert_eq!(text.decode_visible(&[4, 1, 6, 7]), "abcb a");
    assert_eq!(text.stop_ids(), [7]);
    let options = GeneratorOptions { ignore_stop_ids: true, ..GeneratorOptions::default() };
    let mut generator: Box<dyn Generate> = policy.generator(options).unwrap();
    let sampling = Sampling { temperature: 1.0, top_p: 0.9, max_tokens: 3, seed: 1 };
    generator.admit(vec![GenerationRequest { id: 5, prompt_ids: [0, 1].into(), sampling }]).unwrap();
    let completions: Vec<_> = (0..3).flat_map(|_| generator.step().unwrap()).collect();
    assert_eq!((completions.len(), completions[0].completion_ids.len()), (1, 3));
}

#[test]
fn every_truncation_is_an_error() {
    let file = tiny();
    for length in (0..file.len()).step_by(7) {
        let error = load(file[..length].to_vec()).unwrap_err().to_string();
        assert!(error.contains("tiny.gguf"), "{error}");
    }
    let error = load(file[..file.len() - 1].to_vec()).unwrap_err().to_string();
    assert!(error.contains("`blk.0.ffn_down.weight`") && error.contains("truncated"), "{error}");
}

#[test]
fn a_claimed_size_is_not_believed() {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(u64::MAX.to_le_bytes());
    file.extend(u64::MAX.to_le_bytes());
    file.extend((u64::MAX / 2).to_le_bytes());
    assert!(load(file).unwrap_err().to_string().contains("past the end"));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = load(bytes.clone());
        let _ = load([b"GGUF\x03\0\0\0".as_slice(), &bytes].concat());
    }

    #[test]
    fn a_changed_byte_never_panics(position in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut file = tiny();
        let position = position.index(file.len());
        file[position] = value;
        let _ = load(file);
    }

    #[test]
    fn a_changed_header_byte_never_panics(position in 0_usize..1200, value in any::<u8>(), cut in 0_usize..4000) {
        let mut file = tiny();
        file[position] = value;
        let length = file.len() - cut.min(file.len());
        let _ = load(file[..length].to_vec());
    }
}

#[test]
fn blocks_dequantise_as_their_definitions_say() {
    // Scale 0.5 (0x3800), minimum 1.0 (0x3c00), nibbles 3 (low) and 12 (high).
    let mut q4_1 = vec![0x00, 0x38, 0x00, 0x3c];
    q4_1.extend([0xc3; 16]);
    assert_eq!(BlockKind::Q4_1.dequantise(&q4_1), [[2.5; 16], [7.0; 16]].concat());
    let q4_0 = [vec![0x00, 0x38], vec![0xc3; 16]].concat();
    assert_eq!(BlockKind::Q4_0.dequantise(&q4_0), [[-2.5; 16], [2.0; 16]].concat());
    let q8_0 = [vec![0x00, 0x38], vec![0xfe; 32]].concat();
    assert_eq!(BlockKind::Q8_0.dequantise(&q8_0), [-1.0; 32]);
    // 6 bits: low nibble 5 and high bits 2 make 37; minus 32 is 5; scales 2; super-scale 0.5.
    let q6_k = [vec![0x55; 128], vec![0xaa; 64], vec![2; 16], vec![0x00, 0x38]].concat();
    assert_eq!(BlockKind::Q6K.dequantise(&q6_k), [5.0; 256]);
}
