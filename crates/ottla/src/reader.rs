//! The reader.

use std::{
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ottla_core::{Take, TurnState};
use ottla_wire::record::RecordError;
use tokio::task::{JoinHandle, coop};

use crate::{
    batch::Batch,
    builder::Builder,
    control::Control,
    error::Error,
    events::Events,
    kind::Partitions,
    message::Message,
    shared::{Next, Shared},
    walk::{Damage, Step, Unpacker, Walk},
};

/// Reads Kafka: one partition, a topic, or several.
///
/// Offsets of a partition come strictly increasing, and only those are skipped that the log does not hold (compacted
/// away, or control records). The order among partitions is that of arrival.
///
/// Dropping it ends its tasks and connections without blocking; [`close`](Self::close) also waits for that. A dropped reader
/// with a group goes on in the background until what was acknowledged is committed and the group is left.
pub struct Reader<K = Partitions> {
    pub(crate) shared: Arc<Shared>,
    unpacker: Unpacker,
    walk: Option<Walk>,
    /// What was begun of partitions that have been paused since.
    aside: Vec<Walk>,
    driver: Option<JoinHandle<()>>,
    /// A message counts as done when the following one is asked for.
    auto_ack: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K> std::fmt::Debug for Reader<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("closed", &self.shared.is_closed()).finish_non_exhaustive()
    }
}

/// How long [`Reader::close`] waits for tasks to end that should have ended.
const GRACE: Duration = Duration::from_secs(5);

impl Reader {
    /// Describes a reader of the cluster at `bootstrap`: one or more `host:port` (`host` alone means port 9092), separated by commas
    /// (`bootstrap.servers`).
    pub fn builder(bootstrap: impl Into<String>) -> Builder {
        Builder::new(bootstrap.into())
    }
}

impl<K> Reader<K> {
    pub(crate) fn new(shared: Arc<Shared>, driver: JoinHandle<()>, auto_ack: bool) -> Self {
        let unpacker = Unpacker::new(shared.pool.clone(), shared.options.max_batch_bytes);
        let (walk, aside, driver) = (None, Vec::new(), Some(driver));
        Self { shared, unpacker, walk, aside, driver, auto_ack, kind: PhantomData }
    }

