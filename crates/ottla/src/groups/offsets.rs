//! The offsets of a group: how far behind they are, and setting them.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ottla_core::{CommitError, TopicPartition};
use ottla_wire::{
    code::Code,
    message::{
        OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::OffsetFetchRequestGroup,
    },
};

use super::{
    GroupDescription, PartitionLag,
    cluster::Cluster,
    describe::describe,
    log::{self, EARLIEST, LATEST},
    not_empty,
};
use crate::error::Error;

/// The highest version in which topics go by their names.
const NAMES_UNTIL: i16 = 9;
/// The highest version with a single group.
const ONE_GROUP: i16 = 7;

pub(super) async fn lag(
    cluster: &mut Cluster,
    group: &GroupDescription,
    now: SystemTime,
) -> Result<Vec<PartitionLag>, Error> {
    let mut rows = rows(cluster, group).await?;
    let asked = |question: i64| rows.keys().map(|at| (at.clone(), question)).collect();
    let (earliest, latest) = (asked(EARLIEST), asked(LATEST));
    for (at, offset) in log::offsets(cluster, earliest).await? {
        rows.entry(at).and_modify(|row| row.earliest = row.known(offset));
    }
    for (at, offset) in log::offsets(cluster, latest).await? {
        rows.entry(at).and_modify(|row| row.end = row.known(offset));
    }
    let behind = rows.values_mut().filter_map(PartitionLag::count).collect();
    for (at, time) in log::times(cluster, behind).await? {
        rows.entry(at).and_modify(|row| {
            row.behind = row.known(time).flatten().map(|ms| since(ms, now));
        });
    }
    Ok(rows.into_values().collect())
}

/// A row for each partition with an offset or an owner.
async fn rows(
    cluster: &mut Cluster,
    group: &GroupDescription,
) -> Result<BTreeMap<TopicPartition, PartitionLag>, Error> {
    let mut rows = BTreeMap::new();
    for (at, offset, metadata) in committed(cluster, &group.id).await? {
        let row = PartitionLag { committed: Some(offset), metadata, ..PartitionLag::new(at.clone()) };
        rows.insert(at, row);
    }
    for member in &group.members {
        for at in &member.partitions {
            let row = rows.entry(at.clone()).or_insert_with(|| PartitionLag::new(at.clone()));
            row.owner = Some(member.id.clone());
        }
    }
    Ok(rows)
}

impl PartitionLag {
    fn new(at: TopicPartition) -> Self {
        Self {
            at,
            committed: None,
            metadata: String::new(),
            earliest: None,
            end: None,
            lag: None,
            behind: None,
            owner: None,
            fault: None,
        }
    }

    fn known<T>(&mut self, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault.get_or_insert(error);
                None
            }
        }
    }

    /// Counts what is unread; where there is something, where the next record is to be looked for.
    fn count(&mut self) -> Option<(TopicPartition, i64)> {
        let next = self.committed?.max(self.earliest?);
        let lag = u64::try_from(self.end? - next).unwrap_or(0);
        self.lag = Some(lag);
        match lag {
            0 => {
                self.behind = Some(Duration::ZERO);
                None
            }
            _ => Some((self.at.clone(), next)),
        }
    }
}

/// A record of the future is not behind.
fn since(ms: i64, now: SystemTime) -> Duration {
    let time = UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs());
    now.duration_since(time).unwrap_or_default()
}

/// All that the group has committed.
async fn committed(cluster: &mut Cluster, group: &str) -> Result<Vec<(TopicPartition, i64, String)>, Error> {
    loop {
        let answer = cluster.ask_coordinator(group, NAMES_UNTIL, |version| all_offsets(group, version)).await;
        let trouble = match answer.map(|response| offsets(group, response)) {
            Ok(Ok(offsets)) => return Ok(offsets),
            Ok(Err(code)) => cluster.refused(group, code, None),
            Err(trouble) => trouble,
        };
        cluster.again(trouble).await?;
    }
}

fn all_offsets(group: &str, version: i16) -> OffsetFetchRequest {
    match version <= ONE_GROUP {
        true => {
            OffsetFetchRequest { group_id: group.to_owned(), topics: None, ..OffsetFetchRequest::default() }
        }
        false => OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: group.to_owned(),
                topics: None,
                ..OffsetFetchRequestGroup::default()
            }],
            ..OffsetFetchRequest::default()
        },
    }
}

