//! Groups of readers, classic and new.

use crate::client::{Kafka, until};
use crate::setup::Topic;
use crate::{BROKER, MISSING, MISSING_ID};
use bytes::Bytes;
use ottla_wire::code::Code;
use ottla_wire::message::join_group_request::JoinGroupRequestProtocol;
use ottla_wire::message::leave_group_request::MemberIdentity;
use ottla_wire::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_wire::message::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_wire::message::sync_group_request::SyncGroupRequestAssignment;
use ottla_wire::message::*;
use ottla_wire::{Output, Uuid};

/// No group is called so.
const NO_GROUP: &str = "golden-no-group";

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_finds_coordinators() {
    let mut kafka = Kafka::of(BROKER);
    ready(&mut kafka);
    // Before 2.0 it hung up.
    let refuses = *kafka.versions::<FindCoordinatorRequest>().end() >= 2;
    for version in kafka.versions::<FindCoordinatorRequest>() {
        let reply = kafka.ask("coordinator", &coordinator(&[NO_GROUP, "another"], 0, version), version);
        let code = reply.coordinators.first().map_or(reply.error_code, |found| found.error_code);
        assert_eq!(code, 0, "{reply:?}");
        if version >= 1 && refuses {
            let reply = kafka.ask("coordinator-refused", &coordinator(&[NO_GROUP], 9, version), version);
            let code = reply.coordinators.first().map_or(reply.error_code, |found| found.error_code);
            assert_eq!(Code(code), Code::INVALID_REQUEST, "{reply:?}");
        }
    }
}

pub(crate) fn coordinator(keys: &[&str], key_type: i8, version: i16) -> FindCoordinatorRequest {
    let (key, coordinator_keys) = match version {
        ..4 => (keys[0].to_owned(), Vec::new()),
        _ => (String::new(), keys.iter().map(|key| (*key).to_owned()).collect()),
    };
    FindCoordinatorRequest { key, key_type, coordinator_keys }
}

/// Waits until groups have their coordinator: the first group makes a topic.
fn ready(kafka: &mut Kafka) {
    let newest = *kafka.versions::<FindCoordinatorRequest>().end();
    until("the coordinator of groups", || {
        let reply = kafka.nameless(&coordinator(&[NO_GROUP], 0, newest));
        let code = reply.coordinators.first().map_or(reply.error_code, |found| found.error_code);
        let listed =
            kafka.nameless(&DescribeGroupsRequest { groups: vec![NO_GROUP.into()], ..Default::default() });
        (code == 0 && !busy(listed.groups[0].error_code)).then_some(())
    });
}

fn busy(code: i16) -> bool {
    [Code::COORDINATOR_LOAD_IN_PROGRESS, Code::COORDINATOR_NOT_AVAILABLE, Code::NOT_COORDINATOR]
        .contains(&Code(code))
}

/// A member of a classic group.
#[derive(Debug)]
struct Member {
    group: String,
    id: String,
    generation: i32,
    instance: Option<String>,
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_lets_members_join_and_leave() {
    let mut kafka = Kafka::of(BROKER);
    ready(&mut kafka);
    let mut members = Vec::new();
    for version in kafka.versions::<JoinGroupRequest>() {
        let group = format!("golden-joined-{version}");
        forget(&mut kafka, &group);
        members.push(member(&mut kafka, "join", &group, version));
        let refused = JoinGroupRequest { member_id: "stranger".into(), ..join(&group, version) };
        let reply = kafka.ask("join-refused", &refused, version);
        let fenced = refused.group_instance_id.is_some();
        let wanted = if fenced { Code::FENCED_INSTANCE_ID } else { Code::UNKNOWN_MEMBER_ID };
        assert_eq!(Code(reply.error_code), wanted, "{reply:?}");
    }
    for (member, version) in members.iter().zip(kafka.versions::<LeaveGroupRequest>()) {
        let reply = kafka.ask("leave", &leave(&[member], version), version);
        assert_eq!(reply.error_code, 0, "{reply:?}");
        let reply = kafka.ask("leave-refused", &leave(&[member], version), version);
        let code = reply.members.first().map_or(reply.error_code, |member| member.error_code);
        assert_eq!(Code(code), Code::UNKNOWN_MEMBER_ID, "{reply:?}");
    }
    let mut groups = kafka.versions::<JoinGroupRequest>().map(|version| format!("golden-joined-{version}"));
    let occupied = members.last().unwrap();
    for (group, version) in groups.by_ref().zip(kafka.versions::<DeleteGroupsRequest>()) {
        let groups_names = vec![group, NO_GROUP.into(), occupied.group.clone()];
        let reply = kafka.ask("groups-removed", &DeleteGroupsRequest { groups_names }, version);
        let codes: Vec<_> = reply.results.iter().map(|group| Code(group.error_code)).collect();
        for code in [Code::NONE, Code::GROUP_ID_NOT_FOUND, Code::NON_EMPTY_GROUP] {
            assert!(codes.contains(&code), "{reply:?}");
        }
    }
}

/// Joins, in two steps from version 4 on.
fn member(kafka: &mut Kafka, case: &str, group: &str, version: i16) -> Member {
    let mut request = join(group, version);
    let mut reply = kafka.ask(case, &request, version);
    if Code(reply.error_code) == Code::MEMBER_ID_REQUIRED {
        request.member_id = reply.member_id;
        reply = kafka.ask(&format!("{case}-by-id"), &request, version);
    }
    assert_eq!(reply.error_code, 0, "{reply:?}");
    assert_eq!(reply.leader, reply.member_id);
    Member {
        group: group.into(),
        id: reply.member_id,
        generation: reply.generation_id,
        instance: request.group_instance_id,
    }
}

/// Every second version from 5 on as a static member.
fn join(group: &str, version: i16) -> JoinGroupRequest {
    let protocol = |name: &str| JoinGroupRequestProtocol { name: name.into(), metadata: subscription() };
    JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: if version < 1 { -1 } else { 30_000 },
        group_instance_id: (version >= 5 && version % 2 == 1).then(|| "instance".into()),
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range"), protocol("roundrobin")],
        reason: (version >= 8).then(|| "to be recorded".into()),
        ..Default::default()
    }
}

