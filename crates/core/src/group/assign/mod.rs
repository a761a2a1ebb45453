//! Who of a group reads what: the question every rebalance asks, and the answers there are.

pub(crate) mod metadata;
mod order;
mod range;
mod round_robin;
mod sticky;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

pub use self::{range::Range, round_robin::RoundRobin, sticky::Sticky};
use crate::partition::TopicPartition;

/// Divides the partitions of a group's topics among its members.
///
/// Every member of a group offers the assignors it knows, by name and most wanted first; the coordinator picks one that
/// all of them offer, and the member it makes the leader runs it (`partition.assignment.strategy` in Java). So a name
/// has to mean the same in all programs of a group: [`Range`], [`RoundRobin`] and [`Sticky`] assign as Java's assignors
/// of those names do.
///
/// # Writing your own
///
/// [`assign`](Self::assign) is called with all members, also those of other programs and versions, and with the topics
/// that any of them asked for. What it returns is checked before it goes out: a member that is not in the group, a
/// partition that does not exist, one that is given out twice or to a member that did not ask for its topic make the
/// rebalance fail with an error that says which. A partition that it gives to nobody is read by nobody, and a member
/// that it leaves out reads nothing: both are allowed.
///
/// Ask the members for nothing but what their [`GroupMember`] says, and go by nothing else (no clock, no random
/// number): then any member gives the same answer when it becomes the leader, and partitions do not move for nothing.
///
/// ```
/// use ottla_core::{Assignment, Assignor, GroupMember, GroupTopics, TopicPartition};
///
/// /// All to the member whose id sorts first, the others stand by.
/// #[derive(Debug)]
/// struct OneReads;
///
/// impl Assignor for OneReads {
///     fn name(&self) -> &str {
///         "one-reads"
///     }
///
///     fn assign(&self, members: &[GroupMember], topics: &GroupTopics) -> Assignment {
///         let Some(first) = members.iter().min_by_key(|member| &member.id) else { return Assignment::new() };
///         let asked = topics.iter().filter(|(topic, _)| first.topics.contains(topic));
///         let all = asked.flat_map(|(topic, partitions)| {
///             (0..).zip(partitions).map(|(number, _)| TopicPartition::new(topic.clone(), number))
///         });
///         Assignment::from([(first.id.clone(), all.collect())])
///     }
/// }
/// ```
pub trait Assignor: Send + Sync + Debug + 'static {
    /// The name that the group agrees on, such as `range`.
    fn name(&self) -> &str;

    /// Which version of the subscription its members write.
    ///
    /// 0 says the topics and the [user data](Self::user_data), 1 also what the member owns, 2 the generation in which
    /// it got that, 3 its rack. The default is 0, which everybody can read: kafka-go's leader refuses a member that
    /// writes more.
    fn metadata_version(&self) -> i16 {
        0
    }

    /// What a member tells the leader beside its topics; the leader finds it in [`GroupMember::user_data`].
    ///
    /// `owned` is what the member was assigned last, in the generation `generation`, which is -1 for one that was never
    /// assigned anything. The default is nothing.
    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Bytes {
        let _ = (owned, generation);
        Bytes::new()
    }

    /// Divides the partitions of `topics` among `members`; only the leader of a group is asked.
    fn assign(&self, members: &[GroupMember], topics: &GroupTopics) -> Assignment;
}

/// A member of a group, as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// What the coordinator calls it: a new one each time it joins afresh.
    pub id: String,
    /// What a static member calls itself, and keeps when it restarts (`group.instance.id`, KIP-345).
    pub instance: Option<String>,
    /// The topics it wants to read, each once, whether they exist or not.
    pub topics: Vec<Arc<str>>,
    /// What it says it owns, each partition once: empty from a member whose subscription has a version below 1, and
    /// from one that gives everything up before it joins. Another member may say that it owns the same.
    pub owned: Vec<TopicPartition>,
    /// The generation in which it was given that, or -1: a member that slept through some has an older one.
    pub generation: i32,
    /// Where it runs (`client.rack`), if its subscription says so.
    pub rack: Option<String>,
    /// What its assignor of the chosen name added; empty for nothing. It may come from another program: trust no byte.
    pub user_data: Bytes,
}

impl GroupMember {
    /// A member that wants those topics and says nothing else.
    pub fn new<T: Into<Arc<str>>>(id: impl Into<String>, topics: impl IntoIterator<Item = T>) -> Self {
        Self {
            id: id.into(),
            instance: None,
            topics: topics.into_iter().map(Into::into).collect(),
            owned: Vec::new(),
            generation: -1,
            rack: None,
            user_data: Bytes::new(),
        }
    }
}

/// The topics that the members of a group ask for, each with its partitions in the order of their numbers, from 0. A
/// topic that does not exist is absent.
pub type GroupTopics = BTreeMap<Arc<str>, Vec<GroupPartition>>;

/// A partition, as an assignor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupPartition {
    /// The racks of the nodes that hold a replica, where they are known (`broker.rack`).
    pub racks: Vec<String>,
}

/// The partitions of each member, by its id.
pub type Assignment = BTreeMap<String, Vec<TopicPartition>>;

fn partition(topic: &Arc<str>, number: usize) -> TopicPartition {
    // Kafka numbers partitions with an i32, and so the list of a topic's partitions is no longer than that.
    TopicPartition { topic: topic.clone(), partition: i32::try_from(number).unwrap_or(i32::MAX) }
}
