//! Acknowledging and committing: what is committed, when, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::time::Duration;

use ottla::{
    CommitOffset, Committed, Error, ErrorKind, Event, Message, Reader, Start, Stored, TopicPartition,
};
use ottla_broker::{ApiKey, Broker, Code, Fault};
use support::{commits, committed, eventually, fill, group_broker, member, next, offsets, owns, soon};
use tokio::task::JoinSet;

/// The time in which everything that was acknowledged would long have been committed.
const INTERVALS: Duration = Duration::from_millis(200);

async fn messages<K>(reader: &mut Reader<K>, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    for _ in 0..count {
        messages.push(next(reader).await);
    }
    messages
}

fn fenced(result: Result<(), Error>, offset: i64) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(error.partition(), Some(&TopicPartition::new("t", 0)));
    assert_eq!(error.offset(), Some(offset));
    assert!(error.to_string().contains("t partition 0 was given up"), "{error}");
}

#[tokio::test]
async fn what_is_acknowledged_in_any_order_is_committed_up_to_the_first_gap() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let messages = messages(&mut reader, 10).await;
    for index in [3, 1, 0, 5, 9] {
        reader.ack(&messages[index]).unwrap();
    }
    commits(&broker, 0, 2).await;
    tokio::time::sleep(INTERVALS).await;
    assert_eq!(committed(&broker, 0), Some(2), "2 is not acknowledged");
    reader.ack(&messages[2]).unwrap();
    commits(&broker, 0, 4).await;
    reader.ack_through(&messages[7]).unwrap();
    commits(&broker, 0, 8).await;
    reader.ack(&messages[8]).unwrap();
    commits(&broker, 0, 10).await;
    let offsets: Vec<i64> = broker.with(|c| c.commits("g")).iter().map(|commit| commit.offset).collect();
    assert!(offsets.is_sorted(), "never backwards: {offsets:?}");
}

#[tokio::test]
async fn offsets_that_the_log_does_not_hold_hold_up_nothing() {
    let broker = group_broker(1, &[("t", 1)]).await;
    // Batches of 10 offsets, in which the first three records and the last are there.
    for base in [0, 10, 20] {
        broker.with(|c| c.append("t", 0, compacted(base))).unwrap();
    }
    let mut reader = member(&broker).open().unwrap();
    let got = messages(&mut reader, 6).await;
    assert_eq!(got.iter().map(Message::offset).collect::<Vec<_>>(), [0, 1, 2, 10, 11, 12]);
    for message in got.iter().rev() {
        reader.ack(message).unwrap();
    }
    // What lies behind the last one may yet hold records for all that is known.
    eventually("up to what was handed out", || committed(&broker, 0).is_some_and(|o| o >= 13)).await;
    let rest = messages(&mut reader, 3).await;
    rest.iter().for_each(|message| reader.ack(message).unwrap());
    assert!(tokio::time::timeout(INTERVALS, reader.next()).await.is_err());
    commits(&broker, 0, 30).await;
}

/// A batch of ten offsets from `base` on, of which compaction has left three.
fn compacted(base: i64) -> Vec<u8> {
    let mut batch = support::batch(ottla_wire::record::Codec::None, 0, base, 3);
    batch[23..27].copy_from_slice(&9_i32.to_be_bytes()); // the last offset's delta
    let crc = crc(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// CRC-32C, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(!0, step)
}

#[tokio::test]
async fn a_commit_waits_for_the_coordinator_and_covers_all_before_it() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).commit_interval(Duration::MAX).open().unwrap();
    let messages = messages(&mut reader, 5).await;
    let delay = Duration::from_millis(100);
    broker.with(|c| c.fault(Fault::delay(ApiKey::OffsetCommit, delay)));
    let begin = std::time::Instant::now();
    soon("commit", reader.commit(&messages[3])).await.unwrap();
    assert!(begin.elapsed() >= delay, "it has waited for the answer");
    assert_eq!(committed(&broker, 0), Some(4));
    soon("an older one", reader.commit(&messages[1])).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(4), "never backwards");
}

