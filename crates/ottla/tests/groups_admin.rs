//! Groups from outside, against the embedded broker: what is told is true, what passes is waited for, what does not is named.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/raw_member.rs"]
mod raw_member;
mod support;

use std::{
    net::TcpListener,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ottla::{Code, GroupKind, Groups, PartitionLag, Start, TopicPartition};
use ottla_broker::{ApiKey, Broker, ClusterOptions, Fault, Leaders};
use ottla_wire::record::{BatchBuilder, Codec};
use raw_member::RawMember;
use support::{broker, brokers, eventually, fill, soon};

fn groups(broker: &Broker) -> Groups {
    Groups::new(&broker.bootstrap()).unwrap()
}

/// All of it can be spawned.
fn _can_be_sent(mut groups: Groups) -> [Box<dyn std::any::Any + Send>; 1] {
    let spawned = async move {
        let group = groups.describe("g").await?;
        groups.lag(&group).await?;
        let partitions = groups.partitions("t").await?;
        groups.resolve(&partitions, Start::Latest).await?;
        groups.set_offsets("g", []).await?;
        groups.delete("g").await?;
        groups.list().await
    };
    [Box::new(spawned)]
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn commit(broker: &Broker, group: &str, offsets: &[(i32, i64)]) {
    broker.with(|cluster| {
        for &(partition, offset) in offsets {
            cluster.commit_offset(group, "t", partition, offset);
        }
    });
}

fn committed(broker: &Broker, group: &str) -> Vec<Option<i64>> {
    broker.with(|cluster| (0..cluster.partitions("t")).map(|p| cluster.committed(group, "t", p)).collect())
}

async fn lag(groups: &mut Groups, group: &str) -> Vec<PartitionLag> {
    let description = soon("a description", groups.describe(group)).await.unwrap();
    soon("the lag", groups.lag(&description)).await.unwrap()
}

#[tokio::test]
async fn the_groups_of_all_brokers_are_listed() {
    let broker = brokers(3, &[("t", 1)]).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    for (name, node) in names.into_iter().zip([1, 2, 3, 1, 2, 3]) {
        commit(&broker, name, &[(0, 0)]);
        broker.with(|cluster| cluster.set_coordinator(name, node)).unwrap();
    }
    let listed = soon("a list", groups(&broker).list()).await.unwrap();
    assert_eq!(listed.iter().map(|group| &group.id[..]).collect::<Vec<_>>(), names);
    assert!(listed.iter().all(|group| group.state == "Empty" && group.kind == GroupKind::Classic));
}

#[tokio::test]
async fn a_broker_that_stops_while_groups_are_listed_hides_none() {
    let broker = brokers(3, &[("t", 1)]).await;
    for (name, node) in [("a", 1), ("b", 2), ("c", 3)] {
        commit(&broker, name, &[(0, 0)]);
        broker.with(|cluster| cluster.set_coordinator(name, node)).unwrap();
    }
    let busy = Fault::error(ApiKey::ListGroups, Code::COORDINATOR_LOAD_IN_PROGRESS).node(2).times(2);
    let busy = broker.with(|cluster| cluster.fault(busy));
    let mut groups = groups(&broker);
    let list = tokio::spawn(async move { groups.list().await });
    eventually("the list is tried again", || broker.with(|cluster| cluster.fault_hits(busy)) >= 1).await;
    broker.with(|cluster| cluster.stop_node(2, Leaders::Move)).unwrap();
    let listed = soon("a list", list).await.unwrap().unwrap();
    assert_eq!(listed.iter().map(|group| &group.id[..]).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_member_is_described_with_what_it_has() {
    let broker = brokers(2, &[("t", 3)]).await;
    let member = RawMember::alone(&broker.bootstrap(), "g", "billing-1", "t", &[2, 0]).await;
    let mut groups = groups(&broker);
    let group = soon("a description", groups.describe("g")).await.unwrap();
    assert_eq!(
        (&group.kind, &group.state[..], &group.assignor[..]),
        (&GroupKind::Classic, "Stable", "range")
    );
    assert_eq!(group.protocol_type, "consumer");
    assert_eq!(Some(group.coordinator.node), broker.with(|cluster| cluster.coordinator("g")));
    let [described] = &group.members[..] else { panic!("{group:?}") };
    assert_eq!((&described.id, &described.client_id[..]), (&member.id, "billing-1"));
    assert_eq!(
        (&described.topics[..], &described.partitions[..]),
        (&["t".to_owned()][..], &[at(0), at(2)][..])
    );
}

#[tokio::test]
async fn a_group_that_is_not_there_is_told_of() {
    for options in [ClusterOptions::new(), ClusterOptions::new().versions(ApiKey::DescribeGroups, 0, 5)] {
        let broker = Broker::start(options).await.unwrap();
        let mut groups = groups(&broker);
        let error = soon("an error", groups.describe("nobody")).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::GROUP_ID_NOT_FOUND));
        assert_eq!(error.to_string(), "group nobody does not exist");
        let error = soon("an error", groups.delete("nobody")).await.unwrap_err();
        assert_eq!(error.to_string(), "group nobody does not exist");
    }
}

/// Records of partition p have the times 1,000,000 + offset (ms since 1970).
#[tokio::test]
async fn lag_counts_what_the_log_still_holds_and_tells_the_age_of_the_next_record() {
    let broker = broker(&[("t", 5)]).await;
    for partition in 0..5 {
        fill(&broker, "t", partition, 250);
    }
    broker.with(|cluster| cluster.delete_records("t", 3, 120)).unwrap();
    // In the middle of a batch, at the end, beyond it (as after an unclean election), deleted; partition 4 has none.
    commit(&broker, "g", &[(0, 130), (1, 250), (2, 300), (3, 100)]);
    let mut groups = groups(&broker);
    let before = SystemTime::now();
    let rows = lag(&mut groups, "g").await;
    let after = SystemTime::now();
    let figures: Vec<_> = rows.iter().map(|row| (row.committed, row.earliest, row.end, row.lag)).collect();
    assert_eq!(
        figures,
        [
            (Some(130), Some(0), Some(250), Some(120)),
            (Some(250), Some(0), Some(250), Some(0)),
            (Some(300), Some(0), Some(250), Some(0)),
            (Some(100), Some(120), Some(250), Some(130)),
        ]
    );
    for (row, next) in [(&rows[0], 130), (&rows[3], 120)] {
        let written = UNIX_EPOCH + Duration::from_millis(1_000_000 + next);
        let ages = before.duration_since(written).unwrap()..=after.duration_since(written).unwrap();
        assert!(ages.contains(&row.behind.unwrap()), "{row:?}, not in {ages:?}");
    }
    assert_eq!((rows[1].behind, rows[2].behind), (Some(Duration::ZERO), Some(Duration::ZERO)));
    assert!(rows.iter().all(|row| row.fault.is_none() && row.owner.is_none()));
}

#[tokio::test]
async fn a_partition_without_an_offset_is_told_with_its_owner() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 0, 10);
    let member = RawMember::alone(&broker.bootstrap(), "g", "c", "t", &[0, 1]).await;
    let rows = lag(&mut groups(&broker), "g").await;
    let figures: Vec<_> = rows.iter().map(|row| (row.committed, row.end, row.lag, row.behind)).collect();
    assert_eq!(figures, [(None, Some(10), None, None), (None, Some(0), None, None)]);
    assert!(rows.iter().all(|row| row.owner.as_ref() == Some(&member.id)));
}

