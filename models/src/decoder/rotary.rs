//! Rotary position embeddings in Hugging Face's "rotate half" layout (Su et al. 2021, arXiv 2104.09864).

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::config::DecoderConfig;

/// The angles of a forward pass: cosine and sine, `[tokens, 1, head_dim / 2]` each, broadcast over heads.
///
/// Built once per pass on the host in f64: a few thousand values, where a table for every possible position would be
/// megabytes to hold and to gather from.
#[derive(Debug, Clone)]
pub struct Rotation<B: Backend> {
    cos: Tensor<B, 3>,
    sin: Tensor<B, 3>,
}

impl<B: Backend> Rotation<B> {
    /// The angles of tokens at `positions` (each token's place in its own sequence, from 0).
    pub fn new(config: &DecoderConfig, positions: &[usize], device: &B::Device) -> Self {
        let half = config.head_dim / 2;
        // θ^(−2i/d), the frequency of pair i.
        let frequencies: Vec<f64> =
            (0..half).map(|i| config.rope_theta.powf(-2.0 * i as f64 / config.head_dim as f64)).collect();
        let angles = || positions.iter().flat_map(|&p| frequencies.iter().map(move |f| p as f64 * f));
        let tensor = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [positions.len(), 1, half]), device);
        Self {
            cos: tensor(angles().map(|a| a.cos() as f32).collect()),
            sin: tensor(angles().map(|a| a.sin() as f32).collect()),
        }
    }

    /// The angles that turn back, as gradients do.
    pub fn inverse(&self) -> Self {
        Self { cos: self.cos.clone(), sin: self.sin.clone().neg() }
    }

    /// Cosine and sine, `[tokens, 1, head_dim / 2]` each.
    pub(crate) fn tables(&self) -> (&Tensor<B, 3>, &Tensor<B, 3>) {
        (&self.cos, &self.sin)
    }

    /// Rotates `[tokens, heads, head_dim]`: pair i is `(x[i], x[i + d/2])`.
    pub fn apply(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let half = x.dims()[2] / 2;
        let low = x.clone().narrow(2, 0, half);
        let high = x.narrow(2, half, half);
        let (cos, sin) = (self.cos.clone(), self.sin.clone());
        Tensor::cat(vec![low.clone() * cos.clone() - high.clone() * sin.clone(), high * cos + low * sin], 2)
    }
}
