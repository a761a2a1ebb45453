//! What readers have whose offsets a group stores.

use std::{collections::BTreeSet, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use ottla_core::{Assignor, GroupConfig};

use super::{Builder, name_fault};
use crate::{
    hooks::Rebalance,
    kind::{Commits, Group, Partitions, Stored},
};

impl Builder<Partitions> {
    /// Reads as a member of this group: its leader assigns partitions to its members, and their offsets are stored in it
    /// (`group.id`).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), ottla::Error> {
    /// use ottla::{Group, Reader};
    ///
    /// let mut reader: Reader<Group> =
    ///     Reader::builder("localhost:9092").group("billing").topics(["orders", "refunds"]).open()?;
    /// while let Some(message) = reader.next().await? {
    ///     println!("{message:?}");
    ///     match reader.ack(&message) {
    ///         Err(error) if error.is_fenced() => {} // given to another member meanwhile, which reads it again
    ///         result => result?,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn group(self, id: impl Into<String>) -> Builder<Group> {
        self.of_group(id.into(), true)
    }

    /// Reads the partitions that are named, or all of the topics, and stores offsets in this group, without being a member
    /// of it (`assign()` with a `group.id`). Reading begins where the group stands.
    ///
    /// A broker takes such commits only while the group has no members.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), ottla::Error> {
    /// use ottla::{Reader, Stored};
    ///
    /// let mut reader: Reader<Stored> =
    ///     Reader::builder("localhost:9092").topic("orders").partition(3).stored_in("billing").open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored_in(self, id: impl Into<String>) -> Builder<Stored> {
        self.of_group(id.into(), false)
    }

    fn of_group<K>(mut self, id: String, member: bool) -> Builder<K> {
        self.config.group = Some(GroupConfig { id: Arc::from(id), member, ..GroupConfig::default() });
        Builder {
            bootstrap: self.bootstrap,
            topics: self.topics,
            patterns: self.patterns,
            partitions: self.partitions,
            config: self.config,
            options: self.options,
            auto_ack: self.auto_ack,
            hook: self.hook,
            kind: PhantomData,
        }
    }
}

/// What is stored in a group.
impl<K: Commits> Builder<K> {
    /// How often what was acknowledged is committed; 1 s (`auto.commit.interval.ms`, there 5 s). It is also committed before
    /// a partition is given up, and on close. Longer saves requests, and after a crash more is read again.
    pub fn commit_interval(self, interval: Duration) -> Self {
        self.with_group(|group| group.commit_interval = interval)
    }

    /// A message, or a batch, counts as acknowledged when the following one is asked for; so nothing is lost, and after a
    /// crash what was handed out last comes again. The last one before [`close`](crate::Reader::close) is not acknowledged
    /// unless the caller does so.
    pub fn auto_ack(mut self) -> Self {
        self.auto_ack = true;
        self
    }

    /// How long the broker keeps what we commit; as long as it is configured to unless told
    /// (`offsets.retention.minutes`). Brokers since 2.1 keep the offsets of a group that has members in any case, and take
    /// this for the time from the last commit on.
    pub fn retention(self, retention: Duration) -> Self {
        self.with_group(|group| group.retention = Some(retention))
    }

    /// Whether to look up only committed offsets that nothing can change any more (KIP-447); true, as Java's consumer does.
    /// A partition whose offset a transaction is about to commit is waited for. Without it a coordinator (since 4.0) that
    /// has just taken over from a dead one may answer for a moment with older offsets than that one has confirmed, and
    /// what was committed is read again. Brokers before 2.5 do not know of it.
    pub fn require_stable(self, require: bool) -> Self {
        self.with_group(|group| group.require_stable = require)
    }

    /// Whether to commit where reading begins, where nothing was committed yet; true. Without it a reader that began at
    /// [`Start::Latest`](crate::Start::Latest) and acknowledged nothing would begin at a later end the next time, and miss
    /// what came between.
    pub fn commit_start(self, commit: bool) -> Self {
        self.with_group(|group| group.commit_start = commit)
    }

    /// How long [`close`](crate::Reader::close), or a drop in the background, may take in all: hooks, commits, and leaving
    /// the group; 5 s (`Consumer.close(timeout)`, there 30 s).
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.options.close_timeout = timeout;
        self
    }

    pub(super) fn with_group(mut self, change: impl FnOnce(&mut GroupConfig)) -> Self {
        if let Some(group) = &mut self.config.group {
            change(group);
        }
        self
    }
}

