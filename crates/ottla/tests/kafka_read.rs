//! The promises of the reader, asked of a real Apache Kafka.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, UNIX_EPOCH},
};

use kafka_support::Kafka;
use ottla::{
    ErrorKind, Event, MissingTopic, OnOutOfRange, Reader, Start, TimestampType, TopicPartition, Until,
};
use ottla_wire::record::{BatchBuilder, Codec};
use support::{PROMPT, next, offsets, soon, within};

async fn kafka() -> Kafka {
    Kafka::connect("OTTLA_TEST_KAFKA").await
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_every_codec_comes_back_as_it_was_written() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        comes_back_as_it_was_written(codec).await;
    }
}

#[tokio::test]
#[ignore = "needs a real Kafka from 2.1 on, which knows zstd: cargo xtask test"]
async fn kafka_zstd_comes_back_as_it_was_written() {
    comes_back_as_it_was_written(Codec::Zstd).await;
}

async fn comes_back_as_it_was_written(codec: Codec) {
    let mut kafka = kafka().await;
    let topic = kafka.create(&format!("codec-{codec}"), 2, &[]).await;
    for partition in 0..2 {
        kafka.fill(&topic, partition, 0, 1000, codec).await;
    }
    let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).until(Until::End).open().unwrap();
    let mut expected = [0; 2];
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        support::check(&message);
        let partition = message.partition() as usize;
        assert_eq!(message.offset(), expected[partition]);
        expected[partition] += 1;
    }
    assert_eq!(expected, [1000; 2], "{codec}");
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_reading_begins_and_ends_where_it_was_asked_to() {
    let mut kafka = kafka().await;
    let topic = kafka.create("bounds", 1, &[]).await;
    kafka.fill(&topic, 0, 0, 1000, Codec::None).await;
    kafka.delete_records(&topic, 0, 150).await;
    let at = |offset: u64| UNIX_EPOCH + Duration::from_millis(1_000_000 + offset);
    for (start, until, first, last) in [
        (Start::Earliest, Until::End, 150, 999),
        (Start::Offset(555), Until::Offset(655), 555, 654),
        (Start::Last(101), Until::End, 899, 999),
        (Start::Last(5000), Until::Offset(151), 150, 150),
        (Start::At(at(321)), Until::At(at(345)), 321, 344),
        (Start::At(UNIX_EPOCH), Until::At(at(5000)), 150, 999),
        (Start::Offset(3), Until::Offset(152), 150, 151),
    ] {
        let builder = Reader::builder(kafka.bootstrap()).topic(&*topic).start(start).until(until);
        let (mut reader, mut seen) = (builder.open().unwrap(), Vec::new());
        while let Some(message) = soon("the end", reader.next()).await.unwrap() {
            seen.push(message.offset());
        }
        assert_eq!(seen, (first..=last).collect::<Vec<_>>(), "{start:?} {until:?}");
    }
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_append_time_nulls_and_headers_are_what_they_are() {
    let mut kafka = kafka().await;
    let topic = kafka.create("odd", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let mut odd = BatchBuilder::new(Codec::Gzip);
    odd.push(5, None, None, &[]);
    odd.push(6, Some(b""), Some(b""), &[("h", None), ("h", Some(b"")), ("h", Some(b"x"))]);
    kafka.produce(&topic, 0, odd.build().unwrap()).await;
    let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).open().unwrap();
    let first = soon("a record", reader.next()).await.unwrap().unwrap();
    assert_eq!((first.key(), first.value(), first.headers().count()), (None, None, 0));
    assert_eq!(first.timestamp_type(), TimestampType::Append);
    let age = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64 - first.timestamp();
    assert!((0..60_000).contains(&age), "appended {age} ms ago");
    let second = soon("a record", reader.next()).await.unwrap().unwrap();
    assert_eq!((second.key(), second.value()), (Some(&b""[..]), Some(&b""[..])));
    let values: Vec<_> = second.headers().map(|header| header.unwrap().value).collect();
    assert_eq!(values, [None, Some(&b""[..]), Some(&b"x"[..])]);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_seek_resume_close_and_drop_do_not_wait_for_parked_fetches() {
    let mut kafka = kafka().await;
    let topic = kafka.create("parked", 6, &[]).await;
    kafka.fill(&topic, 0, 0, 10, Codec::None).await;
    let builder = Reader::builder(kafka.bootstrap()).topic(&*topic).max_wait(Duration::from_secs(10));
    let mut reader = builder.open().unwrap();
    assert_eq!(offsets(&mut reader, 10).await, (0..10).collect::<Vec<_>>());
    let (control, at) = (reader.control(), TopicPartition::new(&*topic, 0));
    for offset in [3, 7, 0, 9] {
        let begin = Instant::now();
        control.seek(&at, Start::Offset(offset)).unwrap();
        assert_eq!(within(PROMPT, "the sought record", next(&mut reader)).await.offset(), offset);
        println!("seek to data: {:?}", begin.elapsed());
    }
    control.seek(&at, Start::Latest).unwrap();
    control.pause(&at).unwrap();
    support::nothing(&mut reader, Duration::from_millis(300)).await;
    kafka.fill(&topic, 0, 10, 5, Codec::None).await;
    support::nothing(&mut reader, Duration::from_millis(100)).await;
    let begin = Instant::now();
    control.resume(&at).unwrap();
    assert_eq!(within(PROMPT, "the resumed partition", next(&mut reader)).await.offset(), 10);
    println!("resume: {:?}", begin.elapsed());
    let begin = Instant::now();
    within(PROMPT, "close", reader.close()).await.unwrap();
    println!("close: {:?}", begin.elapsed());

    let metrics = tokio::runtime::Handle::current().metrics();
    let alone = metrics.num_alive_tasks();
    let mut reader = builder_again(&kafka, &topic).open().unwrap();
    assert_eq!(next(&mut reader).await.offset(), 0);
    assert!(metrics.num_alive_tasks() > alone);
    let begin = Instant::now();
    drop(reader);
    while metrics.num_alive_tasks() > alone {
        assert!(begin.elapsed() < PROMPT, "tasks are still there");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("drop: {:?}", begin.elapsed());
}

fn builder_again(kafka: &Kafka, topic: &str) -> ottla::Builder {
    Reader::builder(kafka.bootstrap()).topic(topic).max_wait(Duration::from_secs(10))
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_a_missing_topic_is_waited_for_and_partitions_added_later_are_read_whole() {
    let mut kafka = kafka().await;
    let topic = kafka_support::fresh("later");
    let mut reader = Reader::builder(kafka.bootstrap())
        .topic(&*topic)
        .start(Start::Latest)
        .metadata_max_age(Duration::from_millis(200))
        .open()
        .unwrap();
    let mut events = reader.events();
    soon("the event", async {
        while !matches!(events.next().await.unwrap(), Event::TopicMissing { topic: t } if *t == *topic) {}
    })
    .await;
    kafka.create_named(&topic, 1, &[]).await;
    kafka.fill(&topic, 0, 0, 3, Codec::None).await;
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
    kafka.add_partitions(&topic, 3).await;
    kafka.fill(&topic, 2, 0, 5, Codec::Lz4).await;
    assert_eq!(offsets(&mut reader, 5).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_what_is_not_there_or_out_of_range_is_told() {
    let mut kafka = kafka().await;
    let topic = kafka.create("range", 2, &[]).await;
    kafka.fill(&topic, 0, 0, 10, Codec::None).await;
    let open = |topic: &str, partition| {
        let builder = Reader::builder(kafka.bootstrap()).topic(topic).partition(partition);
        builder.missing_topic(MissingTopic::Fail).open().unwrap()
    };
    let error = soon("an error", open("no-such-topic", 0).next()).await.unwrap_err();
    assert_eq!(error.to_string(), "topic no-such-topic does not exist");
    let error = soon("an error", open(&topic, 99).next()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("topic {topic} has no partition 99; it has 2 (0 to 1)"));

    let builder = Reader::builder(kafka.bootstrap()).topic(&*topic).partition(0).start(Start::Offset(999));
    let mut reader = builder.on_out_of_range(OnOutOfRange::Error).open().unwrap();
    let error = soon("an error", reader.next()).await.unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::OutOfRange, Some(999)));
    assert!(error.to_string().contains("the log holds 0 to 10"), "{error}");
    reader.control().seek(&TopicPartition::new(&*topic, 0), Start::Last(1)).unwrap();
    assert_eq!(next(&mut reader).await.offset(), 9);
}

#[tokio::test]
#[ignore = "needs a real Kafka from 2.3 on, whose compaction can be hurried: cargo xtask test"]
async fn kafka_a_compacted_topic_is_read_to_its_end() {
    let mut kafka = kafka().await;
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("max.compaction.lag.ms", "100"),
        ("segment.ms", "100"),
    ];
    let topic = kafka.create("compacted", 1, &configs).await;
    let mut keys: BTreeMap<String, i64> = BTreeMap::new();
    for round in 0..20 {
        let mut batch = BatchBuilder::new(if round % 2 == 0 { Codec::Zstd } else { Codec::None });
        for n in 0..50 {
            let key = format!("key {}", (round * 31 + n * 7) % 60);
            batch.push(
                UNIX_EPOCH.elapsed().unwrap().as_millis() as i64,
                Some(key.as_bytes()),
                Some(b"v"),
                &[],
            );
            keys.insert(key, i64::from(round) * 50 + i64::from(n));
        }
        kafka.produce(&topic, 0, batch.build().unwrap()).await;
    }
    let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).until(Until::End).open().unwrap();
    let (mut latest, mut last) = (BTreeMap::new(), -1);
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        assert!(message.offset() > last);
        last = message.offset();
        latest.insert(String::from_utf8(message.key().unwrap().to_vec()).unwrap(), last);
    }
    assert_eq!(latest, keys, "the newest record of each key, whatever was compacted meanwhile");
}

#[tokio::test]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_a_caller_that_stops_is_not_drowned_and_one_that_keeps_is_served() {
    let mut kafka = kafka().await;
    let topic = kafka.create("large", 2, &[]).await;
    for n in 0..60u8 {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.push(1, None, Some(&vec![n; 300_000]), &[]);
        kafka.produce(&topic, i32::from(n % 2), batch.build().unwrap()).await;
    }
    let budget = 2 << 20;
    let mut reader =
        Reader::builder(kafka.bootstrap()).topic(&*topic).budget(budget).until(Until::End).open().unwrap();
    let (control, mut kept) = (reader.control(), Vec::new());
    kept.push(soon("a message", reader.next()).await.unwrap().unwrap());
    let mut most = 0;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        most = most.max(control.buffered().ours);
    }
    println!("held while the caller did nothing: {most} with a budget of {budget}");
    assert!(most <= budget + (1 << 20) + 300_000 * 2, "{most}");
    while let Some(message) = soon("the next", reader.next()).await.unwrap() {
        kept.push(message);
    }
    println!("{:?}", control.buffered());
    assert_eq!(kept.len(), 60);
    assert!(control.buffered().held > 60 * 300_000);
}
