//! From a step's groups to micro-batches: which tokens are forwarded together, and which rows predict what.
//!
//! The tokens of a micro-batch are packed: a prompt, then its completions, each of which sees the prompt and itself. A prompt
//! is forwarded once for all completions that fit the budget with it. Tokens that no trained token depends on are left out:
//! everything after a sequence's last trained token, that token itself (it is predicted, never read), and sequences without one.

use crate::decoder::Segment;
use crate::rl::Objective;
use crate::train::{TrainError, TrainGroup, TrainSequence};

/// One trained token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    /// The packed row whose logits predict it.
    pub(super) row: usize,
    /// The token.
    pub(super) id: u32,
    /// The generator's raw log-probability.
    pub(super) rollout_logprob: f64,
    /// logπ_old, unless the step is on-policy.
    pub(super) old_logprob: Option<f64>,
    /// A.
    pub(super) advantage: f64,
    /// The weight of its loss in the step's loss.
    pub(super) weight: f64,
}

/// Tokens that are forwarded together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MicroBatch {
    /// The packed tokens.
    pub(super) ids: Vec<u32>,
    /// Each token's place in its own sequence, prompt included.
    pub(super) positions: Vec<usize>,
    /// Prompts and completions, in row order; together they cover the rows.
    pub(super) segments: Vec<Segment>,
    /// The tokens in the loss, in row order within a completion.
    pub(super) targets: Vec<Target>,
}

/// Splits `groups` into micro-batches of at most `budget` tokens (a sequence that is longer with its prompt goes alone).
///
/// # Errors
/// A batch that is malformed, not finite, or without a trained token.
pub(super) fn micro_batches(
    groups: &[TrainGroup],
    objective: &Objective,
    vocab_size: usize,
    context: usize,
    budget: usize,
) -> Result<Vec<MicroBatch>, TrainError> {
    let mut trained = Vec::new();
    for (group_index, group) in groups.iter().enumerate() {
        check_group(group, group_index, vocab_size, context)?;
        trained.extend(group.sequences.iter().map(trained_tokens));
    }
    if trained.iter().all(|&tokens| tokens == 0) {
        return Err(TrainError::EmptyBatch);
    }
    let mut weights = objective.aggregation.sequence_weights(&trained).into_iter();
    let mut packer = Packer { budget, done: Vec::new(), current: MicroBatch::default() };
    for group in groups {
        let mut prompt = None;
        for (sequence, weight) in group.sequences.iter().zip(&mut weights) {
            if let Some(last) = sequence.loss_mask.iter().rposition(|&trained| trained) {
                prompt = Some(packer.add(&group.prompt_ids, prompt, sequence, last, weight));
            }
        }
    }
    packer.flush();
    Ok(packer.done)
}

fn trained_tokens(sequence: &TrainSequence) -> usize {
    sequence.loss_mask.iter().filter(|&&trained| trained).count()
}

/// Where a prompt lies: the micro-batch's number and the first row.
type PromptPlace = (usize, usize);

struct Packer {
    budget: usize,
    done: Vec<MicroBatch>,
    current: MicroBatch,
}

impl Packer {
    fn flush(&mut self) {
        if !self.current.ids.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
    }

    /// Adds a completion up to its `last` trained token, and its prompt unless that is already in the micro-batch.
    fn add(
        &mut self,
        prompt_ids: &[u32],
        prompt: Option<PromptPlace>,
        sequence: &TrainSequence,
        last: usize,
        weight: f64,
    ) -> PromptPlace {
        let here = prompt.filter(|&(batch, _)| batch == self.done.len());
        let needed = last + if here.is_some() { 0 } else { prompt_ids.len() };
        let full = needed > 0 && !self.current.ids.is_empty() && self.current.ids.len() + needed > self.budget;
        if full {
            self.flush();
        }
        let start = match here {
            Some((_, start)) if !full => start,
            _ => self.current.append(prompt_ids, 0, None),
        };
        let first =
            self.current.append(&sequence.completion_ids[..last], prompt_ids.len(), Some((start, prompt_ids.len())));
        let last_prompt_row = start + prompt_ids.len() - 1;
        let row = |token: usize| if token == 0 { last_prompt_row } else { first + token - 1 };
        let targets = (0..=last).filter(|&token| sequence.loss_mask[token]).map(|token| Target {
            row: row(token),
            id: sequence.completion_ids[token],
            rollout_logprob: f64::from(sequence.logprobs[token]),
            old_logprob: sequence.old_logprobs.as_ref().map(|old| f64::from(old[token])),
            advantage: sequence.advantage,
            weight,
        });
        self.current.targets.extend(targets);
        (self.done.len(), start)
    }
}

impl MicroBatch {
    /// Appends a segment (none for no tokens) and returns its first row.
    fn append(&mut self, ids: &[u32], first_position: usize, prefix: Option<(usize, usize)>) -> usize {
        let start = self.ids.len();
        if !ids.is_empty() {
            self.ids.extend(ids);
            self.positions.extend(first_position..first_position + ids.len());
            let prefix = prefix.map(|(start, length)| start..start + length);
            self.segments.push(Segment { tokens: start..start + ids.len(), prefix });
        }
        start
    }
}

fn check_group(group: &TrainGroup, index: usize, vocab_size: usize, context: usize) -> Result<(), TrainError> {
    let malformed = |what: String| Err(TrainError::Malformed(format!("group {index}: {what}")));
    if group.prompt_ids.is_empty() {
        return malformed("the prompt is empty, so nothing predicts the first token".into());
    }
    let completions = group.sequences.iter().flat_map(|sequence| &sequence.completion_ids);
    if let Some(id) = group.prompt_ids.iter().chain(completions).find(|&&id| id as usize >= vocab_size) {
        return malformed(format!("token id {id} is outside the vocabulary of {vocab_size}"));
    }
    for (number, sequence) in group.sequences.iter().enumerate() {
        let tokens = sequence.completion_ids.len();
        if group.prompt_ids.len() + tokens > context {
            let prompt = group.prompt_ids.len();
            return malformed(format!("sequence {number}: {prompt} + {tokens} tokens exceed the context of {context}"));
        }
        let lengths = [
            ("loss_mask", sequence.loss_mask.len()),
            ("logprobs", sequence.logprobs.len()),
            ("old_logprobs", sequence.old_logprobs.as_ref().map_or(tokens, Vec::len)),
        ];
        if let Some((name, length)) = lengths.into_iter().find(|&(_, length)| length != tokens) {
            return malformed(format!("sequence {number}: {name} has {length} entries for {tokens} tokens"));
        }
        check_finite(sequence)?;
    }
    Ok(())
}

/// Numbers under mask `false` are never read, so they may be anything.
fn check_finite(sequence: &TrainSequence) -> Result<(), TrainError> {
    if trained_tokens(sequence) == 0 {
        return Ok(());
    }
    if !sequence.advantage.is_finite() {
        return Err(TrainError::NonFinite { what: "advantage" });
    }
    let finite = |logprobs: &[f32]| {
        logprobs.iter().zip(&sequence.loss_mask).all(|(logprob, &trained)| !trained || logprob.is_finite())
    };
    if finite(&sequence.logprobs) && sequence.old_logprobs.as_deref().is_none_or(finite) {
        Ok(())
    } else {
        Err(TrainError::NonFinite { what: "logprob" })
    }
}
