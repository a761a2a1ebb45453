//! All partitions in turn.

use std::collections::HashMap;

use super::{Assignment, Assignor, GroupMember, GroupTopics, order};
use crate::partition::TopicPartition;

/// Deals out all partitions of all topics one by one, each to the next member that asked for its topic (Java's
/// `RoundRobinAssignor`).
///
/// The members stand in line as for [`Range`](super::Range), and where one topic ends, the next begins with the member
/// whose turn it is: ten topics of one partition on three members are 4, 3 and 3. A member that joins or leaves shifts
/// nearly everything; [`Sticky`](super::Sticky) moves as little as it can.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &str {
        "roundrobin"
    }

    fn assign(&self, members: &[GroupMember], topics: &GroupTopics) -> Assignment {
        let mut line: Vec<&GroupMember> = members.iter().collect();
        line.sort_by(|a, b| order::by_instance(a, b));
        let mut lists: Vec<Vec<TopicPartition>> = vec![Vec::new(); line.len()];
        let readers = readers(&line);
        let mut turn = 0;
        for (topic, partitions) in topics {
            let Some(readers) = readers.get(&**topic) else { continue };
            for number in 0..partitions.len() {
                let place = next(readers, turn);
                lists[place].push(super::partition(topic, number));
                turn = place + 1;
            }
        }
        line.iter().map(|member| member.id.clone()).zip(lists).collect()
    }
}

/// The places in the line of those who asked for each topic, ascending.
fn readers<'a>(line: &[&'a GroupMember]) -> HashMap<&'a str, Vec<usize>> {
    let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, member) in line.iter().enumerate() {
        for topic in &member.topics {
            readers.entry(topic).or_default().push(place);
        }
    }
    readers
}

/// The first reader whose place is not before `turn`, or the first of all.
fn next(readers: &[usize], turn: usize) -> usize {
    let at = readers.partition_point(|&place| place < turn);
    readers.get(at).copied().unwrap_or(readers[0])
}
