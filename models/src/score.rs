//! Log-probabilities of given tokens, by one forward pass.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use crate::decoder::{Decoder, PackedAttention, Rotation, Segment};
use crate::generate::GenerateError;
use crate::generator::Distribution;
use crate::learner::kernels::Kernels;

/// log p(completion[i] | prompt, completion[..i]) under the raw softmax.
pub(crate) fn score<B: Kernels>(
    decoder: &Decoder<B>,
    device: &B::Device,
    version: u64,
    prompt: &[u32],
    completion: &[u32],
) -> Result<Vec<f32>, GenerateError> {
    /// Rows of logits on the host at a time: bounds memory for long completions.
    const ROWS: usize = 256;
    if prompt.is_empty() {
        return Err(GenerateError::EmptyPrompt);
    }
    let vocab = decoder.config.vocab_size;
    let tokens = prompt.len() + completion.len();
    if tokens > decoder.config.max_position_embeddings {
        let context = decoder.config.max_position_embeddings;
        return Err(GenerateError::PromptTooLong { prompt: tokens, context });
    }
    if let Some(&id) = prompt.iter().chain(completion).find(|&&id| id as usize >= vocab) {
        return Err(GenerateError::UnknownToken { id, vocab });
    }
    if completion.is_empty() {
        return Ok(Vec::new());
    }
    // The last token is predicted but predicts nothing.
    let inputs = tokens - 1;
    let ids: Vec<u32> = prompt.iter().chain(completion).copied().take(inputs).collect();
    let rotation = Rotation::new(&decoder.config, &(0..inputs).collect::<Vec<_>>(), device);
    let mut attention = PackedAttention::new(vec![Segment { tokens: 0..inputs, prefix: None }], &decoder.config);
    let hidden = decoder.forward_hidden(id_tensor(&ids, device), &rotation, &mut attention);
    let mut logprobs = Vec::with_capacity(completion.len());
    for (chunk, wanted) in completion.chunks(ROWS).enumerate() {
        let rows = hidden.clone().narrow(0, prompt.len() - 1 + chunk * ROWS, wanted.len());
        let logits: Vec<f32> = decoder.logits(rows).into_data().iter::<f32>().collect();
        for (row, &id) in logits.chunks_exact(vocab).zip(wanted) {
            let raw = Distribution::raw(row).ok_or(GenerateError::NonFinite { version })?;
            logprobs.push(raw.logprob(row[id as usize]));
        }
    }
    Ok(logprobs)
}

/// Token ids on the device.
pub(crate) fn id_tensor<B: Backend>(ids: &[u32], device: &B::Device) -> Tensor<B, 1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), device)
}
