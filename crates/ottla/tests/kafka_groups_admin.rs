//! Groups from outside, asked of a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/kafka.rs"]
mod kafka_support;
#[path = "support/raw_member.rs"]
mod raw_member;
mod support;

use std::time::{Duration, SystemTime};

use kafka_support::{Kafka, fresh};
use ottla::{Code, GroupKind, Groups, Start, TopicPartition};
use ottla_wire::{
    message::{ConsumerGroupHeartbeatRequest, consumer_group_heartbeat_response::Assignment},
    record::{BatchBuilder, Codec},
};
use raw_member::RawMember;
use support::soon;

async fn kafka() -> (Kafka, Groups) {
    let kafka = Kafka::connect("OTTLA_TEST_KAFKA").await;
    let groups = Groups::new(kafka.bootstrap()).unwrap();
    (kafka, groups)
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

#[tokio::test]
#[ignore = "needs a real Kafka from 2.6 on, which lists groups with their states: cargo xtask test"]
async fn kafka_a_classic_group_from_its_first_offset_to_its_end() {
    let (mut kafka, mut groups) = kafka().await;
    let (topic, group) = (kafka.create("admin", 3, &[]).await, fresh("admin"));
    let error = groups.describe(&group).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::GROUP_ID_NOT_FOUND), "{error}");

    groups.set_offsets(&group, (0..3).map(|partition| (at(&topic, partition), 0))).await.unwrap();
    let listed = groups.list().await.unwrap();
    let found = listed.iter().find(|listed| listed.id == group).unwrap();
    assert_eq!((&found.kind, &found.state[..]), (&GroupKind::Classic, "Empty"));

    let member = RawMember::alone(kafka.bootstrap(), &group, "billing-1", &topic, &[0, 2]).await;
    let described = groups.describe(&group).await.unwrap();
    assert_eq!((&described.state[..], &described.assignor[..]), ("Stable", "range"));
    assert_eq!(described.members[0].client_id, "billing-1");
    assert_eq!(described.members[0].partitions, [at(&topic, 0), at(&topic, 2)]);
    let rows = groups.lag(&described).await.unwrap();
    let owners: Vec<_> = rows.iter().map(|row| row.owner.as_deref()).collect();
    assert_eq!(owners, [Some(&*member.id), None, Some(&*member.id)]);
    for error in [
        groups.set_offsets(&group, [(at(&topic, 0), 0)]).await.unwrap_err(),
        groups.delete(&group).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Some(Code::NON_EMPTY_GROUP), "{error}");
        assert!(error.to_string().contains("billing-1"), "{error}");
    }

    member.leave().await;
    soon("setting", groups.set_offsets(&group, [(at(&topic, 0), 0)])).await.unwrap();
    soon("deleting", groups.delete(&group)).await.unwrap();
    assert_eq!(groups.delete(&group).await.unwrap_err().code(), Some(Code::GROUP_ID_NOT_FOUND));
}

/// Each record is a minute older than the one behind it.
#[tokio::test]
#[ignore = "needs a real Kafka from 2.1 on, which knows zstd: cargo xtask test"]
async fn kafka_lag_is_told_in_records_and_in_seconds() {
    let (mut kafka, mut groups) = kafka().await;
    let (topic, group) = (kafka.create("lag", 5, &[]).await, fresh("lag"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    for (partition, codec) in (0..).zip(Codec::ALL) {
        let mut batch = BatchBuilder::new(codec);
        for minutes in (1..=10).rev() {
            batch.push(now - minutes * 60_000, None, Some(b"value"), &[]);
        }
        kafka.produce(&topic, partition, batch.build().unwrap()).await;
    }
    kafka.delete_records(&topic, 4, 6).await;
    let offsets = [3, 4, 5, 10, 2];
    groups.set_offsets(&group, (0..5).map(|p| (at(&topic, p), offsets[p as usize]))).await.unwrap();
    let described = groups.describe(&group).await.unwrap();
    let rows = soon("the lag", groups.lag(&described)).await.unwrap();
    let figures: Vec<_> =
        rows.iter().map(|row| (row.earliest.unwrap(), row.end.unwrap(), row.lag.unwrap())).collect();
    assert_eq!(figures, [(0, 10, 7), (0, 10, 6), (0, 10, 5), (0, 10, 0), (6, 10, 4)]);
    let minutes: Vec<_> = rows.iter().map(|row| row.behind.unwrap().as_secs() / 60).collect();
    assert_eq!(minutes, [7, 6, 5, 0, 4]);
    assert_eq!(rows[3].behind, Some(Duration::ZERO));

    let partitions = groups.partitions(&topic).await.unwrap();
    let ago = Start::Ago(Duration::from_secs(5 * 60 + 30));
    for (start, wanted) in [
        (Start::Earliest, [0, 0, 0, 0, 6]),
        (Start::Latest, [10; 5]),
        (Start::Offset(3), [3, 3, 3, 3, 6]),
        (Start::Last(2), [8; 5]),
        (ago, [5, 5, 5, 5, 6]),
        (Start::Ago(Duration::ZERO), [10; 5]),
    ] {
        let found = soon("offsets", groups.resolve(&partitions, start)).await.unwrap();
        assert_eq!(found.iter().map(|found| found.offset).collect::<Vec<_>>(), wanted, "{start:?}");
    }
    groups.delete(&group).await.unwrap();
}

/// A member of the new protocol by hand: one heartbeat joins.
#[tokio::test]
#[ignore = "needs a real Kafka from 4.0 on, where groups of the new protocol are: cargo xtask test"]
async fn kafka_a_group_of_the_new_protocol_is_described_too() {
    let (mut kafka, mut groups) = kafka().await;
    let (topic, group) = (kafka.create("kip848", 2, &[]).await, fresh("kip848"));
    let mut heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: group.clone(),
        member_id: fresh("member"),
        rebalance_timeout_ms: 45_000,
        subscribed_topic_names: Some(vec![topic.clone()]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let assigned =
        |answer: &Option<Assignment>| answer.as_ref().is_some_and(|some| !some.topic_partitions.is_empty());
    soon("an assignment", async {
        loop {
            let answer = kafka.call(&heartbeat).await;
            let code = Code(answer.error_code);
            assert!(code == Code::NONE || code.is_retriable(), "{answer:?}");
            if assigned(&answer.assignment) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let described = groups.describe(&group).await.unwrap();
    assert_eq!((&described.kind, described.epoch.is_some()), (&GroupKind::Consumer, true));
    assert_eq!(described.members[0].topics, [topic.as_str()]);
    let rows = groups.lag(&described).await.unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.owner.is_some()), "{rows:?}");
    let error = groups.set_offsets(&group, [(at(&topic, 0), 0)]).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NON_EMPTY_GROUP), "{error}");

    (heartbeat.member_epoch, heartbeat.topic_partitions, heartbeat.subscribed_topic_names) = (-1, None, None);
    assert_eq!(Code(kafka.call(&heartbeat).await.error_code), Code::NONE);
    soon("setting", groups.set_offsets(&group, [(at(&topic, 0), 0)])).await.unwrap();
    soon("deleting", groups.delete(&group)).await.unwrap();
}
