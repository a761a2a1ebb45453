//! A client that is patient: it asks the brokers of a cluster, whichever are there, while they come and go.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::{collections::BTreeMap, time::Duration};

use ottla::{Address, Code, Options, raw::Connection};
use ottla_wire::message::{
    CreateTopicsRequest, FindCoordinatorRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse,
    OffsetFetchRequest, ProduceRequest, Request,
    create_topics_request::CreatableTopic,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    metadata_request::MetadataRequestTopic,
    offset_fetch_request::OffsetFetchRequestTopic,
    produce_request::{PartitionProduceData, TopicProduceData},
};

/// A pause after something did not work.
pub const PAUSE: Duration = Duration::from_millis(20);

/// Asks the brokers of a cluster, whichever are there; what fails is asked again.
pub struct Client {
    /// The one that answered last comes first.
    bootstrap: Vec<String>,
    /// How long a broker may be silent.
    limit: Duration,
    connections: BTreeMap<String, Connection>,
    leaders: BTreeMap<i32, String>,
    coordinator: Option<String>,
}

impl Client {
    pub fn new(bootstrap: &str) -> Self {
        Self::with_limit(bootstrap, Duration::from_secs(2))
    }

    /// One that waits so long for a connection, and twice as long for an answer.
    pub fn with_limit(bootstrap: &str, limit: Duration) -> Self {
        let (connections, leaders, coordinator) = (BTreeMap::new(), BTreeMap::new(), None);
        let bootstrap = bootstrap.split(',').map(str::to_owned).collect();
        Self { bootstrap, limit, connections, leaders, coordinator }
    }

    pub async fn create(&mut self, topic: &str, partitions: i32) {
        // -1: as many replicas as the broker makes unless told.
        let request = |replication_factor| CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: topic.to_owned(),
                num_partitions: partitions,
                replication_factor,
                ..CreatableTopic::default()
            }],
            timeout_ms: 10_000,
            ..CreateTopicsRequest::default()
        };
        let mut response = self.ask_any(&request(-1), i16::MAX).await;
        if Code(response.topics[0].error_code) == Code::INVALID_REPLICATION_FACTOR {
            // One of before 2.4 has to be told.
            response = self.ask_any(&request(1), i16::MAX).await;
        }
        assert_eq!(Code(response.topics[0].error_code), Code::NONE, "{response:?}");
    }

    /// Appends a batch if that works, and tells where, and who leads the partition.
    pub async fn produce(&mut self, topic: &str, partition: i32, batch: &[u8]) -> Option<(i64, String)> {
        let data = PartitionProduceData {
            index: partition,
            records: Some(batch.to_vec().into()),
            ..PartitionProduceData::default()
        };
        let topic_data = TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![data],
            ..TopicProduceData::default()
        };
        let timeout_ms = self.limit.as_millis() as i32;
        let request =
            ProduceRequest { acks: -1, timeout_ms, topic_data: vec![topic_data], ..Default::default() };
        let leader = self.leader(topic, partition).await?;
        // Version 13 names topics by id, which nothing here needs.
        let response = self.ask(&leader, &request, 12).await;
        let answer = response.map(|mut response| response.responses.remove(0).partition_responses.remove(0));
        match answer.filter(|answer| Code(answer.error_code) == Code::NONE) {
            Some(answer) => Some((answer.base_offset, leader)),
            None => {
                self.leaders.clear();
                None
            }
        }
    }

    /// Where a partition ends.
    pub async fn end(&mut self, topic: &str, partition: i32) -> i64 {
        let latest = ListOffsetsPartition { partition_index: partition, timestamp: -1, ..Default::default() };
        let topics = vec![ListOffsetsTopic { name: topic.to_owned(), partitions: vec![latest] }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
        loop {
            if let Some(leader) = self.leader(topic, partition).await
                && let Some(response) = self.ask(&leader, &request, i16::MAX).await
            {
                let found = &response.topics[0].partitions[0];
                if Code(found.error_code) == Code::NONE {
                    return found.offset;
                }
            }
            self.leaders.clear();
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What is committed for each partition.
    pub async fn committed(&mut self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let partition_indexes = (0..partitions).collect();
        let topics = Some(vec![OffsetFetchRequestTopic { name: topic.to_owned(), partition_indexes }]);
        let request = OffsetFetchRequest { group_id: group.to_owned(), topics, ..Default::default() };
        loop {
            let coordinator = self.coordinator(group).await;
            // Version 8 asks for several groups at once.
            if let Some(response) = self.ask(&coordinator, &request, 7).await
                && Code(response.error_code) == Code::NONE
            {
                let mut found = response.topics.into_iter().next().unwrap().partitions;
                found.sort_by_key(|partition| partition.partition_index);
                return found.iter().map(|partition| partition.committed_offset).collect();
            }
            self.coordinator = None;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn coordinator(&mut self, group: &str) -> String {
        if let Some(known) = &self.coordinator {
            return known.clone();
        }
        let request = FindCoordinatorRequest { key: group.to_owned(), ..Default::default() };
        loop {
            // From version 4 on several groups are asked about at once.
            let found = self.ask_any(&request, 3).await;
            if Code(found.error_code) == Code::NONE {
                let address = format!("{}:{}", found.host, found.port);
                self.coordinator = Some(address.clone());
                return address;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn leader(&mut self, topic: &str, partition: i32) -> Option<String> {
        if self.leaders.is_empty() {
            let metadata = self.metadata(topic).await;
            let brokers: BTreeMap<_, _> =
                metadata.brokers.iter().map(|b| (b.node_id, (&b.host, b.port))).collect();
            for partition in metadata.topics.iter().flat_map(|topic| &topic.partitions) {
                if let Some((host, port)) = brokers.get(&partition.leader_id) {
                    self.leaders.insert(partition.partition_index, format!("{host}:{port}"));
                }
            }
        }
        self.leaders.get(&partition).cloned()
    }

    /// What a broker says of a topic.
    pub async fn metadata(&mut self, topic: &str) -> MetadataResponse {
        let name = MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![name]), ..Default::default() };
        self.ask_any(&request, i16::MAX).await
    }

    /// Asks one after the other until one answers.
    pub async fn ask_any<R: Request>(&mut self, request: &R, cap: i16) -> R::Response {
        loop {
            for _ in 0..self.bootstrap.len() {
                let first = self.bootstrap[0].clone();
                if let Some(response) = self.ask(&first, request, cap).await {
                    return response;
                }
                self.bootstrap.rotate_left(1);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask<R: Request>(&mut self, address: &str, request: &R, cap: i16) -> Option<R::Response> {
        let mut connection = match self.connections.remove(address) {
            Some(connection) => connection,
            None => dial(address, self.limit).await?,
        };
        let response = connection.call_at_most(request, cap).await.ok()?;
        self.connections.insert(address.to_owned(), connection);
        Some(response)
    }
}

async fn dial(address: &str, limit: Duration) -> Option<Connection> {
    let options = Options {
        connect_timeout: limit,
        handshake_timeout: limit,
        request_timeout: 2 * limit,
        ..Options::default()
    };
    let address: Address = address.parse().expect("an address");
    Connection::dial(&address, &options).await.ok()
}
