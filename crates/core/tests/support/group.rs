//! Members of groups in the world: what their callers do, and how they come to grief.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use ottla_core::{
    Commit, CommitError, CommitOffset, GroupConfig, Rebalance, RebalanceKind, Settled, Start, Ticket,
    TopicPartition,
};

use super::{
    clients::Life,
    member::{Acks, Piece, Wanted},
    net::{Happening, Stage},
    reader::Read,
    trace::trace,
    ward::Ward,
    world::{World, secs},
};
use ottla_core::Config;

macro_rules! note {
    ($world:expr, $($what:tt)*) => {
        trace($world.elapsed(), format_args!($($what)*))
    };
}

/// Configurations for tests.
impl World {
    /// Reads all of these topics as a member of a group.
    pub fn member_config(&self, group: &str, topics: &[&str]) -> Config {
        let group = GroupConfig {
            id: group.into(),
            session_timeout: secs(10),
            rebalance_timeout: secs(20),
            heartbeat_interval: secs(3),
            ..GroupConfig::default()
        };
        Config { group: Some(group), ..self.config(topics) }
    }
}

/// What the user does.
impl World {
    pub fn commit(&mut self, client: usize, what: Commit) -> Result<Ticket, CommitError> {
        note!(self, "user of client {client} commits {what:?}");
        let wanted = match &what {
            Commit::Through { tenure, to } => Wanted::Through(tenure.at().clone(), *to),
            Commit::Acked | Commit::Offsets(_) => Wanted::Other,
        };
        let wishes = match &what {
            Commit::Offsets(offsets) => offsets.clone(),
            _ => Vec::new(),
        };
        let fronts: Vec<_> = wishes.iter().map(|(at, _)| self.front(client, at)).collect();
        let it = &mut self.clients[client];
        let result = it.machine.commit(what);
        if let Ok(ticket) = &result {
            it.caller.open.push((*ticket, wanted.clone()));
            let group = it.group_id();
            let ward = self.ward(&group);
            if let Wanted::Through(at, to) = &wanted {
                ward.acked_through(at, *to);
            }
            for ((at, offset), front) in wishes.iter().zip(fronts) {
                ward.wished(client, at, offset.offset, front);
            }
        }
        self.carry_out(client);
        result
    }

    pub fn commit_offsets(
        &mut self,
        client: usize,
        at: &TopicPartition,
        offset: i64,
    ) -> Result<Ticket, CommitError> {
        let offset = CommitOffset { offset, leader_epoch: -1, metadata: String::new() };
        self.commit(client, Commit::Offsets(vec![(at.clone(), offset)]))
    }

    pub fn committed(&mut self, client: usize, at: &TopicPartition) -> Ticket {
        let it = &mut self.clients[client];
        let ticket = it.machine.committed(vec![at.clone()]);
        it.caller.open.push((ticket, Wanted::Other));
        self.carry_out(client);
        ticket
    }

    /// How far everything of a partition is done, as its latest piece says; 0 where nothing was handed out yet.
    fn front(&self, client: usize, at: &TopicPartition) -> i64 {
        let reads = self.clients[client].reader.reads.iter().rev();
        let tenure = reads.filter(|read| read.at == *at).find_map(|read| read.turn.tenure());
        tenure.filter(|tenure| tenure.is_open()).and_then(|tenure| tenure.front()).unwrap_or(0)
    }

    pub fn subscribe(&mut self, client: usize, topics: &[&str]) {
        note!(self, "user of client {client} subscribes to {topics:?}");
        let topics: Vec<_> = topics.iter().map(|topic| (*topic).into()).collect();
        self.clients[client].machine.subscribe(self.now, &topics, None);
        self.carry_out(client);
    }

    pub fn rejoin(&mut self, client: usize) {
        note!(self, "user of client {client} wants to rejoin");
        self.clients[client].machine.rejoin(self.now, "the test wants it");
        self.carry_out(client);
    }

