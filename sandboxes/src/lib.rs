//! Sandboxes: programs run in fresh WebAssembly instances under limits, and verdicts come out.
//!
//! Everything that touches Wasmtime lives here, and nothing here knows of models, actors or rewards.
//!
//! Reading order: [`program`] (what runs, what came of it) → [`verdict`] (how it is tested, what may become a reward) →
//! [`sandbox`] (who runs it).

pub mod program;
pub mod sandbox;
pub mod verdict;

pub use program::{End, Execution, Limits, Program};
pub use sandbox::Sandbox;
pub use verdict::{Isolation, Judgement, JudgeRequest, PolicyErrorReason, TestCase, Tests, Verdict};
