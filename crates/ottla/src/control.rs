//! What can be done to a reader from any task.

use std::{sync::Arc, time::SystemTime};

use ottla_core::{Buffered, Start, TopicPartition};

use crate::{error::Error, shared::Shared};

/// A handle on a reader, cheap to clone and to send. What it does is done when the call returns.
///
/// It does not keep the reader open: once that is closed or dropped, every verb is an error with
/// [`is_closed`](Error::is_closed).
#[derive(Clone)]
pub struct Control {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("closed", &self.shared.is_closed()).finish_non_exhaustive()
    }
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
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
        self.open()?;
        Ok(self.shared.update(|machine, _| machine.seek(at, start.resolve(SystemTime::now())))?)
    }

    /// Hands out nothing more of the partition until it is resumed; what was fetched is kept while there is room.
    ///
    /// # Errors
    ///
    /// The partition is not read by this reader, or the reader is closed.
    pub fn pause(&self, at: &TopicPartition) -> Result<(), Error> {
        self.open()?;
        Ok(self.shared.update(|machine, _| machine.pause(at))?)
    }

    /// Goes on with a paused partition.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub fn resume(&self, at: &TopicPartition) -> Result<(), Error> {
        self.open()?;
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
        self.open()?;
        Ok(self.shared.look(|machine| machine.position(at))?)
    }

    /// How many offsets lie between the position and the end of the partition, as of its last reply; `None` while
    /// one of them is not known.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub fn lag(&self, at: &TopicPartition) -> Result<Option<u64>, Error> {
        self.open()?;
        Ok(self.shared.look(|machine| machine.lag(at))?)
    }

    /// The partitions that are read, as far as they are known.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        self.shared.look(|machine| machine.partitions().cloned().collect())
    }

    /// What the reader holds, in bytes: for itself, and because the caller keeps messages.
    pub fn buffered(&self) -> Buffered {
        self.shared.ledger.buffered()
    }

    /// Closes the reader: its connections end at once, and `next()` returns an error with
    /// [`is_closed`](Error::is_closed). Calling it again does nothing.
    pub fn close(&self) {
        self.shared.close();
    }

    fn open(&self) -> Result<(), Error> {
        if self.shared.is_closed() { Err(Error::closed()) } else { Ok(()) }
    }
}
