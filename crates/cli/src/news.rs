//! What a reader's events mean to somebody at a terminal.
//!
//! Pure: events go in, notes come out, one for each change and not one for each attempt.

use std::collections::{BTreeMap, HashMap, HashSet};

use ottla::{Address, Code, Event, Peer, TopicPartition};

/// What was told, so that it is not told again.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Whether any broker ever answered.
    reached: bool,
    /// Whether that was where the cluster says that a broker is, and not only a bootstrap address.
    reached_node: bool,
    /// Whether a broker failed, and none was reached yet but for bootstrap addresses.
    astray: bool,
    /// Addresses that failed since they last answered, and why they did the last time.
    down: BTreeMap<String, String>,
    /// Whether it was told that all of several brokers are gone.
    outage: bool,
    leaderless: HashSet<TopicPartition>,
    refused: HashMap<TopicPartition, Code>,
    misbehaved: HashMap<Peer, String>,
    /// Who holds us back.
    throttled: HashSet<Peer>,
    /// What the group's coordinator refused, and how.
    group_refused: HashMap<String, Code>,
    /// What could not be committed the last time, and why.
    commit_failed: String,
}

impl News {
    /// Takes in an event; the note says what changed, if anything that matters did.
    pub(crate) fn tell(&mut self, event: Event) -> Option<String> {
        if let Event::Connected { peer, address } = &event {
            return self.connected(*peer, address);
        }
        let note = event.to_string();
        self.is_news(event).then_some(note)
    }

    /// What a reader tells only when it changes is news each time. Faults are not: the reader returns them.
    fn is_news(&mut self, event: Event) -> bool {
        match event {
            Event::Retrying { peer, address, reason, .. } => {
                self.astray |= matches!(peer, Peer::Node(_)) && !self.reached_node;
                self.down.insert(address.to_string(), reason).is_none()
            }
            Event::Unreachable { .. } => self.unreachable(),
            Event::LeaderMissing { at } => {
                self.astray = false; // the cluster knows about it
                self.leaderless.insert(at);
                true
            }
            // That leaders move is the cluster's business, unless one was missed.
            Event::LeaderChanged { at, .. } => self.leaderless.remove(&at),
            Event::Refused { at, code } => {
                !LEADERSHIP.contains(&code) && self.refused.insert(at, code) != Some(code)
            }
            Event::Misbehaved { peer, what } => {
                self.misbehaved.insert(peer, what.clone()).as_ref() != Some(&what)
            }
            Event::Throttled { peer, .. } => self.throttled.insert(peer),
            Event::Assigned { .. } => {
                self.group_refused.clear();
                self.commit_failed.clear();
                true
            }
            Event::GroupRefused { doing, code, .. } => {
                !MEMBERSHIP.contains(&code) && self.group_refused.insert(doing, code) != Some(code)
            }
            Event::CommitFailed { what, .. } => {
                let before = std::mem::replace(&mut self.commit_failed, what);
                self.commit_failed != before
            }
            Event::Revoking { partitions, .. } | Event::PartitionsLost { partitions, .. } => {
                !partitions.is_empty()
            }
            Event::TopicMissing { .. }
            | Event::NothingMatches { .. }
            | Event::TopicFound { .. }
            | Event::PartitionMissing { .. }
            | Event::PartitionsAdded { .. }
            | Event::TopicRecreated { .. }
            | Event::OffsetReset { .. }
            | Event::Truncated { .. }
            | Event::AssignmentOdd { .. } => true,
            _ => false,
        }
    }

    /// Whether any broker ever answered.
    pub(crate) fn reached(&self) -> bool {
        self.reached
    }

    /// Whether none of the brokers can be reached, where it was a bootstrap address that told of them.
    pub(crate) fn astray(&self) -> bool {
        self.astray
    }

    /// Why those do not answer that are known to be down, address by address.
    pub(crate) fn why_down(&self) -> String {
        let each: Vec<String> = self.down.iter().map(|(address, why)| format!("{address}: {why}")).collect();
        each.join("; ")
    }

    /// Why none did, address by address.
    pub(crate) fn why_unreached(&self, bootstrap: &[Address]) -> String {
        let why = |address: &Address| {
            let address = address.to_string();
            let reason = self.down.get(&address).map_or("no answer yet", String::as_str);
            format!("{address}: {reason}")
        };
        bootstrap.iter().map(why).collect::<Vec<_>>().join("; ")
    }

