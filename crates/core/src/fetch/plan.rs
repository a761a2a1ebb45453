//! What to fetch next from a broker, on which lane; and what came back.
//!
//! One fetch a broker carries all of its partitions. It parks on the long lane. What becomes fetchable while it is
//! parked (assigned, sought, resumed) goes to the express lane until the long lane's reply is there. Fetch
//! sessions (KIP-227) would live here: a plan is the whole list, and a session would send its difference.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ottla_wire::{
    code::Code,
    message::{fetch_request::FetchPartition, fetch_response::NodeEndpoint},
};

use super::{
    cursor::{Live, Phase},
    ledger::Account,
    queue::{Entry, Part},
    reply::{FetchReply, FetchedPartition, Outlined},
    resolve::{Aim, Resolving},
};
use crate::{
    address::Address,
    cluster::{
        Lane, Peer,
        node::{EXPRESS_WAIT_MAX, FetchLane, Node},
        topic::Topic,
    },
    event::Event,
    fault::Fault,
    machine::{Machine, Purpose},
    request::{Body, FetchAsk, FetchAskTopic},
    timer::Why,
    verdict::{Place, Verdict, verdict},
};

/// What was asked in one fetch.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) lane: Lane,
    cursors: Vec<usize>,
    max_bytes: i32,
    sent: Instant,
    /// How long the broker may hold it.
    wait: Duration,
}

impl Plan {
    pub(crate) fn into_cursors(self) -> Vec<usize> {
        self.cursors
    }
}

/// No fetch asks for less; so little room is none.
const SMALLEST_REPLY: usize = 64 << 10;

/// Replies that get lost again and again are asked for no smaller than this.
const LEAST_REPLY: i32 = 16 << 10;

/// How many parts may wait at a broker, however small: each costs some hundred bytes beside its records.
const QUEUED_PARTS_MAX: usize = 64;

/// The long lane waits no longer than this for the express one: a round trip and its wait.
const JOIN_MAX: Duration = Duration::from_millis(500);

/// An empty answer to a long fetch that comes sooner is early.
const EARLY: Duration = Duration::from_millis(5);

/// So many early answers in a row are followed by a pause.
const EARLY_ANSWERS_MAX: u32 = 3;

/// How long that pause is.
const EARLY_PAUSE: Duration = Duration::from_millis(20);

/// A reply that took longer, and came full, was held up by distance or backlog: ask for more at a time.
const SLOW_REPLY: Duration = Duration::from_millis(20);

impl Machine {
    /// Sends the next fetch to `node` if a lane is free, something is fetchable and there is room.
    pub(crate) fn plan_fetch(&mut self, now: Instant, node: i32) {
        while let Some(lane) = self.free_lane(node) {
            if !self.send_fetch(now, node, lane) {
                return;
            }
        }
    }

    fn free_lane(&self, node: i32) -> Option<Lane> {
        let node = self.nodes.get(&Peer::Node(node))?;
        let enough =
            node.queued_bytes as u64 >= node.reply_bytes as u64 || node.queued_parts >= QUEUED_PARTS_MAX;
        match (node.long, node.express) {
            _ if enough || !node.is_open() || node.muted_until.is_some() => None,
            (FetchLane::Idle, FetchLane::Asked(_)) if node.joins_until.is_some() => None,
            (FetchLane::Idle, _) => Some(Lane::Long),
            (_, FetchLane::Idle) => Some(Lane::Express),
            _ => None,
        }
    }

