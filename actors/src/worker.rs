//! Threads for work that blocks: decode steps, wasm calls, training steps. Never the async workers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}

/// Runs `work` on a thread of its own. If it panics, `died` is told why; the panic goes no further.
///
/// The thread is detached: it ends when `work` sees its queue closed. Nothing joins it, because a thread inside a long call must
/// not be able to hold up a supervisor.
pub(crate) fn spawn<W, D>(name: &str, stack_bytes: usize, work: W, died: D) -> std::io::Result<()>
where
    W: FnOnce() + Send + 'static,
    D: FnOnce(String) + Send + 'static,
{
    thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            died(panic_text(&*panic));
        }
    })?;
    Ok(())
}
