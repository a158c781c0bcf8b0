//! The door: the one import that is not WASI. A guest sends a frame and gets a frame back.
//!
//! `call(ptr, len, out_ptr_ptr, out_len_ptr) -> status`: 0 and a response in memory from `host_alloc`, −1 where nobody
//! answers such a frame, −2 for a malformed one. The first byte of a frame says what it wants.

use wasmtime::{Caller, Linker};

use crate::guest::{Answer, GuestState, Halt, charge, split};
use crate::wasi::memory;

const NOBODY: i32 = -1;
const MALFORMED: i32 = -2;
/// Largest frame taken, bytes: the harness's own limit and room for its envelope.
const FRAME_MAX: usize = (8 << 20) + (64 << 10);

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap_async("host", "call", |mut caller: Caller<'_, GuestState>, arguments: (i32, i32, i32, i32)| {
        Box::new(async move { call(&mut caller, arguments).await })
    })?;
    Ok(())
}

async fn call(
    caller: &mut Caller<'_, GuestState>,
    (ptr, length, out_ptr, out_length): (i32, i32, i32, i32),
) -> wasmtime::Result<i32> {
    charge(caller, length as u32 as u64)?;
    let Some((memory, state)) = split(caller) else { return Ok(MALFORMED) };
    let Some(frame) = memory::bytes(memory, ptr, length).filter(|frame| frame.len() <= FRAME_MAX) else {
        return Ok(MALFORMED);
    };
    let response = match frame.split_first() {
        Some((b'J', [])) => state.job.clone(),
        Some((b'R', reply)) => {
            state.reply = Some(reply.to_vec());
            Vec::new()
        }
        Some((b'C', request)) => match state.callee.as_mut() {
            Some(callee) => match callee(request) {
                Answer::Frame(frame) => frame,
                Answer::Ended => return Err(Halt::CalleeEnded.into()),
            },
            None => return Ok(NOBODY),
        },
        _ => return Ok(MALFORMED),
    };
    respond(caller, &response, out_ptr, out_length).await
}

/// Puts a response into memory that the guest allocates.
async fn respond(
    caller: &mut Caller<'_, GuestState>,
    response: &[u8],
    out_ptr: i32,
    out_length: i32,
) -> wasmtime::Result<i32> {
    charge(caller, response.len() as u64)?;
    let alloc = caller.get_export("host_alloc").and_then(wasmtime::Extern::into_func);
    let (Some(alloc), Ok(length)) = (alloc, i32::try_from(response.len())) else { return Ok(MALFORMED) };
    let at = alloc.typed::<i32, i32>(&*caller)?.call_async(&mut *caller, length).await?;
    let Some((memory, _)) = split(caller) else { return Ok(MALFORMED) };
    let written = (at != 0)
        .then(|| memory::write(memory, at, response))
        .flatten()
        .and_then(|()| memory::write_u32(memory, out_ptr, at as u32))
        .and_then(|()| memory::write_u32(memory, out_length, length as u32));
    Ok(if written.is_some() { 0 } else { MALFORMED })
}