#[tokio::test]
async fn what_may_pass_is_waited_for_and_what_does_not_is_told() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let messages = messages(&mut reader, 3).await;
    broker.with(|c| c.fault(Fault::error(ApiKey::OffsetCommit, Code::NOT_COORDINATOR)));
    broker.with(|c| c.fault(Fault::cut(ApiKey::OffsetCommit, 0)));
    broker.with(|c| c.fault(Fault::error(ApiKey::OffsetCommit, Code::COORDINATOR_LOAD_IN_PROGRESS).times(3)));
    soon("commit", reader.commit(&messages[0])).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(1));
    let refused = Fault::partition_error(ApiKey::OffsetCommit, Code::OFFSET_METADATA_TOO_LARGE);
    broker.with(|c| c.fault(refused));
    let error = soon("the refusal", reader.commit(&messages[1])).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(Code::OFFSET_METADATA_TOO_LARGE)));
    assert_eq!(error.partition(), Some(&TopicPartition::new("t", 0)));
    soon("the next one", reader.commit(&messages[2])).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(3));
}

#[tokio::test]
async fn many_who_wait_share_requests() {
    const TASKS: i64 = 256;
    let broker = group_broker(1, &[("t", 4)]).await;
    (0..4).for_each(|partition| fill(&broker, "t", partition, TASKS / 4));
    let mut reader = member(&broker).commit_interval(Duration::MAX).open().unwrap();
    let messages = messages(&mut reader, TASKS as usize).await;
    let before = broker.with(|c| c.requests(ApiKey::OffsetCommit));
    broker.with(|c| c.fault(Fault::delay(ApiKey::OffsetCommit, Duration::from_millis(50))));
    let mut tasks = JoinSet::new();
    for message in messages {
        let control = reader.control();
        tasks.spawn(async move { control.commit(&message).await });
    }
    soon("all of them", async {
        while let Some(result) = tasks.join_next().await {
            result.unwrap().unwrap();
        }
    })
    .await;
    let requests = broker.with(|c| c.requests(ApiKey::OffsetCommit)) - before;
    assert!(requests <= 3, "{requests} requests for {TASKS} commits");
    (0..4).for_each(|partition| assert_eq!(committed(&broker, partition), Some(TASKS / 4)));
}

#[tokio::test]
async fn batches_are_acknowledged_and_committed_whole() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 300);
    let mut reader = member(&broker).open().unwrap();
    let begun = messages(&mut reader, 2).await;
    let rest = soon("the rest", reader.next_batch()).await.unwrap().unwrap();
    assert_eq!((rest.base_offset(), rest.next_offset()), (2, 100));
    reader.ack_batch(&rest).unwrap();
    reader.ack(&begun[0]).unwrap();
    commits(&broker, 0, 1).await;
    reader.ack(&begun[1]).unwrap();
    commits(&broker, 0, 100).await;
    let second = soon("the second", reader.next_batch()).await.unwrap().unwrap();
    soon("commit", reader.commit_batch(&second)).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(200));
}

