//! Descriptors: three streams, one read-only directory (3), and open copies of its one file.

use wasmtime::{Caller, Linker};

use super::{WASI, errno, memory};
use crate::guest::{GuestState, Halt, charge, split};

/// The preopened directory's descriptor.
const DIRECTORY: i32 = 3;
/// The first descriptor of an opened file.
const FIRST_FILE: i32 = 4;
/// Most files open at once.
const FILES_MAX: usize = 256;
/// Most parts of one read or write, as `IOV_MAX`.
const PARTS_MAX: i32 = 1024;
/// `filetype` of WASI preview 1.
const CHARACTER_DEVICE: u8 = 2;
const DIRECTORY_TYPE: u8 = 3;
const REGULAR_FILE: u8 = 4;

/// An open file: the library, or its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenFile {
    /// The zip, at a position.
    Library(u64),
    /// The directory that holds it.
    Directory,
}

type C<'a> = Caller<'a, GuestState>;

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "fd_write", fd_write)?;
    linker.func_wrap(WASI, "fd_read", |mut c: C<'_>, fd: i32, parts: i32, count: i32, out: i32| {
        let Some(file) = kind(c.data(), fd) else { return Ok(errno::BADF) };
        let position = match file {
            Kind::Stream if fd == 0 => return read_stdin(&mut c, parts, count, out),
            Kind::File(OpenFile::Library(position)) => position,
            _ => return Ok(errno::BADF),
        };
        let (status, count) = read(&mut c, parts, count, position)?;
        if status != errno::SUCCESS {
            return Ok(status);
        }
        set_position(c.data_mut(), fd, position + u64::from(count));
        Ok(wrote(&mut c, out, count))
    })?;
    linker.func_wrap(WASI, "fd_pread", |mut c: C<'_>, fd: i32, parts: i32, count: i32, at: i64, out: i32| {
        let Some(Kind::File(OpenFile::Library(_))) = kind(c.data(), fd) else { return Ok(errno::BADF) };
        match read(&mut c, parts, count, at as u64)? {
            (errno::SUCCESS, count) => Ok(wrote(&mut c, out, count)),
            (status, _) => Ok(status),
        }
    })?;
    linker.func_wrap(WASI, "fd_seek", |mut c: C<'_>, fd: i32, offset: i64, whence: i32, out: i32| {
        seek(&mut c, fd, offset, whence, out)
    })?;
    linker.func_wrap(WASI, "fd_tell", |mut c: C<'_>, fd: i32, out: i32| seek(&mut c, fd, 0, 1, out))?;
    linker.func_wrap(WASI, "fd_close", |mut c: C<'_>, fd: i32| match slot(c.data_mut(), fd) {
        Some(slot) if slot.is_some() => {
            *slot = None;
            errno::SUCCESS
        }
        _ => errno::BADF,
    })?;
    link_metadata(linker)?;
    link_refused(linker)
}

fn link_metadata(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "fd_fdstat_get", |mut c: C<'_>, fd: i32, out: i32| {
        let Some(kind) = kind(c.data(), fd) else { return errno::BADF };
        let mut stat = [0u8; 24];
        stat[0] = kind.filetype();
        // Rights: all of them; what is refused is refused where it is tried.
        stat[8..24].fill(0xFF);
        status(split(&mut c).and_then(|(memory, _)| memory::write(memory, out, &stat)))
    })?;
    linker.func_wrap(WASI, "fd_filestat_get", |mut c: C<'_>, fd: i32, out: i32| match kind(c.data(), fd) {
        Some(kind) => filestat(&mut c, kind, out),
        None => errno::BADF,
    })?;
    linker.func_wrap(
        WASI,
        "path_filestat_get",
        |mut c: C<'_>, fd: i32, _: i32, path: i32, length: i32, out: i32| match lookup(&mut c, fd, path, length) {
            Ok(file) => filestat(&mut c, Kind::File(file), out),
            Err(status) => status,
        },
    )?;
    linker.func_wrap(WASI, "fd_prestat_get", |mut c: C<'_>, fd: i32, out: i32| {
        if fd != DIRECTORY {
            return errno::BADF;
        }
        status(split(&mut c).and_then(|(memory, state)| {
            memory::write_u32(memory, out, 0)?;
            memory::write_u32(memory, out.wrapping_add(4), state.library.dir.len() as u32)
        }))
    })?;
    linker.func_wrap(WASI, "fd_prestat_dir_name", |mut c: C<'_>, fd: i32, out: i32, length: i32| {
        if fd != DIRECTORY {
            return errno::BADF;
        }
        status(split(&mut c).and_then(|(memory, state)| {
            let name = state.library.dir.as_bytes();
            let wanted = name.len().min(length as u32 as usize);
            memory::write(memory, out, &name[..wanted])
        }))
    })?;
    linker.func_wrap(WASI, "path_open", path_open)?;
    linker.func_wrap(WASI, "fd_readdir", fd_readdir)?;
    Ok(())
}

