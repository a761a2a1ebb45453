//! The cluster as its user sees it: nodes, topics, logs, connections, faults.

use crate::connection::{Connection, Phase};
use crate::fault::{Fault, FaultId, Faults};
use crate::groups::{CommitView, Committed, GroupView};
use crate::options::{ClusterOptions, NodeOptions};
use crate::received::{self, Received};
use crate::store::{Leaders, Partition, Store, TopicOptions};
use crate::{ConnectionId, Refused};
use bytes::Bytes;
use ottla_wire::Uuid;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::record::{BatchBuilder, Codec};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// A Kafka cluster without a socket, a clock or a task: frames and times go in, frames and a deadline come out.
///
/// - What happened goes in by [`connect`](Self::connect), [`handle_frame`](Self::handle_frame),
///   [`handle_timeout`](Self::handle_timeout) and [`disconnect`](Self::disconnect), in any order.
/// - After each of these, and after every other change, [`poll_output`](Self::poll_output) is called until it gives
///   `None`; what it gives for one connection is to be sent in that order.
/// - Then [`handle_timeout`](Self::handle_timeout) is due at [`poll_deadline`](Self::poll_deadline).
///
/// A connection is served one request at a time, in order: while a fetch is parked, a member waits for its group, or a
/// reply is held back, later requests on that connection wait. The same calls give the same outputs, to the byte.
///
/// Times are only compared with each other; wall-clock time (milliseconds since 1970) is used where a broker writes it
/// into records.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) store: Store,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    pub(crate) faults: Faults,
    pub(crate) received: received::Log,
    pub(crate) outputs: VecDeque<Output>,
    /// The latest time that was told, for what becomes ready by a change that comes without one.
    pub(crate) now: Option<Instant>,
    pub(crate) wall_ms: i64,
    next_connection: u64,
    opened: BTreeMap<i32, u64>,
}

/// What is to be done with a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// These bytes are to be sent, the length of the frame is among them.
    Send {
        /// By this connection.
        connection: ConnectionId,
        /// A whole frame, unless a fault made it something else.
        bytes: Bytes,
    },
    /// The connection is to be closed, once everything before was sent. It counts as disconnected already.
    Close {
        /// This connection.
        connection: ConnectionId,
    },
}

impl Cluster {
    /// A cluster whose nodes all run, without topics.
    pub fn new(options: ClusterOptions) -> Self {
        let received = received::Log::new(options.remembered_requests);
        Self {
            store: Store::new(options),
            connections: BTreeMap::new(),
            faults: Faults::default(),
            received,
            outputs: VecDeque::new(),
            now: None,
            wall_ms: 0,
            next_connection: 1,
            opened: BTreeMap::new(),
        }
    }

    // Connections and time

    /// A client connects to a node; `None` if the node does not run.
    pub fn connect(&mut self, node: i32) -> Option<ConnectionId> {
        if !self.store.is_running(node) {
            return None;
        }
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(id, Connection::new(node));
        *self.opened.entry(node).or_default() += 1;
        Some(id)
    }

    /// The client's connection is gone. What waited on it is forgotten.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    /// A whole frame came by a connection: a request with its header, without the length. Frames of connections that are
    /// closed are ignored.
    pub fn handle_frame(&mut self, now: Instant, wall_ms: i64, connection: ConnectionId, frame: Bytes) {
        self.tell_time(now, wall_ms);
        let Some(open) = self.connections.get_mut(&connection) else { return };
        open.queue.push_back(frame);
        self.serve_queue(connection);
        self.settle();
    }

