//! A real Kafka: topics on it, records in it, and the means to stop it. `cargo xtask test` starts it and says where.

#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::{process::Command, time::Duration};

use ottla::{Address, Options, raw::Connection};
use ottla_wire::{
    code::Code,
    message::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, MetadataRequest, ProduceRequest,
        Request,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        metadata_request::MetadataRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    record::Codec,
};

/// What the environment says; a test that needs it fails without.
pub fn environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask test`, which starts a broker"))
}

/// A real broker.
pub struct Kafka {
    bootstrap: String,
    connection: Connection,
}

impl Kafka {
    /// Connects to the broker that this variable names.
    pub async fn connect(variable: &str) -> Self {
        Self::at(environment(variable)).await
    }

    /// Connects to the broker at this address.
    pub async fn at(bootstrap: String) -> Self {
        let address: Address = bootstrap.parse().expect("an address");
        let connection = crate::support::soon("the broker answers", async {
            loop {
                match Connection::dial(&address, &Options::default()).await {
                    Ok(connection) => return connection,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        })
        .await;
        Self { bootstrap, connection }
    }

    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    pub async fn call<R: Request>(&mut self, request: &R) -> R::Response {
        self.connection.call(request).await.expect("an answer")
    }

    /// Asks in no higher version than `cap`.
    pub async fn call_at_most<R: Request>(&mut self, request: &R, cap: i16) -> R::Response {
        self.connection.call_at_most(request, cap).await.expect("an answer")
    }

    /// Creates a topic under a name that no other run has used, and waits until it has leaders.
    pub async fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
        let name = fresh(name);
        self.create_named(&name, partitions, configs).await;
        name
    }

    pub async fn create_named(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let config = |&(name, value): &(&str, &str)| CreatableTopicConfig {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..CreatableTopicConfig::default()
        };
        let mut topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            // As many as the broker makes unless told.
            replication_factor: -1,
            configs: configs.iter().map(config).collect(),
            ..CreatableTopic::default()
        };
        let request = |topic: &CreatableTopic| CreateTopicsRequest {
            topics: vec![topic.clone()],
            timeout_ms: 10_000,
            ..CreateTopicsRequest::default()
        };
        let mut response = self.call(&request(&topic)).await;
        if Code(response.topics[0].error_code) == Code::INVALID_REPLICATION_FACTOR {
            // One of before 2.4 has to be told.
            topic.replication_factor = 1;
            response = self.call(&request(&topic)).await;
        }
        assert_eq!(Code(response.topics[0].error_code), Code::NONE, "{response:?}");
        self.wait_for_leaders(name, partitions).await;
    }

    pub async fn add_partitions(&mut self, name: &str, count: i32) {
        let topic = CreatePartitionsTopic { name: name.to_owned(), count, assignments: None };
        let request = CreatePartitionsRequest {
            topics: vec![topic],
            timeout_ms: 10_000,
            ..CreatePartitionsRequest::default()
        };
        let response = self.call(&request).await;
        assert_eq!(Code(response.results[0].error_code), Code::NONE, "{response:?}");
        self.wait_for_leaders(name, count).await;
    }

    async fn wait_for_leaders(&mut self, name: &str, partitions: i32) {
        let topic = MetadataRequestTopic { name: Some(name.to_owned()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        for _ in 0..1000 {
            let response = self.call(&request).await;
            let topic = &response.topics[0];
            let led = topic.partitions.iter().filter(|p| p.error_code == 0 && p.leader_id >= 0).count();
            if topic.error_code == 0 && led == partitions as usize {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name} has no leaders");
    }

    /// Produces a batch and returns its first offset.
    pub async fn produce(&mut self, topic: &str, partition: i32, batch: Vec<u8>) -> i64 {
        for _ in 0..200 {
            let data = PartitionProduceData {
                index: partition,
                records: Some(batch.clone().into()),
                ..PartitionProduceData::default()
            };
            let topic_data = TopicProduceData {
                name: topic.to_owned(),
                partition_data: vec![data],
                ..TopicProduceData::default()
            };
            let request = ProduceRequest {
                acks: -1,
                timeout_ms: 10_000,
                topic_data: vec![topic_data],
                ..ProduceRequest::default()
            };
            // Version 13 names topics by id, which nothing here needs.
            let response = self.connection.call_at_most(&request, 12).await.expect("an answer");
            let answer = &response.responses[0].partition_responses[0];
            match Code(answer.error_code) {
                Code::NONE => return answer.base_offset,
                // A leader that has just been made does not always know it yet.
                code if code.is_retriable() => tokio::time::sleep(Duration::from_millis(50)).await,
                code => panic!("produce: {code}"),
            }
        }
        panic!("produce: retried too often");
    }

    /// Produces so many records, as [`crate::support::fill`] does to the embedded broker.
    pub async fn fill(&mut self, topic: &str, partition: i32, from: i64, count: i64, codec: Codec) {
        let mut offset = from;
        while offset < from + count {
            let size = (from + count - offset).min(100);
            let batch = crate::support::batch(codec, partition, offset, size);
            assert_eq!(self.produce(topic, partition, batch).await, offset);
            offset += size;
        }
    }

    pub async fn delete_records(&mut self, topic: &str, partition: i32, before: i64) {
        let partition = DeleteRecordsPartition {
            partition_index: partition,
            offset: before,
            ..DeleteRecordsPartition::default()
        };
        let topic = DeleteRecordsTopic {
            name: topic.to_owned(),
            partitions: vec![partition],
            ..DeleteRecordsTopic::default()
        };
        let request = DeleteRecordsRequest {
            topics: vec![topic],
            timeout_ms: 10_000,
            ..DeleteRecordsRequest::default()
        };
        let response = self.call(&request).await;
        assert_eq!(Code(response.topics[0].partitions[0].error_code), Code::NONE, "{response:?}");
    }
}

/// A name that no other run has used.
pub fn fresh(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    format!("{name}-{}", now.as_nanos())
}

/// Stops, starts, freezes or thaws the broker in the folder that `variable` names.
pub fn command(verb: &str, variable: &str) {
    let xtask = environment("OTTLA_XTASK");
    let status = Command::new(xtask).args(["kafka", verb, "--dir", &environment(variable)]).status();
    assert!(status.expect("xtask runs").success(), "kafka {verb}");
}

/// The addresses of the cluster of three nodes.
pub const NODES: &str = "OTTLA_TEST_KAFKA_NODES";

/// Stops, starts, freezes or thaws a node of that cluster; what else there is to say is in `more`.
pub async fn node(verb: &str, node: i32, more: &[&str]) {
    let (folder, node) = (environment("OTTLA_TEST_KAFKA_NODES_DIR"), node.to_string());
    xtask(&[&["kafka", verb, "--dir", &folder, "--node", &node], more].concat()).await;
}

/// Runs one of Kafka's own tools, named by its class.
pub async fn tool(class: &str, arguments: &[&str]) {
    xtask(&[&["kafka", "tool", class], arguments].concat()).await;
}

/// Runs `cargo xtask`, and gives what it prints.
pub async fn xtask(arguments: &[&str]) -> String {
    let mut command = Command::new(environment("OTTLA_XTASK"));
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    let output = output.expect("xtask runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "xtask {}: {printed}{complaint}", arguments.join(" "));
    printed.into_owned()
}
