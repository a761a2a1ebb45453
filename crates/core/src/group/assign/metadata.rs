//! What members and their leader tell each other through the coordinator, which does not look inside.
//!
//! Written as Java writes it; read whatever version it says it is: what is behind the fields that are known is left
//! alone, and where the bytes end before the fields do, those that are missing have their defaults. (There are clients
//! that say version 1 and write no owned partitions.)

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use ottla_wire::message::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, Message};
use ottla_wire::message::{consumer_protocol_assignment, consumer_protocol_subscription};
use ottla_wire::{EncodeError, Input, Output};

use super::{Assignment, Assignor, GroupMember, GroupTopics};
use crate::fault::TopicPartition;

/// The version of an assignment: all that it says is in the first.
const ASSIGNMENT: i16 = 0;

/// What a member tells whoever will be the leader, in the version that the assignor's members write.
pub(crate) fn write_subscription(
    assignor: &dyn Assignor,
    topics: &[Arc<str>],
    owned: &[TopicPartition],
    generation: i32,
    rack: Option<&str>,
) -> Bytes {
    let topics: BTreeSet<&Arc<str>> = topics.iter().collect();
    let subscription = ConsumerProtocolSubscription {
        topics: topics.into_iter().map(|topic| topic.to_string()).collect(),
        user_data: Some(assignor.user_data(owned, generation)).filter(|data| !data.is_empty()),
        owned_partitions: by_topic(owned, |topic, partitions| {
            consumer_protocol_subscription::TopicPartition { topic, partitions }
        }),
        generation_id: generation,
        rack_id: rack.map(str::to_owned),
    };
    written(&subscription, assignor.metadata_version())
}

/// What a member told the leader, or why that cannot be read.
pub(crate) fn read_subscription(
    id: String,
    instance: Option<String>,
    bytes: &Bytes,
) -> Result<GroupMember, String> {
    let read: ConsumerProtocolSubscription =
        read(bytes).map_err(|reason| format!("the subscription of member {id} cannot be read: {reason}"))?;
    let owned = read.owned_partitions.into_iter().map(|owned| (owned.topic, owned.partitions));
    Ok(GroupMember {
        id,
        instance,
        topics: once(read.topics.into_iter().map(Arc::from)),
        owned: partitions(owned),
        generation: read.generation_id.max(-1),
        rack: read.rack_id.filter(|rack| !rack.is_empty()),
        user_data: read.user_data.unwrap_or_default(),
    })
}

/// What the leader tells a member.
pub(crate) fn write_assignment(partitions: &[TopicPartition]) -> Bytes {
    let assigned_partitions = by_topic(partitions, |topic, partitions| {
        consumer_protocol_assignment::TopicPartition { topic, partitions }
    });
    written(&ConsumerProtocolAssignment { assigned_partitions, user_data: None }, ASSIGNMENT)
}

/// What the leader told us, each partition once, or why that cannot be read. A leader may say nothing at all to a
/// member that gets nothing.
pub(crate) fn read_assignment(bytes: &Bytes) -> Result<Vec<TopicPartition>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let read: ConsumerProtocolAssignment =
        read(bytes).map_err(|reason| format!("the leader's assignment cannot be read: {reason}"))?;
    let assigned = read.assigned_partitions.into_iter().map(|assigned| (assigned.topic, assigned.partitions));
    Ok(partitions(assigned))
}

/// Whether an assignment may go out to the members: what is wrong with it, if not.
///
/// Partitions that nobody gets and members that get nothing are the assignor's business.
pub(crate) fn check_assignment(
    members: &[GroupMember],
    topics: &GroupTopics,
    assignment: &Assignment,
) -> Result<(), String> {
    let mut given = HashSet::new();
    for (id, partitions) in assignment {
        let Some(member) = members.iter().find(|member| member.id == *id) else {
            return Err(format!("{id} is assigned something and is not a member"));
        };
        let asked: HashSet<&str> = member.topics.iter().map(|topic| &**topic).collect();
        for partition in partitions {
            let problem = problem(topics, &asked, partition);
            let problem =
                problem.or_else(|| (!given.insert(partition)).then_some("which is assigned already"));
            if let Some(problem) = problem {
                return Err(format!("member {id} is assigned {partition}, {problem}"));
            }
        }
    }
    Ok(())
}

fn problem(topics: &GroupTopics, asked: &HashSet<&str>, at: &TopicPartition) -> Option<&'static str> {
    if !asked.contains(&*at.topic) {
        return Some("a topic that it did not ask for");
    }
    let count = topics.get(&at.topic).map_or(0, Vec::len);
    let exists = usize::try_from(at.partition).is_ok_and(|number| number < count);
    (!exists).then_some("which does not exist")
}

/// A message behind the number of its version, which is held to the versions there are.
fn written<M: Message>(message: &M, version: i16) -> Bytes {
    let version = version.clamp(*M::VERSIONS.start(), *M::VERSIONS.end());
    let mut output = Output::new();
    output.put_i16(version);
    let outcome: Result<(), EncodeError> = message.encode(&mut output, version);
    debug_assert!(outcome.is_ok(), "names of topics are shorter than any limit: {outcome:?}");
    output.into_bytes().into()
}

fn read<M: Message>(bytes: &Bytes) -> Result<M, String> {
    let mut input = Input::new(bytes.clone());
    let said = input.i16("version").map_err(|error| error.to_string())?;
    if said < 0 {
        return Err(format!("there is no version {said}"));
    }
    let (body, newest) = (bytes.slice(2..), said.min(*M::VERSIONS.end()));
    let wrong = match M::decode(&mut Input::new(body.clone()), newest) {
        Ok(message) => return Ok(message),
        Err(error) => error.to_string(),
    };
    cut_short(&body, newest).ok_or(wrong)
}

/// A message that ends where a field ends: it is one of an earlier version, which has no more fields. Before user data
/// there was no version, so what lacks it gets an empty one.
fn cut_short<M: Message>(body: &Bytes, said: i16) -> Option<M> {
    let exactly = |body: Bytes, version| {
        let mut input = Input::new(body);
        M::decode(&mut input, version).ok().filter(|_| input.remaining() == 0)
    };
    let earlier = (0..said).rev().find_map(|version| exactly(body.clone(), version));
    earlier.or_else(|| exactly([&body[..], &(-1i32).to_be_bytes()].concat().into(), 0))
}

/// Grouped by topic, topics and numbers in order.
fn by_topic<T>(partitions: &[TopicPartition], element: impl Fn(String, Vec<i32>) -> T) -> Vec<T> {
    let sorted: BTreeSet<&TopicPartition> = partitions.iter().collect();
    let sorted: Vec<_> = sorted.into_iter().collect();
    let topics = sorted.chunk_by(|a, b| a.topic == b.topic);
    topics.map(|of| element(of[0].topic.to_string(), of.iter().map(|at| at.partition).collect())).collect()
}

/// The opposite of [`by_topic`]; what is below 0 or there for the second time is left out.
fn partitions(topics: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<TopicPartition> {
    once(topics.flat_map(|(topic, numbers)| {
        let topic: Arc<str> = topic.into();
        let numbers = numbers.into_iter().filter(|&number| number >= 0);
        numbers.map(move |partition| TopicPartition { topic: topic.clone(), partition })
    }))
}

fn once<T: Clone + Eq + Hash>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}
