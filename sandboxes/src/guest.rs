//! One live instance of an interpreter: its store, its turns, and how each ended.

mod block_on;
mod state;
mod turn;

pub(crate) use block_on::block_on;
pub(crate) use state::{Answer, Callee, GuestState, Halt, charge, split};
pub(crate) use turn::{Guest, TurnEnd};

/// The source of the harness that every snapshot carries: one Python module in several files.
pub(crate) const HARNESS: &str = concat!(
    include_str!("guest/harness.py"),
    include_str!("guest/harness_border.py"),
    include_str!("guest/harness_remote.py"),
    include_str!("guest/harness_tests.py"),
    include_str!("guest/harness_unit.py"),
);
