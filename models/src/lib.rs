//! The policy: weights files in, tokens and log-probabilities out, gradient steps back in.
//!
//! Everything that touches Burn lives here, and nothing here knows of actors or sandboxes.
//! The crate's face is object-safe: [`Generate`] decodes a batch, [`Train`] takes gradient steps, and
//! [`Weights`] passes from one to the other without a copy. Callers never name a backend.
//!
//! Reading order: [`device`] → [`weights`] → [`generate`] → [`train`] → [`rl`].

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod backend;
mod checkpoint;
pub mod config;
#[cfg(feature = "cuda")]
mod cuda_probe;
pub mod decoder;
pub mod device;
pub mod generate;
pub mod generator;
mod gguf;
mod huggingface;
pub mod learner;
pub mod load;
pub mod policy;
pub mod rl;
mod score;
pub mod text;
pub mod train;
pub mod weights;

pub use device::{Device, DeviceError};
pub use generate::{Completion, FinishReason, Generate, GenerateError, GenerationRequest, Sampling};
pub use generator::GeneratorOptions;
pub use load::LoadError;
pub use policy::LoadedPolicy;
pub use text::{Message, PolicyText, TextError};
pub use train::{OptimizerConfig, StepReport, Train, TrainError, TrainGroup, TrainSequence};
pub use weights::Weights;
