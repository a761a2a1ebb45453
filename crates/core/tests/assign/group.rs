//! Groups to assign to, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ottla_core::{Assignment, Assignor, GroupMember, GroupPartition, GroupTopics, TopicPartition};

/// Topics by their names and numbers of partitions, on no known rack.
pub(crate) fn topics<'a>(counts: impl IntoIterator<Item = (&'a str, usize)>) -> GroupTopics {
    counts.into_iter().map(|(topic, count)| (topic.into(), vec![GroupPartition::default(); count])).collect()
}

/// What each member has, as `topic-partition` in the order of the list.
pub(crate) fn lists(
    assignor: &dyn Assignor,
    members: &[GroupMember],
    topics: &GroupTopics,
) -> Vec<Vec<String>> {
    let assignment = assignor.assign(members, topics);
    assert_eq!(assignment.len(), members.len(), "each member is named");
    let list = |member: &GroupMember| assignment[&member.id].iter().map(short).collect();
    members.iter().map(list).collect()
}

fn short(at: &TopicPartition) -> String {
    format!("{}-{}", at.topic, at.partition)
}

/// Each partition that somebody asks for is there once, with somebody who asked for it, and nothing else is; the lists
/// are sorted.
pub(crate) fn check(members: &[GroupMember], topics: &GroupTopics, assignment: &Assignment) {
    let named: BTreeSet<_> = members.iter().map(|member| &member.id).collect();
    assert_eq!(assignment.keys().collect::<BTreeSet<_>>(), named, "each member is named");
    let mut given = Vec::new();
    for member in members {
        let list = &assignment[&member.id];
        assert!(list.is_sorted(), "{list:?}");
        assert!(list.iter().all(|at| member.topics.contains(&at.topic)), "{member:?} is given {list:?}");
        given.extend(list.iter().cloned());
    }
    given.sort();
    let asked: BTreeSet<&Arc<str>> = members.iter().flat_map(|member| &member.topics).collect();
    let wanted = topics.iter().filter(|(topic, _)| asked.contains(topic));
    let wanted: Vec<_> = wanted
        .flat_map(|(topic, partitions)| {
            (0..).zip(partitions).map(|(number, _)| TopicPartition::new(topic.clone(), number))
        })
        .collect();
    assert_eq!(given, wanted);
}

/// No partition could move to a member that asks for its topic and has at least two fewer.
pub(crate) fn check_even(members: &[GroupMember], topics: &GroupTopics, assignment: &Assignment) {
    let counts = counts(assignment);
    for (holder, at) in assignment.iter().flat_map(|(id, list)| list.iter().map(move |at| (id.as_str(), at)))
    {
        let readers = members.iter().filter(|member| member.topics.contains(&at.topic));
        let fewest = readers.map(|member| counts[member.id.as_str()]).min();
        assert!(
            fewest.is_some_and(|fewest| counts[holder] <= fewest + 1),
            "{at} of {holder}: {counts:?} of {topics:?}"
        );
    }
}

/// How many partitions each member has.
pub(crate) fn counts(assignment: &Assignment) -> BTreeMap<&str, usize> {
    assignment.iter().map(|(id, list)| (id.as_str(), list.len())).collect()
}
