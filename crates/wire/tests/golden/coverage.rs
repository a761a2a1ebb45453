//! That nothing is lost when it is recorded anew: which versions there are, and who wrote their requests.

use crate::frames::{self, Exchange, NEWEST};
use ottla_wire::api::ApiKey;
use std::collections::BTreeSet;

/// Every version that is spoken here and there, with requests by whomever and replies by Kafka. The newest speaks all of
/// ours.
#[test]
fn every_version_of_every_api_is_there() {
    for kafka in frames::KAFKAS {
        let told = frames::spoken(kafka);
        for api in ApiKey::ALL {
            let exchanges = frames::of(kafka, *api);
            let is_answered = |exchange: &&Exchange| exchange.reply.is_some() && !exchange.is_refused();
            let answered = exchanges.iter().filter(is_answered);
            let spoken: Vec<_> = match told.range(*api) {
                Some((min, max)) => api.versions().filter(|version| (min..=max).contains(version)).collect(),
                None => Vec::new(),
            };
            let there = versions(answered);
            // 3.9 has groups of the new protocol for trials only, and they were not switched on.
            let is_asleep = kafka == "3.9.1" && there.is_empty() && NEW_GROUPS.contains(api);
            assert!(is_asleep || there == spoken, "{kafka}: {api} {there:?}, not {spoken:?}");
            assert!(kafka != frames::KAFKAS[0] || spoken.iter().copied().eq(api.versions()), "{api}");
        }
    }
}

const NEW_GROUPS: [ApiKey; 2] = [ApiKey::ConsumerGroupHeartbeat, ApiKey::ConsumerGroupDescribe];

/// Java's tools ask in the newest versions. What they do not ask is recorded of us alone; that Kafka's own code reads it
/// and writes it to the same bytes was checked when it was recorded.
#[test]
fn java_wrote_requests_of_most_apis() {
    let by_java: Vec<_> = ApiKey::ALL
        .iter()
        .map(|api| (*api, versions(frames::of(NEWEST, *api).iter().filter(|exchange| exchange.is_by_java()))))
        .filter(|(_, versions)| !versions.is_empty())
        .collect();
    let wanted = [
        (ApiKey::Produce, vec![13]),
        (ApiKey::Fetch, vec![18]),
        (ApiKey::ListOffsets, vec![11]),
        (ApiKey::Metadata, vec![13]),
        (ApiKey::OffsetCommit, vec![9, 10]),
        (ApiKey::OffsetFetch, vec![9, 10]),
        (ApiKey::FindCoordinator, vec![6]),
        (ApiKey::JoinGroup, vec![9]),
        (ApiKey::Heartbeat, vec![4]),
        (ApiKey::LeaveGroup, vec![5]),
        (ApiKey::SyncGroup, vec![5]),
        (ApiKey::DescribeGroups, vec![6]),
        (ApiKey::ListGroups, vec![5]),
        (ApiKey::ApiVersions, vec![5]),
        (ApiKey::CreateTopics, vec![7]),
        (ApiKey::DeleteTopics, vec![6]),
        (ApiKey::DeleteRecords, vec![2]),
        (ApiKey::InitProducerId, vec![5]),
        (ApiKey::AddPartitionsToTxn, vec![5]),
        (ApiKey::EndTxn, vec![5]),
        (ApiKey::CreatePartitions, vec![3]),
        (ApiKey::DeleteGroups, vec![3]),
        (ApiKey::ConsumerGroupHeartbeat, vec![1]),
        (ApiKey::ConsumerGroupDescribe, vec![1]),
    ];
    assert_eq!(by_java, wanted);
}

/// Refused, fenced, of nobody: what replies look like when something is wrong.
#[test]
fn there_are_replies_with_errors() {
    for (api, client, count) in [
        (ApiKey::Produce, "write-refused", 11),
        (ApiKey::Fetch, "read-refused", 15),
        (ApiKey::Fetch, "session-refused", 12),
        (ApiKey::Fetch, "read-fenced", 10),
        (ApiKey::Fetch, "read-diverged", 7),
        (ApiKey::ListOffsets, "offsets-refused", 11),
        (ApiKey::ListOffsets, "offsets-fenced", 8),
        (ApiKey::Metadata, "topics", 14),
        (ApiKey::Metadata, "topics-by-id", 2),
        (ApiKey::OffsetForLeaderEpoch, "epochs-refused", 3),
        (ApiKey::CreateTopics, "topic-refused", 6),
        (ApiKey::CreatePartitions, "partitions-refused", 4),
        (ApiKey::DeleteTopics, "topics-removed", 6),
        (ApiKey::DeleteRecords, "records-removed", 3),
        (ApiKey::InitProducerId, "producer-refused", 3),
    ] {
        let exchanges = frames::of(NEWEST, api);
        let found = exchanges.iter().filter(|exchange| exchange.client == client);
        assert_eq!(found.count(), count, "{api} {client}");
    }
}

/// An old broker is asked in its newest versions by the tools of today.
#[test]
fn java_asked_older_kafkas_too() {
    for (kafka, api, version) in [
        ("3.9.1", ApiKey::Fetch, 17),
        ("3.9.1", ApiKey::JoinGroup, 9),
        ("3.9.1", ApiKey::OffsetFetch, 9),
        ("2.8.2", ApiKey::Fetch, 12),
        ("2.8.2", ApiKey::JoinGroup, 7),
        ("2.8.2", ApiKey::OffsetFetch, 7),
        ("2.8.2", ApiKey::FindCoordinator, 3),
    ] {
        let exchanges = frames::of(kafka, api);
        let by_java = versions(exchanges.iter().filter(|exchange| exchange.is_by_java()));
        assert_eq!(by_java, [version], "{kafka} {api}");
    }
}

fn versions<'a>(exchanges: impl Iterator<Item = &'a Exchange>) -> Vec<i16> {
    let versions: BTreeSet<_> = exchanges.map(|exchange| exchange.version).collect();
    versions.into_iter().collect()
}
