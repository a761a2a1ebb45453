//! A real broker that is stopped and started again under a reader.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::time::Duration;

use kafka_support::{Kafka, command, environment};
use ottla::{ErrorKind, Event, Reader};
use ottla_wire::record::Codec;
use support::{next, within};

const BROKER: &str = "OTTLA_TEST_KAFKA_RESTART";
const FOLDER: &str = "OTTLA_TEST_KAFKA_RESTART_DIR";

/// A broker takes a while to come up, the more so on a loaded machine.
const RESTART: Duration = Duration::from_secs(120);

const RECORDS: i64 = 20_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_restart_loses_and_repeats_nothing() {
    let rounds: i64 =
        std::env::var("OTTLA_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().expect("a number"));
    let mut kafka = Kafka::connect(BROKER).await;
    let topic = kafka.create("restart", 1, &[]).await;
    kafka.fill(&topic, 0, 0, RECORDS, Codec::None).await;
    let mut reader =
        Reader::builder(environment(BROKER)).topic(&*topic).max_attempts(3).max_bytes(50_000).open().unwrap();
    let mut events = reader.events();
    let mut expected = 0;
    for round in 0..rounds {
        // In the middle of what is there.
        for _ in 0..RECORDS / 2 {
            assert_eq!(next(&mut reader).await.offset(), expected);
            expected += 1;
        }
        tokio::task::spawn_blocking(|| command("stop", FOLDER)).await.unwrap();
        let mut outages = 0;
        let outage = within(RESTART, "the outage", async {
            loop {
                match reader.next().await {
                    Ok(message) => {
                        assert_eq!(message.expect("not the end").offset(), expected);
                        expected += 1;
                    }
                    Err(error) => return error,
                }
            }
        })
        .await;
        assert_eq!(outage.kind(), ErrorKind::Unreachable);
        outages += 1;
        println!("round {round}: {outage}");
        support::nothing(&mut reader, Duration::from_secs(2)).await;
        tokio::task::spawn_blocking(|| command("start", FOLDER)).await.unwrap();
        let mut kafka = within(RESTART, "the broker is back", Kafka::connect(BROKER)).await;
        kafka.fill(&topic, 0, RECORDS * (round + 1), RECORDS, Codec::Lz4).await;
        while expected < RECORDS * (round + 1) {
            match within(RESTART, "reading goes on", reader.next()).await {
                Ok(message) => {
                    assert_eq!(message.expect("not the end").offset(), expected);
                    expected += 1;
                }
                Err(error) => panic!("one error for the outage, and then {error}"),
            }
        }
        assert_eq!(outages, 1);
        let mut told = (false, false);
        while told != (true, true) {
            match within(RESTART, "the events", events.next()).await.expect("the reader is open") {
                Event::Retrying { .. } => told.0 = true,
                Event::Reachable => told.1 = true,
                _ => {}
            }
        }
    }
}
