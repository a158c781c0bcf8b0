//! What opening a snapshot says when it cannot.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use rehearsal_sandboxes::{PYTHON, Snapshot, SnapshotError};

fn refusal(image_dir: &Path, cache_dir: &Path) -> SnapshotError {
    Snapshot::open(image_dir, cache_dir, &|_| {}).unwrap_err()
}

/// A directory with the image's file names and nothing in them.
fn hollow_image() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(PYTHON.module_path(dir.path()), b"not a module").unwrap();
    std::fs::write(PYTHON.library_path(dir.path()), b"not a zip").unwrap();
    dir
}

#[test]
fn a_missing_image_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = refusal(empty.path(), empty.path());
    assert!(matches!(error, SnapshotError::Image { .. }));
    assert!(error.to_string().contains("python-stdlib.zip"), "{error}");
}

#[test]
fn an_unusable_cache_directory_is_named() {
    let image = hollow_image();
    let file = image.path().join("a file");
    std::fs::write(&file, b"").unwrap();
    let error = refusal(image.path(), &file.join("cache"));
    assert!(matches!(error, SnapshotError::Cache { .. }), "{error}");
    assert!(error.to_string().contains("a file/cache"), "{error}");
}

#[test]
fn a_module_that_is_none_leaves_nothing_behind() {
    let (image, cache) = (hollow_image(), tempfile::tempdir().unwrap());
    let error = refusal(image.path(), cache.path());
    assert!(matches!(error, SnapshotError::Build { .. }), "{error}");
    let names: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().ends_with(".lock")), "{names:?}");
}
