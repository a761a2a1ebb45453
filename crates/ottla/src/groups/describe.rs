//! What a coordinator knows of a group: a KIP-848 one by ConsumerGroupDescribe, a classic one by DescribeGroups.

use bytes::{Buf, Bytes};
use ottla_core::TopicPartition;
use ottla_wire::{
    Input,
    code::Code,
    message::{
        ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, ConsumerProtocolSubscription,
        DescribeGroupsRequest, Message,
        consumer_group_describe_response::{self as consumer, TopicPartitions},
        describe_groups_response as classic,
    },
};

use super::{
    Coordinator, GroupDescription, GroupKind, MemberDescription,
    cluster::{Cluster, Trouble},
    missing,
};
use crate::error::Error;

/// The protocol type of consumers, whose metadata and assignments can be read.
const CONSUMER: &str = "consumer";
/// What a coordinator calls the state of a group that it does not know (before DescribeGroups 6).
const DEAD: &str = "Dead";

pub(super) async fn describe(cluster: &mut Cluster, group: &str) -> Result<GroupDescription, Error> {
    loop {
        match attempt(cluster, group).await {
            Ok(description) => return Ok(description),
            Err(trouble) => cluster.again(trouble).await?,
        }
    }
}

/// Which kind it is shows in who knows it.
async fn attempt(cluster: &mut Cluster, group: &str) -> Result<GroupDescription, Trouble> {
    match of_consumers(cluster, group).await? {
        Some(description) => Ok(description),
        None => of_classic(cluster, group).await,
    }
}

async fn of_consumers(cluster: &mut Cluster, group: &str) -> Result<Option<GroupDescription>, Trouble> {
    let request = |_| ConsumerGroupDescribeRequest {
        group_ids: vec![group.to_owned()],
        ..ConsumerGroupDescribeRequest::default()
    };
    let response = match cluster.ask_coordinator(group, i16::MAX, request).await {
        Err(Trouble::Final(error)) if error.code() == Some(Code::UNSUPPORTED_VERSION) => return Ok(None),
        answer => answer?,
    };
    let described = response.groups.into_iter().find(|described| described.group_id == group);
    let Some(described) = described else { return Ok(None) };
    match Code(described.error_code) {
        Code::NONE => {}
        // The group is of another kind, or the broker has this kind turned off.
        Code::GROUP_ID_NOT_FOUND | Code::UNSUPPORTED_VERSION => return Ok(None),
        code => return Err(cluster.refused(group, code, described.error_message.as_deref())),
    }
    let coordinator = cluster.coordinator(group).await?;
    Ok(Some(consumers(described, coordinator)))
}

fn consumers(described: consumer::DescribedGroup, coordinator: Coordinator) -> GroupDescription {
    let member = |member: consumer::Member| MemberDescription {
        id: member.member_id,
        instance: member.instance_id,
        client_id: member.client_id,
        host: member.client_host,
        topics: member.subscribed_topic_names,
        partitions: partitions_by_id(&member.assignment.topic_partitions),
        epoch: Some(member.member_epoch),
    };
    GroupDescription {
        id: described.group_id,
        kind: GroupKind::Consumer,
        state: described.group_state,
        protocol_type: CONSUMER.to_owned(),
        assignor: described.assignor_name,
        epoch: Some(described.group_epoch),
        coordinator,
        members: sorted(described.members.into_iter().map(member)),
    }
}

fn partitions_by_id(topics: &[TopicPartitions]) -> Vec<TopicPartition> {
    in_order(topics.iter().flat_map(|topic| of_topic(&topic.topic_name, &topic.partitions)))
}

async fn of_classic(cluster: &mut Cluster, group: &str) -> Result<GroupDescription, Trouble> {
    let request =
        |_| DescribeGroupsRequest { groups: vec![group.to_owned()], ..DescribeGroupsRequest::default() };
    let response = cluster.ask_coordinator(group, i16::MAX, request).await?;
    let described = response.groups.into_iter().find(|described| described.group_id == group);
    let described = described.ok_or_else(|| missing(group))?;
    match Code(described.error_code) {
        Code::NONE if described.group_state == DEAD && described.members.is_empty() => {
            return Err(missing(group).into());
        }
        Code::NONE => {}
        Code::GROUP_ID_NOT_FOUND => return Err(not_ours(group, described.error_message.as_deref()).into()),
        code => return Err(cluster.refused(group, code, described.error_message.as_deref())),
    }
    let coordinator = cluster.coordinator(group).await?;
    Ok(classics(described, coordinator))
}

