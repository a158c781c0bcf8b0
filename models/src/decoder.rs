//! The Llama-family decoder: one forward pass for generator and learner.
//!
//! Activations are two-dimensional, `[tokens, hidden]`, whatever sequences the tokens belong to: a linear layer is then one
//! matrix product. Only attention knows about sequences, and it is the caller's ([`Attend`]): the generator supplies a
//! cache, the learner packed sequences.

mod attention;
mod layer;
mod rotary;

pub use attention::{Attend, PackedAttention, Segment};
pub use layer::{FeedForward, Layer, RmsNorm, SelfAttention};
pub use rotary::Rotation;

use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};

use crate::config::DecoderConfig;
use crate::learner::kernels::Kernels;

/// A decoder's parameters. Linear weights are stored `[in, out]`, so that `x · W` needs no transpose.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    /// Token embedding `[vocab, hidden]`.
    pub embedding: Param<Tensor<B, 2>>,
    /// The blocks, first to last.
    pub layers: Vec<Layer<B>>,
    /// The norm before the output head.
    pub norm: RmsNorm<B>,
    /// The output head `[hidden, vocab]`; absent when tied to the embedding.
    pub head: Option<Param<Tensor<B, 2>>>,
    /// The shape of all of the above.
    #[module(skip)]
    pub config: DecoderConfig,
}

impl<B: Kernels> Decoder<B> {
    /// Runs every block and the final norm.
    ///
    /// # Shapes
    /// - `ids`: `[tokens]`
    /// - `rotation`: the rotary tables of the same tokens' positions
    /// - result: `[tokens, hidden]`
    pub fn forward_hidden(
        &self,
        ids: Tensor<B, 1, Int>,
        rotation: &Rotation<B>,
        attention: &mut impl Attend<B>,
    ) -> Tensor<B, 2> {
        let mut hidden = self.embedding.val().select(0, ids);
        for (index, layer) in self.layers.iter().enumerate() {
            hidden = layer.forward(hidden, index, rotation, attention);
        }
        self.norm.forward(hidden)
    }
}

impl<B: Backend> Decoder<B> {
    /// The output head as `[hidden, vocab]`. Tied, it is a transposed view of the embedding: whoever multiplies with it many
    /// times between two updates keeps a contiguous copy.
    pub fn output_head(&self) -> Tensor<B, 2> {
        match &self.head {
            Some(head) => head.val(),
            None => self.embedding.val().transpose(),
        }
    }

    /// Logits `[rows, vocab]` of the rows of `hidden` (`[rows, hidden]`): pass only the rows that are needed.
    pub fn logits(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        hidden.matmul(self.output_head())
    }
}
