//! Heartbeat, versions 0 to 4.
//!
//! - Renews the member's session. REBALANCE_IN_PROGRESS while the group waits for its members to join, no error while it
//!   waits for the leader.
//! - A coordinator that still loads the group answers without an error.

use super::{Asks, Call, Serve, Served};
use crate::store::Store;
use ottla_wire::message::{HeartbeatRequest, HeartbeatResponse};

impl Asks for HeartbeatRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.group_id == group
    }
}

impl Serve for HeartbeatRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<HeartbeatResponse> {
        let beaten = match call.errors.top() {
            Some(code) => Err(code),
            None => store.groups.heartbeat(call.node, &self),
        };
        Served::Reply(HeartbeatResponse { error_code: super::code(&beaten), ..Default::default() })
    }
}
