//! Reading as a member of a group, against the embedded broker.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use ottla::{Assignor, ErrorKind, Event, Group, Reader, RoundRobin, Start, Sticky, TopicPartition};
use ottla_broker::{ApiKey, Code, Fault};
use ottla_wire::message::{JoinGroupRequest, OffsetCommitRequest};
use support::{commits, committed, eventually, fill, group_broker, member, nothing, offsets, owns, soon};
use tokio::task::JoinSet;

#[tokio::test]
async fn a_member_goes_on_where_the_one_before_has_stopped() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    for _ in 0..5 {
        let message = support::next(&mut reader).await;
        reader.ack(&message).unwrap();
    }
    assert_eq!(offsets(&mut reader, 2).await, [5, 6]);
    soon("close", reader.close()).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(5));
    let mut reader = member(&broker).open().unwrap();
    assert_eq!(offsets(&mut reader, 5).await, [5, 6, 7, 8, 9]);
}

#[tokio::test]
async fn two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves() {
    let broker = group_broker(1, &[("t", 4)]).await;
    (0..4).for_each(|partition| fill(&broker, "t", partition, 10));
    let first = member(&broker).open().unwrap();
    owns(&first.control(), 4).await;
    let mut second = member(&broker).open().unwrap();
    let (ours, theirs) = (owns(&second.control(), 2).await, owns(&first.control(), 2).await);
    let all: BTreeSet<_> = ours.iter().chain(&theirs).cloned().collect();
    assert_eq!(all.len(), 4, "no partition is read by both");
    for _ in 0..20 {
        let message = support::next(&mut second).await;
        assert!(ours.contains(&message.topic_partition()));
        second.ack(&message).unwrap();
    }
    soon("close", first.close()).await.unwrap();
    owns(&second.control(), 4).await;
    let rest: BTreeSet<(i32, i64)> = {
        let mut rest = BTreeSet::new();
        while rest.len() < 20 {
            let message = support::next(&mut second).await;
            rest.insert((message.partition(), message.offset()));
        }
        rest
    };
    assert!(rest.iter().all(|(partition, _)| theirs.contains(&TopicPartition::new("t", *partition))));
}

#[tokio::test]
async fn a_member_says_who_it_is_what_it_reads_and_how_far_it_is_behind() {
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 10));
    let mut reader = member(&broker).open().unwrap();
    let control = reader.control();
    owns(&control, 2).await;
    let told = control.member().unwrap();
    let seen = broker.with(|c| c.group("g")).unwrap();
    assert_eq!((&told.id, told.generation, told.leader), (&seen.members[0].id, seen.generation, true));
    assert_eq!(told.protocol, "range");
    let mut left = 20;
    while left > 4 {
        support::next(&mut reader).await;
        left -= 1;
    }
    let lags = control.lags();
    assert_eq!(lags.len(), 2);
    assert_eq!(lags.iter().map(|(_, lag)| lag.unwrap()).sum::<u64>(), 4);
    for (at, lag) in lags {
        assert_eq!(control.lag(&at).unwrap(), lag);
    }
    control.close();
    assert_eq!(soon("closed", reader.next()).await.unwrap_err().kind(), ErrorKind::Closed);
    eventually("it has left", || control.member().is_none()).await;
}

#[tokio::test]
async fn a_partition_that_is_not_assigned_cannot_be_sought_or_committed() {
    let broker = group_broker(1, &[("t", 2)]).await;
    let (first, second) = (member(&broker).open().unwrap(), member(&broker).open().unwrap());
    let theirs = owns(&second.control(), 1).await;
    owns(&first.control(), 1).await;
    let control = first.control();
    let error = control.seek(&theirs[0], Start::Earliest).unwrap_err();
    assert_eq!((error.kind(), error.partition()), (ErrorKind::NotRead, Some(&theirs[0])));
    let offset = ottla::CommitOffset { offset: 3, ..ottla::CommitOffset::default() };
    let error = soon("commit", control.commit_offsets([(theirs[0].clone(), offset)])).await.unwrap_err();
    assert_eq!((error.kind(), error.partition()), (ErrorKind::NotRead, Some(&theirs[0])));
    println!("{error}");
}

