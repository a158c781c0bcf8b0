//! Clocks, randomness, arguments, sleeping and leaving.

use wasmtime::Linker;

use super::{C, WASI, done, errno, memory};
use crate::guest::{GuestState, Halt, charge, split};

/// `argv` of every guest.
const ARGV0: &[u8] = b"python\0";
/// Most subscriptions of one `poll_oneoff`.
const SUBSCRIPTIONS_MAX: u32 = 1024;

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "args_sizes_get", |mut c: C<'_>, count: i32, size: i32| {
        done(split(&mut c).and_then(|(memory, _)| {
            memory::write_u32(memory, count, 1)?;
            memory::write_u32(memory, size, ARGV0.len() as u32)
        }))
    })?;
    linker.func_wrap(WASI, "args_get", |mut c: C<'_>, argv: i32, buffer: i32| {
        done(split(&mut c).and_then(|(memory, _)| {
            memory::write_u32(memory, argv, buffer as u32)?;
            memory::write(memory, buffer, ARGV0)
        }))
    })?;
    linker.func_wrap(WASI, "environ_sizes_get", |mut c: C<'_>, count: i32, size: i32| {
        done(split(&mut c).and_then(|(memory, _)| {
            memory::write_u32(memory, count, 0)?;
            memory::write_u32(memory, size, 0)
        }))
    })?;
    linker.func_wrap(WASI, "environ_get", |_: C<'_>, _: i32, _: i32| errno::SUCCESS)?;
    linker.func_wrap(WASI, "clock_res_get", |mut c: C<'_>, clock: i32, out: i32| match clock {
        0..=3 => done(split(&mut c).and_then(|(memory, _)| memory::write_u64(memory, out, 1))),
        _ => errno::INVAL,
    })?;
    linker.func_wrap(WASI, "clock_time_get", clock_time_get)?;
    linker.func_wrap(WASI, "random_get", random_get)?;
    linker.func_wrap(WASI, "poll_oneoff", poll_oneoff)?;
    linker.func_wrap(WASI, "sched_yield", |_: C<'_>| errno::SUCCESS)?;
    linker
        .func_wrap(WASI, "proc_exit", |_: C<'_>, code: i32| -> wasmtime::Result<()> { Err(Halt::Exit(code).into()) })?;
    linker.func_wrap(WASI, "sock_accept", |_: C<'_>, _: i32, _: i32, _: i32| errno::NOTSUP)?;
    linker.func_wrap(WASI, "sock_recv", |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i32, _: i32| errno::NOTSUP)?;
    linker.func_wrap(WASI, "sock_send", |_: C<'_>, _: i32, _: i32, _: i32, _: i32, _: i32| errno::NOTSUP)?;
    linker.func_wrap(WASI, "sock_shutdown", |_: C<'_>, _: i32, _: i32| errno::NOTSUP)?;
    Ok(())
}

fn clock_time_get(mut c: C<'_>, clock: i32, _precision: i64, out: i32) -> wasmtime::Result<i32> {
    let left = c.get_fuel()?;
    let state = c.data();
    let now = match clock {
        0 => state.clock_ns(left),
        1 => state.monotonic_ns(left),
        // Time of the process and the thread: what it computed, without its sleeps.
        2 | 3 => state.monotonic_ns(left).saturating_sub(state.slept_ns),
        _ => return Ok(errno::INVAL),
    };
    Ok(done(split(&mut c).and_then(|(memory, _)| memory::write_u64(memory, out, now))))
}

fn random_get(mut c: C<'_>, buffer: i32, length: i32) -> wasmtime::Result<i32> {
    charge(&mut c, length as u32 as u64)?;
    Ok(done(split(&mut c).and_then(|(memory, state)| {
        for chunk in memory::bytes_mut(memory, buffer, length)?.chunks_mut(8) {
            let word = state.next_entropy().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Some(())
    })))
}

/// A subscription of `poll_oneoff`, as far as it is understood.
enum Subscription {
    /// Virtual nanoseconds from now.
    Sleep(u64),
    /// Reading or writing: never blocks here.
    Ready(u8),
}

/// Sleeping advances the virtual clock and returns at once; streams are always ready.
fn poll_oneoff(mut c: C<'_>, subscriptions: i32, events: i32, count: i32, out: i32) -> wasmtime::Result<i32> {
    let count = count as u32;
    if count == 0 || count > SUBSCRIPTIONS_MAX {
        return Ok(errno::INVAL);
    }
    charge(&mut c, u64::from(count) * 100)?;
    let left = c.get_fuel()?;
    let Some((memory, state)) = split(&mut c) else { return Ok(errno::FAULT) };
    let parsed: Option<Vec<_>> = (0..count)
        .map(|index| subscription(memory, subscriptions.wrapping_add(48 * index as i32), state, left))
        .collect();
    let Some(parsed) = parsed else { return Ok(errno::FAULT) };
    let any_ready = parsed.iter().any(|(_, s)| matches!(s, Subscription::Ready(_)));
    let sleep = parsed.iter().filter_map(|(_, s)| if let Subscription::Sleep(ns) = s { Some(*ns) } else { None }).min();
    let slept = if any_ready { 0 } else { sleep.unwrap_or(0) };
    state.slept_ns = state.slept_ns.saturating_add(slept).min(u64::MAX >> 2);
    let mut at = events;
    let mut fired = 0;
    for (userdata, subscription) in &parsed {
        let kind = match subscription {
            Subscription::Sleep(ns) if *ns <= slept => 0,
            Subscription::Sleep(_) => continue,
            Subscription::Ready(kind) => *kind,
        };
        let mut event = [0u8; 32];
        event[..8].copy_from_slice(&userdata.to_le_bytes());
        event[10] = kind;
        event[16] = u8::from(kind != 0);
        if memory::write(memory, at, &event).is_none() {
            return Ok(errno::FAULT);
        }
        at = at.wrapping_add(32);
        fired += 1;
    }
    Ok(done(memory::write_u32(memory, out, fired)))
}

fn subscription(memory: &[u8], at: i32, state: &GuestState, fuel_left: u64) -> Option<(u64, Subscription)> {
    const ABSOLUTE: u8 = 1;
    let userdata = memory::read_u64(memory, at)?;
    let kind = *memory::bytes(memory, at.wrapping_add(8), 1)?.first()?;
    if kind != 0 {
        return Some((userdata, Subscription::Ready(kind)));
    }
    let clock = memory::read_u32(memory, at.wrapping_add(16))?;
    let timeout = memory::read_u64(memory, at.wrapping_add(24))?;
    let flags = *memory::bytes(memory, at.wrapping_add(40), 1)?.first()?;
    let now = if clock == 0 { state.clock_ns(fuel_left) } else { state.monotonic_ns(fuel_left) };
    let wait = if flags & ABSOLUTE != 0 { timeout.saturating_sub(now) } else { timeout };
    Some((userdata, Subscription::Sleep(wait)))
}
