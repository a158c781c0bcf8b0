//! What every weights file offers, and how its tensors become a decoder.

use std::path::{Path, PathBuf};

use burn::module::Param;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::config::DecoderConfig;
use crate::decoder::{Decoder, FeedForward, Layer, RmsNorm, SelfAttention};
use crate::device::DeviceError;

/// Why a policy could not be loaded. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Neither a GGUF file nor a Hugging Face directory.
    #[error("{path}: {reason}")]
    NotAPolicy {
        /// The path given.
        path: PathBuf,
        /// What was expected there.
        reason: String,
    },
    /// Reading failed.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The file is not what its name says, or is cut off.
    #[error("{path} is malformed: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// A model this crate has no code for.
    #[error("{path}: architecture `{name}` is not supported; known: {known}")]
    Architecture {
        /// The file that names it.
        path: PathBuf,
        /// The architecture.
        name: String,
        /// The supported ones.
        known: &'static str,
    },
    /// A known architecture with an option this crate has no code for.
    #[error("{path}: {what} is not supported")]
    Unsupported {
        /// The file that asks for it.
        path: PathBuf,
        /// The option and its value.
        what: String,
    },
    /// A tensor is missing, has another shape, or cannot be read.
    #[error("{path}: tensor `{tensor}` {reason}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name in that file.
        tensor: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The tokenizer or chat template cannot be built.
    #[error("{path}: tokenizer: {reason}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl LoadError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, reason: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn tensor(path: &Path, tensor: &str, reason: impl Into<String>) -> Self {
        Self::Tensor { path: path.to_owned(), tensor: tensor.to_owned(), reason: reason.into() }
    }

    pub(crate) fn tokenizer(path: &Path, reason: impl ToString) -> Self {
        Self::Tokenizer { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// A weights file that hands out tensors by their Hugging Face names.
pub(crate) trait TensorSource {
    /// The values of `name`, row-major in Hugging Face's layout (linear weights `[out, in]`), de-quantised to f32.
    ///
    /// # Errors
    /// The tensor is missing, its shape is not `shape`, or it cannot be read.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError>;
}

/// A tensor on the host under its Hugging Face name, in Hugging Face's layout.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// Such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Linear weights are `[out, in]`.
    pub shape: Vec<usize>,
    /// Row-major.
    pub values: Vec<f32>,
}

const EMBEDDING: &str = "model.embed_tokens.weight";
const FINAL_NORM: &str = "model.norm.weight";
const HEAD: &str = "lm_head.weight";

impl<B: Backend> Decoder<B> {
    /// Reads every parameter from `source`.
    pub(crate) fn from_source(
        config: DecoderConfig,
        source: &mut dyn TensorSource,
        device: &B::Device,
    ) -> Result<Self, LoadError> {
        let mut reader = Reader { source, device };
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let embedding = reader.source.tensor(EMBEDDING, &[vocab, hidden])?;
        let embedding = parameter(embedding, [vocab, hidden], device);
        let layers =
            (0..config.num_hidden_layers).map(|index| reader.layer(index, &config)).collect::<Result<_, _>>()?;
        let norm = reader.norm(FINAL_NORM, &config)?;
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(reader.linear(&[(HEAD.to_owned(), vocab)], hidden)?),
        };
        Ok(Self { embedding, layers, norm, head, config })
    }

    /// Every parameter on the host, under its Hugging Face name and in that layout; the inverse of loading.
    pub fn to_named_tensors(&self) -> Vec<NamedTensor> {
        let config = &self.config;
        let hidden = config.hidden_size;
        let mut all = vec![NamedTensor {
            name: EMBEDDING.to_owned(),
            shape: vec![config.vocab_size, hidden],
            values: host(self.embedding.val()),
        }];
        for (index, layer) in self.layers.iter().enumerate() {
            let attention = &layer.attention;
            split(&mut all, host(attention.qkv.val()), &qkv_parts(index, config), hidden);
            split(&mut all, host(attention.output.val()), &output_parts(index, config), config.query_size());
            split(&mut all, host(layer.feed_forward.gate_up.val()), &gate_up_parts(index, config), hidden);
            split(&mut all, host(layer.feed_forward.down.val()), &down_parts(index, config), config.intermediate_size);
            all.push(norm_tensor(attention_norm_name(index), &layer.attention_norm));
            all.push(norm_tensor(feed_forward_norm_name(index), &layer.feed_forward_norm));
        }
        all.push(norm_tensor(FINAL_NORM.to_owned(), &self.norm));
        if let Some(head) = &self.head {
            split(&mut all, host(head.val()), &[(HEAD.to_owned(), config.vocab_size)], hidden);
        }
        all
    }
}