    pub fn close(&mut self, client: usize, within: Duration) {
        note!(self, "user closes client {client} within {within:?}");
        self.clients[client].caller.closing = true;
        self.clients[client].machine.close(self.now, self.now + within);
        self.carry_out(client);
    }

    /// Sends a piece back: it comes again.
    pub fn nack(&mut self, client: usize, piece: &Piece) {
        note!(self, "user of client {client} sends back {} offset {}", piece.at, piece.offset);
        let it = &mut self.clients[client];
        let result = it.machine.nack(&piece.tenure, piece.from, piece.offset);
        assert_eq!(
            result.is_ok(),
            piece.tenure.takes(piece.offset),
            "what is open can be sent back: {result:?}"
        );
        if result.is_ok() {
            it.watch.sent_back(&piece.at, piece.offset);
            let group = self.clients[client].group_id();
            self.ward(&group).sent_back(client, piece);
        }
        self.carry_out(client);
        self.rouse(client);
    }

    pub fn set_acks(&mut self, client: usize, acks: Acks) {
        note!(self, "user of client {client} acknowledges {acks:?}");
        self.clients[client].caller.acks = acks;
        self.clients[client].caller.waits_for = None;
        self.rouse(client);
        self.acknowledge_new(client);
    }

    /// Acknowledges a piece; whether that was taken.
    pub fn ack(&mut self, client: usize, piece: &Piece) -> bool {
        let group = self.clients[client].group_id();
        let taken = piece.tenure.ack(piece.from, piece.to).is_ok();
        assert_eq!(taken, piece.tenure.takes(piece.offset), "what is open takes acknowledgements");
        match taken {
            true => self.ward(&group).acked(piece),
            false => self.clients[client].caller.refused += 1,
        }
        taken
    }

    /// The pieces that were handed out of a partition.
    pub fn pieces(&self, client: usize, at: &TopicPartition) -> Vec<Piece> {
        self.reads(client).iter().filter(|read| read.at == *at).filter_map(Read::piece).collect()
    }
}

/// Callers that do what is asked of them.
impl World {
    /// From now on the caller reads these topics, acknowledges at once, also what it had forgotten, and its hooks take no
    /// time.
    pub fn behave(&mut self, client: usize, topics: &[&str]) {
        self.clients[client].caller.hooks_take = Some(Duration::ZERO);
        let open: Vec<u64> = self.clients[client].caller.rebalances.iter().map(|(_, r)| r.id).collect();
        open.into_iter().for_each(|id| self.hook_done(client, id));
        for at in self.clients[client].watch.paused_partitions() {
            note!(self, "user of client {client} resumes {at}, wherever it is now");
            let it = &mut self.clients[client];
            let _ = it.machine.resume(&at);
            it.watch.resumed(&at);
        }
        if !self.clients[client].caller.closing {
            self.subscribe(client, topics);
        }
        self.clients[client].caller.recollect();
        self.set_acks(client, Acks::AtOnce);
        self.set_habit(client, super::reader::Habit::Fast);
    }
}

/// The coordinator.
impl World {
    pub fn coordinate(&mut self, group: &str, node: i32) {
        note!(self, "group {group} is coordinated by node {node}");
        self.cluster.set_coordinator(group, node).expect("there is a node");
        self.settle();
    }

    pub fn load(&mut self, group: &str) {
        note!(self, "group {group} is being loaded");
        self.cluster.load_coordinator(group);
        self.settle();
    }

    pub fn loaded(&mut self, group: &str) {
        note!(self, "group {group} is loaded");
        self.cluster.finish_loading(group);
        self.settle();
    }
}

/// How members come to grief.
impl World {
    /// The process ends without a word; its connections are closed, unless the whole machine is gone.
    pub fn crash(&mut self, client: usize, connections_close: bool) {
        note!(self, "client {client} crashes, its connections close: {connections_close}");
        let it = &mut self.clients[client];
        it.life = Life::Gone;
        it.missed.clear();
        let links = std::mem::take(&mut it.links);
        if connections_close {
            links.into_values().for_each(|id| self.leave(id));
        }
        let group = self.clients[client].group_id();
        self.ward(&group).gone(client);
    }

