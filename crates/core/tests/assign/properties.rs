//! What holds for every group.

use std::collections::BTreeMap;

use ottla_core::{
    Assignment, Assignor, GroupMember, GroupPartition, GroupTopics, Range, RoundRobin, Sticky, TopicPartition,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use crate::group::{check, check_even, counts};

const TOPICS: [&str; 5] = ["t0", "t1", "t2", "t3", "gone"];
const RACKS: [&str; 3] = ["east", "north", "west"];

proptest! {
    #[test]
    fn every_partition_has_one_reader_that_asked_for_it(members in members(), topics in topics()) {
        for assignor in [&Range as &dyn Assignor, &RoundRobin, &Sticky] {
            let assignment = assignor.assign(&members, &topics);
            check(&members, &topics, &assignment);
            let mut shuffled = members.clone();
            shuffled.reverse();
            prop_assert_eq!(assignor.assign(&shuffled, &topics), assignment, "whoever leads");
        }
    }

    #[test]
    fn a_range_is_one_piece_and_no_more_than_one_longer_than_another(members in members(), topics in topics()) {
        let without_racks: Vec<_> = members.iter().map(|member| GroupMember { rack: None, ..member.clone() }).collect();
        for topic in topics.keys() {
            let counts = pieces(&Range.assign(&members, &topics), &members, topic);
            prop_assert!(spread(counts.values().map(Vec::len)) <= 1, "{:?}", counts);
            for (member, piece) in pieces(&Range.assign(&without_racks, &topics), &members, topic) {
                let whole = piece.windows(2).all(|two| two[1] == two[0] + 1);
                prop_assert!(whole, "{member}: {piece:?}");
            }
        }
    }

    #[test]
    fn members_that_ask_for_the_same_differ_by_one(count in 1..9usize, topics in topics(), claims in vec(claim(), 8)) {
        let mut members: Vec<_> = (0..count).map(|number| GroupMember::new(format!("m{number}"), TOPICS)).collect();
        members.iter_mut().zip(claims).for_each(|(member, claim)| member.user_data = claim);
        for assignor in [&RoundRobin as &dyn Assignor, &Sticky] {
            let assignment = assignor.assign(&members, &topics);
            prop_assert!(spread(counts(&assignment).into_values()) <= 1);
        }
    }

    #[test]
    fn whatever_members_remember_the_division_is_even(members in members(), topics in topics()) {
        check_even(&members, &topics, &Sticky.assign(&members, &topics));
    }

    #[test]
    fn what_is_even_already_does_not_move(members in members(), topics in topics()) {
        let before = Sticky.assign(&members, &topics);
        let members = remembering(members, &before);
        prop_assert_eq!(Sticky.assign(&members, &topics), before);
    }

    #[test]
    fn who_stays_gets_nothing_of_another_who_stays_when_one_leaves(count in 2..7usize, leaves: Index, topics in topics()) {
        let members: Vec<_> = (0..count).map(|number| GroupMember::new(format!("m{number}"), TOPICS)).collect();
        let before = Sticky.assign(&members, &topics);
        let mut members = remembering(members, &before);
        members.remove(leaves.index(count));
        let after = Sticky.assign(&members, &topics);
        for member in &members {
            prop_assert!(before[&member.id].iter().all(|at| after[&member.id].contains(at)));
        }
    }

    #[test]
    fn any_user_data_is_survived(data: Vec<u8>, topics in topics()) {
        let mut members = [GroupMember::new("a", TOPICS), GroupMember::new("b", TOPICS)];
        members[0].user_data = data.into();
        check(&members, &topics, &Sticky.assign(&members, &topics));
    }
}

fn remembering(members: Vec<GroupMember>, assignment: &Assignment) -> Vec<GroupMember> {
    let remembering = |member: GroupMember| {
        let user_data = Sticky.user_data(&assignment[&member.id], 9);
        GroupMember { user_data, ..member }
    };
    members.into_iter().map(remembering).collect()
}

/// The numbers that each member which asked for the topic has of it.
fn pieces<'a>(
    assignment: &Assignment,
    members: &'a [GroupMember],
    topic: &str,
) -> BTreeMap<&'a str, Vec<i32>> {
    let readers = members.iter().filter(|member| member.topics.iter().any(|asked| **asked == *topic));
    let of_topic = |list: &Vec<TopicPartition>| {
        list.iter().filter(|at| *at.topic == *topic).map(|at| at.partition).collect()
    };
    readers.map(|member| (member.id.as_str(), of_topic(&assignment[&member.id]))).collect()
}

fn spread(counts: impl Iterator<Item = usize>) -> usize {
    let counts: Vec<_> = counts.collect();
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

fn topics() -> impl Strategy<Value = GroupTopics> {
    let partition = subsequence(&RACKS[..], 0..=2)
        .prop_map(|racks| GroupPartition { racks: racks.into_iter().map(str::to_owned).collect() });
    let partitions = prop_oneof![vec(Just(GroupPartition::default()), 0..12), vec(partition, 0..12)];
    vec(partitions, 4).prop_map(|all| TOPICS.into_iter().map(Into::into).zip(all).collect())
}

fn members() -> impl Strategy<Value = Vec<GroupMember>> {
    vec(member(), 0..7).prop_map(|mut members| {
        for (number, member) in members.iter_mut().enumerate() {
            member.id = format!("m{number}");
            // No two have the same name.
            member.instance = member.instance.take().map(|name| format!("{name}{number}"));
        }
        members
    })
}

fn member() -> impl Strategy<Value = GroupMember> {
    let instance = proptest::option::of("[a-c]");
    let rack =
        proptest::option::of(proptest::sample::select(&RACKS[..])).prop_map(|rack| rack.map(str::to_owned));
    (subsequence(&TOPICS[..], 0..=5), instance, rack, claim()).prop_map(
        |(topics, instance, rack, user_data)| GroupMember {
            instance,
            rack,
            user_data,
            ..GroupMember::new("", topics)
        },
    )
}

/// What a member thinks it had, some of which does not exist.
fn claim() -> impl Strategy<Value = bytes::Bytes> {
    let at = (proptest::sample::select(&TOPICS[..]), 0..14)
        .prop_map(|(topic, number)| TopicPartition::new(topic, number));
    (vec(at, 0..20), -1..3).prop_map(|(owned, generation)| Sticky.user_data(&owned, generation))
}
