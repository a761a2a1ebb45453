//! Watches a group over all its members, from what the coordinator accepted and what callers did. Each promise is an
//! assertion here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use ottla_broker::{ApiKey, Cluster, Code, CommitView};
use ottla_core::{Config, Event, Start, TopicPartition};

use super::{member::Piece, reader::Read, trace::trace, truth::Truth};

/// What was seen of a group.
#[derive(Debug)]
pub struct Ward {
    pub group: String,
    /// When the world began.
    begin: Instant,
    parts: BTreeMap<TopicPartition, Part>,
    standings: BTreeMap<usize, Standing>,
    /// Whose assignment each generation of each member was.
    assignments: BTreeMap<(String, i32), (usize, BTreeSet<TopicPartition>)>,
    commits_served: u64,
    /// The instant of the last commits that were looked at, and how many of it.
    looked_at: Option<(Instant, usize)>,
    pub accepted: u64,
    pub refused: u64,
    pub rebalances: u64,
    /// Records that were handed out more than once.
    pub repeated: u64,
}

/// A partition, over all members.
#[derive(Debug, Default)]
struct Part {
    /// The offset that the coordinator has.
    committed: Option<i64>,
    /// The highest offset that it ever accepted.
    highest: Option<i64>,
    /// Where reading the partition began for the group, as far as it can know.
    began: Option<i64>,
    /// Offsets of records that somebody acknowledged.
    done: BTreeSet<i64>,
    /// Everything before was acknowledged, or somebody decided not to read it.
    done_through: i64,
    /// The same of records that were cut off since: who has not noticed yet commits them.
    done_before_cuts: BTreeSet<i64>,
    delivered: BTreeSet<i64>,
}

/// What a member has, as its machine tells it.
#[derive(Debug, Default)]
struct Standing {
    is_member: bool,
    member: String,
    generation: i32,
    owned: BTreeSet<TopicPartition>,
    /// How far its wishes allow the committed offset to go back, by partition, in this tenure.
    floors: BTreeMap<TopicPartition, i64>,
    /// Partitions whose tenure is not known to have begun.
    fresh: BTreeSet<TopicPartition>,
    /// Partitions whose beginning the user chose.
    chosen: BTreeSet<TopicPartition>,
    /// Where it begins where nothing was committed, and it did not have the partition before.
    start: Start,
    had: BTreeSet<TopicPartition>,
}

impl Ward {
    pub fn new(group: &str, begin: Instant) -> Self {
        Self {
            group: group.to_owned(),
            begin,
            parts: BTreeMap::new(),
            standings: BTreeMap::new(),
            assignments: BTreeMap::new(),
            commits_served: 0,
            looked_at: None,
            accepted: 0,
            refused: 0,
            rebalances: 0,
            repeated: 0,
        }
    }

    pub fn joined(&mut self, client: usize, config: &Config) {
        let is_member = config.group.as_ref().is_some_and(|group| group.member);
        self.standings.insert(client, Standing { start: config.start, is_member, ..Standing::default() });
    }

    fn part(&mut self, at: &TopicPartition) -> &mut Part {
        self.parts.entry(at.clone()).or_default()
    }

    pub fn owned(&self, client: usize) -> BTreeSet<TopicPartition> {
        self.standings.get(&client).map(|standing| standing.owned.clone()).unwrap_or_default()
    }

    // What members tell.

    pub fn told(&mut self, client: usize, event: &Event) {
        let Some(standing) = self.standings.get_mut(&client) else { return };
        match event {
            Event::Assigned { member, generation, partitions, .. } => {
                assert!(standing.owned.is_empty(), "client {client} is assigned {partitions:?} and has more");
                self.rebalances += 1;
                standing.member = member.clone();
                standing.generation = *generation;
                standing.owned = partitions.iter().cloned().collect();
                standing.fresh = standing.owned.clone();
                standing.chosen.clear();
                standing.floors.clear();
                let key = (member.clone(), *generation);
                self.assignments.insert(key, (client, standing.owned.clone()));
            }
            Event::Revoking { .. } | Event::PartitionsLost { .. } => {
                standing.owned.clear();
                standing.fresh.clear();
            }
            Event::OffsetReset { at, from, to } | Event::Truncated { at, from, to } => {
                standing.lower(at, *to);
                if to > from {
                    self.acked_through(at, *to);
                }
            }
            _ => {}
        }
    }

