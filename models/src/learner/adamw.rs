//! AdamW with global-norm clipping and linear warm-up.

use burn::tensor::Tensor;

use super::kernels::{AdamStep, Kernels};
use super::parameters::Slot;
use crate::train::OptimizerConfig;

/// The optimiser's state: moments in slot order, and how many updates they have seen.
#[derive(Debug, Clone)]
pub(super) struct AdamW<B: Kernels> {
    pub(super) first_moments: Vec<Tensor<B, 1>>,
    pub(super) second_moments: Vec<Tensor<B, 1>>,
    pub(super) updates: u64,
}

impl<B: Kernels> AdamW<B> {
    /// The state before the first update.
    pub(super) fn new(slots: &[Slot], device: &B::Device) -> Self {
        let zeros = || slots.iter().map(|slot| Tensor::zeros([slot.len()], device)).collect();
        Self { first_moments: zeros(), second_moments: zeros(), updates: 0 }
    }

    /// The learning rate of the next update: rises linearly over the warm-up, whose last step is the first at the peak.
    pub(super) fn learning_rate(&self, config: &OptimizerConfig) -> f64 {
        let next = self.updates + 1;
        if next >= config.warmup_steps {
            return config.learning_rate;
        }
        config.learning_rate * next as f64 / config.warmup_steps as f64
    }

    /// Updates `parameters` with `gradients` of global L2 norm `norm`; returns the new parameters.
    pub(super) fn update(
        &mut self,
        slots: &[Slot],
        parameters: Vec<Tensor<B, 1>>,
        gradients: Vec<Option<Tensor<B, 1>>>,
        norm: f64,
        config: &OptimizerConfig,
    ) -> Vec<Tensor<B, 1>> {
        let learning_rate = self.learning_rate(config);
        self.updates += 1;
        let clips = config.max_grad_norm > 0.0 && norm > config.max_grad_norm;
        let correction = |beta: f64| 1.0 - beta.powf(self.updates as f64);
        let mut step = AdamStep {
            learning_rate,
            beta1: config.beta1,
            beta2: config.beta2,
            epsilon: config.epsilon,
            weight_decay: 0.0,
            gradient_scale: if clips { config.max_grad_norm / norm } else { 1.0 },
            correction1: correction(config.beta1),
            correction2: correction(config.beta2),
        };
        let moments = self.first_moments.drain(..).zip(self.second_moments.drain(..)).collect::<Vec<_>>();
        let mut updated = Vec::with_capacity(slots.len());
        for (((slot, parameter), gradient), (first, second)) in slots.iter().zip(parameters).zip(gradients).zip(moments)
        {
            step.weight_decay = if slot.is_decayed() { config.weight_decay } else { 0.0 };
            let gradient = gradient.unwrap_or_else(|| parameter.zeros_like());
            let new = B::adamw(parameter, gradient, first, second, &step);
            updated.push(new.parameter);
            self.first_moments.push(new.first_moment);
            self.second_moments.push(new.second_moment);
        }
        updated
    }
}
