//! Groups at a real Kafka and at this broker: what they answer must be the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use bytes::Bytes;
use common::peer::{Peer, compare, create, delete};
use ottla_broker::wire::Uuid;
use ottla_broker::wire::frame::decode_response;
use ottla_broker::wire::message::join_group_request::JoinGroupRequestProtocol;
use ottla_broker::wire::message::leave_group_request::MemberIdentity;
use ottla_broker::wire::message::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_broker::wire::message::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_broker::wire::message::sync_group_request::SyncGroupRequestAssignment;
use ottla_broker::wire::message::*;
use std::io::Write;
use std::time::Duration;

/// A client that is or becomes a member. Joins and syncs have a connection of their own.
struct Member {
    lane: Peer,
    name: &'static str,
    group: String,
    id: String,
    instance: Option<String>,
    generation: i32,
    protocol: Option<String>,
    join: JoinGroupRequest,
    version: i16,
}

impl Member {
    fn new(peer: &Peer, group: &str, name: &'static str) -> Self {
        let join = JoinGroupRequest {
            group_id: group.into(),
            session_timeout_ms: 20_000,
            rebalance_timeout_ms: 20_000,
            protocol_type: "consumer".into(),
            protocols: protocols(&["range"]),
            ..Default::default()
        };
        Self {
            lane: Peer::new(peer.who, &peer.address),
            name,
            group: group.into(),
            id: String::new(),
            instance: None,
            generation: -1,
            protocol: None,
            join,
            version: 9,
        }
    }

    fn new_static(peer: &Peer, group: &str, name: &'static str) -> Self {
        Self { instance: Some(name.into()), ..Self::new(peer, group, name) }
    }

    /// Sends a join; before that it gets itself an id, if it needs one.
    fn begin_join(&mut self, peer: &mut Peer) {
        self.fetch_id(peer);
        let request = self.join_request();
        self.lane.send(&request, self.version);
    }

    fn fetch_id(&mut self, peer: &mut Peer) {
        if self.id.is_empty() && self.instance.is_none() && self.version >= 4 {
            let request = self.join_request();
            let answer = self.lane.ask(&request, self.version);
            peer.name(&answer.member_id, self.name);
            peer.note(format!("{} gets an id", self.name), &answer);
            self.id = answer.member_id;
        }
    }

    fn join_request(&self) -> JoinGroupRequest {
        JoinGroupRequest {
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            ..self.join.clone()
        }
    }

    /// Reads what a join was answered with, and notes it.
    fn end_join(&mut self, peer: &mut Peer) {
        let mut answer = self.lane.take::<JoinGroupRequest>(self.version);
        peer.name(&answer.member_id, self.name);
        let mut roll: Vec<_> = answer
            .members
            .drain(..)
            .map(|member| (member.member_id == answer.member_id, member.group_instance_id, member.metadata))
            .collect();
        roll.sort();
        peer.note(format!("{} joined", self.name), (&answer, roll));
        self.id = answer.member_id;
        if answer.error_code == 0 {
            self.generation = answer.generation_id;
            self.protocol = answer.protocol_name;
        }
    }

    /// Sends a join, and waits until it is known that it waits, with so many members.
    fn begin_to_wait(&mut self, peer: &mut Peer, members: usize) {
        self.begin_join(peer);
        let request = DescribeGroupsRequest { groups: vec![self.group.clone()], ..Default::default() };
        loop {
            let group = peer.ask(&request, 5).groups.remove(0);
            if group.group_state == "PreparingRebalance" && group.members.len() == members {
                return;
            }
        }
    }

    fn join(&mut self, peer: &mut Peer) {
        self.begin_join(peer);
        self.end_join(peer);
    }

    fn sync_request(&self) -> SyncGroupRequest {
        SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: Some("consumer".into()),
            protocol_name: self.protocol.clone(),
            assignments: Vec::new(),
        }
    }

    /// Sends a sync, as a follower does.
    fn begin_sync(&mut self) {
        let request = self.sync_request();
        self.lane.send(&request, 5);
    }

    /// Sends a sync, as the leader does: each is assigned its name.
    fn begin_to_assign(&mut self, others: &[&Member]) {
        let assignment = |member: &Member| SyncGroupRequestAssignment {
            member_id: member.id.clone(),
            assignment: Bytes::from_static(member.name.as_bytes()),
        };
        let mut request = self.sync_request();
        request.assignments =
            others.iter().map(|other| assignment(other)).chain([assignment(self)]).collect();
        self.lane.send(&request, 5);
    }

    fn end_sync(&mut self, peer: &mut Peer) {
        let answer = self.lane.take::<SyncGroupRequest>(5);
        peer.note(format!("{} synced", self.name), answer);
    }

    /// As the only member, which leads.
    fn sync_alone(&mut self, peer: &mut Peer) {
        self.begin_to_assign(&[]);
        self.end_sync(peer);
    }

    fn heartbeat(&self, peer: &mut Peer, what: &str) {
        let request = HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
        };
        let answer = peer.ask(&request, 4);
        peer.note(format!("{} beats {what}", self.name), answer);
    }

    fn commit(&self, peer: &mut Peer, topic: &str, offset: i64) {
        let request = OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            topics: vec![commit_topic(topic, &[(0, offset, "")])],
            ..Default::default()
        };
        let answer = peer.ask(&request, 9);
        peer.note(format!("{} commits {offset}", self.name), &answer.topics[0].partitions);
    }

    fn leave(&self, peer: &mut Peer) {
        let member = MemberIdentity {
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            ..Default::default()
        };
        let answer = peer.ask(&leave(&self.group, vec![member]), 5);
        peer.note(format!("{} leaves", self.name), answer);
    }
}

