//! What is read is what was written, from where to where it was asked for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use futures_core::Stream as _;
use ottla::{MissingTopic, Reader, Start, TimestampType, TopicPartition, Until};
use ottla_broker::{Broker, ClusterOptions, TopicOptions};
use ottla_wire::record::{BatchBuilder, Codec};
use support::{batch, broker, brokers, fill, next, offsets, soon};

#[tokio::test]
async fn a_topic_is_read_whole_and_in_order() {
    let broker = brokers(3, &[("t", 7)]).await;
    for partition in 0..7 {
        fill(&broker, "t", partition, 1000 + i64::from(partition));
    }
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").until(Until::End).open().unwrap();
    let mut seen: BTreeMap<i32, i64> = BTreeMap::new();
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        support::check(&message);
        assert_eq!(message.topic(), "t");
        let next = seen.entry(message.partition()).or_default();
        assert_eq!(message.offset(), *next);
        *next += 1;
    }
    let wanted: BTreeMap<i32, i64> = (0..7).map(|p| (p, 1000 + i64::from(p))).collect();
    assert_eq!(seen, wanted);
    assert!(soon("the end again", reader.next()).await.unwrap().is_none(), "the end stays the end");
}

#[tokio::test]
async fn every_codec_is_read_by_message_and_by_batch() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let broker = broker(&[("t", 1)]).await;
        for start in [0, 500] {
            broker.with(|c| c.append("t", 0, batch(codec, 0, start, 500))).unwrap();
        }
        let open = || Reader::builder(broker.bootstrap()).topic("t").until(Until::End).open().unwrap();
        let mut reader = open();
        assert_eq!(offsets(&mut reader, 1000).await, (0..1000).collect::<Vec<_>>(), "{codec}");
        let (mut reader, mut seen) = (open(), 0);
        while let Some(batch) = soon("a batch", reader.next_batch()).await.unwrap() {
            assert_eq!(batch.base_offset(), seen);
            for record in &batch {
                let record = record.unwrap();
                assert_eq!(record.offset, seen);
                assert_eq!(record.value(), Some(support::value(0, seen).as_bytes()));
                seen += 1;
            }
            assert_eq!(batch.next_offset(), seen);
        }
        assert_eq!(seen, 1000, "{codec}");
    }
}

#[tokio::test]
async fn a_batch_that_next_began_is_continued_by_next_batch() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 200);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").until(Until::End).open().unwrap();
    assert_eq!(offsets(&mut reader, 42).await.last(), Some(&41));
    let rest = soon("the rest", reader.next_batch()).await.unwrap().unwrap();
    assert_eq!((rest.base_offset(), rest.next_offset()), (42, 100));
    let seen: Vec<i64> = rest.records().map(|record| record.unwrap().offset).collect();
    assert_eq!(seen, (42..100).collect::<Vec<_>>());
    assert_eq!(next(&mut reader).await.offset(), 100);
}

#[tokio::test]
async fn what_null_empty_and_duplicate_are_they_stay() {
    let broker = broker(&[("t", 1)]).await;
    let mut odd = BatchBuilder::new(Codec::Lz4);
    odd.push(5, None, None, &[]);
    odd.push(6, Some(b""), Some(b""), &[("h", None), ("h", Some(b"")), ("h", Some(b"x"))]);
    broker.with(|c| c.append("t", 0, odd.build().unwrap())).unwrap();
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let first = soon("a record", reader.next()).await.unwrap().unwrap();
    assert_eq!((first.key(), first.value(), first.headers().count()), (None, None, 0));
    let second = soon("a record", reader.next()).await.unwrap().unwrap();
    assert_eq!((second.key(), second.value()), (Some(&b""[..]), Some(&b""[..])));
    let values: Vec<_> = second.headers().map(|header| header.unwrap()).map(|h| (h.key, h.value)).collect();
    assert_eq!(values, [(&b"h"[..], None), (b"h", Some(&b""[..])), (b"h", Some(&b"x"[..]))]);
}

#[tokio::test]
async fn append_time_is_the_brokers() {
    let broker = Broker::start(ClusterOptions::new()).await.unwrap();
    let options = TopicOptions { append_time: true, ..TopicOptions::new(1) };
    broker.with(|c| c.create_topic_with("t", options)).unwrap();
    broker.with(|c| c.append_as_is("t", 0, appended_at(777))).unwrap();
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    for _ in 0..2 {
        let message = soon("a record", reader.next()).await.unwrap().unwrap();
        assert_eq!((message.timestamp(), message.timestamp_type()), (777, TimestampType::Append));
    }
}

