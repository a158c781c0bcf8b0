//! The file system of one guest: in memory, with quotas, gone with the guest.
//!
//! `/work` and `/tmp` are its own. `/usr/local/lib` holds the image's library and `/dev` the streams; neither can be
//! changed. Nothing here is a file of the host's, so no path can leave it: `..` above the root is the root.

mod open;
mod path;
mod tree;

use std::sync::Arc;

pub(crate) use open::{How, Listed, Open, ROOT_DESCRIPTOR, Stream};
use tree::Kind;
pub(crate) use tree::{Stat, Workspace};

use crate::program::{File, Limits};
use crate::wasi::Library;

/// The directory programs start in; [`crate::File::path`] is relative to it.
pub(crate) const WORK: &str = "/work";

/// Fuel of one name walked, one entry listed: about what the host's work on it takes, in nanoseconds.
const STEP_FUEL: u64 = 50;
/// Bytes the host fills or moves for one unit of fuel.
const BYTES_PER_FUEL: u64 = 4;

/// Why an operation was refused. The numbers are WASI preview 1's (`errno`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Refused {
    BadDescriptor = 8,
    Exists = 20,
    TooBig = 22,
    IllegalBytes = 25,
    Invalid = 28,
    Io = 29,
    IsDirectory = 31,
    Loop = 32,
    TooManyOpen = 33,
    NameTooLong = 37,
    NotFound = 44,
    NoSpace = 51,
    NotDirectory = 54,
    NotEmpty = 55,
    NotSupported = 58,
    NotPermitted = 63,
    ReadOnly = 69,
    NoSeek = 70,
}

/// What the workspace may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quotas {
    pub(crate) bytes: u64,
    pub(crate) files: u32,
    pub(crate) path_bytes: usize,
    pub(crate) path_depth: usize,
    pub(crate) open_files: usize,
}

impl Quotas {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            bytes: limits.workspace_bytes,
            files: limits.workspace_files,
            path_bytes: limits.path_bytes as usize,
            path_depth: limits.path_depth as usize,
            open_files: limits.open_files as usize,
        }
    }
}

/// Whether a path of a task file or a program names a place in the workspace.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_path(path: &str) -> Result<(), String> {
    let fault = if path.is_empty() {
        "is empty"
    } else if path.starts_with('/') {
        "begins with `/`: paths are relative to the workspace"
    } else if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        "has an empty name, `.` or `..` in it"
    } else if path.contains('\0') {
        "has a NUL in it"
    } else {
        return Ok(());
    };
    Err(format!("the path `{}` {fault}", path.escape_debug()))
}

impl Workspace {
    /// Puts a program's files in place.
    ///
    /// # Errors
    /// The path that is none, or is past a quota.
    pub(crate) fn put(&mut self, files: &[File]) -> Result<(), String> {
        for file in files {
            check_path(&file.path)?;
            self.put_one(file)
                .map_err(|refused| format!("the file `{}` cannot be put into the workspace: {refused:?}", file.path))?;
        }
        Ok(())
    }

    fn put_one(&mut self, file: &File) -> Result<(), Refused> {
        let path = format!("{WORK}/{}", file.path);
        for (at, _) in path.match_indices('/').skip(2) {
            match self.create_directory(tree::ROOT, &path.as_bytes()[..at], 0) {
                Ok(()) | Err(Refused::Exists) => {}
                Err(refused) => return Err(refused),
            }
        }
        let node = self.create_file(path.as_bytes())?;
        self.write_at(node, 0, &file.bytes, 0).map(|_| ())
    }

    /// The files asked for, as they are now, sorted by path; a directory stands for all files in it. What is not there is left out.
    ///
    /// # Errors
    /// The path that is none; more than `most` bytes together.
    pub(crate) fn collect(&self, paths: &[String], most: u64) -> Result<Vec<File>, String> {
        let mut found = std::collections::BTreeMap::new();
        for path in paths {
            check_path(path)?;
            self.gather(path, &mut found);
        }
        let total: u64 = found.values().map(|bytes: &&[u8]| bytes.len() as u64).sum();
        if total > most {
            return Err(format!("the files asked for have {total} bytes, `result_bytes` allows {most}"));
        }
        Ok(found.into_iter().map(|(path, bytes)| File { path, bytes: bytes.to_vec() }).collect())
    }

    fn gather<'a>(&'a self, path: &str, found: &mut std::collections::BTreeMap<String, &'a [u8]>) {
        // Links are followed only where they are asked for by name: below a directory they could lead round in circles.
        let Ok(node) = self.find(tree::ROOT, format!("{WORK}/{path}").as_bytes(), true) else { return };
        let mut left = vec![(path.to_owned(), node)];
        while let Some((path, node)) = left.pop() {
            match self.kind(node) {
                Some(Kind::File(bytes)) => {
                    found.insert(path, bytes);
                }
                Some(Kind::Directory(entries)) => {
                    let inside =
                        |(name, node): (&Vec<u8>, &usize)| (format!("{path}/{}", String::from_utf8_lossy(name)), *node);
                    left.extend(entries.iter().map(inside));
                }
                _ => {}
            }
        }
    }
}

impl Workspace {
    /// The workspace of a new guest.
    pub(crate) fn for_guest(library: Arc<Library>, limits: &Limits) -> Self {
        Self::new(library, Quotas::of(limits))
    }
}
