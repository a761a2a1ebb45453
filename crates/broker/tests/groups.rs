//! The group coordinator, under a hand-wound clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use bytes::Bytes;
use common::{World, millis};
use ottla_broker::wire::message::join_group_request::JoinGroupRequestProtocol;
use ottla_broker::wire::message::leave_group_request::MemberIdentity;
use ottla_broker::wire::message::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_broker::wire::message::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_broker::wire::message::offset_fetch_response::OffsetFetchResponseGroup;
use ottla_broker::wire::message::sync_group_request::SyncGroupRequestAssignment;
use ottla_broker::wire::message::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest, SyncGroupResponse,
};
use ottla_broker::{
    ApiKey, Cluster, ClusterOptions, Code, ConnectionId, Fault, GroupState, GroupView, Leaders,
};
use std::collections::BTreeSet;
use std::time::Duration;

const OK: Code = Code::NONE;

fn world() -> World {
    world_with(ClusterOptions::new())
}

fn world_with(options: ClusterOptions) -> World {
    let mut cluster = Cluster::new(options.remember_commits(100));
    cluster.create_topic("t", 4).unwrap();
    World::new(cluster)
}

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A client that is or becomes a member, with a connection for joins and one for the rest.
#[derive(Debug, Clone)]
struct Member {
    lane: ConnectionId,
    other: ConnectionId,
    id: String,
    instance: Option<String>,
    generation: i32,
    session: Duration,
    rebalance: Duration,
    protocols: Vec<(&'static str, &'static str)>,
}

const JOIN: i16 = 9;
const SYNC: i16 = 5;

impl Member {
    fn new(world: &mut World) -> Self {
        Self::on(world, 1)
    }

    fn on(world: &mut World, node: i32) -> Self {
        Self {
            lane: world.connect(node),
            other: world.connect(node),
            id: String::new(),
            instance: None,
            generation: -1,
            session: secs(10),
            rebalance: secs(60),
            protocols: vec![("range", "all")],
        }
    }

    fn new_static(world: &mut World, instance: &str) -> Self {
        Self { instance: Some(instance.into()), ..Self::new(world) }
    }

    fn join_request(&self) -> JoinGroupRequest {
        let protocol = |(name, metadata): &(&str, &'static str)| JoinGroupRequestProtocol {
            name: (*name).into(),
            metadata: Bytes::from_static(metadata.as_bytes()),
        };
        JoinGroupRequest {
            group_id: "g".into(),
            session_timeout_ms: self.session.as_millis() as i32,
            rebalance_timeout_ms: self.rebalance.as_millis() as i32,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: "consumer".into(),
            protocols: self.protocols.iter().map(protocol).collect(),
            ..Default::default()
        }
    }

    /// Sends a join, having fetched an id before if it has none; the answer is still to come.
    #[track_caller]
    fn join(&mut self, world: &mut World) {
        if self.id.is_empty() && self.instance.is_none() {
            let handshake = world.ask(self.lane, &self.join_request(), JOIN);
            assert_eq!(Code(handshake.error_code), Code::MEMBER_ID_REQUIRED);
            self.id = handshake.member_id;
        }
        world.send(self.lane, &self.join_request(), JOIN);
    }

    fn take_join(&mut self, world: &mut World) -> Option<JoinGroupResponse> {
        let joined = world.take::<JoinGroupRequest>(self.lane, JOIN)?;
        if joined.error_code == 0 {
            self.id.clone_from(&joined.member_id);
            self.generation = joined.generation_id;
        }
        Some(joined)
    }

    #[track_caller]
    fn joined(&mut self, world: &mut World) -> JoinGroupResponse {
        let joined = self.take_join(world).expect("the join is answered");
        assert_eq!(Code(joined.error_code), OK);
        joined
    }

