//! The promises of a reader in a group, asked of a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/group.rs"]
mod group_support;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kafka_support::{Kafka, fresh};
use ottla::{
    Builder, Code, CommitOffset, ErrorKind, Group, Message, Range, Reader, Rebalance, RoundRobin, Start,
    Sticky, TopicPartition,
};
use ottla_wire::record::Codec;
use support::{PROMPT, check, soon, within};

/// The shortest that a broker allows unless told.
const SESSION: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_millis(300);
/// Nothing is committed by the clock in a test that sets this.
const NEVER: Duration = Duration::from_secs(3600);

async fn kafka() -> Kafka {
    Kafka::connect("OTTLA_TEST_KAFKA").await
}

/// A topic with so many records in each partition, and a group.
async fn topic_and_group(kafka: &mut Kafka, name: &str, partitions: i32, records: i64) -> (String, String) {
    let topic = kafka.create(name, partitions, &[]).await;
    for partition in 0..partitions {
        kafka.fill(&topic, partition, 0, records, Codec::None).await;
    }
    let group = fresh(name);
    kafka.coordinator(&group).await;
    (topic, group)
}

fn member(kafka: &Kafka, group: &str, topic: &str) -> Builder<Group> {
    let builder = Reader::builder(kafka.bootstrap()).group(group).topics([topic]);
    builder.session_timeout(SESSION).heartbeat_interval(HEARTBEAT)
}

async fn next<K>(reader: &mut Reader<K>) -> Message {
    let message = soon("a message", reader.next()).await.expect("no error").expect("not the end");
    check(&message);
    message
}

async fn take<K>(reader: &mut Reader<K>, count: usize) -> Vec<Message> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(next(reader).await);
    }
    taken
}

/// Acknowledges them, so that they do not come again when the partitions are shared out anew.
fn done(reader: &Reader<Group>, messages: &[Message]) {
    messages.iter().for_each(|message| reader.ack(message).unwrap());
}

fn offsets(messages: &[Message]) -> Vec<i64> {
    messages.iter().map(Message::offset).collect()
}

/// What a reader owns, by topic and number.
fn owned(reader: &Reader<Group>) -> BTreeSet<(String, i32)> {
    let all = reader.control().partitions();
    all.into_iter().map(|at| (at.topic.to_string(), at.partition)).collect()
}

async fn owns(reader: &Reader<Group>, count: usize) -> BTreeSet<(String, i32)> {
    support::eventually(&format!("{count} partitions"), || owned(reader).len() == count).await;
    owned(reader)
}

/// Waits until the group's offset is this.
async fn committed(kafka: &mut Kafka, group: &str, topic: &str, expected: &[i64]) {
    soon(&format!("{expected:?} is committed"), async {
        while kafka.committed(group, topic, expected.len() as i32).await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_goes_on_where_it_stopped() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "resume", 1, 200).await;
    let mut reader = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let messages = take(&mut reader, 60).await;
    done(&reader, &messages);
    soon("close", reader.close()).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 1).await, [60], "what was acknowledged is committed by close");
    assert_eq!(kafka.describe(&group).await.group_state, "Empty", "it has left");

    let mut reader = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let messages = take(&mut reader, 20).await;
    assert_eq!(offsets(&messages), (60..80).collect::<Vec<_>>());
    soon("commit", reader.commit(&messages[4])).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 1).await, [65], "at once, and no further");
    reader.ack_through(&messages[9]).unwrap();
    soon("close", reader.close()).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 1).await, [70]);

    let mut reader = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let batch = soon("a batch", reader.next_batch()).await.unwrap().unwrap();
    soon("commit", reader.commit_batch(&batch)).await.unwrap();
    let after = kafka.committed(&group, &topic, 1).await[0];
    assert!(after > 70, "{after}");
    drop(reader);
    let mut reader = member(&kafka, &group, &topic).commit_interval(HEARTBEAT).open().unwrap();
    let message = within(3 * SESSION, "the group lets go of who was dropped", next(&mut reader)).await;
    assert_eq!(message.offset(), after);
    reader.ack(&message).unwrap();
    committed(&mut kafka, &group, &topic, &[after + 1]).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_members_share_and_each_reads_its_own() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "share", 8, 0).await;
    let mut one = member(&kafka, &group, &topic).open().unwrap();
    owns(&one, 8).await;
    let mut two = member(&kafka, &group, &topic).open().unwrap();
    let (of_one, of_two) = (owns(&one, 4).await, owns(&two, 4).await);
    assert!(of_one.is_disjoint(&of_two), "{of_one:?} {of_two:?}");
    for partition in 0..8 {
        kafka.fill(&topic, partition, 0, 50, Codec::Lz4).await;
    }
    for (reader, owned) in [(&mut one, of_one), (&mut two, of_two)] {
        let mut seen = BTreeMap::<_, i64>::new();
        for message in take(reader, 200).await {
            let next = seen.entry((message.topic().to_owned(), message.partition())).or_default();
            assert_eq!(message.offset(), *next);
            *next += 1;
        }
        assert_eq!(seen.keys().cloned().collect::<BTreeSet<_>>(), owned);
    }
    soon("close", two.close()).await.unwrap();
    owns(&one, 8).await;
    let member = one.control().member().expect("a member");
    assert!(member.leader && member.generation > 1 && !member.id.is_empty(), "{member:?}");
}