    fn send_fetch(&mut self, now: Instant, node: i32, lane: Lane) -> bool {
        let peer = Peer::Node(node);
        let cursors: Vec<usize> = {
            let known = &self.nodes[&peer];
            known.cursors.iter().copied().filter(|&c| self.cursors[c].is_fetchable()).collect()
        };
        if cursors.is_empty() {
            return false;
        }
        let Some(max_bytes) = self.room_for_reply(node, &cursors) else { return false };
        let known = self.nodes.get_mut(&peer).expect("looked up above");
        let wait = match lane {
            Lane::Express => {
                let wait = known.express_wait;
                known.express_wait = (wait * 2).clamp(Duration::from_millis(5), EXPRESS_WAIT_MAX);
                wait
            }
            _ => {
                known.express_wait = Duration::ZERO;
                match self.config.min_bytes {
                    ..=1 => known.long_wait.min(self.config.max_wait),
                    _ => self.config.max_wait,
                }
            }
        };
        let ask = self.fetch_ask(&cursors, wait, max_bytes);
        let plan = Plan { lane, cursors: cursors.clone(), max_bytes, sent: now, wait };
        let request = self.send(now, peer, lane, Body::Fetch(ask), Purpose::Fetch(plan));
        for cursor in cursors {
            self.cursors[cursor].live = Some(Live { request, lane });
        }
        *self.nodes.get_mut(&peer).expect("looked up above").fetch_lane(lane) = FetchLane::Asked(request);
        true
    }

    fn fetch_ask(&self, cursors: &[usize], max_wait: Duration, max_bytes: i32) -> FetchAsk {
        let mut topics: Vec<FetchAskTopic> = Vec::new();
        for &index in cursors {
            let cursor = &self.cursors[index];
            let topic = &self.topics[cursor.topic];
            if topics.last().is_none_or(|last| last.name != topic.name) {
                topics.push(FetchAskTopic { name: topic.name.clone(), id: topic.id, partitions: Vec::new() });
            }
            let partitions = &mut topics.last_mut().expect("pushed above").partitions;
            partitions.push(FetchPartition {
                partition: cursor.at.partition,
                current_leader_epoch: cursor.leader_epoch,
                fetch_offset: cursor.next,
                partition_max_bytes: self.config.max_partition_bytes.unwrap_or(max_bytes),
                ..FetchPartition::default()
            });
        }
        FetchAsk { max_wait, min_bytes: self.config.min_bytes, max_bytes, topics }
    }

    /// How large the next reply of `node` may be; `None` if there is no room for any.
    fn room_for_reply(&mut self, node: i32, cursors: &[usize]) -> Option<i32> {
        let wanted = self.nodes[&Peer::Node(node)].reply_bytes;
        let mut room = self.config.budget.saturating_sub(self.ledger.total());
        if room < SMALLEST_REPLY {
            self.give_up_queued(self.may_mend(node, cursors));
            room = self.config.budget.saturating_sub(self.ledger.total());
        }
        if room >= SMALLEST_REPLY {
            self.told_held = false;
            return Some(wanted.min(i32::try_from(room).unwrap_or(i32::MAX)));
        }
        self.ledger.want_room();
        // The caller holds it all and waits for more: one reply a broker, whatever is held.
        let starves = self.reader_starves() && self.nodes[&Peer::Node(node)].queued_parts == 0;
        if starves && !std::mem::replace(&mut self.told_held, true) {
            self.tell(Event::HeldByCaller { bytes: self.ledger.buffered().held });
        }
        starves.then_some(wanted)
    }

    /// Whether the answer to this fetch is what a reader that fails waits for. For any other one it gives up nothing that it
    /// keeps: two brokers would drive out each other's records, and send them again and again.
    fn may_mend(&self, node: i32, cursors: &[usize]) -> bool {
        let asks_for =
            |topic: &Topic| cursors.iter().any(|&cursor| self.cursors[cursor].at.topic == topic.name);
        self.does_not_speak(Peer::Node(node))
            || self.topics.iter().any(|topic| topic.refused.is_some() && asks_for(topic))
    }

