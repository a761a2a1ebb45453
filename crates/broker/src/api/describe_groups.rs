//! DescribeGroups, versions 0 to 6.
//!
//! - Members with what they were assigned; the protocol and the members' metadata only in a stable group.
//! - A group that is not there is `Dead`, from version 6 on with GROUP_ID_NOT_FOUND.
//! - Every operation is authorized, where that is asked for (from version 3 on).
//!
//! Not imitated: the clients' addresses, `/127.0.0.1` for all.

use super::{Asks, Call, Serve, Served};
use crate::groups::{GroupState, GroupView, MemberView};
use crate::store::Store;
use ottla_wire::code::Code;
use ottla_wire::message::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use ottla_wire::message::{DescribeGroupsRequest, DescribeGroupsResponse};

impl Asks for DescribeGroupsRequest {
    fn asks_for_group(&self, group: &str) -> bool {
        self.groups.iter().any(|asked| asked == group)
    }
}

impl Serve for DescribeGroupsRequest {
    fn serve(self, store: &mut Store, call: &Call) -> Served<DescribeGroupsResponse> {
        let operations = call.version >= 3 && self.include_authorized_operations;
        let groups = self.groups.iter().map(|name| answer(store, call, name, operations)).collect();
        Served::Reply(DescribeGroupsResponse { groups, ..Default::default() })
    }
}

/// The bits of read, delete, describe, describe configs and alter configs.
const ALL_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

fn answer(store: &Store, call: &Call, name: &str, operations: bool) -> DescribedGroup {
    let checked = match call.errors.at_group(name) {
        Some(code) => Err(code),
        None => store.groups.check(call.node, name),
    };
    let mut group = match (checked, store.groups.view(name)) {
        (Err(code), _) => DescribedGroup { error_code: code.0, ..Default::default() },
        (Ok(()), None) => missing(name, call.version),
        (Ok(()), Some(group)) => describe(group, call.version),
    };
    if operations && group.error_code == 0 {
        group.authorized_operations = ALL_OPERATIONS;
    }
    DescribedGroup { group_id: name.into(), ..group }
}

fn missing(name: &str, version: i16) -> DescribedGroup {
    let dead = DescribedGroup { group_state: "Dead".into(), ..Default::default() };
    if version < 6 {
        return dead;
    }
    let error_message = Some(format!("Group {name} not found."));
    DescribedGroup { error_code: Code::GROUP_ID_NOT_FOUND.0, error_message, ..dead }
}

fn describe(group: GroupView, version: i16) -> DescribedGroup {
    let is_stable = group.state == GroupState::Stable;
    let member = |member| describe_member(member, is_stable, version);
    DescribedGroup {
        group_state: group.state.name().into(),
        protocol_type: group.protocol_type.unwrap_or_default(),
        protocol_data: group.protocol.filter(|_| is_stable).unwrap_or_default(),
        members: group.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

fn describe_member(member: MemberView, is_stable: bool, version: i16) -> DescribedGroupMember {
    DescribedGroupMember {
        member_id: member.id,
        group_instance_id: member.instance.filter(|_| version >= 4),
        client_id: member.client_id,
        client_host: "/127.0.0.1".into(),
        member_metadata: if is_stable { member.metadata } else { Default::default() },
        member_assignment: member.assignment,
    }
}