#[tokio::test]
#[ignore = "needs a real Kafka from 2.3 on, where members may be static: cargo xtask test"]
async fn kafka_group_a_static_member_comes_back_without_a_rebalance() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "static", 4, 10).await;
    let fixed = || member(&kafka, &group, &topic).instance_id("fixed");
    let one = member(&kafka, &group, &topic).open().unwrap();
    owns(&one, 4).await;
    let two = fixed().open().unwrap();
    let (of_one, of_two) = (owns(&one, 2).await, owns(&two, 2).await);
    let generation = one.control().member().unwrap().generation;
    drop(two);
    let mut two = fixed().open().unwrap();
    assert_eq!(owns(&two, 2).await, of_two);
    assert_eq!(owned(&one), of_one);
    assert_eq!(one.control().member().unwrap().generation, generation);
    take(&mut two, 20).await;

    let _three = fixed().open().unwrap();
    for _ in 0..3 {
        let error = soon("the error", two.next()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::FENCED_INSTANCE_ID), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_a_missing_topic_harms_no_other_and_is_read_when_it_comes() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "present", 2, 10).await;
    let missing = fresh("missing");
    let builder = member(&kafka, &group, &topic).topics([&*missing]);
    let mut reader = builder.metadata_max_age(Duration::from_millis(200)).open().unwrap();
    let messages = take(&mut reader, 20).await;
    done(&reader, &messages);
    let generation = || reader.control().member().unwrap().generation;
    let before = generation();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(generation(), before, "the group does not shake while the topic is missing");
    kafka.create_named(&missing, 1, &[]).await;
    kafka.fill(&missing, 0, 0, 10, Codec::None).await;
    let messages = take(&mut reader, 10).await;
    assert!(messages.iter().all(|message| message.topic() == missing));
    owns(&reader, 3).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_topics_by_pattern_are_read_also_those_that_come_later() {
    let mut kafka = kafka().await;
    let prefix = fresh("pattern");
    let group = fresh("pattern");
    let name = |n: i32| format!("{prefix}-{n}");
    for n in 0..2 {
        kafka.create_named(&name(n), 1, &[]).await;
        kafka.fill(&name(n), 0, 0, 10, Codec::None).await;
    }
    let builder =
        Reader::builder(kafka.bootstrap()).group(&*group).topics_matching(format!("^{prefix}-[0-9]$"));
    let builder = builder.session_timeout(SESSION).heartbeat_interval(HEARTBEAT);
    let mut reader = builder.metadata_max_age(Duration::from_millis(200)).open().unwrap();
    let messages = take(&mut reader, 20).await;
    done(&reader, &messages);
    kafka.create_named(&format!("{prefix}-other"), 1, &[]).await;
    kafka.create_named(&name(2), 1, &[]).await;
    kafka.fill(&name(2), 0, 0, 10, Codec::None).await;
    let messages = take(&mut reader, 10).await;
    assert!(messages.iter().all(|message| message.topic() == name(2)));
    owns(&reader, 3).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_new_partitions_are_read_from_their_beginning_also_under_latest() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "grow", 1, 10).await;
    let builder = member(&kafka, &group, &topic).start(Start::Latest);
    let mut reader = builder.metadata_max_age(Duration::from_millis(200)).open().unwrap();
    committed(&mut kafka, &group, &topic, &[10]).await;
    kafka.add_partitions(&topic, 3).await;
    kafka.fill(&topic, 2, 0, 10, Codec::None).await;
    kafka.fill(&topic, 1, 0, 10, Codec::None).await;
    let mut by_partition = BTreeMap::<_, Vec<_>>::new();
    for message in take(&mut reader, 20).await {
        by_partition.entry(message.partition()).or_default().push(message.offset());
    }
    let all: Vec<_> = (0..10).collect();
    assert_eq!(by_partition, BTreeMap::from([(1, all.clone()), (2, all)]));
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_the_leader_notices_growth_of_topics_that_only_others_read() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "leaders", 1, 0).await;
    let theirs = kafka.create("others", 1, &[]).await;
    let open = |topic: &str| {
        let builder = member(&kafka, &group, topic).metadata_max_age(Duration::from_millis(200));
        builder.open().unwrap()
    };
    let leader = open(&topic);
    owns(&leader, 1).await;
    let mut other = open(&theirs);
    owns(&other, 1).await;
    let leads = || leader.control().member().is_some_and(|member| member.leader);
    support::eventually("the first one leads", leads).await;
    kafka.add_partitions(&theirs, 2).await;
    kafka.fill(&theirs, 1, 0, 5, Codec::None).await;
    assert_eq!(offsets(&take(&mut other, 5).await), [0, 1, 2, 3, 4]);
    assert_eq!(owned(&leader).len(), 1);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_the_subscription_changes_while_it_runs() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "before", 2, 10).await;
    let next_topic = kafka.create("after", 3, &[]).await;
    kafka.fill(&next_topic, 2, 0, 10, Codec::None).await;
    let mut reader = member(&kafka, &group, &topic).open().unwrap();
    let messages = take(&mut reader, 20).await;
    done(&reader, &messages);
    let control = reader.control();
    control.subscribe([&*next_topic]).unwrap();
    let messages = take(&mut reader, 10).await;
    assert!(messages.iter().all(|message| message.topic() == next_topic));
    let owned = owns(&reader, 3).await;
    assert!(owned.iter().all(|(topic, _)| *topic == next_topic), "{owned:?}");
    assert_eq!(kafka.committed(&group, &topic, 2).await, [10, 10], "what was done was committed before");

    done(&reader, &messages);
    let before = control.member().unwrap();
    control.rejoin().unwrap();
    support::eventually("another generation", || {
        control.member().is_some_and(|member| member.generation > before.generation)
    })
    .await;
    assert_eq!(control.member().unwrap().id, before.id);
    owns(&reader, 3).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_offsets_may_be_kept_for_a_time_of_their_own() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "retention", 1, 10).await;
    let builder = member(&kafka, &group, &topic).retention(Duration::from_secs(24 * 3600));
    let mut reader = builder.commit_interval(NEVER).open().unwrap();
    let messages = take(&mut reader, 10).await;
    soon("commit", reader.commit(&messages[6])).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 1).await, [7]);
    reader.ack_through(&messages[8]).unwrap();
    soon("close", reader.close()).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 1).await, [9]);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_latest_loses_nothing_over_a_restart() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "latest", 1, 10).await;
    let open = || member(&kafka, &group, &topic).start(Start::Latest).open().unwrap();
    let reader = open();
    owns(&reader, 1).await;
    soon("where it begins is resolved", async {
        let at = TopicPartition::new(&*topic, 0);
        while reader.control().position(&at).unwrap() != Some(10) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    soon("close", reader.close()).await.unwrap();
    let mut other = Kafka::at(kafka.bootstrap().to_owned()).await;
    other.fill(&topic, 0, 10, 5, Codec::None).await;
    let mut reader = open();
    assert_eq!(offsets(&take(&mut reader, 5).await), [10, 11, 12, 13, 14]);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_what_is_held_of_a_partition_that_moved_cannot_be_committed() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "held", 2, 10).await;
    let mut one = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let mut held = BTreeMap::new();
    while held.len() < 2 {
        let message = next(&mut one).await;
        held.entry(message.partition()).or_insert(message);
    }
    let mut two = member(&kafka, &group, &topic).open().unwrap();
    let moved = owns(&two, 1).await.pop_first().unwrap().1;
    let at = TopicPartition::new(&*topic, moved);
    owns(&one, 1).await;
    // The new owner has moved the group's offset.
    let messages = take(&mut two, 5).await;
    soon("commit", two.commit(&messages[4])).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 2).await[moved as usize], 5);

    let held = &held[&moved];
    let errors = [
        one.ack(held).unwrap_err(),
        one.ack_through(held).unwrap_err(),
        soon("commit", one.commit(held)).await.unwrap_err(),
        one.nack(held).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        assert_eq!((error.partition(), error.offset()), (Some(&at), Some(held.offset())), "{error}");
        assert!(error.to_string().contains("given up"), "{error}");
        assert!(!error.is_closed() && !error.is_retriable(), "{error}");
    }
    soon("close", one.close()).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 2).await[moved as usize], 5, "it stays");
    owns(&two, 2).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_acks_out_of_order_commit_only_what_is_done_and_a_nack_brings_it_back() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "frontier", 1, 20).await;
    let mut reader = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let messages = take(&mut reader, 10).await;
    for n in [3, 1, 0, 9, 8, 4, 5] {
        reader.ack(&messages[n]).unwrap();
    }
    reader.nack(&messages[2]).unwrap();
    assert_eq!(offsets(&take(&mut reader, 3).await), [2, 3, 4], "it comes back, and what is behind it");
    soon("close", reader.close()).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 1).await, [2], "2 was handed out and not acknowledged");

    let mut reader = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let messages = take(&mut reader, 4).await;
    assert_eq!(offsets(&messages), [2, 3, 4, 5]);
    reader.control().seek(&messages[0].topic_partition(), Start::Offset(15)).unwrap();
    assert_eq!(next(&mut reader).await.offset(), 15);
    reader.control().seek(&messages[0].topic_partition(), Start::Earliest).unwrap();
    assert_eq!(next(&mut reader).await.offset(), 0);
    soon("close", reader.close()).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_close_is_prompt_and_what_comes_after_it_is_told() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "close", 4, 10).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let builder = member(&kafka, &group, &topic).max_wait(Duration::from_secs(60));
    let mut reader = builder.open().unwrap();
    let messages = take(&mut reader, 40).await;
    done(&reader, &messages);
    let control = reader.control();
    let begin = Instant::now();
    within(10 * Duration::from_millis(200), "close", reader.close()).await.unwrap();
    println!("close: {:?}", begin.elapsed());
    assert_eq!(kafka.committed(&group, &topic, 4).await, [10; 4]);
    assert_eq!(metrics.num_alive_tasks(), before, "nothing is left running");
    let errors = [
        control.ack(&messages[0]).unwrap_err(),
        within(PROMPT, "a commit after close", control.commit(&messages[0])).await.unwrap_err(),
        within(PROMPT, "committed after close", control.committed(&[messages[0].topic_partition()]))
            .await
            .unwrap_err(),
    ];
    errors.iter().for_each(|error| assert!(error.is_closed(), "{error}"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_an_idle_group_takes_in_and_lets_go_within_a_heartbeat() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "idle", 12, 0).await;
    let heartbeat = Duration::from_secs(3);
    let idle = || {
        let builder = Reader::builder(kafka.bootstrap()).group(&*group).topics([&*topic]);
        builder.heartbeat_interval(heartbeat).max_wait(Duration::from_secs(60)).open().unwrap()
    };
    let three = [idle(), idle(), idle()];
    for reader in &three {
        owns(reader, 4).await;
    }
    let begin = Instant::now();
    let fourth = idle();
    for reader in three.iter().chain([&fourth]) {
        owns(reader, 3).await;
    }
    let joined = begin.elapsed();
    let begin = Instant::now();
    soon("close", fourth.close()).await.unwrap();
    for reader in &three {
        owns(reader, 4).await;
    }
    let left = begin.elapsed();
    println!("stable {joined:?} after a join, {left:?} after a leave; heartbeats every {heartbeat:?}");
    assert!(joined.max(left) < heartbeat + 5 * PROMPT, "{joined:?} {left:?}");
}

