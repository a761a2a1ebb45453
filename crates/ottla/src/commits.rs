//! Done with a message, or not: the verbs of readers whose offsets a group stores.

use std::{future::Future, sync::Arc};

use ottla_core::{Commit, CommitOffset, Committed, TopicPartition};

use crate::{
    batch::Batch, control::Control, error::Error, kind::Commits, message::Message, reader::Reader,
    shared::Shared,
};

/// Acknowledging and committing. The same verbs are on [`Control`], for other tasks.
///
/// What is acknowledged is committed at the [interval](crate::Builder::commit_interval), before a partition is given up, and
/// on close: at least once. Of each partition that is the offset before which everything that was handed out is
/// acknowledged, in whatever order that happens; so a message that is not acknowledged is read again by whoever reads the
/// partition next, and so is all that follows it.
///
/// The futures are independent of the reader: they may be awaited anywhere, many at a time. Those that wait together share a
/// request.
impl<K: Commits> Reader<K> {
    /// Done with this message. Costs an atomic operation; nothing is sent.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Fenced`](crate::ErrorKind::Fenced): the partition was given up since; whoever owns it now reads the
    ///   message again.
    /// - [`ErrorKind::LeftBehind`](crate::ErrorKind::LeftBehind): a million messages before it were not acknowledged.
    /// - [`Error::is_closed`] once closing has begun.
    #[inline]
    pub fn ack(&self, message: &Message) -> Result<(), Error> {
        self.shared.ack(message)
    }

