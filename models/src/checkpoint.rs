//! Checkpoints: a Hugging Face directory that `transformers` opens, and beside the weights what training needs to go on.
//!
//! | file | content |
//! |---|---|
//! | `config.json`, `generation_config.json` | the decoder's shape, the ids that end a turn |
//! | `model.safetensors` | the parameters under Hugging Face's names and in its layouts, F32 |
//! | `tokenizer.json`, `tokenizer_config.json` | the tokenizer, its special tokens and the chat template |
//! | `optimizer.safetensors` | `first_moment.P` and `second_moment.P` for every parameter P, F32, in this crate's layouts |
//! | `trainer_state.json` | the number of accepted steps |

mod directory;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, View};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(crate) use self::directory::write_directory;
use crate::config::DecoderConfig;
use crate::load::NamedTensor;
use crate::text::PolicyText;
use crate::train::TrainError;

/// The optimiser's file.
pub(crate) const OPTIMIZER_FILE: &str = "optimizer.safetensors";
const TRAINER_FILE: &str = "trainer_state.json";

/// What is not a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainerState {
    /// Of this file and of [`OPTIMIZER_FILE`].
    pub(crate) format: u32,
    /// Accepted steps: the version of the weights.
    pub(crate) steps: u64,
}

/// The format this crate writes and reads.
const FORMAT: u32 = 1;

/// An error about `path`.
pub(crate) fn failed(path: &Path, reason: impl ToString) -> TrainError {
    TrainError::Checkpoint { path: path.display().to_string(), reason: reason.to_string() }
}

/// Writes `config.json` and `generation_config.json`.
pub(crate) fn write_config(dir: &Path, config: &DecoderConfig) -> Result<(), TrainError> {
    write_json(&dir.join("config.json"), &model_config(config))?;
    let generation = json!({
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_ids,
    });
    write_json(&dir.join("generation_config.json"), &generation)
}

fn model_config(config: &DecoderConfig) -> Value {
    let eos = match config.eos_token_ids.as_slice() {
        [] => Value::Null,
        [only] => json!(only),
        several => json!(several),
    };
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": null,
        "attention_bias": false,
        "attention_dropout": 0.0,
        "mlp_bias": false,
        "tie_word_embeddings": config.tie_word_embeddings,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": eos,
        "initializer_range": 0.02,
        "use_cache": true,
        "torch_dtype": "float32",
    })
}

/// Writes the tokenizer's files.
pub(crate) fn write_text(dir: &Path, text: &PolicyText) -> Result<(), TrainError> {
    let path = dir.join("tokenizer.json");
    let tokenizer = text.tokenizer_json().map_err(|error| failed(&path, error))?;
    std::fs::write(&path, tokenizer).map_err(|error| failed(&path, error))?;
    write_json(&dir.join("tokenizer_config.json"), &text.tokenizer_config())
}

/// Writes the step count.
pub(crate) fn write_steps(dir: &Path, steps: u64) -> Result<(), TrainError> {
    write_json(&dir.join(TRAINER_FILE), &TrainerState { format: FORMAT, steps })
}

/// Reads the step count.
pub(crate) fn read_steps(dir: &Path) -> Result<u64, TrainError> {
    let path = dir.join(TRAINER_FILE);
    let state: TrainerState = read_json(&path)?;
    if state.format != FORMAT {
        let reason =
            format!("format {} was written by another version of this program, which reads {FORMAT}", state.format);
        return Err(failed(&path, reason));
    }
    Ok(state.steps)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| failed(path, error))?;
    std::fs::write(path, text + "\n").map_err(|error| failed(path, error))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let bytes = std::fs::read(path).map_err(|error| failed(path, error))?;
    serde_json::from_slice(&bytes).map_err(|error| failed(path, error))
}

/// Writes `tensors` as F32, with the metadata that `transformers` asks for.
pub(crate) fn write_tensors(path: &Path, tensors: &[NamedTensor]) -> Result<(), TrainError> {
    let views = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(views, Some(metadata), path).map_err(|error| failed(path, error))?;
    share(path).map_err(|error| failed(path, error))
}

/// Makes a file as readable as its directory: the safetensors library keeps what it writes to the user alone.
#[cfg(unix)]
fn share(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let parent = path.parent().unwrap_or(Path::new("."));
    let mode = std::fs::metadata(parent)?.permissions().mode() & 0o666;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn share(_: &Path) -> std::io::Result<()> {
    Ok(())
}

impl View for &NamedTensor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        self.values.len() * size_of::<f32>()
    }
}
