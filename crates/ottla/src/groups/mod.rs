//! Groups from outside: who is in them, where they stand, and how to move or remove them.

mod cluster;
mod describe;
mod log;
mod offsets;

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ottla_core::{Address, Start, TopicPartition};
use ottla_wire::{
    code::Code,
    message::{DeleteGroupsRequest, ListGroupsRequest, list_groups_response::ListedGroup},
};

use crate::{connect::Connect, error::Error, options::Connector};
use cluster::{Cluster, Trouble, trouble};

/// Looks after consumer groups without being a member of any: lists and describes them, tells their lag, sets their
/// offsets, deletes them.
///
/// It connects when something is asked, and keeps its connections. What may pass (a broker that is away, a coordinator
/// that moves or loads) is asked again until [`timeout`](Self::timeout); what does not is an error that says who must act.
///
/// ```no_run
/// # async fn example() -> Result<(), ottla::Error> {
/// let mut groups = ottla::Groups::new("localhost:9092")?;
/// let billing = groups.describe("billing").await?;
/// for partition in groups.lag(&billing).await? {
///     println!("{}: {:?} records behind", partition.at, partition.lag);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// A question that is dropped leaves nothing behind. Of a change ([`set_offsets`](Self::set_offsets),
/// [`delete`](Self::delete)) that is dropped it is not known whether it happened; repeating it does no harm.
#[derive(Debug)]
pub struct Groups {
    cluster: Cluster,
}

