//! Who the coordinator is.

use std::time::Instant;

use ottla_wire::{code::Code, message::FindCoordinatorResponse};

use super::{
    Question,
    verdict::{Verdict, verdict},
};
use crate::{
    address::Address,
    cluster::{Lane, Peer},
    event::Event,
    machine::{Machine, Purpose},
    request::Body,
};

/// How far we are in finding it.
///
/// ```text
///   Unknown --ask any broker--> Asked --answer--> At(node) --not it any more, silent, gone--> Unknown
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Coordinator {
    #[default]
    Unknown,
    Asked(u64),
    At(i32),
}

impl Coordinator {
    pub(super) fn node(self) -> Option<i32> {
        match self {
            Self::At(node) => Some(node),
            Self::Unknown | Self::Asked(_) => None,
        }
    }
}

impl Machine {
    pub(super) fn plan_coordinator(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        if group.coordinator != Coordinator::Unknown || group.not_before.is_some() {
            return;
        }
        let body = Body::FindCoordinator(group.config.id.clone());
        let Some(peer) = self.peer_to_find() else { return };
        let id = self.send(now, peer, Lane::Control, body, Purpose::Group(Question::Find));
        if let Some(group) = &mut self.group {
            group.coordinator = Coordinator::Asked(id);
        }
    }

    /// One of the brokers that failed least lately; not always the same, for one may be wrong about it.
    fn peer_to_find(&mut self) -> Option<Peer> {
        let open = |peer: &&Peer| matches!(peer, Peer::Node(_)) && self.nodes[peer].is_open();
        let least = self.nodes.keys().filter(open).map(|peer| self.nodes[peer].backoff.failures()).min()?;
        let best = |peer: &&Peer| open(peer) && self.nodes[peer].backoff.failures() == least;
        let candidates: Vec<Peer> = self.nodes.keys().filter(best).copied().collect();
        self.rng.choice(&candidates).copied()
    }

    pub(super) fn take_coordinator(&mut self, now: Instant, id: u64, answer: FindCoordinatorResponse) {
        let Some(group) = &mut self.group else { return };
        if group.coordinator != Coordinator::Asked(id) {
            return;
        }
        group.coordinator = Coordinator::Unknown;
        let found = answer.coordinators.into_iter().find(|found| *found.key == *group.config.id);
        let (code, said, node, host, port) = match found {
            Some(found) => (found.error_code, found.error_message, found.node_id, found.host, found.port),
            None => (answer.error_code, answer.error_message, answer.node_id, answer.host, answer.port),
        };
        let code = Code(code);
        match (code, u16::try_from(port)) {
            (Code::NONE, Ok(port)) if node >= 0 => self.coordinator_found(now, node, Address { host, port }),
            (Code::NONE, _) => self.refused_coordinator(now, Code::COORDINATOR_NOT_AVAILABLE, None),
            (code, _) => self.refused_coordinator(now, code, said),
        }
    }

    fn coordinator_found(&mut self, now: Instant, node: i32, address: Address) {
        self.learn_node(now, node, address.clone(), Peer::Node(node));
        if let Some(group) = &mut self.group {
            group.coordinator = Coordinator::At(node);
            group.fault.take_if(|(question, _)| *question == Question::Find);
            // Until a dead one is missed by the cluster, it is found again and again.
            let found = Some((node, address.clone()));
            if std::mem::replace(&mut group.coordinator_told, found.clone()) != found {
                let group = group.config.id.clone();
                self.tell(Event::CoordinatorFound { group, peer: Peer::Node(node), address });
            }
        }
    }

    fn refused_coordinator(&mut self, now: Instant, code: Code, said: Option<String>) {
        match verdict(Question::Find, code) {
            Verdict::Fatal => self.fail_group(Question::Find, code, said),
            _ => self.tell_refused(Question::Find, code),
        }
        self.pause_group(now);
    }

    pub(super) fn lost_find(&mut self, now: Instant, id: u64) {
        let Some(group) = &mut self.group else { return };
        if group.coordinator == Coordinator::Asked(id) {
            group.coordinator = Coordinator::Unknown;
            self.pause_group(now);
        }
    }

    /// It is another one now, or has to be asked for again.
    pub(super) fn forget_coordinator(&mut self) {
        if let Some(group) = &mut self.group
            && matches!(group.coordinator, Coordinator::At(_))
        {
            group.coordinator = Coordinator::Unknown;
        }
    }

    /// The cluster has lost a broker: if that was the coordinator, it is another one now.
    pub(crate) fn coordinator_may_be_gone(&mut self, node: i32) {
        if self.group.as_ref().is_some_and(|group| group.coordinator == Coordinator::At(node)) {
            self.forget_coordinator();
        }
    }
}