    fn sync(&self, world: &mut World, assignments: &[(&Member, &'static str)]) {
        let assignment = |(member, bytes): &(&Member, &'static str)| SyncGroupRequestAssignment {
            member_id: member.id.clone(),
            assignment: Bytes::from_static(bytes.as_bytes()),
        };
        let request = SyncGroupRequest {
            group_id: "g".into(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: Some("consumer".into()),
            protocol_name: Some(self.protocols[0].0.into()),
            assignments: assignments.iter().map(assignment).collect(),
        };
        world.send(self.lane, &request, SYNC);
    }

    fn take_sync(&self, world: &mut World) -> Option<SyncGroupResponse> {
        world.take::<SyncGroupRequest>(self.lane, SYNC)
    }

    #[track_caller]
    fn synced(&self, world: &mut World) -> Bytes {
        let synced = self.take_sync(world).expect("the sync is answered");
        assert_eq!(Code(synced.error_code), OK);
        synced.assignment
    }

    fn heartbeat(&self, world: &mut World) -> Code {
        let request = HeartbeatRequest {
            group_id: "g".into(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
        };
        Code(world.ask(self.other, &request, 4).error_code)
    }

    fn leave(&self, world: &mut World) -> Code {
        let member = MemberIdentity { member_id: self.id.clone(), ..Default::default() };
        let request = LeaveGroupRequest { group_id: "g".into(), members: vec![member], ..Default::default() };
        let left = world.ask(self.other, &request, 5);
        Code(left.members.first().map_or(left.error_code, |member| member.error_code))
    }

    fn commit(&self, world: &mut World, offset: i64) -> Code {
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            ..commit_request("g", &[("t", 0, offset)])
        };
        committed(world, self.other, &request)[0]
    }
}

fn commit_request(group: &str, offsets: &[(&str, i32, i64)]) -> OffsetCommitRequest {
    let topic = |(topic, partition_index, committed_offset): &(&str, i32, i64)| OffsetCommitRequestTopic {
        name: (*topic).into(),
        partitions: vec![OffsetCommitRequestPartition {
            partition_index: *partition_index,
            committed_offset: *committed_offset,
            committed_leader_epoch: 3,
            committed_metadata: Some("note".into()),
        }],
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: offsets.iter().map(topic).collect(),
        ..Default::default()
    }
}

/// The codes, in the order answered.
fn committed(world: &mut World, connection: ConnectionId, request: &OffsetCommitRequest) -> Vec<Code> {
    let answer = world.ask(connection, request, 9);
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| Code(partition.error_code)).collect()
}

#[track_caller]
fn group(world: &World) -> GroupView {
    world.cluster.group("g").expect("the group is there")
}

#[track_caller]
fn assert_state(world: &World, state: GroupState, generation: i32) {
    let group = group(world);
    assert_eq!((group.state, group.generation), (state, generation), "{group:#?}");
}

/// Brings the members into a stable group, one after the other.
#[track_caller]
fn stabilize(world: &mut World, members: &mut [&mut Member]) {
    for count in 1..=members.len() {
        let (last, before) = members[..count].split_last_mut().expect("there is one");
        last.join(world);
        before.iter_mut().for_each(|member| member.join(world));
        for member in &mut members[..count] {
            member.joined(world);
        }
    }
    let members: Vec<&Member> = members.iter().map(|member| &**member).collect();
    sync_all(world, &members);
}

/// Lets all members sync; the leader assigns each its place.
#[track_caller]
fn sync_all(world: &mut World, members: &[&Member]) {
    assert_eq!(group(world).state, GroupState::CompletingRebalance);
    let leader = group(world).leader;
    let names = ["first", "second", "third", "fourth"];
    let assignments: Vec<_> = members.iter().copied().zip(names).collect();
    for member in members {
        let is_leader = leader.as_ref() == Some(&member.id);
        member.sync(world, if is_leader { &assignments } else { &[] });
    }
    for (member, name) in &assignments {
        assert_eq!(member.synced(world), name.as_bytes());
    }
    assert_eq!(group(world).state, GroupState::Stable);
}

#[test]
fn a_member_joins_with_a_handshake_and_leads() {
    let mut world = world();
    let mut member = Member::new(&mut world);
    member.join(&mut world);
    assert!(member.id.starts_with("test-"), "{}", member.id);
    assert_eq!(member.id.len(), "test-".len() + 36);
    let joined = member.joined(&mut world);
    assert_eq!((joined.generation_id, &joined.leader, &joined.member_id), (1, &member.id, &member.id));
    assert_eq!(joined.protocol_name.as_deref(), Some("range"));
    assert_eq!(joined.members.len(), 1);
    assert_eq!(joined.members[0].metadata, &b"all"[..]);
    assert_state(&world, GroupState::CompletingRebalance, 1);
    member.sync(&mut world, &[(&member, "everything")]);
    assert_eq!(member.synced(&mut world), &b"everything"[..]);
    assert_state(&world, GroupState::Stable, 1);
    assert_eq!(group(&world).members[0].assignment, &b"everything"[..]);
    assert_eq!(member.heartbeat(&mut world), OK);
}

#[test]
fn a_second_member_makes_the_first_rejoin() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    stabilize(&mut world, &mut [&mut one]);
    two.join(&mut world);
    assert!(two.take_join(&mut world).is_none(), "it waits for the first");
    assert_state(&world, GroupState::PreparingRebalance, 1);
    assert_eq!(one.heartbeat(&mut world), Code::REBALANCE_IN_PROGRESS);
    assert_eq!(one.commit(&mut world, 5), OK, "the old generation may still commit");
    one.join(&mut world);
    assert_eq!(one.joined(&mut world).members.len(), 2, "the leader stays");
    assert_eq!(two.joined(&mut world).members.len(), 0);
    assert_state(&world, GroupState::CompletingRebalance, 2);
    assert_eq!(one.commit(&mut world, 6), Code::REBALANCE_IN_PROGRESS);
    assert_eq!(one.heartbeat(&mut world), OK);
    two.sync(&mut world, &[]);
    assert!(two.take_sync(&mut world).is_none(), "it waits for the leader");
    one.sync(&mut world, &[(&one, "a"), (&two, "b")]);
    assert_eq!((one.synced(&mut world), two.synced(&mut world)), (Bytes::from("a"), Bytes::from("b")));
    assert_eq!(one.commit(&mut world, 7), OK);
    assert_eq!(world.cluster.committed("g", "t", 0), Some(7));
}

#[test]
fn a_group_waits_for_an_id_that_it_has_given_out() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    stabilize(&mut world, &mut [&mut one]);
    let third = Member { session: secs(7), ..Member::new(&mut world) };
    let handshake = world.ask(third.lane, &third.join_request(), JOIN);
    assert_eq!(group(&world).pending, [handshake.member_id]);
    assert_eq!(one.heartbeat(&mut world), OK, "an id alone rebalances nothing");
    two.join(&mut world);
    one.join(&mut world);
    world.wait(millis(6_999));
    assert!(two.take_join(&mut world).is_none(), "all are there but the one with the new id");
    world.wait(millis(1));
    two.joined(&mut world);
    one.joined(&mut world);
    assert_eq!(group(&world).pending, [""; 0]);
}

#[test]
fn a_silent_member_is_removed_when_its_session_ends() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    two.session = secs(30);
    stabilize(&mut world, &mut [&mut one, &mut two]);
    world.wait(secs(6));
    assert_eq!(one.heartbeat(&mut world), OK);
    world.wait(secs(6));
    assert_eq!(one.commit(&mut world, 1), OK, "as good as a heartbeat");
    assert_eq!(world.cluster.poll_deadline(), Some(world.now + secs(10)));
    world.wait(millis(9_999));
    assert_state(&world, GroupState::Stable, one.generation);
    world.wait(millis(1));
    assert_state(&world, GroupState::PreparingRebalance, one.generation);
    assert_eq!(one.heartbeat(&mut world), Code::UNKNOWN_MEMBER_ID);
    assert_eq!(two.heartbeat(&mut world), Code::REBALANCE_IN_PROGRESS);
    two.join(&mut world);
    assert_eq!(two.joined(&mut world).leader, two.id);
}

