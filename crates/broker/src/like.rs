//! Which versions of Kafka a cluster can pass for.

use crate::ClusterOptions;
use ottla_wire::api::ApiKey::{self, *};
use std::fmt;
use std::str::FromStr;

/// A Kafka whose APIs a cluster offers, in that Kafka's versions and no others: see [`ClusterOptions::like`].
///
/// What a request in such a version does is what Kafka 4.4 does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Like {
    /// 2.8, of 2021: fetches by name, one coordinator found at a time, no reasons for joining and leaving.
    V2_8,
    /// 3.9, of 2024: fetches by id, commits by name.
    V3_9,
    /// 4.4: all that this crate speaks.
    V4_4,
}

impl Like {
    /// All of them, the oldest first.
    pub const ALL: [Self; 3] = [Self::V2_8, Self::V3_9, Self::V4_4];

    /// Its number: `2.8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2_8 => "2.8",
            Self::V3_9 => "3.9",
            Self::V4_4 => "4.4",
        }
    }

    /// What its ApiVersions says of the APIs that this crate speaks. One that is not there is not spoken.
    fn ranges(self) -> &'static [Range] {
        match self {
            Self::V2_8 => &V2_8,
            Self::V3_9 => &V3_9,
            Self::V4_4 => &V4_4,
        }
    }
}

impl ClusterOptions {
    /// Speaks only what this Kafka does: its APIs, in its versions, as far as this crate speaks them. What was said of
    /// [versions](Self::versions) before is forgotten; what is said later counts.
    pub fn like(mut self, kafka: Like) -> Self {
        self.versions = ApiKey::ALL.iter().map(|api| (*api, None)).collect();
        for &(api, min, max) in kafka.ranges() {
            self = self.versions(api, min, max);
        }
        self
    }
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Like {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name);
        let found = Self::ALL.into_iter().find(|like| like.name() == text);
        found.ok_or_else(|| format!("`{text}` is not known here; write one of {}", known.join(", ")))
    }
}

type Range = (ApiKey, i16, i16);

const V2_8: [Range; 21] = [
    (Produce, 0, 9),
    (Fetch, 0, 12),
    (ListOffsets, 0, 6),
    (Metadata, 0, 11),
    (OffsetCommit, 0, 8),
    (OffsetFetch, 0, 7),
    (FindCoordinator, 0, 3),
    (JoinGroup, 0, 7),
    (Heartbeat, 0, 4),
    (LeaveGroup, 0, 4),
    (SyncGroup, 0, 5),
    (DescribeGroups, 0, 5),
    (ListGroups, 0, 4),
    (ApiVersions, 0, 3),
    (CreateTopics, 0, 7),
    (DeleteTopics, 0, 6),
    (DeleteRecords, 0, 2),
    (InitProducerId, 0, 4),
    (OffsetForLeaderEpoch, 0, 4),
    (CreatePartitions, 0, 3),
    (DeleteGroups, 0, 2),
];

const V3_9: [Range; 21] = [
    (Produce, 0, 11),
    (Fetch, 0, 17),
    (ListOffsets, 0, 9),
    (Metadata, 0, 12),
    (OffsetCommit, 0, 9),
    (OffsetFetch, 0, 9),
    (FindCoordinator, 0, 6),
    (JoinGroup, 0, 9),
    (Heartbeat, 0, 4),
    (LeaveGroup, 0, 5),
    (SyncGroup, 0, 5),
    (DescribeGroups, 0, 5),
    (ListGroups, 0, 5),
    (ApiVersions, 0, 4),
    (CreateTopics, 0, 7),
    (DeleteTopics, 0, 6),
    (DeleteRecords, 0, 2),
    (InitProducerId, 0, 5),
    (OffsetForLeaderEpoch, 0, 4),
    (CreatePartitions, 0, 3),
    (DeleteGroups, 0, 2),
];

const V4_4: [Range; 21] = [
    (Produce, 0, 13),
    (Fetch, 4, 18),
    (ListOffsets, 1, 11),
    (Metadata, 0, 13),
    (OffsetCommit, 2, 10),
    (OffsetFetch, 1, 10),
    (FindCoordinator, 0, 6),
    (JoinGroup, 0, 9),
    (Heartbeat, 0, 4),
    (LeaveGroup, 0, 5),
    (SyncGroup, 0, 5),
    (DescribeGroups, 0, 6),
    (ListGroups, 0, 5),
    (ApiVersions, 0, 5),
    (CreateTopics, 2, 7),
    (DeleteTopics, 1, 6),
    (DeleteRecords, 0, 2),
    (InitProducerId, 0, 5),
    (OffsetForLeaderEpoch, 2, 4),
    (CreatePartitions, 0, 3),
    (DeleteGroups, 0, 3),
];
