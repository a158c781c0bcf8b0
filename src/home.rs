//! Where fetched and built things live: `$REHEARSAL_HOME`, or the platform's cache directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// The directory of everything Rehearsal fetches or builds once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// `$REHEARSAL_HOME`, or `rehearsal` in the platform's cache directory. Created if it is not there.
    pub fn open() -> Result<Self> {
        let root = match std::env::var_os("REHEARSAL_HOME").filter(|value| !value.is_empty()) {
            Some(root) => PathBuf::from(root),
            None => dirs::cache_dir()
                .ok_or_else(|| {
                    anyhow!("this user has no cache directory: set REHEARSAL_HOME to a directory with 2 GB to spare")
                })?
                .join("rehearsal"),
        };
        Self::at(root)
    }

    /// A home at `root`, created if it is not there.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root).with_context(|| {
            format!("cannot create {}: set REHEARSAL_HOME to a directory that can be written", root.display())
        })?;
        let root = root.canonicalize().with_context(|| format!("cannot resolve {}", root.display()))?;
        Ok(Self { root })
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where an unpacked wheel's members go.
    pub fn unpacked(&self, package: &str, version: &str) -> PathBuf {
        self.root.join("wheels").join(format!("{package}-{version}"))
    }

    /// Where compiled snapshots go.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// Takes the lock `name`, waiting for another process that holds it; `waiting` is called once if it has to. Released when the
    /// file is dropped, by the operating system too if this process dies.
    pub(crate) fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<File> {
        let dir = self.root.join("locks");
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let path = dir.join(format!("{name}.lock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        if file.try_lock().is_err() {
            waiting();
            file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(file)
    }
}
