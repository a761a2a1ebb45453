//! A real broker that closes connections as soon as they are idle for two seconds. It is one of its own: readers with longer
//! waits than that would lose their parked fetches on it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]

#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::{path::Path, time::Duration};

use kafka_support::{Kafka, fresh, xtask};
use ottla::{Event, Reader};
use ottla_wire::record::Codec;
use support::{check, soon};

const IDLE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_nodes_idle_connections_are_reopened_without_a_word() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(fresh("idle"));
    let folder = folder.to_str().unwrap();
    let limit = format!("connections.max.idle.ms={}", IDLE.as_millis());
    let bootstrap = xtask(&["kafka", "up", "--dir", folder, "--set", &limit]).await;
    let told = tokio::spawn(read_now_and_then(bootstrap.trim().to_owned())).await;
    xtask(&["kafka", "down", "--dir", folder, "--delete"]).await;
    println!("{:#?}", told.unwrap());
}

/// Reads with and without a group, with pauses in which everything falls idle; gives what the readers told, none of which may
/// be trouble.
async fn read_now_and_then(bootstrap: String) -> Vec<Event> {
    let mut kafka = Kafka::at(bootstrap.clone()).await;
    let topic = kafka.create("idle", 1, &[]).await;
    let max_wait = Duration::from_millis(500);
    let mut plain = Reader::builder(&*bootstrap).topic(&*topic).max_wait(max_wait).open().unwrap();
    let mut member = Reader::builder(&*bootstrap)
        .group(fresh("idle"))
        .topic(&*topic)
        .max_wait(max_wait)
        .auto_ack()
        .open()
        .unwrap();
    let (mut of_plain, mut of_member) = (plain.events(), member.events());
    for round in 0..3 {
        let mut kafka = Kafka::at(bootstrap.clone()).await; // the one before is closed by now
        kafka.fill(&topic, 0, 100 * round, 100, Codec::None).await;
        for _ in 0..100 {
            check(&soon("a record", plain.next()).await.unwrap().unwrap());
            check(&soon("a record", member.next()).await.unwrap().unwrap());
        }
        let at = plain.control().partitions();
        plain.control().pause(&at[0]).unwrap();
        member.control().pause(&at[0]).unwrap();
        tokio::time::sleep(IDLE + Duration::from_secs(1)).await;
        plain.control().resume(&at[0]).unwrap();
        member.control().resume(&at[0]).unwrap();
    }
    member.close().await.unwrap();
    plain.close().await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = of_plain.next().await {
        told.push(event);
    }
    while let Some(event) = of_member.next().await {
        told.push(event);
    }
    let is_trouble = |event: &&Event| {
        let of_the_broker = matches!(
            event,
            Event::Retrying { .. }
                | Event::Unreachable { .. }
                | Event::Misbehaved { .. }
                | Event::Refused { .. }
        );
        let of_ours =
            matches!(event, Event::CommitFailed { .. } | Event::PartitionsLost { .. } | Event::Fault(_));
        of_the_broker || of_ours
    };
    let trouble: Vec<_> = told.iter().filter(is_trouble).collect();
    assert!(trouble.is_empty(), "{trouble:?}");
    assert!(told.len() > 10, "connections were closed and made anew: {told:?}");
    told
}