fn appended_at(ms: i64) -> Vec<u8> {
    let mut batch = BatchBuilder::new(Codec::None);
    batch.push(1, None, Some(b"a"), &[]).push(2, None, Some(b"b"), &[]).append_time(ms);
    batch.build().unwrap()
}

#[tokio::test]
async fn reading_begins_and_ends_where_it_was_asked_to() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 1000); // at offset n the time is 1000 s + n ms
    broker.with(|c| c.delete_records("t", 0, 150)).unwrap();
    let at = |offset: u64| UNIX_EPOCH + Duration::from_millis(1_000_000 + offset);
    for (start, until, first, last) in [
        (Start::Earliest, Until::End, 150, 999),
        (Start::Offset(555), Until::Offset(655), 555, 654),
        (Start::Last(1), Until::End, 999, 999),
        (Start::Last(101), Until::End, 899, 999),
        (Start::Last(5000), Until::Offset(151), 150, 150),
        (Start::At(at(321)), Until::At(at(345)), 321, 344),
        (Start::At(UNIX_EPOCH), Until::At(at(5000)), 150, 999),
    ] {
        let mut reader =
            Reader::builder(broker.bootstrap()).topic("t").start(start).until(until).open().unwrap();
        let mut seen = Vec::new();
        while let Some(message) = soon("the end", reader.next()).await.unwrap() {
            seen.push(message.offset());
        }
        assert_eq!(seen, (first..=last).collect::<Vec<_>>(), "{start:?} {until:?}");
    }
}

#[tokio::test]
async fn nothing_to_read_is_an_end_too() {
    let broker = broker(&[("empty", 3), ("t", 2)]).await;
    fill(&broker, "t", 0, 10);
    for (topic, start) in [("empty", Start::Earliest), ("t", Start::Latest), ("t", Start::Offset(10))] {
        let mut reader = Reader::builder(broker.bootstrap())
            .topic(topic)
            .partition(0)
            .start(start)
            .until(Until::End)
            .open()
            .unwrap();
        assert!(soon("the end", reader.next()).await.unwrap().is_none(), "{topic} {start:?}");
    }
}

#[tokio::test]
async fn latest_reads_what_comes_after() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").start(Start::Latest).open().unwrap();
    let at = TopicPartition::new("t", 0);
    let control = reader.control();
    support::eventually("a position", || control.position(&at).unwrap() == Some(10)).await;
    fill(&broker, "t", 0, 5);
    assert_eq!(offsets(&mut reader, 5).await, [10, 11, 12, 13, 14]);
}

#[tokio::test]
async fn several_topics_and_chosen_partitions() {
    let broker = broker(&[("a", 2), ("b", 3)]).await;
    for (topic, partitions) in [("a", 2), ("b", 3)] {
        for partition in 0..partitions {
            fill(&broker, topic, partition, 50);
        }
    }
    let mut reader = Reader::builder(broker.bootstrap()).topics(["a", "b"]).until(Until::End).open().unwrap();
    let mut counts: BTreeMap<(String, i32), i64> = BTreeMap::new();
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        *counts.entry((message.topic().to_owned(), message.partition())).or_default() += 1;
    }
    assert_eq!(counts.len(), 5);
    assert!(counts.values().all(|&count| count == 50));

    let builder = Reader::builder(broker.bootstrap()).topic("b").partitions([2, 0]).until(Until::End);
    let (mut reader, mut seen) = (builder.open().unwrap(), [0; 3]);
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        seen[message.partition() as usize] += 1;
    }
    assert_eq!(seen, [50, 0, 50]);
}

#[tokio::test]
async fn a_missing_topic_is_waited_for_and_read_from_its_beginning() {
    let broker = broker(&[("other", 1)]).await;
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").start(Start::Latest).open().unwrap();
    let mut events = reader.events();
    soon("the event", async {
        while !matches!(events.next().await.unwrap(), ottla::Event::TopicMissing { topic } if &*topic == "t")
        {
        }
    })
    .await;
    broker.with(|c| c.create_topic("t", 2)).unwrap();
    fill(&broker, "t", 1, 3);
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
}

#[tokio::test]
async fn a_missing_topic_or_partition_fails_if_told_to() {
    let broker = broker(&[("t", 2)]).await;
    let open = |topic: &str, partition| {
        let builder = Reader::builder(broker.bootstrap()).topic(topic).partition(partition);
        builder.missing_topic(MissingTopic::Fail).open().unwrap()
    };
    let mut reader = open("none", 0);
    for _ in 0..2 {
        let error = soon("an error", reader.next()).await.unwrap_err();
        assert_eq!(error.to_string(), "topic none does not exist");
        assert_eq!(error.kind(), ottla::ErrorKind::Missing);
    }
    let error = soon("an error", open("t", 99).next()).await.unwrap_err();
    assert_eq!(error.to_string(), "topic t has no partition 99; it has 2 (0 to 1)");
    assert_eq!(error.partition(), None, "the whole reader fails, not the partition");
}