/// What members of a group have.
impl Builder<Group> {
    /// Makes this a static member: when it comes back within the session under the same id it gets the same partitions,
    /// without a rebalance (`group.instance.id`, KIP-345). It does not leave the group on close.
    pub fn instance_id(self, id: impl Into<String>) -> Self {
        self.with_group(|group| group.instance = Some(id.into()))
    }

    /// How partitions may be assigned, the most wanted first; [`Range`](crate::Range), then
    /// [`RoundRobin`](crate::RoundRobin) unless told (`partition.assignment.strategy`). All members of a group need one in
    /// common.
    pub fn assignors(self, assignors: impl IntoIterator<Item = Arc<dyn Assignor>>) -> Self {
        self.with_group(|group| group.assignors = assignors.into_iter().collect())
    }

    /// After so long without a heartbeat the group takes a member for dead, and its partitions are given to others; 45 s
    /// (`session.timeout.ms`). Brokers allow 6 s to 30 min unless configured otherwise.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        self.with_group(|group| group.session_timeout = timeout)
    }

    /// How long members may take in a rebalance to give up what they have and join anew; 60 s (`rebalance.timeout.ms`; Java
    /// takes `max.poll.interval.ms` for it). [Hooks](Self::on_rebalance) have most of that time.
    pub fn rebalance_timeout(self, timeout: Duration) -> Self {
        self.with_group(|group| group.rebalance_timeout = timeout)
    }

    /// How often the group hears of us; 3 s (`heartbeat.interval.ms`). It is also how fast a rebalance is noticed. A third
    /// of the session or less is advised.
    pub fn heartbeat_interval(self, interval: Duration) -> Self {
        self.with_group(|group| group.heartbeat_interval = interval)
    }

    /// A reader that is not asked for anything for so long gives its partitions up until it is; off
    /// (`max.poll.interval.ms`, there 5 min). Heartbeats go on by themselves, so that without this a caller that hangs keeps
    /// its partitions.
    pub fn max_poll_interval(self, interval: Duration) -> Self {
        self.with_group(|group| group.max_poll_interval = Some(interval))
    }

    /// Where this member is; assignors may know what to do with that (`client.rack`, KIP-881).
    pub fn rack(self, rack: impl Into<String>) -> Self {
        self.with_group(|group| group.rack = Some(rack.into()))
    }

    /// Calls this when partitions come and go (`ConsumerRebalanceListener`): to take offsets from elsewhere
    /// ([`Assigned::start_at`](crate::Assigned::start_at)), or to finish what is being done of partitions that are given up.
    ///
    /// Hooks run in a task of their own, one after the other, in order; reading other partitions goes on meanwhile, and so
    /// do heartbeats. [`Revoked`](crate::Revoked) holds the group up until it is dropped, or until its deadline.
    /// [`Assigned`](crate::Assigned) holds nobody up, and has no deadline: its partitions are read once it is dropped, and
    /// [`Event::HookBusy`](crate::Event::HookBusy) says so if that takes longer than
    /// [`rebalance_timeout`](Self::rebalance_timeout). A hook may await, and use a [`Control`](crate::Control), such as that
    /// of what it was given. Where one panics while it holds [`Assigned`](crate::Assigned), its partitions fail
    /// ([`ErrorKind::Hook`](crate::ErrorKind::Hook)), for it had not said where to begin; else one that panics counts as
    /// done. One that never returns keeps those after it from being called, and what is assigned later from being read; when
    /// the reader ends it is dropped at its next await.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), ottla::Error> {
    /// use ottla::{Reader, Rebalance, Start};
    ///
    /// let reader = Reader::builder("localhost:9092")
    ///     .group("billing")
    ///     .topic("orders")
    ///     .on_rebalance(|rebalance| async move {
    ///         match rebalance {
    ///             Rebalance::Assigned(assigned) => {
    ///                 for at in assigned.partitions() {
    ///                     let _ = assigned.start_at(at, Start::Earliest);
    ///                 }
    ///             }
    ///             Rebalance::Revoked(revoked) => {
    ///                 if let Err(error) = revoked.commit().await {
    ///                     eprintln!("{:?} will be read again: {error}", revoked.partitions());
    ///                 }
    ///             }
    ///             Rebalance::Lost(lost) => eprintln!("lost {:?}", lost.partitions()),
    ///         }
    ///     })
    ///     .open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_rebalance<H, F>(mut self, hook: H) -> Self
    where
        H: Fn(Rebalance) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.hook = Some(Arc::new(move |rebalance| Box::pin(hook(rebalance))));
        self.with_group(|group| group.hooks = true)
    }
}