#[tokio::test]
async fn what_is_wrong_with_one_partition_is_told_with_it() {
    let broker = broker(&[("t", 2), ("gone", 1)]).await;
    fill(&broker, "t", 1, 10);
    commit(&broker, "g", &[(0, 0), (1, 4)]);
    broker.with(|cluster| {
        cluster.delete_topic("gone").unwrap();
        cluster.commit_offset("g", "gone", 0, 7);
        cluster.set_leader("t", 0, None).unwrap();
    });
    let rows = lag(&mut groups(&broker), "g").await;
    let faults: Vec<_> =
        rows.iter().map(|row| row.fault.as_ref().map(ToString::to_string).unwrap_or_default()).collect();
    assert_eq!(faults, ["topic gone does not exist", "t partition 0 has no leader", ""]);
    assert_eq!(rows.iter().map(|row| row.lag).collect::<Vec<_>>(), [None, None, Some(6)]);
}

/// One batch is larger than what the others leave room for.
#[tokio::test]
async fn the_age_is_told_also_behind_large_batches() {
    let broker = broker(&[("t", 20)]).await;
    for partition in 0..20 {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.push(5000 + i64::from(partition), None, Some(&vec![7; 400_000]), &[]);
        broker.with(|cluster| cluster.append("t", partition, batch.build().unwrap())).unwrap();
        commit(&broker, "g", &[(partition, 0)]);
    }
    let rows = lag(&mut groups(&broker), "g").await;
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.behind.is_some_and(|behind| !behind.is_zero())), "{rows:?}");
}