#[tokio::test]
#[ignore = "needs a real Kafka from 2.1 on, where commits carry leader epochs: cargo xtask test"]
async fn kafka_group_commits_by_hand_carry_what_they_are_given_and_may_go_back() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "by-hand", 2, 10).await;
    let reader = member(&kafka, &group, &topic).commit_start(false).open().unwrap();
    owns(&reader, 2).await;
    let (control, at) = (reader.control(), TopicPartition::new(&*topic, 1));
    let all = [TopicPartition::new(&*topic, 0), at.clone()];
    let found = soon("committed", control.committed(&all)).await.unwrap();
    assert!(found.iter().all(|(_, committed)| committed.is_none()), "{found:?}");
    for offset in [7, 3] {
        let commit = CommitOffset { offset, leader_epoch: 0, metadata: format!("as of {offset}") };
        soon("commit", reader.commit_offsets([(at.clone(), commit)])).await.unwrap();
        let stored = &kafka.commits(&group, &topic, 2).await[1];
        assert_eq!((stored.committed_offset, stored.committed_leader_epoch), (offset, 0));
        assert_eq!(stored.metadata.as_deref(), Some(&*format!("as of {offset}")));
        let found = soon("committed", control.committed(&all)).await.unwrap();
        assert_eq!((&found[0].0, &found[1].0), (&all[0], &all[1]));
        assert!(found[0].1.is_none(), "{found:?}");
        let of_one = found[1].1.as_ref().unwrap();
        assert_eq!((of_one.offset, of_one.leader_epoch), (offset, 0));
        assert_eq!(of_one.metadata, format!("as of {offset}"));
    }
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_a_fatal_answer_comes_at_once_and_every_time() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "fatal", 1, 1).await;
    // The broker allows half an hour.
    let builder = member(&kafka, &group, &topic).session_timeout(Duration::from_secs(24 * 3600));
    let mut reader = builder.open().unwrap();
    let begin = Instant::now();
    for _ in 0..3 {
        let error = within(5 * PROMPT, "the error", reader.next()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::INVALID_SESSION_TIMEOUT), "{error}");
        assert!(!error.is_retriable() && !error.is_closed(), "{error}");
    }
    println!("told after {:?}", begin.elapsed());

    let other = member(&kafka, &group, &topic).assignors([Arc::new(Sticky) as _]).open().unwrap();
    owns(&other, 1).await;
    let mut reader = member(&kafka, &group, &topic).assignors([Arc::new(Range) as _]).open().unwrap();
    for _ in 0..3 {
        let error = soon("the error", reader.next()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::INCONSISTENT_GROUP_PROTOCOL), "{error}");
    }
}

