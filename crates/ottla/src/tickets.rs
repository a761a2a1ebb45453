//! Who waits for what the coordinator says.

use std::{collections::HashMap, sync::Arc};

use ottla_core::{Commit, CommitError, Committed, Settled, Ticket, TopicPartition};
use tokio::sync::oneshot;

use crate::shared::Shared;

/// What is told of committed offsets.
pub(crate) type Offsets = Vec<(TopicPartition, Option<Committed>)>;

/// Those who wait, by what the machine calls their question.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    commits: HashMap<Ticket, oneshot::Sender<Result<(), CommitError>>>,
    looks: HashMap<Ticket, oneshot::Sender<Result<Offsets, CommitError>>>,
}

impl Tickets {
    /// Tells the one who waits for it, if anybody still does.
    pub(crate) fn settle(&mut self, ticket: Ticket, settled: Settled) {
        match settled {
            Settled::Commit(result) => {
                if let Some(waits) = self.commits.remove(&ticket) {
                    let _ = waits.send(result);
                }
            }
            Settled::Committed(result) => {
                if let Some(waits) = self.looks.remove(&ticket) {
                    let _ = waits.send(result);
                }
            }
        }
    }
}

/// Something that the coordinator was asked for. Dropping it takes nothing back; only nobody waits for it any more.
#[must_use = "it is on its way, but nobody learns how it went"]
pub(crate) struct Answer<T> {
    receiver: oneshot::Receiver<Result<T, CommitError>>,
    waits: Waits,
}

impl<T> Answer<T> {
    pub(crate) async fn wait(mut self) -> Result<T, CommitError> {
        let answer = (&mut self.receiver).await;
        self.waits.shared = None; // whoever answered has taken the ticket out
        answer.unwrap_or(Err(CommitError::Closed))
    }
}

/// Somebody waits. Who gives up leaves nothing behind, however long the coordinator is silent.
struct Waits {
    /// Until the answer is there.
    shared: Option<Arc<Shared>>,
    ticket: Ticket,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        shared.with_tickets(|machine, tickets| {
            tickets.commits.remove(&self.ticket);
            tickets.looks.remove(&self.ticket);
            machine.forget(self.ticket);
        });
    }
}

impl Shared {
    /// Commits, unless closing has begun.
    pub(crate) fn commit(self: &Arc<Self>, what: Commit) -> Result<Answer<()>, CommitError> {
        if self.is_closed() { Err(CommitError::Closed) } else { self.commit_to_the_end(what) }
    }

    /// Commits also while the reader is being closed.
    pub(crate) fn commit_to_the_end(self: &Arc<Self>, what: Commit) -> Result<Answer<()>, CommitError> {
        self.with_tickets(|machine, tickets| {
            let ticket = machine.commit(what)?;
            let (waits, receiver) = oneshot::channel();
            tickets.commits.insert(ticket, waits);
            Ok(Answer { receiver, waits: Waits { shared: Some(self.clone()), ticket } })
        })
        .unwrap_or(Err(CommitError::Closed))
    }

    /// Looks up what is committed.
    pub(crate) fn committed(
        self: &Arc<Self>,
        partitions: Vec<TopicPartition>,
    ) -> Result<Answer<Offsets>, CommitError> {
        if self.is_closed() {
            return Err(CommitError::Closed);
        }
        let asked = self.with_tickets(|machine, tickets| {
            let ticket = machine.committed(partitions);
            let (waits, receiver) = oneshot::channel();
            tickets.looks.insert(ticket, waits);
            Answer { receiver, waits: Waits { shared: Some(self.clone()), ticket } }
        });
        asked.ok_or(CommitError::Closed)
    }
}
