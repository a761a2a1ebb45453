//! Fetching: where each partition stands, what to ask, what came back.

pub(crate) mod cursor;
pub(crate) mod epochs;
pub(crate) mod ledger;
pub(crate) mod offsets;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod reply;
pub(crate) mod resolve;
pub(crate) mod turn;
