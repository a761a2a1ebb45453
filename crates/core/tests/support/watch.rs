//! Watches one client: what it is handed, what it asks, what it holds. Each promise is an assertion here.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use ottla_core::{
    Body, Config, Event, Fault, Lane, Machine, OnOutOfRange, Part, Peer, Request, Start, TopicPartition,
    Turn, TurnState,
};

use super::{
    reader::Read,
    truth::{Content, Truth},
};

/// What was seen of a client.
#[derive(Debug)]
pub struct Watch {
    start: Start,
    on_out_of_range: OnOutOfRange,
    /// What the group's last assignment was.
    assigned: Vec<TopicPartition>,
    partitions: BTreeMap<TopicPartition, Seen>,
    under_way: BTreeMap<u64, (Peer, Lane, bool)>,
    largest_reply: BTreeMap<Peer, usize>,
    asked: VecDeque<Instant>,
    /// Answers that brought something.
    brought: VecDeque<Instant>,
    /// The most requests in one second that brought nothing.
    pub busiest: usize,
    pub most_held: usize,
}

/// What was seen of a partition.
#[derive(Debug, Default)]
struct Seen {
    turn: Option<Arc<Turn>>,
    /// Turns that are over; kept, so that no new one has their address.
    over: Vec<Arc<Turn>>,
    /// Where its next part has to begin.
    next: i64,
    /// Everything before was looked through for gaps.
    checked: i64,
    /// Which making of the topic the turn's records are from.
    life: Option<usize>,
    paused: bool,
    pub failed: bool,
    /// Moves by the policy, since the user said where to read.
    resets: Vec<(i64, i64)>,
    /// Where the user said to read, if it has not begun.
    sought: Option<i64>,
    /// From here on everything has to come, since the user said where to read.
    due_from: Option<i64>,
    /// The records that came since then.
    got: BTreeSet<usize>,
}

/// More requests that bring nothing a second and broker are a hot loop.
const MOST_REQUESTS: usize = 60;
const SECOND: Duration = Duration::from_secs(1);

impl Watch {
    pub fn new(config: &Config) -> Self {
        Self {
            start: config.start,
            on_out_of_range: config.on_out_of_range,
            partitions: BTreeMap::new(),
            assigned: Vec::new(),
            under_way: BTreeMap::new(),
            largest_reply: BTreeMap::new(),
            asked: VecDeque::new(),
            brought: VecDeque::new(),
            busiest: 0,
            most_held: 0,
        }
    }

    fn seen(&mut self, at: &TopicPartition) -> &mut Seen {
        let start = self.start;
        self.partitions.entry(at.clone()).or_insert_with(|| Seen {
            due_from: match start {
                Start::Earliest => Some(0),
                Start::Offset(offset) => Some(offset),
                _ => None,
            },
            ..Seen::default()
        })
    }

    // What the user does.

    pub fn sought(&mut self, at: &TopicPartition, start: Start) {
        let seen = self.seen(at);
        seen.end_turn();
        seen.resets.clear();
        seen.got.clear();
        seen.failed = false;
        seen.sought = match start {
            Start::Offset(offset) => Some(offset),
            _ => None,
        };
        seen.due_from = seen.sought;
    }

    /// The user comes back to a record, which comes again, unless it was still to come.
    pub fn sent_back(&mut self, at: &TopicPartition, offset: i64) {
        let seen = self.seen(at);
        if seen.turn.as_ref().is_some_and(|turn| turn.state() == TurnState::Over) {
            seen.end_turn();
            seen.sought = Some(offset);
        }
    }

    pub fn paused(&mut self, at: &TopicPartition) {
        self.seen(at).paused = true;
    }

    pub fn resumed(&mut self, at: &TopicPartition) {
        self.seen(at).paused = false;
    }

    // What is handed out.

    pub fn took(&mut self, part: &Part) {
        let at = TopicPartition::new(part.topic.clone(), part.partition);
        let seen = self.seen(&at);
        assert!(!seen.paused, "{at} is paused and a part of it is handed out");
        assert!(part.next > part.from, "{at}: a part from {} leads to {}", part.from, part.next);
        assert!(!seen.is_over(&part.turn), "{at}: a part of a turn that was over is handed out");
        let from = match seen.is_current(&part.turn) {
            true => seen.next,
            false => seen.begin_turn(&at, part),
        };
        let jumps = part.from != from;
        let told = seen.resets.contains(&(from, part.from));
        assert!(!jumps || told, "{at}: stood at {from}, goes on at {}, and nobody was told", part.from);
        if jumps {
            seen.checked = part.from;
        }
        seen.next = part.next;
        if part.records.is_empty() {
            let told = seen.resets.contains(&(part.from, part.next));
            assert!(told, "{at}: a step from {} to {}, and nobody was told", part.from, part.next);
            seen.checked = part.next;
        }
    }

