//! Groups: members that share the partitions of their topics, and the offsets that they store.
//!
//! The classic protocol: a coordinator (one of the brokers) keeps the list of members, one of them (the leader) assigns.
//! Each file is one concern of the [`Machine`]; the rules that hold between them are in DESIGN.md.

pub(crate) mod assign;
mod classic;
mod close;
mod commit;
mod coordinator;
mod lead;
mod nack;
mod rebalance;
mod recall;
mod silence;
pub(crate) mod tenure;
pub(crate) mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use ottla_wire::code::Code;

pub(crate) use self::rebalance::Stake;
use self::{
    assign::GroupTopics, classic::Joined, close::Closing, commit::Commits, coordinator::Coordinator,
    recall::Recalls, silence::Silence, tenure::Session,
};
pub use self::{
    commit::{Commit, CommitError, CommitOffset, Committed, Settled, Ticket},
    rebalance::{Rebalance, RebalanceKind},
};
use crate::{
    address::Address, backoff::Backoff, cluster::Peer, config::GroupConfig, event::Event, fault::Fault,
    machine::Machine, partition::TopicPartition, request::Reply, timer::Why,
};

/// Our part in a group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) config: GroupConfig,
    pub(crate) phase: Phase,
    coordinator: Coordinator,
    /// Where it was told to be.
    coordinator_told: Option<(i32, Address)>,
    /// What the coordinator calls us; empty until it does.
    member: String,
    /// Of our last assignment, or of the one that is being made; -1 for none.
    generation: i32,
    /// The assignor that the group agreed on.
    protocol: String,
    leads: bool,
    /// Our partitions, by cursor.
    owned: Vec<usize>,
    /// What we were assigned last, and in which generation; assignors are told.
    last_assigned: (Vec<TopicPartition>, i32),
    commits: Commits,
    recalls: Recalls,
    /// What to tell who has hooks.
    rebalances: VecDeque<Rebalance>,
    next_rebalance: u64,
    /// A hook that was told of an assignment, and when to say that it takes long.
    hook_due: Option<(u64, Instant)>,
    /// The last time at which we spoke to the coordinator and it knew us.
    heard: Instant,
    session: Arc<Session>,
    /// The heartbeat that waits for its answer, and when it was sent.
    heartbeat: Option<(u64, Instant)>,
    heartbeat_due: Option<Instant>,
    /// Heartbeats in a row that were not answered as they should be.
    missed: Backoff,
    /// Heartbeats in a row whose answers say that the coordinator does not hold what we asked to join.
    disowned: u32,
    /// When we became stable.
    stable_since: Option<Instant>,
    /// Assignments in a row that hardly lasted.
    restless: Backoff,
    /// After such ones: not to join before.
    join_after: Option<Instant>,
    /// After a failure: not before.
    not_before: Option<Instant>,
    backoff: Backoff,
    /// Whether the coordinator takes us for a static member if we want to be one.
    knows_instances: bool,
    /// Why we join the next time (KIP-800).
    reason: String,
    /// Why we are to join anew as soon as we are in.
    rejoin_wanted: Option<String>,
    /// The topics that the coordinator knows us to read.
    joined_topics: Vec<Arc<str>>,
    /// Why the whole reader fails, until an answer says otherwise, and what was asked.
    fault: Option<(Question, Fault)>,
    /// The topics of the group as metadata has them.
    view: GroupTopics,
    /// What our assignment as a leader was made from: by topic, how many partitions.
    assigned_from: BTreeMap<Arc<str>, usize>,
    /// Topics that are gone from metadata, and how often in a row.
    vanished: BTreeMap<Arc<str>, u32>,
    /// Topics that other members read, for a leader.
    foreign: Vec<Arc<str>>,
    /// The topics that the last metadata was about.
    answered: BTreeSet<Arc<str>>,
    silence: Silence,
    closing: Option<Closing>,
}

