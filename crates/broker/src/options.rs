//! What a cluster is made with.

use crate::groups::Rules;
use ottla_wire::api::ApiKey;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a [`Cluster`](crate::Cluster) is made with. The default is one node and nothing switched on.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    pub(crate) nodes: Vec<NodeOptions>,
    pub(crate) cluster_id: String,
    pub(crate) seed: u64,
    pub(crate) versions: BTreeMap<ApiKey, Option<(i16, i16)>>,
    pub(crate) auto_create: Option<i32>,
    pub(crate) max_log_bytes: Option<u64>,
    pub(crate) remembered_requests: usize,
    pub(crate) groups: Rules,
}

/// A node, and what metadata says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// `broker.id`.
    pub id: i32,
    /// The advertised host.
    pub host: String,
    /// The advertised port.
    pub port: u16,
    /// `broker.rack`.
    pub rack: Option<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: vec![NodeOptions::new(1)],
            cluster_id: "ottla-broker".into(),
            seed: 0,
            versions: BTreeMap::new(),
            auto_create: None,
            max_log_bytes: None,
            remembered_requests: 1000,
            groups: Rules {
                min_session: Duration::from_secs(6),
                max_session: Duration::from_secs(30 * 60),
                initial_delay: Duration::ZERO,
                most_members: usize::MAX,
                remembered_commits: 1000,
            },
        }
    }
}

impl NodeOptions {
    /// Node `id`, advertised as `localhost` with port 9091 + `id`, in no rack.
    pub fn new(id: i32) -> Self {
        let port = u16::try_from(9091 + i64::from(id)).unwrap_or(9092);
        Self { id, host: "localhost".into(), port, rack: None }
    }
}

impl ClusterOptions {
    /// The default: one node.
    pub fn new() -> Self {
        Self::default()
    }

    /// `count` nodes with the ids 1 to `count`. None becomes one.
    pub fn nodes(mut self, count: i32) -> Self {
        self.nodes = (1..=count.max(1)).map(NodeOptions::new).collect();
        self
    }

    /// These nodes. Of two with the same id the later counts.
    pub fn with_nodes(mut self, nodes: impl IntoIterator<Item = NodeOptions>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }

    /// What topic ids and member ids are drawn from (default 0): the same seed and the same calls give the same cluster.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The id that metadata gives (default `ottla-broker`).
    pub fn cluster_id(mut self, id: impl Into<String>) -> Self {
        self.cluster_id = id.into();
        self
    }

    /// Speaks `api` only from version `min` to `max`, to pass for an older or newer broker. What this crate does not
    /// speak is left out of the range. Later: [`Cluster::set_versions`](crate::Cluster::set_versions).
    pub fn versions(mut self, api: ApiKey, min: i16, max: i16) -> Self {
        self.versions.insert(api, Some((min, max)));
        self
    }

    /// Does not speak `api`.
    pub fn without(mut self, api: ApiKey) -> Self {
        self.versions.insert(api, None);
        self
    }

    /// Creates a topic with so many partitions when metadata is asked for one that is missing
    /// (`auto.create.topics.enable`, `num.partitions`). Off by default.
    pub fn auto_create(mut self, partitions: i32) -> Self {
        self.auto_create = Some(partitions);
        self
    }

    /// Drops the oldest batches of a partition that holds more than so many bytes; its log start moves then
    /// (`retention.bytes`). No limit by default. The memory of a batch is free once all batches that came in the same
    /// produce request are gone.
    pub fn max_log_bytes(mut self, bytes: u64) -> Self {
        self.max_log_bytes = Some(bytes);
        self
    }

    /// How many requests [`Cluster::received`](crate::Cluster::received) remembers (default 1000, 0 for none). Frames
    /// above 64 KiB are remembered without their content.
    pub fn remember_requests(mut self, count: usize) -> Self {
        self.remembered_requests = count;
        self
    }

    /// The session time-outs that members may ask for (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`,
    /// default 6 s to 30 min).
    pub fn session_timeouts(mut self, min: Duration, max: Duration) -> Self {
        (self.groups.min_session, self.groups.max_session) = (min, max);
        self
    }

    /// How long an empty group's first rebalance waits for more members, again and again as they come
    /// (`group.initial.rebalance.delay.ms`; default 0, Kafka's is 3 s).
    pub fn initial_rebalance_delay(mut self, delay: Duration) -> Self {
        self.groups.initial_delay = delay;
        self
    }

    /// The most members that a group may have (`group.max.size`). No limit by default.
    pub fn max_group_size(mut self, members: usize) -> Self {
        self.groups.most_members = members;
        self
    }

    /// How many commits of single partitions [`Cluster::commits`](crate::Cluster::commits) remembers, over all groups
    /// (default 1000, 0 for none).
    pub fn remember_commits(mut self, count: usize) -> Self {
        self.groups.remembered_commits = count;
        self
    }
}