    /// What was handed out.
    pub fn read(&mut self, client: usize, read: &Read, cluster: &Cluster, frozen: &BTreeSet<usize>) {
        let at = &read.at;
        let standing = &self.standings[&client];
        if !standing.is_member {
            return; // who only keeps offsets there reads what it likes
        }
        assert!(
            standing.owned.contains(at),
            "client {client}: {at} is not its, and {} is handed out",
            read.offset
        );
        let tenure = read.turn.tenure().expect("it is read in a group");
        assert!(tenure.is_open(), "client {client}: {at} offset {} of a tenure that has ended", read.offset);
        assert!(
            !standing.fresh.contains(at),
            "client {client}: {at} is handed out and its start is not known"
        );
        self.check_single_owner(client, at, cluster, frozen);
        if !self.part(at).delivered.insert(read.offset) {
            self.repeated += 1;
        }
    }

    /// Whoever else hands the partition out is not of the group any more, as the coordinator sees it.
    fn check_single_owner(
        &self,
        client: usize,
        at: &TopicPartition,
        cluster: &Cluster,
        frozen: &BTreeSet<usize>,
    ) {
        let others = |(other, standing): &(&usize, &Standing)| {
            **other != client && standing.owned.contains(at) && !frozen.contains(*other)
        };
        let Some((other, theirs)) = self.standings.iter().find(others) else { return };
        let Some(view) = cluster.group(&self.group) else { return };
        let is_in = |standing: &Standing| {
            view.generation == standing.generation && view.members.iter().any(|m| m.id == standing.member)
        };
        let ours = &self.standings[&client];
        assert!(
            !(is_in(ours) && is_in(theirs)),
            "{at} is read by clients {client} and {other}, both members"
        );
    }

    /// It is known where a tenure begins: where the coordinator says that the group is.
    pub fn began(
        &mut self,
        client: usize,
        at: &TopicPartition,
        position: i64,
        (cluster, truth): (&Cluster, &Truth),
    ) {
        let Some(standing) = self.standings.get_mut(&client) else { return };
        if !standing.fresh.remove(at) {
            return;
        }
        let new = standing.had.insert(at.clone());
        // Who wakes from a long sleep may find an answer from before it; it will be told, or find out, that it is late.
        if !standing.chosen.contains(at) && standing.is_in(cluster, &self.group) {
            match (cluster.committed(&self.group, &at.topic, at.partition), standing.start) {
                (Some(committed), _) => {
                    assert_eq!(position, committed, "client {client} begins {at} elsewhere than committed");
                }
                (None, Start::Earliest) if new => {
                    let start = truth.start(&at.topic, at.partition);
                    assert!(
                        position <= start,
                        "client {client} begins {at} at {position}, it begins at {start}"
                    );
                }
                _ => {}
            }
        }
        // Where the end was is forgotten with whoever found it, unless that was committed.
        if standing.start != Start::Latest
            || cluster.committed(&self.group, &at.topic, at.partition).is_some()
        {
            let part = self.part(at);
            part.began = Some(part.began.map_or(position, |began| began.min(position)));
        }
    }

    pub fn is_fresh(&self, client: usize) -> Vec<TopicPartition> {
        self.standings.get(&client).map(|s| s.fresh.iter().cloned().collect()).unwrap_or_default()
    }

    /// The member is no more.
    pub fn gone(&mut self, client: usize) {
        if let Some(standing) = self.standings.get_mut(&client) {
            standing.owned.clear();
            standing.fresh.clear();
        }
    }

    // What callers do.

    pub fn acked(&mut self, piece: &Piece) {
        self.part(&piece.at).done.extend(piece.from..piece.to);
    }