fn offsets(group: &str, response: OffsetFetchResponse) -> Result<Vec<(TopicPartition, i64, String)>, Code> {
    let mut found = Vec::new();
    let mut take = |topic: &str, partition: i32, code: i16, offset: i64, metadata: Option<String>| {
        if Code(code).is_error() {
            return Err(Code(code));
        }
        if offset >= 0 {
            found.push((TopicPartition::new(topic, partition), offset, metadata.unwrap_or_default()));
        }
        Ok(())
    };
    let mut error_code = response.error_code;
    for topic in response.topics {
        for of in topic.partitions {
            take(&topic.name, of.partition_index, of.error_code, of.committed_offset, of.metadata)?;
        }
    }
    for of_group in response.groups.into_iter().filter(|of_group| of_group.group_id == group) {
        error_code = of_group.error_code;
        for topic in of_group.topics {
            for of in topic.partitions {
                take(&topic.name, of.partition_index, of.error_code, of.committed_offset, of.metadata)?;
            }
        }
    }
    match Code(error_code) {
        Code::NONE => Ok(found),
        code => Err(code),
    }
}

/// Commits from outside of the group, which the coordinator takes only while it has no members.
pub(super) async fn set(
    cluster: &mut Cluster,
    group: &str,
    offsets: Vec<(TopicPartition, i64)>,
) -> Result<(), Error> {
    if let Some((at, offset)) = offsets.iter().find(|(_, offset)| *offset < 0) {
        return Err(CommitError::Negative(at.clone(), *offset).into());
    }
    refuse_members(cluster, group).await?;
    let request = commit(group, &offsets);
    let mut unknown = 0;
    loop {
        let answer = cluster.ask_coordinator(group, NAMES_UNTIL, |_| request.clone()).await;
        let trouble = match answer {
            Err(trouble) => trouble,
            Ok(response) => match refusal(&response) {
                None => return Ok(()),
                Some((_, code)) if HAS_MEMBERS.contains(&code) => {
                    refuse_members(cluster, group).await?;
                    cluster.refused(group, code, None)
                }
                // One that was made just now becomes known soon.
                Some((at, code @ Code::UNKNOWN_TOPIC_OR_PARTITION)) if unknown >= UNKNOWN_MAX => {
                    let what =
                        format!("{at} does not exist: group {group} can have no offset there ({code})");
                    return Err(Error::refused(what, code));
                }
                Some((at, code)) => {
                    unknown += u32::from(code == Code::UNKNOWN_TOPIC_OR_PARTITION);
                    cluster.refused(group, code, Some(&format!("for {at}")))
                }
            },
        };
        cluster.again(trouble).await?;
    }
}

/// The first partition whose offset was not taken.
fn refusal(response: &OffsetCommitResponse) -> Option<(TopicPartition, Code)> {
    response.topics.iter().find_map(|topic| {
        let refused = topic.partitions.iter().find(|answer| Code(answer.error_code).is_error())?;
        let at = TopicPartition::new(topic.name.as_str(), refused.partition_index);
        Some((at, Code(refused.error_code)))
    })
}

/// So often a coordinator may say that it does not know a partition.
const UNKNOWN_MAX: u32 = 5;

/// How a coordinator refuses who is no member, while there are some.
const HAS_MEMBERS: [Code; 5] = [
    Code::UNKNOWN_MEMBER_ID,
    Code::ILLEGAL_GENERATION,
    Code::REBALANCE_IN_PROGRESS,
    Code::STALE_MEMBER_EPOCH,
    Code::NON_EMPTY_GROUP,
];

/// A group that is not there has no members.
async fn refuse_members(cluster: &mut Cluster, group: &str) -> Result<(), Error> {
    match describe(cluster, group).await {
        Ok(description) if description.members.is_empty() => Ok(()),
        Ok(description) => Err(not_empty(&description)),
        Err(error) if error.code() == Some(Code::GROUP_ID_NOT_FOUND) => Ok(()),
        Err(error) => Err(error),
    }
}

fn commit(group: &str, offsets: &[(TopicPartition, i64)]) -> OffsetCommitRequest {
    let mut topics = BTreeMap::<&str, Vec<OffsetCommitRequestPartition>>::new();
    for (at, offset) in offsets {
        topics.entry(&at.topic).or_default().push(OffsetCommitRequestPartition {
            partition_index: at.partition,
            committed_offset: *offset,
            committed_metadata: Some(String::new()),
            ..OffsetCommitRequestPartition::default()
        });
    }
    let topic = |(name, partitions): (&str, _)| OffsetCommitRequestTopic {
        name: name.to_owned(),
        partitions,
        ..OffsetCommitRequestTopic::default()
    };
    OffsetCommitRequest {
        group_id: group.to_owned(),
        topics: topics.into_iter().map(topic).collect(),
        ..OffsetCommitRequest::default()
    }
}
