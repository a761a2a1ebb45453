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
use crate::partition::TopicPartition;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::{GroupPartition, Range, RoundRobin, Sticky};

    /// One whose members write that version, with three bytes that say nothing.
    #[derive(Debug)]
    struct Writes(i16);

    impl Assignor for Writes {
        fn name(&self) -> &str {
            "writes"
        }

        fn metadata_version(&self) -> i16 {
            self.0
        }

        fn user_data(&self, _: &[TopicPartition], _: i32) -> Bytes {
            Bytes::from_static(&[1, 2, 3])
        }

        fn assign(&self, _: &[GroupMember], _: &GroupTopics) -> Assignment {
            Assignment::new()
        }
    }

    /// What Java writes: see `tests/data/Assignors.java`.
    fn java(says: &str) -> Vec<(i16, Bytes)> {
        let table: Value = serde_json::from_str(include_str!("../../../tests/data/assignors.json")).unwrap();
        let lines = table["messages"].as_array().unwrap().iter().filter(|line| line["says"] == says);
        let bytes = |line: &Value| {
            let hex = line["bytes"].as_str().unwrap();
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        };
        let all: Vec<_> = lines
            .map(|line| (i16::try_from(line["version"].as_i64().unwrap()).unwrap(), bytes(line)))
            .collect();
        assert_eq!(all.len(), 4, "{says}");
        all
    }

    fn of(topic: &str, numbers: impl IntoIterator<Item = i32>) -> Vec<TopicPartition> {
        numbers.into_iter().map(|number| TopicPartition::new(topic, number)).collect()
    }

    fn full(version: i16) -> GroupMember {
        GroupMember {
            instance: Some("i".into()),
            owned: if version >= 1 { [of("t", [2, 10]), of("u", [1])].concat() } else { Vec::new() },
            generation: if version >= 2 { 7 } else { -1 },
            rack: (version >= 3).then(|| "east".into()),
            user_data: Bytes::from_static(&[1, 2, 3]),
            ..GroupMember::new("m", ["t", "u"])
        }
    }

    fn read_it(bytes: &[u8]) -> Result<GroupMember, String> {
        read_subscription("m".into(), Some("i".into()), &Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn subscriptions_are_those_of_java_in_every_version() {
        let topics = ["u", "t", "u"].map(Arc::from);
        let owned = [of("u", [1]), of("t", [10, 2, 10])].concat();
        for (version, bytes) in java("full subscription") {
            let ours = write_subscription(&Writes(version), &topics, &owned, 7, Some("east"));
            assert_eq!(ours, bytes, "version {version}");
            assert_eq!(read_it(&bytes), Ok(full(version)));
        }
        for (version, bytes) in java("bare subscription") {
            let bare = GroupMember { instance: Some("i".into()), ..GroupMember::new("m", ["t"]) };
            assert_eq!(read_it(&bytes), Ok(bare), "version {version}");
        }
    }

    #[test]
    fn members_of_range_and_round_robin_write_what_every_leader_reads_and_those_of_sticky_all_they_know() {
        let (_, bare) = &java("bare subscription")[0];
        let topics = ["t".into()];
        for assignor in [&Range as &dyn Assignor, &RoundRobin] {
            let written = write_subscription(assignor, &topics, &of("t", [1]), 7, Some("east"));
            assert_eq!(written, *bare, "{assignor:?}");
        }
        let sticky = read_it(&write_subscription(&Sticky, &topics, &of("t", [1]), 7, Some("east"))).unwrap();
        assert_eq!(
            (sticky.owned, sticky.generation, sticky.rack.as_deref()),
            (of("t", [1]), 7, Some("east"))
        );
        assert_eq!(sticky.user_data, Sticky.user_data(&of("t", [1]), 7));
        let first = read_it(&write_subscription(&Sticky, &topics, &[], -1, None)).unwrap();
        assert_eq!(first, read_it(&java("bare subscription")[3].1).unwrap());
    }

    #[test]
    fn a_version_above_those_there_are_is_read_as_the_last_and_written_as_the_last() {
        let (_, last) = &java("full subscription")[3];
        let newer = [&9i16.to_be_bytes()[..], &last[2..], b"what it added"].concat();
        assert_eq!(read_it(&newer), Ok(full(3)));
        let written = write_subscription(&Writes(9), &["t".into()], &[], -1, None);
        assert_eq!(written[..2], 3i16.to_be_bytes());
        let written = write_subscription(&Writes(-1), &["t".into()], &[], -1, None);
        assert_eq!(written[..2], 0i16.to_be_bytes());
    }

    #[test]
    fn a_subscription_that_ends_early_lacks_only_what_is_missing() {
        let said = |version: i16, bytes: &[u8]| read_it(&[&version.to_be_bytes()[..], &bytes[2..]].concat());
        for (version, bytes) in java("full subscription") {
            for newer in version..=4 {
                assert_eq!(said(newer, &bytes), Ok(full(version)), "{version} that says {newer}");
            }
        }
        let topics_only = b"\0\x01\0\0\0\x01\0\x01t";
        let bare = GroupMember { instance: Some("i".into()), ..GroupMember::new("m", ["t"]) };
        assert_eq!(read_it(topics_only), Ok(bare));
    }

    #[test]
    fn what_is_no_subscription_says_why() {
        let (_, bytes) = &java("full subscription")[3];
        for (wrong, reason) in [
            (&b""[..], "int16 of 2 bytes wanted, 0 left"),
            (&b"\xff\xff\0\0\0\0"[..], "there is no version -1"),
            (&b"\0\0\x7f\xff\xff\xff"[..], "array of 2147483647 elements"),
            (&bytes[..bytes.len() - 1], "string of 4 bytes wanted, 3 left"),
        ] {
            let told = read_it(wrong).unwrap_err();
            assert!(told.starts_with("the subscription of member m cannot be read: "), "{told}");
            assert!(told.contains(reason), "{told}");
        }
    }

    #[test]
    fn what_a_member_says_twice_counts_once_and_what_cannot_be_is_left_out() {
        let twice = ConsumerProtocolSubscription {
            topics: ["t", "u", "t"].map(str::to_owned).into(),
            owned_partitions: vec![consumer_protocol_subscription::TopicPartition {
                topic: "t".into(),
                partitions: vec![4, 4, -1, 2],
            }],
            generation_id: -5,
            rack_id: Some(String::new()),
            ..ConsumerProtocolSubscription::default()
        };
        let member = read_it(&written(&twice, 3)).unwrap();
        assert_eq!(member.topics, ["t", "u"].map(Arc::from));
        assert_eq!((member.owned, member.generation, member.rack), (of("t", [4, 2]), -1, None));
    }

    #[test]
    fn assignments_are_those_of_java() {
        let partitions = [of("t", [2, 10]), of("u", [1])].concat();
        let all = java("assignment");
        let reversed: Vec<_> = partitions.iter().rev().cloned().collect();
        assert_eq!(write_assignment(&reversed), all[0].1);
        for (version, bytes) in &all {
            assert_eq!(read_assignment(bytes), Ok(partitions.clone()), "version {version}");
            let longer = [bytes, &b"more"[..]].concat();
            assert_eq!(read_assignment(&longer.into()), Ok(partitions.clone()));
            let without_user_data = bytes.slice(..bytes.len() - 4);
            assert_eq!(read_assignment(&without_user_data), Ok(partitions.clone()));
        }
        assert_eq!(read_assignment(&Bytes::new()), Ok(Vec::new()));
        assert_eq!(read_assignment(&write_assignment(&[])), Ok(Vec::new()));
        assert_eq!(read_assignment(&write_assignment(&of("t", [3, 3, -1]))), Ok(of("t", [3])));
        let told = read_assignment(&all[0].1.slice(..9)).unwrap_err();
        assert!(told.starts_with("the leader's assignment cannot be read: "), "{told}");
    }

    #[test]
    fn an_assignment_that_makes_no_sense_is_named() {
        let members = [GroupMember::new("a", ["t"]), GroupMember::new("b", ["t", "u", "gone"])];
        let topics =
            GroupTopics::from(["t", "u"].map(|topic| (topic.into(), vec![GroupPartition::default(); 2])));
        let told = |assignment: &[(&str, Vec<TopicPartition>)]| {
            let assignment = assignment.iter().map(|(id, list)| ((*id).to_owned(), list.clone())).collect();
            check_assignment(&members, &topics, &assignment)
        };
        assert_eq!(told(&[]), Ok(()));
        assert_eq!(told(&[("a", of("t", [0])), ("b", [of("t", [1]), of("u", [0, 1])].concat())]), Ok(()));
        for (assignment, sentence) in [
            (vec![("c", of("t", [0]))], "c is assigned something and is not a member"),
            (
                vec![("a", of("u", [0]))],
                "member a is assigned u partition 0, a topic that it did not ask for",
            ),
            (vec![("a", of("t", [2]))], "member a is assigned t partition 2, which does not exist"),
            (vec![("a", of("t", [-1]))], "member a is assigned t partition -1, which does not exist"),
            (vec![("b", of("gone", [0]))], "member b is assigned gone partition 0, which does not exist"),
            (vec![("a", of("t", [1, 1]))], "member a is assigned t partition 1, which is assigned already"),
            (
                vec![("a", of("t", [0])), ("b", of("t", [0]))],
                "member b is assigned t partition 0, which is assigned already",
            ),
        ] {
            assert_eq!(told(&assignment), Err(sentence.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(version in 0..5i16, bytes: Vec<u8>) {
            let bytes = Bytes::from([&version.to_be_bytes()[..], &bytes].concat());
            if let Ok(member) = read_it(&bytes) {
                prop_assert!(member.topics.len() + member.owned.len() <= bytes.len());
            }
            if let Ok(partitions) = read_assignment(&bytes) {
                prop_assert!(partitions.len() <= bytes.len());
            }
        }

        #[test]
        fn a_subscription_cut_anywhere_is_read_or_refused(version in 0..4usize, at: proptest::sample::Index) {
            let (_, bytes) = &java("full subscription")[version];
            let cut = read_it(&bytes[..at.index(bytes.len())]);
            prop_assert!(cut.is_err() || cut.is_ok_and(|member| member.topics == full(3).topics));
        }
    }
}