    /// Takes a fetch's answer.
    pub(crate) fn take_fetch(&mut self, now: Instant, id: u64, node: i32, plan: &Plan, reply: FetchReply) {
        self.free_fetch_lane(node, plan.lane, id);
        self.adapt(now, node, plan, &reply);
        let code = Code(reply.error);
        if code != Code::NONE {
            return self.refused_fetch(now, id, node, plan, code);
        }
        // Kafka answers a fetch beyond a quota at once, and without what it was about.
        let only_throttles = reply.throttle_ms > 0 && reply.partitions.is_empty();
        let mut served = Vec::new();
        let account = reply.account;
        for fetched in reply.partitions {
            let Some(index) = self.cursor_fetched(&fetched) else { continue };
            if self.settle(index, id) {
                if self.take_partition(now, index, fetched, &reply.endpoints, account.as_ref()) {
                    served.push(index);
                }
                self.touch(index);
            }
        }
        for &index in &plan.cursors {
            if self.settle(index, id) && !only_throttles {
                self.left_out(index);
                self.retry_cursor(now, index);
            }
        }
        self.serve_last(node, &served);
        if let Some(known) = self.nodes.get_mut(&Peer::Node(node)) {
            if !served.is_empty() {
                known.expect_records();
            } else if plan.lane == Lane::Long && now >= plan.sent + plan.wait {
                known.was_quiet_for(plan.wait);
            }
        }
        self.slow_down(now, node, plan, served.is_empty());
        if plan.lane == Lane::Long && served.is_empty() {
            self.join_lanes(now, node);
        }
    }

    /// Nothing hurries the long lane: what is on the express lane moves there, so that it need not be asked for again and
    /// again.
    fn join_lanes(&mut self, now: Instant, id: i32) {
        let Some(node) = self.nodes.get_mut(&Peer::Node(id)) else { return };
        if let FetchLane::Asked(express) = node.express
            && std::mem::replace(&mut node.joined, express) != express
        {
            node.joins_until = Some(now + JOIN_MAX);
            self.timers.add(now + JOIN_MAX, Why::Peer(Peer::Node(id)));
        }
    }

    /// Partitions that were asked for and not answered are asked for again, after a pause.
    fn unanswered(&mut self, now: Instant, id: u64, plan: &Plan) {
        for &index in &plan.cursors {
            if self.settle(index, id) {
                self.retry_cursor(now, index);
            }
        }
    }

    fn refused_fetch(&mut self, now: Instant, id: u64, node: i32, plan: &Plan, code: Code) {
        self.tell(Event::Misbehaved { peer: Peer::Node(node), what: format!("refused a fetch: {code}") });
        if verdict(Place::Request, code) != Verdict::Retry {
            self.want_metadata(now);
        }
        self.unanswered(now, id, plan);
    }

    pub(crate) fn free_fetch_lane(&mut self, node: i32, lane: Lane, id: u64) {
        if let Some(node) = self.nodes.get_mut(&Peer::Node(node)) {
            let slot = node.fetch_lane(lane);
            if *slot == FetchLane::Asked(id) {
                *slot = FetchLane::Idle;
                node.joins_until = None;
            }
            node.dirty = true;
        }
    }

    /// Grows what a slow, full reply may hold, so that distance does not bound the speed; shrinks it again.
    fn adapt(&mut self, now: Instant, node: i32, plan: &Plan, reply: &FetchReply) {
        let ceiling = self.config.max_bytes.min(i32::try_from(self.config.budget / 4).unwrap_or(i32::MAX));
        let Some(node) = self.nodes.get_mut(&Peer::Node(node)) else { return };
        let full = reply.bytes as u64 * 4 >= plan.max_bytes as u64 * 3;
        let slow = now.saturating_duration_since(plan.sent) >= SLOW_REPLY;
        let floor = crate::cluster::node::REPLY_BYTES.min(self.config.max_bytes);
        // A reader that still has something queued is the slower side: more at a time would only cost memory.
        node.reply_bytes = match (full, slow && node.queued_bytes == 0) {
            (true, _) if node.reply_bytes < floor => node.reply_bytes.saturating_mul(2).min(floor),
            (true, true) => node.reply_bytes.saturating_mul(2).min(ceiling).max(floor),
            (true, false) => (node.reply_bytes - node.reply_bytes / 8).max(floor),
            (false, _) => node.reply_bytes,
        };
    }