/// Name and output width of each linear layer stored side by side in one parameter.
type Parts = Vec<(String, usize)>;

fn qkv_parts(layer: usize, config: &DecoderConfig) -> Parts {
    let name = |part: &str| format!("model.layers.{layer}.self_attn.{part}_proj.weight");
    vec![(name("q"), config.query_size()), (name("k"), config.kv_size()), (name("v"), config.kv_size())]
}

fn output_parts(layer: usize, config: &DecoderConfig) -> Parts {
    vec![(format!("model.layers.{layer}.self_attn.o_proj.weight"), config.hidden_size)]
}

fn gate_up_parts(layer: usize, config: &DecoderConfig) -> Parts {
    let name = |part: &str| format!("model.layers.{layer}.mlp.{part}_proj.weight");
    vec![(name("gate"), config.intermediate_size), (name("up"), config.intermediate_size)]
}

fn down_parts(layer: usize, config: &DecoderConfig) -> Parts {
    vec![(format!("model.layers.{layer}.mlp.down_proj.weight"), config.hidden_size)]
}

fn attention_norm_name(layer: usize) -> String {
    format!("model.layers.{layer}.input_layernorm.weight")
}

fn feed_forward_norm_name(layer: usize) -> String {
    format!("model.layers.{layer}.post_attention_layernorm.weight")
}

struct Reader<'a, B: Backend> {
    source: &'a mut dyn TensorSource,
    device: &'a B::Device,
}

impl<B: Backend> Reader<'_, B> {
    fn layer(&mut self, index: usize, config: &DecoderConfig) -> Result<Layer<B>, LoadError> {
        let hidden = config.hidden_size;
        Ok(Layer {
            attention_norm: self.norm(&attention_norm_name(index), config)?,
            attention: SelfAttention {
                qkv: self.linear(&qkv_parts(index, config), hidden)?,
                output: self.linear(&output_parts(index, config), config.query_size())?,
            },
            feed_forward_norm: self.norm(&feed_forward_norm_name(index), config)?,
            feed_forward: FeedForward {
                gate_up: self.linear(&gate_up_parts(index, config), hidden)?,
                down: self.linear(&down_parts(index, config), config.intermediate_size)?,
            },
        })
    }

    fn norm(&mut self, name: &str, config: &DecoderConfig) -> Result<RmsNorm<B>, LoadError> {
        let values = self.source.tensor(name, &[config.hidden_size])?;
        Ok(RmsNorm { weight: parameter(values, [config.hidden_size], self.device), epsilon: config.rms_norm_eps })
    }

    /// Linear layers of the same input, side by side as `[inputs, Σ outputs]`.
    fn linear(&mut self, parts: &[(String, usize)], inputs: usize) -> Result<Param<Tensor<B, 2>>, LoadError> {
        let mut rows = Vec::new();
        for (name, outputs) in parts {
            rows.extend(self.source.tensor(name, &[*outputs, inputs])?);
        }
        let outputs = rows.len() / inputs;
        Ok(parameter(transposed(&rows, outputs, inputs), [inputs, outputs], self.device))
    }
}

fn parameter<B: Backend, const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    device: &B::Device,
) -> Param<Tensor<B, D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}

fn host<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

fn norm_tensor<B: Backend>(name: String, norm: &RmsNorm<B>) -> NamedTensor {
    let values = host(norm.weight.val());
    NamedTensor { name, shape: vec![values.len()], values }
}

/// Takes `[inputs, Σ outputs]` apart into `[outputs, inputs]` each.
fn split(all: &mut Vec<NamedTensor>, values: Vec<f32>, parts: &[(String, usize)], inputs: usize) {
    let total = values.len() / inputs;
    let rows = transposed(&values, inputs, total);
    let mut start = 0;
    for (name, outputs) in parts {
        let end = start + outputs * inputs;
        all.push(NamedTensor { name: name.clone(), shape: vec![*outputs, inputs], values: rows[start..end].to_vec() });
        start = end;
    }
}

/// `[rows, columns]` to `[columns, rows]`, in tiles that fit a cache.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const TILE: usize = 32;
    let mut out = vec![0.0; values.len()];
    for row_tile in (0..rows).step_by(TILE) {
        for column_tile in (0..columns).step_by(TILE) {
            for row in row_tile..rows.min(row_tile + TILE) {
                for column in column_tile..columns.min(column_tile + TILE) {
                    out[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    out
}