#[test]
fn a_group_without_a_sound_ends_empty_and_keeps_its_offsets() {
    let mut world = world();
    let mut member = Member::new(&mut world);
    stabilize(&mut world, &mut [&mut member]);
    assert_eq!(member.commit(&mut world, 3), OK);
    world.wait(secs(3600));
    assert_state(&world, GroupState::Empty, 2);
    assert_eq!(world.cluster.poll_deadline(), None);
    assert_eq!(world.cluster.committed("g", "t", 0), Some(3));
    assert_eq!(member.commit(&mut world, 4), Code::UNKNOWN_MEMBER_ID);
}

#[test]
fn who_does_not_rejoin_in_time_is_removed() {
    let mut world = world();
    let (mut late, mut prompt) = (Member::new(&mut world), Member::new(&mut world));
    (late.session, late.rebalance) = (secs(60), secs(20));
    prompt.rebalance = secs(5);
    stabilize(&mut world, &mut [&mut late]);
    prompt.join(&mut world);
    world.wait(millis(19_999));
    assert!(prompt.take_join(&mut world).is_none(), "the longest time-out counts");
    world.wait(millis(1));
    let joined = prompt.joined(&mut world);
    assert_eq!((joined.generation_id, &joined.leader), (2, &prompt.id));
    assert_eq!(late.heartbeat(&mut world), Code::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_static_member_stays_without_rejoining_until_its_session_ends() {
    let mut world = world();
    let mut keeper = Member::new_static(&mut world, "keeper");
    let mut prompt = Member::new(&mut world);
    (keeper.session, keeper.rebalance, prompt.rebalance) = (secs(60), secs(10), secs(10));
    stabilize(&mut world, &mut [&mut keeper]);
    prompt.join(&mut world);
    world.wait(secs(10));
    let joined = prompt.joined(&mut world);
    assert_eq!((joined.generation_id, joined.members.len()), (2, 2));
    assert_eq!(joined.leader, prompt.id, "whoever has joined leads");
    keeper.generation = 2;
    assert_eq!(keeper.heartbeat(&mut world), OK);
}

#[test]
fn static_members_that_all_stay_away_hold_the_group_until_their_sessions_end() {
    let mut world = world();
    let mut members = [Member::new_static(&mut world, "a"), Member::new_static(&mut world, "b")];
    let [a, b] = &mut members;
    (a.rebalance, b.rebalance) = (Duration::ZERO, Duration::ZERO);
    stabilize(&mut world, &mut [a, b]);
    let mut leaving = Member::new(&mut world);
    leaving.join(&mut world);
    leaving.leave(&mut world);
    world.wait(secs(9));
    assert_eq!(group(&world).members.len(), 2);
    world.wait(secs(2));
    assert_eq!(group(&world).state, GroupState::Empty);
}

#[test]
fn who_does_not_sync_in_time_is_removed() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    for member in [&mut one, &mut two] {
        (member.session, member.rebalance) = (secs(60), secs(10));
    }
    stabilize(&mut world, &mut [&mut one]);
    two.join(&mut world);
    one.join(&mut world);
    one.joined(&mut world);
    two.joined(&mut world);
    one.sync(&mut world, &[(&one, "a"), (&two, "b")]);
    one.synced(&mut world);
    assert_state(&world, GroupState::Stable, 2);
    world.wait(millis(9_999));
    assert_eq!(two.heartbeat(&mut world), OK, "it lives, but has not asked for its assignment");
    world.wait(millis(1));
    assert_eq!(two.heartbeat(&mut world), Code::UNKNOWN_MEMBER_ID);
    assert_state(&world, GroupState::PreparingRebalance, 2);
}

#[test]
fn an_empty_group_waits_for_more_and_longer_while_they_come() {
    let mut world = world_with(ClusterOptions::new().initial_rebalance_delay(secs(3)));
    let mut members: Vec<Member> = (0..3).map(|_| Member::new(&mut world)).collect();
    members.iter_mut().for_each(|member| member.rebalance = secs(7));
    // At 0 s, 2 s and 5 s: the wait is prolonged at 3 s and at 6 s, and ends after 7 s in all.
    for (nth, pause) in [2, 3, 1].into_iter().enumerate() {
        members[nth].join(&mut world);
        world.wait(secs(pause));
        assert!(members[0].take_join(&mut world).is_none());
    }
    world.wait(millis(999));
    assert!(members[0].take_join(&mut world).is_none());
    world.wait(millis(1));
    assert_eq!(members.iter_mut().map(|member| member.joined(&mut world).members.len()).sum::<usize>(), 3);
    assert_state(&world, GroupState::CompletingRebalance, 1);

    let mut world = world_with(ClusterOptions::new().initial_rebalance_delay(secs(3)));
    let mut only = Member::new(&mut world);
    only.join(&mut world);
    world.wait(millis(2_999));
    assert!(only.take_join(&mut world).is_none());
    world.wait(millis(1));
    only.joined(&mut world);
}

#[test]
fn a_group_has_its_limits() {
    let options = ClusterOptions::new().max_group_size(2).session_timeouts(millis(100), secs(20));
    let mut world = world_with(options);
    let mut members: Vec<Member> = (0..3).map(|_| Member::new(&mut world)).collect();
    for (session, code) in [(99, Code::INVALID_SESSION_TIMEOUT), (20_001, Code::INVALID_SESSION_TIMEOUT)] {
        members[0].session = millis(session);
        let (lane, request) = (members[0].lane, members[0].join_request());
        assert_eq!(Code(world.ask(lane, &request, JOIN).error_code), code, "{session}");
    }
    members[0].session = millis(100);
    let [one, two, three] = &mut members[..] else { unreachable!() };
    stabilize(&mut world, &mut [one, two]);
    let refused = world.ask(three.lane, &three.join_request(), JOIN);
    assert_eq!(Code(refused.error_code), Code::GROUP_MAX_SIZE_REACHED);
    assert_eq!(refused.member_id, "");
    world.wait(millis(100));
    assert_eq!(group(&world).members.len(), 1, "the one with the short session has gone");
    // While members join, those count who have: the last to come back finds no room.
    three.join(&mut world);
    let mut four = Member::new(&mut world);
    four.join(&mut world);
    two.join(&mut world);
    let refused = two.take_join(&mut world).expect("an answer");
    assert_eq!(Code(refused.error_code), Code::GROUP_MAX_SIZE_REACHED);
}

#[test]
fn a_member_that_waits_holds_up_its_connection_only() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    stabilize(&mut world, &mut [&mut one]);
    two.join(&mut world);
    world.send(two.lane, &FindCoordinatorRequest { key: "g".into(), ..Default::default() }, 3);
    assert_eq!(world.cluster.waiting(two.lane), 2);
    assert_eq!(two.heartbeat(&mut world), Code::ILLEGAL_GENERATION, "by its other connection");
    one.join(&mut world);
    two.joined(&mut world);
    assert!(world.take::<FindCoordinatorRequest>(two.lane, 3).is_some());
}

