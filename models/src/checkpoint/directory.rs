//! A directory that is complete or absent.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::failed;
use crate::train::TrainError;

/// Fills a temporary sibling of `dir`, makes it durable, and only then gives it its name, in place of a previous one.
///
/// What an interrupted earlier attempt left behind is removed first.
pub(crate) fn write_directory(
    dir: &Path,
    fill: impl FnOnce(&Path) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let partial = sibling(dir, "partial")?;
    let previous = sibling(dir, "previous")?;
    let io = |error: io::Error| failed(dir, error);
    remove(&partial).map_err(io)?;
    fs::create_dir_all(&partial).map_err(|error| failed(&partial, error))?;
    let filled = fill(&partial).and_then(|()| synchronise(&partial).map_err(io));
    if let Err(error) = filled {
        // The first error is the one to report; what cannot be removed now is removed by the next attempt.
        let _ = remove(&partial);
        return Err(error);
    }
    remove(&previous).map_err(io)?;
    if dir.exists() {
        fs::rename(dir, &previous).map_err(io)?;
    }
    fs::rename(&partial, dir).map_err(io)?;
    remove(&previous).map_err(io)?;
    if let Some(parent) = partial.parent() {
        sync(parent).map_err(io)?;
    }
    Ok(())
}

/// `.NAME.suffix` beside `dir`.
fn sibling(dir: &Path, suffix: &str) -> Result<PathBuf, TrainError> {
    let name = dir.file_name().ok_or_else(|| failed(dir, "this path names no directory"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden.push(suffix);
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(parent.join(hidden))
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the files of a flat directory, and their names, survive a power failure.
fn synchronise(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        sync(&entry?.path())?;
    }
    sync(dir)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_is_replaced_whole_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("checkpoint");
        let fill = |content: &'static str| {
            move |path: &Path| fs::write(path.join("file"), content).map_err(|e| failed(path, e))
        };
        write_directory(&dir, fill("one")).unwrap();
        write_directory(&dir, fill("two")).unwrap();
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "two");

        let broken = write_directory(&dir, |path| {
            fs::write(path.join("file"), "half").unwrap();
            Err(failed(path, "disk full"))
        });
        assert!(broken.unwrap_err().to_string().contains("disk full"));
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "two");
        assert_eq!(names(root.path()), ["checkpoint"], "nothing half-done stays");
    }

    #[test]
    fn leavings_of_an_interrupted_attempt_are_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".checkpoint.partial")).unwrap();
        fs::write(root.path().join(".checkpoint.partial/old"), "").unwrap();
        let dir = root.path().join("checkpoint");
        write_directory(&dir, |path| fs::write(path.join("new"), "").map_err(|e| failed(path, e))).unwrap();
        assert_eq!(names(&dir), ["new"]);
    }
}