impl Peer {
    fn send<R: Request>(&mut self, request: &R, version: i16) {
        let frame = self.frame(request, version);
        self.stream.write_all(&frame).unwrap();
    }

    fn take<R: Request>(&mut self, version: i16) -> R::Response {
        let frame = self.read().expect("the connection stays open");
        decode_response::<R>(frame, version).unwrap().1
    }

    /// Whether nothing comes for a while.
    fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
        let silent = self.stream.peek(&mut [0]).is_err();
        self.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        silent
    }
}

/// Protocols whose metadata are their names.
fn protocols(names: &[&str]) -> Vec<JoinGroupRequestProtocol> {
    let protocol = |name: &&str| JoinGroupRequestProtocol {
        name: (*name).into(),
        metadata: Bytes::copy_from_slice(name.as_bytes()),
    };
    names.iter().map(protocol).collect()
}

fn leave(group: &str, members: Vec<MemberIdentity>) -> LeaveGroupRequest {
    LeaveGroupRequest { group_id: group.into(), members, ..Default::default() }
}

fn commit_topic(topic: &str, offsets: &[(i32, i64, &str)]) -> OffsetCommitRequestTopic {
    let partition =
        |(partition_index, committed_offset, metadata): &(i32, i64, &str)| OffsetCommitRequestPartition {
            partition_index: *partition_index,
            committed_offset: *committed_offset,
            committed_metadata: Some((*metadata).into()),
            ..Default::default()
        };
    OffsetCommitRequestTopic {
        name: topic.into(),
        partitions: offsets.iter().map(partition).collect(),
        ..Default::default()
    }
}

/// Waits until the group has a coordinator that has loaded it, and calls it by a name in what is noted.
fn begin(peer: &mut Peer, group: &str) {
    let find = FindCoordinatorRequest { coordinator_keys: vec![group.into()], ..Default::default() };
    while peer.ask(&find, 4).coordinators[0].error_code != 0 {
        std::thread::yield_now();
    }
    let fetch = OffsetFetchRequest { group_id: group.into(), topics: None, ..Default::default() };
    while peer.ask(&fetch, 7).error_code != 0 {
        std::thread::yield_now();
    }
}

fn state(peer: &mut Peer, group: &str) -> String {
    let request = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
    peer.ask(&request, 5).groups.remove(0).group_state
}