/// What a hook was called with, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn note(&self, rebalance: &Rebalance) {
        self.0.lock().unwrap().push(match rebalance {
            Rebalance::Assigned(assigned) => format!("assigned {}", assigned.partitions().len()),
            Rebalance::Revoked(revoked) => format!("revoked {}", revoked.partitions().len()),
            Rebalance::Lost(lost) => format!("lost {}", lost.partitions().len()),
        });
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_a_slow_revoke_keeps_its_membership_and_what_it_did_is_committed_before_it_ends() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "revoke", 2, 100).await;
    let (told, pause) = (Told::default(), SESSION + 3 * HEARTBEAT);
    let notes = told.clone();
    // A join is waited for as long as the slowest member may take, whatever other requests are given.
    let short = Duration::from_secs(2);
    let builder = member(&kafka, &group, &topic).rebalance_timeout(5 * SESSION).request_timeout(short);
    let hook = move |rebalance: Rebalance| {
        notes.note(&rebalance);
        async move {
            if let Rebalance::Revoked(revoked) = &rebalance {
                assert!(revoked.deadline() > Instant::now() + pause);
                tokio::time::sleep(pause).await;
                revoked.commit().await.unwrap();
            }
        }
    };
    let mut one = builder.commit_interval(NEVER).on_rebalance(hook).open().unwrap();
    let mut done = BTreeMap::<_, i64>::new();
    for message in take(&mut one, 150).await {
        one.ack(&message).unwrap();
        *done.entry(message.partition()).or_default() = message.offset() + 1;
    }
    let begin = Instant::now();
    let mut two = member(&kafka, &group, &topic).request_timeout(short).open().unwrap();
    let moved = owns(&two, 1).await.pop_first().unwrap().1;
    assert!(begin.elapsed() > pause, "the revoke was waited for: {:?}", begin.elapsed());
    let from = done.get(&moved).copied().unwrap_or(0);
    if from < 100 {
        assert_eq!(next(&mut two).await.offset(), from, "nothing that was acknowledged comes again");
    }
    assert_eq!(kafka.committed(&group, &topic, 2).await[moved as usize], from);
    owns(&one, 1).await;
    assert_eq!(told.all(), ["assigned 2", "revoked 2", "assigned 1"], "and nothing was lost");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_a_member_that_joins_under_load_repeats_only_what_was_not_acknowledged() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "handover", 8, 2000).await;
    let mut one = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let acked = Arc::<Mutex<BTreeMap<i32, i64>>>::default();
    let notes = acked.clone();
    let reading = tokio::spawn(async move {
        let mut fenced = 0;
        loop {
            let message = match one.next().await {
                Ok(message) => message.unwrap(),
                Err(error) => panic!("{error}"),
            };
            match one.ack(&message) {
                Ok(()) => drop(notes.lock().unwrap().insert(message.partition(), message.offset() + 1)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Fenced);
                    fenced += 1;
                }
            }
            assert!(fenced < 2, "after the revoke nothing of the partition is handed out");
            tokio::task::yield_now().await;
        }
    });
    support::eventually("the first has begun", || acked.lock().unwrap().values().sum::<i64>() > 500).await;
    let mut two = member(&kafka, &group, &topic).open().unwrap();
    let moved = owns(&two, 4).await;
    let done = acked.lock().unwrap().clone();
    let mut first = BTreeMap::new();
    let left = |partition: i32| done.get(&partition).copied().unwrap_or(0) < 2000;
    let expected = moved.iter().filter(|(_, partition)| left(*partition)).count();
    while first.len() < expected {
        let message = next(&mut two).await;
        first.entry(message.partition()).or_insert(message.offset());
    }
    for (partition, offset) in first {
        assert_eq!(offset, done.get(&partition).copied().unwrap_or(0), "partition {partition}");
    }
    reading.abort();
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_a_member_that_stops_asking_gives_its_partitions_up() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "stuck", 2, 10).await;
    let interval = Duration::from_secs(1);
    let mut stuck = member(&kafka, &group, &topic).max_poll_interval(interval).open().unwrap();
    let held = next(&mut stuck).await;
    let other = member(&kafka, &group, &topic).open().unwrap();
    owns(&other, 2).await;
    let error = stuck.ack(&held).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    // It asks again, and so is a member again.
    let message = next(&mut stuck).await;
    assert_eq!(owned(&stuck).len(), 1);
    stuck.ack(&message).unwrap();
    owns(&other, 1).await;
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_round_robin_goes_on_from_topic_to_topic() {
    let mut kafka = kafka().await;
    let group = fresh("spread");
    let mut topics = Vec::new();
    for n in 0..10 {
        topics.push(kafka.create(&format!("spread-{n}"), 1, &[]).await);
    }
    let open = || {
        let builder = Reader::builder(kafka.bootstrap()).group(&*group).topics(&topics);
        let builder = builder.assignors([Arc::new(RoundRobin) as _]);
        builder.session_timeout(SESSION).heartbeat_interval(HEARTBEAT).open().unwrap()
    };
    let three = [open(), open(), open()];
    support::eventually("ten topics are spread over three members", || {
        let mut counts: Vec<_> = three.iter().map(|reader| owned(reader).len()).collect();
        counts.sort_unstable();
        counts == [3, 3, 4]
    })
    .await;
    let all: BTreeSet<_> = three.iter().flat_map(owned).collect();
    assert_eq!(all.len(), 10);
    assert_eq!(three[0].control().member().unwrap().protocol, "roundrobin");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_commits_that_wait_together_are_answered_also_when_another_member_joins() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "together", 1, 300).await;
    let mut one = member(&kafka, &group, &topic).commit_interval(NEVER).open().unwrap();
    let messages = take(&mut one, 300).await;
    let control = one.control();
    let commit = |message: &Message| {
        let (control, message) = (control.clone(), message.clone());
        tokio::spawn(async move { control.commit(&message).await })
    };
    let begin = Instant::now();
    let waiting: Vec<_> = messages[..200].iter().rev().map(commit).collect();
    for task in waiting {
        soon("an answer", task).await.unwrap().unwrap();
    }
    println!("200 commits: {:?}", begin.elapsed());
    assert_eq!(kafka.committed(&group, &topic, 1).await, [200], "the highest, whatever their order");

    let two = member(&kafka, &group, &topic).open().unwrap();
    let mut waiting = Vec::new();
    // For longer than it takes the first to hear of the second.
    for message in &messages[200..] {
        waiting.push(commit(message));
        tokio::time::sleep(HEARTBEAT / 50).await;
    }
    let mut answers = [0, 0];
    for task in waiting {
        match soon("an answer", task).await.unwrap() {
            Ok(()) => answers[0] += 1,
            Err(error) if error.kind() == ErrorKind::Fenced => answers[1] += 1,
            Err(error) => panic!("{error}"),
        }
    }
    println!("while another one joined: {} worked, {} were fenced", answers[0], answers[1]);
    kafka.stable(&group, 2).await;
    drop(two);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_offsets_kept_elsewhere_come_through_the_hook() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "database", 2, 10).await;
    let builder = member(&kafka, &group, &topic).commit_start(false);
    let mut reader = builder
        .on_rebalance(|rebalance| async move {
            if let Rebalance::Assigned(assigned) = &rebalance {
                for at in assigned.partitions() {
                    assigned.start_at(at, Start::Offset(7 + i64::from(at.partition))).unwrap();
                }
            }
        })
        .open()
        .unwrap();
    let mut seen: Vec<_> = take(&mut reader, 5).await.iter().map(|m| (m.partition(), m.offset())).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(0, 7), (0, 8), (0, 9), (1, 8), (1, 9)]);
    soon("close", reader.close()).await.unwrap();
    assert_eq!(kafka.committed(&group, &topic, 2).await, [-1, -1], "the group has no part in it");
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_done_when_the_next_one_is_asked_for() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "auto", 1, 10).await;
    let open = || member(&kafka, &group, &topic).auto_ack().commit_interval(NEVER).open().unwrap();
    let mut reader = open();
    take(&mut reader, 5).await;
    soon("close", reader.close()).await.unwrap();
    let mut other = Kafka::at(kafka.bootstrap().to_owned()).await;
    assert_eq!(other.committed(&group, &topic, 1).await, [4], "the fifth may not be done");
    assert_eq!(next(&mut open()).await.offset(), 4);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_group_named_partitions_keep_their_offsets_in_a_group_without_membership() {
    let mut kafka = kafka().await;
    let (topic, group) = topic_and_group(&mut kafka, "stored", 2, 10).await;
    let open = || {
        let builder = Reader::builder(kafka.bootstrap()).topic(&*topic).partition(1);
        builder.stored_in(&*group).commit_interval(NEVER).open().unwrap()
    };
    let mut reader = open();
    let messages = take(&mut reader, 10).await;
    soon("commit", reader.commit(&messages[3])).await.unwrap();
    reader.ack_through(&messages[5]).unwrap();
    soon("close", reader.close()).await.unwrap();
    let mut other = Kafka::at(kafka.bootstrap().to_owned()).await;
    assert_eq!(other.committed(&group, &topic, 2).await, [-1, 6]);
    assert!(other.describe(&group).await.members.is_empty());
    assert_eq!(next(&mut open()).await.offset(), 6);
}
