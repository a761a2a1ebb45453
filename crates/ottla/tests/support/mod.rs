//! What the tests of the reader share: an embedded broker, records in it, and a limit on every wait.
#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::{
    future::Future,
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

use ottla::{Builder, Control, Group, Message, Reader, TopicPartition};
use ottla_broker::{Broker, ClusterOptions};
use ottla_wire::record::{BatchBuilder, Codec};
use tokio::net::TcpSocket;

/// No wait of a test is longer; what needs longer has failed.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The promises say 100 ms. On a real socket and a loaded machine ten times that is asserted, and measured elsewhere.
pub const PROMPT: Duration = Duration::from_secs(1);

/// A broker with these topics.
pub async fn broker(topics: &[(&str, i32)]) -> Broker {
    brokers(1, topics).await
}

/// A cluster with these topics.
pub async fn brokers(nodes: i32, topics: &[(&str, i32)]) -> Broker {
    let broker = Broker::start(ClusterOptions::new().nodes(nodes)).await.expect("a port is free");
    for &(topic, partitions) in topics {
        broker.with(|cluster| cluster.create_topic(topic, partitions)).expect("a new topic");
    }
    broker
}

/// A port that refuses connections for as long as the test runs: it is taken, and nobody listens.
pub fn nobody() -> String {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
    let address = socket.local_addr().expect("bound").to_string();
    std::mem::forget(socket);
    address
}

/// A server that answers whatever it is asked with these bytes, and then closes.
pub fn impostor(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).and_then(|_| stream.write_all(answer));
        }
    });
    address
}

/// The value that [`fill`] gives to the record at `offset`.
pub fn value(partition: i32, offset: i64) -> String {
    format!("value {partition}/{offset}")
}

/// A batch of records with keys "key N" and values by [`value`], from `offset` on.
pub fn batch(codec: Codec, partition: i32, offset: i64, count: i64) -> Vec<u8> {
    records(codec, partition, offset, count).build().expect("a batch that fits")
}

/// The same before it is built.
pub fn records(codec: Codec, partition: i32, offset: i64, count: i64) -> BatchBuilder {
    let mut batch = BatchBuilder::new(codec);
    for offset in offset..offset + count {
        let (key, value) = (format!("key {offset}"), value(partition, offset));
        batch.push(1_000_000 + offset, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    }
    batch
}

/// Appends so many records in batches of 100.
pub fn fill(broker: &Broker, topic: &str, partition: i32, count: i64) {
    broker.with(|cluster| {
        let mut left = count;
        while left > 0 {
            let offset = cluster.high_watermark(topic, partition).expect("a partition");
            let size = left.min(100);
            cluster
                .append(topic, partition, batch(Codec::None, partition, offset, size))
                .expect("a good batch");
            left -= size;
        }
    });
}

/// The work's result, or a failure if it takes longer than [`LIMIT`].
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    within(LIMIT, what, work).await
}

/// The work's result, or a failure if it takes longer than `limit`.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

/// The next message, which must come, and be what [`fill`] wrote.
pub async fn next<K>(reader: &mut Reader<K>) -> Message {
    let message = soon("a message", reader.next()).await.expect("no error").expect("not the end");
    check(&message);
    message
}

/// Checks a message against what [`fill`] wrote.
pub fn check(message: &Message) {
    let (partition, offset) = (message.partition(), message.offset());
    assert_eq!(message.value(), Some(value(partition, offset).as_bytes()));
    assert_eq!(message.key(), Some(format!("key {offset}").as_bytes()));
    assert_eq!(message.timestamp(), 1_000_000 + offset);
}

/// The next messages' offsets.
pub async fn offsets<K>(reader: &mut Reader<K>, count: usize) -> Vec<i64> {
    let mut offsets = Vec::new();
    for _ in 0..count {
        offsets.push(next(reader).await.offset());
    }
    offsets
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    soon(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Nothing comes: the future is still pending after everything that is under way has had its time.
pub async fn nothing<K>(reader: &mut Reader<K>, time: Duration) {
    if let Ok(got) = tokio::time::timeout(time, reader.next()).await {
        panic!("got {got:?} where nothing was due");
    }
}

/// A broker with these topics that lets sessions be as short as a test wants them.
pub async fn group_broker(nodes: i32, topics: &[(&str, i32)]) -> Broker {
    let options = ClusterOptions::new()
        .nodes(nodes)
        .session_timeouts(Duration::from_millis(10), Duration::from_secs(60))
        .remember_requests(10_000)
        .remember_commits(10_000);
    let broker = Broker::start(options).await.expect("a port is free");
    for &(topic, partitions) in topics {
        broker.with(|cluster| cluster.create_topic(topic, partitions)).expect("a new topic");
    }
    broker
}

/// A member of the group "g" that reads the topic "t", and notices rebalances at once.
pub fn member(broker: &Broker) -> Builder<Group> {
    Reader::builder(broker.bootstrap())
        .group("g")
        .topic("t")
        .heartbeat_interval(Duration::from_millis(20))
        .commit_interval(Duration::from_millis(20))
        .backoff(Duration::from_millis(2)..=Duration::from_millis(20))
}

/// Waits until the member's assignment is as long.
pub async fn owns<K>(control: &Control<K>, count: usize) -> Vec<TopicPartition> {
    eventually(&format!("{count} partitions"), || control.partitions().len() == count).await;
    control.partitions()
}

/// What the group "g" has committed of the topic "t".
pub fn committed(broker: &Broker, partition: i32) -> Option<i64> {
    broker.with(|cluster| cluster.committed("g", "t", partition))
}

/// Waits until the group "g" has committed this offset of the topic "t".
pub async fn commits(broker: &Broker, partition: i32, offset: i64) {
    eventually(&format!("offset {offset} of partition {partition} is committed"), || {
        committed(broker, partition) == Some(offset)
    })
    .await;
}