    /// All before `to` counts as done.
    pub fn acked_through(&mut self, at: &TopicPartition, to: i64) {
        let part = self.part(at);
        part.done_through = part.done_through.max(to);
    }

    /// The caller wants to read on from there.
    pub fn sought(&mut self, client: usize, at: &TopicPartition, to: i64) {
        let Some(standing) = self.standings.get_mut(&client) else { return };
        standing.chosen.insert(at.clone());
        standing.lower(at, to);
        self.acked_through(at, to);
    }

    /// The caller comes back to a piece, and to all that follows it: that is not done any more.
    pub fn sent_back(&mut self, client: usize, piece: &Piece) {
        if let Some(standing) = self.standings.get_mut(&client) {
            standing.lower(&piece.at, piece.from);
        }
        let part = self.part(&piece.at);
        part.done.split_off(&piece.from);
        part.done_through = part.done_through.min(piece.from);
    }

    /// The caller commits this offset, whatever was read.
    pub fn wished(&mut self, client: usize, at: &TopicPartition, offset: i64, front: i64) {
        let Some(standing) = self.standings.get_mut(&client) else { return };
        standing.lower(at, offset.min(front));
        standing.chosen.insert(at.clone());
        self.acked_through(at, offset);
    }

    pub fn truncated(&mut self, at: &TopicPartition, end: i64) {
        let part = self.part(at);
        let cut = part.done.split_off(&end);
        part.done_before_cuts.extend(cut);
        part.done_before_cuts.extend(end..part.done_through);
        part.done_through = part.done_through.min(end);
        part.delivered.split_off(&end);
        for standing in self.standings.values_mut() {
            standing.lower(at, end);
        }
    }

    /// The topic is no more, and with it what was committed of it.
    pub fn deleted(&mut self, topic: &str) {
        self.parts.retain(|at, _| *at.topic != *topic);
    }

    // What the coordinator accepts.

    /// Looks at the commits that were served since the last time. `late`: one may be of a connection that its member has
    /// given up, which can overtake nothing, but be overtaken.
    pub fn look(&mut self, cluster: &Cluster, truth: &Truth, late: bool) {
        let served = cluster.requests(ApiKey::OffsetCommit);
        if std::mem::replace(&mut self.commits_served, served) == served {
            return;
        }
        let commits = cluster.commits(&self.group);
        let Some(last) = commits.last().map(|commit| commit.at) else { return };
        let (since, known) = self.looked_at.unwrap_or((last, 0));
        let fresh: Vec<_> = commits.into_iter().filter(|commit| commit.at >= since).skip(known).collect();
        let of_last = fresh.iter().filter(|commit| commit.at == last).count();
        self.looked_at = Some((last, if last == since { known + fresh.len() } else { of_last }));
        for commit in fresh {
            self.commit(&commit, truth, cluster, late);
        }
    }

    fn commit(&mut self, commit: &CommitView, truth: &Truth, cluster: &Cluster, late: bool) {
        let CommitView { topic, partition, offset, generation, member, refused, .. } = commit;
        trace(
            commit.at - self.begin,
            format_args!("commit of {topic}-{partition} {offset} by {member} {generation}: {refused}"),
        );
        if commit.refused != Code::NONE {
            self.refused += 1;
            return;
        }
        self.accepted += 1;
        let at = TopicPartition::new(&*commit.topic, commit.partition);
        if commit.generation < 0 {
            return; // of somebody who is no member: the coordinator takes that where there are none
        }
        let key = (commit.member.clone(), commit.generation);
        let (client, owned) = self
            .assignments
            .get(&key)
            .unwrap_or_else(|| panic!("{at}: a commit of {key:?} was accepted, whose assignment nobody has"));
        let client = *client;
        assert!(owned.contains(&at), "client {client} commits {at}, which was not assigned to it");
        let floor = self.standings[&client].floors.get(&at).copied();
        let part = self.parts.entry(at.clone()).or_default();
        let offset = commit.offset;
        if let Some(before) = part.committed.filter(|before| offset < *before) {
            let wished = floor.is_some_and(|floor| offset >= floor);
            assert!(
                wished || late,
                "{at}: the committed offset goes back from {before} to {offset}, unasked"
            );
        }
        let from = part.committed.max(part.began).unwrap_or(offset);
        let undone = truth.live(&commit.topic, commit.partition, from).map(|(offset, _)| offset);
        if let Some(undone) = undone.take_while(|&o| o < offset).find(|&o| !part.was_done(o)) {
            panic!("{at}: {offset} is committed by client {client}, and {undone} was never acknowledged");
        }
        let epoch = cluster.leader_epoch(&commit.topic, commit.partition).unwrap_or(-1);
        assert!(
            commit.leader_epoch <= epoch,
            "{at}: committed with epoch {}, it is {epoch}",
            commit.leader_epoch
        );
        part.began.get_or_insert(offset);
        part.committed = Some(offset);
        part.highest = part.highest.max(Some(offset));
    }

