//! A member of a consumer group, by librdkafka: `rdkafka-member BOOTSTRAP GROUP TOPIC,... [PROPERTY=VALUE]...`.
//!
//! It says what it does as `Member.java` says it.

use rdkafka::{
    ClientConfig, ClientContext, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance},
};
use std::{
    env,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

fn main() {
    let args: Vec<_> = env::args().skip(1).collect();
    let [bootstrap, group, topics, properties @ ..] = &args[..] else {
        panic!("usage: rdkafka-member BOOTSTRAP GROUP TOPIC,... [PROPERTY=VALUE]...");
    };
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", group);
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    for property in properties {
        let (name, value) = property.split_once('=').expect("PROPERTY=VALUE");
        config.set(name, value);
    }
    let consumer: BaseConsumer<Told> = config.create_with_context(Told).expect("a good configuration");
    consumer.subscribe(&topics.split(',').collect::<Vec<_>>()).expect("good topics");
    let ends = end_of_input();
    while !ends.load(Ordering::Relaxed) {
        read_one(&consumer);
    }
    consumer.unsubscribe();
    drop(consumer);
    println!("closed");
}

fn read_one(consumer: &BaseConsumer<Told>) {
    let message = match consumer.poll(Duration::from_millis(200)) {
        None => return,
        Some(Ok(message)) => message,
        Some(Err(error)) => return eprintln!("{error}"),
    };
    let (topic, partition, next) = (message.topic(), message.partition(), message.offset() + 1);
    println!("record {topic} {partition} {}", message.offset());
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, partition, Offset::Offset(next)).expect("a good offset");
    match consumer.commit(&offsets, CommitMode::Sync) {
        Ok(()) => println!("committed {topic} {partition} {next}"),
        Err(error) => println!("refused {error}"),
    }
}

fn end_of_input() -> Arc<AtomicBool> {
    let ends = Arc::new(AtomicBool::new(false));
    let flag = ends.clone();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    });
    ends
}

/// Tells what happens to its partitions.
struct Told;

impl ClientContext for Told {}

impl ConsumerContext for Told {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            println!("revoked{}", shown(partitions));
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            println!("assigned{}", shown(partitions));
        }
    }
}

fn shown(partitions: &TopicPartitionList) -> String {
    partitions.elements().iter().map(|at| format!(" {}:{}", at.topic(), at.partition())).collect()
}