    /// The process gets no time; what comes for it waits.
    pub fn freeze(&mut self, client: usize) {
        note!(self, "client {client} freezes");
        self.clients[client].life = Life::Frozen;
    }

    /// It goes on as if nothing had happened; whether the reader or the driver comes first is chance.
    pub fn thaw(&mut self, client: usize) {
        note!(self, "client {client} goes on");
        let it = &mut self.clients[client];
        it.life = Life::Runs;
        let missed = std::mem::take(&mut it.missed);
        if self.rng.bool() {
            self.net.at(self.now, Happening::Driver(client));
        }
        for what in missed {
            self.net.at(self.now, what);
        }
        self.net.at(self.now, Happening::Driver(client));
    }

    pub fn frozen(&self) -> BTreeSet<usize> {
        let frozen = |&client: &usize| self.clients[client].life == Life::Frozen;
        (0..self.clients.len()).filter(frozen).collect()
    }
}

/// Between the machine and its caller.
impl World {
    pub fn ward(&mut self, group: &str) -> &mut Ward {
        let begin = self.begin;
        self.wards.entry(group.to_owned()).or_insert_with(|| Ward::new(group, begin))
    }

    /// What a group's machine has to say, beside events.
    pub fn carry_out_group(&mut self, client: usize) {
        if self.clients[client].machine.config().group.is_none() {
            return;
        }
        let now = self.now;
        while let Some((ticket, settled)) = self.clients[client].machine.poll_settled() {
            self.settled(client, ticket, settled);
        }
        while let Some(rebalance) = self.clients[client].machine.poll_rebalance() {
            self.rebalance(client, rebalance);
        }
        if let Some(result) = self.clients[client].machine.poll_closed() {
            note!(self, "client {client} is closed: {result:?}");
            let it = &mut self.clients[client];
            assert!(it.caller.closed.is_none(), "told twice that it is closed");
            assert!(it.caller.open.is_empty(), "closed, and nobody answers {:?}", it.caller.open);
            it.caller.closed = Some((now, result));
            it.life = Life::Gone;
            let links = std::mem::take(&mut it.links);
            links.into_values().for_each(|id| self.leave(id));
            let group = self.clients[client].group_id();
            self.ward(&group).gone(client);
        }
        self.look_at_starts(client);
    }

    fn settled(&mut self, client: usize, ticket: Ticket, settled: Settled) {
        note!(self, "client {client} settles {ticket:?}: {settled:?}");
        let it = &mut self.clients[client];
        let place = it.caller.open.iter().position(|(open, _)| *open == ticket);
        let place = place.unwrap_or_else(|| panic!("{ticket:?} is answered, and was not asked, or before"));
        let (_, wanted) = it.caller.open.swap_remove(place);
        if it.caller.waits_for.take_if(|waited| *waited == ticket).is_some() {
            self.net.at(self.now, Happening::Reader(client));
        }
        let group = it.group_id();
        if let (Wanted::Through(at, to), Settled::Commit(Ok(()))) = (&wanted, &settled) {
            self.wards[&group].check_settled(client, at, *to);
        }
        self.clients[client].caller.settled.push((self.now, ticket, settled));
    }

    fn rebalance(&mut self, client: usize, rebalance: Rebalance) {
        note!(self, "client {client} has a hook told {rebalance:?}");
        let it = &mut self.clients[client];
        if rebalance.kind != RebalanceKind::Lost
            && let Some(time) = it.caller.hooks_take
        {
            self.net.at(self.now + time, Happening::Hook(client, rebalance.id));
        }
        it.caller.rebalances.push((self.now, rebalance));
    }

    pub fn hook_done(&mut self, client: usize, id: u64) {
        note!(self, "client {client}'s hook is done with {id}");
        self.clients[client].machine.complete(id);
        self.carry_out(client);
    }

