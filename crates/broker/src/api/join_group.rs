//! JoinGroup, versions 0 to 9.
//!
//! - Waits until the rebalance it begins or takes part in is complete; later requests of its connection wait with it. If
//!   the connection goes meanwhile, nobody notices: the member stays until its session ends.
//! - From version 4 on a new member gets MEMBER_ID_REQUIRED and an id to come back with (KIP-394); rebalances wait for it.
//! - Static members (KIP-345) from version 5 on; from version 9 on a static leader that came back is told to skip the
//!   assignment (KIP-814).
//! - In this order: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
//!   GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
//! - The roll that the leader gets is sorted by member id; Kafka's is in no order.

use super::{Asks, Call, Wait};
use crate::groups::{Answer, Join, Reply, refused_join};
use crate::store::Store;
use ottla_wire::message::{JoinGroupRequest, JoinGroupResponse};
use std::time::Duration;

impl Asks for JoinGroupRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.group_id == group
    }
}

impl Wait for JoinGroupRequest {
    fn begin(self, store: &mut Store, call: &Call) {
        let member = self.member_id.clone();
        let begun = match call.errors.top() {
            Some(code) => Err(code),
            None => store.groups.join(call.node, &self.group_id.clone(), join(self, call)),
        };
        if let Err(code) = begun {
            let reply = Reply::Joined(refused_join(&member, code));
            store.groups.answer(Answer { to: call.connection, reply });
        }
    }
}

fn join(request: JoinGroupRequest, call: &Call) -> Join {
    let session = millis(request.session_timeout_ms);
    Join {
        to: call.connection,
        // What Java makes of a client that does not give its name.
        client_id: call.client_id.clone().unwrap_or_else(|| "null".into()),
        hands_out_id: call.version >= 4,
        may_skip_assignment: call.version >= 9,
        member: request.member_id,
        instance: request.group_instance_id,
        session,
        rebalance: if call.version == 0 { session } else { millis(request.rebalance_timeout_ms) },
        protocol_type: request.protocol_type,
        protocols: request.protocols,
    }
}

fn millis(count: i32) -> Duration {
    Duration::from_millis(count.max(0) as u64)
}

/// That there is no protocol is said by null from version 7 on, before that by an empty name.
pub(crate) fn fitting(mut response: JoinGroupResponse, version: i16) -> JoinGroupResponse {
    let name = response.protocol_name.take().filter(|name| !name.is_empty());
    response.protocol_name = if version >= 7 { name } else { Some(name.unwrap_or_default()) };
    response
}
