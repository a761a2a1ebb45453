//! Nothing blocks on the wrong thing: with fetches parked for ten seconds, what the user asks for is done at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::time::{Duration, Instant};

use ottla::{Reader, Start, TopicPartition};
use ottla_broker::{ApiKey, Broker};
use support::{PROMPT, broker, brokers, eventually, fill, next, offsets, within};

/// A reader of an idle topic with data in partition 0 only, read to its end, so that everything is parked.
async fn parked(broker: &Broker) -> Reader {
    fill(broker, "t", 0, 10);
    let mut reader =
        Reader::builder(broker.bootstrap()).topic("t").max_wait(Duration::from_secs(10)).open().unwrap();
    assert_eq!(offsets(&mut reader, 10).await, (0..10).collect::<Vec<_>>());
    let before = broker.with(|c| c.requests(ApiKey::Fetch));
    eventually("a parked fetch", || broker.with(|c| c.requests(ApiKey::Fetch)) >= before.min(2)).await;
    reader
}

#[tokio::test]
async fn a_seek_to_data_delivers() {
    let broker = broker(&[("t", 6)]).await;
    let mut reader = parked(&broker).await;
    for offset in [3, 7, 0, 9] {
        let begin = Instant::now();
        reader.control().seek(&TopicPartition::new("t", 0), Start::Offset(offset)).unwrap();
        assert_eq!(within(PROMPT, "the sought record", next(&mut reader)).await.offset(), offset);
        println!("seek to data: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_seek_by_time_from_the_end_and_to_an_end() {
    let broker = broker(&[("t", 1)]).await;
    let mut reader = parked(&broker).await;
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    let time = std::time::UNIX_EPOCH + Duration::from_millis(1_000_004);
    for (start, first) in [(Start::At(time), 4), (Start::Last(2), 8), (Start::Earliest, 0)] {
        control.seek(&at, start).unwrap();
        assert_eq!(within(PROMPT, "the sought record", next(&mut reader)).await.offset(), first, "{start:?}");
    }
    control.seek(&at, Start::Latest).unwrap();
    eventually("the end", || control.position(&at).unwrap() == Some(10)).await;
    fill(&broker, "t", 0, 1);
    assert_eq!(within(PROMPT, "the new record", next(&mut reader)).await.offset(), 10);
}

#[tokio::test]
async fn a_seek_before_the_partition_is_known_counts() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    reader.control().seek(&TopicPartition::new("t", 0), Start::Offset(6)).unwrap();
    assert_eq!(next(&mut reader).await.offset(), 6);
}

#[tokio::test]
async fn nothing_from_before_a_seek_comes_after_it() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 5000);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    for round in 0..200 {
        let target = (round * 7919) % 5000;
        control.seek(&at, Start::Offset(target)).unwrap();
        assert_eq!(control.position(&at).unwrap(), Some(target));
        assert_eq!(next(&mut reader).await.offset(), target);
        let more = (5000 - target - 1).min(3);
        let wanted: Vec<i64> = (target + 1..=target + more).collect();
        assert_eq!(offsets(&mut reader, more as usize).await, wanted);
    }
}

#[tokio::test]
async fn a_resumed_partition_delivers() {
    let broker = broker(&[("t", 3)]).await;
    let mut reader = parked(&broker).await;
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    control.pause(&at).unwrap();
    fill(&broker, "t", 0, 5);
    fill(&broker, "t", 1, 5);
    for _ in 0..5 {
        assert_eq!(within(PROMPT, "the others go on", next(&mut reader)).await.partition(), 1);
    }
    support::nothing(&mut reader, Duration::from_millis(200)).await;
    let begin = Instant::now();
    control.resume(&at).unwrap();
    assert_eq!(within(PROMPT, "the resumed partition", next(&mut reader)).await.offset(), 10);
    println!("resume: {:?}", begin.elapsed());
    assert_eq!(offsets(&mut reader, 4).await, [11, 12, 13, 14]);
}

#[tokio::test]
async fn a_batch_begun_before_a_pause_is_continued_after_it() {
    let broker = broker(&[("t", 2)]).await;
    fill(&broker, "t", 0, 1000);
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let (control, at) = (reader.control(), TopicPartition::new("t", 0));
    assert_eq!(offsets(&mut reader, 150).await.last(), Some(&149));
    let asked = broker.with(|c| c.requests(ApiKey::Fetch));
    control.pause(&at).unwrap();
    support::nothing(&mut reader, Duration::from_millis(100)).await;
    control.resume(&at).unwrap();
    assert_eq!(offsets(&mut reader, 850).await, (150..1000).collect::<Vec<_>>());
    let more = broker.with(|c| c.requests(ApiKey::Fetch)) - asked;
    assert!(more <= 4, "what was fetched was kept: {more} more fetches");
}

