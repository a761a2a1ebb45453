//! Each fault is told clearly, once where it concerns a partition, and the rest goes on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{net::TcpListener, time::Duration};

use ottla::{Error, ErrorKind, Event, OnOutOfRange, Reader, Start, TopicPartition, Until};
use ottla_broker::{ApiKey, Broker, Code, Fault};
use ottla_wire::{
    message::{ApiVersionsRequest, FetchRequest},
    record::{BatchBuilder, Codec},
};
use support::{broker, brokers, fill, impostor, next, nobody, offsets, soon};

async fn first_retry(bootstrap: &str) -> String {
    let reader = Reader::builder(bootstrap).topic("t").open().unwrap();
    let mut events = reader.events();
    soon("a connection to fail", async {
        loop {
            if let Event::Retrying { address, reason, .. } = events.next().await.unwrap() {
                return format!("{address}: {reason}");
            }
        }
    })
    .await
}

#[tokio::test]
async fn whoever_is_no_broker_is_named_as_what_it_is() {
    for (bootstrap, wanted) in [
        (nobody(), "cannot connect: Connection refused"),
        ("no-such-host.invalid:9092".to_owned(), "cannot connect: failed to lookup address"),
        (impostor(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "HTTP"),
        (impostor(b"\x15\x03\x03\x00\x02\x02\x16"), "TLS"),
        (impostor(b"\x7f\xff\xff\xff"), "2147483647"),
        (impostor(b"\xff\xff\xff\xff"), "-1"),
        (impostor(b"\x00\x00\x00\x08\x00\x00"), "after 2 of a frame's 8 bytes"),
        (impostor(b"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00"), "no Kafka broker"),
        (impostor(b""), "closed the connection"),
    ] {
        let told = first_retry(&bootstrap).await;
        assert!(told.starts_with(&bootstrap) && told.contains(wanted), "{told:?} should say {wanted:?}");
        println!("{told}");
    }
}

#[tokio::test]
async fn an_outage_is_told_once_with_max_attempts_and_reading_goes_on() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 3);
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .max_attempts(2)
        .backoff(Duration::from_millis(5)..=Duration::from_millis(20))
        .open()
        .unwrap();
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
    for round in 1..3 {
        broker.with(|c| c.stop_node(1, ottla_broker::Leaders::Lose)).unwrap();
        let error = soon("the outage", reader.next()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.is_retriable() && !error.is_closed());
        println!("{error}");
        support::nothing(&mut reader, Duration::from_millis(200)).await;
        broker.with(|c| c.start_node(1)).unwrap();
        fill(&broker, "t", 0, 2);
        assert_eq!(offsets(&mut reader, 2).await, [1 + 2 * round, 2 + 2 * round]);
    }
}

#[tokio::test]
async fn a_broken_connection_loses_and_repeats_nothing() {
    let broker = brokers(2, &[("t", 2)]).await;
    fill(&broker, "t", 0, 20_000);
    fill(&broker, "t", 1, 20_000);
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .until(Until::End)
        .max_bytes(20_000)
        .backoff(Duration::from_millis(1)..=Duration::from_millis(5))
        .open()
        .unwrap();
    let (mut expected, mut total) = ([0; 2], 0);
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        support::check(&message);
        let partition = message.partition() as usize;
        assert_eq!(message.offset(), expected[partition]);
        expected[partition] += 1;
        total += 1;
        if total % 3000 == 0 {
            let cut = (total / 3) % 5000;
            broker.with(|c| c.fault(Fault::cut(ApiKey::Fetch, cut)));
        }
        if total % 7000 == 0 {
            broker.with(|c| c.close_connections(1 + total as i32 % 2));
        }
    }
    assert_eq!(expected, [20_000; 2]);
}

/// Reads partition 1 to its end and expects one error, for partition 0.
async fn one_fails_the_other_goes_on(mut reader: Reader) -> Error {
    let (mut seen, mut failed) = (0, None);
    while seen < 100 || failed.is_none() {
        match soon("the rest", reader.next()).await {
            Ok(message) => {
                assert_eq!(message.expect("not the end").partition(), 1);
                seen += 1;
            }
            Err(error) => assert!(failed.replace(error).is_none(), "told once"),
        }
    }
    support::nothing(&mut reader, Duration::from_millis(50)).await;
    let error = failed.unwrap();
    assert_eq!(error.partition(), Some(&TopicPartition::new("t", 0)));
    println!("{error}");
    error
}

