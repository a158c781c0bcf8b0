//! The standard library's zip: one read-only file, served by position.

use std::fs::File;
use std::io;
use std::path::Path;

/// An open, immutable file of the host and the name it has in the guest.
#[derive(Debug)]
pub(crate) struct Library {
    file: File,
    pub(crate) size: u64,
    pub(crate) dir: &'static str,
    pub(crate) name: &'static str,
}

impl Library {
    /// Opens the file at `path` to appear in the guest as `name` in `dir`.
    pub(crate) fn open(path: &Path, dir: &'static str, name: &'static str) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file, size, dir, name })
    }

    /// Reads at a position; less than asked only at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        use std::os::unix::fs::FileExt as _;

        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}
