//! Transactions, and what a reader is told of them.

use crate::client::{Kafka, NAMELESS, until};
use crate::groups::coordinator;
use crate::logs::fetch;
use crate::setup::{Topic, records};
use crate::{BROKER, MISSING};
use ottla_wire::code::Code;
use ottla_wire::message::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use ottla_wire::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::message::*;
use ottla_wire::record::Codec;

/// Who writes, under one transactional id.
struct Writer {
    name: String,
    producer_id: i64,
    producer_epoch: i16,
}

impl Writer {
    fn new(kafka: &mut Kafka, name: String) -> Self {
        // Asking for its coordinator makes the topic that transactions are kept in, and what an earlier run left has
        // to end.
        let newest = *kafka.versions::<FindCoordinatorRequest>().end();
        let coordinator = coordinator(&[&name], 1, newest);
        let reply = until("a transactional producer", || {
            kafka.nameless(&coordinator);
            let reply = kafka.nameless(&init(Some(&name)));
            (reply.error_code == 0).then_some(reply)
        });
        Self { name, producer_id: reply.producer_id, producer_epoch: reply.producer_epoch }
    }
}

fn init(name: Option<&str>) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: name.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_numbers_producers() {
    let mut kafka = Kafka::of(BROKER);
    for version in kafka.versions::<InitProducerIdRequest>() {
        assert_eq!(kafka.ask("producer", &init(None), version).error_code, 0);
        let writer = Writer::new(&mut kafka, format!("golden-numbered-{version}"));
        let again = kafka.ask("producer-of-transactions", &init(Some(&writer.name)), version);
        assert_eq!((again.error_code, again.producer_id), (0, writer.producer_id), "{again:?}");
        if version >= 3 {
            let outdated = InitProducerIdRequest {
                producer_id: writer.producer_id + 1,
                producer_epoch: 0,
                ..init(Some(&writer.name))
            };
            let reply = kafka.ask("producer-refused", &outdated, version);
            assert_ne!(reply.error_code, 0, "{reply:?}");
        }
    }
}

#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_adds_partitions_to_transactions() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-added", 2, &[]);
    for version in kafka.versions::<AddPartitionsToTxnRequest>() {
        let writer = Writer::new(&mut kafka, format!("golden-added-{version}"));
        let reply = kafka.ask("add", &add(&writer, &[(&topic.name, &[0, 1])], version), version);
        assert_eq!(added(&reply), [Code::NONE; 2], "{reply:?}");
        let refused = add(&writer, &[(&topic.name, &[0]), (MISSING, &[0])], version);
        let codes = added(&kafka.ask("add-refused", &refused, version));
        assert!(codes.contains(&Code::OPERATION_NOT_ATTEMPTED), "{codes:?}");
        assert!(codes.contains(&Code::UNKNOWN_TOPIC_OR_PARTITION), "{codes:?}");
    }
    topic.remove(&mut kafka);
}

/// From version 4 on, which is for brokers, for several transactions at once.
fn add(writer: &Writer, topics: &[(&str, &[i32])], version: i16) -> AddPartitionsToTxnRequest {
    let topics = topics.iter().map(|(name, partitions)| AddPartitionsToTxnTopic {
        name: (*name).into(),
        partitions: partitions.to_vec(),
    });
    let topics = topics.collect();
    if version < 4 {
        return AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: writer.name.clone(),
            v3_and_below_producer_id: writer.producer_id,
            v3_and_below_producer_epoch: writer.producer_epoch,
            v3_and_below_topics: topics,
            ..Default::default()
        };
    }
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: writer.name.clone(),
        producer_id: writer.producer_id,
        producer_epoch: writer.producer_epoch,
        verify_only: false,
        topics,
    };
    AddPartitionsToTxnRequest { transactions: vec![transaction], ..Default::default() }
}

fn added(reply: &AddPartitionsToTxnResponse) -> Vec<Code> {
    let topics = reply.results_by_topic_v3_and_below.iter();
    let topics = topics.chain(reply.results_by_transaction.iter().flat_map(|one| &one.topic_results));
    topics
        .flat_map(|topic| &topic.results_by_partition)
        .map(|partition| Code(partition.partition_error_code))
        .collect()
}

