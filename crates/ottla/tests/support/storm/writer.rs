//! One writer for each partition. Batches carry numbers by which the broker knows those that it has (an idempotent producer),
//! so a batch is sent until it is acknowledged, and is there once: the record of number n has offset n.

use std::time::Duration;

use ottla::Code;
use ottla_wire::{message::InitProducerIdRequest, record::Codec};
use tokio::{sync::watch, task::JoinHandle};

use super::Log;
use crate::{
    client_support::{Client, PAUSE},
    support::records,
};

/// How many records a batch has at most.
const BATCH: i64 = 10;

/// Between two batches of a partition.
const INTERVAL: Duration = Duration::from_millis(40);

/// A broker that is silent for so long is given up: what is acknowledged late may be read late.
const LIMIT: Duration = Duration::from_millis(700);

/// Writes until it is told to stop, and what was begun is acknowledged.
pub(super) fn begin(
    bootstrap: &str,
    topic: &str,
    partition: i32,
    log: Log,
    stopped: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (nodes, topic) = (bootstrap.split(',').map(str::to_owned).collect::<Vec<_>>(), topic.to_owned());
    let mut client = Client::with_limit(bootstrap, LIMIT);
    tokio::spawn(async move {
        let (id, epoch) = producer(&mut client).await;
        let mut next = 0;
        while !*stopped.borrow() {
            let count = fastrand::i64(1..=BATCH);
            let mut batch = records(Codec::None, partition, next, count);
            let batch = batch.producer(id, epoch, next as i32).build().unwrap();
            let (offset, leader) = loop {
                match client.produce(&topic, partition, &batch).await {
                    Some(written) => break written,
                    None => tokio::time::sleep(PAUSE).await,
                }
            };
            let node = 1 + nodes.iter().position(|node| *node == leader).expect("one of ours") as i32;
            log.write(|book, now| book.acknowledged(now, partition, node, offset, count));
            next += count;
            tokio::time::sleep(INTERVAL).await;
        }
    })
}

/// The producer's id and epoch.
async fn producer(client: &mut Client) -> (i64, i16) {
    let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    loop {
        let answer = client.ask_any(&request, i16::MAX).await;
        if Code(answer.error_code) == Code::NONE {
            return (answer.producer_id, answer.producer_epoch);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