#[test]
fn a_member_whose_connection_goes_while_it_waits_stays() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    one.session = secs(1000);
    stabilize(&mut world, &mut [&mut one]);
    two.join(&mut world);
    world.cluster.disconnect(two.lane);
    one.join(&mut world);
    assert_eq!(one.joined(&mut world).members.len(), 2);
    one.sync(&mut world, &[(&one, "a"), (&two, "b")]);
    one.synced(&mut world);
    // It may come back within its session, and gets what is its.
    two.lane = world.connect(1);
    two.join(&mut world);
    two.joined(&mut world);
    two.sync(&mut world, &[]);
    assert_eq!(two.synced(&mut world), &b"b"[..]);
    // A new one that has given up is forgotten after five minutes, if the rebalance takes so long.
    let mut three = Member { rebalance: secs(1000), ..Member::new(&mut world) };
    three.join(&mut world);
    world.wait(secs(299));
    assert!(group(&world).members.iter().any(|member| member.id == three.id));
    world.wait(secs(1));
    assert!(group(&world).members.iter().all(|member| member.id != three.id));
    let gone = three.take_join(&mut world).expect("an answer");
    assert_eq!(Code(gone.error_code), Code::UNKNOWN_MEMBER_ID);
}

// Coordinators

fn three_nodes() -> World {
    world_with(ClusterOptions::new().nodes(3))
}

fn find(world: &mut World, keys: &[&str]) -> Vec<(Code, i32)> {
    let node = (1..=3).find(|node| world.cluster.is_running(*node)).expect("a node runs");
    let connection = world.connect(node);
    let coordinator_keys = keys.iter().map(|key| (*key).into()).collect();
    let request = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    let found = world.ask(connection, &request, 6).coordinators;
    found.iter().map(|found| (Code(found.error_code), found.node_id)).collect()
}

