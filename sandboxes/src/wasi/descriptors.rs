//! Host functions on descriptors: reading, writing, and what is known of them.

use wasmtime::Linker;

use super::{APPEND, C, RIGHT_TO_READ, RIGHT_TO_WRITE, WASI, done, errno, memory, settle};
use crate::guest::{GuestState, Halt, charge, split};
use crate::workspace::{Listed, Open, ROOT_DESCRIPTOR, Refused, Stat, Stream};

/// Most parts of one read or write, as `IOV_MAX`.
const PARTS_MAX: i32 = 1024;
/// What the guest finds its one preopened directory called.
const PREOPENED: &[u8] = b"/";

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "fd_write", |mut c: C<'_>, fd: i32, parts: i32, count: i32, out: i32| {
        write(&mut c, fd, (parts, count), None, out)
    })?;
    linker.func_wrap(WASI, "fd_pwrite", |mut c: C<'_>, fd: i32, parts: i32, count: i32, at: i64, out: i32| {
        write(&mut c, fd, (parts, count), Some(at as u64), out)
    })?;
    linker.func_wrap(WASI, "fd_read", |mut c: C<'_>, fd: i32, parts: i32, count: i32, out: i32| {
        read(&mut c, fd, (parts, count), None, out)
    })?;
    linker.func_wrap(WASI, "fd_pread", |mut c: C<'_>, fd: i32, parts: i32, count: i32, at: i64, out: i32| {
        read(&mut c, fd, (parts, count), Some(at as u64), out)
    })?;
    linker.func_wrap(WASI, "fd_seek", |mut c: C<'_>, fd: i32, offset: i64, whence: i32, out: i32| {
        seek(&mut c, fd, offset, whence, out)
    })?;
    linker.func_wrap(WASI, "fd_tell", |mut c: C<'_>, fd: i32, out: i32| seek(&mut c, fd, 0, 1, out))?;
    linker.func_wrap(WASI, "fd_close", |mut c: C<'_>, fd: i32| settle(c.data_mut().workspace.close(fd)))?;
    linker.func_wrap(WASI, "fd_renumber", |mut c: C<'_>, from: i32, to: i32| {
        settle(c.data_mut().workspace.renumber(from, to))
    })?;
    linker.func_wrap(WASI, "fd_readdir", read_directory)?;
    link_metadata(linker)?;
    link_sizes(linker)
}

