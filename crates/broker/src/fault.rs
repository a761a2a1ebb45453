//! Scripted faults: what goes wrong, for which requests, how often.

use crate::ConnectionId;
use bytes::Bytes;
use ottla_wire::api::ApiKey;
use ottla_wire::code::Code;
use ottla_wire::message::Request;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Something that goes wrong with the next request of an API, or with several.
///
/// Requests are counted when the broker begins to serve them. All faults that fit a request act on it, so that an error
/// can come late, or a reply be rewritten and then cut.
///
/// ```
/// use ottla_broker::{ApiKey, Code, Fault};
/// let fault = Fault::partition_error(ApiKey::Fetch, Code::NOT_LEADER_OR_FOLLOWER)
///     .node(2).topic("orders").partition(0).times(3);
/// ```
#[derive(Debug)]
pub struct Fault {
    api: ApiKey,
    node: Option<i32>,
    connection: Option<ConnectionId>,
    place: Place,
    /// `None`: until cleared.
    left: Option<u64>,
    effect: Effect,
}

/// A fault that was given to a cluster, to clear it or to ask how often it acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

/// The topics and partitions that a fault is for, or the group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    group: Option<String>,
    topic: Option<String>,
    partition: Option<i32>,
}

#[derive(Debug)]
enum Effect {
    Error(Code),
    PartitionError(Code),
    Delay(Duration),
    Cut(usize),
    Garbage(Bytes),
    Corrupt(usize),
    Close,
    Silence,
    Rewrite(Rewrite),
}

impl Fault {
    /// The request fails with `code` as a whole. Where a reply of its version has no place for that, every topic, group or
    /// partition that the fault is for fails with it.
    pub fn error(api: ApiKey, code: Code) -> Self {
        Self::new(api, Effect::Error(code))
    }

    /// Every partition that the fault is for fails with `code` (in Metadata, and where an API names topics only, every
    /// topic, unless the fault is for one partition; where it names groups or members, each of these). Nothing is read
    /// from or appended to it.
    pub fn partition_error(api: ApiKey, code: Code) -> Self {
        Self::new(api, Effect::PartitionError(code))
    }

    /// The reply is held back for so long after it was made, and the connection with it. A fetch is parked first, and a
    /// member that joins or syncs waits first.
    pub fn delay(api: ApiKey, delay: Duration) -> Self {
        Self::new(api, Effect::Delay(delay))
    }

    /// The request is served, but the connection closes after so many bytes of its reply (the length counts; 0: the
    /// reply is lost).
    pub fn cut(api: ApiKey, bytes: usize) -> Self {
        Self::new(api, Effect::Cut(bytes))
    }

    /// The request is served, but these bytes are sent in the place of its reply and of the length before it.
    pub fn garbage(api: ApiKey, bytes: impl Into<Bytes>) -> Self {
        Self::new(api, Effect::Garbage(bytes.into()))
    }

    /// In the records of a fetch reply, in every partition that the fault is for and that has any, the bits of byte `at`
    /// are flipped (of the last byte, if there are fewer). The CRC covers the bytes from 21 on.
    pub fn corrupt_records(at: usize) -> Self {
        Self::new(ApiKey::Fetch, Effect::Corrupt(at))
    }

    /// The connection closes, and the request is not served.
    pub fn close(api: ApiKey) -> Self {
        Self::new(api, Effect::Close)
    }

    /// The request is not served and never answered; the connection stays open, and what comes later on it waits.
    pub fn silence(api: ApiKey) -> Self {
        Self::new(api, Effect::Silence)
    }