#[tokio::test]
async fn a_damaged_batch_fails_its_partition() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 0, 100);
    fill(&broker, "t", 1, 100);
    broker.with(|c| c.fault(Fault::corrupt_records(80).partition(0).always()));
    let open = || Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let error = one_fails_the_other_goes_on(open()).await;
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corrupt, Some(0)));

    // A seek revives it.
    let mut reader = open();
    let control = reader.control();
    let mut seen = 0;
    while seen < 100 {
        seen += i32::from(soon("the others", reader.next()).await.is_ok());
    }
    broker.with(|c| c.clear_faults());
    control.seek(&TopicPartition::new("t", 0), Start::Offset(0)).unwrap();
    assert_eq!(offsets(&mut reader, 100).await, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_damaged_batch_comes_after_the_good_ones_before_it() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 300);
    let size = support::batch(Codec::None, 0, 0, 100).len();
    broker.with(|c| c.fault(Fault::corrupt_records(size + 90).always()));
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").until(Until::End).open().unwrap();
    assert_eq!(offsets(&mut reader, 100).await.last(), Some(&99));
    let error = soon("the damage", reader.next()).await.unwrap_err();
    assert_eq!(error.offset(), Some(100));
    assert!(error.to_string().contains("seek beyond it"), "{error}");
    let end = soon("a failed partition counts as ended", reader.next()).await.unwrap();
    assert!(end.is_none());
}

#[tokio::test]
async fn a_batch_of_a_format_that_is_not_known_is_named_as_such() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 1, 100);
    fill(&broker, "t", 0, 1);
    let unknown = Fault::rewrite::<FetchRequest>(|response, _| {
        for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
            let damaged = partition.partition_index == 0;
            if let Some(records) = partition.records.as_mut().filter(|r| damaged && !r.is_empty()) {
                let mut bytes = records.to_vec();
                bytes[16] = 3; // magic
                *records = bytes.into();
            }
        }
    });
    broker.with(|c| c.fault(unknown.partition(0).always()));
    let error =
        one_fails_the_other_goes_on(Reader::builder(broker.bootstrap()).topic("t").open().unwrap()).await;
    assert!(error.to_string().contains("unknown batch format 3"), "{error}");
}

#[tokio::test]
async fn a_bomb_is_refused_by_its_size() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 1, 100);
    let mut bomb = BatchBuilder::new(Codec::Zstd);
    bomb.push(1, None, Some(&vec![0; 1 << 20]), &[]);
    broker.with(|c| c.append("t", 0, bomb.build().unwrap())).unwrap();
    let reader = Reader::builder(broker.bootstrap()).topic("t").max_batch_bytes(100_000).open().unwrap();
    let error = one_fails_the_other_goes_on(reader).await;
    assert!(error.to_string().contains("100000"), "{error}");
}

#[tokio::test]
async fn codes_that_are_final_fail_the_partition_and_others_are_retried() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 0, 5);
    fill(&broker, "t", 1, 100);
    let fault = |code, times| Fault::partition_error(ApiKey::Fetch, code).partition(0).times(times);
    broker.with(|c| c.fault(fault(Code::CORRUPT_MESSAGE, 1)));
    let reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let error = one_fails_the_other_goes_on(reader).await;
    assert_eq!(error.code(), Some(Code::CORRUPT_MESSAGE));

    for code in [Code::NOT_LEADER_OR_FOLLOWER, Code::UNKNOWN_SERVER_ERROR, Code::KAFKA_STORAGE_ERROR] {
        broker.with(|c| c.fault(fault(code, 2)));
        let mut reader = Reader::builder(broker.bootstrap()).topic("t").partition(0).open().unwrap();
        assert_eq!(offsets(&mut reader, 5).await, [0, 1, 2, 3, 4], "{code}");
    }
}

