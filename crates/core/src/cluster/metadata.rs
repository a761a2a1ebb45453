//! The picture of the cluster: who is there, who leads what. Asked of one broker at a time, of a second one if the
//! first is slow, of the bootstrap list when nobody else answers (KIP-899).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ottla_wire::{
    code::Code,
    message::{
        MetadataRequest, MetadataResponse,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponsePartition, MetadataResponseTopic},
    },
};

use super::{
    node::{Lane, Node, Peer},
    topic::Presence,
};
use crate::{
    address::Address,
    backoff::Backoff,
    config::{MissingTopic, OnOutOfRange, Start},
    event::Event,
    fault::Fault,
    fetch::{
        cursor::{Cursor, Phase},
        resolve::{Aim, Resolving},
    },
    machine::{Machine, Purpose},
    partition::TopicPartition,
    request::Body,
    timer::Why,
    verdict::{Place, Verdict, verdict},
};

/// How far the picture is.
///
/// ```text
///   Wanted --ask--> Asked --answer--> Fresh --metadata_max_age, an error--> Wanted
///                     '---lost, slow--> Wanted (of another one)
/// ```
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    /// It is to be asked for, as soon as `not_before` allows.
    wanted: bool,
    /// Who has been asked and has not answered.
    asked: Vec<Question>,
    not_before: Option<Instant>,
    /// When the last answer came, and how long no further question was to follow.
    last: Option<(Instant, Duration)>,
    backoff: Backoff,
    /// Since when answers have left a partition without a leader that answers.
    stranded_since: Option<Instant>,
    /// How often an answer was missed or of no use.
    troubles: u64,
    answered_once: bool,
    /// It was told that nothing matches the pattern.
    nothing_matches: bool,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Question {
    peer: Peer,
    id: u64,
    since: Instant,
    standing: Standing,
}

/// What an answer would still be worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nobody else is asked while it may come.
    Fresh,
    /// It takes so long that others are asked, too.
    Slow,
    /// Another one has answered since: it would be older than what we know.
    Settled,
}

/// An answer that takes longer makes us ask a second broker too.
const HEDGE: Duration = Duration::from_millis(200);

/// While a partition has no leader that answers we ask once in this time at first, and later once in this share of the time
/// that it has lasted.
const STRANDED: Duration = Duration::from_millis(500);
const STRANDED_SHARE: u32 = 32;

/// Errors that keep coming make us ask no more often than this.
const SPACING_MAX: Duration = Duration::from_secs(1);

impl Machine {
    /// The picture is old: ask as soon as the pause after the last question allows.
    pub(crate) fn want_metadata(&mut self, now: Instant) {
        self.metadata.wanted = true;
        self.timers.add(self.metadata.not_before.unwrap_or(now).max(now), Why::Metadata);
    }

    pub(crate) fn plan_metadata(&mut self, now: Instant) {
        let early = self.metadata.not_before.is_some_and(|at| at > now);
        if self.metadata.wanted && !self.metadata.is_asked() && !early {
            self.ask_metadata(now);
        }
    }

    /// Asks one more broker if those asked are slow.
    pub(crate) fn hedge_metadata(&mut self, now: Instant) {
        for question in &mut self.metadata.asked {
            if question.standing == Standing::Fresh && question.since + HEDGE <= now {
                question.standing = Standing::Slow;
                self.metadata.wanted = true;
                self.metadata.troubles += 1;
                if let Some(node) = self.nodes.get_mut(&question.peer) {
                    node.metadata_trouble = self.metadata.troubles;
                }
            }
        }
    }