fn link_metadata(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "fd_fdstat_get", |mut c: C<'_>, fd: i32, out: i32| {
        let Some((memory, state)) = split(&mut c) else { return errno::FAULT };
        let stat = match state.workspace.stat_open(fd) {
            Ok(stat) => stat,
            Err(refused) => return refused as i32,
        };
        // Rights say how it was opened; what else is refused is refused where it is tried.
        let mut rights = u64::MAX;
        let mut append = false;
        if let Ok(Open::Node(open)) = state.workspace.open(fd) {
            append = open.append;
            if !open.readable {
                rights &= !RIGHT_TO_READ;
            }
            if !open.writable && fd as usize != ROOT_DESCRIPTOR {
                rights &= !RIGHT_TO_WRITE;
            }
        }
        let mut bytes = [0u8; 24];
        bytes[0] = stat.filetype;
        bytes[2] = u8::from(append);
        bytes[8..16].copy_from_slice(&rights.to_le_bytes());
        bytes[16..24].fill(0xFF);
        done(memory::write(memory, out, &bytes))
    })?;
    linker.func_wrap(WASI, "fd_fdstat_set_flags", |mut c: C<'_>, fd: i32, flags: i32| {
        match c.data_mut().workspace.open_node(fd) {
            Ok(open) => {
                open.append = flags & APPEND != 0;
                errno::SUCCESS
            }
            // A stream takes whatever it is told: it has no modes.
            Err(Refused::NoSeek) => errno::SUCCESS,
            Err(refused) => refused as i32,
        }
    })?;
    linker.func_wrap(WASI, "fd_fdstat_set_rights", |c: C<'_>, fd: i32, _: i64, _: i64| known(&c, fd))?;
    linker.func_wrap(WASI, "fd_filestat_get", |mut c: C<'_>, fd: i32, out: i32| {
        let stat = c.data().workspace.stat_open(fd);
        write_stat(&mut c, stat, out)
    })?;
    linker.func_wrap(
        WASI,
        "fd_filestat_set_times",
        |mut c: C<'_>, fd: i32, access: i64, modified: i64, flags: i32| {
            let now = now(&c);
            let workspace = &mut c.data_mut().workspace;
            settle(times(access, modified, flags, now).and_then(|(access, modified)| {
                let node = workspace.open_node(fd)?.node;
                workspace.set_times(node, access, modified, now)
            }))
        },
    )?;
    linker.func_wrap(WASI, "fd_prestat_get", |mut c: C<'_>, fd: i32, out: i32| {
        if fd as usize != ROOT_DESCRIPTOR {
            return errno::BADF;
        }
        done(split(&mut c).and_then(|(memory, _)| {
            memory::write_u32(memory, out, 0)?;
            memory::write_u32(memory, out.wrapping_add(4), PREOPENED.len() as u32)
        }))
    })?;
    linker.func_wrap(WASI, "fd_prestat_dir_name", |mut c: C<'_>, fd: i32, out: i32, length: i32| {
        if fd as usize != ROOT_DESCRIPTOR {
            return errno::BADF;
        }
        if (length as u32 as usize) < PREOPENED.len() {
            return Refused::NameTooLong as i32;
        }
        done(split(&mut c).and_then(|(memory, _)| memory::write(memory, out, PREOPENED)))
    })?;
    Ok(())
}

fn link_sizes(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "fd_advise", |c: C<'_>, fd: i32, _: i64, _: i64, _: i32| known(&c, fd))?;
    linker.func_wrap(WASI, "fd_datasync", |c: C<'_>, fd: i32| known(&c, fd))?;
    linker.func_wrap(WASI, "fd_sync", |c: C<'_>, fd: i32| known(&c, fd))?;
    linker.func_wrap(WASI, "fd_filestat_set_size", |mut c: C<'_>, fd: i32, size: i64| {
        let now = now(&c);
        let status = settle(c.data_mut().workspace.resize(fd, size as u64, now));
        charge_work(&mut c)?;
        Ok(status)
    })?;
    linker.func_wrap(WASI, "fd_allocate", |mut c: C<'_>, fd: i32, offset: i64, length: i64| {
        let now = now(&c);
        let workspace = &mut c.data_mut().workspace;
        let grown =
            (offset as u64).checked_add(length as u64).ok_or(Refused::TooBig).and_then(|wanted| {
                match workspace.stat_open(fd)?.size {
                    size if size < wanted => workspace.resize(fd, wanted, now),
                    _ => Ok(()),
                }
            });
        charge_work(&mut c)?;
        Ok(settle(grown))
    })?;
    Ok(())
}

fn known(c: &C<'_>, fd: i32) -> i32 {
    settle(c.data().workspace.open(fd).map(|_| ()))
}

/// The virtual wall clock.
pub(super) fn now(c: &C<'_>) -> u64 {
    c.data().clock_ns(c.get_fuel().unwrap_or(0))
}

/// Charges what the workspace did since the last time.
pub(super) fn charge_work(c: &mut C<'_>) -> wasmtime::Result<()> {
    let work = std::mem::take(&mut c.data_mut().workspace.work);
    charge(c, work)
}

/// The times to set: what WASI's `fstflags` say of the two.
pub(super) fn times(access: i64, modified: i64, flags: i32, now: u64) -> Result<(Option<u64>, Option<u64>), Refused> {
    let one = |given: i64, at: i32| match (flags >> at) & 3 {
        0 => Ok(None),
        1 => Ok(Some(given as u64)),
        2 => Ok(Some(now)),
        _ => Err(Refused::Invalid),
    };
    Ok((one(access, 0)?, one(modified, 2)?))
}

