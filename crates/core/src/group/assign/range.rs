//! Ranges of each topic's partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Assignment, Assignor, GroupMember, GroupPartition, GroupTopics, order};
use crate::partition::TopicPartition;

/// Gives each member a range of neighbouring partitions, topic by topic (Java's `RangeAssignor`).
///
/// The members of a topic stand in line, static ones first by their instance id, then the others by their member id.
/// Each gets as many partitions as the next, and where that leaves some over, the first members get one more: 5
/// partitions on 2 members are 0, 1, 2 and 3, 4. Topics with the same number of partitions and the same members are
/// divided alike, so that records of one key in several topics come to one member. Its price: where many topics have
/// few partitions, the first members get all that is over; [`RoundRobin`](super::RoundRobin) spreads that.
///
/// When members and partitions say in which racks they are, and not every partition has a replica in every rack, a
/// member prefers partitions of its own rack as far as the even shares allow (KIP-881).
#[derive(Debug, Clone, Copy, Default)]
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &str {
        "range"
    }

    fn assign(&self, members: &[GroupMember], topics: &GroupTopics) -> Assignment {
        let mut line: Vec<&GroupMember> = members.iter().collect();
        line.sort_by(|a, b| order::by_instance(a, b));
        let mut shares = shares(&line, topics);
        if shares.iter().any(|share| share.by_rack) {
            give_by_rack(&mut shares);
        }
        for share in &mut shares {
            share.give_in_line(|_, _| true);
        }
        collect(&line, shares)
    }
}

/// The division of one topic.
struct Share<'a> {
    topic: &'a Arc<str>,
    partitions: &'a [GroupPartition],
    readers: Vec<Reader<'a>>,
    /// Partitions that nobody has yet.
    free: BTreeSet<usize>,
    /// What every reader gets.
    each: usize,
    /// How many readers may still get one more.
    extra: usize,
    /// Racks are known and make a difference.
    by_rack: bool,
}

struct Reader<'a> {
    /// Its place in the line of all members.
    place: usize,
    rack: Option<&'a str>,
    has: Vec<usize>,
}

/// The topics that somebody asks for and that have partitions.
fn shares<'a>(line: &[&'a GroupMember], topics: &'a GroupTopics) -> Vec<Share<'a>> {
    let mut readers: HashMap<&str, Vec<Reader<'a>>> = HashMap::new();
    for (place, member) in line.iter().enumerate() {
        let rack = member.rack.as_deref().filter(|rack| !rack.is_empty());
        for topic in &member.topics {
            let readers = readers.entry(topic).or_default();
            if readers.last().is_none_or(|last| last.place != place) {
                readers.push(Reader { place, rack, has: Vec::new() });
            }
        }
    }
    let existing = topics.iter().filter(|(_, partitions)| !partitions.is_empty());
    existing
        .filter_map(|(topic, partitions)| Some(Share::new(topic, partitions, readers.remove(&**topic)?)))
        .collect()
}

impl<'a> Share<'a> {
    fn new(topic: &'a Arc<str>, partitions: &'a [GroupPartition], readers: Vec<Reader<'a>>) -> Self {
        let (each, extra) = (partitions.len() / readers.len(), partitions.len() % readers.len());
        let by_rack = racks_matter(partitions, &readers);
        Self { topic, partitions, readers, free: (0..partitions.len()).collect(), each, extra, by_rack }
    }

    /// Lets every reader in turn take what is free and suits it, up to its share.
    fn give_in_line(&mut self, suits: impl Fn(&Reader<'_>, &GroupPartition) -> bool) {
        for at in 0..self.readers.len() {
            let mut room = self.room(at);
            let (reader, partitions) = (&mut self.readers[at], self.partitions);
            if room == 0 || self.free.is_empty() {
                continue;
            }
            self.free.retain(|&number| {
                let takes = room > 0 && suits(reader, &partitions[number]);
                if takes {
                    reader.has.push(number);
                    room -= 1;
                }
                !takes
            });
            self.settle(at);
        }
    }

    fn give(&mut self, at: usize, number: usize) {
        self.free.remove(&number);
        self.readers[at].has.push(number);
        self.settle(at);
    }

    /// How many more the reader may take.
    fn room(&self, at: usize) -> usize {
        (self.each + usize::from(self.extra > 0)).saturating_sub(self.readers[at].has.len())
    }

    /// Books the one partition more that a reader may just have taken; after that it has no room.
    fn settle(&mut self, at: usize) {
        if self.readers[at].has.len() > self.each {
            self.extra -= 1;
        }
    }

    fn suits(&self, at: usize, number: usize) -> bool {
        near(&self.readers[at], &self.partitions[number])
    }
}

/// A reader that does not say where it is takes any partition.
fn near(reader: &Reader<'_>, partition: &GroupPartition) -> bool {
    reader.rack.is_none_or(|own| partition.racks.iter().any(|rack| rack == own))
}

/// Some reader is in a rack where some partition is, and not every partition is in the same racks.
fn racks_matter(partitions: &[GroupPartition], readers: &[Reader<'_>]) -> bool {
    if readers.iter().all(|reader| reader.rack.is_none()) {
        return false;
    }
    let racks = |partition: &'_ GroupPartition| partition.racks.iter().cloned().collect::<BTreeSet<String>>();
    let all: BTreeSet<String> = partitions.iter().flat_map(racks).collect();
    readers.iter().filter_map(|reader| reader.rack).any(|rack| all.contains(rack))
        && partitions.iter().any(|partition| racks(partition) != all)
}

/// Gives out what finds a reader in its own rack. Topics with the same readers and as many partitions stay alike, which
/// counts for more than the rack.
fn give_by_rack(shares: &mut [Share<'_>]) {
    let mut alike: BTreeMap<(Vec<usize>, usize), Vec<&mut Share<'_>>> = BTreeMap::new();
    for share in shares {
        // Without a reader that says its rack there is nothing to match.
        if share.readers.iter().any(|reader| reader.rack.is_some()) {
            let readers = share.readers.iter().map(|reader| reader.place).collect();
            alike.entry((readers, share.partitions.len())).or_default().push(share);
        }
    }
    for ((readers, partitions), mut shares) in alike {
        match &mut shares[..] {
            [share] if share.by_rack => share.give_in_line(near),
            [_] => {}
            shares => give_alike(shares, readers.len(), partitions),
        }
    }
}

/// Each partition number goes, in all the topics at once, to the first reader that it suits in all of them.
fn give_alike(shares: &mut [&mut Share<'_>], readers: usize, partitions: usize) {
    for number in 0..partitions {
        let suits = |at: &usize| shares.iter().all(|share| share.room(*at) > 0 && share.suits(*at, number));
        if let Some(at) = (0..readers).find(suits) {
            shares.iter_mut().for_each(|share| share.give(at, number));
        }
    }
}

fn collect(line: &[&GroupMember], shares: Vec<Share<'_>>) -> Assignment {
    let mut lists: Vec<Vec<TopicPartition>> = vec![Vec::new(); line.len()];
    for share in shares {
        for mut reader in share.readers {
            reader.has.sort_unstable();
            let has = reader.has.into_iter().map(|number| super::partition(share.topic, number));
            lists[reader.place].extend(has);
        }
    }
    line.iter().map(|member| member.id.clone()).zip(lists).collect()
}