    /// Where tenures begin, once that is known.
    fn look_at_starts(&mut self, client: usize) {
        let it = &self.clients[client];
        let Some(ward) = self.wards.get_mut(&it.group_id()) else { return };
        for at in ward.is_fresh(client) {
            if let Ok(Some(position)) = it.machine.position(&at) {
                ward.began(client, &at, position, (&self.cluster, &self.truth));
            }
        }
    }

    pub fn ward_sought(&mut self, client: usize, at: &TopicPartition, start: Start) {
        let it = &self.clients[client];
        if it.machine.config().group.is_none() {
            return;
        }
        let group = it.group_id();
        let to = match start {
            Start::Offset(offset) => offset,
            Start::Earliest => self.truth.start(&at.topic, at.partition),
            _ => self.truth.end(&at.topic, at.partition),
        };
        self.ward(&group).sought(client, at, to);
    }

    // Handing out and acknowledging.

    pub fn handed_out(&mut self, client: usize, records: &VecDeque<Read>) {
        let frozen = self.frozen();
        let it = &mut self.clients[client];
        let Some(group) = it.machine.config().group.as_ref().map(|group| group.id.clone()) else { return };
        let ward = self.wards.get_mut(&*group).expect("it was opened");
        for read in records {
            ward.read(client, read, &self.cluster, &frozen);
            it.caller.held.extend(read.piece());
        }
    }

    /// Something was handed out: acknowledges it, or arranges for that.
    pub fn acknowledge_new(&mut self, client: usize) {
        if self.clients[client].machine.config().group.is_none() {
            return;
        }
        match self.clients[client].caller.patience() {
            None => self.acknowledge(client),
            Some(time) => self.arrange_acks(client, time),
        }
    }

    fn arrange_acks(&mut self, client: usize, time: Duration) {
        let caller = &mut self.clients[client].caller;
        if !caller.held.is_empty() && !std::mem::replace(&mut caller.arranged, true) {
            self.net.at(self.now + time, Happening::Acks(client));
        }
    }

    pub fn acknowledge(&mut self, client: usize) {
        self.clients[client].caller.arranged = false;
        let (acks, due) = {
            let caller = &mut self.clients[client].caller;
            (caller.acks, caller.due(&mut self.rng))
        };
        for piece in due {
            match acks {
                Acks::Wait => self.commit_and_wait(client, &piece),
                Acks::Through(_) => self.ack_through(client, &piece),
                _ => _ = self.ack(client, &piece),
            }
            self.clients[client].caller.acked += 1;
        }
        if let Some(time) = self.clients[client].caller.patience() {
            self.arrange_acks(client, time);
        }
    }

    fn ack_through(&mut self, client: usize, piece: &Piece) {
        let group = self.clients[client].group_id();
        match piece.tenure.ack_through(piece.to) {
            Ok(()) => self.ward(&group).acked_through(&piece.at, piece.to),
            Err(_) => self.clients[client].caller.refused += 1,
        }
    }

    fn commit_and_wait(&mut self, client: usize, piece: &Piece) {
        match self.commit(client, Commit::Through { tenure: piece.tenure.clone(), to: piece.to }) {
            // It may be answered already.
            Ok(ticket) if self.clients[client].caller.answer(ticket).is_none() => {
                self.clients[client].caller.waits_for = Some(ticket);
            }
            Ok(_) => {}
            Err(error) => {
                assert!(!piece.tenure.takes(piece.offset), "{error}, and the tenure goes on");
                self.clients[client].caller.refused += 1;
            }
        }
    }

    // The coordinator's side.

    pub fn look_at_commits(&mut self) {
        let given_up = |stage: &Stage| matches!(stage, Stage::LeftByClient);
        let late = self.net.wires.values().any(|wire| given_up(&wire.stage) && wire.connection.is_some());
        for ward in self.wards.values_mut() {
            ward.look(&self.cluster, &self.truth, late);
        }
    }
}