    fn connected(&mut self, peer: Peer, address: &Address) -> Option<String> {
        self.reached = true;
        if let Peer::Node(_) = peer {
            (self.reached_node, self.astray) = (true, false);
        }
        self.outage = false;
        self.down.remove(&address.to_string()).map(|_| format!("{address}: reachable again"))
    }

    /// Of a single broker that is gone its own note has told.
    fn unreachable(&mut self) -> bool {
        let is_news = self.down.len() > 1 && !self.outage;
        self.outage |= is_news;
        is_news
    }
}

/// The codes by which a member learns that the group changes or its coordinator moves, as they do every day.
const MEMBERSHIP: [Code; 4] =
    [Code::NOT_COORDINATOR, Code::REBALANCE_IN_PROGRESS, Code::MEMBER_ID_REQUIRED, Code::ILLEGAL_GENERATION];

/// The codes by which a reader learns that a leader moved, as they do every day.
const LEADERSHIP: [Code; 4] = [
    Code::NOT_LEADER_OR_FOLLOWER,
    Code::LEADER_NOT_AVAILABLE,
    Code::FENCED_LEADER_EPOCH,
    Code::UNKNOWN_LEADER_EPOCH,
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ottla::Fault;

    use super::*;

    fn address(port: u16) -> Address {
        Address { host: "kafka".to_owned(), port }
    }

    fn retrying(port: u16, reason: &str) -> Event {
        let (peer, pause) = (Peer::Seed(0), Duration::from_millis(100));
        Event::Retrying { peer, address: address(port), reason: reason.to_owned(), pause }
    }

    fn connected(port: u16) -> Event {
        Event::Connected { peer: Peer::Node(1), address: address(port) }
    }

    fn unreachable(rounds: u32) -> Event {
        Event::Unreachable { rounds, last: "x".to_owned() }
    }

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    /// The notes that a row of events gives.
    fn notes(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        let mut news = News::default();
        events.into_iter().filter_map(|event| news.tell(event)).collect()
    }

    #[test]
    fn an_outage_gives_a_note_when_it_begins_and_one_when_it_ends() {
        let events = [
            connected(1),
            retrying(1, "refused"),
            unreachable(1),
            retrying(1, "timed out"),
            unreachable(2),
            connected(1),
            Event::Reachable,
            connected(1),
            retrying(1, "closed"),
        ];
        let expected =
            ["kafka:1: refused; trying again", "kafka:1: reachable again", "kafka:1: closed; trying again"];
        assert_eq!(notes(events), expected);
    }

    #[test]
    fn an_outage_of_several_brokers_is_told_as_a_whole_once() {
        let events = [
            retrying(1, "refused"),
            retrying(2, "refused"),
            unreachable(1),
            unreachable(2),
            connected(2),
            retrying(2, "refused"),
            unreachable(1),
        ];
        let notes = notes(events);
        let whole = |note: &&String| note.starts_with("no broker can be reached");
        assert_eq!((notes.len(), notes.iter().filter(whole).count()), (6, 2), "{notes:?}");
    }

    #[test]
    fn who_was_never_reached_is_told_with_the_last_reason() {
        let mut news = News::default();
        news.tell(retrying(1, "refused"));
        news.tell(retrying(1, "timed out"));
        assert!(!news.reached());
        let why = news.why_unreached(&[address(1), address(2)]);
        assert_eq!(why, "kafka:1: timed out; kafka:2: no answer yet");
        news.tell(connected(2));
        assert!(news.reached());
    }

    #[test]
    fn brokers_that_are_not_where_they_are_said_to_be_lead_astray() {
        let mut news = News::default();
        let seed = Event::Connected { peer: Peer::Seed(0), address: address(1) };
        let lost = |id| Event::Retrying {
            peer: Peer::Node(id),
            address: address(1 + id as u16),
            reason: "refused".to_owned(),
            pause: Duration::ZERO,
        };
        news.tell(seed.clone());
        assert!(news.reached() && !news.astray());
        news.tell(lost(1));
        news.tell(seed);
        assert!(news.astray());
        assert_eq!(news.why_down(), "kafka:2: refused");
        news.tell(Event::LeaderMissing { at: at(0) });
        assert!(!news.astray());
        news.tell(lost(1));
        news.tell(connected(3));
        news.tell(lost(2));
        assert!(!news.astray());
    }

    #[test]
    fn leaders_are_news_when_they_were_missing() {
        let changed = |leader| Event::LeaderChanged { at: at(3), leader };
        let missing = || Event::LeaderMissing { at: at(3) };
        let notes = notes([changed(1), missing(), changed(2), changed(1)]);
        let expected = [
            "orders partition 3 has no leader; waiting for one",
            "orders partition 3 is led by broker 2 now",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn a_broker_that_repeats_itself_is_told_once() {
        let refused = |partition, code| Event::Refused { at: at(partition), code };
        let (broken, late, moved) =
            (Code::KAFKA_STORAGE_ERROR, Code::REQUEST_TIMED_OUT, Code::NOT_LEADER_OR_FOLLOWER);
        let events = [(0, broken), (0, broken), (1, broken), (0, moved), (0, late)];
        assert_eq!(notes(events.map(|(partition, code)| refused(partition, code))).len(), 3);
        let odd = |what: &str| Event::Misbehaved { peer: Peer::Node(1), what: what.to_owned() };
        assert_eq!(
            notes([odd("a"), odd("a"), odd("b")]),
            ["broker 1: a; trying again", "broker 1: b; trying again"]
        );
    }

    #[test]
    fn a_broker_that_holds_us_back_is_told_once() {
        let throttled = |id| Event::Throttled {
            peer: Peer::Node(id),
            address: address(1),
            pause: Duration::from_millis(1500),
        };
        let note = "kafka:1: the broker holds us back, by a quota; asking again in 1.5s";
        assert_eq!(notes([throttled(1), throttled(1), throttled(2)]), [note; 2]);
    }

    #[test]
    fn changes_of_topics_and_offsets_are_told() {
        let topic: std::sync::Arc<str> = "orders".into();
        let events = [
            Event::TopicMissing { topic: topic.clone() },
            Event::TopicFound { topic: topic.clone(), partitions: 6 },
            Event::PartitionMissing { at: at(9), count: 6 },
            Event::PartitionsAdded { topic: topic.clone(), count: 12 },
            Event::TopicRecreated { topic },
            Event::OffsetReset { at: at(0), from: 5, to: 10 },
            Event::Truncated { at: at(0), from: 5, to: 3 },
        ];
        let notes = notes(events);
        assert_eq!(notes.len(), 7);
        assert_eq!(notes[2], "topic orders has no partition 9; it has 6 (0 to 5); waiting for it");
        assert_eq!(notes[5], "orders partition 0: offset 5 is not in the log; going on at 10");
    }

    #[test]
    fn what_happens_in_a_group_is_told() {
        let group = || std::sync::Arc::from("g");
        let assigned = |partitions: &[i32]| Event::Assigned {
            group: group(),
            member: "m".to_owned(),
            generation: 1,
            partitions: partitions.iter().map(|&partition| at(partition)).collect(),
        };
        let revoking = |partitions: &[i32]| Event::Revoking {
            group: group(),
            partitions: partitions.iter().map(|&partition| at(partition)).collect(),
            reason: "the group rebalances".to_owned(),
        };
        let expected = [
            "group g: reading orders 0-2",
            "group g: giving up orders 0-2: the group rebalances",
            "group g: nothing is assigned to this member",
        ];
        assert_eq!(
            notes([assigned(&[2, 0, 1]), revoking(&[0, 1, 2]), assigned(&[]), revoking(&[])]),
            expected
        );
        let refused = |code| Event::GroupRefused { group: group(), doing: "joining".to_owned(), code };
        let codes = [
            Code::NOT_COORDINATOR,
            Code::COORDINATOR_LOAD_IN_PROGRESS,
            Code::COORDINATOR_LOAD_IN_PROGRESS,
            Code::COORDINATOR_NOT_AVAILABLE,
        ];
        let told = notes(codes.map(refused));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].starts_with("group g: joining was refused with COORDINATOR_LOAD_IN_PROGRESS"),
            "{told:?}"
        );
        let failed = |what: &str| Event::CommitFailed { group: group(), what: what.to_owned() };
        assert_eq!(notes([failed("a"), failed("a"), failed("b"), assigned(&[]), failed("b")]).len(), 4);
    }

    #[test]
    fn faults_are_left_to_the_reader() {
        let fault = Fault::Topic { topic: "orders".into(), code: Code::TOPIC_AUTHORIZATION_FAILED };
        assert_eq!(notes([Event::Fault(fault), Event::HeldByCaller { bytes: 1 }]), [""; 0]);
    }
}
