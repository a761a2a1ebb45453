//! Everybody asks for the same topics: shares differ by one at most, and who has too much gives up just that.

use std::collections::VecDeque;

use super::{Claims, Ground};

/// The slots of each member.
pub(super) fn divide(ground: &Ground<'_>, members: usize, claims: &Claims) -> Vec<Vec<usize>> {
    if members == 0 {
        return Vec::new();
    }
    let mut division = Division {
        lists: vec![Vec::new(); members],
        least: ground.slots() / members,
        most: ground.slots().div_ceil(members),
        larger: ground.slots() % members,
        hungry: Vec::new(),
        sated: VecDeque::new(),
    };
    let free = division.keep(owned(ground, members, claims), ground.slots());
    division.fill(&free);
    division.lists
}

/// What each member had, in the order in which Java keeps it: all partitions 0 first.
fn owned(ground: &Ground<'_>, members: usize, claims: &Claims) -> Vec<Vec<usize>> {
    let mut owned = vec![Vec::new(); members];
    for (slot, owner) in claims.owner.iter().enumerate() {
        if let Some(owner) = *owner {
            owned[owner].push(slot);
        }
    }
    owned.iter_mut().for_each(|owned| owned.sort_by_key(|&slot| (ground.number(slot), slot)));
    owned
}

struct Division {
    lists: Vec<Vec<usize>>,
    /// What everybody gets.
    least: usize,
    /// What nobody exceeds: the same, or one more.
    most: usize,
    /// How many members may still get one more than the least.
    larger: usize,
    /// Those who have less than the least.
    hungry: Vec<usize>,
    /// Those who have the least and may get one more.
    sated: VecDeque<usize>,
}

impl Division {
    /// Leaves everybody what he had up to his share, and returns the slots that are free, in order.
    fn keep(&mut self, owned: Vec<Vec<usize>>, slots: usize) -> Vec<usize> {
        let mut free = vec![true; slots];
        for (member, mut slots) in owned.into_iter().enumerate() {
            slots.truncate(self.share(member, slots.len()));
            slots.iter().for_each(|&slot| free[slot] = false);
            self.lists[member] = slots;
        }
        if self.larger == 0 {
            self.sated.clear();
        }
        free.into_iter().enumerate().filter_map(|(slot, free)| free.then_some(slot)).collect()
    }

    /// How many of the partitions it had a member keeps.
    fn share(&mut self, member: usize, had: usize) -> usize {
        if had < self.least {
            self.hungry.push(member);
            return had;
        }
        if had >= self.most && self.larger > 0 {
            self.larger -= 1;
            return self.most;
        }
        self.sated.push_back(member);
        self.least
    }

    /// Deals the free slots to the hungry in turn, and what is left to the sated.
    fn fill(&mut self, free: &[usize]) {
        let mut turn = 0;
        for &slot in free {
            if self.hungry.is_empty() {
                // There are as many of them as slots, since the shares add up to all slots.
                let Some(member) = self.sated.pop_front() else { return };
                self.lists[member].push(slot);
            } else {
                turn %= self.hungry.len();
                let member = self.hungry[turn];
                self.lists[member].push(slot);
                turn = self.after(turn, member);
            }
        }
    }

    /// Whose turn is next among the hungry. One that has the least now is hungry no more.
    fn after(&mut self, turn: usize, member: usize) -> usize {
        if self.lists[member].len() < self.least {
            return turn + 1;
        }
        self.hungry.remove(turn);
        self.sated.push_back(member);
        turn
    }
}
