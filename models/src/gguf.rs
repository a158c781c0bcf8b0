//! GGUF files: one file with configuration, tokenizer and quantised weights.
//!
//! The format is llama.cpp's (`docs/gguf.md` of ggml-org/ggml, versions 2 and 3, little-endian). Nothing is allocated on a
//! header's word alone: every claimed size is held against the file's length first.

mod blocks;
mod reader;
#[cfg(test)]
mod tests;
mod tokenizer;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use self::reader::{Header, TensorInfo, Value};
use crate::config::DecoderConfig;
use crate::load::{LoadError, TensorSource};
use crate::text::TextParts;

const KNOWN_ARCHITECTURES: &str = "llama";

/// An opened GGUF file: its header is read, its tensors are read one by one.
#[derive(Debug)]
pub(crate) struct GgufFile<R> {
    path: std::path::PathBuf,
    input: R,
    header: Header,
    config: DecoderConfig,
}

impl GgufFile<BufReader<File>> {
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(|e| LoadError::io(path, e))?;
        let length = file.metadata().map_err(|e| LoadError::io(path, e))?.len();
        Self::read(path, BufReader::new(file), length)
    }
}

impl<R: Read + Seek> GgufFile<R> {
    /// Reads the header of an `input` of `length` bytes; `path` is for messages.
    pub(crate) fn read(path: &Path, mut input: R, length: u64) -> Result<Self, LoadError> {
        let header = reader::read_header(&mut input, length).map_err(|reason| LoadError::malformed(path, reason))?;
        let config = decoder_config(path, &header)?;
        Ok(Self { path: path.to_owned(), input, header, config })
    }

    pub(crate) fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// `general.name`, if the file has one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self.header.metadata.get("general.name") {
            Some(Value::String(name)) => Some(name),
            _ => None,
        }
    }

    /// Tokenizer and chat template.
    pub(crate) fn text_parts(&self) -> Result<TextParts, LoadError> {
        tokenizer::text_parts(&self.path, &self.header, &self.config)
    }

    fn read_tensor(&mut self, info: &TensorInfo, elements: usize) -> Result<Vec<f32>, LoadError> {
        let fail = |reason: String| LoadError::tensor(&self.path, &info.name, reason);
        let bytes = info.kind.byte_len(elements).map_err(fail)?;
        let start = self.header.data_start + info.offset;
        if start.checked_add(bytes as u64).is_none_or(|end| end > self.header.file_length) {
            return Err(fail(format!(
                "of {bytes} bytes starts at byte {start}, but the file ends at byte {}: it is truncated",
                self.header.file_length
            )));
        }
        let mut raw = vec![0; bytes];
        self.input.seek(SeekFrom::Start(start)).map_err(|e| LoadError::io(&self.path, e))?;
        self.input.read_exact(&mut raw).map_err(|e| LoadError::io(&self.path, e))?;
        Ok(info.kind.dequantise(&raw))
    }
}

impl<R: Read + Seek> TensorSource for GgufFile<R> {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let stored = gguf_name(name);
        let missing = || LoadError::tensor(&self.path, &stored, "is missing");
        let info = self.header.tensors.get(&stored).cloned().ok_or_else(missing)?;
        // GGUF lists dimensions innermost first.
        let found: Vec<u64> = info.dimensions.iter().rev().copied().collect();
        if found.iter().copied().ne(shape.iter().map(|&d| d as u64)) {
            let reason = format!("has shape {found:?}, but the configuration asks for {shape:?}");
            return Err(LoadError::tensor(&self.path, &stored, reason));
        }
        let elements = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        let elements = elements.ok_or_else(|| LoadError::tensor(&self.path, &stored, "is too large"))?;
        let values = self.read_tensor(&info, elements)?;
        // llama.cpp interleaves the two halves of each query and key head; Hugging Face's layout keeps them apart.
        if name.ends_with(".q_proj.weight") || name.ends_with(".k_proj.weight") {
            return Ok(halves_apart(&values, self.config.head_dim, self.config.hidden_size));
        }
        Ok(values)
    }
}

/// Undoes llama.cpp's row order within heads of `head_dim` rows: row 2i + h there is row h·(d/2) + i here.
fn halves_apart(values: &[f32], head_dim: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for head in values.chunks_exact(head_dim * columns) {
        for half in 0..2 {
            for pair in 0..head_dim / 2 {
                let row = 2 * pair + half;
                out.extend_from_slice(&head[row * columns..(row + 1) * columns]);
            }
        }
    }
    out
}

/// llama.cpp's name of a Hugging Face tensor.
fn gguf_name(name: &str) -> String {
    let direct = match name {
        "model.embed_tokens.weight" => Some("token_embd.weight"),
        "model.norm.weight" => Some("output_norm.weight"),
        "lm_head.weight" => Some("output.weight"),
        _ => None,
    };
    if let Some(direct) = direct {
        return direct.to_owned();
    }
    const RENAMED: [(&str, &str); 10] = [
        ("model.layers.", "blk."),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ];
    RENAMED.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

fn decoder_config(path: &Path, header: &Header) -> Result<DecoderConfig, LoadError> {
    let malformed = |reason: String| LoadError::malformed(path, reason);
    let architecture = header.string("general.architecture").map_err(malformed)?;
    if architecture != "llama" {
        return Err(LoadError::Architecture {
            path: path.to_owned(),
            name: architecture.to_owned(),
            known: KNOWN_ARCHITECTURES,
        });
    }
    let key = |suffix: &str| format!("{architecture}.{suffix}");
    let size = |suffix: &str| header.size(&key(suffix)).map_err(malformed);
    if let Some(value) = header.metadata.get(&key("rope.scaling.type"))
        && !matches!(value, Value::String(kind) if kind == "none")
    {
        let what = format!("rope scaling {value:?}");
        return Err(LoadError::Unsupported { path: path.to_owned(), what });
    }
    let (hidden_size, heads) = (size("embedding_length")?, size("attention.head_count")?);
    let head_dim = match header.metadata.contains_key(&key("attention.key_length")) {
        true => size("attention.key_length")?,
        false => hidden_size.checked_div(heads).unwrap_or(0),
    };
    let kv_heads = match header.metadata.contains_key(&key("attention.head_count_kv")) {
        true => size("attention.head_count_kv")?,
        false => heads,
    };
    let token_id = |name: &str| header.metadata.get(name).and_then(Value::as_u32);
    let mut eos_token_ids: Vec<u32> = Vec::new();
    for name in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
        eos_token_ids.extend(token_id(name).filter(|id| !eos_token_ids.contains(id)));
    }
    let config = DecoderConfig {
        vocab_size: header.strings("tokenizer.ggml.tokens").map_err(malformed)?.len(),
        hidden_size,
        intermediate_size: size("feed_forward_length")?,
        num_hidden_layers: size("block_count")?,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim,
        rms_norm_eps: header.float(&key("attention.layer_norm_rms_epsilon")).map_err(malformed)?,
        rope_theta: match header.metadata.contains_key(&key("rope.freq_base")) {
            true => header.float(&key("rope.freq_base")).map_err(malformed)?,
            false => 10_000.0,
        },
        max_position_embeddings: size("context_length")?,
        tie_word_embeddings: !header.tensors.contains_key("output.weight"),
        bos_token_id: token_id("tokenizer.ggml.bos_token_id"),
        eos_token_ids,
    };
    config.validate().map_err(malformed)?;
    Ok(config)
}