#[tokio::test]
async fn explicit_offsets_go_where_they_are_told_with_their_metadata() {
    let broker = group_broker(1, &[("t", 2)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let control = reader.control();
    let (zero, one) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
    owns(&control, 2).await;
    let message = next(&mut reader).await;
    soon("commit", reader.commit(&message)).await.unwrap();
    let offset =
        |offset, metadata: &str| CommitOffset { offset, leader_epoch: 0, metadata: metadata.to_owned() };
    let both = [(zero.clone(), offset(7, "seven")), (one.clone(), offset(0, ""))];
    soon("commit", control.commit_offsets(both)).await.unwrap();
    soon("backwards", reader.commit_offsets([(zero.clone(), offset(3, "three"))])).await.unwrap();
    let of_no_epoch = CommitOffset { offset: 2, ..CommitOffset::default() };
    soon("commit", reader.commit_offsets([(one.clone(), of_no_epoch)])).await.unwrap();
    let told = soon("committed", control.committed(std::slice::from_ref(&one))).await.unwrap();
    assert_eq!(told[0].1.as_ref().map(|committed| committed.leader_epoch), Some(-1), "nobody named one");
    soon("commit", reader.commit_offsets([(one.clone(), offset(0, ""))])).await.unwrap();
    let told =
        soon("committed", control.committed(&[zero.clone(), one.clone(), TopicPartition::new("u", 5)])).await;
    let of =
        |offset, metadata: &str| Some(Committed { offset, leader_epoch: 0, metadata: metadata.to_owned() });
    assert_eq!(
        told.unwrap(),
        [(zero.clone(), of(3, "three")), (one, of(0, "")), (TopicPartition::new("u", 5), None)]
    );
    let error = soon("negative", control.commit_offsets([(zero, offset(-1, ""))])).await.unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Config, Some(-1)));
}

#[tokio::test]
async fn what_was_handed_out_before_a_rebalance_is_refused_after_it() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let control = reader.control();
    let held = messages(&mut reader, 3).await;
    reader.ack(&held[0]).unwrap();
    let generation = control.member().unwrap().generation;
    control.rejoin().unwrap();
    eventually("a new generation", || control.member().is_some_and(|m| m.generation > generation)).await;
    assert_eq!(committed(&broker, 0), Some(1), "what was acknowledged was committed first");
    fenced(reader.ack(&held[1]), 1);
    fenced(control.ack_through(&held[1].detach()), 1);
    fenced(reader.nack(&held[2]), 2);
    fenced(soon("commit", reader.commit(&held[2])).await, 2);
    let again = next(&mut reader).await;
    assert_eq!(again.offset(), 1, "it comes again");
    soon("commit", reader.commit(&again)).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(2));
}

#[tokio::test]
async fn a_held_message_of_a_partition_that_moved_away_leaves_the_groups_offset_alone() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).session_timeout(Duration::from_secs(1)).open().unwrap();
    let (control, mut events) = (reader.control(), reader.events());
    let held = messages(&mut reader, 5).await;
    let frozen = broker.with(|c| c.fault(Fault::silence(ApiKey::Heartbeat).always()));
    soon("it is out", async {
        while !matches!(events.next().await.unwrap(), Event::PartitionsLost { .. }) {}
    })
    .await;
    broker.with(|c| c.clear_fault(frozen));
    broker.with(|c| c.commit_offset("g", "t", 0, 2)); // by whoever owns it now
    fenced(control.ack(&held[4]), 4);
    fenced(soon("commit", control.commit(&held[4])).await, 4);
    assert_eq!(committed(&broker, 0), Some(2));
}

#[tokio::test]
async fn a_message_that_is_taken_back_comes_again_and_holds_up_what_follows() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let held = messages(&mut reader, 6).await;
    for index in [0, 1, 2, 4, 5] {
        reader.ack(&held[index]).unwrap();
    }
    commits(&broker, 0, 3).await;
    reader.nack(&held[3]).unwrap();
    let again = messages(&mut reader, 3).await;
    assert_eq!(again.iter().map(Message::offset).collect::<Vec<_>>(), [3, 4, 5]);
    tokio::time::sleep(INTERVALS).await;
    assert_eq!(committed(&broker, 0), Some(3));
    reader.ack(&again[0]).unwrap();
    commits(&broker, 0, 4).await;
    reader.control().ack_through(&again[2]).unwrap();
    commits(&broker, 0, 6).await;
    assert_eq!(offsets(&mut reader, 4).await, [6, 7, 8, 9]);
}