/// Puts a `filestat` where the guest wants it.
pub(super) fn write_stat(c: &mut C<'_>, stat: Result<Stat, Refused>, out: i32) -> i32 {
    let stat = match stat {
        Ok(stat) => stat,
        Err(refused) => return refused as i32,
    };
    let mut bytes = [0u8; 64];
    let fields = [
        (0, 1),
        (8, stat.node),
        (24, stat.links),
        (32, stat.size),
        (40, stat.times.access),
        (48, stat.times.modification),
        (56, stat.times.change),
    ];
    for (at, field) in fields {
        bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
    }
    bytes[16] = stat.filetype;
    done(split(c).and_then(|(memory, _)| memory::write(memory, out, &bytes)))
}

/// The `index`-th (pointer, length) of a list of parts.
fn part(memory: &[u8], parts: i32, index: i32) -> Option<(i32, i32)> {
    let at = parts.wrapping_add(8 * index);
    Some((memory::read_u32(memory, at)? as i32, memory::read_u32(memory, at.wrapping_add(4))? as i32))
}

/// Writes parts to a stream or a file. A stream past its limit ends the run.
fn write(c: &mut C<'_>, fd: i32, (parts, count): (i32, i32), at: Option<u64>, out: i32) -> wasmtime::Result<i32> {
    if !(0..=PARTS_MAX).contains(&count) {
        return Ok(errno::INVAL);
    }
    let now = now(c);
    let Some((memory, state)) = split(c) else { return Ok(errno::FAULT) };
    let (written, failed) = match state.workspace.open(fd) {
        Err(refused) => return Ok(refused as i32),
        Ok(Open::Stream(Stream::Input)) => return Ok(errno::BADF),
        Ok(Open::Stream(_)) if at.is_some() => return Ok(errno::SPIPE),
        Ok(Open::Stream(stream)) => {
            let stream = *stream;
            match write_stream(memory, state, stream, parts, count)? {
                Some(written) => (written, None),
                None => return Ok(errno::FAULT),
            }
        }
        Ok(Open::Node(_)) => match write_file(memory, state, fd, (parts, count), at, now) {
            Some(ended) => ended,
            None => return Ok(errno::FAULT),
        },
    };
    charge(c, written)?;
    charge_work(c)?;
    match failed {
        // What was written before a refusal was written: the guest learns of the refusal when it writes on.
        Some(refused) if written == 0 => Ok(refused as i32),
        _ => Ok(done(split(c).and_then(|(memory, _)| memory::write_u32(memory, out, short(written))))),
    }
}

fn short(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn write_stream(
    memory: &[u8],
    state: &mut GuestState,
    stream: Stream,
    parts: i32,
    count: i32,
) -> wasmtime::Result<Option<u64>> {
    let limit = state.output_limit;
    let kept = if stream == Stream::Error { &mut state.stderr.bytes } else { &mut state.stdout.bytes };
    let before = kept.len();
    for index in 0..count {
        let Some(bytes) = part(memory, parts, index).and_then(|(at, length)| memory::bytes(memory, at, length)) else {
            return Ok(None);
        };
        let room = limit.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            return Err(Halt::OutputLimit.into());
        }
    }
    Ok(Some((kept.len() - before) as u64))
}

/// Writes parts to a file: the bytes written, and what refused the rest; `None` where a part lies outside the memory.
fn write_file(
    memory: &[u8],
    state: &mut GuestState,
    fd: i32,
    (parts, count): (i32, i32),
    at: Option<u64>,
    now: u64,
) -> Option<(u64, Option<Refused>)> {
    let workspace = &mut state.workspace;
    let mut position = match at {
        Some(at) => at,
        None => workspace.open_node(fd).ok()?.position,
    };
    let mut written = 0;
    for index in 0..count {
        let (from, length) = part(memory, parts, index)?;
        let bytes = memory::bytes(memory, from, length)?;
        match workspace.write(fd, position, bytes, now) {
            Ok(end) => {
                position = end;
                written += bytes.len() as u64;
            }
            Err(refused) => return Some((written, Some(refused))),
        }
        if at.is_none() {
            workspace.open_node(fd).ok()?.position = position;
        }
    }
    Some((written, None))
}

