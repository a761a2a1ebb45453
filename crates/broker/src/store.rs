//! What replies are made from: the nodes, the topics and their logs, the groups.

use crate::Refused;
use crate::groups::Groups;
use crate::log::Log;
use crate::options::{ClusterOptions, NodeOptions};
use bytes::Bytes;
use ottla_wire::Uuid;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::record::{BatchHeader, Batches};
use std::collections::BTreeMap;

/// The state of the cluster, apart from its connections.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) cluster_id: String,
    nodes: BTreeMap<i32, Node>,
    topics: BTreeMap<String, Topic>,
    names: BTreeMap<Uuid, String>,
    pub(crate) groups: Groups,
    /// The APIs whose versions were changed; `None` for those not spoken.
    versions: BTreeMap<ApiKey, Option<(i16, i16)>>,
    pub(crate) auto_create: Option<i32>,
    max_log_bytes: Option<u64>,
    next_producer_id: i64,
    random: fastrand::Rng,
    /// The partitions that changed since [`take_changes`](Self::take_changes): who waits for one has to look again.
    changes: Vec<(Uuid, i32)>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) options: NodeOptions,
    pub(crate) running: bool,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    pub(crate) options: TopicOptions,
    pub(crate) partitions: Vec<Partition>,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) leader: Option<i32>,
    pub(crate) epoch: i32,
    /// The nodes that metadata names; the first is the preferred leader. All share the one log.
    pub(crate) replicas: Vec<i32>,
    pub(crate) log: Log,
}

/// How a topic is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    /// Number of partitions.
    pub partitions: i32,
    /// Number of nodes that metadata names as a partition's replicas (default 1). They share one log: nothing is
    /// replicated, and no replica is ever behind.
    pub replication: i16,
    /// Whether records get the broker's time (`message.timestamp.type=LogAppendTime`; default false).
    pub append_time: bool,
    /// The largest batch that may be produced, in bytes (`max.message.bytes`, default 1,048,588).
    pub max_message_bytes: usize,
}

impl TopicOptions {
    /// So many partitions, everything else as it is by default.
    pub fn new(partitions: i32) -> Self {
        Self { partitions, replication: 1, append_time: false, max_message_bytes: 1_048_588 }
    }
}

/// What happens to the partitions that a stopped node leads, and to the groups that it coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaders {
    /// Other running nodes take them over in turn, as if they were replicas in sync. Without another one they have none.
    Move,
    /// They have no leader and no coordinator until the node starts again.
    Lose,
}

impl Store {
    pub(crate) fn new(options: ClusterOptions) -> Self {
        let nodes = options.nodes.into_iter().map(|node| (node.id, Node { options: node, running: true }));
        let nodes: BTreeMap<i32, Node> = nodes.collect();
        Self {
            cluster_id: options.cluster_id,
            groups: Groups::new(options.groups, nodes.keys().copied(), options.seed),
            nodes,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            versions: options.versions,
            auto_create: options.auto_create,
            max_log_bytes: options.max_log_bytes,
            next_producer_id: 0,
            random: fastrand::Rng::with_seed(options.seed),
            changes: Vec::new(),
        }
    }