fn subscription() -> Bytes {
    let topics = vec!["golden-grouped".into()];
    versioned(&ConsumerProtocolSubscription { topics, ..Default::default() }, 1)
}

/// A message in a field of another: its version comes first.
fn versioned(message: &impl Message, version: i16) -> Bytes {
    let mut output = Output::new();
    output.put_i16(version);
    message.encode(&mut output, version).unwrap();
    output.into_bytes().into()
}

fn leave(members: &[&Member], version: i16) -> LeaveGroupRequest {
    let group_id = members[0].group.clone();
    if version < 3 {
        return LeaveGroupRequest { group_id, member_id: members[0].id.clone(), ..Default::default() };
    }
    let members = members.iter().map(|member| MemberIdentity {
        member_id: member.id.clone(),
        group_instance_id: member.instance.clone(),
        reason: (version >= 5).then(|| "recorded".into()),
    });
    LeaveGroupRequest { group_id, members: members.collect(), ..Default::default() }
}

/// Removes a group that an earlier run left, with whoever is in it.
fn forget(kafka: &mut Kafka, group: &str) {
    let request = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
    let members = kafka.nameless(&request).groups.remove(0).members;
    let members: Vec<_> = members
        .into_iter()
        .map(|member| Member {
            group: group.into(),
            id: member.member_id,
            generation: 0,
            instance: member.group_instance_id,
        })
        .collect();
    if !members.is_empty() {
        let newest = *kafka.versions::<LeaveGroupRequest>().end();
        kafka.nameless(&leave(&members.iter().collect::<Vec<_>>(), newest));
    }
    kafka.nameless(&DeleteGroupsRequest { groups_names: vec![group.into()] });
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_keeps_a_classic_group() {
    let mut kafka = Kafka::of(BROKER);
    ready(&mut kafka);
    let topic = Topic::new(&mut kafka, "golden-grouped", 2, &[]);
    forget(&mut kafka, "golden-classic");
    let newest = *kafka.versions::<JoinGroupRequest>().end();
    let member = member(&mut kafka, "", "golden-classic", newest);
    let stranger = Member {
        group: member.group.clone(),
        id: "stranger".into(),
        generation: member.generation,
        instance: None,
    };
    for version in kafka.versions::<SyncGroupRequest>() {
        let reply = kafka.ask("sync", &sync(&member, version), version);
        assert_eq!((reply.error_code, reply.assignment), (0, assignment()));
        let reply = kafka.ask("sync-refused", &sync(&stranger, version), version);
        assert_eq!(Code(reply.error_code), Code::UNKNOWN_MEMBER_ID);
    }
    for version in kafka.versions::<HeartbeatRequest>() {
        assert_eq!(kafka.ask("alive", &heartbeat(&member, version), version).error_code, 0);
        let reply = kafka.ask("alive-refused", &heartbeat(&stranger, version), version);
        assert_eq!(Code(reply.error_code), Code::UNKNOWN_MEMBER_ID);
    }
    offsets_come_back(&mut kafka, &topic, &member);
    groups_are_described(&mut kafka);
    topic.remove(&mut kafka);
}

/// The one member, which leads, gets both partitions.
fn sync(member: &Member, version: i16) -> SyncGroupRequest {
    let assigned = SyncGroupRequestAssignment { member_id: member.id.clone(), assignment: assignment() };
    SyncGroupRequest {
        group_id: member.group.clone(),
        generation_id: member.generation,
        member_id: member.id.clone(),
        group_instance_id: member.instance.clone().filter(|_| version >= 3),
        protocol_type: (version >= 5).then(|| "consumer".into()),
        protocol_name: (version >= 5).then(|| "range".into()),
        assignments: vec![assigned],
    }
}

fn assignment() -> Bytes {
    let topic = consumer_protocol_assignment::TopicPartition {
        topic: "golden-grouped".into(),
        partitions: vec![0, 1],
    };
    let user_data = Some(Bytes::from_static(b"data"));
    versioned(&ConsumerProtocolAssignment { assigned_partitions: vec![topic], user_data }, 1)
}

fn heartbeat(member: &Member, version: i16) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: member.group.clone(),
        generation_id: member.generation,
        member_id: member.id.clone(),
        group_instance_id: member.instance.clone().filter(|_| version >= 3),
    }
}

