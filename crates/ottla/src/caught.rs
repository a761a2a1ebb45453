//! Code of the user's that may panic: a connector, a transport, a hook.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Runs `future`; if it panics, that ends it and nothing else.
///
/// # Errors
///
/// What it panicked with.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    // Nothing is looked at again after a panic: what the future had borrowed is its own or ends with it.
    let poll = poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context).map(Ok)))
            .unwrap_or_else(|panic| Poll::Ready(Err(message(&*panic))))
    });
    poll.await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
        .to_owned()
}
