//! What users do when partitions come and go.
//!
//! Hooks run in a task of their own, one rebalance after the other, in order; the driver goes on beside them. The machine
//! waits for the guard in a hook's hands, until it is dropped or the deadline has passed.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use ottla_core::{Commit, CommitOffset, Machine, Rebalance as Told, RebalanceKind, Start, TopicPartition};
use tokio::sync::mpsc;

use crate::{
    batch::Batch, caught::caught, control::Control, error::Error, kind::Group, message::Message,
    shared::Shared,
};

/// What happens to a group reader's partitions; see [`Builder::on_rebalance`](crate::Builder::on_rebalance).
#[derive(Debug)]
pub enum Rebalance {
    /// They are ours.
    Assigned(Assigned),
    /// They are given up, after what was acknowledged has been committed.
    Revoked(Revoked),
    /// They are somebody else's already.
    Lost(Lost),
}

/// These partitions are ours. Reading them begins when this is dropped.
///
/// There is no deadline: a hook that keeps it for ever keeps them from being read, and
/// [`Event::HookBusy`](crate::Event::HookBusy) says so.
#[derive(Debug)]
pub struct Assigned {
    told: Guard,
}

impl Assigned {
    /// Which.
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.told.partitions
    }

    /// Begins to read a partition at `start`, whatever was committed: for offsets that are kept elsewhere, in the same
    /// transaction as what was made of the messages.
    ///
    /// # Errors
    ///
    /// The partition is not ours (any more), the offset is negative, or the reader is closed.
    pub fn start_at(&self, at: &TopicPartition, start: Start) -> Result<(), Error> {
        self.control().seek(at, start)
    }

    /// A handle on the reader.
    pub fn control(&self) -> Control<Group> {
        self.told.control()
    }
}

/// These partitions are given up: nothing more of them is handed out. What is acknowledged until this is dropped, or until
/// the deadline, is committed before others read them.
#[derive(Debug)]
pub struct Revoked {
    told: Guard,
    deadline: Instant,
}

/// How often to look whether workers are done.
const DRAINED_PAUSE: Duration = Duration::from_millis(2);

impl Revoked {
    /// Which.
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.told.partitions
    }

    /// When it is over, whatever is missing: four fifths of the time that
    /// [`rebalance_timeout`](crate::Builder::rebalance_timeout) or [`close_timeout`](crate::Builder::close_timeout) leaves.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Done with this message, as [`Control::ack`]; also while the reader is being closed, when that is over for others.
    ///
    /// # Errors
    ///
    /// The partition was given up meanwhile ([`ErrorKind::Fenced`](crate::ErrorKind::Fenced)).
    pub fn ack(&self, message: &Message) -> Result<(), Error> {
        message.ack()
    }

    /// Done with this message and all before it in its partition, as [`Control::ack_through`].
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn ack_through(&self, message: &Message) -> Result<(), Error> {
        message.ack_through()
    }

    /// Done with this batch, as [`Control::ack_batch`].
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn ack_batch(&self, batch: &Batch) -> Result<(), Error> {
        batch.ack()
    }

    /// Waits until all that was handed out of these partitions is acknowledged, as far as there is time: then whoever owns
    /// them next repeats nothing of it. Whether it all is. Messages that nobody will acknowledge are waited for until the
    /// deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn drained(&self) -> bool {
        loop {
            let id = self.told.id;
            let look = |machine: &Machine| (machine.is_revoking(id), machine.is_drained());
            match self.told.shared.look(look) {
                (false, _) => return false, // the time is over
                (true, true) => return true,
                (true, false) => {}
            }
            // Acknowledging wakes nobody: it is one exchange of a word.
            tokio::time::sleep(DRAINED_PAUSE).await;
        }
    }

    /// Commits all that was acknowledged, and waits for the answer. The same happens without it once this is dropped; this
    /// one says how it went.
    ///
    /// # Errors
    ///
    /// The coordinator refused it, or the partitions were given up meanwhile ([`ErrorKind::Fenced`](crate::ErrorKind::Fenced)).
    ///
    /// # Cancel safety
    ///
    /// What is on its way is committed all the same.
    pub async fn commit(&self) -> Result<(), Error> {
        self.told.is_revoking()?;
        Ok(self.told.shared.commit_to_the_end(Commit::Acked)?.wait().await?)
    }

    /// Commits these offsets, as [`Control::commit_offsets`].
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    ///
    /// # Cancel safety
    ///
    /// As [`commit`](Self::commit).
    pub async fn commit_offsets(
        &self,
        offsets: impl IntoIterator<Item = (TopicPartition, CommitOffset)>,
    ) -> Result<(), Error> {
        let offsets = offsets.into_iter().collect();
        self.told.is_revoking()?;
        Ok(self.told.shared.commit_to_the_end(Commit::Offsets(offsets))?.wait().await?)
    }

    /// A handle on the reader.
    pub fn control(&self) -> Control<Group> {
        self.told.control()
    }
}

/// These partitions are somebody else's already, because the group did not hear of us in time: nothing of them can be
/// committed any more, and what was not will be read again.
///
/// Not told of partitions that [`Revoked`] was told of: if these are lost before they are given up, its
/// [`commit`](Revoked::commit) fails.
#[derive(Debug)]
pub struct Lost {
    partitions: Vec<TopicPartition>,
    control: Control<Group>,
}

impl Lost {
    /// Which.
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.partitions
    }

    /// A handle on the reader.
    pub fn control(&self) -> Control<Group> {
        self.control.clone()
    }
}

/// Lets the machine go on when it is dropped.
struct Guard {
    id: u64,
    partitions: Vec<TopicPartition>,
    shared: Arc<Shared>,
}

impl Guard {
    fn control(&self) -> Control<Group> {
        Control::new(self.shared.clone())
    }

    fn is_revoking(&self) -> Result<(), Error> {
        match self.shared.look(|machine| machine.is_revoking(self.id)) {
            true => Ok(()),
            false => Err(Error::given_up(self.partitions.first().cloned())),
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.partitions).finish()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let complete = if std::thread::panicking() { Machine::complete_panicked } else { Machine::complete };
        self.shared.update(|machine, _| complete(machine, self.id));
    }
}

/// What the user gave us to call.
pub(crate) type Hook = Arc<dyn Fn(Rebalance) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The hook and what it has to be told.
pub(crate) struct Hooks {
    pub(crate) hook: Hook,
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
}

impl Hooks {
    /// Runs until the reader has ended and all has been told.
    pub(crate) async fn run(mut self, shared: Arc<Shared>) {
        while let Some(told) = self.told.recv().await {
            let (hook, rebalance) = (self.hook.clone(), dress(shared.clone(), told));
            if let Err(panic) = caught(async { hook(rebalance).await }).await {
                tracing::error!(panic, "a rebalance hook panicked");
            }
        }
    }
}

fn dress(shared: Arc<Shared>, told: Told) -> Rebalance {
    let Told { id, kind, partitions } = told;
    match kind {
        RebalanceKind::Assigned => Rebalance::Assigned(Assigned { told: Guard { id, partitions, shared } }),
        RebalanceKind::Revoked { deadline } => {
            Rebalance::Revoked(Revoked { told: Guard { id, partitions, shared }, deadline })
        }
        RebalanceKind::Lost => Rebalance::Lost(Lost { partitions, control: Control::new(shared) }),
    }
}
