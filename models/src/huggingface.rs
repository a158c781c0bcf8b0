//! Hugging Face directories: `config.json`, safetensors (one file or shards), `tokenizer.json`, chat template.

mod config;
pub(crate) mod safetensors;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::Tokenizer;

use self::safetensors::Shards;
use crate::config::DecoderConfig;
use crate::load::{LoadError, TensorSource};
use crate::text::TextParts;

/// An opened directory.
#[derive(Debug)]
pub(crate) struct HuggingFaceDir {
    dir: PathBuf,
    config: DecoderConfig,
    shards: Shards,
}

impl HuggingFaceDir {
    pub(crate) fn open(dir: &Path) -> Result<Self, LoadError> {
        let config_path = dir.join("config.json");
        if !config_path.is_file() {
            return Err(LoadError::NotAPolicy {
                path: dir.to_owned(),
                reason: "this directory holds no policy: `config.json`, `model.safetensors` and `tokenizer.json` are \
                         expected in it"
                    .into(),
            });
        }
        let mut config = config::read(&config_path)?;
        if let Some(generation) = optional_json(&dir.join("generation_config.json"))? {
            // It is what `generate` stops at, and often lists more ids than config.json.
            let ids = config::token_ids(&generation["eos_token_id"]);
            if !ids.is_empty() {
                config.eos_token_ids = ids;
            }
        }
        config.validate().map_err(|reason| LoadError::malformed(&config_path, reason))?;
        let shards = Shards::open(dir)?;
        Ok(Self { dir: dir.to_owned(), config, shards })
    }

    pub(crate) fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Tokenizer and chat template.
    pub(crate) fn text_parts(&self) -> Result<TextParts, LoadError> {
        let path = self.dir.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|e| LoadError::io(&path, e))?;
        let tokenizer = Tokenizer::from_bytes(bytes).map_err(|e| LoadError::tokenizer(&path, e))?;
        let settings = optional_json(&self.dir.join("tokenizer_config.json"))?.unwrap_or(Value::Null);
        let mut stop_ids = self.config.eos_token_ids.clone();
        let eos_token = token_text(&settings["eos_token"]);
        let eos_id = eos_token.as_deref().and_then(|token| tokenizer.token_to_id(token));
        stop_ids.extend(eos_id.filter(|id| !stop_ids.contains(id)));
        Ok(TextParts {
            tokenizer,
            chat_template: self.chat_template(&settings)?,
            bos_token: token_text(&settings["bos_token"]),
            eos_token,
            stop_ids,
        })
    }

    /// `chat_template.jinja` before the `chat_template` of `tokenizer_config.json` (a string, or a list of named ones).
    fn chat_template(&self, settings: &Value) -> Result<Option<String>, LoadError> {
        let path = self.dir.join("chat_template.jinja");
        match std::fs::read_to_string(&path) {
            Ok(template) => return Ok(Some(template)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(LoadError::io(&path, e)),
        }
        let template = match &settings["chat_template"] {
            Value::String(template) => Some(template.clone()),
            Value::Array(named) => named
                .iter()
                .find(|entry| entry["name"] == "default")
                .and_then(|entry| entry["template"].as_str())
                .map(str::to_owned),
            _ => None,
        };
        Ok(template)
    }
}

impl TensorSource for HuggingFaceDir {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        self.shards.tensor(name, shape)
    }
}

/// A special token: a string, or an object with `content`.
fn token_text(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned)
}

fn read_json(path: &Path) -> Result<Value, LoadError> {
    let bytes = std::fs::read(path).map_err(|e| LoadError::io(path, e))?;
    serde_json::from_slice(&bytes).map_err(|e| LoadError::malformed(path, e.to_string()))
}

fn optional_json(path: &Path) -> Result<Option<Value>, LoadError> {
    if path.exists() { read_json(path).map(Some) } else { Ok(None) }
}