#[tokio::test]
async fn two_that_are_taken_back_both_come_again() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let held = messages(&mut reader, 8).await;
    reader.nack(&held[2]).unwrap();
    reader.nack(&held[6]).unwrap();
    assert_eq!(offsets(&mut reader, 8).await, [2, 3, 4, 5, 6, 7, 8, 9]);
    for message in &held {
        reader.ack(message).unwrap(); // the same records, whoever handed them out
    }
    commits(&broker, 0, 8).await;
}

#[tokio::test]
async fn what_is_taken_back_after_it_was_acknowledged_is_not_done_any_more() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).commit_interval(Duration::MAX).open().unwrap();
    let held = messages(&mut reader, 6).await;
    reader.ack_through(&held[5]).unwrap();
    reader.nack(&held[3]).unwrap();
    soon("close", reader.close()).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(3));
}

#[tokio::test]
async fn a_seek_acknowledges_nothing() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let at = TopicPartition::new("t", 0);
    let held = messages(&mut reader, 2).await;
    reader.control().seek(&at, Start::Offset(7)).unwrap();
    let later = messages(&mut reader, 2).await;
    assert_eq!(later[0].offset(), 7);
    reader.ack(&later[0]).unwrap();
    tokio::time::sleep(INTERVALS).await;
    assert_eq!(committed(&broker, 0), Some(0), "0 and 1 wait to be acknowledged");
    held.iter().for_each(|message| reader.ack(message).unwrap());
    commits(&broker, 0, 8).await;
}

#[tokio::test]
async fn auto_ack_counts_as_done_what_came_before_the_one_that_is_asked_for() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 350);
    let mut reader = member(&broker).auto_ack().open().unwrap();
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
    commits(&broker, 0, 2).await;
    tokio::time::sleep(INTERVALS).await;
    assert_eq!(committed(&broker, 0), Some(2), "2 may still be worked on");
    let rest = soon("a batch", reader.next_batch()).await.unwrap().unwrap();
    assert_eq!(rest.base_offset(), 3);
    commits(&broker, 0, 3).await;
    soon("a batch", reader.next_batch()).await.unwrap().unwrap();
    commits(&broker, 0, 100).await;
    assert_eq!(offsets(&mut reader, 150).await.last(), Some(&349));
    assert!(tokio::time::timeout(INTERVALS, reader.next()).await.is_err());
    commits(&broker, 0, 350).await;
}

#[tokio::test]
async fn auto_ack_does_not_count_the_last_message_before_close() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).auto_ack().open().unwrap();
    let held = messages(&mut reader, 5).await;
    soon("close", reader.close()).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(4));
    drop(held);
    let mut reader = member(&broker).auto_ack().open().unwrap();
    let last = messages(&mut reader, 6).await.pop().unwrap();
    reader.ack(&last).unwrap();
    soon("close", reader.close()).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(10));
}

#[tokio::test]
async fn auto_ack_goes_on_over_seeks_pauses_and_what_is_taken_back() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 100);
    let mut reader = member(&broker).auto_ack().open().unwrap();
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
    control.seek(&at, Start::Offset(10)).unwrap();
    let message = messages(&mut reader, 2).await.pop().unwrap();
    assert_eq!(message.offset(), 11);
    commits(&broker, 0, 11).await;
    control.nack(&message).unwrap();
    assert_eq!(offsets(&mut reader, 1).await, [11]);
    tokio::time::sleep(INTERVALS).await;
    assert_eq!(committed(&broker, 0), Some(11), "what is taken back is not done because it comes again");
    control.pause(&at).unwrap();
    assert!(tokio::time::timeout(INTERVALS, reader.next()).await.is_err());
    commits(&broker, 0, 12).await;
    control.resume(&at).unwrap();
    control.seek(&at, Start::Offset(5)).unwrap();
    assert_eq!(offsets(&mut reader, 1).await, [5]);
    control.seek(&at, Start::Offset(50)).unwrap();
    assert_eq!(offsets(&mut reader, 2).await, [50, 51]);
    commits(&broker, 0, 51).await;
}

