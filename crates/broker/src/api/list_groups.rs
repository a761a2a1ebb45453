//! ListGroups, versions 0 to 5.
//!
//! - The groups that the node asked coordinates, by name. States to look for from version 4 on, types from version 5 on,
//!   in any case of letters; all groups are `classic`.
//! - COORDINATOR_LOAD_IN_PROGRESS if it still loads one of them.

use super::{Asks, Call, Serve, Served};
use crate::groups::GroupView;
use crate::store::Store;
use ottla_wire::message::list_groups_response::ListedGroup;
use ottla_wire::message::{ListGroupsRequest, ListGroupsResponse};

impl Asks for ListGroupsRequest {
    fn has_top_level_error(_version: i16) -> bool {
        true
    }
}

impl Serve for ListGroupsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<ListGroupsResponse> {
        let found = match call.errors.top() {
            Some(code) => Err(code),
            None => store.groups.on_node(call.node),
        };
        let error_code = super::code(&found);
        let wanted = found.unwrap_or_default().into_iter().filter(|group| is_wanted(&self, group));
        let groups = wanted.map(|group| list(group, call.version)).collect();
        Served::Reply(ListGroupsResponse { error_code, groups, ..Default::default() })
    }
}

const CLASSIC: &str = "classic";

fn is_wanted(request: &ListGroupsRequest, group: &GroupView) -> bool {
    let is_among = |wanted: &[String], it: &str| {
        wanted.is_empty() || wanted.iter().any(|one| one.eq_ignore_ascii_case(it))
    };
    is_among(&request.states_filter, group.state.name()) && is_among(&request.types_filter, CLASSIC)
}

fn list(group: GroupView, version: i16) -> ListedGroup {
    ListedGroup {
        group_id: group.name,
        protocol_type: group.protocol_type.unwrap_or_default(),
        group_state: if version >= 4 { group.state.name().into() } else { String::new() },
        group_type: if version >= 5 { CLASSIC.into() } else { String::new() },
    }
}
