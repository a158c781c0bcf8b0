//! A policy that says what it is told: a real [`Generate`] whose tokens come from a function of the prompt.
//!
//! For embedding, for tests of everything around the policy, and for trying task sets without a model. Its vocabulary is the 256 bytes
//! and an end-of-turn id.

use std::fmt;
use std::sync::Arc;

use rehearsal_models::{Completion, FinishReason, Generate, GenerateError, GenerationRequest, Weights};

use crate::codec::TextCodec;
use crate::pipeline::generator::GeneratorFactory;

/// The end-of-turn id.
const EOS: u32 = 256;

/// What the policy answers: from the prompt's text and the episode's seed to the completion's text.
pub type Script = Arc<dyn Fn(&str, u64) -> String + Send + Sync>;

/// A scripted policy.
#[derive(Clone)]
pub struct ScriptedPolicy {
    script: Script,
    max_batch: usize,
}

impl fmt::Debug for ScriptedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedPolicy").field("max_batch", &self.max_batch).finish_non_exhaustive()
    }
}

impl ScriptedPolicy {
    /// A policy that answers with `script`.
    pub fn new(script: impl Fn(&str, u64) -> String + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), max_batch: 64 }
    }

    /// Its decoder.
    pub fn generator(&self) -> GeneratorFactory {
        let policy = self.clone();
        Arc::new(move || {
            Ok(Box::new(ScriptedDecoder { policy: policy.clone(), rows: Vec::new(), version: 0 }) as Box<dyn Generate>)
        })
    }

    /// Weights it accepts: it has none.
    pub fn weights(&self) -> Weights {
        Weights::new(0, Arc::new(()))
    }

    /// Its codec: the prompt itself, a byte a token.
    pub fn codec(&self) -> Arc<dyn TextCodec> {
        Arc::new(ByteCodec)
    }
}

#[derive(Debug)]
struct ByteCodec;

impl TextCodec for ByteCodec {
    fn render(&self, user: &str) -> Result<String, String> {
        Ok(user.to_owned())
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[derive(Debug)]
struct Row {
    request: GenerationRequest,
    answer: Vec<u32>,
    versions: Vec<u64>,
}

#[derive(Debug)]
struct ScriptedDecoder {
    policy: ScriptedPolicy,
    rows: Vec<Row>,
    version: u64,
}

impl Generate for ScriptedDecoder {
    fn admit(&mut self, requests: Vec<GenerationRequest>) -> Result<(), GenerateError> {
        if self.rows.len() + requests.len() > self.policy.max_batch {
            return Err(GenerateError::BatchFull { capacity: self.policy.max_batch });
        }
        if requests.iter().any(|request| request.prompt_ids.is_empty()) {
            return Err(GenerateError::EmptyPrompt);
        }
        for request in requests {
            let prompt = ByteCodec.decode(&request.prompt_ids);
            let text = (self.policy.script)(&prompt, request.sampling.seed);
            let answer = text.bytes().map(u32::from).chain([EOS]).collect();
            self.rows.push(Row { request, answer, versions: Vec::new() });
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Vec<Completion>, GenerateError> {
        for row in &mut self.rows {
            row.versions.push(self.version);
        }
        let is_done = |row: &mut Row| row.versions.len() >= row.answer.len().min(row.request.sampling.max_tokens);
        Ok(self.rows.extract_if(.., is_done).map(finish).collect())
    }

    fn active(&self) -> usize {
        self.rows.len()
    }

    fn capacity(&self) -> usize {
        self.policy.max_batch
    }

    fn cancel(&mut self, id: u64) {
        self.rows.retain(|row| row.request.id != id);
    }

    fn set_weights(&mut self, weights: &Weights) -> Result<(), GenerateError> {
        self.version = weights.version();
        Ok(())
    }

    fn version(&self) -> u64 {
        self.version
    }
}

fn finish(row: Row) -> Completion {
    let n_tokens = row.versions.len();
    let completion_ids: Vec<u32> = row.answer[..n_tokens].to_vec();
    let ended = completion_ids.last() == Some(&EOS);
    Completion {
        id: row.request.id,
        completion_ids,
        // It always says exactly this: probability 1.
        logprobs: vec![0.0; n_tokens],
        sampling_logprobs: vec![0.0; n_tokens],
        versions: row.versions,
        finish_reason: if ended { FinishReason::Eos } else { FinishReason::MaxTokens },
    }
}