#[tokio::test]
async fn close_returns_and_next_says_so() {
    let broker = broker(&[("t", 3)]).await;
    let mut reader = parked(&broker).await;
    let control = reader.control();
    let waiting = tokio::spawn(async move {
        let first = reader.next().await.unwrap_err();
        let second = reader.next().await.unwrap_err();
        (first, second, reader)
    });
    tokio::task::yield_now().await;
    control.close();
    let (first, second, reader) = within(PROMPT, "next() ends", waiting).await.unwrap();
    assert!(first.is_closed() && second.is_closed());
    assert_eq!(first.to_string(), "the reader is closed");
    let begin = Instant::now();
    within(PROMPT, "close", reader.close()).await.unwrap();
    println!("close: {:?}", begin.elapsed());
    eventually("the connections are gone", || broker.with(|c| c.open_connections(1)) == 0).await;
    let at = TopicPartition::new("t", 0);
    for error in [
        control.seek(&at, Start::Earliest).unwrap_err(),
        control.pause(&at).unwrap_err(),
        control.resume(&at).unwrap_err(),
        control.position(&at).unwrap_err(),
        control.lag(&at).unwrap_err(),
    ] {
        assert!(error.is_closed(), "{error}");
    }
}

#[tokio::test]
async fn a_dropped_readers_tasks_end() {
    let broker = broker(&[("t", 3)]).await;
    let reader = parked(&broker).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    let with_reader = metrics.num_alive_tasks();
    assert!(broker.with(|c| c.open_connections(1)) > 0);
    let begin = Instant::now();
    drop(reader);
    within(PROMPT, "connections end", async {
        while broker.with(|c| c.open_connections(1)) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    eventually("tasks end", || metrics.num_alive_tasks() < with_reader).await;
    println!("drop: {:?}", begin.elapsed());
}

#[tokio::test]
async fn a_partition_without_leader_holds_up_no_other() {
    let broker = brokers(2, &[("t", 4)]).await;
    broker.with(|c| c.set_leader("t", 2, None)).unwrap();
    for partition in [0, 1, 3] {
        fill(&broker, "t", partition, 10);
    }
    let mut reader = Reader::builder(broker.bootstrap()).topic("t").open().unwrap();
    let mut events = reader.events();
    for _ in 0..30 {
        assert_ne!(within(PROMPT, "the others", next(&mut reader)).await.partition(), 2);
    }
    support::soon("the event", async {
        while !matches!(events.next().await.unwrap(), ottla::Event::LeaderMissing { at } if at.partition == 2)
        {
        }
    })
    .await;
    broker.with(|c| c.set_leader("t", 2, Some(1))).unwrap();
    fill(&broker, "t", 2, 1);
    assert_eq!(support::soon("the fourth", next(&mut reader)).await.partition(), 2);
    let found = |event| matches!(event, ottla::Event::LeaderChanged { at, leader: 1 } if at.partition == 2);
    support::soon("the news", async { while !found(events.next().await.unwrap()) {} }).await;
}

#[tokio::test]
async fn an_open_reader_needs_a_runtime_and_a_single_thread_will_do() {
    let outside = std::thread::spawn(|| Reader::builder("localhost:1").topic("t").open().unwrap_err());
    let error = outside.join().unwrap();
    assert_eq!(error.kind(), ottla::ErrorKind::Runtime);
    assert_eq!(error.to_string(), "no tokio runtime here: open a reader inside one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_and_resumes_from_another_thread_lose_and_reorder_nothing() {
    const RECORDS: i64 = 100_000;
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, RECORDS);
    for pause in [Duration::ZERO, Duration::from_micros(50), Duration::from_millis(1)] {
        let mut reader = Reader::builder(broker.bootstrap())
            .topic("t")
            .max_bytes(100_000)
            .until(ottla::Until::End)
            .open()
            .unwrap();
        let (control, at) = (reader.control(), TopicPartition::new("t", 0));
        let storm = std::thread::spawn(move || {
            let mut pairs = 0;
            while control.pause(&at).and_then(|()| control.resume(&at)).is_ok() {
                pairs += 1;
                std::thread::sleep(pause);
            }
            pairs
        });
        for offset in 0..RECORDS {
            assert_eq!(next(&mut reader).await.offset(), offset, "with a pause of {pause:?}");
        }
        assert!(support::soon("the end", reader.next()).await.unwrap().is_none());
        reader.close().await.unwrap();
        assert!(storm.join().unwrap() > 0);
    }
}
