//! Compiled snapshots on disk: named by everything they depend on, written atomically, checked before they are mapped.

use std::fs::{self, File, TryLockError};
use std::hash::{Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wasmtime::Module;

use super::{SnapshotError, SnapshotProgress};
use crate::guest::HARNESS;
use crate::image::ImageSpec;

/// Changes whenever the meaning of the files changes.
const FORMAT: u32 = 2;
/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(200);

/// What lies beside a compiled module: its hash, and the stamp of the file that had it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    sha256: String,
    stamp: Stamp,
}

/// A file's identity as far as the file system tells: the same stamp means the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stamp {
    bytes: u64,
    modified_ns: u128,
}

/// One snapshot's place in the cache.
pub(super) struct Entry {
    directory: PathBuf,
    stem: String,
}

impl Entry {
    /// The place of `image`'s snapshot for this engine and harness.
    pub(super) fn new(
        engine: &wasmtime::Engine,
        image: &'static ImageSpec,
        image_dir: &Path,
        cache_dir: &Path,
    ) -> Result<Self, SnapshotError> {
        fs::create_dir_all(cache_dir).map_err(|source| SnapshotError::Cache {
            action: "create",
            path: cache_dir.to_owned(),
            source,
        })?;
        let mut hasher = KeyHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let Sizes { module, library } = Sizes::of(image, image_dir)?;
        let key = hasher
            .0
            .chain_update(FORMAT.to_le_bytes())
            .chain_update(image.wheel_sha256)
            .chain_update(module.to_le_bytes())
            .chain_update(library.to_le_bytes())
            .chain_update(HARNESS)
            .chain_update(super::build::WARM_UP)
            .finalize();
        let stem = format!("{}-{}-{}", image.name, image.version, &hex(&key)[..24]);
        Ok(Self { directory: cache_dir.to_owned(), stem })
    }

    /// Names everything the snapshot depends on.
    pub(super) fn key(&self) -> &str {
        &self.stem
    }

    /// The compiled module's path.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.cwasm", self.stem))
    }

    fn record_path(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.stem))
    }

    /// Maps the stored module; `None` where there is none, or where it is not what was written.
    pub(super) fn load(&self, engine: &wasmtime::Engine) -> Option<Module> {
        let path = self.path();
        let stamp = Stamp::of(&path).ok()?;
        let record: Record = serde_json::from_slice(&fs::read(self.record_path()).ok()?).ok()?;
        if record.stamp != stamp {
            // Copied, restored or damaged: only the bytes can tell.
            let same = record.stamp.bytes == stamp.bytes && hash_file(&path).is_ok_and(|hash| hash == record.sha256);
            if !same {
                tracing::warn!(path = %path.display(), "the stored snapshot is damaged, it is made again");
                return None;
            }
            if let Err(error) = self.write_record(&Record { sha256: record.sha256, stamp }) {
                tracing::debug!(%error, "cannot renew the snapshot's stamp");
            }
        }
        // SAFETY: the bytes are those this program serialised (hash or unchanged stamp), and stored snapshots are
        // replaced by rename, never written in place, so a mapped file does not change.
        match unsafe { Module::deserialize_file(engine, &path) } {
            Ok(module) => Some(module),
            Err(error) => {
                tracing::warn!(path = %path.display(), error = %format!("{error:#}"), "the stored snapshot does not load");
                None
            }
        }
    }

    /// Takes the entry's exclusive lock, which the system drops with the file, also when this process is killed.
    pub(super) fn lock(&self, progress: &dyn Fn(SnapshotProgress)) -> Result<File, SnapshotError> {
        let path = self.directory.join(format!("{}.lock", self.stem));
        let fail = |source| SnapshotError::Cache { action: "lock", path: path.clone(), source };
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => {
                    progress(SnapshotProgress::WaitingForLock { elapsed: started.elapsed() });
                    thread::sleep(POLL);
                }
                Err(TryLockError::Error(source)) => return Err(fail(source)),
            }
        }
    }

    /// Writes a serialised module: whole, or not at all.
    pub(super) fn save(&self, serialised: &[u8]) -> Result<(), SnapshotError> {
        let path = self.path();
        let fail = |source| SnapshotError::Cache { action: "write", path: path.clone(), source };
        self.replace(&path, serialised).map_err(fail)?;
        let stamp = Stamp::of(&path).map_err(fail)?;
        let record = Record { sha256: hex(&Sha256::digest(serialised)), stamp };
        self.write_record(&record).map_err(fail)
    }

    fn write_record(&self, record: &Record) -> io::Result<()> {
        self.replace(&self.record_path(), &serde_json::to_vec(record)?)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(&self.directory)?.sync_all()
    }
}

/// Sizes of the image's files, bytes.
struct Sizes {
    module: u64,
    library: u64,
}

impl Sizes {
    fn of(image: &'static ImageSpec, dir: &Path) -> Result<Self, SnapshotError> {
        let size = |path: PathBuf| {
            let found = fs::metadata(&path);
            found.map(|found| found.len()).map_err(|source| SnapshotError::Image { image: image.name, path, source })
        };
        Ok(Self { module: size(image.module_path(dir))?, library: size(image.library_path(dir))? })
    }
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let modified = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { bytes: found.len(), modified_ns: modified.as_nanos() })
    }
}

/// Feeds what the engine hashes into a hash that is the same in every build of this program.
struct KeyHasher(Sha256);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