    /// A reply got lost. A way that does not carry so much at a time, or not for so long, may carry less.
    pub(crate) fn ask_for_less(&mut self, node: i32, plan: &Plan) {
        if let Some(node) = self.nodes.get_mut(&Peer::Node(node)) {
            node.reply_bytes = node.reply_bytes.min((plan.max_bytes / 2).max(LEAST_REPLY));
        }
    }

    /// An answer without records is due when `max_wait` has passed. One that comes at once, again and again (a broker that
    /// misbehaves, `min_bytes` 0, `max_wait` 0), would make us ask thousands of times a second.
    fn slow_down(&mut self, now: Instant, node: i32, plan: &Plan, empty: bool) {
        let Some(known) = self.nodes.get_mut(&Peer::Node(node)) else { return };
        let early = now.saturating_duration_since(plan.sent) < EARLY;
        known.early_answers =
            if plan.lane == Lane::Long && empty && early { known.early_answers + 1 } else { 0 };
        if known.early_answers >= EARLY_ANSWERS_MAX {
            let until = now + EARLY_PAUSE;
            known.muted_until = Some(known.muted_until.map_or(until, |muted| muted.max(until)));
            self.timers.add(until, crate::timer::Why::Peer(Peer::Node(node)));
        }
    }

    /// Tells that a broker's answer left a partition out.
    pub(crate) fn left_out(&mut self, index: usize) {
        let cursor = &self.cursors[index];
        if let Some(leader) = cursor.leader {
            let what = format!("left {} out of its answer", cursor.at);
            self.tell(Event::Misbehaved { peer: Peer::Node(leader), what });
        }
    }

    /// The cursor of a fetched partition, by id where the broker speaks ids.
    fn cursor_fetched(&self, fetched: &FetchedPartition) -> Option<usize> {
        let topic = match fetched.topic_id.is_zero() {
            true => self.topics.iter().find(|t| *t.name == *fetched.topic)?,
            false => self.topics.iter().find(|t| t.id == fetched.topic_id)?,
        };
        topic.cursor(fetched.data.partition_index)
    }

    /// Takes one partition's answer; true if it brought records.
    fn take_partition(
        &mut self,
        now: Instant,
        index: usize,
        fetched: FetchedPartition,
        endpoints: &[NodeEndpoint],
        account: Option<&Arc<Account>>,
    ) -> bool {
        let code = Code(fetched.data.error_code);
        if code != Code::NONE {
            let hinted = self.take_leader_hint(now, index, &fetched, endpoints);
            match hinted && self.cursors[index].backoff.failures() == 0 {
                true => self.follow_hint(now, index, code),
                false => self.judge_cursor(now, index, Place::Fetch, code),
            }
            return false;
        }
        let cursor = &mut self.cursors[index];
        cursor.high_watermark = fetched.data.high_watermark;
        cursor.log_start = fetched.data.log_start_offset;
        let bytes = fetched.data.records.as_ref().map_or(0, |records| records.len());
        let accepted = accept(cursor.next, fetched.data.high_watermark, fetched.batches);
        let damage = accepted.damage.or_else(|| fetched.damage.map(|d| d.to_string()));
        let took = accepted.next > cursor.next;
        if took {
            let part = Part {
                cursor: index,
                turn: cursor.turn.clone(),
                topic: cursor.at.topic.clone(),
                partition: cursor.at.partition,
                records: fetched.data.records.unwrap_or_default(),
                batches: accepted.batches,
                from: cursor.next,
                until: cursor.until.unwrap_or(i64::MAX),
                next: accepted.next,
                high_watermark: fetched.data.high_watermark,
                lease: account.map(|account| account.lease()),
            };
            cursor.next = part.next;
            cursor.last_epoch = accepted.last_epoch;
            if let Some(stake) = &mut cursor.stake {
                stake.note_epochs(&part.batches);
            }
            self.enqueue(index, Entry::Part(part));
        }
        match damage {
            Some(reason) => {
                let cursor = &self.cursors[index];
                let fault = Fault::Corrupt { at: cursor.at.clone(), offset: cursor.next, reason };
                self.fail_cursor(index, fault);
            }
            None if !took && bytes > 0 => self.led_nowhere(now, index, bytes),
            None => self.served(index),
        }
        took
    }