    /// The reply is changed before it is sent: for everything that no other fault does, a partition left out or named
    /// twice, a high watermark that goes back, a throttle time. The function gets the reply and its version.
    ///
    /// If the version cannot carry what was set, the connection closes.
    pub fn rewrite<R: Request>(rewrite: impl FnMut(&mut R::Response, i16) + Send + 'static) -> Self
    where
        R::Response: 'static,
    {
        Self::new(R::KEY, Effect::Rewrite(Rewrite::new::<R::Response>(rewrite)))
    }

    /// Only on this node.
    pub fn node(mut self, id: i32) -> Self {
        self.node = Some(id);
        self
    }

    /// Only on this connection.
    pub fn connection(mut self, id: ConnectionId) -> Self {
        self.connection = Some(id);
        self
    }

    /// Only for requests that ask for this topic.
    pub fn topic(mut self, name: impl Into<String>) -> Self {
        self.place.topic = Some(name.into());
        self
    }

    /// Only for requests that ask for a partition with this number.
    pub fn partition(mut self, index: i32) -> Self {
        self.place.partition = Some(index);
        self
    }

    /// Only for requests that name this group, and there only for it.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.place.group = Some(name.into());
        self
    }

    /// For so many requests. Without this it is one.
    pub fn times(mut self, count: u64) -> Self {
        self.left = Some(count);
        self
    }

    /// Until cleared.
    pub fn always(mut self) -> Self {
        self.left = None;
        self
    }

    fn new(api: ApiKey, effect: Effect) -> Self {
        Self { api, node: None, connection: None, place: Place::default(), left: Some(1), effect }
    }
}

impl Place {
    pub(crate) fn is_everywhere(&self) -> bool {
        self.is_any_partition() && self.group.is_none()
    }

    /// Whether it is for no topic or partition in particular.
    pub(crate) fn is_any_partition(&self) -> bool {
        self.topic.is_none() && self.partition.is_none()
    }

    pub(crate) fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.group().is_none_or(|wanted| wanted == group)
    }

    pub(crate) fn has_topic(&self, topic: &str) -> bool {
        self.topic.as_deref().is_none_or(|wanted| wanted == topic)
    }

    pub(crate) fn has(&self, topic: &str, partition: i32) -> bool {
        self.has_topic(topic) && self.partition.is_none_or(|wanted| wanted == partition)
    }
}

/// The faults that wait for their request.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    waiting: BTreeMap<FaultId, Fault>,
    hits: BTreeMap<FaultId, u64>,
    next: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.next);
        self.next += 1;
        self.hits.insert(id, 0);
        if fault.left != Some(0) {
            self.waiting.insert(id, fault);
        }
        id
    }

    pub(crate) fn clear(&mut self, id: FaultId) {
        self.waiting.remove(&id);
    }

    pub(crate) fn clear_all(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn hits(&self, id: FaultId) -> u64 {
        self.hits.get(&id).copied().unwrap_or(0)
    }

    /// What happens to a request that comes now; `asks_for` says whether it names a place.
    pub(crate) fn take(
        &mut self,
        api: ApiKey,
        node: i32,
        connection: ConnectionId,
        asks_for: impl Fn(&Place) -> bool,
    ) -> Effects {
        let mut effects = Effects::default();
        self.waiting.retain(|id, fault| {
            let fits = fault.api == api
                && fault.node.is_none_or(|wanted| wanted == node)
                && fault.connection.is_none_or(|wanted| wanted == connection)
                && (fault.place.is_everywhere() || asks_for(&fault.place));
            if !fits {
                return true;
            }
            effects.add(fault);
            *self.hits.entry(*id).or_default() += 1;
            fault.left = fault.left.map(|left| left - 1);
            fault.left != Some(0)
        });
        effects
    }
}

/// What all faults together do to one request.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) errors: Errors,
    pub(crate) close: bool,
    pub(crate) silence: bool,
    pub(crate) delay: Duration,
    cut: Option<usize>,
    garbage: Option<Bytes>,
    pub(crate) corrupt: Vec<(Place, usize)>,
    rewrites: Vec<Rewrite>,
}

