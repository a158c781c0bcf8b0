//! The host functions of a guest: WASI preview 1 over nothing but memory, and the door.
//!
//! A guest sees an empty environment, an empty standard input, two captured streams, one read-only directory with the
//! standard library, a clock that runs on fuel and sleeps, and seeded randomness. Nothing of the host's can be named.

mod door;
mod files;
mod library;
mod memory;
mod system;

use wasmtime::Linker;

use crate::guest::GuestState;

pub(crate) use files::OpenFile;
pub(crate) use library::Library;

/// The module name of WASI preview 1.
const WASI: &str = "wasi_snapshot_preview1";

/// Error numbers of WASI preview 1 (`errno`).
mod errno {
    pub(super) const SUCCESS: i32 = 0;
    pub(super) const BADF: i32 = 8;
    pub(super) const FAULT: i32 = 21;
    pub(super) const INVAL: i32 = 28;
    pub(super) const IO: i32 = 29;
    pub(super) const NOENT: i32 = 44;
    pub(super) const NOTDIR: i32 = 54;
    pub(super) const NOTSUP: i32 = 58;
    pub(super) const ROFS: i32 = 69;
    pub(super) const SPIPE: i32 = 70;
    pub(super) const MFILE: i32 = 33;
}

/// Defines every import of the module.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    door::link(linker)?;
    system::link(linker)?;
    files::link(linker)
}
