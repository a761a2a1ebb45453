//! The order of a group's members, on which Java's assignors agree.

use std::cmp::Ordering;

use super::GroupMember;

/// Static members first, by the name they keep over restarts; then the others, by the id the coordinator gave them.
pub(super) fn by_instance(a: &GroupMember, b: &GroupMember) -> Ordering {
    match (&a.instance, &b.instance) {
        (Some(left), Some(right)) => text(left, right).then_with(|| by_id(a, b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => by_id(a, b),
    }
}

pub(super) fn by_id(a: &GroupMember, b: &GroupMember) -> Ordering {
    text(&a.id, &b.id)
}

/// As Java compares: by UTF-16 units. A member's id begins with its client id, which may be any text.
fn text(a: &str, b: &str) -> Ordering {
    match a.is_ascii() && b.is_ascii() {
        true => a.cmp(b),
        false => a.encode_utf16().cmp(b.encode_utf16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_ordered_by_its_utf_16_units() {
        assert_eq!(text("a", "b"), Ordering::Less);
        assert_eq!(text("a", "a-"), Ordering::Less);
        assert_eq!(text("\u{ff5e}", "\u{1f600}"), Ordering::Greater, "Rust's own order says the opposite");
    }
}