/// What the read-only world refuses.
fn link_refused(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "fd_advise", |_: C<'_>, _: i32, _: i64, _: i64, _: i32| errno::SUCCESS)?;
    linker.func_wrap(WASI, "fd_datasync", |_: C<'_>, _: i32| errno::SUCCESS)?;
    linker.func_wrap(WASI, "fd_sync", |_: C<'_>, _: i32| errno::SUCCESS)?;
    linker.func_wrap(WASI, "fd_fdstat_set_flags", |_: C<'_>, _: i32, _: i32| errno::SUCCESS)?;
    linker.func_wrap(WASI, "fd_filestat_set_size", |_: C<'_>, _: i32, _: i64| errno::ROFS)?;
    linker.func_wrap(WASI, "fd_filestat_set_times", |_: C<'_>, _: i32, _: i64, _: i64, _: i32| errno::ROFS)?;
    linker.func_wrap(WASI, "fd_pwrite", |_: C<'_>, _: i32, _: i32, _: i32, _: i64, _: i32| errno::ROFS)?;
    linker.func_wrap(WASI, "path_create_directory", |_: C<'_>, _: i32, _: i32, _: i32| errno::ROFS)?;
    linker.func_wrap(
        WASI,
        "path_filestat_set_times",
        |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i64, _: i64, _: i32| errno::ROFS,
    )?;
    linker
        .func_wrap(WASI, "path_link", |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| errno::ROFS)?;
    linker.func_wrap(WASI, "path_readlink", |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| errno::INVAL)?;
    linker.func_wrap(WASI, "path_remove_directory", |_: C<'_>, _: i32, _: i32, _: i32| errno::ROFS)?;
    linker.func_wrap(WASI, "path_rename", |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| errno::ROFS)?;
    linker.func_wrap(WASI, "path_symlink", |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i32| errno::ROFS)?;
    linker.func_wrap(WASI, "path_unlink_file", |_: C<'_>, _: i32, _: i32, _: i32| errno::ROFS)?;
    Ok(())
}

/// What a descriptor stands for.
#[derive(Clone, Copy)]
enum Kind {
    Stream,
    File(OpenFile),
}

impl Kind {
    fn filetype(self) -> u8 {
        match self {
            Self::Stream => CHARACTER_DEVICE,
            Self::File(OpenFile::Directory) => DIRECTORY_TYPE,
            Self::File(OpenFile::Library(_)) => REGULAR_FILE,
        }
    }
}

fn kind(state: &GuestState, fd: i32) -> Option<Kind> {
    match fd {
        0..=2 => Some(Kind::Stream),
        DIRECTORY => Some(Kind::File(OpenFile::Directory)),
        _ => {
            let index = usize::try_from(fd.checked_sub(FIRST_FILE)?).ok()?;
            state.files.get(index).copied().flatten().map(Kind::File)
        }
    }
}

fn slot(state: &mut GuestState, fd: i32) -> Option<&mut Option<OpenFile>> {
    state.files.get_mut(usize::try_from(fd.checked_sub(FIRST_FILE)?).ok()?)
}

fn set_position(state: &mut GuestState, fd: i32, position: u64) {
    if let Some(Some(file)) = slot(state, fd) {
        *file = OpenFile::Library(position);
    }
}

fn status(written: Option<()>) -> i32 {
    if written.is_some() { errno::SUCCESS } else { errno::FAULT }
}

fn wrote(c: &mut C<'_>, out: i32, count: u32) -> i32 {
    status(split(c).and_then(|(memory, _)| memory::write_u32(memory, out, count)))
}

/// The `index`-th (pointer, length) of a list of parts.
fn part(memory: &[u8], parts: i32, index: i32) -> Option<(i32, i32)> {
    let at = parts.wrapping_add(8 * index);
    Some((memory::read_u32(memory, at)? as i32, memory::read_u32(memory, at.wrapping_add(4))? as i32))
}

/// Standard output and standard error, kept up to the limit; one byte more ends the run.
fn fd_write(mut c: C<'_>, fd: i32, parts: i32, count: i32, out: i32) -> wasmtime::Result<i32> {
    match kind(c.data(), fd) {
        Some(Kind::Stream) if fd != 0 => {}
        Some(Kind::File(_)) => return Ok(errno::ROFS),
        _ => return Ok(errno::BADF),
    }
    if !(0..=PARTS_MAX).contains(&count) {
        return Ok(errno::INVAL);
    }
    let Some((memory, state)) = split(&mut c) else { return Ok(errno::FAULT) };
    let limit = state.output_limit;
    let kept = if fd == 1 { &mut state.stdout.bytes } else { &mut state.stderr.bytes };
    let before = kept.len();
    for index in 0..count {
        let Some((at, length)) = part(memory, parts, index) else { return Ok(errno::FAULT) };
        let Some(bytes) = memory::bytes(memory, at, length) else { return Ok(errno::FAULT) };
        let room = limit.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            return Err(Halt::OutputLimit.into());
        }
    }
    let written = u32::try_from(kept.len() - before).unwrap_or(u32::MAX);
    charge(&mut c, u64::from(written))?;
    Ok(wrote(&mut c, out, written))
}

/// Reads the library into the guest's parts: (status, bytes read).
fn read(c: &mut C<'_>, parts: i32, count: i32, position: u64) -> wasmtime::Result<(i32, u32)> {
    if !(0..=PARTS_MAX).contains(&count) {
        return Ok((errno::INVAL, 0));
    }
    let Some((memory, state)) = split(c) else { return Ok((errno::FAULT, 0)) };
    let mut total = 0u32;
    for index in 0..count {
        let Some((at, length)) = part(memory, parts, index) else { return Ok((errno::FAULT, 0)) };
        let Some(buffer) = memory::bytes_mut(memory, at, length) else { return Ok((errno::FAULT, 0)) };
        let wanted = buffer.len();
        let Some(from) = position.checked_add(u64::from(total)) else { return Ok((errno::INVAL, 0)) };
        match state.library.read_at(buffer, from) {
            Ok(got) => {
                total = total.saturating_add(u32::try_from(got).unwrap_or(u32::MAX));
                if got < wanted {
                    break;
                }
            }
            Err(_) => return Ok((errno::IO, 0)),
        }
    }
    charge(c, u64::from(total))?;
    Ok((errno::SUCCESS, total))
}

/// Standard input, from where the last read ended; nothing at its end.
fn read_stdin(c: &mut C<'_>, parts: i32, count: i32, out: i32) -> wasmtime::Result<i32> {
    if !(0..=PARTS_MAX).contains(&count) {
        return Ok(errno::INVAL);
    }
    let Some((memory, state)) = split(c) else { return Ok(errno::FAULT) };
    let mut total = 0u32;
    for index in 0..count {
        let Some((at, length)) = part(memory, parts, index) else { return Ok(errno::FAULT) };
        let Some(buffer) = memory::bytes_mut(memory, at, length) else { return Ok(errno::FAULT) };
        let rest = &state.stdin[state.stdin_read..];
        let got = rest.len().min(buffer.len());
        buffer[..got].copy_from_slice(&rest[..got]);
        state.stdin_read += got;
        total = total.saturating_add(got as u32);
    }
    charge(c, u64::from(total))?;
    Ok(wrote(c, out, total))
}

fn seek(c: &mut C<'_>, fd: i32, offset: i64, whence: i32, out: i32) -> i32 {
    let position = match kind(c.data(), fd) {
        Some(Kind::File(OpenFile::Library(position))) => position,
        Some(_) => return errno::SPIPE,
        None => return errno::BADF,
    };
    let base = match whence {
        0 => 0,
        1 => position,
        2 => c.data().library.size,
        _ => return errno::INVAL,
    };
    let Some(position) = base.checked_add_signed(offset) else { return errno::INVAL };
    set_position(c.data_mut(), fd, position);
    status(split(c).and_then(|(memory, _)| memory::write_u64(memory, out, position)))
}

fn filestat(c: &mut C<'_>, kind: Kind, out: i32) -> i32 {
    let mut stat = [0u8; 64];
    stat[0..8].copy_from_slice(&1u64.to_le_bytes());
    let inode: u64 = match kind {
        Kind::Stream => 1,
        Kind::File(OpenFile::Directory) => 2,
        Kind::File(OpenFile::Library(_)) => 3,
    };
    stat[8..16].copy_from_slice(&inode.to_le_bytes());
    stat[16] = kind.filetype();
    stat[24..32].copy_from_slice(&1u64.to_le_bytes());
    if let Kind::File(OpenFile::Library(_)) = kind {
        stat[32..40].copy_from_slice(&c.data().library.size.to_le_bytes());
    }
    status(split(c).and_then(|(memory, _)| memory::write(memory, out, &stat)))
}

/// The file a path relative to the directory names: the library, the directory itself, or nothing.
fn lookup(c: &mut C<'_>, fd: i32, path: i32, length: i32) -> Result<OpenFile, i32> {
    match kind(c.data(), fd) {
        Some(Kind::File(OpenFile::Directory)) => {}
        Some(_) => return Err(errno::NOTDIR),
        None => return Err(errno::BADF),
    }
    let (memory, state) = split(c).ok_or(errno::FAULT)?;
    let path = memory::bytes(memory, path, length).ok_or(errno::FAULT)?;
    match path {
        b"" | b"." => Ok(OpenFile::Directory),
        _ if path == state.library.name.as_bytes() => Ok(OpenFile::Library(0)),
        _ if path.starts_with(state.library.name.as_bytes()) && path.get(state.library.name.len()) == Some(&b'/') => {
            Err(errno::NOTDIR)
        }
        _ => Err(errno::NOENT),
    }
}

#[allow(clippy::too_many_arguments, reason = "the signature is WASI's")]
fn path_open(
    mut c: C<'_>,
    fd: i32,
    _lookup_flags: i32,
    path: i32,
    length: i32,
    flags: i32,
    rights: i64,
    _inheriting: i64,
    _fd_flags: i32,
    out: i32,
) -> i32 {
    const CREATE: i32 = 1;
    const DIRECTORY_ONLY: i32 = 2;
    const TRUNCATE: i32 = 8;
    const RIGHT_TO_WRITE: i64 = 1 << 6;
    let file = match lookup(&mut c, fd, path, length) {
        Ok(_) if flags & TRUNCATE != 0 => return errno::ROFS,
        Ok(OpenFile::Library(_)) if rights & RIGHT_TO_WRITE != 0 => return errno::ROFS,
        Ok(OpenFile::Library(_)) if flags & DIRECTORY_ONLY != 0 => return errno::NOTDIR,
        Ok(file) => file,
        Err(errno::NOENT) if flags & CREATE != 0 => return errno::ROFS,
        Err(status) => return status,
    };
    let files = &mut c.data_mut().files;
    let index = files.iter().position(Option::is_none).unwrap_or(files.len());
    if index >= FILES_MAX {
        return errno::MFILE;
    }
    if index == files.len() {
        files.push(None);
    }
    files[index] = Some(file);
    let number = FIRST_FILE as u32 + index as u32;
    status(split(&mut c).and_then(|(memory, _)| memory::write_u32(memory, out, number)))
}

/// The directory's one entry, cut to the buffer as the interface demands.
fn fd_readdir(mut c: C<'_>, fd: i32, buffer: i32, length: i32, cookie: i64, out: i32) -> i32 {
    match kind(c.data(), fd) {
        Some(Kind::File(OpenFile::Directory)) => {}
        Some(_) => return errno::NOTDIR,
        None => return errno::BADF,
    }
    let Some((memory, state)) = split(&mut c) else { return errno::FAULT };
    let mut entry = Vec::new();
    if cookie == 0 {
        entry.extend_from_slice(&1u64.to_le_bytes());
        entry.extend_from_slice(&3u64.to_le_bytes());
        entry.extend_from_slice(&(state.library.name.len() as u32).to_le_bytes());
        entry.extend_from_slice(&u32::from(REGULAR_FILE).to_le_bytes());
        entry.extend_from_slice(state.library.name.as_bytes());
    }
    entry.truncate(length as u32 as usize);
    let written = memory::write(memory, buffer, &entry);
    status(written.and_then(|()| memory::write_u32(memory, out, entry.len() as u32)))
}