fn offsets_come_back(kafka: &mut Kafka, topic: &Topic, member: &Member) {
    for version in kafka.versions::<OffsetCommitRequest>() {
        let reply = kafka.ask("offsets-kept", &commit(member, topic, version), version);
        let codes: Vec<_> = reply
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(|partition| Code(partition.error_code))
            .collect();
        let unknown = if version < 10 { Code::UNKNOWN_TOPIC_OR_PARTITION } else { Code::UNKNOWN_TOPIC_ID };
        assert!(codes.contains(&Code::NONE) && codes.contains(&unknown), "{reply:?}");
    }
    for version in kafka.versions::<OffsetFetchRequest>() {
        let reply = kafka.ask("offsets-kept", &committed(&member.group, topic, version), version);
        let kept = match version {
            ..8 => reply.topics[0].partitions[0].committed_offset,
            _ => reply.groups[0].topics[0].partitions[0].committed_offset,
        };
        assert_eq!(kept, 5, "{reply:?}");
        if version >= 2 {
            let reply = kafka.ask("offsets-kept-of-all", &all_committed(&member.group, version), version);
            assert_eq!(
                reply.topics.len() + reply.groups.iter().map(|group| group.topics.len()).sum::<usize>(),
                1
            );
        }
    }
}

fn commit(member: &Member, topic: &Topic, version: i16) -> OffsetCommitRequest {
    let topics = [(&*topic.name, topic.id), (MISSING, MISSING_ID)].map(|(name, id)| {
        let (name, topic_id) = name_or_id(name, id, version < 10);
        let partition = |partition_index, committed_metadata| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 5,
            committed_leader_epoch: if version < 6 { -1 } else { 0 },
            committed_metadata,
        };
        let partitions = vec![partition(0, Some("half way".into())), partition(1, None)];
        OffsetCommitRequestTopic { name, topic_id, partitions }
    });
    OffsetCommitRequest {
        group_id: member.group.clone(),
        generation_id_or_member_epoch: member.generation,
        member_id: member.id.clone(),
        group_instance_id: member.instance.clone().filter(|_| version >= 7),
        topics: topics.into(),
        ..Default::default()
    }
}

/// What is kept of one partition that was committed, and of one that is not there.
fn committed(group: &str, topic: &Topic, version: i16) -> OffsetFetchRequest {
    let partition_indexes = vec![0, 99];
    if version < 8 {
        let topic = OffsetFetchRequestTopic { name: topic.name.clone(), partition_indexes };
        return OffsetFetchRequest {
            group_id: group.into(),
            topics: Some(vec![topic]),
            require_stable: version >= 7,
            ..Default::default()
        };
    }
    let (name, topic_id) = name_or_id(&topic.name, topic.id, version < 10);
    let topics = Some(vec![OffsetFetchRequestTopics { name, topic_id, partition_indexes }]);
    let group = OffsetFetchRequestGroup { group_id: group.into(), topics, ..Default::default() };
    OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
}