#[test]
fn groups_are_spread_over_the_nodes_and_can_be_moved() {
    let mut world = three_nodes();
    let names: Vec<String> = (0..30).map(|nth| format!("group-{nth}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = find(&mut world, &keys);
    for node in 1..=3 {
        assert!(found.contains(&(OK, node)), "{found:?}");
    }
    for (name, (_, node)) in names.iter().zip(&found) {
        assert_eq!(world.cluster.coordinator(name), Some(*node));
    }
    world.cluster.set_coordinator("group-0", 2).unwrap();
    world.cluster.set_coordinator("group-1", 3).unwrap();
    assert_eq!(find(&mut world, &["group-0", "group-1"]), [(OK, 2), (OK, 3)]);
    assert_eq!(find(&mut world, &keys[2..]), found[2..]);
    assert_eq!(world.cluster.set_coordinator("group-0", 7).unwrap_err().code, Code::BROKER_NOT_AVAILABLE);
}

#[test]
fn a_coordinator_that_moves_takes_members_and_offsets_with_it() {
    let mut world = three_nodes();
    world.cluster.set_coordinator("g", 1).unwrap();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    stabilize(&mut world, &mut [&mut one, &mut two]);
    assert_eq!(one.commit(&mut world, 5), OK);
    let before = group(&world);
    world.wait(secs(8));
    world.cluster.set_coordinator("g", 2).unwrap();
    assert_eq!(group(&world), before);
    assert_eq!(one.heartbeat(&mut world), Code::NOT_COORDINATOR);
    assert_eq!(one.commit(&mut world, 6), Code::NOT_COORDINATOR);
    (one.other, two.other) = (world.connect(2), world.connect(2));
    world.wait(secs(9));
    assert_eq!(one.heartbeat(&mut world), OK, "sessions have begun anew");
    assert_eq!(one.commit(&mut world, 7), OK);
    assert_eq!(world.cluster.committed("g", "t", 0), Some(7));
}

#[test]
fn those_who_wait_at_a_coordinator_that_moves_are_told() {
    let mut world = three_nodes();
    world.cluster.set_coordinator("g", 1).unwrap();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    stabilize(&mut world, &mut [&mut one]);
    two.join(&mut world);
    world.cluster.set_coordinator("g", 3).unwrap();
    let told = two.take_join(&mut world).expect("an answer at once");
    assert_eq!((Code(told.error_code), &told.member_id), (Code::NOT_COORDINATOR, &two.id));
    assert_state(&world, GroupState::Stable, 1);
    assert_eq!(group(&world).members.len(), 1, "who was to join was not in the log");

    (one.lane, two.lane) = (world.connect(3), world.connect(3));
    (one.other, two.other) = (world.connect(3), world.connect(3));
    two.id.clear();
    two.join(&mut world);
    one.join(&mut world);
    one.joined(&mut world);
    two.joined(&mut world);
    two.sync(&mut world, &[]);
    world.cluster.set_coordinator("g", 1).unwrap();
    let told = two.take_sync(&mut world).expect("an answer at once");
    assert_eq!(Code(told.error_code), Code::NOT_COORDINATOR);
    // The leader had not synced: the generation never was.
    assert_state(&world, GroupState::Stable, 1);
    (one.other, two.other) = (world.connect(1), world.connect(1));
    assert_eq!(one.heartbeat(&mut world), Code::ILLEGAL_GENERATION);
    assert_eq!(two.heartbeat(&mut world), Code::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_coordinator_that_loads_says_so() {
    let mut world = world();
    let mut member = Member::new(&mut world);
    stabilize(&mut world, &mut [&mut member]);
    assert_eq!(member.commit(&mut world, 5), OK);
    world.cluster.load_coordinator("g");
    let loading = Code::COORDINATOR_LOAD_IN_PROGRESS;
    assert_eq!(find(&mut world, &["g"]), [(OK, 1)]);
    assert_eq!(member.heartbeat(&mut world), OK, "nothing is known of it yet");
    assert_eq!(member.commit(&mut world, 6), loading);
    assert_eq!(member.leave(&mut world), loading);
    let join = world.ask(member.lane, &member.join_request(), JOIN);
    assert_eq!(Code(join.error_code), loading);
    member.sync(&mut world, &[]);
    assert_eq!(Code(member.take_sync(&mut world).unwrap().error_code), loading);
    assert_eq!(fetched(&mut world, "g", false).0, loading);
    let connection = world.connect(1);
    assert_eq!(Code(world.ask(connection, &ListGroupsRequest::default(), 5).error_code), loading);
    world.wait(secs(100));
    world.cluster.finish_loading("g");
    world.wait(secs(9));
    assert_eq!(member.heartbeat(&mut world), OK, "its session has begun anew");
    assert_eq!(member.commit(&mut world, 7), OK);
}

#[test]
fn a_coordinator_that_stops_is_replaced_or_not() {
    let mut world = three_nodes();
    world.cluster.set_coordinator("g", 2).unwrap();
    let mut member = Member::on(&mut world, 2);
    stabilize(&mut world, &mut [&mut member]);
    member.join(&mut world);
    member.joined(&mut world);
    member.sync(&mut world, &[(&member, "mine")]);
    world.cluster.stop_node(2, Leaders::Lose).unwrap();
    assert!(world.is_closed(member.lane));
    assert_eq!(find(&mut world, &["g"]), [(Code::COORDINATOR_NOT_AVAILABLE, -1)]);
    assert_eq!(world.cluster.coordinator("g"), None);
    member.other = world.connect(1);
    assert_eq!(member.heartbeat(&mut world), Code::NOT_COORDINATOR);
    world.wait(secs(1000));
    assert_state(&world, GroupState::Stable, 2);
    world.cluster.start_node(2).unwrap();
    assert_eq!(find(&mut world, &["g"]), [(OK, 2)]);
    member.other = world.connect(2);
    assert_eq!(member.heartbeat(&mut world), OK);

    world.cluster.stop_node(2, Leaders::Move).unwrap();
    let [(OK, node)] = find(&mut world, &["g"])[..] else { panic!("somebody takes over") };
    member.other = world.connect(node);
    assert_eq!(member.heartbeat(&mut world), OK);
    world.cluster.start_node(2).unwrap();
    assert_eq!(world.cluster.coordinator("g"), Some(node), "what was taken over stays");
    let elsewhere = (1..=3).find(|other| Some(*other) != world.cluster.coordinator("moved")).unwrap();
    world.cluster.set_coordinator("moved", elsewhere).unwrap();
    world.cluster.stop_node(elsewhere, Leaders::Move).unwrap();
    assert!(world.cluster.coordinator("moved").is_some());
    // A group that nobody has heard of yet is placed at a node that runs, too.
    for stopped in 1..=3 {
        let mut world = three_nodes();
        world.cluster.stop_node(stopped, Leaders::Move).unwrap();
        for nth in 0..10 {
            let node = world.cluster.coordinator(&format!("group-{nth}"));
            assert!(node.is_some_and(|node| node != stopped), "{node:?}");
        }
    }
}

/// The log holds of each member only the metadata for the protocol that was chosen: who offers more has changed.
#[test]
fn a_member_that_offers_several_protocols_rebalances_a_moved_group() {
    let mut world = three_nodes();
    world.cluster.set_coordinator("g", 1).unwrap();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    two.protocols.push(("sticky", "more"));
    stabilize(&mut world, &mut [&mut one, &mut two]);
    two.join(&mut world);
    assert_eq!(two.joined(&mut world).generation_id, 2, "nothing has changed yet");
    world.cluster.set_coordinator("g", 2).unwrap();
    assert_eq!(group(&world).members[1].protocols, ["range"]);
    two.lane = world.connect(2);
    two.join(&mut world);
    assert!(two.take_join(&mut world).is_none());
    assert_state(&world, GroupState::PreparingRebalance, 2);
}

#[test]
fn a_group_that_all_have_left_stays_empty_when_it_moves() {
    let mut world = three_nodes();
    world.cluster.set_coordinator("g", 1).unwrap();
    let mut member = Member::new(&mut world);
    stabilize(&mut world, &mut [&mut member]);
    assert_eq!(member.leave(&mut world), OK);
    assert_state(&world, GroupState::Empty, 2);
    world.cluster.set_coordinator("g", 2).unwrap();
    assert_state(&world, GroupState::Empty, 2);
    assert_eq!(group(&world).members, []);
}

#[test]
fn a_static_member_that_was_replaced_stays_so_when_the_group_moves() {
    let mut world = three_nodes();
    world.cluster.set_coordinator("g", 1).unwrap();
    let mut before = Member::new_static(&mut world, "keeper");
    stabilize(&mut world, &mut [&mut before]);
    let mut again = Member::new_static(&mut world, "keeper");
    again.join(&mut world);
    let joined = again.joined(&mut world);
    assert_eq!((joined.generation_id, joined.skip_assignment), (1, true));
    world.cluster.set_coordinator("g", 2).unwrap();
    (again.other, before.other) = (world.connect(2), world.connect(2));
    assert_eq!(again.heartbeat(&mut world), OK);
    assert_eq!(before.heartbeat(&mut world), Code::FENCED_INSTANCE_ID);
}

// Offsets

/// The group's code, and offset and code of partition 0.
fn fetched(world: &mut World, name: &str, require_stable: bool) -> (Code, i64, Code) {
    fetched_all(world, &[name], require_stable)[0]
}

fn fetched_all(world: &mut World, names: &[&str], require_stable: bool) -> Vec<(Code, i64, Code)> {
    let connection = world.connect(1);
    let topic =
        OffsetFetchRequestTopics { name: "t".into(), partition_indexes: vec![0], ..Default::default() };
    let group = |name: &&str| OffsetFetchRequestGroup {
        group_id: (*name).into(),
        topics: Some(vec![topic.clone()]),
        ..Default::default()
    };
    let groups = names.iter().map(group).collect();
    let request = OffsetFetchRequest { groups, require_stable, ..Default::default() };
    let shown = |group: &OffsetFetchResponseGroup| {
        let only = group.topics.first().and_then(|topic| topic.partitions.first());
        let (offset, code) = only.map_or((-2, OK), |only| (only.committed_offset, Code(only.error_code)));
        (Code(group.error_code), offset, code)
    };
    world.ask(connection, &request, 9).groups.iter().map(shown).collect()
}

#[test]
fn offsets_can_be_put_and_looked_at() {
    let mut world = world();
    assert_eq!((world.cluster.groups(), world.cluster.group("g")), (vec![], None));
    world.cluster.commit_offset("g", "t", 0, 7);
    assert_eq!(world.cluster.groups(), ["g"]);
    assert_eq!(fetched(&mut world, "g", true), (OK, 7, OK));
    let connection = world.connect(1);
    let request = commit_request("g", &[("t", 0, 9), ("missing", 0, 1), ("t", 1, 4)]);
    let unknown = Code::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(committed(&mut world, connection, &request), [unknown, OK, OK]);
    let offsets = [0, 1, 2].map(|partition| world.cluster.committed("g", "t", partition));
    assert_eq!(offsets, [Some(9), Some(4), None]);
    let commits = world.cluster.commits("g");
    let shown =
        commits.iter().map(|commit| (&*commit.topic, commit.partition, commit.offset, commit.refused));
    let expected = [("t", 0, 9, OK), ("missing", 0, 1, unknown), ("t", 1, 4, OK)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!((commits[0].leader_epoch, &*commits[0].metadata, commits[0].at), (3, "note", world.now));
    world.cluster.delete_topic("t").unwrap();
    assert_eq!(world.cluster.committed("g", "t", 0), None);
}

#[test]
fn the_last_commits_are_remembered() {
    let mut world = world();
    let connection = world.connect(1);
    for offset in 0..250 {
        committed(&mut world, connection, &commit_request("g", &[("t", 0, offset)]));
    }
    let offsets: Vec<i64> = world.cluster.commits("g").iter().map(|commit| commit.offset).collect();
    assert_eq!(offsets, (150..250).collect::<Vec<_>>());
    assert_eq!(world.cluster.commits("other"), []);
}

#[test]
fn offsets_can_be_unstable() {
    let mut world = world();
    world.cluster.commit_offset("g", "t", 0, 7);
    world.cluster.set_unstable("g", "t", 0, true);
    assert_eq!(fetched(&mut world, "g", true), (OK, -1, Code::UNSTABLE_OFFSET_COMMIT));
    assert_eq!(fetched(&mut world, "g", false), (OK, 7, OK));
    world.cluster.set_unstable("g", "t", 0, false);
    assert_eq!(fetched(&mut world, "g", true), (OK, 7, OK));
}

// Faults

const FAIL: Code = Code::GROUP_AUTHORIZATION_FAILED;

#[test]
fn every_request_of_a_group_can_be_refused() {
    let mut world = world();
    let mut member = Member::new(&mut world);
    stabilize(&mut world, &mut [&mut member]);
    let connection = world.connect(1);
    let refuse = |world: &mut World, api| {
        let fault = world.cluster.fault(Fault::error(api, FAIL).group("g"));
        move |world: &World| assert_eq!(world.cluster.fault_hits(fault), 1, "{api:?}")
    };
    let hit = refuse(&mut world, ApiKey::JoinGroup);
    let joined = world.ask(member.lane, &member.join_request(), JOIN);
    assert_eq!((Code(joined.error_code), &joined.member_id), (FAIL, &member.id));
    hit(&world);
    let hit = refuse(&mut world, ApiKey::SyncGroup);
    member.sync(&mut world, &[]);
    assert_eq!(Code(member.take_sync(&mut world).unwrap().error_code), FAIL);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::Heartbeat);
    assert_eq!(member.heartbeat(&mut world), FAIL);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::OffsetCommit);
    assert_eq!(member.commit(&mut world, 5), FAIL);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::OffsetFetch);
    assert_eq!(fetched(&mut world, "other", false), (OK, -1, OK), "is for another group");
    assert_eq!(fetched(&mut world, "g", false).0, FAIL);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::FindCoordinator);
    assert_eq!(find(&mut world, &["other", "g"]), [(OK, 1), (FAIL, -1)]);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::DescribeGroups);
    let request = DescribeGroupsRequest { groups: vec!["other".into(), "g".into()], ..Default::default() };
    let described = world.ask(connection, &request, 5).groups;
    assert_eq!(described.iter().map(|group| Code(group.error_code)).collect::<Vec<_>>(), [OK, FAIL]);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::DeleteGroups);
    let request = DeleteGroupsRequest { groups_names: vec!["g".into()] };
    assert_eq!(Code(world.ask(connection, &request, 2).results[0].error_code), FAIL);
    hit(&world);
    let hit = refuse(&mut world, ApiKey::LeaveGroup);
    assert_eq!(member.leave(&mut world), FAIL);
    hit(&world);
    world.cluster.fault(Fault::error(ApiKey::ListGroups, FAIL));
    assert_eq!(Code(world.ask(connection, &ListGroupsRequest::default(), 5).error_code), FAIL);
    world.cluster.fault(Fault::partition_error(ApiKey::LeaveGroup, Code::UNKNOWN_MEMBER_ID));
    assert_eq!(member.leave(&mut world), Code::UNKNOWN_MEMBER_ID);
    assert_eq!(member.heartbeat(&mut world), OK, "after all that it is still there");
    assert_eq!(world.cluster.committed("g", "t", 0), None);
}

