//! LeaveGroup, versions 0 to 5.
//!
//! - Several members at once from version 3 on, static ones also by their instance alone; each has its own code, the
//!   request as a whole fails only for what concerns the coordinator. Before version 3 the member's code is the whole's.
//! - A JoinGroup of the member that waits is answered with UNKNOWN_MEMBER_ID; a SyncGroup never is, as with Kafka.

use super::{Asks, Call, Serve, Served};
use crate::groups::left;
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::leave_group_request::MemberIdentity;
use ottla_wire::message::leave_group_response::MemberResponse;
use ottla_wire::message::{LeaveGroupRequest, LeaveGroupResponse};

impl Asks for LeaveGroupRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.group_id == group
    }
}

impl Serve for LeaveGroupRequest {
    fn serve(mut self, store: &mut Store, call: &Call) -> Served<LeaveGroupResponse> {
        if call.version < 3 {
            let member_id = std::mem::take(&mut self.member_id);
            self.members = vec![MemberIdentity { member_id, ..Default::default() }];
        }
        let (code, members) = match leave(&self, store, call) {
            Ok(members) => (Code::NONE, members),
            Err(code) => (code, Vec::new()),
        };
        if call.version >= 3 {
            return Served::Reply(LeaveGroupResponse { error_code: code.0, members, ..Default::default() });
        }
        let error_code = members.first().map_or(code.0, |member| member.error_code);
        Served::Reply(LeaveGroupResponse { error_code, ..Default::default() })
    }
}

fn leave(request: &LeaveGroupRequest, store: &mut Store, call: &Call) -> Result<Vec<MemberResponse>, Code> {
    if let Some(code) = call.errors.top() {
        return Err(code);
    }
    if let Some(code) = call.errors.at_group(&request.group_id) {
        return Ok(request.members.iter().map(|member| left(member, Err(code))).collect());
    }
    store.groups.leave(call.node, &request.group_id, &request.members)
}