    // Nodes

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.running)
    }

    pub(crate) fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub(crate) fn is_running(&self, id: i32) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.running)
    }

    pub(crate) fn node_mut(&mut self, id: i32) -> Result<&mut Node, Refused> {
        let missing = || Refused::new(Code::BROKER_NOT_AVAILABLE, format!("there is no node {id}"));
        self.nodes.get_mut(&id).ok_or_else(missing)
    }

    pub(crate) fn stop_node(&mut self, id: i32, leaders: Leaders) -> Result<(), Refused> {
        self.node_mut(id)?.running = false;
        let heirs: Vec<i32> = match leaders {
            Leaders::Move => self.running().map(|node| node.options.id).collect(),
            Leaders::Lose => Vec::new(),
        };
        for (nth, at) in self.led_by(Some(id)).into_iter().enumerate() {
            let leader = (!heirs.is_empty()).then(|| heirs[nth % heirs.len()]);
            self.move_leader(&at, leader);
        }
        self.groups.node_stopped(id, &heirs);
        Ok(())
    }

    /// Starts the node; partitions without a leader whose preferred leader it is are led by it.
    pub(crate) fn start_node(&mut self, id: i32) -> Result<(), Refused> {
        self.node_mut(id)?.running = true;
        for at in self.led_by(None) {
            if self.at(&at).is_some_and(|partition| partition.replicas.first() == Some(&id)) {
                self.move_leader(&at, Some(id));
            }
        }
        self.groups.node_started(id);
        Ok(())
    }

    // Topics

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values()
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topics.get(self.names.get(&id)?)
    }

    pub(crate) fn partition(&self, topic: &str, index: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partition(index)
    }

    pub(crate) fn partition_mut(&mut self, topic: &str, index: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(index).ok()?)
    }

    /// The partition, if `node` leads it in the epoch that the client takes for current (-1: it does not say).
    pub(crate) fn led(&self, node: i32, topic: &str, index: i32, epoch: i32) -> Result<&Partition, Code> {
        let partition = self.partition(topic, index).ok_or(Code::UNKNOWN_TOPIC_OR_PARTITION)?;
        if !partition.is_on(node) {
            return Err(Code::NOT_LEADER_OR_FOLLOWER);
        }
        partition.check_epoch(epoch)?;
        if partition.leader != Some(node) {
            return Err(Code::NOT_LEADER_OR_FOLLOWER);
        }
        Ok(partition)
    }

    /// Checks that a topic may have this name and so many partitions.
    pub(crate) fn check_topic(&self, name: &str, options: &TopicOptions) -> Result<(), Refused> {
        check_name(name)?;
        self.check_is_new(name)?;
        if options.partitions < 1 {
            let message = "Number of partitions was set to an invalid non-positive value.";
            return Err(Refused::new(Code::INVALID_PARTITIONS, message));
        }
        Ok(())
    }

    pub(crate) fn create_topic(&mut self, name: &str, options: TopicOptions) -> Result<Uuid, Refused> {
        self.check_topic(name, &options)?;
        let replicas = self.place(0..options.partitions, options.replication)?;
        Ok(self.create_topic_on(name, options, replicas))
    }

    /// Makes a topic whose partitions have these replicas, all of which must be nodes.
    pub(crate) fn create_topic_on(
        &mut self,
        name: &str,
        options: TopicOptions,
        replicas: Vec<Vec<i32>>,
    ) -> Uuid {
        let id = self.new_topic_id();
        let partitions = replicas.into_iter().map(|replicas| self.new_partition(replicas)).collect();
        self.names.insert(id, name.into());
        self.topics.insert(name.into(), Topic { name: name.into(), id, options, partitions });
        id
    }

    pub(crate) fn check_more_partitions(&self, name: &str, count: i32) -> Result<Vec<Vec<i32>>, Refused> {
        let topic = self.topic(name).ok_or_else(unknown_topic)?;
        let now = topic.partitions.len() as i32;
        if count == now {
            let message = format!("Topic already has {now} partition(s).");
            return Err(Refused::new(Code::INVALID_PARTITIONS, message));
        }
        if count < now {
            let message = format!(
                "The topic {name} currently has {now} partition(s); {count} would not be an increase."
            );
            return Err(Refused::new(Code::INVALID_PARTITIONS, message));
        }
        self.place(now..count, topic.options.replication)
    }

    pub(crate) fn add_partitions(&mut self, name: &str, replicas: Vec<Vec<i32>>) -> Result<(), Refused> {
        let more: Vec<_> = replicas.into_iter().map(|replicas| self.new_partition(replicas)).collect();
        self.topics.get_mut(name).ok_or_else(unknown_topic)?.partitions.extend(more);
        Ok(())
    }

    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<Uuid, Refused> {
        let topic = self.topics.remove(name).ok_or_else(unknown_topic)?;
        self.names.remove(&topic.id);
        self.groups.forget_topic(name);
        self.changes.extend((0..topic.partitions.len() as i32).map(|index| (topic.id, index)));
        Ok(topic.id)
    }

    pub(crate) fn set_leader(&mut self, topic: &str, index: i32, leader: Option<i32>) -> Result<(), Refused> {
        if let Some(leader) = leader {
            self.node_mut(leader)?;
        }
        self.existing(topic, index)?;
        self.move_leader(&(topic.into(), index), leader);
        Ok(())
    }

    // Logs

    /// Appends batches as the leader does; gives the first offset.
    pub(crate) fn append(
        &mut self,
        topic: &str,
        index: i32,
        records: &Bytes,
        wall_ms: Option<i64>,
    ) -> Result<i64, Refused> {
        let partition = self.existing(topic, index)?;
        let epoch = partition.epoch;
        let first = partition.log.end();
        for (_, range) in batches(records)? {
            partition.log.append(records.slice(range), epoch, wall_ms).map_err(corrupt)?;
        }
        self.changed(topic, index);
        Ok(first)
    }

    pub(crate) fn append_as_is(&mut self, topic: &str, index: i32, records: &Bytes) -> Result<(), Refused> {
        let partition = self.existing(topic, index)?;
        for (_, range) in batches(records)? {
            partition.log.append_as_is(&records.slice(range))?;
        }
        self.changed(topic, index);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, topic: &str, index: i32, end: i64) -> Result<(), Refused> {
        self.existing(topic, index)?.log.truncate(end.max(0));
        self.changed(topic, index);
        Ok(())
    }

    pub(crate) fn delete_records(&mut self, topic: &str, index: i32, start: i64) -> Result<i64, Refused> {
        let log = &mut self.existing(topic, index)?.log;
        log.delete_before(start).map_err(|code| {
            Refused::new(code, format!("{start} is not between 0 and the high watermark {}", log.end()))
        })?;
        let start = log.start();
        self.changed(topic, index);
        Ok(start)
    }

    pub(crate) fn existing(&mut self, topic: &str, index: i32) -> Result<&mut Partition, Refused> {
        let missing = || {
            Refused::new(Code::UNKNOWN_TOPIC_OR_PARTITION, format!("there is no partition {topic}-{index}"))
        };
        self.partition_mut(topic, index).ok_or_else(missing)
    }

    // The rest

    pub(crate) fn set_versions(&mut self, api: ApiKey, range: Option<(i16, i16)>) {
        self.versions.insert(api, range);
    }

    /// The versions of `api` that are spoken, of those that could be.
    pub(crate) fn versions(&self, api: ApiKey, possible: (i16, i16)) -> Option<(i16, i16)> {
        let (min, max) = match self.versions.get(&api) {
            None => possible,
            Some(range) => {
                let (min, max) = (*range)?;
                (min.max(possible.0), max.min(possible.1))
            }
        };
        (min <= max).then_some((min, max))
    }

    pub(crate) fn new_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    pub(crate) fn take_changes(&mut self) -> Vec<(Uuid, i32)> {
        std::mem::take(&mut self.changes)
    }

    fn changed(&mut self, topic: &str, index: i32) {
        if let Some(topic) = self.topics.get(topic) {
            self.changes.push((topic.id, index));
        }
    }

    fn at(&self, (topic, index): &(String, i32)) -> Option<&Partition> {
        self.partition(topic, *index)
    }

    fn led_by(&self, leader: Option<i32>) -> Vec<(String, i32)> {
        let all = self.topics.values().flat_map(|topic| {
            topic.partitions.iter().zip(0..).map(move |(partition, index)| (topic, partition, index))
        });
        let led = all.filter(|(_, partition, _)| partition.leader == leader);
        led.map(|(topic, _, index)| (topic.name.clone(), index)).collect()
    }

    fn move_leader(&mut self, (topic, index): &(String, i32), leader: Option<i32>) {
        let Some(partition) = self.partition_mut(topic, *index) else { return };
        partition.leader = leader;
        partition.epoch += 1;
        if let Some(leader) = leader {
            partition.log.begin_epoch(partition.epoch);
            if !partition.replicas.contains(&leader) {
                partition.replicas.push(leader);
            }
        }
        self.changed(topic, *index);
    }

    /// Replicas for new partitions, round the nodes that run (all nodes, if none does).
    pub(crate) fn place(
        &self,
        partitions: std::ops::Range<i32>,
        replication: i16,
    ) -> Result<Vec<Vec<i32>>, Refused> {
        check_count(partitions.len())?;
        let mut ids: Vec<i32> = self.running().map(|node| node.options.id).collect();
        if ids.is_empty() {
            ids = self.nodes.keys().copied().collect();
        }
        let wanted = usize::try_from(replication).unwrap_or(0);
        if wanted < 1 || wanted > ids.len() {
            let message =
                format!("Unable to replicate the partition {replication} time(s): {} brokers", ids.len());
            return Err(Refused::new(Code::INVALID_REPLICATION_FACTOR, message));
        }
        let replicas = |index: i32| (0..wanted).map(|nth| ids[(index as usize + nth) % ids.len()]).collect();
        Ok(partitions.map(replicas).collect())
    }

    fn new_partition(&self, replicas: Vec<i32>) -> Partition {
        let leader = replicas.iter().copied().find(|&id| self.is_running(id));
        let mut log = Log::new(self.max_log_bytes);
        log.begin_epoch(0);
        Partition { leader, epoch: 0, replicas, log }
    }

    fn new_topic_id(&mut self) -> Uuid {
        let id = Uuid(self.random.u128(1..).to_be_bytes());
        if self.names.contains_key(&id) { self.new_topic_id() } else { id }
    }

    fn check_is_new(&self, name: &str) -> Result<(), Refused> {
        if self.topics.contains_key(name) {
            return Err(Refused::new(Code::TOPIC_ALREADY_EXISTS, format!("Topic '{name}' already exists.")));
        }
        // A topic's name becomes part of a metric's, where both letters look the same.
        let collides = |other: &&String| other.replace('.', "_") == name.replace('.', "_");
        match self.topics.keys().find(collides) {
            None => Ok(()),
            Some(other) => {
                let message = format!("Topic '{name}' collides with existing topic: {other}");
                Err(Refused::new(Code::INVALID_TOPIC_EXCEPTION, message))
            }
        }
    }
}