    /// Records came and none of them leads on: the first batch is cut, or all lie before the position. Asked again at
    /// once, the answer would be the same.
    fn led_nowhere(&mut self, now: Instant, index: usize, bytes: usize) {
        let cursor = &self.cursors[index];
        let (at, offset) = (&cursor.at, cursor.next);
        if let Some(leader) = cursor.leader {
            let what = format!("{at}: of {bytes} bytes at offset {offset}, no batch leads on from there");
            self.tell(Event::Misbehaved { peer: Peer::Node(leader), what });
        }
        self.retry_cursor(now, index);
    }

    /// The new leader is asked at once; a second refusal in a row makes us pause, lest two brokers play ball with us.
    fn follow_hint(&mut self, now: Instant, index: usize, code: Code) {
        let (min, max) = (self.config.backoff_min, self.config.backoff_max);
        let cursor = &mut self.cursors[index];
        cursor.backoff.fail(min, max, &mut self.rng);
        let at = cursor.at.clone();
        self.tell(Event::Refused { at, code });
        self.want_metadata(now); // others may have moved, too
    }

    /// The broker names the new leader in its refusal (KIP-951); true if that is news.
    fn take_leader_hint(
        &mut self,
        now: Instant,
        index: usize,
        fetched: &FetchedPartition,
        endpoints: &[NodeEndpoint],
    ) -> bool {
        let hint = &fetched.data.current_leader;
        if hint.leader_id < 0 || hint.leader_epoch <= self.cursors[index].leader_epoch {
            return false;
        }
        if let Some(endpoint) = endpoints.iter().find(|e| e.node_id == hint.leader_id)
            && let Ok(port) = u16::try_from(endpoint.port)
        {
            let teller = Peer::Node(self.cursors[index].leader.unwrap_or(hint.leader_id));
            let address = Address { host: endpoint.host.clone(), port };
            self.learn_node(now, hint.leader_id, address, teller);
        }
        let known = self.nodes.contains_key(&Peer::Node(hint.leader_id));
        if known {
            self.lead(index, Some(hint.leader_id), hint.leader_epoch);
        }
        known
    }

    /// Our offset is not in the log: the policy decides, with both ends known.
    pub(crate) fn out_of_range(&mut self, now: Instant, index: usize) {
        self.find_range(index);
        // Were the answer to say that all is well, the same question would come back at once.
        self.retry_cursor(now, index);
    }

    /// Asks for both ends of the log, to do with our offset what the policy says.
    pub(crate) fn find_range(&mut self, index: usize) {
        let policy = self.config.on_out_of_range;
        let cursor = &mut self.cursors[index];
        let aim = Aim::Reset { from: cursor.next, policy };
        cursor.phase = Phase::Resolving(Resolving::new(aim, None));
    }

    /// Serves the partitions that brought records last the next time, so that none starves.
    fn serve_last(&mut self, node: i32, served: &[usize]) {
        let Some(Node { cursors, .. }) = self.nodes.get_mut(&Peer::Node(node)) else { return };
        if served.is_empty() || cursors.len() == served.len() {
            return;
        }
        let now_last: HashSet<usize> = served.iter().copied().collect();
        cursors.retain(|cursor| !now_last.contains(cursor));
        cursors.extend_from_slice(served);
    }
}

struct Accepted {
    batches: Vec<Outlined>,
    next: i64,
    last_epoch: i32,
    damage: Option<String>,
}

