//! What the members say they had, and who is believed.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_wire::{DecodeError, EncodeError, Input, Output};

use super::Ground;
use crate::group::assign::GroupMember;
use crate::partition::TopicPartition;

/// What came of the members' claims. Members and partitions are numbered as in [`Ground`].
#[derive(Debug)]
pub(super) struct Claims {
    /// Who had the partition last, by slot.
    pub owner: Vec<Option<usize>>,
    /// Who had it in an older generation, by slot: the latest of those.
    pub before: Vec<Option<usize>>,
}

/// One member's: partitions, and the generation if it says one.
type Claim = (Vec<(String, Vec<i32>)>, Option<i32>);

impl Claims {
    pub(super) fn of(members: &[&GroupMember], ground: &Ground<'_>) -> Self {
        let claims: Vec<_> = members.iter().map(|member| slots(&member.user_data, ground)).collect();
        let latest = claims.iter().filter_map(|(_, generation)| *generation).max().unwrap_or(-1).max(-1);
        Self { owner: owners(&claims, ground.slots()), before: earlier(&claims, latest, ground.slots()) }
    }
}

/// The higher generation has it; two of the same cancel each other out.
fn owners(claims: &[(Vec<usize>, Option<i32>)], slots: usize) -> Vec<Option<usize>> {
    let mut best: Vec<Option<(i32, Option<usize>)>> = vec![None; slots];
    for (member, (claimed, generation)) in claims.iter().enumerate() {
        let generation = generation.unwrap_or(-1);
        for &slot in claimed {
            best[slot] = match best[slot] {
                Some((other, _)) if other == generation => Some((generation, None)),
                Some((other, owner)) if other > generation => Some((other, owner)),
                _ => Some((generation, Some(member))),
            };
        }
    }
    best.into_iter().map(|best| best.and_then(|(_, owner)| owner)).collect()
}

/// Of those who slept through the latest generation, who had it last.
fn earlier(claims: &[(Vec<usize>, Option<i32>)], latest: i32, slots: usize) -> Vec<Option<usize>> {
    let mut last: Vec<Option<(i32, usize)>> = vec![None; slots];
    for (member, (claimed, generation)) in claims.iter().enumerate() {
        let generation = generation.unwrap_or(-1);
        if generation >= latest {
            continue;
        }
        for &slot in claimed {
            if last[slot].is_none_or(|(other, _)| generation > other) {
                last[slot] = Some((generation, member));
            }
        }
    }
    last.into_iter().map(|last| last.map(|(_, member)| member)).collect()
}

/// The slots that a member claims, each once.
fn slots(user_data: &Bytes, ground: &Ground<'_>) -> (Vec<usize>, Option<i32>) {
    let (topics, generation) = read(user_data);
    let of_topic = |(topic, numbers): &(String, Vec<i32>)| -> Vec<_> {
        numbers.iter().filter_map(|&number| ground.slot(topic, number)).collect()
    };
    let mut slots: Vec<_> = topics.iter().flat_map(of_topic).collect();
    slots.sort_unstable();
    slots.dedup();
    (slots, generation)
}

/// Java's `StickyAssignorUserData` of version 1 (there is no number in front): topics with their partitions, and the
/// generation. Nothing at all from a member that was never assigned anything.
pub(super) fn write(owned: &[TopicPartition], generation: i32) -> Bytes {
    if owned.is_empty() && generation < 0 {
        return Bytes::new();
    }
    let mut output = Output::new();
    let outcome = put(&mut output, owned, generation);
    debug_assert!(outcome.is_ok(), "names of topics are shorter than any limit: {outcome:?}");
    output.into_bytes().into()
}

fn put(output: &mut Output, owned: &[TopicPartition], generation: i32) -> Result<(), EncodeError> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for at in owned {
        topics.entry(&at.topic).or_default().push(at.partition);
    }
    put_count(output, topics.len());
    for (topic, numbers) in topics {
        output.put_string("topic", topic)?;
        put_count(output, numbers.len());
        numbers.into_iter().for_each(|number| output.put_i32(number));
    }
    output.put_i32(generation);
    Ok(())
}

fn put_count(output: &mut Output, count: usize) {
    // There are no more partitions than an i32 can count.
    output.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

/// Version 1, else version 0, which says no generation; what is neither claims nothing.
fn read(user_data: &Bytes) -> Claim {
    if user_data.is_empty() {
        return (Vec::new(), None);
    }
    let mut input = Input::new(user_data.clone());
    let Ok(topics) = take_topics(&mut input) else { return (Vec::new(), Some(-1)) };
    (topics, input.i32("generation").ok())
}

fn take_topics(input: &mut Input) -> Result<Vec<(String, Vec<i32>)>, Unreadable> {
    let mut topics = Vec::new();
    for _ in 0..take_count(input, 6)? {
        let topic = input.string("topic")?;
        let numbers = (0..take_count(input, 4)?).map(|_| input.i32("partition")).collect::<Result<_, _>>()?;
        topics.push((topic, numbers));
    }
    Ok(topics)
}

/// A count that the bytes left can hold, each element taking `least` of them.
fn take_count(input: &mut Input, least: usize) -> Result<usize, Unreadable> {
    let count = usize::try_from(input.i32("count")?).map_err(|_| Unreadable)?;
    (count <= input.remaining() / least).then_some(count).ok_or(Unreadable)
}

#[derive(Debug)]
struct Unreadable;

impl From<DecodeError> for Unreadable {
    fn from(_: DecodeError) -> Self {
        Self
    }
}