    /// Done with this message and everything before it in its partition.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn ack_through(&self, message: &Message) -> Result<(), Error> {
        self.shared.ack_through(message)
    }

    /// Done with all messages of this batch; of one that [`next`](Self::next) began, with those that came in the batch.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn ack_batch(&self, batch: &Batch) -> Result<(), Error> {
        self.shared.ack_batch(batch)
    }

    /// Done with this message and everything before it in its partition, as [`ack_through`](Self::ack_through); waits until
    /// that is committed.
    ///
    /// What may pass (a coordinator that is away, moves or loads) is waited for, as long as we are in the group. To wait
    /// less, wrap it in [`tokio::time::timeout`].
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Fenced`](crate::ErrorKind::Fenced): the partition was given up, so that this was not committed, or
    ///   nobody knows.
    /// - [`ErrorKind::Refused`](crate::ErrorKind::Refused): the coordinator refused it; [`Error::code`] says how.
    /// - [`ErrorKind::Uncommitted`](crate::ErrorKind::Uncommitted): the time to give the partition up, or to close, was over
    ///   before an answer came; it says what was missing.
    /// - [`Error::is_closed`] once closing has begun.
    ///
    /// # Cancel safety
    ///
    /// Nothing happens before the first poll. What has begun is acknowledged and on its way: dropping the future only gives
    /// up waiting for the answer.
    pub fn commit(&self, message: &Message) -> impl Future<Output = Result<(), Error>> + Send + use<K> {
        Control::<K>::new(self.shared.clone()).commit(message)
    }

    /// As [`commit`](Self::commit), up to the end of this batch.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    ///
    /// # Cancel safety
    ///
    /// As [`commit`](Self::commit).
    pub fn commit_batch(&self, batch: &Batch) -> impl Future<Output = Result<(), Error>> + Send + use<K> {
        Control::<K>::new(self.shared.clone()).commit_batch(batch)
    }

    /// Commits these offsets, whatever was acknowledged, with their metadata; they may lie before what is committed. Each is
    /// that of the next message to read.
    ///
    /// What is acknowledged later is committed over them.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit); and a partition that is not ours ([`ErrorKind::NotRead`](crate::ErrorKind::NotRead)), or
    /// an offset that is negative, in which case nothing is committed.
    ///
    /// # Cancel safety
    ///
    /// As [`commit`](Self::commit).
    pub fn commit_offsets<I>(&self, offsets: I) -> impl Future<Output = Result<(), Error>> + Send + use<K, I>
    where
        I: IntoIterator<Item = (TopicPartition, CommitOffset)>,
    {
        Control::<K>::new(self.shared.clone()).commit_offsets(offsets)
    }

    /// Not done with this message: it is handed out again, and so is all that follows it in its partition. A `next()` that
    /// begins after this returned does so. Until it is acknowledged, nothing from it on is committed.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn nack(&self, message: &Message) -> Result<(), Error> {
        self.shared.nack(message)
    }
}

/// Acknowledging and committing, as [`Reader`] does it, from any task.
impl<K: Commits> Control<K> {
    /// Done with this message; see [`Reader::ack`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn ack(&self, message: &Message) -> Result<(), Error> {
        self.shared.ack(message)
    }

    /// Done with this message and everything before it in its partition; see [`Reader::ack_through`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn ack_through(&self, message: &Message) -> Result<(), Error> {
        self.shared.ack_through(message)
    }

    /// Done with all messages of this batch; see [`Reader::ack_batch`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn ack_batch(&self, batch: &Batch) -> Result<(), Error> {
        self.shared.ack_batch(batch)
    }

    /// Commits up to this message; see [`Reader::commit`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub fn commit(&self, message: &Message) -> impl Future<Output = Result<(), Error>> + Send + use<K> {
        let (shared, through, offset) = (self.shared.clone(), message.through(), message.offset());
        async move { shared.commit_at(through?, offset).await }
    }

    /// Commits up to the end of this batch; see [`Reader::commit_batch`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub fn commit_batch(&self, batch: &Batch) -> impl Future<Output = Result<(), Error>> + Send + use<K> {
        let (shared, through, offset) = (self.shared.clone(), batch.through(), batch.base_offset());
        async move { shared.commit_at(through?, offset).await }
    }

    /// Commits these offsets; see [`Reader::commit_offsets`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub fn commit_offsets<I>(&self, offsets: I) -> impl Future<Output = Result<(), Error>> + Send + use<K, I>
    where
        I: IntoIterator<Item = (TopicPartition, CommitOffset)>,
    {
        let (shared, offsets) = (self.shared.clone(), offsets.into_iter().collect());
        async move { Ok(shared.commit(Commit::Offsets(offsets))?.wait().await?) }
    }

    /// What the group has stored of these partitions, be they ours or not; `None` where nothing is committed.
    ///
    /// # Errors
    ///
    /// The coordinator refuses, or the reader is closed. What may pass is waited for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn committed(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<(TopicPartition, Option<Committed>)>, Error> {
        Ok(self.shared.committed(partitions.to_vec())?.wait().await?)
    }

    /// Not done with this message; see [`Reader::nack`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn nack(&self, message: &Message) -> Result<(), Error> {
        self.shared.nack(message)
    }
}

/// Neither the lock nor the driver is visited by those who acknowledge.
impl Shared {
    #[inline]
    fn ack(&self, message: &Message) -> Result<(), Error> {
        self.open()?;
        message.ack()
    }

    fn ack_through(&self, message: &Message) -> Result<(), Error> {
        self.open()?;
        message.ack_through()
    }

    fn ack_batch(&self, batch: &Batch) -> Result<(), Error> {
        self.open()?;
        batch.ack()
    }

    async fn commit_at(self: &Arc<Self>, what: Commit, offset: i64) -> Result<(), Error> {
        let at = |error| Error::commit(error, offset);
        self.commit(what).map_err(at)?.wait().await.map_err(at)
    }

    fn nack(&self, message: &Message) -> Result<(), Error> {
        self.open()?;
        let tenure = message.tenure()?;
        let (from, offset) = (message.from(), message.offset());
        self.update(|machine, _| machine.nack(tenure, from, offset))
            .map_err(|error| Error::commit(error, offset))?;
        self.rouse(); // the reader may wait behind what it had read
        Ok(())
    }
}
