//! FindCoordinator, versions 0 to 6.
//!
//! - Every running node says for every group, existing or not, which node coordinates it; several groups at once from
//!   version 4 on. COORDINATOR_NOT_AVAILABLE while that node does not run. One that still loads is named.
//! - Transactional ids are placed as groups are.
//!
//! Not imitated: share coordinators (INVALID_REQUEST), the time in which a new cluster makes `__consumer_offsets`.

use super::{Asks, Call, Serve, Served};
use crate::store::{Node, Store};
use ottla_wire::code::Code;
use ottla_wire::message::find_coordinator_response::Coordinator;
use ottla_wire::message::{FindCoordinatorRequest, FindCoordinatorResponse};

impl Asks for FindCoordinatorRequest {
    fn has_top_level_error(version: i16) -> bool {
        version < 4
    }

    fn asks_for_group(&self, group: &str) -> bool {
        self.key_type == GROUP && (self.key == group || self.coordinator_keys.iter().any(|key| key == group))
    }
}

impl Serve for FindCoordinatorRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<FindCoordinatorResponse> {
        if call.version >= 4 {
            let find = |key: &String| {
                let found = match call.errors.at_group(key) {
                    Some(code) => Err(code),
                    None => find(store, self.key_type, key),
                };
                one_of_several(key, found)
            };
            let coordinators = self.coordinator_keys.iter().map(find).collect();
            return Served::Reply(FindCoordinatorResponse { coordinators, ..Default::default() });
        }
        let found = match call.errors.top() {
            Some(code) => Err(code),
            None => find(store, self.key_type, &self.key),
        };
        Served::Reply(the_only(found))
    }
}

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

fn find<'a>(store: &'a Store, key_type: i8, key: &str) -> Result<&'a Node, Code> {
    if !matches!(key_type, GROUP | TRANSACTION) {
        return Err(Code::INVALID_REQUEST);
    }
    let node = store.groups.coordinator(key).and_then(|node| store.node(node));
    node.ok_or(Code::COORDINATOR_NOT_AVAILABLE)
}

fn the_only(found: Result<&Node, Code>) -> FindCoordinatorResponse {
    let (node_id, host, port) = address(found.ok());
    let code = found.err().unwrap_or(Code::NONE);
    let error_message = Some(if code.is_error() { code.sentence().into() } else { "NONE".into() });
    FindCoordinatorResponse { error_code: code.0, error_message, node_id, host, port, ..Default::default() }
}

fn one_of_several(key: &str, found: Result<&Node, Code>) -> Coordinator {
    let (node_id, host, port) = address(found.ok());
    let error_code = found.err().unwrap_or(Code::NONE).0;
    Coordinator { key: key.into(), error_code, node_id, host, port, ..Default::default() }
}

fn address(node: Option<&Node>) -> (i32, String, i32) {
    let Some(Node { options, .. }) = node else { return (-1, String::new(), -1) };
    (options.id, options.host.clone(), i32::from(options.port))
}
