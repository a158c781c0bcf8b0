//! The shape of a Llama-family decoder, with the field names of Hugging Face's `config.json`.

use serde::{Deserialize, Serialize};

/// Everything that sizes a decoder. One parameterised family: variants differ in values, not in code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecoderConfig {
    /// Rows of the embedding; token ids are smaller.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the SwiGLU block.
    pub intermediate_size: usize,
    /// Blocks of attention and feed-forward.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; each serves `num_attention_heads / num_key_value_heads` query heads.
    pub num_key_value_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Added to the mean square inside RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Tokens of prompt and completion together.
    pub max_position_embeddings: usize,
    /// The output head is the embedding's transpose.
    pub tie_word_embeddings: bool,
    /// Beginning-of-sequence id, if the policy has one.
    pub bos_token_id: Option<u32>,
    /// Ids that end a turn.
    pub eos_token_ids: Vec<u32>,
}

impl DecoderConfig {
    /// Query heads per key/value head.
    pub fn group_size(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }

    /// Width of all query heads.
    pub fn query_size(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Width of all key (or value) heads.
    pub fn kv_size(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Checks what the decoder relies on: non-zero sizes, an even head, query heads a multiple of key/value heads.
    ///
    /// # Errors
    /// A sentence that names the field and its value.
    pub fn validate(&self) -> Result<(), String> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        for (name, size) in sizes {
            // 2^31 is far above any real model and keeps every product of two sizes inside 64 bits.
            if size == 0 || size > i32::MAX as usize {
                return Err(format!("{name} is {size}"));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return Err(format!(
                "num_attention_heads ({}) is not a multiple of num_key_value_heads ({})",
                self.num_attention_heads, self.num_key_value_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!("head_dim ({}) is odd, rotary embeddings need pairs", self.head_dim));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            return Err(format!("rms_norm_eps is {}", self.rms_norm_eps));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Err(format!("rope_theta is {}", self.rope_theta));
        }
        let ids = self.eos_token_ids.iter().chain(&self.bos_token_id);
        match ids.copied().find(|&id| id as usize >= self.vocab_size) {
            Some(id) => Err(format!("special token id {id} is outside the vocabulary of {}", self.vocab_size)),
            None => Ok(()),
        }
    }
}