/// How far our membership is.
///
/// ```text
///                  (a new member id: once more)
///                        .----.
///                        v    |    leader
///   Apart --join------> Joining ------> Assigning --sync--> Syncing --answer--> Stable
///    ^  ^                 |  '---------------sync-------------^  |              | |
///    |  '-----------------'--------- refused, connection lost ---'              | |
///    |                                                                          | |
///    |                             rebalance, growth, other topics, silence     | |
///    '--- committed, given up --- Revoking <------------------------------------' |
///    '--- lost: unknown, stale, the session is over <-----------------------------'
///
///   Left: closed, or fenced by another process with our instance id
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// We own nothing, and join as soon as we may.
    Apart,
    /// The coordinator waits for the other members.
    Joining { request: u64 },
    /// The leader waits for metadata, to assign.
    Assigning { joined: Joined, until: Instant },
    /// The coordinator waits for the leader, who has sent what is ours if we are it.
    Syncing { request: u64, ours: Option<Bytes> },
    /// We read what we were assigned.
    Stable,
    /// We hand out nothing any more, and commit what was acknowledged.
    Revoking(Revoking),
    /// Nothing more is done.
    Left,
}

/// Giving up what we own.
#[derive(Debug)]
pub(crate) struct Revoking {
    /// The hook that has not said yet that it is done, and how long it may take.
    hook: Option<u64>,
    hooks_until: Instant,
    /// Until then, whatever is missing.
    deadline: Instant,
    /// What was acknowledged has been put on its way.
    flushed: bool,
}

/// Who we are in the group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// What the coordinator calls us.
    pub id: String,
    /// The generation of our assignment.
    pub generation: i32,
    /// The assignor that the group agreed on.
    pub protocol: String,
    /// Whether we assign.
    pub leader: bool,
}

/// What is asked for the group's sake: an answer belongs to it, and an error code means what it means there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// FindCoordinator.
    Find,
    /// JoinGroup.
    Join,
    /// SyncGroup.
    Sync,
    /// Heartbeat.
    Heartbeat,
    /// OffsetFetch.
    Recall,
    /// OffsetCommit.
    Commit,
    /// LeaveGroup.
    Leave,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Find => "finding the coordinator",
            Self::Join => "joining",
            Self::Sync => "taking the assignment",
            Self::Heartbeat => "the heartbeat",
            Self::Recall => "looking up committed offsets",
            Self::Commit => "committing",
            Self::Leave => "leaving",
        })
    }
}

impl Group {
    pub(crate) fn new(now: Instant, config: GroupConfig) -> Self {
        Self {
            phase: if config.member { Phase::Apart } else { Phase::Stable },
            coordinator: Coordinator::default(),
            coordinator_told: None,
            member: String::new(),
            generation: -1,
            protocol: String::new(),
            leads: false,
            owned: Vec::new(),
            last_assigned: (Vec::new(), -1),
            commits: Commits::default(),
            recalls: Recalls::default(),
            rebalances: VecDeque::new(),
            next_rebalance: 1,
            hook_due: None,
            heard: now,
            session: Session::new(now),
            heartbeat: None,
            heartbeat_due: None,
            missed: Backoff::default(),
            disowned: 0,
            stable_since: None,
            restless: Backoff::default(),
            join_after: None,
            not_before: None,
            backoff: Backoff::default(),
            knows_instances: true,
            reason: "the reader was opened".to_owned(),
            rejoin_wanted: None,
            joined_topics: Vec::new(),
            fault: None,
            view: GroupTopics::new(),
            assigned_from: BTreeMap::new(),
            vanished: BTreeMap::new(),
            foreign: Vec::new(),
            answered: BTreeSet::new(),
            silence: Silence::default(),
            closing: None,
            config,
        }
    }

    /// Why the whole reader fails, if it does.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref().map(|(_, fault)| fault)
    }

    /// Topics to ask metadata for, beside our own.
    pub(crate) fn foreign(&self) -> &[Arc<str>] {
        &self.foreign
    }

    /// Whether commits are taken by the coordinator as ours.
    fn may_commit(&self) -> bool {
        !self.config.member || matches!(self.phase, Phase::Stable | Phase::Revoking(_))
    }

    /// What it paused after may be over.
    pub(crate) fn hasten(&mut self) {
        self.not_before = None;
    }

    fn is_static(&self) -> bool {
        self.config.instance.is_some() && self.knows_instances
    }
}

/// What the group wants.
impl Machine {
    /// Does what can be done now.
    pub(crate) fn plan_group(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        if matches!(group.phase, Phase::Left) {
            return self.plan_close(now);
        }
        self.plan_revoke(now);
        self.plan_close(now);
        self.plan_coordinator(now);
        self.plan_recall(now);
        self.plan_commit(now);
        self.plan_member(now);
    }