#[tokio::test]
async fn a_subscription_is_changed_while_running() {
    let broker = group_broker(1, &[("t", 1), ("u", 1)]).await;
    ["t", "u"].iter().for_each(|topic| fill(&broker, topic, 0, 5));
    let mut reader = member(&broker).open().unwrap();
    let control = reader.control();
    for _ in 0..3 {
        let message = support::next(&mut reader).await;
        reader.ack(&message).unwrap();
    }
    control.subscribe(["u"]).unwrap();
    let message = support::next(&mut reader).await;
    assert_eq!((message.topic(), message.offset()), ("u", 0));
    assert_eq!(committed(&broker, 0), Some(3), "what was read before is committed before it is given up");
    assert_eq!(control.partitions(), [TopicPartition::new("u", 0)]);
    control.subscribe(["t", "u"]).unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 7 {
        let message = support::next(&mut reader).await;
        seen.insert((message.topic().to_owned(), message.offset()));
    }
    assert!(!seen.contains(&("t".to_owned(), 2)), "it goes on where it was");
    for (names, fault) in [(&["a/b"][..], "characters other than"), (&[], "no topic is named")] {
        let error = control.subscribe(names.iter().copied()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(fault), "{error}");
    }
}

#[tokio::test]
async fn topics_that_match_whole_are_read_also_those_made_later() {
    let broker = group_broker(1, &[("orders-1", 1), ("my-orders-1", 1), ("refunds", 1)]).await;
    ["orders-1", "my-orders-1", "refunds"].iter().for_each(|topic| fill(&broker, topic, 0, 1));
    let mut reader = Reader::builder(broker.bootstrap())
        .group("g")
        .topics_matching("orders-.*")
        .topics_matching("ref.nds")
        .heartbeat_interval(Duration::from_millis(20))
        .metadata_max_age(Duration::from_millis(50))
        .open()
        .unwrap();
    let mut topics = BTreeSet::new();
    while topics.len() < 2 {
        topics.insert(support::next(&mut reader).await.topic().to_owned());
    }
    assert_eq!(topics, BTreeSet::from(["orders-1".to_owned(), "refunds".to_owned()]));
    broker.with(|c| c.create_topic("orders-2", 1)).unwrap();
    fill(&broker, "orders-2", 0, 1);
    soon("the new topic", async { while support::next(&mut reader).await.topic() != "orders-2" {} }).await;
}

#[tokio::test]
async fn a_reader_without_a_group_reads_what_matches_too() {
    let broker = group_broker(1, &[("a1", 1), ("b", 1)]).await;
    ["a1", "b"].iter().for_each(|topic| fill(&broker, topic, 0, 1));
    let mut reader = Reader::builder(broker.bootstrap())
        .topics_matching("a[0-9]")
        .metadata_max_age(Duration::from_millis(50))
        .open()
        .unwrap();
    assert_eq!(support::next(&mut reader).await.topic(), "a1");
    nothing(&mut reader, Duration::from_millis(200)).await;
}

#[tokio::test]
async fn assignors_are_offered_in_their_order_and_one_is_agreed_on() {
    let broker = group_broker(1, &[("t", 2)]).await;
    let assignors = [Arc::new(Sticky) as Arc<dyn Assignor>, Arc::new(RoundRobin)];
    let first = member(&broker).assignors(assignors).open().unwrap();
    owns(&first.control(), 2).await;
    assert_eq!(first.control().member().unwrap().protocol, "sticky");
    assert_eq!(broker.with(|c| c.group("g")).unwrap().members[0].protocols, ["sticky", "roundrobin"]);
    let second = member(&broker).open().unwrap(); // range and round-robin
    owns(&second.control(), 1).await;
    owns(&first.control(), 1).await;
    assert_eq!(second.control().member().unwrap().protocol, "roundrobin");
}

