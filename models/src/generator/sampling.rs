//! The next token: drawn on the host, from a request's own random stream.

use rand::Rng;
use rand_chacha::ChaCha12Rng;

use super::kernel::exp;
use crate::generate::Sampling;

/// A softmax's normaliser: log p = (logit − max) / temperature − log Σ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distribution {
    max: f32,
    temperature: f64,
    log_sum: f64,
}

impl Distribution {
    /// The raw softmax of `logits`; `None` where one is NaN or infinite.
    pub(crate) fn raw(logits: &[f32]) -> Option<Self> {
        let max = finite_max(logits)?;
        let sum = chunk_sums(logits, max, 1.0);
        Some(Self { max, temperature: 1.0, log_sum: sum.iter().sum::<f64>().ln() })
    }

    /// The log-probability of a token with this logit.
    pub(crate) fn logprob(&self, logit: f32) -> f32 {
        (f64::from(logit - self.max) / self.temperature - self.log_sum) as f32
    }
}

/// The largest logit, if all are finite.
fn finite_max(logits: &[f32]) -> Option<f32> {
    pulp::Arch::new().dispatch(FiniteMax(logits))
}

/// Tasks that are compiled once for each instruction set and chosen at run time (see `kernel`).
struct FiniteMax<'a>(&'a [f32]);

impl pulp::NullaryFnOnce for FiniteMax<'_> {
    type Output = Option<f32>;

    #[inline(always)]
    fn call(self) -> Option<f32> {
        let mut peaks = [f32::NEG_INFINITY; LANES];
        let mut finite = true;
        let chunks = self.0.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (peak, &logit) in peaks.iter_mut().zip(chunk) {
                *peak = if logit > *peak { logit } else { *peak };
                finite &= logit.is_finite();
            }
        }
        let max = peaks.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
        (finite && rest.iter().all(|logit| logit.is_finite()) && !self.0.is_empty()).then_some(max)
    }
}

/// Values added in f32 before the sum goes on in f64.
const CHUNK: usize = 256;

/// Partial sums kept side by side.
const LANES: usize = 16;

/// Σ exp((logit − max) · scale) of each chunk.
fn chunk_sums(logits: &[f32], max: f32, scale: f32) -> Vec<f64> {
    pulp::Arch::new().dispatch(ChunkSums { logits, max, scale })
}

struct ChunkSums<'a> {
    logits: &'a [f32],
    max: f32,
    scale: f32,
}

impl pulp::NullaryFnOnce for ChunkSums<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn call(self) -> Vec<f64> {
        let Self { logits, max, scale } = self;
        let mut sums = Vec::with_capacity(logits.len().div_ceil(CHUNK));
        for chunk in logits.chunks(CHUNK) {
            let mut lanes = [0.0_f32; LANES];
            let parts = chunk.chunks_exact(LANES);
            let mut rest = 0.0;
            for &logit in parts.remainder() {
                rest += exp((logit - max) * scale);
            }
            for part in parts {
                for (lane, &logit) in lanes.iter_mut().zip(part) {
                    *lane += exp((logit - max) * scale);
                }
            }
            sums.push(f64::from(lanes.iter().sum::<f32>() + rest));
        }
        sums
    }
}

/// A sampled token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drawn {
    pub(super) id: u32,
    /// Under the raw softmax.
    pub(super) logprob: f32,
    /// Under what was sampled from.
    pub(super) sampling_logprob: f32,
}

/// Draws a token; `None` where a logit is NaN or infinite.
pub(super) fn draw(logits: &[f32], sampling: &Sampling, random: &mut ChaCha12Rng) -> Option<Drawn> {
    let raw = Distribution::raw(logits)?;
    // Also the limit of ever smaller temperatures: all probability on the first of the largest logits.
    if sampling.temperature <= 0.0 {
        let id = logits.iter().position(|&logit| logit == raw.max)?;
        return Some(Drawn { id: id as u32, logprob: raw.logprob(logits[id]), sampling_logprob: 0.0 });
    }
    let uniform: f64 = random.random();
    let (id, kept) = if sampling.top_p < 1.0 {
        draw_nucleus(logits, &raw, sampling, uniform)
    } else {
        draw_all(logits, &raw, sampling, uniform)
    };
    let logit = logits[id];
    Some(Drawn { id: id as u32, logprob: raw.logprob(logit), sampling_logprob: kept.logprob(logit) })
}

/// Inverse-transform sampling over the whole vocabulary, in the order of ids.
fn draw_all(logits: &[f32], raw: &Distribution, sampling: &Sampling, uniform: f64) -> (usize, Distribution) {
    let (max, scale) = (raw.max, sampling.temperature.recip());
    let weight = |logit: f32| exp((logit - max) * scale);
    let sums = chunk_sums(logits, max, scale);
    let total: f64 = sums.iter().sum();
    let mut left = uniform * total;
    let mut chosen = sums.len() - 1;
    for (chunk, sum) in sums.iter().enumerate() {
        if left < *sum {
            chosen = chunk;
            break;
        }
        left -= sum;
    }
    let start = chosen * CHUNK;
    let chunk = &logits[start..logits.len().min(start + CHUNK)];
    let id = start + walk(chunk.iter().map(|&logit| f64::from(weight(logit))), left);
    let temperature = f64::from(sampling.temperature);
    (id, Distribution { max, temperature, log_sum: total.ln() })
}

/// The smallest set of most likely tokens whose probability reaches `top_p`, then a draw from it.
fn draw_nucleus(logits: &[f32], raw: &Distribution, sampling: &Sampling, uniform: f64) -> (usize, Distribution) {
    let (max, scale) = (raw.max, sampling.temperature.recip());
    let mut weights: Vec<(f32, u32)> =
        logits.iter().zip(0..).map(|(&logit, id)| (exp((logit - max) * scale), id)).collect();
    let total: f64 = weights.iter().map(|(weight, _)| f64::from(*weight)).sum();
    let wanted = f64::from(sampling.top_p) * total;
    // Most likely first, ties by id, so that the set is the same whatever the sort does inside.
    let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let mut sorted = 0;
    let mut kept = 0;
    let mut sum = 0.0;
    while kept == 0 || (sum < wanted && kept < weights.len()) {
        if kept == sorted {
            // Sort a few more: a nucleus is mostly small, and sorting all would cost more than the decode step's other work.
            sorted = (sorted * 4).clamp(256, weights.len().max(256)).min(weights.len());
            let rest = &mut weights[kept..];
            if sorted - kept < rest.len() {
                rest.select_nth_unstable_by(sorted - kept, order);
            }
            weights[kept..sorted].sort_unstable_by(order);
        }
        sum += f64::from(weights[kept].0);
        kept += 1;
    }
    let nucleus = &weights[..kept];
    let index = walk(nucleus.iter().map(|(weight, _)| f64::from(*weight)), uniform * sum);
    let temperature = f64::from(sampling.temperature);
    (nucleus[index].1 as usize, Distribution { max, temperature, log_sum: sum.ln() })
}

/// The index where the running sum of `weights` passes `target`; rounding at the very end falls on the last positive one.
fn walk(weights: impl Iterator<Item = f64>, mut target: f64) -> usize {
    let mut last = 0;
    for (index, weight) in weights.enumerate() {
        if weight > 0.0 {
            last = index;
            if target < weight {
                break;
            }
        }
        target -= weight;
    }
    last
}