/// Markers of transactions at the end and in front of a record, and offsets that were compacted away.
#[tokio::test]
async fn the_next_record_is_looked_for_behind_what_is_none() {
    let broker = broker(&[("t", 3)]).await;
    let append = |partition, fill: &dyn Fn(&mut BatchBuilder)| {
        let mut batch = BatchBuilder::new(Codec::None);
        fill(&mut batch);
        broker.with(|cluster| cluster.append("t", partition, batch.build().unwrap())).unwrap();
    };
    let record = |batch: &mut BatchBuilder| {
        batch.push(5000, None, Some(b"x"), &[]);
    };
    let marker = |batch: &mut BatchBuilder| {
        batch.transactional(true).control(true).producer(7, 0, -1);
        batch.push(1, Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 0, 0, 0]), &[]);
    };
    for (partition, batches) in
        [(0, [&record as &dyn Fn(&mut BatchBuilder), &marker]), (1, [&marker, &record])]
    {
        batches.into_iter().for_each(|fill| append(partition, fill));
    }
    append(2, &|batch| record(batch.skip(5)));
    commit(&broker, "g", &[(0, 1), (1, 0), (2, 2)]);
    let started = Instant::now();
    let rows = lag(&mut groups(&broker), "g").await;
    assert_eq!(rows.iter().map(|row| row.lag).collect::<Vec<_>>(), [Some(1), Some(2), Some(4)]);
    let written = UNIX_EPOCH + Duration::from_millis(5000);
    let ages: Vec<_> = rows.iter().map(|row| row.behind.map(|age| SystemTime::now() - age)).collect();
    assert_eq!(ages[0], None, "there is no record");
    for age in &ages[1..] {
        let late = age.unwrap().duration_since(written).unwrap();
        assert!(late < started.elapsed() + Duration::from_millis(1), "{late:?}");
    }
}

#[tokio::test]
async fn offsets_are_looked_up_as_a_reader_finds_them() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 0, 250);
    fill(&broker, "t", 1, 30);
    broker.with(|cluster| cluster.delete_records("t", 0, 50)).unwrap();
    let mut groups = groups(&broker);
    let partitions = groups.partitions("t").await.unwrap();
    assert_eq!(partitions, [at(0), at(1)]);
    let time = |ms| Start::At(UNIX_EPOCH + Duration::from_millis(ms));
    for (start, wanted) in [
        (Start::Earliest, [50, 0]),
        (Start::Latest, [250, 30]),
        (Start::Offset(100), [100, 30]),
        (Start::Offset(0), [50, 0]),
        (Start::Last(20), [230, 10]),
        (Start::Last(1000), [50, 0]),
        (time(1_000_020), [50, 20]),
        (time(1_000_100), [100, 30]),
        (time(2_000_000), [250, 30]),
        (Start::Ago(Duration::from_secs(60)), [250, 30]),
    ] {
        let found = soon("offsets", groups.resolve(&partitions, start)).await.unwrap();
        assert_eq!(found.iter().map(|found| found.offset).collect::<Vec<_>>(), wanted, "{start:?}");
    }
    let error = groups.resolve(&[at(7)], Start::Latest).await.unwrap_err();
    assert_eq!(error.to_string(), "topic t has no partition 7; it has 2 (0 to 1)");
    assert_eq!(groups.partitions("x").await.unwrap_err().to_string(), "topic x does not exist");
}

