//! As even as can be, and as little moved as can be.

mod claims;
mod even;
mod uneven;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use self::claims::Claims;
use super::{Assignment, Assignor, GroupMember, GroupTopics, order};
use crate::partition::TopicPartition;

/// Keeps partitions where they are as far as an even division allows (Java's `StickyAssignor`, KIP-54).
///
/// Each member tells the leader what it was assigned last and in which generation. The leader leaves that with it,
/// takes away what is above an even share, and gives what is free to those who have least. Where two members claim the
/// same partition, the one with the higher generation keeps it; at the same generation neither does.
///
/// When all members ask for the same topics, no member has more than one partition more than another. When they do not,
/// no partition could move to a member that has two fewer. Racks are not looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sticky;

impl Assignor for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn metadata_version(&self) -> i16 {
        3
    }

    fn user_data(&self, owned: &[TopicPartition], generation: i32) -> Bytes {
        claims::write(owned, generation)
    }

    fn assign(&self, members: &[GroupMember], topics: &GroupTopics) -> Assignment {
        let mut members: Vec<&GroupMember> = members.iter().collect();
        members.sort_by(|a, b| order::by_id(a, b));
        let ground = Ground::new(&members, topics);
        let claims = Claims::of(&members, &ground);
        let lists = match ask_for_the_same(&members) {
            true => even::divide(&ground, members.len(), &claims),
            false => uneven::divide(&ground, members.len(), &claims),
        };
        let named = lists.into_iter().map(|mut list| {
            list.sort_unstable();
            list.into_iter().map(|slot| ground.partition(slot)).collect()
        });
        members.iter().map(|member| member.id.clone()).zip(named).collect()
    }
}

/// Compared by what they ask for, whether it exists or not. One that asks for nothing must get nothing.
fn ask_for_the_same(members: &[&GroupMember]) -> bool {
    let asked = |member: &&GroupMember| member.topics.iter().cloned().collect::<BTreeSet<_>>();
    let mut all = members.iter().map(asked);
    let Some(first) = all.next() else { return true };
    !first.is_empty() && all.all(|other| other == first)
}

/// The topics that somebody asks for and that have partitions, in order, and all their partitions in one line: a
/// partition is its place in that line, its slot.
struct Ground<'a> {
    topics: Vec<Plot<'a>>,
    /// The topic of each slot.
    topic_of: Vec<usize>,
}

struct Plot<'a> {
    name: &'a Arc<str>,
    /// The slot of its partition 0.
    first: usize,
    count: usize,
    /// Who asks for it, ascending; members are counted in the order of their ids.
    readers: Vec<usize>,
}

impl<'a> Ground<'a> {
    fn new(members: &[&GroupMember], topics: &'a GroupTopics) -> Self {
        let mut ground = Self { topics: Vec::new(), topic_of: Vec::new() };
        let mut readers = HashMap::<&str, BTreeSet<usize>>::new();
        for (at, member) in members.iter().enumerate() {
            member.topics.iter().for_each(|topic| {
                readers.entry(topic).or_default().insert(at);
            });
        }
        for (name, partitions) in topics.iter().filter(|(_, partitions)| !partitions.is_empty()) {
            let Some(readers) = readers.remove(&**name) else { continue };
            let (first, count) = (ground.topic_of.len(), partitions.len());
            ground.topic_of.resize(first + count, ground.topics.len());
            ground.topics.push(Plot { name, first, count, readers: readers.into_iter().collect() });
        }
        ground
    }

    fn slots(&self) -> usize {
        self.topic_of.len()
    }

    fn plot(&self, slot: usize) -> &Plot<'a> {
        &self.topics[self.topic_of[slot]]
    }

    /// The partition's number in its topic.
    fn number(&self, slot: usize) -> usize {
        slot - self.plot(slot).first
    }

    fn partition(&self, slot: usize) -> TopicPartition {
        super::partition(self.plot(slot).name, self.number(slot))
    }

    /// The slot of a partition, if it exists and anybody wants it.
    fn slot(&self, topic: &str, number: i32) -> Option<usize> {
        let at = self.topics.binary_search_by(|plot| (**plot.name).cmp(topic)).ok()?;
        let plot = &self.topics[at];
        let number = usize::try_from(number).ok().filter(|&number| number < plot.count)?;
        Some(plot.first + number)
    }

    fn asks(&self, member: usize, slot: usize) -> bool {
        self.plot(slot).readers.binary_search(&member).is_ok()
    }
}
