//! What happened, as a stream and as `tracing` records.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
};

use ottla_core::Event;
use tokio::sync::broadcast;

/// How many events wait for a slow listener before the oldest is dropped.
const CAPACITY: usize = 1024;

/// Where events go out.
pub(crate) struct Bell {
    sender: Mutex<Option<broadcast::Sender<Event>>>,
    /// Listens from the first moment, for whoever asks first.
    first: Mutex<Option<broadcast::Receiver<Event>>>,
}

impl Bell {
    pub(crate) fn new() -> Self {
        let (sender, first) = broadcast::channel(CAPACITY);
        Self { sender: Mutex::new(Some(sender)), first: Mutex::new(Some(first)) }
    }

    pub(crate) fn ring(&self, event: Event) {
        trace(&event);
        if let Some(sender) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = sender.send(event); // nobody listens
        }
    }

    pub(crate) fn listen(&self) -> Events {
        if let Some(first) = self.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Events::new(Some(first));
        }
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        Events::new(sender.as_ref().map(broadcast::Sender::subscribe))
    }

    /// No more events: listeners come to their end.
    pub(crate) fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A healthy, steady reader says nothing at info or above.
fn trace(event: &Event) {
    match event {
        Event::Fault(_) => tracing::error!("{event}"),
        Event::Connected { .. } | Event::CoordinatorFound { .. } => tracing::debug!("{event}"),
        Event::Retrying { pause, .. } => tracing::warn!(?pause, "{event}"),
        Event::Assigned { group, member, generation, .. } => {
            tracing::info!(%group, member, generation, "{event}");
        }
        Event::Revoking { group, .. } => tracing::info!(%group, "{event}"),
        Event::PartitionsLost { group, .. } => tracing::warn!(%group, "{event}"),
        Event::Reachable
        | Event::TopicFound { .. }
        | Event::PartitionsAdded { .. }
        | Event::LeaderChanged { .. } => tracing::info!("{event}"),
        _ => tracing::warn!("{event}"),
    }
}

/// A stream of what happened in a reader; see [`Event`].
///
/// It keeps up to 1024 events for a slow listener; of older ones only their [`lost`](Self::lost) number is known.
/// It ends when the reader is closed or dropped.
pub struct Events {
    receive: Option<Receive>,
    lost: u64,
}

type Received = (Result<Event, broadcast::error::RecvError>, broadcast::Receiver<Event>);
type Receive = Pin<Box<dyn Future<Output = Received> + Send + Sync>>;

fn receive(mut receiver: broadcast::Receiver<Event>) -> Receive {
    Box::pin(async move { (receiver.recv().await, receiver) })
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Events {
    fn new(receiver: Option<broadcast::Receiver<Event>>) -> Self {
        Self { receive: receiver.map(receive), lost: 0 }
    }

    /// The next event; `None` once the reader is closed or dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// How many events were dropped because nobody took them in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            let Some(future) = &mut self.receive else { return Poll::Ready(None) };
            let (received, receiver) = std::task::ready!(future.as_mut().poll(context));
            self.receive = match received {
                Err(broadcast::error::RecvError::Closed) => None,
                _ => Some(receive(receiver)),
            };
            match received {
                Ok(event) => return Poll::Ready(Some(event)),
                Err(broadcast::error::RecvError::Lagged(lost)) => self.lost += lost,
                Err(broadcast::error::RecvError::Closed) => {}
            }
        }
    }
}

impl futures_core::Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(context)
    }
}