#[test]
fn offsets_can_be_refused_by_the_partition() {
    let mut world = world();
    let connection = world.connect(1);
    let fail = Code::OFFSET_METADATA_TOO_LARGE;
    world.cluster.fault(Fault::partition_error(ApiKey::OffsetCommit, fail).topic("t").partition(1));
    let request = commit_request("g", &[("t", 0, 5), ("t", 1, 6)]);
    assert_eq!(committed(&mut world, connection, &request), [fail, OK]);
    assert_eq!(world.cluster.committed("g", "t", 0), Some(5));
    assert_eq!(world.cluster.committed("g", "t", 1), None);
    assert_eq!(world.cluster.commits("g")[1].refused, fail);
    world.cluster.fault(Fault::partition_error(ApiKey::OffsetFetch, Code::UNSTABLE_OFFSET_COMMIT));
    assert_eq!(fetched(&mut world, "g", false), (OK, -1, Code::UNSTABLE_OFFSET_COMMIT));
    // Several groups in one request: those that the fault is not for are served.
    let whole = |name| Fault::error(ApiKey::OffsetFetch, FAIL).group(name);
    let part = |name| Fault::partition_error(ApiKey::OffsetFetch, FAIL).group(name).topic("t").partition(0);
    for (fault, expected) in [
        (whole("g"), [(FAIL, -2, OK), (OK, -1, OK)]),
        (whole("other"), [(OK, 5, OK), (FAIL, -2, OK)]),
        (part("g"), [(OK, -1, FAIL), (OK, -1, OK)]),
        (part("other"), [(OK, 5, OK), (OK, -1, FAIL)]),
    ] {
        world.cluster.fault(fault);
        assert_eq!(fetched_all(&mut world, &["g", "other"], false), expected);
    }
    // Before version 2 a reply has no place for the group's error.
    let topics = vec![OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![0, 1] }];
    let request = OffsetFetchRequest { group_id: "g".into(), topics: Some(topics), ..Default::default() };
    for (version, whole, part) in [(1, OK, FAIL), (2, FAIL, OK), (7, FAIL, OK)] {
        world.cluster.fault(Fault::error(ApiKey::OffsetFetch, FAIL));
        let answer = world.ask(connection, &request, version);
        let partition = answer.topics.first().map_or(0, |topic| topic.partitions[1].error_code);
        assert_eq!((Code(answer.error_code), Code(partition)), (whole, part), "version {version}");
    }
}