#[tokio::test]
async fn what_is_configured_is_asked_for() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    // Retention is named in versions 2 to 4.
    broker.with(|c| c.set_versions(ApiKey::OffsetCommit, Some((2, 4))));
    let mut reader = member(&broker)
        .session_timeout(Duration::from_millis(12_345))
        .rebalance_timeout(Duration::from_millis(23_456))
        .retention(Duration::from_secs(3600))
        .open()
        .unwrap();
    let message = support::next(&mut reader).await;
    soon("commit", reader.commit(&message)).await.unwrap();
    let (join, commit) = broker.with(|c| {
        let join = c.received().find_map(|r| r.request::<JoinGroupRequest>()).unwrap();
        (join, c.received().find_map(|r| r.request::<OffsetCommitRequest>()).unwrap())
    });
    assert_eq!((join.session_timeout_ms, join.rebalance_timeout_ms), (12_345, 23_456));
    assert_eq!(commit.retention_time_ms, 3_600_000);
}

#[tokio::test]
async fn a_static_member_keeps_its_place_over_a_restart() {
    let broker = group_broker(1, &[("t", 2)]).await;
    let builder = |id: &str| member(&broker).instance_id(id);
    let (first, second) = (builder("one").open().unwrap(), builder("two").open().unwrap());
    let before = owns(&first.control(), 1).await;
    owns(&second.control(), 1).await;
    let generation = broker.with(|c| c.group("g")).unwrap().generation;
    soon("close", first.close()).await.unwrap();
    let first = builder("one").open().unwrap();
    assert_eq!(owns(&first.control(), 1).await, before);
    let instances = broker.with(|c| c.group("g")).unwrap().members.into_iter().map(|m| m.instance.unwrap());
    assert_eq!(instances.collect::<BTreeSet<_>>(), BTreeSet::from(["one".to_owned(), "two".to_owned()]));
    assert_eq!(broker.with(|c| c.group("g")).unwrap().generation, generation, "without a rebalance");
}

#[tokio::test]
async fn a_refusal_for_good_reaches_the_caller_every_time_until_it_is_lifted() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    let refused = Fault::error(ApiKey::JoinGroup, Code::GROUP_AUTHORIZATION_FAILED).always();
    let refused = broker.with(|c| c.fault(refused));
    let mut reader = member(&broker).open().unwrap();
    for _ in 0..3 {
        let error = soon("the refusal", reader.next()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.code(), Some(Code::GROUP_AUTHORIZATION_FAILED));
        assert!(error.to_string().contains("group g"), "{error}");
    }
    broker.with(|c| c.clear_fault(refused));
    let message = soon("a message", async {
        loop {
            if let Ok(message) = reader.next().await {
                break message.unwrap();
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(message.offset(), 0);
}

#[tokio::test]
async fn a_caller_that_does_not_ask_gives_its_partitions_up_until_it_does() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut silent = member(&broker).max_poll_interval(Duration::from_millis(200)).open().unwrap();
    let mut events = silent.events();
    let message = support::next(&mut silent).await;
    soon("it is noticed", async {
        while !matches!(events.next().await.unwrap(), Event::ReaderSilent { .. }) {}
    })
    .await;
    let mut other = member(&broker).open().unwrap();
    assert_eq!(support::next(&mut other).await.offset(), 0);
    assert_eq!(silent.ack(&message).unwrap_err().kind(), ErrorKind::Fenced);
    soon("close", other.close()).await.unwrap();
    assert_eq!(support::next(&mut silent).await.offset(), 0, "it reads again as soon as it asks");
}

#[tokio::test]
async fn a_rejoin_is_seen_by_the_group() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let reader = member(&broker).open().unwrap();
    let control = reader.control();
    owns(&control, 1).await;
    let before = control.member().unwrap().generation;
    control.rejoin().unwrap();
    eventually("a new generation", || control.member().is_some_and(|m| m.generation > before)).await;
    let reason =
        broker.with(|c| c.received().rev().find_map(|r| r.request::<JoinGroupRequest>())).unwrap().reason;
    assert_eq!(reason.as_deref(), Some("the caller wants it"));
}

#[tokio::test]
async fn latest_loses_nothing_between_two_readers_unless_told_not_to_commit_the_start() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 5);
    let reader = member(&broker).start(Start::Latest).open().unwrap();
    commits(&broker, 0, 5).await;
    soon("close", reader.close()).await.unwrap();
    fill(&broker, "t", 0, 5);
    let mut reader = member(&broker).start(Start::Latest).open().unwrap();
    assert_eq!(support::next(&mut reader).await.offset(), 5);

    let builder = || {
        Reader::builder(broker.bootstrap()).group("other").topic("t").start(Start::Latest).commit_start(false)
    };
    let reader = builder().open().unwrap();
    let at = TopicPartition::new("t", 0);
    eventually("it has begun", || reader.control().position(&at).is_ok_and(|p| p == Some(10))).await;
    soon("close", reader.close()).await.unwrap();
    assert_eq!(broker.with(|c| c.committed("other", "t", 0)), None);
}