/// There is no such group, or one of another kind, which the broker's own words tell.
fn not_ours(group: &str, told: Option<&str>) -> Error {
    match told.filter(|told| told.contains("is not a")) {
        Some(told) => {
            let what = format!("group {group} is not one of consumers, the broker says: {told}");
            Error::refused(what, Code::INCONSISTENT_GROUP_PROTOCOL)
        }
        None => missing(group),
    }
}

fn classics(described: classic::DescribedGroup, coordinator: Coordinator) -> GroupDescription {
    let is_readable = described.protocol_type == CONSUMER;
    let member = |member: classic::DescribedGroupMember| MemberDescription {
        id: member.member_id,
        instance: member.group_instance_id,
        client_id: member.client_id,
        host: member.client_host,
        topics: if is_readable { subscribed(member.member_metadata) } else { Vec::new() },
        partitions: if is_readable { assigned(member.member_assignment) } else { Vec::new() },
        epoch: None,
    };
    GroupDescription {
        id: described.group_id,
        kind: GroupKind::Classic,
        state: described.group_state,
        protocol_type: described.protocol_type,
        assignor: described.protocol_data,
        epoch: None,
        coordinator,
        members: sorted(described.members.into_iter().map(member)),
    }
}

/// What no consumer can have written says nothing. While a rebalance is going on there is nothing yet.
fn subscribed(bytes: Bytes) -> Vec<String> {
    versioned::<ConsumerProtocolSubscription>(bytes).map_or_else(Vec::new, |subscription| subscription.topics)
}

fn assigned(bytes: Bytes) -> Vec<TopicPartition> {
    let assignment = versioned::<ConsumerProtocolAssignment>(bytes).unwrap_or_default();
    in_order(
        assignment.assigned_partitions.iter().flat_map(|topic| of_topic(&topic.topic, &topic.partitions)),
    )
}

/// The version stands in front; one that came after us begins like the last that we know.
fn versioned<M: Message>(mut bytes: Bytes) -> Option<M> {
    let version = bytes.try_get_i16().ok()?.min(*M::VERSIONS.end());
    M::decode(&mut Input::new(bytes), version).ok()
}

fn of_topic(topic: &str, partitions: &[i32]) -> Vec<TopicPartition> {
    partitions.iter().map(|&partition| TopicPartition::new(topic, partition)).collect()
}

fn in_order(partitions: impl Iterator<Item = TopicPartition>) -> Vec<TopicPartition> {
    let mut partitions: Vec<_> = partitions.collect();
    partitions.sort_unstable();
    partitions
}

fn sorted(members: impl Iterator<Item = MemberDescription>) -> Vec<MemberDescription> {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|a, b| (&a.client_id, &a.id).cmp(&(&b.client_id, &b.id)));
    members
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use ottla_wire::{Output, message::consumer_protocol_assignment as assignment};

    use super::*;

    fn encoded(message: &impl Message, version: i16) -> Bytes {
        let mut bytes = BytesMut::from(&version.to_be_bytes()[..]);
        let mut output = Output::new();
        message.encode(&mut output, version).unwrap();
        bytes.extend_from_slice(&output.into_bytes());
        bytes.freeze()
    }

    #[test]
    fn what_members_wrote_is_read_in_any_version() {
        let mut subscription = ConsumerProtocolSubscription {
            topics: vec!["a".to_owned(), "b".to_owned()],
            ..ConsumerProtocolSubscription::default()
        };
        for version in 0..=3 {
            assert_eq!(subscribed(encoded(&subscription, version)), ["a", "b"], "version {version}");
        }
        subscription.generation_id = 7;
        let mut newer = encoded(&subscription, 3).to_vec();
        newer[1] = 9;
        newer.extend_from_slice(b"and more");
        assert_eq!(subscribed(newer.into()), ["a", "b"]);
    }

    #[test]
    fn assignments_come_in_order() {
        let topic = |topic: &str, partitions: &[i32]| assignment::TopicPartition {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        let message = ConsumerProtocolAssignment {
            assigned_partitions: vec![topic("b", &[1]), topic("a", &[3, 0])],
            user_data: None,
        };
        let expected = [("a", 0), ("a", 3), ("b", 1)].map(|(topic, at)| TopicPartition::new(topic, at));
        assert_eq!(assigned(encoded(&message, 0)), expected);
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        for bytes in [&b""[..], b"\0", b"\0\0", b"\xff\xff\0\0", b"\0\0\x7f\xff\xff\xff"] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert!(subscribed(bytes.clone()).is_empty() && assigned(bytes).is_empty());
        }
    }
}