#[tokio::test]
async fn partitions_added_later_are_read_from_their_beginning() {
    let broker = broker(&[("t", 1)]).await;
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .start(Start::Latest)
        .metadata_max_age(Duration::from_millis(50))
        .open()
        .unwrap();
    let control = reader.control();
    support::eventually("the first partition", || control.partitions().len() == 1).await;
    broker.with(|c| c.add_partitions("t", 3)).unwrap();
    fill(&broker, "t", 2, 5);
    assert_eq!(offsets(&mut reader, 5).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_stream_is_the_same_messages() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").until(Until::End).open().unwrap();
    let mut stream = reader.stream();
    let mut seen = 0;
    while let Some(message) =
        soon("an item", std::future::poll_fn(|cx| std::pin::Pin::new(&mut stream).poll_next(cx))).await
    {
        assert_eq!(message.unwrap().offset(), seen);
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[tokio::test]
async fn a_message_outlives_its_reader_and_its_reply() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let message = next(&mut reader).await;
    let detached = message.detach();
    let control = reader.control();
    reader.close().await.unwrap();
    support::check(&message);
    support::eventually("only the message is left", || control.buffered().held > 0).await;
    drop(message);
    support::eventually("nothing is left", || control.buffered().held == 0).await;
    support::check(&detached);
}

#[tokio::test]
async fn position_and_lag_follow_what_was_handed_out() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 250);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    assert_eq!(next(&mut reader).await.offset(), 0);
    assert_eq!((control.position(&at).unwrap(), control.lag(&at).unwrap()), (Some(1), Some(249)));
    assert_eq!(offsets(&mut reader, 249).await.last(), Some(&249));
    assert_eq!((control.position(&at).unwrap(), control.lag(&at).unwrap()), (Some(250), Some(0)));
    let error = control.position(&TopicPartition::new("t", 1)).map(|p| assert_eq!(p, None));
    assert!(error.is_ok(), "a partition that may still come is no mistake");
    let error = control.position(&TopicPartition::new("u", 0)).unwrap_err();
    assert_eq!(error.to_string(), "u partition 0 is not read by this reader");
}

#[tokio::test]
async fn a_stream_ends_behind_a_fault_of_the_whole_reader_and_lets_timers_run() {
    let broker = broker(&[("t", 1)]).await;
    let builder = Reader::builder(broker.bootstrap()).topic("none").missing_topic(MissingTopic::Fail);
    let mut reader = builder.open().unwrap();
    let (mut stream, mut items) = (reader.stream(), Vec::new());
    while let Some(item) =
        soon("an item", std::future::poll_fn(|cx| std::pin::Pin::new(&mut stream).poll_next(cx))).await
    {
        items.push(item.unwrap_err().to_string());
    }
    assert_eq!(items, ["topic none does not exist"]);
    // Who calls `next` again and again all the same leaves room for a time-out.
    let stubborn = async { while reader.next().await.is_err() {} };
    assert!(tokio::time::timeout(Duration::from_millis(50), stubborn).await.is_err());
}

#[tokio::test]
async fn what_is_printed_for_debugging_is_short() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 100);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let message = next(&mut reader).await;
    assert_eq!(
        format!("{message:?}"),
        r#"Message { topic: "t", partition: 0, offset: 0, timestamp: 1000000, key: Some("key 0"), value: Some("value 0/0"), headers: 0 }"#
    );
    let batch = soon("the rest", reader.next_batch()).await.unwrap().unwrap();
    assert_eq!(
        format!("{batch:?}"),
        r#"Batch { topic: "t", partition: 0, base_offset: 1, next_offset: 100, .. }"#
    );
    assert_eq!(
        format!("{:?}", batch.records().next().unwrap().unwrap()),
        r#"Record { offset: 1, timestamp: 1000001, key: Some("key 1"), value: Some("value 0/1"), headers: 0 }"#
    );
    assert_eq!(message.topic_partition(), TopicPartition::new("t", 0));
    let error = Reader::builder("").topic("t").open().unwrap_err();
    assert_eq!(format!("{error:?}"), "Config: bad configuration: bootstrap: no broker is named");
}
