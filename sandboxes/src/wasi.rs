//! The host functions of a guest: WASI preview 1 over nothing but memory, and the door.
//!
//! A guest sees an empty environment, the standard input it was given, two captured streams, a file system in memory, a
//! clock that runs on fuel and sleeps, and seeded randomness. Nothing of the host's can be named.

mod descriptors;
mod door;
mod library;
mod memory;
mod paths;
mod system;

use wasmtime::{Caller, Linker};

use crate::guest::GuestState;
use crate::workspace::Refused;

pub(crate) use library::Library;

/// The module name of WASI preview 1.
const WASI: &str = "wasi_snapshot_preview1";

/// Error numbers of WASI preview 1 (`errno`) that are not the workspace's ([`Refused`]).
mod errno {
    use crate::workspace::Refused;

    pub(super) const SUCCESS: i32 = 0;
    pub(super) const BADF: i32 = Refused::BadDescriptor as i32;
    pub(super) const FAULT: i32 = 21;
    pub(super) const INVAL: i32 = Refused::Invalid as i32;
    pub(super) const NOTSUP: i32 = Refused::NotSupported as i32;
    pub(super) const SPIPE: i32 = Refused::NoSeek as i32;
}

/// The caller of every host function.
type C<'a> = Caller<'a, GuestState>;

/// Of `fdflags`: writes go to the end.
const APPEND: i32 = 1;
/// Of `rights`, those that say how a file is open.
const RIGHT_TO_READ: u64 = 1 << 1;
const RIGHT_TO_WRITE: u64 = 1 << 6;

/// The error number of a write to the guest's memory.
fn done(written: Option<()>) -> i32 {
    if written.is_some() { errno::SUCCESS } else { errno::FAULT }
}

/// The error number of an operation on the workspace.
fn settle(result: Result<(), Refused>) -> i32 {
    result.map_or_else(|refused| refused as i32, |()| errno::SUCCESS)
}

/// Defines every import of the module.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    door::link(linker)?;
    system::link(linker)?;
    descriptors::link(linker)?;
    paths::link(linker)
}