#[tokio::test]
async fn offsets_of_a_transaction_that_is_not_over_are_waited_for_unless_told_not_to() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 5);
    broker.with(|c| {
        c.commit_offset("g", "t", 0, 2);
        c.set_unstable("g", "t", 0, true);
    });
    let mut hasty = member(&broker).require_stable(false).commit_start(false).open().unwrap();
    assert_eq!(support::next(&mut hasty).await.offset(), 2);
    hasty.close().await.unwrap();
    let mut reader = member(&broker).open().unwrap();
    nothing(&mut reader, Duration::from_millis(200)).await;
    broker.with(|c| {
        c.set_unstable("g", "t", 0, false);
        c.commit_offset("g", "t", 0, 4);
    });
    assert_eq!(support::next(&mut reader).await.offset(), 4);
}

/// Where the group stands never lies beyond a message that no worker has finished, whatever happens around it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_committed_that_is_not_done_whatever_the_threads_do() {
    const RECORDS: i64 = 2000;
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, RECORDS));
    let done: Arc<Done> = Arc::default();
    let mut members = JoinSet::new();
    for seed in 0..2 {
        let builder = member(&broker).max_bytes(5000).rebalance_timeout(Duration::from_secs(2));
        members.spawn(work(builder.open().unwrap(), done.clone(), seed));
    }
    soon("all is committed", async {
        loop {
            let stands = [0, 1].map(|partition| committed(&broker, partition).unwrap_or(0));
            for (partition, stands) in stands.iter().enumerate() {
                let done = done[partition].lock().unwrap();
                let undone = (0..*stands).find(|offset| !done.contains(offset));
                assert_eq!(undone, None, "partition {partition} is committed up to {stands}");
            }
            if stands == [RECORDS; 2] {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    members.shutdown().await;
}

/// By partition, the offsets that somebody has finished.
type Done = [Mutex<HashSet<i64>>; 2];

/// Finishes messages in any order, takes some back, and shakes the group now and then.
async fn work(mut reader: Reader<Group>, done: Arc<Done>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut workers = JoinSet::new();
    loop {
        let message = reader.next().await.unwrap().unwrap();
        let (control, done) = (reader.control(), done.clone());
        let (pause, fate) = (Duration::from_micros(rng.u64(0..2000)), rng.u32(0..1000));
        workers.spawn(async move {
            tokio::time::sleep(pause).await;
            if fate < 10 {
                return control.nack(&message);
            }
            done[message.partition() as usize].lock().unwrap().insert(message.offset());
            control.ack(&message)
        });
        if fate >= 995 {
            reader.control().rejoin().unwrap();
        }
        while workers.len() >= 16 {
            match workers.join_next().await.unwrap().unwrap() {
                Err(error) if error.kind() != ErrorKind::Fenced => panic!("{error}"),
                _ => {}
            }
        }
    }
}
