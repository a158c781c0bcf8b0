//! Driving a guest's future to its end on the calling thread.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future that never waits for anything.
///
/// Guests run as futures only to have a stack of their own (see `engine.rs`): no host function is asynchronous and no
/// yield is configured, so the first poll is the last. `None` would mean that this changed.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
