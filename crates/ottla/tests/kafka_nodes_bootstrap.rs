//! Three real nodes behind a bootstrap list of which most addresses lead nowhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/client.rs"]
mod client_support;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::time::{Duration, Instant};

use addresses::Nobody;
use client_support::Client;
use kafka_support::{NODES, environment, fresh};
use ottla::Reader;
use ottla_wire::record::Codec;
use support::{batch, next};

const PARTITIONS: i32 = 3;

/// What two addresses that lead nowhere cost at most when they are asked before all others, on an idle machine.
const COST: Duration = Duration::from_millis(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_nodes_dead_and_silent_bootstrap_addresses_cost_little() {
    let (nodes, topic) = (environment(NODES), fresh("bootstrap"));
    let mut client = Client::new(&nodes);
    client.create(&topic, PARTITIONS).await;
    for partition in 0..PARTITIONS {
        while client.produce(&topic, partition, &batch(Codec::None, partition, 0, 10)).await.is_none() {}
    }
    let alone = whole_topic(&nodes, &topic).await;
    println!("by three nodes alone: {alone:?}");
    for nobody in Nobody::all().await {
        let beside = whole_topic(&format!("{},{nodes}", nobody.address), &topic).await;
        println!("beside one that is {}: {beside:?}", nobody.name);
        assert!(beside < alone + 10 * COST, "{beside:?}");
    }
    // One that lives, behind a dead one, a black hole and one that never says a word.
    let [dead, hole, _, mute] = Nobody::all().await;
    let last = nodes.rsplit(',').next().unwrap();
    let list = [&dead.address, &hole.address, &mute.address, last].join(",");
    let mixed = whole_topic(&list, &topic).await;
    println!("a dead one, a black hole, a mute one and one that lives: {mixed:?}");
    assert!(mixed < alone + 20 * COST, "{mixed:?}");
}

/// How long readers take at most to the last of the topic's records, when they begin with these addresses in any order.
async fn whole_topic(bootstrap: &str, topic: &str) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..8 {
        let begin = Instant::now();
        let mut reader = Reader::builder(bootstrap).topic(topic).open().unwrap();
        for _ in 0..10 * PARTITIONS {
            next(&mut reader).await;
        }
        longest = longest.max(begin.elapsed());
    }
    longest
}
