//! Text in, token ids out, and back: tokenizer, chat template, end-of-turn ids.

mod template;

use std::fmt;

use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;

use self::template::ChatTemplate;

/// One message of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// Why text and tokens could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The policy's files hold no chat template.
    #[error("the policy has no chat template")]
    NoTemplate,
    /// The template refused these messages.
    #[error("the policy's chat template: {0}")]
    Template(String),
    /// The tokenizer refused the text.
    #[error("the policy's tokenizer: {0}")]
    Tokenizer(String),
}

/// What a weights file says about text.
#[derive(Debug)]
pub(crate) struct TextParts {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) chat_template: Option<String>,
    pub(crate) bos_token: Option<String>,
    pub(crate) eos_token: Option<String>,
    pub(crate) stop_ids: Vec<u32>,
}

/// The policy's text side. It has no tensors, so every thread may hold it.
pub struct PolicyText {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    bos_token: Option<String>,
    eos_token: Option<String>,
    stop_ids: Vec<u32>,
}

impl PolicyText {
    pub(crate) fn new(parts: TextParts) -> Result<Self, String> {
        let template = parts.chat_template.map(ChatTemplate::new).transpose()?;
        Ok(Self {
            tokenizer: parts.tokenizer,
            template,
            bos_token: parts.bos_token,
            eos_token: parts.eos_token,
            stop_ids: parts.stop_ids,
        })
    }

    /// The tokens of `text`. Special tokens written out in it are recognised; none are added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|e| TextError::Tokenizer(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of `ids`, special tokens written out. Ids outside the vocabulary give nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.decode_with(ids, false)
    }

    /// The text of `ids` without special tokens.
    pub fn decode_visible(&self, ids: &[u32]) -> String {
        self.decode_with(ids, true)
    }

    fn decode_with(&self, ids: &[u32], skip_special_tokens: bool) -> String {
        // A byte-level decoder has no failing input; another one that fails has nothing to show.
        self.tokenizer.decode(ids, skip_special_tokens).unwrap_or_default()
    }

    /// The chat as the policy's own template writes it, ending where the assistant begins to speak.
    pub fn render(&self, messages: &[Message]) -> Result<String, TextError> {
        let template = self.template.as_ref().ok_or(TextError::NoTemplate)?;
        template.render(messages, self.bos_token.as_deref(), self.eos_token.as_deref()).map_err(TextError::Template)
    }

    /// The ids that end a turn.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// The tokenizer as a `tokenizer.json`.
    pub fn tokenizer_json(&self) -> Result<String, TextError> {
        self.tokenizer.to_string(true).map_err(|e| TextError::Tokenizer(e.to_string()))
    }

    /// A `tokenizer_config.json` that `transformers` opens: chat template and special tokens.
    pub fn tokenizer_config(&self) -> serde_json::Value {
        serde_json::json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": false,
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            "pad_token": self.eos_token,
            "chat_template": self.template.as_ref().map(ChatTemplate::source),
        })
    }
}

impl fmt::Debug for PolicyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyText").field("stop_ids", &self.stop_ids).finish_non_exhaustive()
    }
}