#[test]
fn answers_to_members_can_be_rewritten_held_back_and_lost() {
    let mut world = world();
    let (mut one, mut two) = (Member::new(&mut world), Member::new(&mut world));
    stabilize(&mut world, &mut [&mut one]);
    two.join(&mut world);
    world.cluster.fault(
        Fault::rewrite::<JoinGroupRequest>(|joined, _| joined.generation_id += 100).connection(one.lane),
    );
    one.join(&mut world);
    assert_eq!(one.joined(&mut world).generation_id, 102);
    two.joined(&mut world);
    world.cluster.fault(Fault::delay(ApiKey::SyncGroup, secs(5)).connection(two.lane));
    two.sync(&mut world, &[]);
    one.generation = 2;
    one.sync(&mut world, &[]);
    one.synced(&mut world);
    assert!(two.take_sync(&mut world).is_none(), "held back after the leader has synced");
    world.wait(secs(5));
    two.synced(&mut world);
    world.cluster.fault(Fault::cut(ApiKey::Heartbeat, 0));
    let lost = HeartbeatRequest { group_id: "g".into(), generation_id: 2, ..Default::default() };
    world.send(two.other, &lost, 4);
    assert!(world.is_closed(two.other));
}

// Everything at once

/// Whatever members do: nothing panics, and once all are silent, every join and sync that still waits is answered and the
/// group is empty. Two runs are the same to the byte.
#[test]
fn random_members() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let log = random_run(seed, &mut seen);
        assert!(log == random_run(seed, &mut seen), "seed {seed} gives something else the second time");
    }
    let all = ["CompletingRebalance", "Empty", "PreparingRebalance", "Stable"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all, "states that were reached");
}