    pub(crate) fn take_group(&mut self, now: Instant, id: u64, question: Question, reply: Reply) {
        match (question, reply) {
            (Question::Find, Reply::Coordinator(answer)) => self.take_coordinator(now, id, answer),
            (Question::Join, Reply::Join(answer, knows)) => self.take_join(now, id, answer, knows),
            (Question::Sync, Reply::Sync(answer)) => self.take_sync(now, id, &answer),
            (Question::Heartbeat, Reply::Heartbeat(answer)) => self.take_heartbeat(now, id, &answer),
            (Question::Recall, Reply::Recall(answer)) => self.take_recall(now, id, answer),
            (Question::Commit, Reply::Commit(answer)) => self.take_commit(now, id, &answer),
            (Question::Leave, Reply::Leave(answer)) => self.take_leave(now, id, &answer),
            // The driver reads an answer by its question's kind, so this is a driver's mistake; treat as unanswered.
            (question, _) => self.lost_group(now, id, question),
        }
    }

    /// A question will not be answered.
    pub(crate) fn lost_group(&mut self, now: Instant, id: u64, question: Question) {
        match question {
            Question::Find => self.lost_find(now, id),
            Question::Join | Question::Sync => self.lost_join(now, id, question),
            Question::Heartbeat => self.lost_heartbeat(now, id),
            Question::Recall => self.lost_recall(id),
            Question::Commit => self.lost_commit(id),
            Question::Leave => self.lost_leave(id),
        }
        // Whoever is silent may be the coordinator no longer.
        if question != Question::Find {
            self.forget_coordinator();
        }
    }

    /// A deadline of the group has passed.
    pub(crate) fn group_is_due(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        if group.not_before.is_some_and(|at| at <= now) {
            group.not_before = None;
        }
        group.join_after.take_if(|at| *at <= now);
        self.session_may_end(now);
        self.commit_may_be_due(now);
        self.reader_may_be_silent(now);
        self.hook_may_be_busy(now);
    }

    /// Asks to be woken for the group's sake.
    fn wake_group(&mut self, at: Instant) {
        self.timers.add(at, Why::Group);
    }

    /// Pauses after a failure.
    fn pause_group(&mut self, now: Instant) {
        let (min, max) = (self.config.backoff_min, self.config.backoff_max);
        let Some(group) = &mut self.group else { return };
        let at = now + group.backoff.fail(min, max, &mut self.rng);
        group.not_before = Some(group.not_before.map_or(at, |before| before.max(at)));
        self.wake_group(at);
    }

    /// It worked: the reader fails no more for the group's sake, unless we are out of it for good.
    fn group_works(&mut self) {
        let Some(group) = &mut self.group else { return };
        group.backoff.reset();
        group.fault.take_if(|_| !matches!(group.phase, Phase::Left));
    }

    /// The reader fails until the coordinator says otherwise.
    fn fail_group(&mut self, question: Question, code: Code, said: Option<String>) {
        let Some(group) = &mut self.group else { return };
        let fault = Fault::Group { group: group.config.id.clone(), doing: question.to_string(), code, said };
        if group.fault() != Some(&fault) {
            group.fault = Some((question, fault.clone()));
            self.tell(Event::Fault(fault));
        }
    }

    /// Tells what is tried again.
    fn tell_refused(&mut self, question: Question, code: Code) {
        let Some(group) = &self.group else { return };
        let (group, doing) = (group.config.id.clone(), question.to_string());
        self.tell(Event::GroupRefused { group, doing, code });
    }

    /// The coordinator's lane for heartbeats and offsets, if it can be asked now.
    fn coordinator_peer(&self) -> Option<Peer> {
        let group = self.group.as_ref()?;
        let peer = Peer::Node(group.coordinator.node()?);
        self.nodes.get(&peer).filter(|node| node.is_open()).map(|_| peer)
    }

    /// Who we are in the group; `None` while we are not in it.
    pub fn member(&self) -> Option<Member> {
        let group = self.group.as_ref()?;
        let is_in = group.config.member && matches!(group.phase, Phase::Stable | Phase::Revoking(_));
        is_in.then(|| Member {
            id: group.member.clone(),
            generation: group.generation,
            protocol: group.protocol.clone(),
            leader: group.leads,
        })
    }

    /// Gives up what is owned and joins anew, as if the group had asked for it (KIP-568).
    pub fn rejoin(&mut self, now: Instant, reason: &str) {
        self.want_rejoin(now, reason.to_owned());
    }
}

/// A part of a time span, which is never zero.
fn part_of(whole: Duration, numerator: u32, denominator: u32) -> Duration {
    (whole * numerator / denominator).max(Duration::from_millis(1))
}
