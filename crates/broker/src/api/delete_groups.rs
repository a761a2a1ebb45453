//! DeleteGroups, versions 0 to 3.
//!
//! - A group without members goes, and its offsets with it. Otherwise NON_EMPTY_GROUP; GROUP_ID_NOT_FOUND.
//! - A group that is named twice is answered once.

use super::{Asks, Call, Serve, Served};
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::delete_groups_response::DeletableGroupResult;
use ottla_wire::message::{DeleteGroupsRequest, DeleteGroupsResponse};
use std::collections::BTreeSet;

impl Asks for DeleteGroupsRequest {
    fn asks_for_group(&self, group: &str) -> bool {
        self.groups_names.iter().any(|asked| asked == group)
    }
}

impl Serve for DeleteGroupsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<DeleteGroupsResponse> {
        let mut seen = BTreeSet::new();
        let once = self.groups_names.into_iter().filter(|name| seen.insert(name.clone()));
        let results = once.map(|name| answer(store, call, name)).collect();
        Served::Reply(DeleteGroupsResponse { results, ..Default::default() })
    }
}

fn answer(store: &mut Store, call: &Call, group_id: String) -> DeletableGroupResult {
    let deleted: Result<(), Code> = match call.errors.at_group(&group_id) {
        Some(code) => Err(code),
        None => store.groups.delete(call.node, &group_id),
    };
    DeletableGroupResult { error_code: super::code(&deleted), group_id, ..Default::default() }
}