/// Keeps the batches that lead on from `next`, drops control batches, and stops at what makes no sense.
///
/// The CRC does not cover the offset. A batch may end beyond the high watermark, which the broker notes before it reads
/// the log, but then it follows the one before; gaps are made by compaction, far from the end.
fn accept(next: i64, high_watermark: i64, outlined: Vec<Outlined>) -> Accepted {
    let mut accepted =
        Accepted { batches: Vec::with_capacity(outlined.len()), next, last_epoch: -1, damage: None };
    let mut last_end = None;
    for batch in outlined {
        let (base, end) = (batch.header.base_offset, batch.header.next_offset());
        let begin = match batch.header.is_wrapper() {
            true => last_end.unwrap_or(next).min(base), // where it begins shows when it is unpacked
            false => base,
        };
        if let Some(last_end) = last_end.filter(|&last_end| begin < last_end) {
            accepted.damage =
                Some(format!("it begins at {begin} though the batch before it ended at {last_end}"));
            break;
        }
        if begin > accepted.next && begin > high_watermark && high_watermark >= 0 {
            accepted.damage = Some(format!("it begins at {begin} though the log ends at {high_watermark}"));
            break;
        }
        last_end = Some(end);
        if end <= accepted.next {
            continue; // wholly before the position: the broker begins at an index entry now and then
        }
        accepted.next = end;
        accepted.last_epoch = batch.header.leader_epoch;
        if !batch.header.is_control() {
            accepted.batches.push(batch);
        }
    }
    accepted
}

#[cfg(test)]
mod tests {
    use ottla_wire::record::BatchHeader;

    use super::*;

    const GZIP: i16 = 1;

    fn batch(magic: i8, attributes: i16, offsets: std::ops::RangeInclusive<i64>) -> Outlined {
        let header = BatchHeader {
            base_offset: *offsets.start(),
            length: 100,
            leader_epoch: -1,
            magic,
            crc: 0,
            attributes,
            last_offset_delta: (offsets.end() - offsets.start()) as i32,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: 1,
        };
        Outlined { header, range: 0..header.size() }
    }

    /// A wrapper of before Kafka 0.11, of whose records only the last offset is known.
    fn wrapper(last: i64) -> Outlined {
        batch(1, GZIP, last..=last)
    }

    fn accepted(next: i64, high_watermark: i64, outlined: Vec<Outlined>) -> (i64, usize, bool) {
        let accepted = accept(next, high_watermark, outlined);
        (accepted.next, accepted.batches.len(), accepted.damage.is_some())
    }

    #[test]
    fn a_batch_follows_the_one_before_it_or_lies_within_the_log() {
        let two = || vec![batch(2, 0, 5..=9), batch(2, 0, 10..=30)];
        assert_eq!(accepted(7, 40, two()), (31, 2, false));
        assert_eq!(accepted(7, 10, two()), (31, 2, false), "it may end beyond the high watermark");
        assert_eq!(accepted(7, 8, vec![batch(2, 0, 9..=12)]), (7, 0, true));
        assert_eq!(accepted(7, 40, vec![batch(2, 0, 5..=9), batch(2, 0, 9..=12)]), (10, 1, true));
    }

    /// Its first record may lie before the position, and its last one beyond the high watermark.
    #[test]
    fn a_wrapper_is_judged_by_where_it_ends() {
        assert_eq!(accepted(7, 8, vec![wrapper(12)]), (13, 1, false));
        assert_eq!(accepted(7, 8, vec![wrapper(5), wrapper(9), wrapper(20)]), (21, 2, false));
        assert_eq!(accepted(7, 40, vec![wrapper(12), wrapper(12)]), (13, 1, true));
        assert_eq!(accepted(7, 40, vec![wrapper(12), batch(0, 0, 12..=15)]), (13, 1, true));
        assert_eq!(accepted(7, 40, vec![batch(0, 0, 7..=9), wrapper(9)]), (10, 1, true));
        assert_eq!(accepted(7, 40, vec![batch(0, 0, 7..=9), wrapper(10)]), (11, 2, false));
    }
}
