//! What the tests share: a client of one node, and short ways to write requests.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod peer;

use bytes::Bytes;
use ottla_broker::wire::frame::{decode_response, encode_request};
use ottla_broker::wire::message::fetch_request::{FetchPartition, FetchTopic};
use ottla_broker::wire::message::fetch_response::PartitionData;
use ottla_broker::wire::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_broker::wire::message::list_offsets_response::ListOffsetsPartitionResponse;
use ottla_broker::wire::message::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_broker::wire::message::produce_response::PartitionProduceResponse;
use ottla_broker::wire::message::{FetchRequest, FetchResponse, ListOffsetsRequest, ProduceRequest, Request};
use ottla_broker::wire::record::{BatchBuilder, Codec};
use ottla_broker::{Cluster, ConnectionId, Output};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A cluster, a hand-wound clock, and what was sent and not looked at yet.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) now: Instant,
    outputs: VecDeque<Output>,
    correlation_id: i32,
}

pub(crate) const WALL_MS: i64 = 1_700_000_000_000;

#[allow(
    clippy::disallowed_methods,
    reason = "some time to count from; it goes on only when the test says so"
)]
fn some_time() -> Instant {
    Instant::now()
}

impl World {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, now: some_time(), outputs: VecDeque::new(), correlation_id: 0 }
    }

    /// Sends a request and leaves what comes of it in the outputs.
    pub(crate) fn send<R: Request>(&mut self, connection: ConnectionId, request: &R, version: i16) {
        self.correlation_id += 1;
        let frame = encode_request(request, version, self.correlation_id, "test").unwrap();
        self.send_bytes(connection, frame);
    }

    /// Sends a frame, its length first.
    pub(crate) fn send_bytes(&mut self, connection: ConnectionId, frame: Vec<u8>) {
        let frame = Bytes::from(frame).slice(4..);
        self.cluster.handle_frame(self.now, WALL_MS, connection, frame);
    }

    /// Sends a request and takes its reply, which must be there at once.
    #[track_caller]
    pub(crate) fn ask<R: Request>(
        &mut self,
        connection: ConnectionId,
        request: &R,
        version: i16,
    ) -> R::Response {
        self.send(connection, request, version);
        self.take::<R>(connection, version).expect("a reply at once")
    }

    /// The next reply on a connection, if one was sent.
    #[track_caller]
    pub(crate) fn take<R: Request>(&mut self, connection: ConnectionId, version: i16) -> Option<R::Response> {
        let frame = self.take_bytes(connection)?;
        let length = i32::from_be_bytes(frame[..4].try_into().unwrap());
        assert_eq!(length as usize, frame.len() - 4, "length of the frame");
        Some(decode_response::<R>(frame.slice(4..), version).unwrap().1)
    }

    /// The next bytes on a connection.
    pub(crate) fn take_bytes(&mut self, connection: ConnectionId) -> Option<Bytes> {
        self.poll();
        let is_it =
            |output: &Output| matches!(output, Output::Send { connection: to, .. } if *to == connection);
        let at = self.outputs.iter().position(is_it)?;
        match self.outputs.remove(at) {
            Some(Output::Send { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }

    /// Whether the broker has closed a connection.
    pub(crate) fn is_closed(&mut self, connection: ConnectionId) -> bool {
        self.poll();
        self.outputs.contains(&Output::Close { connection })
    }

    pub(crate) fn connect(&mut self, node: i32) -> ConnectionId {
        self.cluster.connect(node).expect("the node runs")
    }

    /// Winds the clock on, stopping at each deadline.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.cluster.poll_deadline().filter(|deadline| *deadline <= end) {
            self.now = deadline.max(self.now);
            self.cluster.handle_timeout(self.now);
            self.poll();
        }
        self.now = end;
        self.cluster.handle_timeout(end);
    }

    fn poll(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            self.outputs.push_back(output);
        }
    }
}

pub(crate) fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A batch with these times, whose values are `size` bytes each.
pub(crate) fn sized_batch(codec: Codec, times: &[i64], size: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for (nth, time) in times.iter().enumerate() {
        builder.push(*time, Some(b"key"), Some(&vec![b'a' + nth as u8 % 26; size]), &[]);
    }
    builder.build().unwrap()
}

/// A small batch with these times.
pub(crate) fn batch(times: &[i64]) -> Vec<u8> {
    sized_batch(Codec::None, times, 10)
}

/// A partition to fetch from `offset`, with 1 MiB at most.
pub(crate) fn from(partition: i32, fetch_offset: i64) -> FetchPartition {
    FetchPartition { partition, fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() }
}

/// A fetch by topic name that does not wait.
pub(crate) fn fetch(topic: &str, partitions: Vec<FetchPartition>) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![FetchTopic { topic: topic.into(), partitions, ..Default::default() }],
        ..Default::default()
    }
}

/// The only partition of a reply.
#[track_caller]
pub(crate) fn only(response: &FetchResponse) -> &PartitionData {
    assert_eq!(response.error_code, 0);
    let [topic] = &response.responses[..] else { panic!("one topic wanted: {response:?}") };
    let [partition] = &topic.partitions[..] else { panic!("one partition wanted: {response:?}") };
    partition
}

pub(crate) fn records(partition: &PartitionData) -> &[u8] {
    partition.records.as_deref().unwrap_or_default()
}

pub(crate) fn produce(topic: &str, partition: i32, acks: i16, records: impl Into<Bytes>) -> ProduceRequest {
    let partition = PartitionProduceData { index: partition, records: Some(records.into()) };
    ProduceRequest {
        acks,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            partition_data: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[track_caller]
pub(crate) fn produced(response: &ottla_broker::wire::message::ProduceResponse) -> &PartitionProduceResponse {
    &response.responses[0].partition_responses[0]
}

pub(crate) fn list(topic: &str, partition: i32, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition { partition_index: partition, timestamp, ..Default::default() };
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic { name: topic.into(), partitions: vec![partition] }],
        ..Default::default()
    }
}

#[track_caller]
pub(crate) fn listed(
    response: &ottla_broker::wire::message::ListOffsetsResponse,
) -> &ListOffsetsPartitionResponse {
    &response.topics[0].partitions[0]
}