impl Topic {
    pub(crate) fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

impl Partition {
    /// Whether the node is among those that hold the partition.
    pub(crate) fn is_on(&self, node: i32) -> bool {
        self.replicas.contains(&node)
    }

    /// Compares the epoch that a client takes for current (-1: it does not say) with the one that is.
    pub(crate) fn check_epoch(&self, epoch: i32) -> Result<(), Code> {
        match epoch {
            ..0 => Ok(()),
            _ if epoch < self.epoch => Err(Code::FENCED_LEADER_EPOCH),
            _ if epoch > self.epoch => Err(Code::UNKNOWN_LEADER_EPOCH),
            _ => Ok(()),
        }
    }
}

/// Kafka makes fewer than so many partitions at once; here that also keeps a request from taking all memory.
fn check_count(partitions: usize) -> Result<(), Refused> {
    if partitions < 10_000 {
        return Ok(());
    }
    Err(Refused::new(Code::POLICY_VIOLATION, "Excessively large number of partitions per request."))
}

/// Kafka's rule for topic names.
pub(crate) fn check_name(name: &str) -> Result<(), Refused> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let wrong = match name {
        "" => "the empty string is not allowed".into(),
        "." | ".." => format!("'{name}' is not allowed"),
        _ if name.len() > 249 => format!("the length of '{name}' is longer than the max allowed length 249"),
        _ if !name.chars().all(legal) => format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ),
        _ => return Ok(()),
    };
    Err(Refused::new(Code::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {wrong}")))
}

/// The whole batches that `records` consists of.
fn batches(records: &Bytes) -> Result<Vec<(BatchHeader, std::ops::Range<usize>)>, Refused> {
    let mut batches = Batches::new(records);
    let found: Vec<_> = batches.by_ref().collect::<Result<_, _>>().map_err(corrupt)?;
    match (batches.tail(), found.is_empty()) {
        (0, false) => Ok(found),
        (0, true) => Err(Refused::new(Code::INVALID_RECORD, "there is no batch")),
        (tail, _) => {
            let message = format!("the last {tail} bytes are no whole batch");
            Err(Refused::new(Code::CORRUPT_MESSAGE, message))
        }
    }
}

fn corrupt(error: impl std::fmt::Display) -> Refused {
    Refused::new(Code::CORRUPT_MESSAGE, error.to_string())
}

pub(crate) fn unknown_topic() -> Refused {
    Refused::new(Code::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
}
