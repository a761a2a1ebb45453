//! A reader's part in a group: what was printed is done, and only that.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use ottla::{
    Assignor, Batch, Builder, CommitOffset, Control, Error, Group, Partitions, Range, Reader, Rebalance,
    Revoked, RoundRobin, Sticky, TopicPartition,
};
use tokio::sync::mpsc;

use crate::{args::AssignorName, output::Output, plan::Membership};

/// How long the last commit of a batch that is not printed to its end may take.
const CUT_COMMIT: Duration = Duration::from_secs(5);

/// What a member of a group has to do beside reading.
pub(crate) struct Member {
    control: Control<Group>,
    commits: bool,
    /// Partitions that are given up as soon as what was printed of them is acknowledged.
    revoked: mpsc::UnboundedReceiver<Revoked>,
    /// Where printing stopped within a batch, once everything before is written out.
    cut: Rc<RefCell<Option<(TopicPartition, CommitOffset)>>>,
}

impl Member {
    /// Opens the reader as a member of the group.
    pub(crate) fn join(
        membership: &Membership,
        builder: Builder<Partitions>,
    ) -> Result<(Reader<Group>, Self), Error> {
        let (sender, revoked) = mpsc::unbounded_channel();
        let mut builder = builder.group(&*membership.group).commit_start(membership.commit).on_rebalance(
            move |rebalance| {
                if let Rebalance::Revoked(revoked) = rebalance {
                    let _ = sender.send(revoked); // nobody takes it: then nothing holds it up
                }
                std::future::ready(())
            },
        );
        if !membership.assignors.is_empty() {
            builder = builder.assignors(membership.assignors.iter().map(|name| assignor(*name)));
        }
        if let Some(instance) = &membership.instance {
            builder = builder.instance_id(&**instance);
        }
        let reader = builder.open()?;
        let member =
            Self { control: reader.control(), commits: membership.commit, revoked, cut: Rc::default() };
        Ok((reader, member))
    }

    /// Acknowledges the batch as soon as it is written out.
    pub(crate) fn printed(&self, batch: Batch, output: &mut Output) {
        if self.commits {
            let control = self.control.clone();
            // Of a partition that was given up meanwhile somebody else prints it again; an event has told so.
            output.mark(move || drop(control.ack_batch(&batch)));
        }
    }

    /// Nothing is printed from `offset` on.
    pub(crate) fn cut(&self, batch: &Batch, offset: i64, output: &mut Output) {
        if self.commits {
            let leader_epoch = batch.leader_epoch();
            let offset = CommitOffset { offset, leader_epoch, ..CommitOffset::default() };
            let (at, cut) = (batch.topic_partition(), self.cut.clone());
            output.mark(move || *cut.borrow_mut() = Some((at, offset)));
        }
    }

    /// Gives up at once what is to be given up.
    pub(crate) fn let_go(&mut self) {
        while self.revoked.try_recv().is_ok() {}
    }

    /// Commits what was written out, and leaves the group.
    pub(crate) async fn close<K>(self, reader: Reader<K>) -> Result<(), Error> {
        let Self { control, revoked, cut, .. } = self;
        drop(revoked); // nothing more is printed
        let cut = match cut.take() {
            Some(cut) => {
                let commit = tokio::time::timeout(CUT_COMMIT, control.commit_offsets([cut]));
                commit.await.unwrap_or(Ok(()))
            }
            None => Ok(()),
        };
        reader.close().await?;
        cut
    }
}

/// Partitions that are to be given up when this is dropped; never without a group.
pub(crate) async fn revoked(member: &mut Option<Member>) -> Revoked {
    match member {
        Some(member) => match member.revoked.recv().await {
            Some(revoked) => revoked,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn assignor(name: AssignorName) -> Arc<dyn Assignor> {
    match name {
        AssignorName::Range => Arc::new(Range),
        AssignorName::RoundRobin => Arc::new(RoundRobin),
        AssignorName::Sticky => Arc::new(Sticky),
    }
}
