//! Snapshots: an interpreter that has started, imported the common modules and the harness, compiled and kept on disk.
//!
//! Made once per image and machine (about a minute and two gigabytes), mapped in milliseconds afterwards.

mod build;
mod store;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Module;

use crate::engine::{self, Engine};
use crate::image::ImageSpec;
use crate::wasi::Library;

/// What opening a snapshot is busy with. The long phases are reported again and again, with the time they have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotProgress {
    /// Another process is making the same snapshot.
    WaitingForLock {
        /// Since the wait began.
        elapsed: Duration,
    },
    /// The interpreter is being started.
    Initialising {
        /// Since the phase began.
        elapsed: Duration,
    },
    /// The started interpreter is being compiled.
    Compiling {
        /// Since the phase began.
        elapsed: Duration,
    },
    /// Programs can run.
    Ready,
}

/// Why a snapshot cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A file of the image is missing or unreadable.
    #[error("cannot read {path} of image `{image}`: {source}; unpack the image again")]
    Image {
        /// The image's name.
        image: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The cache directory refuses.
    #[error("cannot {action} {path}: {source}; check space and permissions of the cache directory")]
    Cache {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The engine does not start here.
    #[error("cannot reserve address space for sandboxes: {0}; is it limited (`ulimit -v`)?")]
    Engine(String),
    /// The image does not start, or does not compile.
    #[error("cannot make a snapshot of image `{image}`: {detail}")]
    Build {
        /// The image's name.
        image: &'static str,
        /// Why.
        detail: String,
    },
}

/// A compiled interpreter, ready to be instantiated. Cheap to clone; one engine stands behind all clones.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) engine: Arc<Engine>,
    pub(crate) image: &'static ImageSpec,
    /// Names everything the snapshot depends on.
    pub(crate) key: String,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("image", &self.image.name).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Opens the snapshot of the `python` image whose members were unpacked into `image_dir`; makes it first where
    /// `cache_dir` holds none for this engine, image and harness, or a damaged one.
    ///
    /// Blocks. Two processes that open the same snapshot make it once. `progress` is called on this thread only.
    ///
    /// # Errors
    /// Where the image's files, the cache directory or the address space refuse; each says what to look at.
    pub fn open(
        image_dir: &Path,
        cache_dir: &Path,
        progress: &dyn Fn(SnapshotProgress),
    ) -> Result<Self, SnapshotError> {
        let image = &crate::image::PYTHON;
        let engine = wasmtime::Engine::new(&engine::running()).map_err(|e| SnapshotError::Engine(format!("{e:#}")))?;
        let library_path = image.library_path(image_dir);
        let library = Library::open(&library_path, image.library_dir, image.library_name)
            .map_err(|source| SnapshotError::Image { image: image.name, path: library_path, source })?;
        let entry = store::Entry::new(&engine, image, image_dir, cache_dir)?;
        let module = load(&engine, &entry, image, image_dir, progress)?;
        let engine = Engine::new(engine, &module, library)
            .map_err(|error| SnapshotError::Build { image: image.name, detail: format!("{error:#}") })?;
        progress(SnapshotProgress::Ready);
        Ok(Self { engine: Arc::new(engine), image, key: entry.key().to_owned() })
    }
}

/// The compiled module: from the cache, or made now and put there.
fn load(
    engine: &wasmtime::Engine,
    entry: &store::Entry,
    image: &'static ImageSpec,
    image_dir: &Path,
    progress: &dyn Fn(SnapshotProgress),
) -> Result<Module, SnapshotError> {
    if let Some(module) = entry.load(engine) {
        return Ok(module);
    }
    let _lock = entry.lock(progress)?;
    // Another process may have made it while this one waited.
    if let Some(module) = entry.load(engine) {
        return Ok(module);
    }
    let serialised = build::build(engine, image, image_dir, progress)?;
    entry.save(&serialised)?;
    drop(serialised);
    entry.load(engine).ok_or_else(|| SnapshotError::Build {
        image: image.name,
        detail: format!("the snapshot just written to {} cannot be loaded", entry.path().display()),
    })
}
