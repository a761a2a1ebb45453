//! Groups: members that share the partitions of their topics.

pub(crate) mod assign;
