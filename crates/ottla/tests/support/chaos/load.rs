//! Records that keep coming, and what the group commits; all of it goes on while brokers come and go.

use std::{collections::BTreeMap, time::Duration};

use ottla::{Address, Code, Options, Reader, Until, raw::Connection};
use ottla_wire::{
    message::{
        CreateTopicsRequest, FindCoordinatorRequest, ListOffsetsRequest, MetadataRequest, OffsetFetchRequest,
        ProduceRequest, Request,
        create_topics_request::CreatableTopic,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
        offset_fetch_request::OffsetFetchRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    record::Codec,
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{BATCH, PARTITIONS, history::Commit};

/// A pause after something did not work.
const PAUSE: Duration = Duration::from_millis(20);

/// Records that keep coming. One that is sent again because no answer came may be there twice.
pub struct Load {
    task: JoinHandle<Client>,
    stop: Option<oneshot::Sender<()>>,
    topic: String,
}

impl Load {
    /// Makes the topic and begins to fill it.
    pub async fn begin(bootstrap: &str, topic: &str) -> Self {
        let mut client = Client::new(bootstrap);
        client.create(topic).await;
        let (stop, mut stopped) = oneshot::channel();
        let name = topic.to_owned();
        let task = tokio::spawn(async move {
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let (partition, count) = (fastrand::i32(0..PARTITIONS), fastrand::i64(1..=BATCH));
                let _ = client.produce(&name, partition, count).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            client
        });
        Self { task, stop: Some(stop), topic: topic.to_owned() }
    }

    /// Stops, and tells where the partitions end.
    pub async fn end(&mut self) -> Vec<i64> {
        self.stop = None;
        let mut client = (&mut self.task).await.unwrap();
        let mut ends = Vec::new();
        for partition in 0..PARTITIONS {
            ends.push(client.end(&self.topic, partition).await);
        }
        ends
    }
}

/// What a group has committed.
pub struct Group {
    client: Client,
    name: String,
    topic: String,
}

impl Group {
    /// Waits until the group has a coordinator: for the first one, brokers have to make their topic of offsets.
    pub async fn known(bootstrap: &str, name: String, topic: String) -> Self {
        let mut group = Self { client: Client::new(bootstrap), name, topic };
        group.committed().await;
        group
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn committed(&mut self) -> Vec<i64> {
        self.client.committed(&self.name, &self.topic).await
    }

    /// Waits until so much is committed.
    pub async fn is_through(&mut self, ends: &[i64]) {
        while self.committed().await != ends {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// All commits that the coordinator ever took, in its order: they are records of its topic. (What a coordinator answers
    /// when it has just taken over may be older for a moment than what the one before has answered.)
    pub async fn commits(&self) -> Vec<Commit> {
        let bootstrap = self.client.bootstrap.join(",");
        let mut reader =
            Reader::builder(bootstrap).topic("__consumer_offsets").until(Until::End).open().unwrap();
        let mut commits = Vec::new();
        while let Some(message) = reader.next().await.unwrap() {
            let (from, to) = (message.timestamp() as u64 * 1000, message.timestamp() as u64 * 1000 + 999);
            if let (Some(partition), Some(value)) = (self.partition_in(message.key()), message.value()) {
                let offset = i64::from_be_bytes(*value[2..].first_chunk().unwrap());
                commits.push(Commit { from, to, partition, offset });
            }
        }
        commits
    }

    /// The key of a commit: a version, 0 or 1, our group, our topic, a partition.
    fn partition_in(&self, key: Option<&[u8]>) -> Option<i32> {
        let key = key?.strip_prefix(&[0, 0]).or(key?.strip_prefix(&[0, 1]))?;
        let key = key.strip_prefix(&*prefixed(&self.name))?.strip_prefix(&*prefixed(&self.topic))?;
        Some(i32::from_be_bytes(key.try_into().ok()?))
    }
}

/// A string behind its length.
fn prefixed(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat()
}

/// Asks the brokers of a cluster, whichever are there; what fails is asked again.
struct Client {
    bootstrap: Vec<String>,
    connections: BTreeMap<String, Connection>,
    leaders: BTreeMap<i32, String>,
    coordinator: Option<String>,
}

impl Client {
    fn new(bootstrap: &str) -> Self {
        let bootstrap = bootstrap.split(',').map(str::to_owned).collect();
        Self { bootstrap, connections: BTreeMap::new(), leaders: BTreeMap::new(), coordinator: None }
    }

    async fn create(&mut self, topic: &str) {
        // -1: as many replicas as the broker makes unless told.
        let request = |replication_factor| CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: topic.to_owned(),
                num_partitions: PARTITIONS,
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

    /// Appends records, if that works.
    async fn produce(&mut self, topic: &str, partition: i32, count: i64) -> Option<()> {
        let data = PartitionProduceData {
            index: partition,
            records: Some(crate::support::batch(Codec::None, partition, 0, count).into()),
            ..PartitionProduceData::default()
        };
        let topic_data = TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![data],
            ..TopicProduceData::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 2000,
            topic_data: vec![topic_data],
            ..ProduceRequest::default()
        };
        let leader = self.leader(topic, partition).await?;
        let response = self.ask(&leader, &request, 12).await;
        let code = response.map(|response| Code(response.responses[0].partition_responses[0].error_code));
        if code != Some(Code::NONE) {
            self.leaders.clear();
        }
        (code == Some(Code::NONE)).then_some(())
    }

    /// Where a partition ends.
    async fn end(&mut self, topic: &str, partition: i32) -> i64 {
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
    async fn committed(&mut self, group: &str, topic: &str) -> Vec<i64> {
        let partition_indexes = (0..PARTITIONS).collect();
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
            let name = MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() };
            let request = MetadataRequest { topics: Some(vec![name]), ..Default::default() };
            let metadata = self.ask_any(&request, i16::MAX).await;
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

    /// Asks one after the other until one answers.
    async fn ask_any<R: Request>(&mut self, request: &R, cap: i16) -> R::Response {
        loop {
            for address in self.bootstrap.clone() {
                if let Some(response) = self.ask(&address, request, cap).await {
                    return response;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask<R: Request>(&mut self, address: &str, request: &R, cap: i16) -> Option<R::Response> {
        let mut connection = match self.connections.remove(address) {
            Some(connection) => connection,
            None => dial(address).await?,
        };
        let response = connection.call_at_most(request, cap).await.ok()?;
        self.connections.insert(address.to_owned(), connection);
        Some(response)
    }
}

async fn dial(address: &str) -> Option<Connection> {
    let limit = Duration::from_secs(2);
    let options = Options {
        connect_timeout: limit,
        handshake_timeout: limit,
        request_timeout: 2 * limit,
        ..Options::default()
    };
    let address: Address = address.parse().expect("an address");
    Connection::dial(&address, &options).await.ok()
}
