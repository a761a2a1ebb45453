//! Brokers that answer, fail, are away, or do not speak what we need.

use std::time::{Duration, Instant};

use super::{Machine, NOT_SPOKEN_MAX, Pledge, Purpose, Unsupported};
use crate::{
    cluster::{
        Lane, Peer,
        node::{FetchLane, Phase as NodePhase},
    },
    event::Event,
    fault::{Fault, Lost},
    request::Request,
    timer::Why,
};

/// A connection is idle when nothing was asked for so long.
const IDLE: Duration = Duration::from_millis(100);

/// That a broker throttles us goes on for as long as we read; it is told no more often than this.
const THROTTLE_TOLD: Duration = Duration::from_secs(30);

impl Machine {
    /// Once may be a slip; who cannot be spoken to fails the reader, until it can.
    pub(super) fn not_spoken(&mut self, pledge: &Pledge, what: &str) {
        let peer = pledge.peer;
        let Some(node) = self.nodes.get_mut(&peer) else { return };
        node.not_spoken += 1;
        if node.not_spoken >= NOT_SPOKEN_MAX && self.unsupported.is_none() {
            let fault = Fault::Unsupported { address: node.address.clone(), what: what.to_owned() };
            self.unsupported = Some(Unsupported { peer, asked: pledge.purpose.kind(), fault: fault.clone() });
            self.tell(Event::Fault(fault));
        }
    }

    /// A broker has answered: what it could not be asked before, it can be now if it was this, or came by this lane. Metadata
    /// are as good from any other broker.
    pub(super) fn is_spoken(&mut self, pledge: &Pledge) {
        let Some(node) = self.nodes.get_mut(&pledge.peer) else { return };
        node.works(pledge.lane);
        let metadata = Purpose::Metadata.kind();
        let mends = |unsupported: &mut Unsupported| {
            let is_it = unsupported.asked == pledge.purpose.kind();
            let works_again = unsupported.asked != metadata && node.not_spoken == 0;
            let by_any = is_it && unsupported.asked == metadata;
            by_any || (unsupported.peer == pledge.peer && (is_it || works_again))
        };
        self.unsupported.take_if(mends);
    }

    /// Whether the reader fails because of this broker.
    pub(crate) fn does_not_speak(&self, peer: Peer) -> bool {
        self.unsupported.as_ref().is_some_and(|unsupported| unsupported.peer == peer)
    }

    /// A broker is gone, and with it what it did not speak.
    pub(crate) fn forget_unsupported(&mut self, peer: Peer) {
        self.unsupported.take_if(|unsupported| unsupported.peer == peer);
    }

    pub(super) fn answered(&mut self, now: Instant, peer: Peer, lane: Lane) {
        let Some(node) = self.nodes.get_mut(&peer) else { return };
        let had_failed = node.backoff.failures() > 0;
        node.heard.insert(lane, now);
        node.phase = NodePhase::Open;
        (node.dirty, node.has_answered, node.silent) = (true, true, false);
        if had_failed && self.rounds > 0 {
            self.outage_may_be_over();
        }
        // A bootstrap address names brokers; whether those can be reached is another matter (a wrong advertised listener).
        if matches!(peer, Peer::Seed(_)) && self.node_ids().next().is_some() {
            self.failing.insert(peer);
            return;
        }
        self.failing.clear();
        if std::mem::take(&mut self.rounds) > 0 {
            self.outage = None;
            self.tell(Event::Reachable);
        }
    }

    /// Nobody could be reached, and somebody answers who could not: the others need not wait until their pauses are over, one
    /// after the other.
    fn outage_may_be_over(&mut self) {
        for node in self.nodes.values_mut() {
            if matches!(node.phase, NodePhase::Down { .. }) {
                node.phase = NodePhase::Open;
            }
            node.dirty = true;
        }
        if let Some(group) = &mut self.group {
            group.hasten();
        }
    }

    /// A connection broke on which answers were expected, or could not be made.
    pub(super) fn failed(&mut self, now: Instant, peer: Peer, lane: Lane, lost: &Lost) {
        let lost = &self.explain(peer, lost);
        if let Some(pause) = self.peer_down(now, peer, lane) {
            let (address, reason) = (lost.address.clone(), lost.reason.clone());
            self.tell(Event::Retrying { peer, address, reason, pause });
        }
        self.count_failure(peer, lost);
    }

    /// Whether the connection that ended had answered before, and was idle when these questions were asked: then the broker
    /// had closed it before they came there, as it does with those that are idle for long. They are asked again at once.
    pub(super) fn was_idle(&mut self, peer: Peer, lane: Lane, questions: &[u64]) -> bool {
        let heard = self.nodes.get_mut(&peer).and_then(|node| node.heard.remove(&lane));
        heard.is_some_and(|heard| questions.iter().all(|id| self.asked[id].sent >= heard + IDLE))
    }

    /// Pauses before the broker is asked again; `None` if it pauses already.
    pub(super) fn peer_down(&mut self, now: Instant, peer: Peer, lane: Lane) -> Option<Duration> {
        let node = self.nodes.get_mut(&peer)?;
        node.failed = Some(lane);
        if !node.is_open() {
            return None;
        }
        let pause = node.backoff.fail(self.config.backoff_min, self.config.backoff_max, &mut self.rng);
        node.phase = NodePhase::Down { until: now + pause };
        self.timers.add(now + pause, Why::Peer(peer));
        Some(pause)
    }

