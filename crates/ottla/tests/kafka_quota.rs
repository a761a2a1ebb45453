//! A real broker that throttles (KIP-219): it answers at once, says how long it wants to hear nothing, and closes its ear.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::time::{Duration, Instant};

use kafka_support::{Kafka, fresh, tool};
use ottla::{Event, Reader};
use ottla_wire::record::{BatchBuilder, Codec};
use support::within;

const KAFKA: &str = "OTTLA_TEST_KAFKA";

const BATCHES: i64 = 190;
const BATCH: i64 = 20;

/// Bytes a second, on an average of eleven: so many times this may come at once, and what is read is more.
const RATE: u32 = 300_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka from 2.6 on, whose brokers take quotas: cargo xtask test"]
async fn kafka_a_quota_slows_readers_down_and_breaks_nothing() {
    let mut kafka = Kafka::connect(KAFKA).await;
    let (topic, client) = (kafka.create("quota", 1, &[]).await, fresh("quota"));
    for _ in 0..BATCHES {
        let mut batch = BatchBuilder::new(Codec::None);
        for n in 0..BATCH {
            batch.push(n, None, Some(&[b'x'; 1000]), &[]);
        }
        kafka.produce(&topic, 0, batch.build().unwrap()).await;
    }
    let rate = format!("consumer_byte_rate={RATE},request_percentage=5");
    let whom = ["--entity-type", "clients", "--entity-name", &client];
    let alter = ["--bootstrap-server", kafka.bootstrap(), "--alter", "--add-config", &rate];
    tool("ConfigCommand", &[&alter[..], &whom].concat()).await;

    let begin = Instant::now();
    let mut reader = Reader::builder(kafka.bootstrap())
        .client_id(&*client)
        .group(fresh("quota"))
        .topic(&*topic)
        .commit_interval(Duration::from_millis(100))
        .auto_ack()
        .open()
        .unwrap();
    let mut events = reader.events();
    for offset in 0..BATCHES * BATCH {
        let message = within(Duration::from_secs(60), "a record", reader.next()).await.unwrap().unwrap();
        assert_eq!(message.offset(), offset);
    }
    println!("{} kB in {:?} at {} kB a second", BATCHES * BATCH, begin.elapsed(), RATE / 1000);
    assert!(begin.elapsed() > Duration::from_secs(2), "it was not throttled");
    reader.close().await.unwrap();
    while let Some(event) = events.next().await {
        println!("{event}");
        let trouble = matches!(
            event,
            Event::Retrying { .. }
                | Event::Misbehaved { .. }
                | Event::Unreachable { .. }
                | Event::CommitFailed { .. }
                | Event::PartitionsLost { .. }
        );
        assert!(!trouble, "{event}");
    }
}
