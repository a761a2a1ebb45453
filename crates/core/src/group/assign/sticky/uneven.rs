//! The members ask for different topics: partitions move one by one, as long as that makes the division more even.

use std::collections::{BTreeSet, HashMap};

use super::{Claims, Ground};

/// The slots of each member.
pub(super) fn divide(ground: &Ground<'_>, members: usize, claims: &Claims) -> Vec<Vec<usize>> {
    let kept = |(slot, owner): (usize, &Option<usize>)| owner.filter(|&owner| ground.asks(owner, slot));
    let holder: Vec<_> = claims.owner.iter().enumerate().map(kept).collect();
    // Who had a partition of a topic that it does not ask for any more gives it up: partitions move anyway.
    let moves_anyway = holder.iter().zip(&claims.owner).any(|(kept, owner)| kept != owner);
    let mut division = Division::new(ground, members, &claims.before, holder);
    let mut free = division.deal();
    free.retain(|&slot| division.may_move(slot));
    if !moves_anyway {
        division.even_out(&free);
    }
    let all: Vec<_> = in_order(ground).filter(|&slot| division.may_move(slot)).collect();
    division.even_out(&all);
    division.lists()
}

/// Topics with few readers first, since these have the least choice.
fn in_order(ground: &Ground<'_>) -> impl Iterator<Item = usize> {
    let mut topics: Vec<_> = ground.topics.iter().collect();
    topics.sort_by_key(|topic| topic.readers.len());
    topics.into_iter().flat_map(|topic| topic.first..topic.first + topic.count)
}

struct Division<'a> {
    ground: &'a Ground<'a>,
    /// Who had a partition in an older generation.
    before: &'a [Option<usize>],
    /// Who has the partition, by slot.
    holder: Vec<Option<usize>>,
    /// How many each member has.
    counts: Vec<usize>,
    moved: Moves,
}

impl<'a> Division<'a> {
    fn new(
        ground: &'a Ground<'a>,
        members: usize,
        before: &'a [Option<usize>],
        holder: Vec<Option<usize>>,
    ) -> Self {
        let mut counts = vec![0; members];
        holder.iter().flatten().for_each(|&member| counts[member] += 1);
        Self { ground, before, holder, counts, moved: Moves::default() }
    }

    /// Gives what nobody has to those who have least, and says what that was.
    fn deal(&mut self) -> Vec<usize> {
        let free: Vec<_> = in_order(self.ground).filter(|&slot| self.holder[slot].is_none()).collect();
        for &slot in &free {
            let poorest = self.poorest(slot);
            self.holder[slot] = Some(poorest);
            self.counts[poorest] += 1;
        }
        free
    }

    /// Moves partitions, each to the reader of its topic that has least, until no move would help. Every move makes the
    /// counts more equal, and so this ends.
    fn even_out(&mut self, slots: &[usize]) {
        loop {
            let moves = slots.iter().filter(|&&slot| self.relieve(slot)).count();
            if moves == 0 {
                return;
            }
        }
    }

    /// Moves the partition if its holder has at least two more than another who wants it. Who had it before comes first.
    fn relieve(&mut self, slot: usize) -> bool {
        let Some(holder) = self.holder[slot] else { return false };
        let before = self.before[slot].filter(|&before| self.ground.asks(before, slot));
        let better = [before, Some(self.poorest(slot))];
        let Some(to) = better.into_iter().flatten().find(|&to| self.helps(holder, to)) else { return false };
        let slot = self.instead(slot, holder, to);
        self.shift(slot, to);
        true
    }

    fn helps(&self, from: usize, to: usize) -> bool {
        self.counts[from] > self.counts[to] + 1
    }

    /// A partition of the same topic that has moved the other way just now can go back in place of this one.
    fn instead(&self, slot: usize, holder: usize, to: usize) -> usize {
        let topic = self.ground.topic_of[slot];
        let from = self.moved.origin(slot).unwrap_or(holder);
        let returning = self.moved.first(topic, to, from);
        // Java does not ask whether that helps.
        let helps = |other: &usize| self.holder[*other].is_some_and(|holder| self.helps(holder, to));
        returning.filter(helps).unwrap_or(slot)
    }

    fn shift(&mut self, slot: usize, to: usize) {
        if let Some(from) = self.holder[slot].replace(to) {
            self.counts[from] -= 1;
            self.counts[to] += 1;
            self.moved.record(self.ground.topic_of[slot], slot, from, to);
        }
    }

    /// The reader of its topic that has least, the first of those.
    fn poorest(&self, slot: usize) -> usize {
        let readers = &self.ground.plot(slot).readers;
        // Each topic of the ground has readers.
        readers.iter().copied().min_by_key(|&member| self.counts[member]).unwrap_or(0)
    }

    fn may_move(&self, slot: usize) -> bool {
        self.ground.plot(slot).readers.len() > 1
    }

    fn lists(&self) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.counts.len()];
        for (slot, holder) in self.holder.iter().enumerate() {
            if let Some(holder) = *holder {
                lists[holder].push(slot);
            }
        }
        lists
    }
}

/// Which partitions have moved, from whom to whom.
#[derive(Debug, Default)]
struct Moves {
    /// By slot: who had it before the first move, and who has it now.
    of: HashMap<usize, (usize, usize)>,
    /// By topic, from and to.
    between: HashMap<(usize, usize, usize), BTreeSet<usize>>,
}

impl Moves {
    fn origin(&self, slot: usize) -> Option<usize> {
        self.of.get(&slot).map(|&(origin, _)| origin)
    }

    /// A partition of the topic that has moved from the one to the other.
    fn first(&self, topic: usize, from: usize, to: usize) -> Option<usize> {
        self.between.get(&(topic, from, to))?.first().copied()
    }

    fn record(&mut self, topic: usize, slot: usize, from: usize, to: usize) {
        let mut origin = from;
        if let Some((first, last)) = self.of.remove(&slot) {
            origin = first;
            self.between.entry((topic, first, last)).or_default().remove(&slot);
        }
        if origin != to {
            self.of.insert(slot, (origin, to));
            self.between.entry((topic, origin, to)).or_default().insert(slot);
        }
    }
}
