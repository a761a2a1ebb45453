//! Messages of before Kafka 0.11, as a Kafka that still wrote them keeps them: 2.8, with topics of
//! `message.format.version` 0.9.0 (format 0) and 0.10.0 (format 1). It writes what it is sent anew in that format, in
//! wrappers of the same codec.
//!
//! `OTTLA_TEST_KAFKA_OLD=HOST:PORT cargo test -p ottla --test old_formats -- --ignored`

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::time::{Duration, UNIX_EPOCH};

use kafka_support::Kafka;
use ottla::{ErrorKind, Message, Reader, Start, TimestampType, TopicPartition, Until};
use ottla_wire::{code::Code, record::BatchBuilder, record::Codec};
use support::soon;

const FORMATS: [&str; 2] = ["0.9.0", "0.10.0"];
const CODECS: [Codec; 4] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];
const RECORDS: i64 = 500;

async fn kafka() -> Kafka {
    Kafka::connect("OTTLA_TEST_KAFKA_OLD").await
}

/// A topic of that format with so many records, a hundred in a wrapper.
async fn filled(kafka: &mut Kafka, format: &str, codec: Codec, times: &str) -> String {
    let configs = [
        ("message.format.version", format),
        ("message.timestamp.type", times),
        // The records' times are of 1970.
        ("retention.ms", "-1"),
    ];
    let topic = kafka.create(&format!("old-{format}-{codec}-{times}"), 1, &configs).await;
    kafka.fill(&topic, 0, 0, RECORDS, codec).await;
    topic
}

/// Format 0 has no times; all else is as it was written.
fn check(message: &Message, format: &str) {
    let offset = message.offset();
    assert_eq!(message.value(), Some(support::value(0, offset).as_bytes()));
    assert_eq!(message.key(), Some(format!("key {offset}").as_bytes()));
    assert_eq!(message.headers().count(), 0);
    assert_eq!(message.timestamp(), if format == "0.9.0" { -1 } else { 1_000_000 + offset });
}

async fn next(reader: &mut Reader) -> Option<Message> {
    soon("a message or the end", reader.next()).await.unwrap()
}

#[tokio::test]
#[ignore = "needs a Kafka 2.8: OTTLA_TEST_KAFKA_OLD"]
async fn kafka_old_records_are_read_whole_and_between_offsets() {
    let mut kafka = kafka().await;
    for format in FORMATS {
        for codec in CODECS {
            let topic = filled(&mut kafka, format, codec, "CreateTime").await;
            for (from, until) in [(0, RECORDS), (0, 57), (99, 101), (150, 153), (250, 400), (499, 500)] {
                let range = Reader::builder(kafka.bootstrap())
                    .topic(&*topic)
                    .start(Start::Offset(from))
                    .until(Until::Offset(until));
                let mut reader = range.clone().open().unwrap();
                let mut expected = from;
                while let Some(message) = next(&mut reader).await {
                    assert_eq!(message.offset(), expected, "{topic}: {from}..{until}");
                    check(&message, format);
                    expected += 1;
                }
                assert_eq!(expected, until, "{topic}");
                let mut reader = range.open().unwrap();
                let mut seen = Vec::new();
                while let Some(batch) = soon("a batch or the end", reader.next_batch()).await.unwrap() {
                    seen.extend(batch.records().map(|record| record.unwrap().offset));
                }
                assert_eq!(seen, (from..until).collect::<Vec<_>>(), "{topic}, by batches");
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs a Kafka 2.8: OTTLA_TEST_KAFKA_OLD"]
async fn kafka_old_records_are_read_from_every_offset_of_a_wrapper() {
    let mut kafka = kafka().await;
    for format in FORMATS {
        for codec in CODECS {
            let topic = filled(&mut kafka, format, codec, "CreateTime").await;
            let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).open().unwrap();
            let at = TopicPartition::new(&*topic, 0);
            assert_eq!(next(&mut reader).await.unwrap().offset(), 0);
            for offset in 90..310 {
                reader.control().seek(&at, Start::Offset(offset)).unwrap();
                for expected in [offset, offset + 1] {
                    let message = next(&mut reader).await.unwrap();
                    assert_eq!(message.offset(), expected, "{topic}");
                    check(&message, format);
                }
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs a Kafka 2.8: OTTLA_TEST_KAFKA_OLD"]
async fn kafka_old_nulls_and_append_times_are_what_they_are() {
    let mut kafka = kafka().await;
    let fields: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"Ottla")];
    for format in FORMATS {
        for codec in CODECS {
            let topic = filled(&mut kafka, format, codec, "LogAppendTime").await;
            let mut batch = BatchBuilder::new(codec);
            for key in fields {
                for value in fields {
                    batch.push(5, key, value, &[]);
                }
            }
            kafka.produce(&topic, 0, batch.build().unwrap()).await;
            let start = Start::Offset(RECORDS);
            let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).start(start).open().unwrap();
            for key in fields {
                for value in fields {
                    let message = next(&mut reader).await.unwrap();
                    assert_eq!((message.key(), message.value()), (key, value), "{topic}");
                    check_append_time(&message, format);
                }
            }
        }
    }
}

fn check_append_time(message: &Message, format: &str) {
    if format == "0.9.0" {
        assert_eq!((message.timestamp(), message.timestamp_type()), (-1, TimestampType::Create));
        return;
    }
    let age = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64 - message.timestamp();
    assert!((0..60_000).contains(&age), "appended {age} ms ago");
    assert_eq!(message.timestamp_type(), TimestampType::Append);
}

#[tokio::test]
#[ignore = "needs a Kafka 2.8: OTTLA_TEST_KAFKA_OLD"]
async fn kafka_old_records_are_found_by_time_where_they_have_one() {
    let mut kafka = kafka().await;
    let start = Start::At(UNIX_EPOCH + Duration::from_millis(1_000_321));
    for codec in CODECS {
        let topic = filled(&mut kafka, "0.10.0", codec, "CreateTime").await;
        let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).start(start).open().unwrap();
        assert_eq!(next(&mut reader).await.unwrap().offset(), 321, "{codec}");
    }
    let topic = filled(&mut kafka, "0.9.0", Codec::Gzip, "CreateTime").await;
    let mut reader = Reader::builder(kafka.bootstrap()).topic(&*topic).start(start).open().unwrap();
    let error = soon("the refusal", reader.next()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(error.code(), Some(Code::UNSUPPORTED_FOR_MESSAGE_FORMAT));
    assert!(error.to_string().contains("message format"), "{error}");
}