#[tokio::test]
async fn dropped_futures_lose_nothing_with_auto_ack() {
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 500));
    let mut expected = [0, 0];
    for round in 0..5 {
        let mut reader = member(&broker).auto_ack().max_bytes(2000).open().unwrap();
        let mut seen = [None, None];
        let mut left = 100;
        while left > 0 {
            // Some are dropped before anything has come.
            let Ok(got) = tokio::time::timeout(Duration::from_micros(200), reader.next()).await else {
                continue;
            };
            let message = got.unwrap().unwrap();
            let partition = message.partition() as usize;
            match seen[partition] {
                None => assert!(message.offset() <= expected[partition], "round {round}: nothing is skipped"),
                Some(last) => assert_eq!(message.offset(), last + 1, "round {round}"),
            }
            seen[partition] = Some(message.offset());
            expected[partition] = expected[partition].max(message.offset() + 1);
            left -= 1;
        }
        soon("close", reader.close()).await.unwrap();
    }
}

async fn stored(broker: &Broker) -> Reader<Stored> {
    Reader::builder(broker.bootstrap())
        .topic("t")
        .partition(1)
        .stored_in("g")
        .commit_interval(Duration::from_millis(20))
        .open()
        .unwrap()
}

#[tokio::test]
async fn partitions_that_are_named_store_their_offsets_in_a_group_without_membership() {
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 10));
    broker.with(|c| c.commit_offset("g", "t", 1, 4));
    let mut reader = stored(&broker).await;
    let messages = messages(&mut reader, 3).await;
    assert!(messages.iter().map(|m| (m.partition(), m.offset())).eq([(1, 4), (1, 5), (1, 6)]));
    reader.ack(&messages[0]).unwrap();
    commits(&broker, 1, 5).await;
    soon("commit", reader.commit(&messages[1])).await.unwrap();
    assert_eq!(committed(&broker, 1), Some(6));
    reader.ack(&messages[2]).unwrap();
    let at = [TopicPartition::new("t", 1)];
    let told = soon("committed", reader.control().committed(&at)).await.unwrap();
    assert_eq!(told[0].1.as_ref().unwrap().offset, 6);
    soon("close", reader.close()).await.unwrap();
    assert_eq!(committed(&broker, 1), Some(7));
    assert_eq!(broker.with(|c| c.requests(ApiKey::JoinGroup)), 0);
    assert!(broker.with(|c| c.commits("g")).iter().all(|c| c.generation == -1 && c.member.is_empty()));
}

#[tokio::test]
async fn commits_beside_active_members_are_refused_and_told() {
    let broker = group_broker(1, &[("t", 2)]).await;
    (0..2).for_each(|partition| fill(&broker, "t", partition, 10));
    let mut reader = stored(&broker).await;
    let message = next(&mut reader).await;
    commits(&broker, 1, 0).await;
    let other = member(&broker).open().unwrap();
    owns(&other.control(), 2).await;
    let error = soon("the refusal", reader.commit(&message)).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(Code::UNKNOWN_MEMBER_ID)));
    println!("{error}");
}

#[tokio::test]
async fn messages_of_a_reader_without_a_group_cannot_be_acknowledged() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    let mut plain = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let message = next(&mut plain).await;
    let reader = member(&broker).open().unwrap();
    for result in [
        reader.ack(&message),
        reader.ack_through(&message),
        reader.nack(&message),
        soon("commit", reader.commit(&message)).await,
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().starts_with("t partition 0: a reader without a group"), "{error}");
    }
}