/// Reads a stream or a file into parts.
fn read(c: &mut C<'_>, fd: i32, (parts, count): (i32, i32), at: Option<u64>, out: i32) -> wasmtime::Result<i32> {
    if !(0..=PARTS_MAX).contains(&count) {
        return Ok(errno::INVAL);
    }
    let Some((memory, state)) = split(c) else { return Ok(errno::FAULT) };
    let from = match state.workspace.open(fd) {
        Err(refused) => return Ok(refused as i32),
        Ok(Open::Stream(Stream::Input)) if at.is_some() => return Ok(errno::SPIPE),
        Ok(Open::Stream(Stream::Input)) => None,
        Ok(Open::Stream(_)) => return Ok(errno::BADF),
        Ok(Open::Node(open)) => Some(at.unwrap_or(open.position)),
    };
    let mut total = 0u64;
    for index in 0..count {
        let Some((to, length)) = part(memory, parts, index) else { return Ok(errno::FAULT) };
        let Some(buffer) = memory::bytes_mut(memory, to, length) else { return Ok(errno::FAULT) };
        let wanted = buffer.len();
        let got = match from {
            None => {
                let rest = &state.stdin[state.stdin_read..];
                let got = rest.len().min(wanted);
                buffer[..got].copy_from_slice(&rest[..got]);
                state.stdin_read += got;
                got
            }
            Some(from) => match state.workspace.read(fd, from.saturating_add(total), buffer) {
                Ok(got) => got,
                Err(refused) => return Ok(refused as i32),
            },
        };
        total += got as u64;
        if got < wanted {
            break;
        }
    }
    if let (Some(from), None) = (from, at)
        && let Ok(open) = state.workspace.open_node(fd)
    {
        open.position = from.saturating_add(total);
    }
    charge(c, total)?;
    Ok(done(split(c).and_then(|(memory, _)| memory::write_u32(memory, out, short(total)))))
}

fn seek(c: &mut C<'_>, fd: i32, offset: i64, whence: i32, out: i32) -> i32 {
    let Some((memory, state)) = split(c) else { return errno::FAULT };
    if state.workspace.directory(fd).is_ok() {
        return errno::INVAL;
    }
    match state.workspace.seek(fd, offset, whence) {
        Ok(position) => done(memory::write_u64(memory, out, position)),
        Err(refused) => refused as i32,
    }
}

/// A directory's entries from a cookie on, the last one cut at the end of the buffer, as the interface demands.
fn read_directory(mut c: C<'_>, fd: i32, buffer: i32, length: i32, cookie: i64, out: i32) -> wasmtime::Result<i32> {
    let Some((memory, state)) = split(&mut c) else { return Ok(errno::FAULT) };
    let room = length as u32 as usize;
    let entries = match state.workspace.list(fd, cookie as u64) {
        Ok(entries) => entries,
        Err(refused) => return Ok(refused as i32),
    };
    let mut bytes = Vec::new();
    for (Listed { name, node, filetype }, next) in entries.iter().zip(cookie as u64 + 1..) {
        if bytes.len() >= room {
            break;
        }
        bytes.extend_from_slice(&next.to_le_bytes());
        bytes.extend_from_slice(&(*node as u64).to_le_bytes());
        bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&u32::from(*filetype).to_le_bytes());
        bytes.extend_from_slice(name);
    }
    bytes.truncate(room);
    let written = memory::write(memory, buffer, &bytes);
    let status = done(written.and_then(|()| memory::write_u32(memory, out, bytes.len() as u32)));
    charge(&mut c, bytes.len() as u64)?;
    charge_work(&mut c)?;
    Ok(status)
}
