//! SyncGroup, versions 0 to 5.
//!
//! - Waits until the leader has sent the assignment, or a new rebalance begins (REBALANCE_IN_PROGRESS); later requests of
//!   its connection wait with it. In a stable group it is answered at once.
//! - Members that do not sync within the rebalance time-out are removed.
//! - From version 5 on protocol type and name have to be given, and right: INCONSISTENT_GROUP_PROTOCOL.

use super::{Asks, Call, Wait};
use crate::groups::{Answer, Reply};
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::{SyncGroupRequest, SyncGroupResponse};

impl Asks for SyncGroupRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.group_id == group
    }
}

impl Wait for SyncGroupRequest {
    fn begin(self, store: &mut Store, call: &Call) {
        let is_whole = call.version < 5 || (self.protocol_type.is_some() && self.protocol_name.is_some());
        let begun = match call.errors.top() {
            Some(code) => Err(code),
            None if !is_whole => Err(Code::INCONSISTENT_GROUP_PROTOCOL),
            None => store.groups.sync(call.node, call.connection, self),
        };
        if let Err(code) = begun {
            let reply = Reply::Synced(SyncGroupResponse { error_code: code.0, ..Default::default() });
            store.groups.answer(Answer { to: call.connection, reply });
        }
    }
}