    /// It is `now`: parked fetches and replies held back whose time has come are sent, sessions and rebalances whose time
    /// has come end. Early calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tell_time(now, self.wall_ms);
        self.finish_due(now);
        self.settle();
    }

    /// What is to be sent or closed next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.settle();
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let connections = self.connections.values().filter_map(|connection| connection.phase.deadline());
        connections.chain(self.store.groups.deadline()).min()
    }

    /// Requests of a connection that came and are not answered yet, the one being served among them.
    pub fn waiting(&self, connection: ConnectionId) -> usize {
        let Some(open) = self.connections.get(&connection) else { return 0 };
        open.queue.len() + usize::from(!matches!(open.phase, Phase::Idle))
    }

    /// What was changed before happened before.
    fn tell_time(&mut self, now: Instant, wall_ms: i64) {
        self.settle();
        let now = self.now.map_or(now, |before| before.max(now));
        self.now = Some(now);
        self.wall_ms = wall_ms;
        self.store.groups.handle_timeout(now);
    }

    // Nodes

    /// The nodes that there are, running or not.
    pub fn nodes(&self) -> Vec<NodeOptions> {
        self.store.nodes().map(|node| node.options.clone()).collect()
    }

    /// Whether a node runs.
    pub fn is_running(&self, node: i32) -> bool {
        self.store.is_running(node)
    }

    /// Sets the host and port that metadata gives for a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_address(&mut self, node: i32, host: impl Into<String>, port: u16) -> Result<(), Refused> {
        let options = &mut self.store.node_mut(node)?.options;
        options.host = host.into();
        options.port = port;
        Ok(())
    }

    /// Stops a node: its connections close, it takes no new ones, and metadata no longer names it. Others lead its
    /// partitions and coordinate its groups, or nobody does.
    ///
    /// # Errors
    /// There is no such node.
    pub fn stop_node(&mut self, node: i32, leaders: Leaders) -> Result<(), Refused> {
        self.store.stop_node(node, leaders)?;
        self.close_connections(node);
        Ok(())
    }

    /// Starts a node again. Partitions without a leader are led by it, if it is the first of their replicas; groups that
    /// nobody took over are coordinated by it again.
    ///
    /// # Errors
    /// There is no such node.
    pub fn start_node(&mut self, node: i32) -> Result<(), Refused> {
        self.store.start_node(node)
    }

    /// Closes all connections of a node, which goes on running.
    pub fn close_connections(&mut self, node: i32) {
        let of_node = self.connections.iter().filter(|(_, open)| open.node == node);
        for connection in of_node.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(connection);
        }
    }

    /// Connections of a node that are open now.
    pub fn open_connections(&self, node: i32) -> usize {
        self.connections.values().filter(|open| open.node == node).count()
    }

    /// Connections that a node has taken in all.
    pub fn opened_connections(&self, node: i32) -> u64 {
        self.opened.get(&node).copied().unwrap_or(0)
    }

    /// From now on `api` is spoken in these versions only, as if the brokers had been replaced; `None`: not at all.
    pub fn set_versions(&mut self, api: ApiKey, range: Option<(i16, i16)>) {
        self.store.set_versions(api, range);
    }

    // Topics

    /// Makes a topic. Its partitions are led by the running nodes in turn.
    ///
    /// # Errors
    /// The name is taken or not allowed, or the number of partitions is not above 0.
    pub fn create_topic(&mut self, name: &str, partitions: i32) -> Result<Uuid, Refused> {
        self.store.create_topic(name, TopicOptions::new(partitions))
    }

    /// Makes a topic as the options say.
    ///
    /// # Errors
    /// The name is taken or not allowed, or the options cannot be met.
    pub fn create_topic_with(&mut self, name: &str, options: TopicOptions) -> Result<Uuid, Refused> {
        self.store.create_topic(name, options)
    }

    /// Adds partitions until there are `count`.
    ///
    /// # Errors
    /// There is no such topic, or it has so many already.
    pub fn add_partitions(&mut self, topic: &str, count: i32) -> Result<(), Refused> {
        let replicas = self.store.check_more_partitions(topic, count)?;
        self.store.add_partitions(topic, replicas)
    }

    /// Deletes a topic with its records. One made later by the same name has another id.
    ///
    /// # Errors
    /// There is no such topic.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), Refused> {
        self.store.delete_topic(topic).map(|_| ())
    }

    /// The names of the topics, sorted.
    pub fn topics(&self) -> Vec<String> {
        self.store.topics().map(|topic| topic.name.clone()).collect()
    }

    /// A topic's id.
    pub fn topic_id(&self, topic: &str) -> Option<Uuid> {
        self.store.topic(topic).map(|topic| topic.id)
    }

    /// How many partitions a topic has; 0 if there is no such topic.
    pub fn partitions(&self, topic: &str) -> i32 {
        self.store.topic(topic).map_or(0, |topic| topic.partitions.len() as i32)
    }

    /// Moves a partition to another leader, or to none. The leader epoch rises by one. The log is the same on all nodes;
    /// for a leader that has less, [`truncate`](Self::truncate) it first.
    ///
    /// # Errors
    /// There is no such partition or node.
    pub fn set_leader(&mut self, topic: &str, partition: i32, leader: Option<i32>) -> Result<(), Refused> {
        self.store.set_leader(topic, partition, leader)
    }

    /// The node that leads a partition.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        self.partition(topic, partition)?.leader
    }

    /// A partition's leader epoch.
    pub fn leader_epoch(&self, topic: &str, partition: i32) -> Option<i32> {
        self.partition(topic, partition).map(|partition| partition.epoch)
    }

    // Logs

    /// Appends batches, one or more, as a leader would: with the next offsets and the leader's epoch. Gives the offset of
    /// the first record. Neither CRC nor size is checked, so that a test can put what a real broker would refuse.
    ///
    /// # Errors
    /// There is no such partition, or the bytes are not whole batches.
    pub fn append(&mut self, topic: &str, partition: i32, batches: impl Into<Bytes>) -> Result<i64, Refused> {
        self.store.append(topic, partition, &batches.into(), None)
    }

    /// Appends one batch with a record for each value, without keys or headers, uncompressed, all at this time (ms since
    /// 1970). Gives the offset of the first.
    ///
    /// # Errors
    /// There is no such partition, or there are no values.
    pub fn append_values<V: AsRef<[u8]>>(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
        values: impl IntoIterator<Item = V>,
    ) -> Result<i64, Refused> {
        let mut batch = BatchBuilder::new(Codec::None);
        for value in values {
            batch.push(timestamp, None, Some(value.as_ref()), &[]);
        }
        if batch.is_empty() {
            return Err(Refused::new(Code::INVALID_RECORD, "there are no values"));
        }
        let batch = batch.build().map_err(|error| Refused::new(Code::INVALID_RECORD, error.to_string()))?;
        self.append(topic, partition, batch)
    }

    /// Appends batches with the offsets and the leader epochs that stand in them. They may leave gaps, as compaction
    /// does.
    ///
    /// # Errors
    /// There is no such partition, the bytes are not whole batches, or their offsets do not follow the log.
    pub fn append_as_is(
        &mut self,
        topic: &str,
        partition: i32,
        batches: impl Into<Bytes>,
    ) -> Result<(), Refused> {
        self.store.append_as_is(topic, partition, &batches.into())
    }

    /// Cuts the end of a log, as a new leader with fewer records would: it ends at `end` then. Batches that reach beyond
    /// go as a whole.
    ///
    /// # Errors
    /// There is no such partition.
    pub fn truncate(&mut self, topic: &str, partition: i32, end: i64) -> Result<(), Refused> {
        self.store.truncate(topic, partition, end)
    }

    /// Moves the start of a log to `start`, as retention does. Gives the start, which never goes back.
    ///
    /// # Errors
    /// There is no such partition, or `start` lies beyond its high watermark.
    pub fn delete_records(&mut self, topic: &str, partition: i32, start: i64) -> Result<i64, Refused> {
        self.store.delete_records(topic, partition, start)
    }

    /// The first offset that may be read.
    pub fn log_start(&self, topic: &str, partition: i32) -> Option<i64> {
        self.partition(topic, partition).map(|partition| partition.log.start())
    }

    /// The offset after the last record that may be read. Always the end of the log, see [`crate`].
    pub fn high_watermark(&self, topic: &str, partition: i32) -> Option<i64> {
        self.partition(topic, partition).map(|partition| partition.log.high_watermark())
    }

    /// Bytes of batches that a partition holds.
    pub fn log_bytes(&self, topic: &str, partition: i32) -> Option<u64> {
        self.partition(topic, partition).map(|partition| partition.log.bytes())
    }

    fn partition(&self, topic: &str, index: i32) -> Option<&Partition> {
        self.store.partition(topic, index)
    }

    // Groups

    /// The names of the groups, sorted.
    pub fn groups(&self) -> Vec<String> {
        self.store.groups.names().cloned().collect()
    }

    /// A group, as its coordinator knows it at the moment.
    pub fn group(&self, name: &str) -> Option<GroupView> {
        self.store.groups.view(name)
    }

    /// The offset that a group has committed for a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.store.groups.get(group)?.offsets.get(topic, partition).map(|committed| committed.offset)
    }

    /// Puts an offset, without leader epoch or metadata, whatever state the group is in; it is made if it is not there.
    /// Does not become one of the [`commits`](Self::commits).
    pub fn commit_offset(&mut self, group: &str, topic: &str, partition: i32, offset: i64) {
        let committed = Committed { offset, leader_epoch: -1, metadata: String::new() };
        self.store.groups.existing_or_new(group).offsets.put(topic, partition, committed);
    }

    /// The last offsets that clients asked this group to commit, oldest first, with what came of it, see
    /// [`remember_commits`](crate::ClusterOptions::remember_commits).
    pub fn commits(&self, group: &str) -> Vec<CommitView> {
        self.store.groups.commits(group)
    }

    /// From now on, or no longer, a transaction has an offset for this partition that it has not committed yet: who wants
    /// only stable offsets gets UNSTABLE_OFFSET_COMMIT (KIP-447).
    pub fn set_unstable(&mut self, group: &str, topic: &str, partition: i32, unstable: bool) {
        self.store.groups.existing_or_new(group).offsets.set_unstable(topic, partition, unstable);
    }

    /// The node that coordinates a group, existing or not; `None` while it does not run.
    pub fn coordinator(&self, group: &str) -> Option<i32> {
        self.store.groups.coordinator(group)
    }

    /// Lets another node coordinate a group. The one before answers NOT_COORDINATOR from now on, also those who wait. The
    /// new one knows what was in the log: the offsets, and the last generation whose leader has synced.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_coordinator(&mut self, group: &str, node: i32) -> Result<(), Refused> {
        self.store.node_mut(node)?;
        self.store.groups.set_coordinator(group, node);
        Ok(())
    }

    /// Lets a group's coordinator load it, as after a move: COORDINATOR_LOAD_IN_PROGRESS until
    /// [`finish_loading`](Self::finish_loading). Those who wait are told NOT_COORDINATOR.
    pub fn load_coordinator(&mut self, group: &str) {
        self.store.groups.begin_loading(group);
    }

    /// The coordinator has loaded the group; its members' sessions begin anew.
    pub fn finish_loading(&mut self, group: &str) {
        self.store.groups.finish_loading(group);
    }

    // Faults, and what was asked

    /// Lets something go wrong.
    pub fn fault(&mut self, fault: Fault) -> FaultId {
        self.faults.add(fault)
    }

    /// Takes a fault back. What it did to requests already received stays.
    pub fn clear_fault(&mut self, fault: FaultId) {
        self.faults.clear(fault);
    }

    /// Takes all faults back.
    pub fn clear_faults(&mut self) {
        self.faults.clear_all();
    }

    /// The requests that a fault has acted on.
    pub fn fault_hits(&self, fault: FaultId) -> u64 {
        self.faults.hits(fault)
    }

    /// The last requests that the nodes began to serve, oldest first, see
    /// [`remember_requests`](ClusterOptions::remember_requests).
    pub fn received(&self) -> impl DoubleEndedIterator<Item = &Received> {
        self.received.iter()
    }

    /// Forgets what [`received`](Self::received) gives.
    pub fn forget_received(&mut self) {
        self.received.clear();
    }

    /// The requests of an API that the nodes began to serve, in all.
    pub fn requests(&self, api: ApiKey) -> u64 {
        self.received.count(api)
    }
}