#[tokio::test]
async fn offsets_are_set_unless_the_group_has_members() {
    let broker = broker(&[("t", 3)]).await;
    let mut groups = groups(&broker);
    groups.set_offsets("g", [(at(0), 10), (at(2), 12)]).await.unwrap();
    assert_eq!(committed(&broker, "g"), [Some(10), None, Some(12)]);
    let member = RawMember::alone(&broker.bootstrap(), "g", "billing-1", "t", &[0]).await;
    for error in [
        soon("a refusal", groups.set_offsets("g", [(at(0), 0)])).await.unwrap_err(),
        soon("a refusal", groups.delete("g")).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Some(Code::NON_EMPTY_GROUP));
        let told = "group g has 1 member (billing-1 at 127.0.0.1); stop it first";
        assert_eq!(error.to_string(), told);
    }
    assert_eq!(committed(&broker, "g"), [Some(10), None, Some(12)]);
    member.leave().await;
    soon("setting", groups.set_offsets("g", [(at(0), 3)])).await.unwrap();
    assert_eq!(committed(&broker, "g"), [Some(3), None, Some(12)]);
    soon("deleting", groups.delete("g")).await.unwrap();
    assert!(broker.with(|cluster| cluster.group("g")).is_none());
}

#[tokio::test]
async fn offsets_that_can_be_none_are_refused_soon() {
    let broker = broker(&[("t", 1)]).await;
    let mut groups = groups(&broker);
    let negative = soon("a refusal", groups.set_offsets("g", [(at(0), -1)])).await.unwrap_err();
    assert_eq!(
        negative.to_string(),
        "t partition 0: offset -1 cannot be committed: offsets are not negative"
    );
    let unknown = soon("a refusal", groups.set_offsets("g", [(at(7), 0)])).await.unwrap_err();
    assert_eq!(unknown.code(), Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(unknown.to_string().starts_with("t partition 7 does not exist"), "{unknown}");
}

#[tokio::test]
async fn a_coordinator_that_moves_or_loads_is_waited_for() {
    let broker = brokers(2, &[("t", 1)]).await;
    let mut groups = groups(&broker);
    groups.set_offsets("g", [(at(0), 1)]).await.unwrap();
    let node = broker.with(|cluster| cluster.coordinator("g")).unwrap();
    broker.with(|cluster| cluster.set_coordinator("g", 3 - node)).unwrap();
    soon("setting", groups.set_offsets("g", [(at(0), 2)])).await.unwrap();
    broker.with(|cluster| cluster.load_coordinator("g"));
    let asked = broker.with(|cluster| cluster.requests(ApiKey::DescribeGroups));
    let setting = tokio::spawn(async move {
        groups.set_offsets("g", [(at(0), 3)]).await.unwrap();
        groups
    });
    eventually("it is tried again", || {
        broker.with(|cluster| cluster.requests(ApiKey::DescribeGroups)) > asked + 1
    })
    .await;
    broker.with(|cluster| cluster.finish_loading("g"));
    let mut groups = soon("setting", setting).await.unwrap();
    assert_eq!(committed(&broker, "g"), [Some(3)]);
    broker.with(|cluster| cluster.stop_node(3 - node, Leaders::Move)).unwrap();
    soon("setting", groups.set_offsets("g", [(at(0), 4)])).await.unwrap();
    assert_eq!(committed(&broker, "g"), [Some(4)]);
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    for (api, code) in [
        (ApiKey::FindCoordinator, Code::COORDINATOR_NOT_AVAILABLE),
        (ApiKey::DescribeGroups, Code::COORDINATOR_LOAD_IN_PROGRESS),
        (ApiKey::OffsetFetch, Code::NOT_COORDINATOR),
        (ApiKey::OffsetCommit, Code::COORDINATOR_NOT_AVAILABLE),
        (ApiKey::ListOffsets, Code::NOT_LEADER_OR_FOLLOWER),
        (ApiKey::Fetch, Code::KAFKA_STORAGE_ERROR),
        (ApiKey::DeleteGroups, Code::COORDINATOR_LOAD_IN_PROGRESS),
        (ApiKey::ListGroups, Code::COORDINATOR_NOT_AVAILABLE),
    ] {
        let error = if api == ApiKey::ListGroups { Fault::error } else { Fault::partition_error };
        for fault in [error(api, code), Fault::close(api), Fault::cut(api, 6)] {
            let broker = broker(&[("t", 1)]).await;
            fill(&broker, "t", 0, 10);
            let fault = broker.with(|cluster| cluster.fault(fault.times(2)));
            let mut groups = groups(&broker);
            soon("setting", groups.set_offsets("g", [(at(0), 4)])).await.unwrap();
            let rows = lag(&mut groups, "g").await;
            assert_eq!((rows[0].lag, rows[0].fault.is_some()), (Some(6), false), "{api:?}: {rows:?}");
            assert!(rows[0].behind.is_some(), "{api:?}");
            assert_eq!(soon("a list", groups.list()).await.unwrap().len(), 1);
            soon("deleting", groups.delete("g")).await.unwrap();
            assert_eq!(broker.with(|cluster| cluster.fault_hits(fault)), 2, "{api:?}");
        }
    }
}

#[tokio::test]
async fn what_does_not_pass_is_told_at_once() {
    for (api, code) in [
        (ApiKey::FindCoordinator, Code::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::DescribeGroups, Code::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::OffsetCommit, Code::TOPIC_AUTHORIZATION_FAILED),
    ] {
        let broker = broker(&[("t", 1)]).await;
        broker.with(|cluster| cluster.fault(Fault::partition_error(api, code).always()));
        let error = soon("an error", groups(&broker).set_offsets("g", [(at(0), 4)])).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{api:?}");
        let told = error.to_string();
        assert!(told.contains("group g") && told.contains("; allow this client to"), "{told}");
    }
}

#[tokio::test]
async fn patience_ends_with_what_was_in_the_way() {
    let broker = broker(&[("t", 1)]).await;
    broker.with(|cluster| cluster.load_coordinator("g"));
    let mut groups = groups(&broker).timeout(Duration::from_millis(300));
    let started = Instant::now();
    let error = soon("an error", groups.describe("g")).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(error.code(), Some(Code::COORDINATOR_LOAD_IN_PROGRESS));
    let told = error.to_string();
    assert!(told.starts_with(&broker.bootstrap()) && told.ends_with("(tried for 0.3 s)"), "{told}");
    broker.with(|cluster| cluster.finish_loading("g"));
    broker.with(|cluster| cluster.fault(Fault::silence(ApiKey::OffsetFetch).always()));
    commit(&broker, "g", &[(0, 0)]);
    let group = soon("a description", groups.describe("g")).await.unwrap();
    let error = soon("an error", groups.lag(&group)).await.unwrap_err();
    assert!(error.is_retriable(), "{error}");
    assert!(error.to_string().contains("no answer to OffsetFetch in time"), "{error}");
}

#[tokio::test]
async fn nobody_reached_is_told_with_each_address() {
    let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (one, other) = (closed(), closed());
    let mut groups = Groups::new(&format!("{one},{other}")).unwrap().timeout(Duration::from_millis(200));
    let error = soon("an error", groups.list()).await.unwrap_err().to_string();
    assert!(error.starts_with("no broker could be reached within 0.2 s: "), "{error}");
    assert!(error.contains(&one) && error.contains(&other) && error.contains("refused"), "{error}");
    for (bootstrap, why) in [("", "no broker is named"), ("a:x", "\"x\"")] {
        assert!(Groups::new(bootstrap).unwrap_err().to_string().contains(why));
    }
}

#[tokio::test]
async fn older_brokers_are_asked_as_they_understand_it() {
    let oldest = [
        (ApiKey::FindCoordinator, 0),
        (ApiKey::ListGroups, 0),
        (ApiKey::DescribeGroups, 0),
        (ApiKey::DeleteGroups, 0),
        (ApiKey::OffsetFetch, 2),
        (ApiKey::OffsetCommit, 2),
        (ApiKey::ListOffsets, 1),
        (ApiKey::Fetch, 4),
        (ApiKey::Metadata, 4),
    ];
    for add in [0, 1, 2, 3, 5, 7] {
        let mut options = ClusterOptions::new();
        for (api, version) in oldest {
            options = options.versions(api, version, (version + add).min(*api.versions().end()));
        }
        let broker = Broker::start(options).await.unwrap();
        broker.with(|cluster| cluster.create_topic("t", 1)).unwrap();
        fill(&broker, "t", 0, 10);
        let mut groups = groups(&broker);
        soon("setting", groups.set_offsets("g", [(at(0), 4)])).await.unwrap();
        let rows = lag(&mut groups, "g").await;
        assert_eq!((rows[0].committed, rows[0].lag), (Some(4), Some(6)), "{add}");
        assert!(rows[0].behind.is_some(), "{add}: {rows:?}");
        assert_eq!(soon("a list", groups.list()).await.unwrap().len(), 1);
        soon("deleting", groups.delete("g")).await.unwrap();
    }
}