#[test]
#[ignore = "needs a real Kafka from 2.8 on, since 1.1 says for ever that it is busy: cargo xtask test"]
fn kafka_ends_transactions() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-ended", 1, &[]);
    for version in kafka.versions::<EndTxnRequest>() {
        let writer = Writer::new(&mut kafka, format!("golden-ended-{version}"));
        write(&mut kafka, &writer, &topic);
        let refused = EndTxnRequest { producer_epoch: writer.producer_epoch + 1, ..end(&writer, true) };
        assert_ne!(kafka.ask("end-refused", &refused, version).error_code, 0);
        let case = if version % 2 == 0 { "commit" } else { "abort" };
        // Old brokers still write what was written last.
        until("the end of a transaction", || {
            let reply = kafka.ask(case, &end(&writer, version % 2 == 0), version);
            let is_busy = Code(reply.error_code) == Code::CONCURRENT_TRANSACTIONS;
            assert!(reply.error_code == 0 || is_busy, "{reply:?}");
            (!is_busy).then_some(())
        });
    }
    topic.remove(&mut kafka);
}

/// One transaction aborted, one committed, and their markers; one that is still open, behind what can be read.
#[test]
#[ignore = "needs a real Kafka: cargo xtask test"]
fn kafka_tells_aborted_transactions() {
    let mut kafka = Kafka::of(BROKER);
    let topic = Topic::new(&mut kafka, "golden-aborted", 1, &[]);
    for (committed, stable) in [(false, 4), (true, 8)] {
        let writer = Writer::new(&mut kafka, format!("golden-aborted-{stable}"));
        write(&mut kafka, &writer, &topic);
        assert_eq!(kafka.nameless(&end(&writer, committed)).error_code, 0);
        until("the end of a transaction", || (last_stable(&mut kafka, &topic) == stable).then_some(()));
    }
    let writing = Writer::new(&mut kafka, "golden-aborted-open".into());
    write(&mut kafka, &writing, &topic);
    for version in kafka.versions::<FetchRequest>() {
        let request = FetchRequest { isolation_level: 1, ..fetch(&topic, &[(0, 0)], version) };
        let reply = kafka.ask("read-committed", &request, version);
        let partition = &reply.responses[0].partitions[0];
        let aborted = partition.aborted_transactions.as_deref().unwrap_or_default();
        assert_eq!((aborted.len(), aborted[0].first_offset), (1, 0));
        assert_eq!((partition.last_stable_offset, partition.high_watermark), (8, 11));
    }
    assert_eq!(kafka.nameless(&end(&writing, true)).error_code, 0);
    topic.remove(&mut kafka);
}

/// Three records in a transaction, as clients did it before partitions were added by writing to them.
fn write(kafka: &mut Kafka, writer: &Writer, topic: &Topic) {
    let version = 3.min(*kafka.versions::<AddPartitionsToTxnRequest>().end());
    let reply = kafka.ask(NAMELESS, &add(writer, &[(&topic.name, &[0])], version), version);
    assert_eq!(added(&reply), [Code::NONE]);
    let mut batch = records(Codec::None);
    batch.producer(writer.producer_id, writer.producer_epoch, 0).transactional(true);
    let batch = batch.build().unwrap().into();
    topic.write_as(kafka, Some(writer.name.clone()), 0, batch);
}

fn end(writer: &Writer, committed: bool) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: writer.name.clone(),
        producer_id: writer.producer_id,
        producer_epoch: writer.producer_epoch,
        committed,
    }
}

fn last_stable(kafka: &mut Kafka, topic: &Topic) -> i64 {
    let end = ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let reply = kafka.nameless(&ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 1,
        topics: vec![ListOffsetsTopic { name: topic.name.clone(), partitions: vec![end] }],
        ..Default::default()
    });
    reply.topics[0].partitions[0].offset
}
