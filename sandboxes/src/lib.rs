//! Sandboxes: programs run in fresh WebAssembly instances under limits, and verdicts come out.
//!
//! Everything that touches Wasmtime lives here, and nothing here knows of models, actors or rewards.
//!
//! Reading order: [`program`] (what runs, what came of it) → [`verdict`] (how it is tested, what may become a reward) →
//! [`sandbox`] (who runs it) → [`image`] (what an interpreter is made of) → [`snapshot`] (an interpreter that has
//! started, on disk) → [`local`] (the sandbox of this process), [`workers`] (the same in processes of their own). Below
//! them, private: `engine` (how Wasmtime is set up), `guest` (one live instance, and the harness inside it), `wasi` (all
//! that a guest can reach), `workspace` (its files), `data` (plain values that cross), `run` (a program), `judge` (tests
//! and verdicts).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod image;
pub mod local;
pub mod program;
pub mod sandbox;
pub mod snapshot;
pub mod verdict;
pub mod workers;

mod compare;
mod data;
mod engine;
mod guest;
mod judge;
mod run;
mod text_or_bytes;
mod wasi;
mod workspace;

pub use engine::INSTANCES_MAX;
pub use image::{ImageSpec, PYTHON};
pub use local::LocalSandbox;
pub use program::{End, Execution, File, Limits, Program};
pub use sandbox::Sandbox;
pub use snapshot::{Snapshot, SnapshotError, SnapshotProgress};
pub use verdict::{
    AnswerFrom, AnswerRule, CaseOutcome, CaseReport, Checker, Isolation, JudgeRequest, Judgement, PolicyErrorReason,
    StdioCase, TestCase, Tests, TextRule, ValueRule, Verdict,
};
pub use workers::{ProcessSandbox, WorkerSpec, serve_worker};
