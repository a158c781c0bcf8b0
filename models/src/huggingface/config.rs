//! `config.json`.

use std::path::Path;

use serde_json::Value;

use super::read_json;
use crate::config::DecoderConfig;
use crate::load::LoadError;

/// Architectures this crate has code for, by Hugging Face's class name.
const KNOWN_ARCHITECTURES: &str = "LlamaForCausalLM";

pub(super) fn read(path: &Path) -> Result<DecoderConfig, LoadError> {
    let json = read_json(path)?;
    let name = json["architectures"][0].as_str().unwrap_or("(none named)");
    if name != KNOWN_ARCHITECTURES {
        return Err(LoadError::Architecture {
            path: path.to_owned(),
            name: name.to_owned(),
            known: KNOWN_ARCHITECTURES,
        });
    }
    refuse_unsupported(path, &json)?;
    let malformed = |reason: String| LoadError::malformed(path, reason);
    let size = |key: &str| {
        let value = json[key].as_u64().and_then(|n| usize::try_from(n).ok());
        value.ok_or_else(|| malformed(format!("`{key}` is missing or not a size")))
    };
    let optional_size = |key: &str, otherwise: usize| match &json[key] {
        Value::Null => Ok(otherwise),
        _ => size(key),
    };
    let (hidden_size, heads) = (size("hidden_size")?, size("num_attention_heads")?);
    // Newer files keep the base of the rotary frequencies in `rope_parameters`.
    let rope_theta = json["rope_theta"].as_f64().or_else(|| json["rope_parameters"]["rope_theta"].as_f64());
    Ok(DecoderConfig {
        vocab_size: size("vocab_size")?,
        hidden_size,
        intermediate_size: size("intermediate_size")?,
        num_hidden_layers: size("num_hidden_layers")?,
        num_attention_heads: heads,
        num_key_value_heads: optional_size("num_key_value_heads", heads)?,
        head_dim: optional_size("head_dim", hidden_size.checked_div(heads).unwrap_or(0))?,
        rms_norm_eps: json["rms_norm_eps"].as_f64().unwrap_or(1e-6),
        rope_theta: rope_theta.unwrap_or(10_000.0),
        max_position_embeddings: size("max_position_embeddings")?,
        tie_word_embeddings: json["tie_word_embeddings"].as_bool().unwrap_or(false),
        bos_token_id: token_ids(&json["bos_token_id"]).first().copied(),
        eos_token_ids: token_ids(&json["eos_token_id"]),
    })
}

/// A token id or a list of them.
pub(super) fn token_ids(value: &Value) -> Vec<u32> {
    let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(values) => values.iter().filter_map(one).collect(),
        _ => one(value).into_iter().collect(),
    }
}

/// Options that would change the result and have no code here are refused, not ignored.
fn refuse_unsupported(path: &Path, json: &Value) -> Result<(), LoadError> {
    let refuse = |what: String| Err(LoadError::Unsupported { path: path.to_owned(), what });
    for key in ["rope_scaling", "rope_parameters"] {
        let scaling = &json[key];
        let kind = scaling["rope_type"].as_str().or_else(|| scaling["type"].as_str()).unwrap_or("default");
        if kind != "default" {
            return refuse(format!("`{key}` of type `{kind}`"));
        }
    }
    for key in ["attention_bias", "mlp_bias"] {
        if json[key] == Value::Bool(true) {
            return refuse(format!("`{key}: true`"));
        }
    }
    match json["hidden_act"].as_str() {
        None | Some("silu") => Ok(()),
        Some(other) => refuse(format!("`hidden_act: {other}`")),
    }
}