    /// A commit through `to` was answered: the coordinator has accepted as much, unless the caller has gone back since.
    pub fn check_settled(&self, client: usize, at: &TopicPartition, to: i64) {
        let floor = self.standings.get(&client).and_then(|standing| standing.floors.get(at));
        if floor.is_some_and(|&floor| floor < to) {
            return;
        }
        let highest = self.parts.get(at).and_then(|part| part.highest);
        assert!(
            highest >= Some(to),
            "{at}: told that {to} is committed, and the most that was is {highest:?}"
        );
    }

    // At the end.

    /// Whether everything was handed out, acknowledged and committed; says of what not.
    pub fn behind(&self, cluster: &Cluster, truth: &Truth, topic: &str) -> Option<String> {
        (0..truth.partitions(topic)).find_map(|partition| {
            let at = TopicPartition::new(topic, partition);
            let end = truth.end(topic, partition);
            let committed = cluster.committed(&self.group, topic, partition);
            (committed != Some(end))
                .then(|| format!("{at}: {committed:?} is committed, the log ends at {end}"))
        })
    }

    /// A partition that nobody has, or that several have.
    pub fn unowned(&self, truth: &Truth, topics: &[String]) -> Option<String> {
        let all = topics.iter().flat_map(|topic| {
            (0..truth.partitions(topic)).map(move |partition| TopicPartition::new(topic.as_str(), partition))
        });
        let owners = |at: &TopicPartition| self.standings.values().filter(|s| s.owned.contains(at)).count();
        all.map(|at| (owners(&at), at))
            .find(|(owners, _)| *owners != 1)
            .map(|(n, at)| format!("{at} has {n} owners"))
    }

    /// Every record from where the group began was handed out to somebody, unless it was decided not to.
    pub fn check_complete(&self, truth: &Truth) {
        for (at, part) in &self.parts {
            let Some(began) = part.began else { continue };
            let lost = truth
                .live(&at.topic, at.partition, began)
                .find(|(offset, _)| !part.delivered.contains(offset) && !part.is_done(*offset));
            assert!(lost.is_none(), "{at}: offset {} was never handed out", lost.expect("checked").0);
        }
    }
}

impl Part {
    /// Whether somebody acknowledged it, or what was at its place before.
    fn was_done(&self, offset: i64) -> bool {
        self.is_done(offset) || self.done_before_cuts.contains(&offset)
    }

    fn is_done(&self, offset: i64) -> bool {
        offset < self.done_through || self.done.contains(&offset)
    }
}

impl Standing {
    /// Whether the coordinator still counts it in, in its generation.
    fn is_in(&self, cluster: &Cluster, group: &str) -> bool {
        cluster.group(group).is_some_and(|view| {
            view.generation == self.generation && view.members.iter().any(|m| m.id == self.member)
        })
    }

    fn lower(&mut self, at: &TopicPartition, to: i64) {
        let floor = self.floors.entry(at.clone()).or_insert(to);
        *floor = to.min(*floor);
    }
}