fn random_run(seed: u64, seen: &mut BTreeSet<&'static str>) -> Vec<Bytes> {
    let mut random = fastrand::Rng::with_seed(seed);
    let delay = millis(random.u64(0..2) * 500);
    let options = ClusterOptions::new().nodes(2).seed(seed).initial_rebalance_delay(delay).max_group_size(4);
    let mut world = world_with(options);
    let mut members: Vec<Member> = (0..6).map(|nth| random_member(&mut world, &mut random, nth)).collect();
    let mut log = Vec::new();
    for _ in 0..200 {
        let at = random.usize(..members.len());
        random_step(&mut world, &mut random, &mut members[at], &mut log);
        seen.extend(world.cluster.group("g").map(|group| group.state.name()));
        check(&world, seed);
    }
    for node in 1..=2 {
        world.cluster.start_node(node).unwrap();
    }
    world.cluster.finish_loading("g");
    world.wait(secs(3600));
    let waiting: Vec<_> = members.iter().filter(|member| world.cluster.waiting(member.lane) > 0).collect();
    assert!(waiting.is_empty(), "seed {seed}: {waiting:#?} in {:#?}", world.cluster.group("g"));
    if let Some(group) = world.cluster.group("g") {
        assert_eq!((group.state, group.members.len()), (GroupState::Empty, 0), "seed {seed}");
    }
    log
}

fn random_member(world: &mut World, random: &mut fastrand::Rng, nth: usize) -> Member {
    let instance = (nth < 2).then(|| format!("static-{nth}"));
    let protocols = [vec![("range", "r")], vec![("range", "r"), ("sticky", "s")]];
    Member {
        instance,
        session: millis(random.u64(6_000..20_000)),
        rebalance: millis(random.u64(0..20_000)),
        protocols: protocols[random.usize(..2)].clone(),
        ..Member::new(world)
    }
}

fn random_step(world: &mut World, random: &mut fastrand::Rng, member: &mut Member, log: &mut Vec<Bytes>) {
    reconnect(world, random, member);
    let is_free = world.cluster.waiting(member.lane) == 0;
    match random.u32(..100) {
        0..30 if is_free => world.send(member.lane, &member.join_request(), JOIN),
        30..50 if is_free => member.sync(world, &[(&member.clone(), "some")]),
        50..65 => drop(member.heartbeat(world)),
        65..70 => drop(member.commit(world, i64::from(random.u32(..)))),
        // A sync that waits while its member leaves is never answered, at Kafka neither.
        70..74 if is_free => drop(member.leave(world)),
        74..78 => {
            // It starts anew, and may leave a request behind.
            member.lane = connect(world, random);
            member.id.clear();
        }
        78..81 => world.cluster.disconnect(member.lane),
        81..84 => world.cluster.set_coordinator("g", random.i32(1..=2)).unwrap(),
        84..86 => world.cluster.load_coordinator("g"),
        86..90 => world.cluster.finish_loading("g"),
        90..92 if (1..=2).all(|node| world.cluster.is_running(node)) => {
            let leaders = if random.bool() { Leaders::Move } else { Leaders::Lose };
            world.cluster.stop_node(random.i32(1..=2), leaders).unwrap();
        }
        92..94 => world.cluster.start_node(random.i32(1..=2)).unwrap(),
        _ => world.wait(millis(random.u64(..8_000))),
    }
    while let Some(answer) = world.take_bytes(member.lane) {
        log.push(answer.clone());
        learn(member, &answer);
    }
}

fn connect(world: &mut World, random: &mut fastrand::Rng) -> ConnectionId {
    let running: Vec<i32> = (1..=2).filter(|node| world.cluster.is_running(*node)).collect();
    world.connect(running[random.usize(..running.len())])
}

fn reconnect(world: &mut World, random: &mut fastrand::Rng, member: &mut Member) {
    let node = world.cluster.coordinator("g");
    for connection in [&mut member.lane, &mut member.other] {
        let is_at_the_right_place = node.is_some() && !world.is_closed(*connection) && random.u32(..10) > 0;
        if !is_at_the_right_place {
            *connection = match node.filter(|_| random.u32(..5) > 0) {
                Some(node) => world.connect(node),
                None => connect(world, random),
            };
        }
    }
}

/// What the answer to a join says, if it is one.
fn learn(member: &mut Member, answer: &Bytes) {
    let frame = answer.slice(4..);
    let Ok((_, joined)) = ottla_broker::wire::frame::decode_response::<JoinGroupRequest>(frame, JOIN) else {
        return;
    };
    if joined.error_code == 0 || Code(joined.error_code) == Code::MEMBER_ID_REQUIRED {
        member.id = joined.member_id;
        member.generation = joined.generation_id;
    }
}

fn check(world: &World, seed: u64) {
    let Some(group) = world.cluster.group("g") else { return };
    let leads = |leader: &String| group.members.iter().any(|member| member.id == *leader);
    assert_eq!(group.leader.is_some(), !group.members.is_empty(), "seed {seed}: {group:#?}");
    assert!(group.leader.iter().all(leads), "seed {seed}: {group:#?}");
    match group.state {
        GroupState::Empty => assert!(group.members.is_empty(), "seed {seed}: {group:#?}"),
        GroupState::Stable => {
            assert!(group.members.iter().all(|member| !member.is_syncing && !member.is_joining));
            assert!(group.protocol.is_some(), "seed {seed}: {group:#?}");
        }
        GroupState::CompletingRebalance => assert!(group.members.iter().all(|member| !member.is_joining)),
        GroupState::PreparingRebalance => {}
    }
}
