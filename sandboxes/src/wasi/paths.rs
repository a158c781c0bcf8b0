//! Host functions on paths.

use wasmtime::Linker;

use super::descriptors::{charge_work, now, times, write_stat};
use super::{APPEND, C, RIGHT_TO_READ, RIGHT_TO_WRITE, WASI, done, errno, memory, settle};
use crate::guest::{GuestState, charge, split};
use crate::workspace::{How, Refused, Workspace};

/// Of WASI preview 1: `lookupflags`, `oflags`.
const FOLLOW: i32 = 1;
const CREATE: i32 = 1;
const DIRECTORY: i32 = 2;
const EXCLUSIVE: i32 = 4;
const TRUNCATE: i32 = 8;

/// Fuel of an operation on a path, beside what its length and the way to it cost.
const PATH_FUEL: u64 = 500;

/// Where a path lies in the guest's memory: descriptor of its base, address, length.
type Path = (i32, i32, i32);

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "path_open", open)?;
    linker.func_wrap(WASI, "path_create_directory", |mut c: C<'_>, fd: i32, path: i32, length: i32| {
        on_path(&mut c, (fd, path, length), |workspace, base, path, now| workspace.create_directory(base, path, now))
    })?;
    linker.func_wrap(WASI, "path_unlink_file", |mut c: C<'_>, fd: i32, path: i32, length: i32| {
        on_path(&mut c, (fd, path, length), |workspace, base, path, now| workspace.unlink(base, path, now))
    })?;
    linker.func_wrap(WASI, "path_remove_directory", |mut c: C<'_>, fd: i32, path: i32, length: i32| {
        on_path(&mut c, (fd, path, length), |workspace, base, path, now| workspace.remove_directory(base, path, now))
    })?;
    linker.func_wrap(
        WASI,
        "path_filestat_get",
        |mut c: C<'_>, fd: i32, flags: i32, path: i32, length: i32, out: i32| {
            let mut stat = Err(Refused::Io);
            let status = on_path(&mut c, (fd, path, length), |workspace, base, path, _| {
                let node = workspace.locate(base, path, flags & FOLLOW != 0)?;
                stat = workspace.stat(node);
                Ok(())
            })?;
            Ok(if status == errno::SUCCESS { write_stat(&mut c, stat, out) } else { status })
        },
    )?;
    linker.func_wrap(
        WASI,
        "path_filestat_set_times",
        |mut c: C<'_>, fd: i32, flags: i32, path: i32, length: i32, access: i64, modified: i64, which: i32| {
            on_path(&mut c, (fd, path, length), |workspace, base, path, now| {
                let (access, modified) = times(access, modified, which, now)?;
                let node = workspace.locate(base, path, flags & FOLLOW != 0)?;
                workspace.set_times(node, access, modified, now)
            })
        },
    )?;
    linker.func_wrap(WASI, "path_readlink", read_link)?;
    linker.func_wrap(
        WASI,
        "path_symlink",
        |mut c: C<'_>, target: i32, target_length: i32, fd: i32, path: i32, length: i32| {
            let Some(target) = bytes(&mut c, target, target_length) else { return Ok(errno::FAULT) };
            on_path(&mut c, (fd, path, length), |workspace, base, path, now| {
                workspace.symlink(&target, base, path, now)
            })
        },
    )?;
    linker.func_wrap(
        WASI,
        "path_rename",
        |mut c: C<'_>, fd: i32, path: i32, length: i32, to_fd: i32, to: i32, to_length: i32| {
            on_two(&mut c, (fd, path, length), (to_fd, to, to_length), |workspace, from, to, now| {
                workspace.rename(from, to, now)
            })
        },
    )?;
    linker.func_wrap(
        WASI,
        "path_link",
        |mut c: C<'_>, fd: i32, flags: i32, path: i32, length: i32, to_fd: i32, to: i32, to_length: i32| {
            on_two(&mut c, (fd, path, length), (to_fd, to, to_length), |workspace, (base, path), to, now| {
                workspace.link((base, path, flags & FOLLOW != 0), to, now)
            })
        },
    )?;
    Ok(())
}

