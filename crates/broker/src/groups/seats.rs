//! Which node coordinates which group.

use std::collections::{BTreeMap, BTreeSet};

/// Each group belongs to a slot, as in Kafka to a partition of `__consumer_offsets`, and each slot has a node. Single
/// groups can be moved elsewhere.
#[derive(Debug)]
pub(super) struct Seats {
    /// As many as there are nodes; to begin with each has one.
    slots: Vec<i32>,
    moved: BTreeMap<String, i32>,
    /// Nodes that do not run.
    stopped: BTreeSet<i32>,
    /// Groups whose coordinator has not read its log yet.
    loading: BTreeSet<String>,
}

impl Seats {
    pub(super) fn new(nodes: impl Iterator<Item = i32>) -> Self {
        let slots = nodes.collect();
        Self { slots, moved: BTreeMap::new(), stopped: BTreeSet::new(), loading: BTreeSet::new() }
    }

    /// The node that coordinates the group, or did until it stopped. `None` if there are no nodes.
    pub(super) fn of(&self, group: &str) -> Option<i32> {
        let slot = || self.slots.get(java_hash(group).unsigned_abs() as usize % self.slots.len().max(1));
        self.moved.get(group).or_else(slot).copied()
    }

    pub(super) fn runs(&self, node: i32) -> bool {
        !self.stopped.contains(&node)
    }

    pub(super) fn is_loading(&self, group: &str) -> bool {
        self.loading.contains(group)
    }

    /// Whether somebody coordinates the group now.
    pub(super) fn is_served(&self, group: &str) -> bool {
        !self.is_loading(group) && self.of(group).is_some_and(|node| self.runs(node))
    }

    pub(super) fn move_to(&mut self, group: &str, node: i32) {
        self.moved.insert(group.into(), node);
    }

    pub(super) fn begin_loading(&mut self, group: &str) {
        self.loading.insert(group.into());
    }

    pub(super) fn finish_loading(&mut self, group: &str) {
        self.loading.remove(group);
    }

    /// The node stops; what it coordinates goes to the heirs in turn, or waits for it if there are none.
    pub(super) fn stop(&mut self, node: i32, heirs: &[i32]) {
        self.stopped.insert(node);
        let mut heirs = heirs.iter().cycle();
        for seat in self.slots.iter_mut().chain(self.moved.values_mut()).filter(|seat| **seat == node) {
            *seat = *heirs.next().unwrap_or(&node);
        }
    }

    pub(super) fn start(&mut self, node: i32) {
        self.stopped.remove(&node);
    }
}

/// `String.hashCode` of Java, by which Kafka, too, spreads the groups.
pub(super) fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected numbers are what jshell gives.
    #[test]
    fn hashed_as_java_does() {
        for (text, hash) in
            [("", 0), ("range", 108_280_125), ("roundrobin", -128_548_644), ("Frühling", -1_442_176_818)]
        {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }
}
