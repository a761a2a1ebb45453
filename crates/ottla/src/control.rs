//! What can be done to a reader from any task.

use std::{marker::PhantomData, sync::Arc, time::SystemTime};

use ottla_core::{Buffered, Member, Start, TopicPartition};

use crate::{
    builder::checked_topics,
    error::Error,
    kind::{Group, Partitions},
    shared::Shared,
};

/// A handle on a reader, cheap to clone and to send. What it does is done when the call returns.
///
/// It does not keep the reader open: once that is closed or dropped, every verb is an error with
/// [`is_closed`](Error::is_closed).
pub struct Control<K = Partitions> {
    pub(crate) shared: Arc<Shared>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Control<K> {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone())
    }
}

impl<K> std::fmt::Debug for Control<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("closed", &self.shared.is_closed()).finish_non_exhaustive()
    }
}

impl<K> Control<K> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, kind: PhantomData }
    }

    /// Goes on at `start`. A `next()` that begins after this returned hands out nothing from before; a partition that
    /// failed is read again.
    ///
    /// A partition that is not known yet begins there when it is.
    ///
    /// # Errors
    ///
    /// The partition is not read by this reader, the offset is negative, or the reader is closed.
    pub fn seek(&self, at: &TopicPartition, start: Start) -> Result<(), Error> {
        if let Start::Offset(offset) = start
            && offset < 0
        {
            return Err(Error::argument(format!("seek to offset {offset}: offsets are not negative")));
        }
        self.shared.open()?;
        Ok(self.shared.update(|machine, _| machine.seek(at, start.resolve(SystemTime::now())))?)
    }

    /// Hands out nothing more of the partition until it is resumed; what was fetched is kept while there is room. In a group,
    /// a partition that the next assignment gives to this reader again is still paused, unless it was resumed meanwhile; one
    /// that comes back later is not.
    ///
    /// # Errors
    ///
    /// The partition is not read by this reader, or the reader is closed.
    pub fn pause(&self, at: &TopicPartition) -> Result<(), Error> {
        self.shared.open()?;
        Ok(self.shared.update(|machine, _| machine.pause(at))?)
    }

    /// Goes on with a paused partition.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub fn resume(&self, at: &TopicPartition) -> Result<(), Error> {
        self.shared.open()?;
        self.shared.update(|machine, _| machine.resume(at))?;
        self.shared.rouse(); // the reader may have put some of it aside
        Ok(())
    }

    /// The offset of the next record to hand out; `None` while it is not known.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub fn position(&self, at: &TopicPartition) -> Result<Option<i64>, Error> {
        self.shared.open()?;
        Ok(self.shared.look(|machine| machine.position(at))?)
    }

    /// How many offsets lie between the position and the end of the partition, as of its last reply; `None` while
    /// one of them is not known.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub fn lag(&self, at: &TopicPartition) -> Result<Option<u64>, Error> {
        self.shared.open()?;
        Ok(self.shared.look(|machine| machine.lag(at))?)
    }

    /// The lag of every partition that is read, as far as they are known; see [`lag`](Self::lag).
    pub fn lags(&self) -> Vec<(TopicPartition, Option<u64>)> {
        self.shared.look(|machine| {
            let lag = |at: &TopicPartition| (at.clone(), machine.lag(at).ok().flatten());
            machine.partitions().map(lag).collect()
        })
    }

    /// The partitions that are read, as far as they are known; of a member of a group those that are assigned to it.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        self.shared.look(|machine| machine.partitions().cloned().collect())
    }

    /// What the reader holds, in bytes: for itself, and because the caller keeps messages.
    pub fn buffered(&self) -> Buffered {
        self.shared.ledger.buffered()
    }

    /// Closes the reader: its connections end at once, and `next()` returns an error with
    /// [`is_closed`](Error::is_closed). Calling it again does nothing.
    ///
    /// A reader with a group goes on in the background until what was acknowledged is committed and the group is left, for
    /// [`close_timeout`](crate::Builder::close_timeout) at most. [`Reader::close`](crate::Reader::close) waits for that and
    /// says how it went, also after this.
    pub fn close(&self) {
        self.shared.close();
    }
}

/// A member of a group.
impl Control<Group> {
    /// Who we are in the group; `None` while we are not in it, or are joining anew.
    pub fn member(&self) -> Option<Member> {
        self.shared.look(ottla_core::Machine::member)
    }

    /// Reads these topics from now on, in the place of those that were named before, and of their patterns. The group is
    /// joined anew for it; what is not among them is committed and given up.
    ///
    /// # Errors
    ///
    /// A name that Kafka would refuse, no name at all, or the reader is closed. Nothing changes then.
    pub fn subscribe(&self, topics: impl IntoIterator<Item = impl Into<String>>) -> Result<(), Error> {
        let topics = checked_topics(topics.into_iter().map(Into::into))?;
        self.shared.open()?;
        self.shared.update(|machine, now| machine.subscribe(now, &topics, None));
        Ok(())
    }

    /// Gives up what is ours, after what was acknowledged has been committed, and joins the group anew: for a change that
    /// an own assignor should see (`Consumer.enforceRebalance`, KIP-568).
    ///
    /// # Errors
    ///
    /// The reader is closed.
    pub fn rejoin(&self) -> Result<(), Error> {
        self.shared.open()?;
        self.shared.update(|machine, now| machine.rejoin(now, "the caller wants it"));
        Ok(())
    }
}