    pub fn read(&mut self, read: &Read, truth: &Truth) {
        let (at, offset) = (&read.at, read.offset);
        let seen = self.seen(at);
        assert!(!seen.paused, "{at} is paused and offset {offset} is handed out");
        assert!(seen.is_current(&read.turn), "{at}: offset {offset} is handed out of a turn that is over");
        assert!(offset >= seen.checked, "{at}: offset {offset} comes after {}", seen.checked - 1);
        let number = check_content(read, truth);
        let life = truth.record(number).expect("checked").life;
        let same = *seen.life.get_or_insert(life) == life;
        assert!(same, "{at}: offset {offset} is from another making of the topic");
        seen.check_gap(at, offset, truth);
        seen.checked = offset + 1;
        seen.got.insert(number);
    }

    pub fn walked(&mut self, part: &Part, truth: &Truth) {
        let at = TopicPartition::new(part.topic.clone(), part.partition);
        let seen = self.seen(&at);
        if seen.is_current(&part.turn) && seen.life.is_some() {
            let to = part.next.min(part.until);
            seen.check_gap(&at, to, truth);
            seen.checked = seen.checked.max(to);
        }
    }

    pub fn failed(&mut self, fault: &Fault) {
        if let Some(at) = fault.partition() {
            self.seen(at).failed = true;
        }
    }

    pub fn ended(&mut self) {}

    // What is told.

    pub fn told(&mut self, event: &Event, _truth: &Truth) {
        match event {
            Event::OffsetReset { at, from, to } => {
                assert!(self.on_out_of_range != OnOutOfRange::Error, "{at} was moved though it should fail");
                let seen = self.seen(at);
                seen.resets.push((*from, *to));
                seen.due_from = seen.due_from.map(|due| due.min(*to));
                seen.moved(*from, *to);
            }
            Event::Truncated { at, from, to } => {
                assert!(to < from, "{at}: truncated from {from} to {to}");
                self.seen(at).moved(*from, *to);
            }
            Event::TopicRecreated { topic } => {
                for (_, seen) in self.partitions.iter_mut().filter(|(at, _)| at.topic == *topic) {
                    seen.recreated();
                }
            }
            Event::Revoking { partitions, .. } | Event::PartitionsLost { partitions, .. } => {
                for at in partitions {
                    self.seen(at).other_owner();
                }
            }
            Event::Assigned { partitions, .. } => {
                for at in partitions {
                    let stays = self.assigned.contains(at);
                    let seen = self.seen(at);
                    seen.other_owner();
                    seen.paused &= stays;
                }
                self.assigned.clone_from(partitions);
            }
            _ => {}
        }
    }

    // What is asked.

    pub fn asked(&mut self, now: Instant, request: &Request) {
        let (peer, lane) = (request.peer, request.lane);
        let fetches = matches!(request.body, Body::Fetch(_));
        if let Peer::Seed(_) = peer {
            assert!(lane == Lane::Control, "a bootstrap address is asked for metadata only");
        }
        let busy = |asked: &&(Peer, Lane, bool)| **asked == (peer, lane, true);
        assert!(
            !fetches || !self.under_way.values().any(|asked| busy(&asked)),
            "a second fetch is under way to {peer:?} by {lane:?}"
        );
        self.under_way.insert(request.id, (peer, lane, fetches));
        self.asked.push_back(now);
        let old = |at: &Instant| now - *at >= SECOND;
        while self.asked.front().is_some_and(old) {
            self.asked.pop_front();
        }
        while self.brought.front().is_some_and(old) {
            self.brought.pop_front();
        }
        let idle = self.asked.len().saturating_sub(self.brought.len());
        self.busiest = self.busiest.max(idle);
        let peers = self.largest_reply.len().max(1);
        assert!(idle <= MOST_REQUESTS * peers, "{idle} requests in a second brought nothing");
    }

    pub fn answered(&mut self, now: Instant, request: u64, bytes: usize, brought: bool) {
        let Some((peer, ..)) = self.under_way.remove(&request) else { return };
        let largest = self.largest_reply.entry(peer).or_default();
        *largest = bytes.max(*largest);
        if brought {
            self.brought.push_back(now);
        }
    }

    /// What was asked by this lane will not be answered.
    pub fn unlinked(&mut self, peer: Peer, lane: Lane) {
        self.under_way.retain(|_, (p, l, _)| (*p, *l) != (peer, lane));
    }

    /// The budget, and one reply a broker, and the batch that is being walked, which was unpacked beside its reply.
    pub fn check_bounds(&mut self, machine: &Machine, unpacked: usize) {
        let ours = machine.ledger().buffered().ours;
        self.most_held = self.most_held.max(ours);
        let most = machine.config().budget + self.largest_reply.values().sum::<usize>() + unpacked;
        assert!(ours <= most, "{ours} bytes are held for the reader, {most} may be");
    }