/// What would be refused, or could not work.
impl<K> Builder<K> {
    pub(super) fn check_group(&self, faults: &mut Vec<String>) {
        let Some(group) = &self.config.group else { return };
        let id = group.id.len();
        let mut wrong = |is_wrong: bool, fault: &str| {
            if is_wrong {
                faults.push(fault.to_owned());
            }
        };
        wrong(id == 0, "the group's id is empty");
        wrong(id > LONGEST, &format!("the group's id has {id} bytes, at most {LONGEST} can be sent"));
        wrong(self.config.until.is_some(), "until: a reader with a group has no end");
        wrong(
            group.member && self.partitions.is_some(),
            "partitions are named, but a group's leader assigns them; leave them out, or use stored_in",
        );
        wrong(group.commit_interval.is_zero(), "commit_interval is zero");
        wrong(self.options.close_timeout.is_zero(), "close_timeout is zero");
        if let Some(retention) = group.retention {
            wrong(retention < MS, &format!("retention {retention:?} is less than 1 ms"));
            wrong(
                retention > LONGEST_RETENTION,
                &format!("retention {retention:?} is more than {LONGEST_RETENTION:?}"),
            );
        }
        if group.member {
            check_member(group, faults);
        }
    }
}

fn check_member(group: &GroupConfig, faults: &mut Vec<String>) {
    match group.instance.as_deref() {
        Some("") => faults.push("instance_id is empty".to_owned()),
        Some(id) => faults.extend(name_fault("instance_id", id)),
        None => {}
    }
    if let Some(rack) = group.rack.as_ref().filter(|rack| rack.len() > LONGEST) {
        faults.push(format!("rack has {} bytes, at most {LONGEST} can be sent", rack.len()));
    }
    for (name, value) in [
        ("session_timeout", Some(group.session_timeout)),
        ("rebalance_timeout", Some(group.rebalance_timeout)),
        ("heartbeat_interval", Some(group.heartbeat_interval)),
        ("max_poll_interval", group.max_poll_interval),
    ] {
        let Some(value) = value else { continue };
        if value < MS {
            faults.push(format!("{name} {value:?} is less than 1 ms"));
        }
        if value > LONGEST_TIMEOUT {
            faults.push(format!("{name} {value:?} is more than {LONGEST_TIMEOUT:?}"));
        }
    }
    let (beat, session) = (group.heartbeat_interval, group.session_timeout);
    if beat >= session {
        faults.push(format!(
            "heartbeat_interval {beat:?} is not shorter than session_timeout {session:?}; a third of it or less is advised"
        ));
    }
    // Whoever notices a rebalance only when it is over is thrown out each time, and so are the others by turns.
    let rebalance = group.rebalance_timeout;
    if rebalance >= MS && rebalance <= beat {
        faults
            .push(format!("rebalance_timeout {rebalance:?} is not longer than heartbeat_interval {beat:?}"));
    }
    check_assignors(&group.assignors, faults);
}

fn check_assignors(assignors: &[Arc<dyn Assignor>], faults: &mut Vec<String>) {
    if assignors.is_empty() {
        faults.push("no assignor is named".to_owned());
    }
    let mut names = BTreeSet::new();
    for name in assignors.iter().map(|assignor| assignor.name()) {
        if name.is_empty() {
            faults.push("an assignor's name is empty".to_owned());
        }
        if name.len() > LONGEST {
            faults
                .push(format!("an assignor's name has {} bytes, at most {LONGEST} can be sent", name.len()));
        }
        if !names.insert(name) {
            faults.push(format!("the assignor {name:?} is named twice"));
        }
    }
}

/// How many bytes a string of the protocol may have.
const LONGEST: usize = i16::MAX as usize;

const MS: Duration = Duration::from_millis(1);

/// Timeouts are sent as ms in 32 bits.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// Retention is sent as ms in 64 bits.
const LONGEST_RETENTION: Duration = Duration::from_millis(i64::MAX as u64);