#[tokio::test]
async fn a_refused_topic_is_told_every_time_until_it_is_allowed() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    let refusal = Fault::partition_error(ApiKey::Metadata, Code::TOPIC_AUTHORIZATION_FAILED).always();
    let refusal = broker.with(|c| c.fault(refusal));
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    for _ in 0..3 {
        let error = soon("the refusal", reader.next()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::TOPIC_AUTHORIZATION_FAILED));
    }
    broker.with(|c| c.clear_fault(refusal));
    let message = soon("permission", async {
        loop {
            if let Ok(message) = reader.next().await {
                return message.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(message.await.offset(), 0);
}

#[tokio::test]
async fn an_offset_out_of_range_follows_the_policy() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 1000);
    broker.with(|c| c.delete_records("t", 0, 500)).unwrap();
    for (policy, start, lands) in [
        (OnOutOfRange::Nearest, 3, 500),
        (OnOutOfRange::Earliest, 5000, 500),
        (OnOutOfRange::Latest, 3, 1000),
        (OnOutOfRange::Nearest, 5000, 1000),
    ] {
        let mut reader = Reader::builder(broker.bootstrap())
            .topic("t")
            .start(Start::Offset(start))
            .on_out_of_range(policy)
            .open()
            .unwrap();
        let mut events = reader.events();
        let reset = soon("the event", async {
            loop {
                if let Event::OffsetReset { from, to, .. } = events.next().await.unwrap() {
                    return (from, to);
                }
            }
        });
        assert_eq!(reset.await, (start, lands), "{policy:?} from {start}");
        if lands < 1000 {
            assert_eq!(next(&mut reader).await.offset(), lands);
        } else {
            support::nothing(&mut reader, Duration::from_millis(50)).await;
            let at = TopicPartition::new("t", 0);
            assert_eq!(reader.control().position(&at).unwrap(), Some(lands));
        }
    }
    // A mistyped offset beyond the end is no empty topic, though nothing lies between it and the end.
    let beyond = |policy| {
        let builder = Reader::builder(broker.bootstrap()).topic("t").start(Start::Offset(5000));
        builder.until(Until::End).on_out_of_range(policy).open().unwrap()
    };
    let error = soon("the error", beyond(OnOutOfRange::Error).next()).await.unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::OutOfRange, Some(5000)));
    let mut reader = beyond(OnOutOfRange::Nearest);
    let mut events = reader.events();
    assert!(soon("the end", reader.next()).await.unwrap().is_none());
    let reset = |event| matches!(event, Event::OffsetReset { from: 5000, to: 1000, .. });
    soon("the event", async { while !reset(events.next().await.unwrap()) {} }).await;

    let builder = Reader::builder(broker.bootstrap()).topic("t").start(Start::Offset(3));
    let mut reader = builder.on_out_of_range(OnOutOfRange::Error).open().unwrap();
    let error = soon("the error", reader.next()).await.unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::OutOfRange, Some(3)));
    assert_eq!(
        error.to_string(),
        "t partition 0: offset 3 is out of range, the log holds 500 to 1000; seek to go on"
    );
    reader.control().seek(&TopicPartition::new("t", 0), Start::Offset(998)).unwrap();
    assert_eq!(next(&mut reader).await.offset(), 998);
}