    // At the end.

    /// Whether all that the logs hold was handed out; says of what not.
    pub fn behind(&self, machine: &Machine, truth: &Truth, topic: &str) -> Option<String> {
        (0..truth.partitions(topic)).find_map(|partition| {
            let at = TopicPartition::new(topic, partition);
            match self.partitions.get(&at) {
                Some(seen) if seen.failed => return Some(format!("{at} has failed")),
                Some(seen) if seen.paused => return None,
                _ => {}
            }
            let end = truth.end(topic, partition);
            let position = machine.position(&at).ok().flatten();
            (position != Some(end)).then(|| format!("{at}: stands at {position:?}, the log ends at {end}"))
        })
    }

    /// Everything that was due and is in the logs now has come.
    pub fn check_complete(&self, truth: &Truth, topic: &str) {
        for (at, seen) in self.partitions.iter().filter(|(at, _)| *at.topic == *topic) {
            let Some(due) = seen.due_from else { continue };
            if seen.failed || at.partition >= truth.partitions(topic) {
                continue;
            }
            let reset = |offset: i64| seen.resets.iter().any(|(from, to)| (*from..*to).contains(&offset));
            let lost = truth
                .live(topic, at.partition, due)
                .find(|(offset, number)| !seen.got.contains(number) && !reset(*offset));
            assert!(lost.is_none() || seen.paused, "{at}: offset {} was lost", lost.expect("checked").0);
        }
    }

    pub fn failed_partitions(&self) -> Vec<TopicPartition> {
        self.partitions.iter().filter(|(_, seen)| seen.failed).map(|(at, _)| at.clone()).collect()
    }

    pub fn paused_partitions(&self) -> Vec<TopicPartition> {
        self.partitions.iter().filter(|(_, seen)| seen.paused).map(|(at, _)| at.clone()).collect()
    }
}

impl Seen {
    fn is_current(&self, turn: &Arc<Turn>) -> bool {
        self.turn.as_ref().is_some_and(|current| Arc::ptr_eq(current, turn))
    }

    fn is_over(&self, turn: &Arc<Turn>) -> bool {
        self.over.iter().any(|over| Arc::ptr_eq(over, turn))
    }

    fn end_turn(&mut self) {
        self.over.extend(self.turn.take());
        self.life = None;
    }

    /// In a group it becomes the client's, or is no more: what was wanted of it before is void, but that it is paused.
    fn other_owner(&mut self) {
        self.end_turn();
        (self.failed, self.sought) = (false, None);
        self.resets.clear();
    }

    /// Gives where the turn has to begin.
    fn begin_turn(&mut self, at: &TopicPartition, part: &Part) -> i64 {
        if let Some(old) = &self.turn {
            assert!(old.state() == TurnState::Over, "{at}: a turn begins while another goes on");
        }
        self.end_turn();
        self.turn = Some(part.turn.clone());
        self.checked = part.from;
        self.due_from.get_or_insert(part.from);
        self.sought.take().unwrap_or(part.from)
    }

    /// A position was moved. (Forward, a step is handed out.)
    fn moved(&mut self, from: i64, to: i64) {
        if to < from {
            self.sought = self.sought.map(|sought| sought.min(to));
        }
    }

    fn recreated(&mut self) {
        self.due_from = Some(0);
        self.got.clear();
        self.resets.clear();
        self.sought = None;
    }

    /// The records between what was checked and `offset` were never there, or were there and then not.
    fn check_gap(&self, at: &TopicPartition, offset: i64, truth: &Truth) {
        let Some(life) = self.life else { return };
        if let Some(skipped) = truth.always_there(life, at.partition, self.checked, offset) {
            panic!(
                "{at}: offset {skipped} is in the log and was skipped, between {} and {offset}",
                self.checked
            );
        }
    }
}

/// The record is what was produced; gives its number.
fn check_content(read: &Read, truth: &Truth) -> usize {
    let (at, offset) = (&read.at, read.offset);
    let (number, size) =
        Content::number(&read.value).unwrap_or_else(|| panic!("{at}: offset {offset} is garbage"));
    let produced = truth.record(number).unwrap_or_else(|| panic!("{at}: record {number} was never produced"));
    assert_eq!(
        (at.partition, offset),
        (produced.partition, produced.offset),
        "{at}: record {number} is misplaced"
    );
    let found = Content {
        key: read.key.as_ref().map(|key| key.to_vec()),
        value: read.value.to_vec(),
        headers: read.headers.clone(),
        timestamp: read.timestamp,
    };
    assert_eq!(found, Content::new(number, size), "{at}: offset {offset}");
    number
}
