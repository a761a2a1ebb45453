//! Topics and records to ask about. A topic has the same name in every run, so that what is recorded stays the same
//! where it can; one that an earlier run left goes first.

use crate::client::{Kafka, NAMELESS, until};
use bytes::Bytes;
use ottla_wire::Uuid;
use ottla_wire::code::Code;
use ottla_wire::message::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_wire::message::metadata_request::MetadataRequestTopic;
use ottla_wire::message::metadata_response::MetadataResponseTopic;
use ottla_wire::message::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::message::*;
use ottla_wire::record::{BatchBuilder, Codec};

/// When the first record was written, so to speak: in November 2023.
pub(crate) const TIME: i64 = 1_700_000_000_000;

pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Uuid,
}

impl Topic {
    pub(crate) fn new(kafka: &mut Kafka, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Self {
        gone(kafka, name);
        // The records are old; a segment begins anew when the next is much younger.
        let kept = [("retention.ms", "-1"), ("segment.ms", "9223372036854775807")];
        let configs = configs.iter().chain(&kept);
        let configs = configs
            .map(|(name, value)| CreatableTopicConfig { name: (*name).into(), value: Some((*value).into()) });
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
        let id = until("a new topic", || {
            let made = kafka.nameless(&request).topics.remove(0);
            // To clients it is gone before its name is free again.
            let is_leaving = Code(made.error_code) == Code::TOPIC_ALREADY_EXISTS;
            assert!(made.error_code == 0 || is_leaving, "{made:?}");
            (!is_leaving).then_some(made.topic_id)
        });
        let topic = Self { name: name.into(), id };
        for partition in 0..partitions {
            topic.wait(kafka, partition);
        }
        topic
    }

    pub(crate) fn remove(&self, kafka: &mut Kafka) {
        gone(kafka, &self.name);
    }

    /// Waits until the partition can be asked.
    pub(crate) fn wait(&self, kafka: &mut Kafka, partition: i32) {
        until("a new partition", || {
            let latest =
                ListOffsetsPartition { partition_index: partition, timestamp: -1, ..Default::default() };
            let topic = ListOffsetsTopic { name: self.name.clone(), partitions: vec![latest] };
            let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
            let reply = kafka.nameless(&request);
            (reply.topics[0].partitions[0].error_code == 0).then_some(())
        });
    }

    /// Writes batches, each a request of its own.
    pub(crate) fn write(&self, kafka: &mut Kafka, partition: i32, batches: &[Bytes]) {
        for batch in batches {
            self.write_as(kafka, None, partition, batch.clone());
        }
    }

    /// Writes a batch, as a part of a transaction if there is one.
    pub(crate) fn write_as(
        &self,
        kafka: &mut Kafka,
        transactional_id: Option<String>,
        partition: i32,
        batch: Bytes,
    ) {
        // Topics have ids from 2.8 on, and are written to by them from 4.0 on.
        let (name, topic_id) = match *kafka.versions::<ProduceRequest>().end() {
            ..13 => (self.name.clone(), Uuid::ZERO),
            _ => (String::new(), self.id),
        };
        let partition_data = vec![PartitionProduceData { index: partition, records: Some(batch) }];
        let reply = kafka.nameless(&ProduceRequest {
            transactional_id,
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData { name, topic_id, partition_data }],
        });
        let written = &reply.responses[0].partition_responses[0];
        assert_eq!(written.error_code, 0, "{written:?}");
    }
}

/// What the cluster says of a topic.
pub(crate) fn metadata(kafka: &mut Kafka, name: &str) -> MetadataResponseTopic {
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request =
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: false, ..Default::default() };
    kafka.nameless(&request).topics.remove(0)
}

/// Three records: with and without key, value and headers.
pub(crate) fn batch(codec: Codec) -> Bytes {
    records(codec).build().unwrap().into()
}

/// That batch before it is sealed.
pub(crate) fn records(codec: Codec) -> BatchBuilder {
    let mut batch = BatchBuilder::new(codec);
    batch.push(TIME, None, Some(b"the first value"), &[]);
    batch.push(TIME + 1, Some(b"key"), None, &[("header", Some(b"one")), ("header", None)]);
    batch.push(TIME + 2, Some(b""), Some(b""), &[]);
    batch
}

/// Removes a topic, if there is one.
fn gone(kafka: &mut Kafka, name: &str) {
    let request =
        DeleteTopicsRequest { topic_names: vec![name.into()], timeout_ms: 30_000, ..Default::default() };
    // From version 6 on also by id.
    kafka.ask(NAMELESS, &request, 5.min(*kafka.versions::<DeleteTopicsRequest>().end()));
    until("a topic's end", || {
        (metadata(kafka, name).error_code == Code::UNKNOWN_TOPIC_OR_PARTITION.0).then_some(())
    });
}