    fn ask_metadata(&mut self, now: Instant) {
        let Some(peer) = self.metadata_peer() else { return };
        let request = MetadataRequest {
            topics: self.topics_to_ask(),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let id = self.send(now, peer, Lane::Control, Body::Metadata(request), Purpose::Metadata);
        self.metadata.asked.push(Question { peer, id, since: now, standing: Standing::Fresh });
        self.metadata.not_before = Some(now + self.config.backoff_min);
        self.timers.add(now + HEDGE, Why::MetadataHedge);
    }

    /// Our topics, and those that a group's leader has to know; all there are (`None`) for a pattern.
    fn topics_to_ask(&self) -> Option<Vec<MetadataRequestTopic>> {
        if self.config.pattern.is_some() {
            return None;
        }
        let ours = self.topics.iter().filter(|topic| topic.subscribed).map(|topic| &topic.name);
        let foreign = self.group.as_ref().map(|group| group.foreign()).unwrap_or_default();
        let names: BTreeSet<&Arc<str>> = ours.chain(foreign).collect();
        let topic = |name: &Arc<str>| MetadataRequestTopic {
            name: Some(name.to_string()),
            ..MetadataRequestTopic::default()
        };
        Some(names.into_iter().map(topic).collect())
    }

    /// The broker that has failed least lately, then the one whose answer was missed or of no use longest ago; brokers
    /// before bootstrap addresses.
    fn metadata_peer(&self) -> Option<Peer> {
        let asked = |peer: &Peer| self.metadata.asked.iter().any(|question| question.peer == *peer);
        let candidate = |&(peer, node): &(&Peer, &Node)| node.is_open() && !asked(peer);
        let rank = |&(peer, node): &(&Peer, &Node)| {
            (node.backoff.failures(), matches!(peer, Peer::Seed(_)), node.metadata_trouble, *peer)
        };
        self.nodes.iter().filter(candidate).min_by_key(rank).map(|(peer, _)| *peer)
    }

    /// The connection of a question broke.
    pub(crate) fn lost_metadata(&mut self, id: u64) {
        if self.metadata.end(id) != Some(Standing::Settled) {
            self.metadata.wanted = true;
        }
    }

    /// Takes the picture.
    pub(crate) fn take_metadata(&mut self, now: Instant, id: u64, peer: Peer, response: &MetadataResponse) {
        if self.metadata.end(id) == Some(Standing::Settled) {
            return self.leave_seed(peer);
        }
        if Code(response.error_code) == Code::REBOOTSTRAP_REQUIRED {
            // What we know is another cluster, or none any more (KIP-1102).
            let known: Vec<i32> = self.node_ids().collect();
            known.into_iter().for_each(|node| self.forget_node(now, node));
        }
        if response.brokers.is_empty() {
            // A broker that is still starting: what it says of leaders would be wrong too.
            return self.poor_metadata(now, peer, "named no broker");
        }
        let code = Code(response.error_code);
        if code != Code::NONE {
            return self.poor_metadata(now, peer, &format!("answered metadata with {code}"));
        }
        self.take_brokers(now, peer, response);
        self.match_topics(response);
        let mut complete = self.names_all_topics(peer, response);
        for topic in &response.topics {
            complete &= self.take_topic(topic);
        }
        self.leave_seed(peer);
        self.schedule_metadata(now, peer, complete);
        self.group_sees(now, response);
    }

    /// Subscribes to topics whose names match the pattern.
    fn match_topics(&mut self, response: &MetadataResponse) {
        let first_look = !std::mem::replace(&mut self.metadata.answered_once, true);
        let Some(pattern) = &self.config.pattern else { return };
        for topic in response.topics.iter().filter(|topic| !topic.is_internal) {
            let Some(name) = topic.name.as_deref() else { continue };
            if Code(topic.error_code) != Code::NONE || !pattern.is_match(name) {
                continue;
            }
            if let Some(known) = self.topics.iter_mut().find(|known| *known.name == *name) {
                known.subscribed = true; // it was gone
            } else {
                let mut found = super::topic::Topic::new(Arc::from(name), None);
                if !first_look {
                    found.presence = Presence::Missing; // so that it is read from its beginning, and told
                }
                self.topics.push(found);
            }
        }
        let nothing = self.topics.iter().all(|topic| !topic.subscribed);
        if !std::mem::replace(&mut self.metadata.nothing_matches, nothing) && nothing {
            // As it was given, without what has it match whole names.
            let whole = pattern.as_str();
            let given = whole.strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$")).unwrap_or(whole);
            let pattern = given.to_owned();
            self.tell(Event::NothingMatches { pattern });
        }
    }

    fn names_all_topics(&mut self, peer: Peer, response: &MetadataResponse) -> bool {
        let named = |name: &str| response.topics.iter().any(|topic| topic.name.as_deref() == Some(name));
        if self.config.pattern.is_some() {
            return self.miss_topics(response); // who asks for all is not told what is not there
        }
        let wanted = self.topics.iter().filter(|topic| topic.subscribed);
        let left_out: Vec<_> = wanted.map(|topic| topic.name.clone()).filter(|name| !named(name)).collect();
        for name in &left_out {
            self.tell(Event::Misbehaved { peer, what: format!("left topic {name} out of its metadata") });
        }
        left_out.is_empty()
    }

    /// Whatever the list of all topics does not hold is not there. What was named is waited for; what only matched is read
    /// again when it is back.
    fn miss_topics(&mut self, response: &MetadataResponse) -> bool {
        let is_named = |name: &str| response.topics.iter().any(|topic| topic.name.as_deref() == Some(name));
        let mut complete = true;
        for index in 0..self.topics.len() {
            let name = self.topics[index].name.clone();
            if !self.topics[index].subscribed || is_named(&name) {
                continue;
            }
            let missed = self.topics[index].presence == Presence::Missing;
            complete &= self.topic_missing(index);
            let wanted_by_name =
                self.config.subscriptions.iter().any(|subscription| subscription.topic == name);
            if missed && !wanted_by_name {
                self.topics[index].subscribed = false; // twice in a row: it is gone
            }
        }
        complete
    }

    fn poor_metadata(&mut self, now: Instant, peer: Peer, what: &str) {
        self.tell(Event::Misbehaved { peer, what: what.to_owned() });
        self.leave_seed(peer);
        self.schedule_metadata(now, peer, false);
    }

    /// Asks again when it is old; sooner, with back-off, and another broker first, while something is missing.
    fn schedule_metadata(&mut self, now: Instant, peer: Peer, complete: bool) {
        self.metadata.troubles += 1;
        if let Some(node) = self.nodes.get_mut(&peer) {
            node.metadata_trouble = if complete { 0 } else { self.metadata.troubles };
        }
        let pause = match complete {
            true => {
                self.metadata.backoff.reset();
                self.config.metadata_max_age
            }
            false => {
                let (min, max) = (self.config.backoff_min, self.config.backoff_max);
                self.metadata.backoff.fail(min, max, &mut self.rng)
            }
        };
        let pause = self.stranded(now).map_or(pause, |soon| pause.min(soon));
        self.metadata.answered(now, self.config.backoff_min);
        self.timers.add(now + pause, Why::Metadata);
        self.metadata_due = Some(now + pause);
    }

    /// When to ask again because a partition has no leader that answers: any moment it may have another. Trouble that has
    /// lasted long may last longer.
    fn stranded(&mut self, now: Instant) -> Option<Duration> {
        if !self.is_stranded() {
            self.metadata.stranded_since = None;
            return None;
        }
        let since = *self.metadata.stranded_since.get_or_insert(now);
        Some(((now - since) / STRANDED_SHARE).min(self.config.backoff_max).max(STRANDED))
    }

    /// Whether a partition that is to be read has no leader, or one that does not answer.
    fn is_stranded(&self) -> bool {
        self.cursors.iter().filter(|cursor| cursor.wants_leader()).any(|cursor| match cursor.leader {
            Some(leader) => {
                self.nodes.get(&Peer::Node(leader)).is_none_or(|node| node.silent || !node.is_open())
            }
            None => self.topics[cursor.topic].presence == Presence::There,
        })
    }

    /// A bootstrap connection has done its work once it has answered, well or not.
    fn leave_seed(&mut self, peer: Peer) {
        if matches!(peer, Peer::Seed(_)) {
            self.hang_up(peer, Lane::Control);
        }
    }

    fn take_brokers(&mut self, now: Instant, peer: Peer, response: &MetadataResponse) {
        for broker in &response.brokers {
            if let Ok(port) = u16::try_from(broker.port) {
                self.learn_node(now, broker.node_id, Address { host: broker.host.clone(), port }, peer);
            }
        }
        let listed = |id: i32| response.brokers.iter().any(|b| b.node_id == id);
        let gone: Vec<i32> = self.node_ids().filter(|&id| !listed(id)).collect();
        for id in gone {
            self.forget_node(now, id);
        }
    }

    /// Enters a broker, or its new address, as told by another.
    pub(crate) fn learn_node(&mut self, now: Instant, id: i32, address: Address, from: Peer) {
        let peer = Peer::Node(id);
        let named_by = self.nodes.get(&from).map(|teller| teller.address.clone());
        match self.nodes.get_mut(&peer) {
            Some(node) if node.address == address => {}
            Some(node) => {
                node.address = address;
                (node.named_by, node.has_answered) = (named_by, false);
                node.phase = super::node::Phase::Open;
                node.dirty = true;
                self.hang_up_all(now, peer);
            }
            None => {
                let mut node = Node::new(address, self.config.max_bytes);
                node.named_by = named_by;
                self.nodes.insert(peer, node);
            }
        }
    }

    fn forget_node(&mut self, now: Instant, id: i32) {
        let peer = Peer::Node(id);
        self.hang_up_all(now, peer);
        let led = self.nodes.get_mut(&peer).map(|node| std::mem::take(&mut node.cursors)).unwrap_or_default();
        for index in led {
            self.cursors[index].leader = None;
            self.cursors[index].live = None;
        }
        self.nodes.remove(&peer);
        self.coordinator_may_be_gone(id);
        self.failing.remove(&peer);
        self.forget_unsupported(peer);
    }

    /// Takes what is said of a topic; false if something of it is still missing.
    fn take_topic(&mut self, answer: &MetadataResponseTopic) -> bool {
        let name = answer.name.as_deref().unwrap_or_default();
        let Some(index) = self.topics.iter().position(|t| t.subscribed && *t.name == *name) else {
            return true;
        };
        let code = Code(answer.error_code);
        match verdict(Place::Topic, code) {
            _ if code == Code::NONE => self.topic_there(index, answer),
            Verdict::Missing => self.topic_missing(index),
            Verdict::Fatal | Verdict::Fail => {
                let topic = self.topics[index].name.clone();
                self.fail_topic(index, Fault::Topic { topic, code });
                false
            }
            Verdict::Retry | Verdict::Refresh | Verdict::Reset => false,
        }
    }

    fn topic_missing(&mut self, index: usize) -> bool {
        let topic = &mut self.topics[index];
        topic.refused = None;
        let name = topic.name.clone();
        if self.config.missing_topic == MissingTopic::Fail {
            self.fail_topic(index, Fault::TopicMissing { topic: name });
            return false;
        }
        topic.fault = None; // whatever was refused about it
        if std::mem::replace(&mut topic.presence, Presence::Missing) != Presence::Missing {
            self.tell(Event::TopicMissing { topic: name });
        }
        false
    }

    fn topic_there(&mut self, index: usize, answer: &MetadataResponseTopic) -> bool {
        let count = i32::try_from(answer.partitions.len()).unwrap_or(i32::MAX);
        let topic = &mut self.topics[index];
        let (name, before) = (topic.name.clone(), topic.presence);
        topic.presence = Presence::There;
        if before == Presence::Missing && answer.topic_id.is_zero() {
            self.forget_epochs(index);
        }
        let topic = &mut self.topics[index];
        let recreated = !topic.id.is_zero() && !answer.topic_id.is_zero() && topic.id != answer.topic_id;
        topic.id = answer.topic_id;
        // What was there when we first looked begins where the user said, what comes later at its beginning.
        let first_look = before == Presence::Unknown;
        let grown = !first_look && before == Presence::There && count > topic.count;
        topic.count = topic.count.max(count);
        if before == Presence::Missing {
            self.tell(Event::TopicFound { topic: name.clone(), partitions: count });
        }
        if recreated {
            self.tell(Event::TopicRecreated { topic: name });
            self.topics[index].count = count;
            self.restart_topic(index, answer);
        } else if grown {
            self.tell(Event::PartitionsAdded { topic: name, count });
        }
        let start = if first_look { self.config.start } else { Start::Earliest };
        let mut complete = true;
        for partition in &answer.partitions {
            complete &= self.take_partition_metadata(index, partition, start);
        }
        self.partitions_there(index, count) && complete
    }

    /// Tells which partitions the user named that the topic does not have.
    fn partitions_there(&mut self, index: usize, count: i32) -> bool {
        let topic = &self.topics[index];
        let missing: Vec<i32> = topic
            .wanted
            .iter()
            .flatten()
            .copied()
            .filter(|&partition| topic.cursor(partition).is_none())
            .collect();
        match missing.first() {
            Some(&partition) if self.config.missing_topic == MissingTopic::Fail => {
                let at = TopicPartition { topic: self.topics[index].name.clone(), partition };
                self.fail_topic(index, Fault::PartitionMissing { at, count });
            }
            _ => {
                self.topics[index].fault = None;
                self.tell_missing(index, &missing, count);
            }
        }
        missing.is_empty()
    }

    fn tell_missing(&mut self, index: usize, missing: &[i32], count: i32) {
        for &partition in missing {
            let topic = &mut self.topics[index];
            if !topic.told_missing.contains(&partition) {
                topic.told_missing.push(partition);
                let at = TopicPartition { topic: topic.name.clone(), partition };
                self.tell(Event::PartitionMissing { at, count });
            }
        }
    }

    /// The topic is back, and without ids it cannot be told whether it is another: its epochs may count from 0 again. Where
    /// its offsets do, the policy for offsets out of range decides.
    fn forget_epochs(&mut self, index: usize) {
        for &cursor in self.topics[index].cursors.values() {
            let cursor = &mut self.cursors[cursor];
            (cursor.leader_epoch, cursor.last_epoch) = (-1, -1);
        }
    }

    /// The topic was deleted and created anew: its offsets mean something else now.
    fn restart_topic(&mut self, index: usize, answer: &MetadataResponseTopic) {
        let cursors: Vec<usize> = self.topics[index].cursors.values().copied().collect();
        for cursor in cursors {
            if matches!(self.cursors[cursor].phase, Phase::Idle | Phase::Recalling) {
                let cursor = &mut self.cursors[cursor];
                (cursor.leader_epoch, cursor.last_epoch, cursor.remembered) = (-1, -1, None);
                continue;
            }
            self.renew_stake(cursor);
            let until = self.config.until;
            let old =
                self.new_turn(cursor, Phase::Resolving(Resolving::new(Aim::Start(Start::Earliest), until)));
            let cursor_state = &mut self.cursors[cursor];
            (cursor_state.leader_epoch, cursor_state.last_epoch, cursor_state.until) = (-1, -1, None);
            let partition = cursor_state.at.partition;
            if !answer.partitions.iter().any(|listed| listed.partition_index == partition) {
                cursor_state.gone = true;
                self.lead(cursor, None, -1);
                continue;
            }
            if self.config.on_out_of_range == OnOutOfRange::Error {
                let offset = old.position().unwrap_or(0);
                let at = cursor_state.at.clone();
                self.fail_cursor(cursor, Fault::Recreated { at, offset });
            }
        }
    }

    fn take_partition_metadata(
        &mut self,
        topic: usize,
        answer: &MetadataResponsePartition,
        start: Start,
    ) -> bool {
        if !self.topics[topic].wants(answer.partition_index) {
            return true;
        }
        let Some(index) = self.cursor_at(topic, answer.partition_index, start) else { return true };
        self.cursors[index].gone = false;
        let known = self.nodes.contains_key(&Peer::Node(answer.leader_id));
        let leader = (answer.leader_id >= 0 && known).then_some(answer.leader_id);
        self.lead(index, leader, answer.leader_epoch);
        // Old news name no leader; and what is not ours to read needs none.
        let cursor = &self.cursors[index];
        cursor.leader.is_some() || matches!(cursor.phase, Phase::Idle)
    }

    /// The cursor of a partition, made at need.
    fn cursor_at(&mut self, topic: usize, partition: i32, start: Start) -> Option<usize> {
        if partition < 0 {
            return None;
        }
        if let Some(index) = self.topics[topic].cursor(partition) {
            return Some(index);
        }
        let at = TopicPartition { topic: self.topics[topic].name.clone(), partition };
        if self.group.is_some() {
            return Some(self.group_cursor(topic, at, start));
        }
        let pending = self.pending.remove(&at).unwrap_or_default();
        let aim = Aim::Start(pending.seek.unwrap_or(start));
        let index = self.cursors.len();
        self.cursors.push(Cursor::new(at, topic, aim, self.config.until));
        self.topics[topic].cursors.insert(partition, index);
        self.settle_position(index);
        if pending.paused {
            self.pause_cursor(index);
        }
        Some(index)
    }

    /// The cursor of a group's partition: ours when it is assigned, or at once where nobody assigns.
    fn group_cursor(&mut self, topic: usize, at: TopicPartition, start: Start) -> usize {
        let index = self.cursors.len();
        let partition = at.partition;
        self.cursors.push(Cursor::idle(at, topic, start));
        self.topics[topic].cursors.insert(partition, index);
        self.own_if_unassigned(index);
        index
    }

    /// The cursor of a partition that was assigned to us, be it that metadata does not know it yet: then it is so new that
    /// it is read from its beginning.
    pub(crate) fn cursor_for(&mut self, at: &TopicPartition) -> Option<usize> {
        let topic = self.topics.iter().position(|topic| topic.name == at.topic)?;
        self.cursor_at(topic, at.partition, Start::Earliest)
    }

    /// Enters who leads a partition. News of an older epoch is no news.
    pub(crate) fn lead(&mut self, index: usize, leader: Option<i32>, epoch: i32) {
        let cursor = &mut self.cursors[index];
        if epoch >= 0 && epoch < cursor.leader_epoch {
            return;
        }
        let (before, new_epoch) = (cursor.leader, epoch > cursor.leader_epoch);
        let seen_before = cursor.leader_epoch >= 0;
        cursor.leader_epoch = cursor.leader_epoch.max(epoch);
        if leader.is_none() {
            self.leaderless(index);
        }
        if before != leader {
            self.move_cursor(index, before, leader);
        }
        if new_epoch && seen_before {
            self.cursors[index].enter_epoch();
            self.chosen(leader);
        }
        self.touch(index);
    }

    /// Who was made a leader just now lives: were it down, it is dialled at once.
    fn chosen(&mut self, leader: Option<i32>) {
        if let Some(node) = leader.and_then(|id| self.nodes.get_mut(&Peer::Node(id))) {
            node.phase = super::node::Phase::Open;
            node.dirty = true;
        }
    }

    fn leaderless(&mut self, index: usize) {
        let cursor = &mut self.cursors[index];
        if matches!(cursor.phase, Phase::Idle) {
            return; // whose it is has the trouble
        }
        if !std::mem::replace(&mut cursor.told_leaderless, true) {
            let at = cursor.at.clone();
            self.tell(Event::LeaderMissing { at });
        }
    }

    /// Whether metadata says that the partition's topic is not there. It may be wrong as long as the leader still answers.
    pub(crate) fn is_gone(&self, index: usize) -> bool {
        self.topics[self.cursors[index].topic].presence == Presence::Missing
    }

    /// Asks no leader any more until metadata names one.
    pub(crate) fn leave_leader(&mut self, index: usize) {
        self.move_cursor(index, self.cursors[index].leader, None);
    }

    fn move_cursor(&mut self, index: usize, from: Option<i32>, to: Option<i32>) {
        self.uncount(index);
        if let Some(node) = from.and_then(|id| self.nodes.get_mut(&Peer::Node(id))) {
            node.cursors.retain(|&c| c != index);
        }
        let cursor = &mut self.cursors[index];
        cursor.leader = to;
        cursor.live = None;
        cursor.retry_at = None;
        let at = cursor.at.clone();
        if let Some(node) = to.and_then(|id| self.nodes.get_mut(&Peer::Node(id))) {
            node.cursors.push(index);
            node.expect_records();
        }
        self.recount(index);
        if let Some(leader) = to
            && self.cursors[index].led_by(leader)
            && !matches!(self.cursors[index].phase, Phase::Idle)
        {
            self.tell(Event::LeaderChanged { at, leader });
        }
    }
}

impl Metadata {
    /// Whether the cluster is known at all.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered_once
    }

    /// Whether an answer may come soon.
    fn is_asked(&self) -> bool {
        self.asked.iter().any(|question| question.standing == Standing::Fresh)
    }

    /// A question has come to its end.
    fn end(&mut self, id: u64) -> Option<Standing> {
        let place = self.asked.iter().position(|question| question.id == id)?;
        Some(self.asked.remove(place).standing)
    }

    /// An answer came: what others have to say is older. Who wants another one waits, the longer the sooner it is.
    fn answered(&mut self, now: Instant, least: Duration) {
        self.wanted = false;
        self.asked.iter_mut().for_each(|question| question.standing = Standing::Settled);
        let spacing = match self.last {
            Some((at, spacing)) if now < at + spacing * 2 => (spacing * 2).min(SPACING_MAX).max(least),
            _ => least,
        };
        self.last = Some((now, spacing));
        self.not_before = Some(now + spacing);
    }
}
