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

/// Brings the members into a stable group, the first of them given is not needed to lead.
#[track_caller]
fn stabilize(world: &mut World, members: &mut [&mut Member]) {
    for member in members.iter_mut() {
        member.join(world);
    }
    // Whoever was answered before the others had come has to come again.
    for _ in 0..members.len() {
        for member in members.iter_mut() {
            if member.take_join(world).is_some() && group(world).generation != member.generation {
                member.join(world);
            }
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
