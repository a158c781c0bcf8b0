//! The one seam of these tests: where the sandbox comes from.

use std::path::PathBuf;
use std::sync::OnceLock;

use rehearsal_sandboxes::{LocalSandbox, Snapshot};

/// One sandbox for all tests of a binary, from `REHEARSAL_TEST_IMAGE_DIR` and `REHEARSAL_TEST_CACHE_DIR`.
pub(crate) fn sandbox() -> &'static LocalSandbox {
    static SANDBOX: OnceLock<LocalSandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let snapshot = Snapshot::open(&dir("REHEARSAL_TEST_IMAGE_DIR"), &dir("REHEARSAL_TEST_CACHE_DIR"), &|_| {});
        LocalSandbox::new(snapshot.expect("a snapshot"))
    })
}

fn dir(name: &str) -> PathBuf {
    std::env::var_os(name).map(PathBuf::from).unwrap_or_else(|| panic!("set {name} to run these tests"))
}