/// How long one operation may take unless told.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Groups {
    /// For the cluster that these brokers belong to: `host:port`, several with commas between them.
    ///
    /// # Errors
    ///
    /// An address that is none. Nothing touches the network here.
    pub fn new(bootstrap: &str) -> Result<Self, Error> {
        let texts = bootstrap.split(',').map(str::trim).filter(|text| !text.is_empty());
        let mut faults = Vec::new();
        let mut addresses = Vec::<Address>::new();
        for text in texts {
            match text.parse() {
                Ok(address) => addresses.push(address),
                Err(fault) => faults.push(format!("bootstrap: {fault}")),
            }
        }
        if addresses.is_empty() && faults.is_empty() {
            faults.push("bootstrap: no broker is named".to_owned());
        }
        match faults.is_empty() {
            true => Ok(Self { cluster: Cluster::new(addresses, TIMEOUT) }),
            false => Err(Error::config(&faults)),
        }
    }

    /// How long one operation may take, with all that is tried again; 30 s (`default.api.timeout.ms`).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.cluster.limit = timeout.min(Duration::from_secs(24 * 3600));
        self
    }

    /// Makes connections by this instead of plain [`Tcp`](crate::Tcp); see [`Connect`].
    #[must_use]
    pub fn connect(mut self, connector: impl Connect) -> Self {
        self.cluster.options.connector = Connector(Arc::new(connector));
        self
    }

    /// Names this client to the brokers; "ottla" unless told (`client.id`).
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.cluster.options.client_id = id.into();
        self
    }

    /// All groups of the cluster, by name; every broker is asked for those that it coordinates.
    ///
    /// # Errors
    ///
    /// A broker could not be asked in time, or refuses.
    pub async fn list(&mut self) -> Result<Vec<GroupListing>, Error> {
        self.cluster.begin();
        loop {
            match self.list_all().await {
                Ok(groups) => return Ok(groups.into_values().collect()),
                // All of it anew: what one broker had, another may have taken over that was asked before.
                Err(trouble) => self.cluster.again(trouble).await?,
            }
        }
    }

    async fn list_all(&mut self) -> Result<BTreeMap<String, GroupListing>, Trouble> {
        self.cluster.metadata(&[]).await?;
        let mut groups = BTreeMap::new();
        for address in self.cluster.nodes().values().cloned().collect::<Vec<_>>() {
            groups.extend(self.list_of(&address).await?.into_iter().map(|group| (group.id.clone(), group)));
        }
        Ok(groups)
    }

    async fn list_of(&mut self, address: &Address) -> Result<Vec<GroupListing>, Trouble> {
        let response = self.cluster.ask(address, i16::MAX, |_| ListGroupsRequest::default()).await?;
        match Code(response.error_code) {
            Code::NONE => Ok(response.groups.into_iter().map(GroupListing::from).collect()),
            code => Err(trouble(&format!("{address}: listing groups"), code, None)),
        }
    }

    /// What the group's coordinator knows of it: state, assignor, members with their partitions.
    ///
    /// # Errors
    ///
    /// With the code [`GROUP_ID_NOT_FOUND`](Code::GROUP_ID_NOT_FOUND) if there is no such group, with
    /// [`INCONSISTENT_GROUP_PROTOCOL`](Code::INCONSISTENT_GROUP_PROTOCOL) if it is not one of consumers (but of share
    /// consumers, say); else that the coordinator could not be asked in time, or refuses.
    pub async fn describe(&mut self, group: &str) -> Result<GroupDescription, Error> {
        self.cluster.begin();
        describe::describe(&mut self.cluster, group).await
    }

    /// Where the group stands in each partition that it has an offset for, or that a member owns.
    ///
    /// Costs one or two questions to each leader, and a small fetch of those partitions that are behind, for the time of
    /// the next record. What is wrong with a single partition (its topic was deleted, it has no leader) is in its
    /// [`fault`](PartitionLag::fault).
    ///
    /// # Errors
    ///
    /// The coordinator could not be asked in time, or refuses.
    pub async fn lag(&mut self, group: &GroupDescription) -> Result<Vec<PartitionLag>, Error> {
        self.cluster.begin();
        offsets::lag(&mut self.cluster, group, SystemTime::now()).await
    }

    /// All partitions of a topic.
    ///
    /// # Errors
    ///
    /// There is no such topic, or no broker could be asked in time.
    pub async fn partitions(&mut self, topic: &str) -> Result<Vec<TopicPartition>, Error> {
        self.cluster.begin();
        log::partitions(&mut self.cluster, topic).await
    }

    /// The offsets that `start` means in these partitions, for [`set_offsets`](Self::set_offsets). An offset outside of
    /// the log becomes the nearest one of the log.
    ///
    /// # Errors
    ///
    /// A partition does not exist or has no leader, or could not be asked in time.
    pub async fn resolve(
        &mut self,
        partitions: &[TopicPartition],
        start: Start,
    ) -> Result<Vec<ResolvedOffset>, Error> {
        self.cluster.begin();
        log::resolve(&mut self.cluster, partitions, start.resolve(SystemTime::now())).await
    }

    /// Commits these offsets for the group: where its members read on when they come back. A group that does not exist
    /// comes into being, without members.
    ///
    /// # Errors
    ///
    /// While the group has members it refuses, with the code [`NON_EMPTY_GROUP`](Code::NON_EMPTY_GROUP): they would not
    /// notice, and commit over it. An offset is negative, or a partition does not exist. Else that the coordinator could not
    /// be asked in time, or refuses.
    pub async fn set_offsets(
        &mut self,
        group: &str,
        offsets: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) -> Result<(), Error> {
        self.cluster.begin();
        offsets::set(&mut self.cluster, group, offsets.into_iter().collect()).await
    }

    /// Deletes the group with all its offsets.
    ///
    /// # Errors
    ///
    /// While the group has members it refuses, with the code [`NON_EMPTY_GROUP`](Code::NON_EMPTY_GROUP); without such a
    /// group, with [`GROUP_ID_NOT_FOUND`](Code::GROUP_ID_NOT_FOUND). Else that the coordinator could not be asked in time,
    /// or refuses.
    pub async fn delete(&mut self, group: &str) -> Result<(), Error> {
        self.cluster.begin();
        let mut lost = false;
        loop {
            let request =
                |_| DeleteGroupsRequest { groups_names: vec![group.to_owned()], ..Default::default() };
            let answer = self.cluster.ask_coordinator(group, i16::MAX, request).await;
            let trouble = match answer {
                Err(trouble) => {
                    lost = true;
                    trouble
                }
                Ok(response) => match response.results.first() {
                    None => {
                        self.cluster.refused(group, Code::UNKNOWN_SERVER_ERROR, Some("without an answer"))
                    }
                    Some(result) => match Code(result.error_code) {
                        Code::NONE => return Ok(()),
                        // An earlier attempt may have done it, whose answer was lost.
                        Code::GROUP_ID_NOT_FOUND if lost => return Ok(()),
                        Code::NON_EMPTY_GROUP => return Err(self.not_empty(group).await),
                        Code::GROUP_ID_NOT_FOUND => return Err(missing(group)),
                        code => self.cluster.refused(group, code, result.error_message.as_deref()),
                    },
                },
            };
            self.cluster.again(trouble).await?;
        }
    }

    async fn not_empty(&mut self, group: &str) -> Error {
        match describe::describe(&mut self.cluster, group).await {
            Ok(description) => not_empty(&description),
            Err(error) => error,
        }
    }
}

fn missing(group: &str) -> Error {
    Error::refused(format!("group {group} does not exist"), Code::GROUP_ID_NOT_FOUND)
}

