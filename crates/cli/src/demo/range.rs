//! What one member has read, or committed.

/// Offsets of a partition that one member has read, or committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) member: String,
    pub(super) partition: i32,
    pub(super) from: i64,
    /// Exclusive.
    pub(super) to: i64,
}

impl Range {
    /// Adds a range, to the one before it where it goes on there.
    pub(super) fn extend(ranges: &mut Vec<Self>, range: Self) {
        let before = ranges.iter_mut().rev().find(|before| before.partition == range.partition);
        match before {
            Some(before) if before.member == range.member && before.to == range.from => before.to = range.to,
            _ => ranges.push(range),
        }
    }
}