    /// The next message; `None` when the end that was asked for with [`until`](Builder::until) is reached.
    ///
    /// # Errors
    ///
    /// - A fault of one partition ([`Error::partition`]): told once, then the partition stands still until a seek,
    ///   and the others go on.
    /// - A fault of the whole reader: told every time.
    /// - An outage, if [`max_attempts`](Builder::max_attempts) is set: told once, and reading goes on by itself.
    /// - [`Error::is_closed`] after close.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing and repeats nothing.
    #[inline]
    pub async fn next(&mut self) -> Result<Option<Message>, Error> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The rest of the batch that [`next`](Self::next) began, or the next batch; `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    ///
    /// As [`next`](Self::next).
    pub async fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        poll_fn(|context| self.poll_next_batch(context)).await
    }

    /// The messages as a stream; faults are items.
    ///
    /// It ends where [`next`](Self::next) returns `None`, after close, and behind a fault of the whole reader, which
    /// `next` would tell again and again. A stream that has ended can be replaced by a new one.
    pub fn stream(&mut self) -> Stream<'_, K> {
        Stream { reader: self, ended: false }
    }

    /// A handle for other tasks.
    pub fn control(&self) -> Control<K> {
        Control::new(self.shared.clone())
    }

    /// What happens in the reader. The first call gets everything since it was opened, later ones what comes.
    pub fn events(&self) -> Events {
        self.shared.bell.listen()
    }

    /// Closes the reader and waits until its tasks and connections have ended.
    ///
    /// With a group, before that: nothing more is handed out, the [hook](Builder::on_rebalance) is told that everything is
    /// revoked, what was acknowledged is committed, and the group is left, so that its other members need not wait until it
    /// misses us. All of that within [`close_timeout`](Builder::close_timeout); healthy, it takes milliseconds.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Uncommitted`](crate::ErrorKind::Uncommitted), or how the coordinator refused: what was acknowledged
    ///   and could not be committed; it will be read again. The reader is closed all the same.
    /// - The reader's tasks did not end in time, which is a mistake of ours or a runtime that does not run.
    ///
    /// # Cancel safety
    ///
    /// The reader is closed in any case; a group is left in the background.
    pub async fn close(mut self) -> Result<(), Error> {
        self.shared.close();
        let Some(driver) = self.driver.take() else { return Ok(()) };
        tokio::task::yield_now().await; // a driver that has nothing to leave ends here
        if driver.is_finished() || tokio::runtime::Handle::try_current().is_err() {
            let _ = driver.await; // without a runtime here there is no clock; the driver runs on its own
        } else if tokio::time::timeout(self.shared.options.close_timeout + GRACE, driver).await.is_err() {
            return Err(Error::connection("the reader's tasks did not end in time"));
        }
        self.shared.outcome()
    }

    #[inline]
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Message>, Error>> {
        self.acknowledge();
        loop {
            if let Some(walk) = &mut self.walk {
                match walk.step(&mut self.unpacker) {
                    Ok(Step::Item(message)) => return Poll::Ready(Ok(Some(message))),
                    Ok(Step::Finished) => self.walk = None,
                    Ok(Step::Halted) => {}
                    Err(damage) => match self.reject(&damage) {
                        Some(error) => return Poll::Ready(Err(error)),
                        None => continue,
                    },
                }
            }
            if !ready!(self.poll_walk(context))? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    fn poll_next_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Batch>, Error>> {
        self.acknowledge();
        loop {
            if let Some(walk) = &mut self.walk {
                match walk.step_batch(&mut self.unpacker) {
                    Ok(Step::Item(batch)) => return Poll::Ready(Ok(Some(batch))),
                    Ok(Step::Finished) => self.walk = None,
                    Ok(Step::Halted) => {}
                    Err(damage) => match self.reject(&damage) {
                        Some(error) => return Poll::Ready(Err(error)),
                        None => continue,
                    },
                }
            }
            if !ready!(self.poll_walk(context))? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// The next one is asked for: what was handed out before is done.
    #[inline]
    fn acknowledge(&mut self) {
        if self.auto_ack
            && let Some(walk) = &mut self.walk
        {
            walk.acknowledge();
        }
    }

    /// Finds the next part to walk; false at the end.
    fn poll_walk(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        // A loop over what is there already would never let tokio's other tasks and timers run.
        let budget = ready!(coop::poll_proceed(context));
        let found = self.find_walk(context);
        if !matches!(found, Ok(Poll::Pending)) {
            budget.made_progress();
        }
        found?.map(Ok)
    }

    fn find_walk(&mut self, context: &mut Context<'_>) -> Result<Poll<bool>, Error> {
        let (walk, aside) = (&mut self.walk, &mut self.aside);
        let found = match self.shared.take(context.waker(), || go_on(walk, aside)) {
            Next::Closed => return Err(self.shared.why_closed()),
            Next::Begun(walk) => walk,
            Next::Taken(Take::Part(part)) => Walk::new(part),
            Next::Taken(Take::Fault(fault)) => return Err(fault.into()),
            Next::Taken(Take::Ended) => return Ok(Poll::Ready(false)),
            Next::Taken(Take::Waiting) => return Ok(Poll::Pending),
        };
        self.walk = Some(found);
        Ok(Poll::Ready(true))
    }

    #[cold]
    fn reject(&mut self, damage: &Damage) -> Option<Error> {
        let walk = self.walk.take()?;
        let reason = match &damage.error {
            error @ RecordError::TooLarge { .. } => format!("{error} (max_batch_bytes)"),
            error => error.to_string(),
        };
        let fault = self.shared.update(|machine, _| machine.reject(&walk.part, &damage.header, reason));
        fault.map(Error::from)
    }
}

/// What was begun and may go on; what was begun of a partition that has been paused since is kept for later.
///
/// Called under the machine's lock, where no turn changes its state meanwhile: were a partition resumed between this
/// look and the next at its queue, what comes later would be handed out first.
fn go_on(walk: &mut Option<Walk>, aside: &mut Vec<Walk>) -> Option<Walk> {
    aside.extend(walk.take());
    aside.retain(|walk| walk.state() != TurnState::Over);
    let live = aside.iter().position(|walk| walk.state() == TurnState::Live)?;
    Some(aside.swap_remove(live))
}

impl<K> Drop for Reader<K> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// The messages of a [`Reader`] as a stream.
#[derive(Debug)]
pub struct Stream<'a, K = Partitions> {
    reader: &'a mut Reader<K>,
    ended: bool,
}

impl<K> futures_core::Stream for Stream<'_, K> {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let result = ready!(self.reader.poll_next(context));
        self.ended = match &result {
            Ok(message) => message.is_none(),
            Err(error) => error.partition().is_none() && !error.is_retriable(),
        };
        Poll::Ready(match result {
            Err(error) if error.is_closed() => None,
            result => result.transpose(),
        })
    }
}