fn describe(peer: &mut Peer, what: &str, group: &str) {
    let request = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
    let mut answer = peer.ask(&request, 5);
    for group in &mut answer.groups {
        group.members.sort_by(|a, b| a.member_assignment.cmp(&b.member_assignment));
    }
    let group = answer.groups.remove(0);
    let members: Vec<_> =
        group.members.iter().map(|member| (&member.member_id, &member.member_assignment)).collect();
    // Of members with equal assignments either may come first.
    let members = if members.windows(2).any(|two| two[0].1 == two[1].1) {
        format!("{} members", members.len())
    } else {
        format!("{members:?}")
    };
    peer.note(
        format!("described {what}"),
        (group.group_state, group.protocol_type, group.protocol_data, members),
    );
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_finds_coordinators() {
    compare(|peer, topic| {
        begin(peer, topic);
        for version in 0..=6 {
            for (key_type, key) in [(0, topic), (0, ""), (2, topic), (7, topic)] {
                let mut request = FindCoordinatorRequest { key_type, ..Default::default() };
                if version >= 4 {
                    request.coordinator_keys = vec![key.into(), format!("{key}-other")];
                } else {
                    request.key = key.into();
                }
                if (version == 0 && key_type != 0) || (version == 6 && key_type == 2) {
                    continue;
                }
                let what = format!("FindCoordinator {version}: {key:?} of type {key_type}");
                let frame = peer.frame(&request, version);
                let Some(answer) = peer.try_frame(&frame) else {
                    peer.note(what, "closed");
                    continue;
                };
                let mut answer = decode_response::<FindCoordinatorRequest>(answer, version).unwrap().1;
                let words = answer.error_message.is_some();
                answer.error_message = words.then(String::new);
                if answer.node_id > 0 {
                    (answer.node_id, answer.port, answer.host) = (1, 1, String::new());
                }
                for one in &mut answer.coordinators {
                    if one.node_id > 0 {
                        (one.node_id, one.port, one.host) = (1, 1, String::new());
                    }
                    one.error_message = one.error_message.as_ref().map(|_| String::new());
                }
                peer.note(what, answer);
            }
        }
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_joins_that_fail() {
    compare(|peer, group| {
        begin(peer, group);
        let mut member = Member::new(peer, group, "MEMBER");
        let round = |peer: &mut Peer, state: &str, join: &JoinGroupRequest| {
            let is_empty = !matches!(state, "completing" | "stable");
            for version in [0, 3, 4, 5, 6, 7, 9] {
                let note = |peer: &mut Peer, what: &str, change: &dyn Fn(&mut JoinGroupRequest)| {
                    let mut request = JoinGroupRequest { member_id: "stranger".into(), ..join.clone() };
                    change(&mut request);
                    let answer = peer.ask(&request, version);
                    peer.note(format!("{state}: JoinGroup {version}: {what}"), answer);
                };
                note(peer, "a stranger", &|_| {});
                note(peer, "no group", &|join| join.group_id.clear());
                note(peer, "another group", &|join| join.group_id.push_str("-missing"));
                note(peer, "a short session", &|join| join.session_timeout_ms = 5999);
                note(peer, "a long session", &|join| join.session_timeout_ms = 1_800_001);
                note(peer, "a negative session", &|join| join.session_timeout_ms = -1);
                note(peer, "no protocols", &|join| join.protocols.clear());
                note(peer, "no protocol type", &|join| join.protocol_type.clear());
                note(peer, "another protocol", &|join| join.protocols = protocols(&["other"]));
                note(peer, "a new one with another protocol", &|join| {
                    join.member_id.clear();
                    join.protocol_type = "connect".into();
                    join.protocols = if is_empty { Vec::new() } else { protocols(&["range"]) };
                });
                if version >= 5 {
                    note(peer, "a static stranger", &|join| join.group_instance_id = Some("x".into()));
                }
            }
        };
        let join = member.join.clone();
        round(peer, "empty", &join);
        member.fetch_id(peer);
        round(peer, "pending", &join);
        member.join(peer);
        round(peer, "completing", &join);
        member.sync_alone(peer);
        round(peer, "stable", &join);
        member.leave(peer);
        round(peer, "empty again", &join);
        member.begin_join(peer);
        member.end_join(peer);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_members_come_and_go() {
    compare(|peer, group| {
        create(peer, group, 1, &[]);
        begin(peer, group);
        let (mut one, mut two) = (Member::new(peer, group, "ONE"), Member::new(peer, group, "TWO"));
        one.fetch_id(peer);
        // A real broker hands out the id before the group's record is in the log.
        while state(peer, group) == "Dead" {
            std::thread::yield_now();
        }
        describe(peer, "with a pending member", group);
        one.join(peer);
        one.heartbeat(peer, "before it syncs");
        one.commit(peer, group, 1);
        one.join(peer);
        describe(peer, "completing", group);
        one.sync_alone(peer);
        describe(peer, "stable", group);
        one.heartbeat(peer, "when stable");
        one.commit(peer, group, 2);

        two.begin_to_wait(peer, 2);
        let silent = two.lane.is_silent();
        peer.note("two waits", silent);
        describe(peer, "preparing", group);
        one.heartbeat(peer, "when another joins");
        one.commit(peer, group, 3);
        one.sync_alone(peer);
        one.join(peer);
        two.end_join(peer);
        one.heartbeat(peer, "when both have joined");
        one.commit(peer, group, 4);
        two.begin_sync();
        let silent = two.lane.is_silent();
        peer.note("two waits for the leader", silent);
        one.begin_to_assign(&[&two]);
        one.end_sync(peer);
        two.end_sync(peer);
        describe(peer, "two in a stable group", group);
        two.commit(peer, group, 5);

        // A follower that joins again as it was changes nothing, another does, and so does the leader.
        two.join(peer);
        two.sync_alone(peer);
        describe(peer, "after a follower joined again", group);
        two.join.protocols[0].metadata = Bytes::from_static(b"zzz");
        two.begin_to_wait(peer, 2);
        one.heartbeat(peer, "when the follower has changed");
        one.join(peer);
        two.end_join(peer);
        two.begin_sync();
        one.begin_join(peer);
        let silent = (one.lane.is_silent(), two.lane.is_silent());
        peer.note("the leader joins again with what it has", silent);
        one.end_join(peer);
        one.begin_to_assign(&[&two]);
        one.end_sync(peer);
        two.end_sync(peer);
        one.begin_to_wait(peer, 2);
        two.heartbeat(peer, "when the leader joins again");
        two.join(peer);
        one.end_join(peer);
        two.begin_sync();

        // A third one comes while a sync waits.
        let mut three = Member::new(peer, group, "THREE");
        three.begin_to_wait(peer, 3);
        two.end_sync(peer);
        one.heartbeat(peer, "when a third joins");
        one.leave(peer);
        let silent = three.lane.is_silent();
        peer.note("three waits for two", silent);
        two.leave(peer);
        three.end_join(peer);
        three.sync_alone(peer);
        one.heartbeat(peer, "after it left");
        one.commit(peer, group, 9);
        describe(peer, "three alone", group);
        three.leave(peer);
        three.leave(peer);
        describe(peer, "empty", group);
        three.heartbeat(peer, "after it left");
        three.join(peer);

        // Who leaves while its sync waits is not answered.
        let mut four = Member::new(peer, group, "FOUR");
        four.join(peer);
        let mut five = Member::new(peer, group, "FIVE");
        five.begin_to_wait(peer, 2);
        four.join(peer);
        five.end_join(peer);
        five.begin_sync();
        let waits = five.lane.is_silent();
        five.leave(peer);
        let silent = five.lane.is_silent();
        peer.note("a sync whose member has left", (waits, silent));
        four.heartbeat(peer, "when five has left");
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_old_joins() {
    compare(|peer, group| {
        begin(peer, group);
        for version in 0..=9 {
            let group = format!("{group}-{version}");
            let mut one = Member { version, ..Member::new(peer, &group, "ONE") };
            let mut two = Member { version, ..Member::new(peer, &group, "TWO") };
            one.join(peer);
            one.sync_alone(peer);
            two.begin_to_wait(peer, 2);
            one.join(peer);
            two.end_join(peer);
            for sync in 0..=5 {
                let mut request = two.sync_request();
                request.generation_id = 77;
                if sync < 5 {
                    (request.protocol_name, request.protocol_type) = (None, None);
                }
                let answer = peer.ask(&request, sync);
                peer.note(format!("SyncGroup {sync}"), answer);
            }
            for beat in 0..=4 {
                let request = HeartbeatRequest {
                    group_id: group.clone(),
                    generation_id: two.generation,
                    member_id: two.id.clone(),
                    group_instance_id: None,
                };
                let answer = peer.ask(&request, beat);
                peer.note(format!("Heartbeat {beat}"), answer);
            }
            let mut request = leave(&group, Vec::new());
            if version < 3 {
                request.member_id.clone_from(&two.id);
            } else {
                let member_id = two.id.clone();
                request.members = vec![MemberIdentity { member_id, ..Default::default() }];
            }
            for what in ["once", "twice"] {
                let answer = peer.ask(&request, version.min(5));
                peer.note(format!("LeaveGroup {version} {what}"), answer);
            }
            one.leave(peer);
        }
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_wrong_generations_and_members() {
    compare(|peer, group| {
        create(peer, group, 2, &[]);
        begin(peer, group);
        let mut member = Member::new(peer, group, "MEMBER");
        let mut keeper = Member::new_static(peer, group, "KEEPER");
        let round = |peer: &mut Peer, state: &str, member: &Member, keeper: &Member| {
            let ids = [
                ("its id", &member.id[..]),
                ("the static one's", &keeper.id[..]),
                ("another", "x"),
                ("none", ""),
            ];
            for (whose, id) in ids {
                for generation in [-1, 0, member.generation, 99] {
                    for instance in [None, Some("KEEPER"), Some("stranger")] {
                        let what =
                            format!("{state}: {whose}, generation {generation}, instance {instance:?}");
                        let (member_id, group_id) = (id.to_owned(), group.to_owned());
                        let group_instance_id = instance.map(str::to_owned);
                        let beat = HeartbeatRequest {
                            group_id: group_id.clone(),
                            generation_id: generation,
                            member_id: member_id.clone(),
                            group_instance_id: group_instance_id.clone(),
                        };
                        let answer = peer.ask(&beat, 4);
                        peer.note(format!("beat {what}"), answer);
                        let commit = OffsetCommitRequest {
                            group_id: group_id.clone(),
                            generation_id_or_member_epoch: generation,
                            member_id: member_id.clone(),
                            group_instance_id: group_instance_id.clone(),
                            topics: vec![commit_topic(group, &[(0, 5, ""), (2, 1, "")])],
                            ..Default::default()
                        };
                        for version in [8, 9] {
                            let answer = peer.ask(&commit, version);
                            peer.note(format!("commit {version} {what}"), answer);
                        }
                        if generation == member.generation
                            && (whose == "its id" || instance == Some("KEEPER"))
                        {
                            continue;
                        }
                        let mut sync = member.sync_request();
                        sync.generation_id = generation;
                        sync.member_id.clone_from(&member_id);
                        sync.group_instance_id.clone_from(&group_instance_id);
                        let answer = peer.ask(&sync, 5);
                        peer.note(format!("sync {what}"), answer);
                    }
                }
            }
        };
        round(peer, "missing", &member, &keeper);
        keeper.join(peer);
        keeper.sync_alone(peer);
        member.begin_to_wait(peer, 2);
        round(peer, "preparing", &member, &keeper);
        keeper.join(peer);
        member.end_join(peer);
        round(peer, "completing", &member, &keeper);
        keeper.begin_to_assign(&[&member]);
        keeper.end_sync(peer);
        round(peer, "stable", &member, &keeper);
        for (name, kind) in [
            (None, None),
            (Some("range"), None),
            (Some("other"), Some("consumer")),
            (Some("range"), Some("connect")),
        ] {
            let mut sync = member.sync_request();
            sync.protocol_name = name.map(str::to_owned);
            sync.protocol_type = kind.map(str::to_owned);
            let answer = peer.ask(&sync, 5);
            peer.note(format!("sync with {name:?} of {kind:?}"), answer);
        }
        member.leave(peer);
        keeper.leave(peer);
        round(peer, "empty", &member, &keeper);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_static_members() {
    compare(|peer, group| {
        create(peer, group, 1, &[]);
        begin(peer, group);
        let mut leader = Member::new_static(peer, group, "LEADER");
        let mut follower = Member::new_static(peer, group, "FOLLOWER");
        leader.join(peer);
        leader.sync_alone(peer);
        follower.begin_to_wait(peer, 2);
        leader.join(peer);
        follower.end_join(peer);
        leader.begin_to_assign(&[&follower]);
        leader.end_sync(peer);
        follower.begin_sync();
        follower.end_sync(peer);
        describe(peer, "stable", group);

        for version in [5, 8, 9] {
            let mut again = Member { version, name: "AGAIN", ..Member::new_static(peer, group, "FOLLOWER") };
            again.join(peer);
            again.sync_alone(peer);
            follower.heartbeat(peer, "when it was replaced");
            follower.commit(peer, group, 1);
            again.heartbeat(peer, "in the place of another");
            again.commit(peer, group, 2);
            follower.join(peer);
            let mut again =
                Member { version, name: "LEADS AGAIN", ..Member::new_static(peer, group, "LEADER") };
            again.join(peer);
            again.sync_alone(peer);
            leader.heartbeat(peer, "when it was replaced");
            again.heartbeat(peer, "in the place of the leader");
            describe(peer, "after replacements", group);
            (follower, leader) = (follower, again);
            leader.name = "LEADER";
        }

        // Other protocols than before: the group has to agree anew.
        let mut changed = Member { name: "CHANGED", ..Member::new_static(peer, group, "FOLLOWER") };
        changed.join.protocols = protocols(&["sticky", "range"]);
        changed.join(peer);
        describe(peer, "after one that offers more", group);
        changed.heartbeat(peer, "offering more");

        // Who waits under the old id is fenced.
        leader.begin_to_wait(peer, 2);
        let silent = leader.lane.is_silent();
        peer.note("the leader waits", silent);
        let mut third = Member { name: "THIRD", ..Member::new_static(peer, group, "LEADER") };
        third.begin_join(peer);
        leader.end_join(peer);
        let mut fourth = Member { name: "FOURTH", ..Member::new_static(peer, group, "FOLLOWER") };
        fourth.begin_join(peer);
        third.end_join(peer);
        fourth.end_join(peer);

        // Static members may be removed by their name.
        let by_name = |instance: &str, id: &str| MemberIdentity {
            member_id: id.into(),
            group_instance_id: Some(instance.into()),
            ..Default::default()
        };
        let leaving = vec![
            by_name("FOLLOWER", ""),
            by_name("stranger", ""),
            by_name("LEADER", "x"),
            MemberIdentity::default(),
        ];
        let answer = peer.ask(&leave(group, leaving), 5);
        peer.note("several leave", answer);
        describe(peer, "after several left", group);
        third.join(peer);
        third.sync_alone(peer);
        let leaving = vec![by_name("LEADER", "")];
        let answer = peer.ask(&leave(group, leaving), 4);
        peer.note("the last leaves", answer);
        describe(peer, "at the end", group);
        let answer = peer.ask(&leave(&format!("{group}-missing"), vec![by_name("LEADER", "")]), 5);
        peer.note("leaves a missing group", answer);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_protocols_are_elected() {
    compare(|peer, group| {
        begin(peer, group);
        let offers: [&[&[&str]]; 7] = [
            &[&["range", "roundrobin"], &["roundrobin", "range"]],
            &[&["roundrobin", "range"], &["range", "roundrobin"]],
            &[&["sticky", "range"], &["range", "sticky"]],
            &[&["cooperative-sticky", "range"], &["range"]],
            &[&["a", "b", "c"], &["c", "b"], &["b", "c"]],
            &[&["sticky", "roundrobin"], &["roundrobin", "sticky"]],
            &[&["cooperative-sticky", "range"], &["range", "cooperative-sticky"]],
        ];
        for (nth, offers) in offers.into_iter().enumerate() {
            let group = format!("{group}-{nth}");
            let mut first = Member::new(peer, &group, "FIRST");
            first.join.protocols = protocols(offers[0]);
            first.join(peer);
            first.sync_alone(peer);
            let mut rest = Vec::new();
            for offers in &offers[1..] {
                let mut next = Member::new(peer, &group, "NEXT");
                next.join.protocols = protocols(offers);
                next.fetch_id(peer);
                rest.push(next);
            }
            for (member, others) in rest.iter_mut().zip(1..) {
                member.begin_to_wait(peer, others + 1);
            }
            first.begin_join(peer);
            let answer = first.lane.take::<JoinGroupRequest>(9);
            peer.note(
                format!("elected of {offers:?}"),
                (answer.generation_id, answer.protocol_name, answer.members.len()),
            );
            for mut member in rest {
                let answer = member.lane.take::<JoinGroupRequest>(9);
                peer.note(format!("elected of {offers:?}"), (answer.generation_id, answer.protocol_name));
            }
        }
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_offsets() {
    compare(|peer, topic| {
        let id = create(peer, topic, 3, &[]);
        peer.name(&id.to_string(), "ID");
        let group = format!("{topic}-offsets");
        begin(peer, &group);
        let nameless = DeleteGroupsRequest { groups_names: vec![String::new()] };
        peer.ask(&nameless, 2);
        let long = "x".repeat(4096);
        let longer = "x".repeat(4097);
        let umlauts = "ü".repeat(4096);
        let pairs = "😀".repeat(2049);
        for version in 2..=10 {
            let topic_of = |name: &str, topic_id, offsets: &[(i32, i64, &str)]| {
                let mut topic = commit_topic(name, offsets);
                if version >= 10 {
                    topic.name.clear();
                    topic.topic_id = topic_id;
                }
                topic
            };
            let stranger = Uuid([7; 16]);
            let none = topic_of(topic, Uuid::ZERO, &[(0, 1, "")]);
            let mut epochs = topic_of(topic, id, &[(0, 10, "note"), (1, 11, "")]);
            epochs.partitions[1].committed_metadata = None;
            if version >= 6 {
                epochs.partitions[0].committed_leader_epoch = 3;
            }
            let cases = [
                ("two", vec![epochs]),
                ("missing partitions", vec![topic_of(topic, id, &[(3, 1, ""), (2, 12, ""), (-1, 1, "")])]),
                ("a missing topic", vec![topic_of("compare-missing", stranger, &[(0, 1, "")])]),
                (
                    "a missing topic among others",
                    vec![
                        topic_of(topic, id, &[(0, 14, "later")]),
                        topic_of("compare-missing", stranger, &[(0, 1, "")]),
                    ],
                ),
                ("long metadata", vec![topic_of(topic, id, &[(0, 15, &long), (1, 16, &longer)])]),
                ("long umlauts", vec![topic_of(topic, id, &[(0, 17, &umlauts), (1, 18, &pairs)])]),
                ("a negative offset", vec![topic_of(topic, id, &[(0, -5, "")])]),
                ("nothing", vec![]),
                ("a topic without partitions", vec![topic_of(topic, id, &[])]),
                ("no id", if version >= 10 { vec![none] } else { vec![] }),
                (
                    "twice",
                    vec![
                        topic_of(topic, id, &[(0, 20, "")]),
                        topic_of(topic, id, &[(0, 19, ""), (1, 21, "")]),
                    ],
                ),
            ];
            for (what, topics) in cases {
                let request = OffsetCommitRequest {
                    group_id: group.clone(),
                    generation_id_or_member_epoch: -1,
                    topics,
                    ..Default::default()
                };
                let answer = peer.ask(&request, version);
                peer.note(format!("OffsetCommit {version}: {what}"), answer);
                note_offsets(peer, &group, topic, id);
            }
        }
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: -1,
            topics: vec![commit_topic(topic, &[(0, 1, "")])],
            ..Default::default()
        };
        let answer = peer.ask(&request, 9);
        peer.note("OffsetCommit without a group", answer);
        for group in ["", "compare-missing-group"] {
            note_offsets(peer, group, topic, id);
        }
        let answer = peer.ask(&nameless, 2);
        peer.note("DeleteGroups without a name", answer);
    });
}

/// What is fetched, in every version.
fn note_offsets(peer: &mut Peer, group: &str, topic: &str, id: Uuid) {
    for version in 1..=10 {
        for require_stable in [false, true] {
            if require_stable && version < 7 {
                continue;
            }
            let asked = [
                Some(vec![(topic, id, vec![1, 0, 5, -1])]),
                Some(vec![("compare-missing", Uuid([7; 16]), vec![0]), (topic, id, vec![2])]),
                Some(vec![]),
                None,
            ];
            for topics in asked {
                if topics.is_none() && version < 2 {
                    continue;
                }
                let what = format!("OffsetFetch {version} of {topics:?}, stable: {require_stable}");
                let frame = peer.frame(&offset_fetch(group, topics, version, require_stable), version);
                let Some(answer) = peer.try_frame(&frame) else {
                    peer.note(what, "closed");
                    continue;
                };
                let mut answer = decode_response::<OffsetFetchRequest>(answer, version).unwrap().1;
                sort(&mut answer);
                peer.note(what, answer);
            }
        }
    }
}

fn sort(answer: &mut OffsetFetchResponse) {
    answer.topics.sort_by(|a, b| a.name.cmp(&b.name));
    answer
        .topics
        .iter_mut()
        .for_each(|topic| topic.partitions.sort_by_key(|partition| partition.partition_index));
    for group in &mut answer.groups {
        group.topics.sort_by(|a, b| {
            (&a.name, a.topic_id == Uuid([7; 16])).cmp(&(&b.name, b.topic_id == Uuid([7; 16])))
        });
        group
            .topics
            .iter_mut()
            .for_each(|topic| topic.partitions.sort_by_key(|partition| partition.partition_index));
    }
}

fn offset_fetch(
    group: &str,
    topics: Option<Vec<(&str, Uuid, Vec<i32>)>>,
    version: i16,
    require_stable: bool,
) -> OffsetFetchRequest {
    if version < 8 {
        let topic = |(name, _, partition_indexes): (&str, Uuid, Vec<i32>)| OffsetFetchRequestTopic {
            name: name.into(),
            partition_indexes,
        };
        let topics = topics.map(|topics| topics.into_iter().map(topic).collect());
        return OffsetFetchRequest { group_id: group.into(), topics, require_stable, ..Default::default() };
    }
    let topic = |(name, id, partition_indexes): (&str, Uuid, Vec<i32>)| OffsetFetchRequestTopics {
        name: if version < 10 { name.into() } else { String::new() },
        topic_id: if version < 10 { Uuid::ZERO } else { id },
        partition_indexes,
    };
    let topics = topics.map(|topics| topics.into_iter().map(topic).collect());
    let groups = [group, "compare-missing-group"].map(|group| OffsetFetchRequestGroup {
        group_id: group.into(),
        topics: Option::clone(&topics),
        ..Default::default()
    });
    OffsetFetchRequest { groups: groups.into(), require_stable, ..Default::default() }
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_described_listed_and_deleted_groups() {
    compare(|peer, topic| {
        create(peer, topic, 1, &[]);
        let simple = format!("{topic}-simple");
        let stable = format!("{topic}-stable");
        let emptied = format!("{topic}-emptied");
        let preparing = format!("{topic}-preparing");
        let completing = format!("{topic}-completing");
        let missing = format!("{topic}-missing");
        begin(peer, topic);
        let request = OffsetCommitRequest {
            group_id: simple.clone(),
            generation_id_or_member_epoch: -1,
            topics: vec![commit_topic(topic, &[(0, 1, "")])],
            ..Default::default()
        };
        peer.ask(&request, 9);
        let mut members = Vec::new();
        for group in [&stable, &emptied, &preparing, &completing] {
            let mut member = Member::new(peer, group, "MEMBER");
            member.join(peer);
            if group != &completing {
                member.sync_alone(peer);
            }
            members.push(member);
        }
        members[1].leave(peer);
        let mut waiting = Member::new(peer, &preparing, "WAITING");
        waiting.begin_to_wait(peer, 2);

        let all = [&simple, &stable, &emptied, &preparing, &completing, &missing].map(|group| group.clone());
        let note_all = |peer: &mut Peer, when: &str| {
            for version in 0..=6 {
                for include_authorized_operations in [false, true] {
                    if include_authorized_operations && version < 3 {
                        continue;
                    }
                    let request =
                        DescribeGroupsRequest { groups: all.to_vec(), include_authorized_operations };
                    let mut answer = peer.ask(&request, version);
                    answer.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
                    for group in &mut answer.groups {
                        group.members.sort_by_key(|member| member.member_assignment.is_empty());
                        group.error_message = group.error_message.as_ref().map(|_| String::new());
                    }
                    peer.note(format!("{when}: DescribeGroups {version}"), answer);
                }
            }
            for version in 0..=5 {
                let filters: [(&[&str], &[&str]); 8] = [
                    (&[], &[]),
                    (&["Stable"], &[]),
                    (&["stable", "EMPTY"], &[]),
                    (&["PreparingRebalance"], &[]),
                    (&["nonsense"], &[]),
                    (&[], &["classic"]),
                    (&[], &["Consumer"]),
                    (&["Stable"], &["CLASSIC", "consumer"]),
                ];
                for (states, types) in filters {
                    if (version < 4 && !states.is_empty()) || (version < 5 && !types.is_empty()) {
                        continue;
                    }
                    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
                    let request =
                        ListGroupsRequest { states_filter: owned(states), types_filter: owned(types) };
                    let mut answer = peer.ask(&request, version);
                    answer.groups.retain(|group| group.group_id.starts_with(topic));
                    answer.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
                    peer.note(format!("{when}: ListGroups {version} {states:?} {types:?}"), answer);
                }
            }
        };
        note_all(peer, "before");
        for version in 0..=3 {
            let mut groups_names = all.to_vec();
            groups_names.push(missing.clone());
            if version == 0 {
                groups_names.retain(|group| *group != simple && *group != emptied);
            }
            let mut answer = peer.ask(&DeleteGroupsRequest { groups_names }, version);
            answer.results.sort_by(|a, b| a.group_id.cmp(&b.group_id));
            peer.note(format!("DeleteGroups {version}"), answer);
        }
        note_all(peer, "after");
        let fetch = offset_fetch(&simple, None, 7, false);
        let answer = peer.ask(&fetch, 7);
        peer.note("offsets of a deleted group", answer);
    });
}

#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_offsets_go_with_their_topic() {
    compare(|peer, topic| {
        create(peer, topic, 1, &[]);
        begin(peer, topic);
        let request = OffsetCommitRequest {
            group_id: topic.into(),
            generation_id_or_member_epoch: -1,
            topics: vec![commit_topic(topic, &[(0, 1, "")])],
            ..Default::default()
        };
        let answer = peer.ask(&request, 9);
        peer.note("committed", answer);
        peer.ask(&delete(topic), 5);
        // A real cluster takes a moment.
        let fetch = offset_fetch(topic, None, 7, false);
        while !peer.ask(&fetch, 7).topics.is_empty() {
            std::thread::yield_now();
        }
        describe(peer, "the group without its topic", topic);
        create(peer, topic, 1, &[]);
    });
}

/// Members that do nothing in time are removed: those that do not join, those that do not sync.
#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_late_members_are_removed() {
    compare(|peer, group| {
        begin(peer, group);
        let mut members = ["LATE", "PROMPT", "STATIC"].map(|name| {
            let mut member = Member::new(peer, group, name);
            member.join.rebalance_timeout_ms = 1000;
            member
        });
        members[2].instance = Some("STATIC".into());
        let [late, prompt, keeper] = &mut members;
        late.join(peer);
        late.sync_alone(peer);
        prompt.join(peer);
        peer.note("late was removed", prompt.id.is_empty());
        late.heartbeat(peer, "after the rebalance");
        // Who does not sync is removed, too, and the group rebalances.
        late.id.clear();
        prompt.sync_alone(peer);
        late.begin_to_wait(peer, 2);
        prompt.join(peer);
        late.end_join(peer);
        prompt.sync_alone(peer);
        describe(peer, "before late is missed", group);
        while heartbeat_code(peer, prompt) == 0 {
            std::thread::yield_now();
        }
        prompt.join(peer);
        late.heartbeat(peer, "after it has not synced");
        prompt.sync_alone(peer);
        // Static members stay without joining.
        keeper.begin_to_wait(peer, 2);
        prompt.join(peer);
        keeper.end_join(peer);
        prompt.begin_sync();
        prompt.end_sync(peer);
        keeper.begin_sync();
        keeper.end_sync(peer);
        prompt.begin_join(peer);
        prompt.end_join(peer);
        keeper.heartbeat(peer, "after it has not joined");
        describe(peer, "with a static member that has not joined", group);
    });
}

fn heartbeat_code(peer: &mut Peer, member: &Member) -> i16 {
    let request = HeartbeatRequest {
        group_id: member.group.clone(),
        generation_id: member.generation,
        member_id: member.id.clone(),
        group_instance_id: None,
    };
    peer.ask(&request, 4).error_code
}

/// Takes as long as the shortest session that a broker allows, 6 s.
#[test]
#[ignore = "needs a real Kafka from 4.4 on, whose answers this broker has: cargo xtask test"]
fn kafka_sessions_end() {
    compare(|peer, group| {
        begin(peer, group);
        let mut silent = Member::new(peer, group, "SILENT");
        let mut pending = Member::new(peer, group, "PENDING");
        let mut other = Member::new(peer, group, "OTHER");
        silent.join.session_timeout_ms = 6000;
        pending.join.session_timeout_ms = 6000;
        silent.join(peer);
        silent.sync_alone(peer);
        pending.fetch_id(peer);
        other.join.session_timeout_ms = 60_000;
        other.join.rebalance_timeout_ms = 60_000;
        other.begin_to_wait(peer, 2);
        let waits = other.lane.is_silent();
        peer.note("the other waits", waits);
        // For the silent one and for the pending one, whichever is last.
        other.end_join(peer);
        other.sync_alone(peer);
        silent.heartbeat(peer, "after its session");
        pending.join(peer);
        describe(peer, "after two sessions", group);
    });
}