/// Why nothing is changed under the feet of the members.
fn not_empty(group: &GroupDescription) -> Error {
    let count = group.members.len();
    let names: Vec<String> = group.members.iter().take(NAMED).map(MemberDescription::name).collect();
    let more = if count > NAMED { ", ..." } else { "" };
    let (plural, them) = if count == 1 { ("", "it") } else { ("s", "them") };
    let what = format!(
        "group {} has {count} member{plural} ({}{more}); stop {them} first",
        group.id,
        names.join(", ")
    );
    Error::refused(what, Code::NON_EMPTY_GROUP)
}

/// So many members are named in an error.
const NAMED: usize = 5;

/// A group as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupListing {
    /// Its name.
    pub id: String,
    /// By which protocol its members are kept together.
    pub kind: GroupKind,
    /// What the members have agreed to do: "consumer" for consumers, "connect" for Kafka Connect; empty for a group
    /// without members that only holds offsets.
    pub protocol_type: String,
    /// As the broker names it: "Stable", "Empty", "PreparingRebalance" and so on; empty from a broker older than 2.6.
    pub state: String,
}

impl From<ListedGroup> for GroupListing {
    fn from(group: ListedGroup) -> Self {
        Self {
            id: group.group_id,
            kind: GroupKind::named(&group.group_type),
            protocol_type: group.protocol_type,
            state: group.group_state,
        }
    }
}

/// By which protocol a group's members are kept together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupKind {
    /// The members' leader assigns the partitions (JoinGroup, SyncGroup), or there are no members at all.
    Classic,
    /// The broker assigns the partitions (KIP-848).
    Consumer,
    /// Another one, as the broker names it ("share", "streams").
    Other(String),
}

impl GroupKind {
    /// Brokers that do not say know only one.
    fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "" | "classic" => Self::Classic,
            "consumer" => Self::Consumer,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Other(name) => name,
        })
    }
}

/// The broker that a group belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coordinator {
    /// Its id.
    pub node: i32,
    /// Where it listens.
    pub address: Address,
}

/// A group as its coordinator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// Its name.
    pub id: String,
    /// By which protocol its members are kept together.
    pub kind: GroupKind,
    /// As the broker names it: "Stable", "Empty", "PreparingRebalance" and so on.
    pub state: String,
    /// "consumer" for consumers; empty for a group that only holds offsets.
    pub protocol_type: String,
    /// Who assigns the partitions, by name ("range"); empty while nobody does.
    pub assignor: String,
    /// Grows with each change of the members (KIP-848 only).
    pub epoch: Option<i32>,
    /// The broker that the group belongs to.
    pub coordinator: Coordinator,
    /// Its members, by client id and member id.
    pub members: Vec<MemberDescription>,
}

/// A member as its group's coordinator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberDescription {
    /// What the coordinator calls it.
    pub id: String,
    /// Its `group.instance.id`, if it is a static member (KIP-345).
    pub instance: Option<String>,
    /// Its `client.id`.
    pub client_id: String,
    /// Where it connects from.
    pub host: String,
    /// The topics it has subscribed to, by name; those of a regular expression that the broker evaluates are not here.
    pub topics: Vec<String>,
    /// The partitions it has; in a group of another protocol type than "consumer" they cannot be read.
    pub partitions: Vec<TopicPartition>,
    /// Its epoch (KIP-848 only).
    pub epoch: Option<i32>,
}

impl MemberDescription {
    /// For a sentence.
    fn name(&self) -> String {
        let id = self.instance.as_ref().unwrap_or(&self.client_id);
        format!("{id} at {}", self.host.trim_start_matches('/'))
    }
}

/// Where a group stands in a partition.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PartitionLag {
    /// Which partition.
    pub at: TopicPartition,
    /// The next offset to read, as it was committed; none before the first commit.
    pub committed: Option<i64>,
    /// What was committed beside the offset.
    pub metadata: String,
    /// The oldest offset of the log.
    pub earliest: Option<i64>,
    /// The end of the log (the high watermark).
    pub end: Option<i64>,
    /// How many offsets the log still holds behind the committed one; none before the first commit. Compacted ones and
    /// markers of transactions count.
    pub lag: Option<u64>,
    /// How old the next unread record is (now less its timestamp); zero when there is none. None before the first commit,
    /// for records without a timestamp, and where the record could not be read.
    pub behind: Option<Duration>,
    /// The id of the member that has the partition.
    pub owner: Option<String>,
    /// Why some of it is not known.
    pub fault: Option<Error>,
}

/// An offset that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedOffset {
    /// Which partition.
    pub at: TopicPartition,
    /// The offset, inside of the log.
    pub offset: i64,
    /// The oldest offset of the log.
    pub earliest: i64,
    /// The end of the log.
    pub end: i64,
}
