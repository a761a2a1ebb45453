//! What a group works with.

use super::Rules;
use crate::ConnectionId;
use ottla_wire::code::Code;
use ottla_wire::message::{JoinGroupResponse, SyncGroupResponse};
use std::collections::VecDeque;
use std::time::Instant;

/// The time, the rules, new ids, and where answers go.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) now: Instant,
    pub(super) rules: &'a Rules,
    pub(super) random: &'a mut fastrand::Rng,
    pub(super) answers: &'a mut VecDeque<Answer>,
}

/// An answer to somebody whose request waits.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) to: ConnectionId,
    pub(crate) reply: Reply,
}

#[derive(Debug)]
pub(crate) enum Reply {
    Joined(JoinGroupResponse),
    Synced(SyncGroupResponse),
}

impl Desk<'_> {
    /// `NAME-UUID`, as Kafka has it.
    pub(super) fn new_member_id(&mut self, name: &str) -> String {
        let bits = self.random.u128(..) & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
        let hex = format!("{bits:032x}");
        format!("{name}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    pub(super) fn answer_join(&mut self, to: Option<ConnectionId>, response: JoinGroupResponse) {
        self.answers.extend(to.map(|to| Answer { to, reply: Reply::Joined(response) }));
    }

    pub(super) fn answer_sync(&mut self, to: Option<ConnectionId>, response: SyncGroupResponse) {
        self.answers.extend(to.map(|to| Answer { to, reply: Reply::Synced(response) }));
    }

    pub(super) fn refuse_join(&mut self, to: Option<ConnectionId>, member: &str, code: Code) {
        self.answer_join(to, refused_join(member, code));
    }

    pub(super) fn refuse_sync(&mut self, to: Option<ConnectionId>, code: Code) {
        self.answer_sync(to, SyncGroupResponse { error_code: code.0, ..Default::default() });
    }
}

pub(crate) fn refused_join(member: &str, code: Code) -> JoinGroupResponse {
    JoinGroupResponse { error_code: code.0, member_id: member.into(), ..Default::default() }
}