fn all_committed(group: &str, version: i16) -> OffsetFetchRequest {
    if version < 8 {
        return OffsetFetchRequest { group_id: group.into(), topics: None, ..Default::default() };
    }
    let groups = [group, NO_GROUP].map(|group| OffsetFetchRequestGroup {
        group_id: group.into(),
        topics: None,
        ..Default::default()
    });
    OffsetFetchRequest { groups: groups.into(), ..Default::default() }
}

fn name_or_id(name: &str, id: Uuid, by_name: bool) -> (String, Uuid) {
    if by_name { (name.into(), Uuid::ZERO) } else { (String::new(), id) }
}

fn groups_are_described(kafka: &mut Kafka) {
    for version in kafka.versions::<DescribeGroupsRequest>() {
        let groups = ["golden-classic", NO_GROUP].map(str::to_owned).to_vec();
        let request = DescribeGroupsRequest { groups, include_authorized_operations: version >= 3 };
        let reply = kafka.ask("groups", &request, version);
        let mut members: Vec<_> = reply.groups.iter().map(|group| group.members.len()).collect();
        members.sort_unstable();
        assert_eq!(members, [0, 1], "{reply:?}");
    }
    for version in kafka.versions::<ListGroupsRequest>() {
        let mut request = ListGroupsRequest::default();
        if version >= 4 {
            request.states_filter.push("Stable".into());
        }
        if version >= 5 {
            request.types_filter.push("classic".into());
        }
        let reply = kafka.ask("groups", &request, version);
        assert!(reply.groups.iter().any(|group| group.group_id == "golden-classic"), "{reply:?}");
    }
}

#[test]
#[ignore = "needs a real Kafka from 4.0 on, where groups of the new protocol are: cargo xtask test"]
fn kafka_assigns_partitions_to_the_members_of_a_new_group() {
    let mut kafka = Kafka::of(BROKER);
    ready(&mut kafka);
    let topic = Topic::new(&mut kafka, "golden-shared", 2, &[]);
    for version in kafka.versions::<ConsumerGroupHeartbeatRequest>() {
        let group = format!("golden-new-{version}");
        let arriving = arriving(&group, &topic.name, version);
        // The coordinator learns of a new topic a moment after the broker does: who comes before that gets nothing.
        let staying = until("an assignment", || {
            let joined = kafka.ask("arrive", &arriving, version);
            assert_eq!(joined.error_code, 0, "{joined:?}");
            let staying = ConsumerGroupHeartbeatRequest {
                group_id: group.clone(),
                member_id: joined.member_id.clone().unwrap(),
                member_epoch: joined.member_epoch,
                ..Default::default()
            };
            let assigned = joined.assignment.as_ref().expect("an assignment");
            if assigned.topic_partitions.is_empty() {
                let leaving = ConsumerGroupHeartbeatRequest { member_epoch: -1, ..staying };
                assert_eq!(kafka.ask("go", &leaving, version).error_code, 0);
                return None;
            }
            assert_eq!(assigned.topic_partitions[0].topic_id, topic.id);
            Some(staying)
        });
        assert_eq!(kafka.ask("stay", &staying, version).error_code, 0);
        new_groups_are_described(&mut kafka, &group);
        let stranger = ConsumerGroupHeartbeatRequest { member_id: "stranger".into(), ..staying.clone() };
        let reply = kafka.ask("stay-refused", &stranger, version);
        assert_eq!(Code(reply.error_code), Code::UNKNOWN_MEMBER_ID);
        let leaving = ConsumerGroupHeartbeatRequest { member_epoch: -1, ..staying };
        assert_eq!(kafka.ask("go", &leaving, version).error_code, 0);
    }
    topic.remove(&mut kafka);
}

fn arriving(group: &str, topic: &str, version: i16) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: group.into(),
        // Later clients give themselves their names.
        member_id: if version < 1 { String::new() } else { "b3R0bGEtbWVtYmVyLTAwMQ".into() },
        member_epoch: 0,
        rack_id: Some("here".into()),
        rebalance_timeout_ms: 30_000,
        subscribed_topic_names: Some(vec![topic.into()]),
        subscribed_topic_regex: (version >= 1).then(|| "golden-n.*".into()),
        server_assignor: Some("uniform".into()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn new_groups_are_described(kafka: &mut Kafka, group: &str) {
    for version in kafka.versions::<ConsumerGroupDescribeRequest>() {
        let request = ConsumerGroupDescribeRequest {
            group_ids: [group, NO_GROUP].map(str::to_owned).to_vec(),
            include_authorized_operations: true,
        };
        let reply = kafka.ask("new-groups", &request, version);
        assert_eq!(reply.groups.iter().filter(|group| group.members.is_empty()).count(), 1, "{reply:?}");
    }
}
