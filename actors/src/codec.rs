//! Text to tokens and back, as the rollout stage needs it.

use std::fmt;

use rehearsal_models::{Message, PolicyText};

/// Renders a task's prompt with the policy's chat template, and goes between text and token ids.
pub trait TextCodec: Send + Sync + fmt::Debug {
    /// The prompt text of one user message, the generation prompt at its end.
    fn render(&self, user: &str) -> Result<String, String>;
    /// Token ids of rendered text; special tokens in it are recognised.
    fn encode(&self, text: &str) -> Result<Vec<u32>, String>;
    /// Text of token ids, special tokens left out.
    fn decode(&self, ids: &[u32]) -> String;
}

impl TextCodec for PolicyText {
    fn render(&self, user: &str) -> Result<String, String> {
        PolicyText::render(self, &[Message::new("user", user)]).map_err(|error| error.to_string())
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        PolicyText::encode(self, text).map_err(|error| error.to_string())
    }

    fn decode(&self, ids: &[u32]) -> String {
        PolicyText::decode_visible(self, ids)
    }
}