#[tokio::test]
async fn after_close_everything_is_an_error_at_once() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let control = reader.control();
    let message = next(&mut reader).await;
    let batch = soon("a batch", reader.next_batch()).await.unwrap().unwrap();
    let frozen = broker.with(|c| c.fault(Fault::silence(ApiKey::OffsetCommit).always()));
    control.close(); // closing has begun, and takes its time
    let at = TopicPartition::new("t", 0);
    let offsets = || [(at.clone(), CommitOffset::default())];
    let at_once = |what, work| support::within(Duration::from_millis(500), what, work);
    assert!(at_once("next", async { reader.next().await.map(|_| ()) }).await.unwrap_err().is_closed());
    for result in [
        reader.ack(&message),
        control.ack(&message),
        control.ack_through(&message),
        control.ack_batch(&batch),
        control.nack(&message),
        control.commit(&message).await,
        control.commit_batch(&batch).await,
        control.commit_offsets(offsets()).await,
        control.committed(std::slice::from_ref(&at)).await.map(|_| ()),
        control.subscribe(["u"]),
        control.rejoin(),
        control.seek(&at, Start::Earliest),
    ] {
        let error = result.unwrap_err();
        assert!(error.is_closed(), "{error}");
        assert_eq!(error.to_string(), "the reader is closed");
    }
    broker.with(|c| c.clear_fault(frozen));
}

#[tokio::test]
async fn what_is_committed_or_acknowledged_after_named_offsets_has_the_last_word() {
    for by_commit in [true, false] {
        let broker = group_broker(1, &[("t", 1)]).await;
        fill(&broker, "t", 0, 100);
        let mut reader = member(&broker).commit_interval(Duration::from_millis(50)).open().unwrap();
        let messages = messages(&mut reader, 100).await;
        let control = reader.control();
        // A request is under way for a while, so that the others wait together.
        broker.with(|c| c.fault(Fault::delay(ApiKey::OffsetCommit, Duration::from_millis(300))));
        let begun = broker.with(|c| c.requests(ApiKey::OffsetCommit));
        let first = tokio::spawn(control.commit(&messages[10]));
        eventually("it is under way", || broker.with(|c| c.requests(ApiKey::OffsetCommit)) > begun).await;
        let at = TopicPartition::new("t", 0);
        let offset = CommitOffset { offset: 5, ..CommitOffset::default() };
        let back = control.clone();
        let mut back = Box::pin(async move { back.commit_offsets([(at, offset)]).await });
        assert!(futures_poll(&mut back).await.is_none(), "it waits for its turn");
        if by_commit {
            soon("the last one", control.commit(&messages[99])).await.unwrap();
            assert_eq!(committed(&broker, 0), Some(100));
        } else {
            messages.iter().for_each(|message| reader.ack(message).unwrap());
        }
        soon("the one before it", back).await.unwrap();
        soon("the first", first).await.unwrap().unwrap();
        commits(&broker, 0, 100).await;
        reader.close().await.unwrap();
        assert_eq!(committed(&broker, 0), Some(100), "by commit: {by_commit}");
    }
}

#[tokio::test]
async fn a_commit_of_what_was_acknowledged_before_goes_over_offsets_named_since() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    let messages = messages(&mut reader, 10).await;
    soon("commit", reader.commit(&messages[9])).await.unwrap();
    let offset = CommitOffset { offset: 5, ..CommitOffset::default() };
    soon("back", reader.commit_offsets([(TopicPartition::new("t", 0), offset)])).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(5));
    soon("commit", reader.commit(&messages[9])).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(10));
}

/// Polls once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn what_another_reader_handed_out_is_refused_as_that() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut theirs = member(&broker).open().unwrap();
    let message = next(&mut theirs).await;
    let ours = Reader::builder(broker.bootstrap()).group("other").topic("t").open().unwrap();
    owns(&ours.control(), 1).await;
    for error in
        [soon("a refusal", ours.commit(&message)).await.unwrap_err(), ours.nack(&message).unwrap_err()]
    {
        let told = "offset 0 of t partition 0: another reader handed this out: acknowledge, commit and nack it there";
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::NotRead, told));
    }
    assert_eq!(committed(&broker, 0), Some(0), "nothing was acknowledged by that");
    soon("commit", theirs.commit(&message)).await.unwrap();
}