    pub(super) fn peer_may_open(&mut self, now: Instant, peer: Peer) {
        let Some(node) = self.nodes.get_mut(&peer) else { return };
        if matches!(node.phase, NodePhase::Down { until } if until <= now) {
            node.phase = NodePhase::Open;
        }
        if node.muted_until.is_some_and(|until| until <= now) {
            node.muted_until = None;
        }
        if node.joins_until.is_some_and(|until| until <= now) {
            node.joins_until = None;
        }
        node.throttled.retain(|_, until| *until > now);
        node.dirty = true;
        self.release_held();
    }

    /// Kafka answers first and closes its ear after (KIP-219): what we said meanwhile would wait there, and look as if it were
    /// overdue. So it waits here.
    pub(super) fn throttled(&mut self, now: Instant, peer: Peer, lane: Lane, ms: i32) {
        let (Ok(ms @ 1..), Some(node)) = (u64::try_from(ms), self.nodes.get_mut(&peer)) else { return };
        let pause = Duration::from_millis(ms).min(self.config.request_timeout);
        let until = now + pause;
        node.throttled.insert(lane, until);
        if matches!(lane, Lane::Long | Lane::Express) {
            node.muted_until = Some(until); // a fetch had better be planned when it may go
        }
        self.timers.add(until, Why::Peer(peer));
        if node.throttle_told.is_none_or(|told| told + THROTTLE_TOLD <= now) {
            node.throttle_told = Some(now);
            let address = node.address.clone();
            self.tell(Event::Throttled { peer, address, pause });
        }
    }

    /// What waited for a broker that was throttled, and may go now.
    fn release_held(&mut self) {
        let waits = |held: &Request| {
            self.nodes.get(&held.peer).is_some_and(|node| node.throttled.contains_key(&held.lane))
        };
        let (held, free): (Vec<_>, Vec<_>) = self.held.drain(..).partition(waits);
        self.held = held;
        self.out.extend(free);
    }

    /// One more peer failed; when all have, or all brokers and a bootstrap address knows no better, that is a round.
    pub(super) fn count_failure(&mut self, peer: Peer, lost: &Lost) {
        self.failing.insert(peer);
        let spared = |peer: &Peer| !self.failing.contains(peer);
        let seed = |peer: &Peer| matches!(peer, Peer::Seed(_));
        let answered = |peer: &Peer| !spared(peer) && self.nodes[peer].has_answered;
        let seeds_tried = self.nodes.keys().filter(|peer| seed(peer)).all(|peer| !spared(peer));
        let seed_answered = self.nodes.keys().any(|peer| seed(peer) && answered(peer));
        if self.nodes.keys().any(|peer| !seed(peer) && spared(peer)) || !(seeds_tried || seed_answered) {
            return;
        }
        self.failing.clear();
        self.rounds += 1;
        let (rounds, last) = (self.rounds, lost.to_string());
        if self.config.max_attempts == Some(rounds) {
            let fault = Fault::Unreachable { rounds, last: last.clone() };
            self.outage = Some(fault);
        }
        self.tell(Event::Unreachable { rounds, last });
    }

    /// What is known of an address that has never answered: who says that a broker is there.
    pub(super) fn explain(&self, peer: Peer, lost: &Lost) -> Lost {
        let told = match (peer, self.nodes.get(&peer)) {
            (Peer::Node(id), Some(node)) if !node.has_answered => node.named_by.as_ref().map(|by| (id, by)),
            _ => None,
        };
        let Some((id, by)) = told else { return lost.clone() };
        let reason = format!(
            "{} (the address that broker {id} advertises, as {by} says; can it be reached from here?)",
            lost.reason
        );
        Lost { address: lost.address.clone(), reason }
    }

    pub(super) fn reply_overdue(&mut self, now: Instant, id: u64) {
        let Some(pledge) = self.asked.get_mut(&id) else { return };
        let (peer, lane) = (pledge.peer, pledge.lane);
        if now < pledge.deadline {
            let Some(node) = self.nodes.get_mut(&peer) else { return };
            pledge.alarm = pledge.deadline;
            self.timers.add(pledge.alarm, Why::Reply(id));
            node.silent = true;
            return self.want_metadata(now);
        }
        let reason = format!("no answer within {:?}", self.config.request_timeout);
        self.give_up_lane(now, peer, lane, reason);
    }

    /// Nothing more is expected of this connection, though it stands.
    pub(crate) fn give_up_lane(&mut self, now: Instant, peer: Peer, lane: Lane, reason: String) {
        let Some(node) = self.nodes.get(&peer) else { return };
        let lost = Lost { address: node.address.clone(), reason };
        self.hang_up(peer, lane);
        self.handle_lost(now, peer, lane, &lost);
    }

    pub(crate) fn hang_up(&mut self, peer: Peer, lane: Lane) {
        if let Some(node) = self.nodes.get_mut(&peer) {
            node.throttled.remove(&lane); // that was said on this connection
            node.heard.remove(&lane);
        }
        self.hang_ups.push_back((peer, lane));
    }

    /// Closes all connections of a broker; what was asked over them is asked elsewhere.
    pub(crate) fn hang_up_all(&mut self, now: Instant, peer: Peer) {
        for lane in Lane::ALL {
            self.hang_up(peer, lane);
        }
        let ids: Vec<u64> = self.asked.iter().filter(|(_, p)| p.peer == peer).map(|(&id, _)| id).collect();
        for id in ids {
            if let Some(pledge) = self.redeem(id) {
                self.unanswered_purpose(now, id, peer, pledge.purpose);
            }
        }
        if let Some(node) = self.nodes.get_mut(&peer) {
            (node.long, node.express) = (FetchLane::Idle, FetchLane::Idle);
        }
    }

    pub(super) fn metadata_is_due(&mut self, now: Instant) {
        if self.metadata_due.is_some_and(|due| due <= now) {
            self.metadata_due = None;
            self.want_metadata(now);
        }
    }
}
