//! Whole-system tests, one module per behaviour.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests: a failure is a panic, and they are not documentation"
)]

mod support;

mod architecture;
mod border;
mod cli;
mod daemon;
mod determinism;
mod embedded;
mod hostile;
mod humaneval;
mod judging;
mod limits;
mod policy;
mod programs;
mod public_graders;
mod resume;
mod stdio;
mod tasks;
mod tree;
mod unit_files;
mod workers;
mod workspace;
