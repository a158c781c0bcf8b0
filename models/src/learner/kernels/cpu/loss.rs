//! Log-probabilities from logits, and back.

use burn::tensor::Tensor;
use burn_flex::Flex;
use rayon::prelude::*;

use super::vector::{LANES, exp, max, vectorised};
use super::{Values, ValuesMut};
use crate::learner::kernels::RowStatistics;

/// Values summed in f32 before they go to f64.
const RUN: usize = 1024;

/// (log Σ exp(z/T), softmax-weighted mean of z/T).
#[inline(always)]
fn log_sum_exp(logits: &[f32], temperature: f32) -> (f64, f64) {
    let inverse = temperature.recip();
    let peak = max(logits) * inverse;
    let (mut sum, mut weighted) = (0.0_f64, 0.0_f64);
    for run in logits.chunks(RUN) {
        let (mut sums, mut means) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        let mut chunks = run.chunks_exact(LANES);
        for chunk in &mut chunks {
            add_terms(chunk, inverse, peak, &mut sums, &mut means);
        }
        add_terms(chunks.remainder(), inverse, peak, &mut sums, &mut means);
        sum += f64::from(sums.iter().sum::<f32>());
        weighted += f64::from(means.iter().sum::<f32>());
    }
    (sum.ln() + f64::from(peak), weighted / sum + f64::from(peak))
}

/// Adds exp(d) and exp(d)·d, d = z·inverse − peak, lane by lane.
#[inline(always)]
fn add_terms(logits: &[f32], inverse: f32, peak: f32, sums: &mut [f32; LANES], means: &mut [f32; LANES]) {
    for ((logit, sum), mean) in logits.iter().zip(sums).zip(means) {
        let shifted = logit.mul_add(inverse, -peak);
        let term = exp(shifted);
        *sum += term;
        *mean = term.mul_add(shifted, *mean);
    }
}

fn statistics(logits: &[f32], target: usize, temperature: f32) -> RowStatistics {
    vectorised(
        #[inline(always)]
        || {
            let (raw, mean) = log_sum_exp(logits, 1.0);
            let (tempered, mean) = if temperature == 1.0 { (raw, mean) } else { log_sum_exp(logits, temperature) };
            let target = f64::from(logits[target]);
            RowStatistics {
                raw_logprob: target - raw,
                logprob: target / f64::from(temperature) - tempered,
                entropy: tempered - mean,
                log_sum_exp: tempered,
            }
        },
    )
}

pub(super) fn row_statistics(logits: &Tensor<Flex, 2>, targets: &[u32], temperature: f32) -> Vec<RowStatistics> {
    let vocab = logits.dims()[1];
    let logits = Values::of(logits);
    let rows = logits.as_slice().par_chunks(vocab).zip(targets);
    rows.map(|(row, &target)| statistics(row, target as usize, temperature)).collect()
}

pub(super) fn logits_backward(
    logits: Tensor<Flex, 2>,
    targets: &[u32],
    temperature: f32,
    statistics: &[RowStatistics],
    gradient: &[f64],
) -> Tensor<Flex, 2> {
    let vocab = logits.dims()[1];
    let mut logits = ValuesMut::of(logits);
    let rows = logits.as_mut_slice().par_chunks_mut(vocab).zip(targets).zip(statistics).zip(gradient);
    rows.for_each(|(((row, &target), statistics), &gradient)| {
        let inverse = temperature.recip();
        let factor = (gradient / f64::from(temperature)) as f32;
        let log_sum = statistics.log_sum_exp as f32;
        vectorised(
            #[inline(always)]
            || {
                for value in row.iter_mut() {
                    *value = -factor * exp(value.mul_add(inverse, -log_sum));
                }
            },
        );
        row[target as usize] += factor;
    });
    logits.into_tensor()
}