#[tokio::test]
async fn a_silent_broker_is_given_up_after_the_request_timeout() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 3);
    broker.with(|c| c.fault(Fault::silence(ApiKey::Fetch)));
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .max_wait(Duration::from_millis(50))
        .request_timeout(Duration::from_millis(300))
        .open()
        .unwrap();
    let mut events = reader.events();
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
    soon("the event", async {
        loop {
            if let Event::Retrying { reason, .. } = events.next().await.unwrap() {
                assert_eq!(reason, "no answer within 300ms");
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn answers_that_leave_out_or_repeat_a_partition_are_survived() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 0, 50);
    fill(&broker, "t", 1, 50);
    let mut round = 0;
    let rewrite = Fault::rewrite::<FetchRequest>(move |response, _| {
        round += 1;
        for topic in &mut response.responses {
            match round % 3 {
                0 => topic.partitions.clear(),
                1 => topic.partitions.extend(topic.partitions.clone()),
                _ => topic.partitions.iter_mut().for_each(|p| p.partition_index += 7),
            }
        }
    });
    broker.with(|c| c.fault(rewrite.times(6)));
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .until(Until::End)
        .backoff(Duration::from_millis(1)..=Duration::from_millis(5))
        .open()
        .unwrap();
    let mut expected = [0; 2];
    while let Some(message) = soon("the end", reader.next()).await.unwrap() {
        let partition = message.partition() as usize;
        assert_eq!(message.offset(), expected[partition]);
        expected[partition] += 1;
    }
    assert_eq!(expected, [50; 2]);
}

#[tokio::test]
async fn a_bad_configuration_comes_in_one_error() {
    let error = Reader::builder("a:b,,c d")
        .topic("no/slash")
        .topic("x")
        .partition(-1)
        .start(Start::Offset(-5))
        .min_bytes(10)
        .max_bytes(5)
        .budget(3)
        .max_attempts(0)
        .request_timeout(Duration::ZERO)
        .backoff(Duration::from_secs(2)..=Duration::from_secs(1))
        .open()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    println!("{text}");
    for part in [
        "\"b\" in \"a:b\" is not a port (1 to 65535)",
        "\"c d\" is not HOST:PORT",
        "topic \"no/slash\" has characters other than",
        "partitions are named, but 2 topics",
        "start offset -5 is negative",
        "min_bytes 10 is more than max_bytes 5",
        "budget 3 is less than 1 MiB",
        "max_attempts 0",
        "request_timeout is zero",
        "the shortest pause 2s is longer than the longest 1s",
    ] {
        assert!(text.contains(part), "{text:?} should say {part:?}");
    }
    assert_eq!(
        Reader::builder(" ").open().unwrap_err().to_string(),
        "bad configuration: bootstrap: no broker is named; no topic is named"
    );
}

#[tokio::test]
async fn an_absent_api_is_an_absent_feature_and_an_absent_version_is_named() {
    let broker = Broker::start(ottla_broker::ClusterOptions::new().without(ApiKey::OffsetForLeaderEpoch))
        .await
        .unwrap();
    broker.with(|c| c.create_topic("t", 1)).unwrap();
    fill(&broker, "t", 0, 3);
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .metadata_max_age(Duration::from_millis(20))
        .open()
        .unwrap();
    assert_eq!(offsets(&mut reader, 3).await, [0, 1, 2]);
    broker.with(|c| c.set_leader("t", 0, Some(1))).unwrap();
    fill(&broker, "t", 0, 3);
    assert_eq!(offsets(&mut reader, 3).await, [3, 4, 5]);

    let ancient = Fault::rewrite::<ApiVersionsRequest>(|response, _| {
        let fetch = response.api_keys.iter_mut().find(|api| api.api_key == ApiKey::Fetch as i16).unwrap();
        (fetch.min_version, fetch.max_version) = (0, 3);
    });
    broker.with(|c| c.fault(ancient.always()));
    let builder = Reader::builder(broker.bootstrap()).topic("t");
    let mut reader = builder.backoff(Duration::from_millis(1)..=Duration::from_millis(5)).open().unwrap();
    let error = soon("the error", reader.next()).await.unwrap_err();
    assert!(error.to_string().contains("the broker speaks Fetch in versions 0 to 3, we in 4 to"), "{error}");
    broker.with(|c| c.clear_faults());
    let message = soon("it is updated", async {
        loop {
            match reader.next().await {
                Ok(message) => return message.unwrap(),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    assert_eq!(message.await.offset(), 0);
}

#[tokio::test]
async fn a_topic_made_anew_with_fewer_partitions_ends_with_those() {
    let broker = broker(&[("t", 4)]).await;
    (0..4).for_each(|partition| fill(&broker, "t", partition, 10));
    let builder = Reader::builder(broker.bootstrap()).topic("t").until(Until::End);
    let mut reader = builder.metadata_max_age(Duration::from_millis(30)).open().unwrap();
    assert_eq!(next(&mut reader).await.offset(), 0);
    broker.with(|c| {
        c.delete_topic("t").unwrap();
        c.create_topic("t", 2).unwrap();
    });
    let mut events = reader.events();
    soon("the news", async { while !matches!(events.next().await, Some(Event::TopicRecreated { .. })) {} })
        .await;
    let asked = broker.with(|c| c.requests(ApiKey::ListOffsets));
    while soon("the end", reader.next()).await.unwrap().is_some() {}
    let more = broker.with(|c| c.requests(ApiKey::ListOffsets)) - asked;
    assert!(more < 20, "{more} more questions for partitions that are gone");
}

#[tokio::test]
async fn a_broker_that_only_shakes_hands_is_as_good_as_away() {
    let broker = broker(&[("t", 1)]).await;
    broker.with(|c| c.fault(Fault::close(ApiKey::Metadata).always()));
    let builder = Reader::builder(broker.bootstrap()).topic("t").max_attempts(3);
    let mut reader = builder.backoff(Duration::from_millis(1)..=Duration::from_millis(5)).open().unwrap();
    let error = soon("the outage", reader.next()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn answers_that_come_too_early_do_not_make_a_hot_loop() {
    let broker = broker(&[("t", 1)]).await;
    for builder in [
        Reader::builder(broker.bootstrap()).topic("t").min_bytes(0),
        Reader::builder(broker.bootstrap()).topic("t").max_wait(Duration::ZERO),
    ] {
        let mut reader = builder.start(Start::Latest).open().unwrap();
        support::nothing(&mut reader, Duration::from_millis(100)).await;
        let before = broker.with(|c| c.requests(ApiKey::Fetch));
        support::nothing(&mut reader, Duration::from_millis(500)).await;
        let asked = broker.with(|c| c.requests(ApiKey::Fetch)) - before;
        assert!(asked < 100, "{asked} fetches in half a second of nothing");
        let end = broker.with(|c| c.high_watermark("t", 0)).unwrap();
        fill(&broker, "t", 0, 1);
        assert_eq!(next(&mut reader).await.offset(), end);
    }
}

#[tokio::test]
async fn a_flood_of_seeks_asks_a_few_questions_only() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    assert_eq!(next(&mut reader).await.offset(), 0);
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    for _ in 0..10_000 {
        control.seek(&at, Start::Earliest).unwrap();
    }
    assert_eq!(next(&mut reader).await.offset(), 0);
    let asked = broker.with(|c| c.requests(ApiKey::ListOffsets));
    assert!(asked < 50, "{asked} questions");
    assert!(control.seek(&TopicPartition::new("t", -5), Start::Earliest).is_err());
}

#[tokio::test]
async fn a_refusal_does_not_outlive_its_topic() {
    let broker = broker(&[("t", 1)]).await;
    let refusal = Fault::partition_error(ApiKey::Metadata, Code::TOPIC_AUTHORIZATION_FAILED).always();
    let refusal = broker.with(|c| c.fault(refusal));
    let builder = Reader::builder(broker.bootstrap()).topic("t");
    let mut reader = builder.backoff(Duration::from_millis(1)..=Duration::from_millis(20)).open().unwrap();
    assert!(soon("the refusal", reader.next()).await.is_err());
    broker.with(|c| {
        c.clear_fault(refusal);
        c.delete_topic("t").unwrap();
    });
    let mut events = reader.events();
    soon("the news", async { while !matches!(events.next().await, Some(Event::TopicMissing { .. })) {} })
        .await;
    support::nothing(&mut reader, Duration::from_millis(50)).await;
}

#[tokio::test]
async fn never_is_a_duration() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    let mut reader = Reader::builder(broker.bootstrap())
        .topic("t")
        .request_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .metadata_max_age(Duration::MAX)
        .backoff(Duration::MAX..=Duration::MAX)
        .open()
        .unwrap();
    assert_eq!(next(&mut reader).await.offset(), 0);
    let error = Reader::builder("x").topic("t").client_id("x".repeat(40_000)).open().unwrap_err();
    assert!(error.to_string().contains("client_id has 40000 bytes"), "{error}");
}

/// The commonest mistake with Kafka in a container: the bootstrap address works, those that the brokers advertise do not.
#[tokio::test]
async fn an_advertised_address_that_cannot_be_reached_is_named_beside_who_named_it() {
    let broker = broker(&[("t", 1)]).await;
    let bootstrap = broker.bootstrap();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let node = broker.with(|cluster| cluster.nodes()[0].id);
    broker.with(|cluster| cluster.set_address(node, "127.0.0.1", dead.port())).unwrap();
    let mut reader = Reader::builder(bootstrap.clone()).topic("t").max_attempts(2).open().unwrap();
    let error = soon("an error", reader.next()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    for part in [dead.to_string(), bootstrap, format!("broker {node} advertises")] {
        assert!(error.to_string().contains(&part), "{error}");
    }
    println!("{error}");
}

/// What the reader was in the middle of is not handed out after close has returned, whatever it is that closes it.
#[tokio::test]
async fn a_closed_reader_hands_out_nothing_also_of_a_batch_that_was_begun() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 100);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    assert_eq!(next(&mut reader).await.offset(), 0);
    reader.control().close();
    for _ in 0..2 {
        let error = soon("the error", reader.next()).await.unwrap_err();
        assert!(error.is_closed(), "{error}");
    }
    assert!(soon("the error", reader.next_batch()).await.unwrap_err().is_closed());
}

#[test]
fn a_runtime_without_timers_is_named() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let error = runtime.block_on(async {
        let mut reader = Reader::builder("127.0.0.1:1").topic("t").open().unwrap();
        let error = reader.next().await.unwrap_err();
        reader.close().await.unwrap();
        error
    });
    assert_eq!(error.kind(), ErrorKind::Runtime, "{error}");
    assert!(error.to_string().contains("timers"), "{error}");
}