impl Effects {
    fn add(&mut self, fault: &Fault) {
        let place = fault.place.clone();
        match &fault.effect {
            Effect::Error(code) => self.errors.whole.push((place, *code)),
            Effect::PartitionError(code) => self.errors.parts.push((place, *code)),
            Effect::Delay(delay) => self.delay += *delay,
            Effect::Cut(bytes) => self.cut = Some(*bytes),
            Effect::Garbage(bytes) => self.garbage = Some(bytes.clone()),
            Effect::Corrupt(at) => self.corrupt.push((place, *at)),
            Effect::Close => self.close = true,
            Effect::Silence => self.silence = true,
            Effect::Rewrite(rewrite) => self.rewrites.push(rewrite.clone()),
        }
    }

    /// Whether the reply has to be there as a message before it becomes bytes.
    pub(crate) fn change_the_reply(&self) -> bool {
        !self.rewrites.is_empty() || !self.corrupt.is_empty()
    }

    pub(crate) fn rewrite<T: Any>(&self, reply: &mut T, version: i16) {
        for rewrite in &self.rewrites {
            rewrite.apply(reply, version);
        }
    }

    /// What is sent for this reply, and whether the connection closes then.
    pub(crate) fn mangle(&self, reply: Bytes) -> (Bytes, bool) {
        let bytes = self.garbage.clone().unwrap_or(reply);
        match self.cut {
            None => (bytes, false),
            Some(cut) => (bytes.slice(..cut.min(bytes.len())), true),
        }
    }
}

/// The errors that a request is answered with, whatever the state of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    whole: Vec<(Place, Code)>,
    parts: Vec<(Place, Code)>,
}

impl Errors {
    /// The error of the request as a whole.
    pub(crate) fn top(&self) -> Option<Code> {
        self.whole.first().map(|(_, code)| *code)
    }

    /// The reply has no place for an error of the whole: it becomes one of every part.
    pub(crate) fn without_top(mut self) -> Self {
        self.parts.append(&mut self.whole);
        self
    }

    /// The error of this topic as a whole: from faults that are for no single partition.
    pub(crate) fn at_topic(&self, topic: &str) -> Option<Code> {
        let whole = |place: &Place| place.partition.is_none() && place.has_topic(topic);
        self.parts.iter().find(|(place, _)| whole(place)).map(|(_, code)| *code)
    }

    /// The error of this group as a whole, in a request that names several: from faults of the whole request.
    pub(crate) fn top_of_group(&self, group: &str) -> Option<Code> {
        self.whole.iter().find(|(place, _)| place.has_group(group)).map(|(_, code)| *code)
    }

    /// The error of this group, where the groups are the parts of a request.
    pub(crate) fn at_group(&self, group: &str) -> Option<Code> {
        let whole = |place: &Place| place.is_any_partition() && place.has_group(group);
        self.parts.iter().find(|(place, _)| whole(place)).map(|(_, code)| *code)
    }

    /// The error of this partition in a request that names several groups.
    pub(crate) fn at_in_group(&self, group: &str, topic: &str, partition: i32) -> Option<Code> {
        let fits = |place: &Place| place.has_group(group) && place.has(topic, partition);
        self.parts.iter().find(|(place, _)| fits(place)).map(|(_, code)| *code)
    }

    /// The error of this partition.
    pub(crate) fn at(&self, topic: &str, partition: i32) -> Option<Code> {
        self.parts.iter().find(|(place, _)| place.has(topic, partition)).map(|(_, code)| *code)
    }
}

/// A function over replies of one type, which only those who make and apply it know.
#[derive(Clone)]
struct Rewrite(Arc<Mutex<Change>>);

type Change = dyn FnMut(&mut dyn Any, i16) + Send;

impl Rewrite {
    fn new<T: Any>(mut rewrite: impl FnMut(&mut T, i16) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(move |reply: &mut dyn Any, version: i16| {
            if let Some(reply) = reply.downcast_mut::<T>() {
                rewrite(reply, version);
            }
        })))
    }

    fn apply(&self, reply: &mut dyn Any, version: i16) {
        let mut change = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (*change)(reply, version);
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewrite")
    }
}