/// A copy of bytes of the guest's: what is done with a path changes the state beside the memory it lies in.
///
/// No more is copied than shows that a path is too long.
fn bytes(c: &mut C<'_>, at: i32, length: i32) -> Option<Vec<u8>> {
    let (memory, state) = split(c)?;
    let most = state.workspace.path_bytes().saturating_add(1);
    let all = memory::bytes(memory, at, length)?;
    Some(all[..all.len().min(most)].to_vec())
}

/// Does one thing with a path, and charges for it.
fn on_path(
    c: &mut C<'_>,
    (fd, path, length): Path,
    act: impl FnOnce(&mut Workspace, usize, &[u8], u64) -> Result<(), Refused>,
) -> wasmtime::Result<i32> {
    let Some(path) = bytes(c, path, length) else { return Ok(errno::FAULT) };
    charge(c, PATH_FUEL + path.len() as u64)?;
    let now = now(c);
    let workspace = &mut c.data_mut().workspace;
    let acted = workspace.directory(fd).and_then(|base| act(workspace, base, &path, now));
    charge_work(c)?;
    Ok(settle(acted))
}

fn on_two(
    c: &mut C<'_>,
    (from_fd, from, from_length): Path,
    to: Path,
    act: impl FnOnce(&mut Workspace, (usize, &[u8]), (usize, &[u8]), u64) -> Result<(), Refused>,
) -> wasmtime::Result<i32> {
    let Some(from) = bytes(c, from, from_length) else { return Ok(errno::FAULT) };
    charge(c, PATH_FUEL + from.len() as u64)?;
    on_path(c, to, |workspace, to_base, to, now| {
        let from_base = workspace.directory(from_fd)?;
        act(workspace, (from_base, &from), (to_base, to), now)
    })
}

#[allow(clippy::too_many_arguments, reason = "the signature is WASI's")]
fn open(
    mut c: C<'_>,
    fd: i32,
    lookup: i32,
    path: i32,
    length: i32,
    flags: i32,
    rights: i64,
    _inheriting: i64,
    modes: i32,
    out: i32,
) -> wasmtime::Result<i32> {
    let how = How {
        follow: lookup & FOLLOW != 0,
        create: flags & CREATE != 0,
        directory: flags & DIRECTORY != 0,
        exclusive: flags & EXCLUSIVE != 0,
        truncate: flags & TRUNCATE != 0,
        append: modes & APPEND != 0,
        read: rights as u64 & RIGHT_TO_READ != 0,
        write: rights as u64 & RIGHT_TO_WRITE != 0,
    };
    let mut opened = 0;
    let status = on_path(&mut c, (fd, path, length), |workspace, base, path, now| {
        opened = workspace.open_path(base, path, how, now)?;
        Ok(())
    })?;
    if status != errno::SUCCESS {
        return Ok(status);
    }
    Ok(done(split(&mut c).and_then(|(memory, _)| memory::write_u32(memory, out, opened))))
}

/// A link's target, cut to the buffer.
fn read_link(mut c: C<'_>, fd: i32, path: i32, length: i32, buffer: i32, room: i32, out: i32) -> wasmtime::Result<i32> {
    let mut target = Vec::new();
    let status = on_path(&mut c, (fd, path, length), |workspace, base, path, _| {
        target = workspace.read_link(base, path)?.to_vec();
        Ok(())
    })?;
    if status != errno::SUCCESS {
        return Ok(status);
    }
    target.truncate(room as u32 as usize);
    Ok(done(split(&mut c).and_then(|(memory, _)| {
        memory::write(memory, buffer, &target)?;
        memory::write_u32(memory, out, target.len() as u32)
    })))
}
