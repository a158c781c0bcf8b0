//! The AdamW update in one pass.

use burn::tensor::Tensor;
use burn_flex::Flex;
use rayon::prelude::*;

use super::vector::vectorised;
use super::{Values, ValuesMut, tensor};
use crate::learner::kernels::{AdamStep, Updated};

const VALUES_PER_TASK: usize = 1 << 16;

pub(super) fn adamw(
    parameter: &Tensor<Flex, 1>,
    gradient: &Tensor<Flex, 1>,
    first_moment: Tensor<Flex, 1>,
    second_moment: Tensor<Flex, 1>,
    step: &AdamStep,
) -> Updated<Flex> {
    let count = parameter.dims()[0];
    let (old, gradient) = (Values::of(parameter), Values::of(gradient));
    let (mut first, mut second) = (ValuesMut::of(first_moment), ValuesMut::of(second_moment));
    // A generator may hold the old parameter, so the new one gets memory of its own.
    let mut new = vec![0.0; count];
    new.par_chunks_mut(VALUES_PER_TASK)
        .zip(first.as_mut_slice().par_chunks_mut(VALUES_PER_TASK))
        .zip(second.as_mut_slice().par_chunks_mut(VALUES_PER_TASK))
        .zip(old.as_slice().par_chunks(VALUES_PER_TASK))
        .zip(gradient.as_slice().par_chunks(VALUES_PER_TASK))
        .for_each(|((((new, first), second), old), gradient)| {
            vectorised(
                #[inline(always)]
                || update(new, first, second, old, gradient, step),
            );
        });
    Updated { parameter: tensor(new, [count]), first_moment: first.into_tensor(), second_moment: second.into_tensor() }
}

#[inline(always)]
fn update(new: &mut [f32], first: &mut [f32], second: &mut [f32], old: &[f32], gradient: &[f32], step: &AdamStep) {
    let (beta1, beta2) = (step.beta1 as f32, step.beta2 as f32);
    let (rest1, rest2) = ((1.0 - step.beta1) as f32, (1.0 - step.beta2) as f32);
    let scale = step.gradient_scale as f32;
    let keep = (1.0 - step.learning_rate * step.weight_decay) as f32;
    let rate = (step.learning_rate / step.correction1) as f32;
    let correction = step.correction2.recip() as f32;
    let epsilon = step.epsilon as f32;
    let values = new.iter_mut().zip(first).zip(second).zip(old).zip(gradient);
    for ((((new, first), second), old), gradient) in values {
        let gradient = gradient * scale;
        *first = beta1 * *first + rest1 * gradient;
        *second = beta2 * *second + rest2 * gradient * gradient;
        *new = keep * old - rate * *first / ((*second * correction).sqrt() + epsilon);
    }
}
