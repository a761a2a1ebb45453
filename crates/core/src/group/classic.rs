//! Membership by the classic protocol: join, take the assignment, be heard.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_wire::{
    code::Code,
    message::{
        HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest,
        SyncGroupResponse, join_group_request::JoinGroupRequestProtocol,
        join_group_response::JoinGroupResponseMember, sync_group_request::SyncGroupRequestAssignment,
    },
};

use super::{
    Group, Phase, Question,
    assign::metadata::{read_assignment, write_subscription},
    part_of,
    verdict::{Verdict, verdict},
};
use crate::{
    cluster::{Lane, Peer},
    config::GroupConfig,
    event::Event,
    machine::{Machine, Purpose},
    request::{Body, KnowsInstances},
};

/// What the protocol calls groups of consumers.
pub(super) const PROTOCOL_TYPE: &str = "consumer";

/// The longest pause between two rebalances of a group that does not come to rest.
const MOST_BETWEEN_REBALANCES: Duration = Duration::from_secs(1);

/// So many heartbeats must have been answered as if we had not asked to join.
const DISOWNED_AFTER: u32 = 2;

/// What the coordinator said when all had joined.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Who is in the group, for its leader.
    pub(super) members: Vec<JoinGroupResponseMember>,
}

impl Machine {
    pub(super) fn plan_member(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        if !group.config.member {
            return;
        }
        match &group.phase {
            Phase::Apart if group.silence.too_long => self.leave_silently(now),
            Phase::Apart => self.join(now),
            Phase::Assigning { .. } => self.assign_members(now),
            Phase::Stable if group.rejoin_wanted.is_some() => self.rejoin_as_wanted(now),
            _ => {}
        }
        self.beat(now);
    }

    fn join(&mut self, now: Instant) {
        let Some(peer) = self.coordinator_peer() else { return };
        let topics = self.subscribed();
        let Some(group) = &mut self.group else { return };
        // Without a picture of the cluster a pattern matches nothing.
        let blind = self.config.pattern.is_some() && !self.metadata.has_answered();
        let paused = group.not_before.is_some() || group.join_after.is_some();
        if paused || group.silence.too_long || group.closing.is_some() || blind {
            return;
        }
        let (owned, generation) = &group.last_assigned;
        let rack = group.config.rack.as_deref();
        let protocol = |assignor: &std::sync::Arc<dyn super::assign::Assignor>| JoinGroupRequestProtocol {
            name: assignor.name().to_owned(),
            metadata: write_subscription(&**assignor, &topics, owned, *generation, rack),
            ..JoinGroupRequestProtocol::default()
        };
        let request = JoinGroupRequest {
            group_id: group.config.id.to_string(),
            session_timeout_ms: ms(group.config.session_timeout),
            rebalance_timeout_ms: ms(group.config.rebalance_timeout),
            member_id: group.member.clone(),
            group_instance_id: group.config.instance.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols: group.config.assignors.iter().map(protocol).collect(),
            reason: Some(group.reason.clone()),
            ..JoinGroupRequest::default()
        };
        group.joined_topics = topics;
        group.disowned = 0;
        let body = Body::Join(request, group.config.rebalance_timeout);
        group.heartbeat_due = Some(now + group.config.heartbeat_interval);
        let due = now + group.config.heartbeat_interval;
        let id = self.send(now, peer, Lane::Join, body, Purpose::Group(Question::Join));
        self.enter(Phase::Joining { request: id });
        self.wake_group(due);
    }

    pub(super) fn take_join(
        &mut self,
        now: Instant,
        id: u64,
        answer: JoinGroupResponse,
        knows: KnowsInstances,
    ) {
        let Some(group) = &mut self.group else { return };
        if !matches!(group.phase, Phase::Joining { request } if request == id) {
            return;
        }
        group.knows_instances = knows.0;
        let code = Code(answer.error_code);
        if code != Code::NONE {
            return self.refused_join(now, code, answer.member_id);
        }
        if !answer.members.is_empty() && !answer.members.iter().any(|m| m.member_id == answer.leader) {
            let what = format!("the group's leader {:?} is none of its members", answer.leader);
            return self.nonsense(now, what);
        }
        group.heard(now);
        group.disowned = 0;
        group.leads = answer.leader == answer.member_id;
        group.member = answer.member_id;
        group.generation = answer.generation_id;
        group.protocol = answer.protocol_name.unwrap_or_default();
        group.heartbeat = None; // one under way asks for who we were before
        let (due, session) = (now + group.config.heartbeat_interval, now + group.config.session_timeout);
        group.heartbeat_due = Some(due);
        self.wake_group(due);
        self.wake_group(session);
        let joined = Joined { members: answer.members };
        self.begin_assigning(now, joined, answer.skip_assignment);
    }

    fn refused_join(&mut self, now: Instant, code: Code, member: String) {
        let verdict = verdict(Question::Join, code);
        let Some(group) = &mut self.group else { return };
        group.phase = Phase::Apart;
        let said = what_we_asked(&group.config, code);
        match verdict {
            Verdict::Named if group.member.is_empty() && !member.is_empty() => group.member = member,
            Verdict::Named => self.pause_group(now),
            verdict => self.not_taken_in(now, Question::Join, code, verdict, said),
        }
    }

    /// We are apart again, and join when that may help.
    fn not_taken_in(
        &mut self,
        now: Instant,
        question: Question,
        code: Code,
        verdict: Verdict,
        said: Option<String>,
    ) {
        let Some(group) = &mut self.group else { return };
        match verdict {
            Verdict::Elsewhere => {
                self.forget_coordinator();
                self.again(now);
            }
            Verdict::Unknown => {
                group.member.clear();
                self.again(now);
            }
            Verdict::Stale | Verdict::Rebalance | Verdict::Named => self.again(now),
            Verdict::Fenced => self.fenced(question, code),
            Verdict::Fatal => {
                self.fail_group(question, code, said);
                self.pause_group(now);
            }
            Verdict::Retry | Verdict::Refuse => {
                self.tell_refused(question, code);
                self.pause_group(now);
            }
        }
    }

    /// Sends what the members are assigned (nothing, unless we lead), to be told what we are.
    pub(super) fn sync(&mut self, now: Instant, assignments: Vec<(String, Bytes)>) {
        let Some(peer) = self.coordinator_peer() else {
            return self.enter(Phase::Apart); // it will be found, and asked anew
        };
        let Some(group) = &self.group else { return };
        let ours = assignments.iter().find(|(member, _)| *member == group.member);
        let ours = ours.map(|(_, assignment)| assignment.clone());
        let assignment = |(member_id, assignment)| SyncGroupRequestAssignment {
            member_id,
            assignment,
            ..SyncGroupRequestAssignment::default()
        };
        let request = SyncGroupRequest {
            group_id: group.config.id.to_string(),
            generation_id: group.generation,
            member_id: group.member.clone(),
            group_instance_id: group.config.instance.clone(),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(group.protocol.clone()),
            assignments: assignments.into_iter().map(assignment).collect(),
            ..SyncGroupRequest::default()
        };
        // Only those who do not lead wait for the leader.
        let wait = if group.leads { Duration::ZERO } else { group.config.rebalance_timeout };
        let body = Body::Sync(request, wait);
        let id = self.send(now, peer, Lane::Join, body, Purpose::Group(Question::Sync));
        self.enter(Phase::Syncing { request: id, ours });
    }

    pub(super) fn take_sync(&mut self, now: Instant, id: u64, answer: &SyncGroupResponse) {
        let Some(group) = &mut self.group else { return };
        let Phase::Syncing { request, ours } = &group.phase else { return };
        if *request != id {
            return;
        }
        let code = Code(answer.error_code);
        if code != Code::NONE {
            group.phase = Phase::Apart;
            return self.not_taken_in(now, Question::Sync, code, verdict(Question::Sync, code), None);
        }
        if ours.as_ref().is_some_and(|ours| *ours != answer.assignment) {
            return self
                .nonsense(now, "we lead the group, and were assigned what we had not sent".to_owned());
        }
        match read_assignment(&answer.assignment) {
            Ok(partitions) => {
                group.phase = Phase::Stable;
                group.stable_since = Some(now);
                // Before anything is read, the coordinator says whether we are still in: the answer comes before that
                // to the question for offsets, which takes the same way.
                group.heartbeat_due = Some(now);
                self.group_works();
                self.assigned(now, partitions);
            }
            Err(what) => {
                self.nonsense(now, format!("the group's leader assigned what makes no sense: {what}"));
            }
        }
    }

    /// What the coordinator told us cannot be: it is asked anew.
    fn nonsense(&mut self, now: Instant, what: String) {
        self.enter(Phase::Apart);
        if let Some(peer) = self.coordinator_peer() {
            self.tell(Event::Misbehaved { peer, what });
        }
        self.pause_group(now);
    }

    /// Joins again at once; after a pause if that did not help before.
    fn again(&mut self, now: Instant) {
        let (min, max) = (self.config.backoff_min, self.config.backoff_max);
        let Some(group) = &mut self.group else { return };
        match group.backoff.failures() {
            0 => _ = group.backoff.fail(min, max, &mut self.rng),
            _ => self.pause_group(now),
        }
    }

    pub(super) fn lost_join(&mut self, now: Instant, id: u64, question: Question) {
        let Some(group) = &mut self.group else { return };
        let waits = match (&group.phase, question) {
            (Phase::Joining { request }, Question::Join)
            | (Phase::Syncing { request, .. }, Question::Sync) => *request == id,
            _ => false,
        };
        if waits {
            // The member id stays: the coordinator may have taken us in.
            group.phase = Phase::Apart;
            self.again(now);
        }
    }

    // Being heard.

    /// While we join, what the coordinator answers does not matter, only that it does: a join may be held for long, and
    /// nothing else would tell that the coordinator is no more.
    fn beat(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        let due = group.heartbeat_due.is_some_and(|due| due <= now);
        if matches!(group.phase, Phase::Apart | Phase::Left) || !due || group.heartbeat.is_some() {
            return;
        }
        let Some(peer) = self.coordinator_peer() else { return };
        let request = HeartbeatRequest {
            group_id: group.config.id.to_string(),
            generation_id: group.generation,
            member_id: group.member.clone(),
            group_instance_id: group.config.instance.clone(),
            ..HeartbeatRequest::default()
        };
        let body = Body::Heartbeat(request, part_of(group.config.session_timeout, 1, 3));
        let interval = group.config.heartbeat_interval;
        let id = self.send(now, peer, Lane::Group, body, Purpose::Group(Question::Heartbeat));
        if let Some(group) = &mut self.group {
            group.heartbeat = Some((id, now));
            group.heartbeat_due = Some(now + interval);
        }
        self.wake_group(now + interval);
    }

    pub(super) fn take_heartbeat(&mut self, now: Instant, id: u64, answer: &HeartbeatResponse) {
        let Some(group) = &mut self.group else { return };
        let Some((_, sent)) = group.heartbeat.take_if(|(asked, _)| *asked == id) else { return };
        let code = Code(answer.error_code);
        let verdict = if code == Code::NONE { None } else { Some(verdict(Question::Heartbeat, code)) };
        match verdict {
            None | Some(Verdict::Rebalance) => {
                group.missed.reset();
                group.disowned = 0;
                group.heard(sent);
                let session = sent + group.config.session_timeout;
                let is_stable = matches!(group.phase, Phase::Stable);
                self.wake_group(session);
                if verdict.is_some() && is_stable {
                    // Members that come one after the other are no trouble, but nobody knows how many there are.
                    self.hardly_lasted(now, MOST_BETWEEN_REBALANCES);
                    self.begin_revoke(now, "the group is rebalancing");
                }
            }
            Some(Verdict::Elsewhere) => {
                self.forget_coordinator();
                self.beat_soon(now);
            }
            Some(Verdict::Retry | Verdict::Refuse | Verdict::Named) => {
                self.tell_refused(Question::Heartbeat, code);
                self.beat_soon(now);
            }
            Some(verdict) if group.waits_for_others() => self.disowned(now, code, verdict),
            Some(verdict) => self.out_of_group(now, Question::Heartbeat, code, verdict),
        }
    }

    /// A coordinator that holds a member's join or sync knows the member. If it does not, and says so twice (one question
    /// may overtake the other), the answer to what we asked is lost, though the connection stands.
    fn disowned(&mut self, now: Instant, code: Code, verdict: Verdict) {
        let Some(group) = &mut self.group else { return };
        let is_held = match group.phase {
            Phase::Joining { .. } => verdict != Verdict::Unknown || group.member.is_empty(),
            _ => !matches!(verdict, Verdict::Unknown | Verdict::Stale),
        };
        if is_held {
            return; // join and sync say the same, if it is still so
        }
        group.disowned += 1;
        if group.disowned >= DISOWNED_AFTER {
            let reason = format!("no answer to our joining, and to a heartbeat {code}");
            self.give_up_coordinator_lane(now, Lane::Join, reason);
            if let Some(group) = self.group.as_mut().filter(|_| verdict == Verdict::Unknown) {
                group.member.clear();
            }
        }
    }

    fn give_up_coordinator_lane(&mut self, now: Instant, lane: Lane, reason: String) {
        if let Some(node) = self.group.as_ref().and_then(|group| group.coordinator.node()) {
            self.give_up_lane(now, Peer::Node(node), lane, reason);
        }
    }

    /// The coordinator says that we are not in the group, or not any more.
    pub(super) fn out_of_group(&mut self, now: Instant, question: Question, code: Code, verdict: Verdict) {
        let reason = format!("{question} was refused with {code}");
        let Some(group) = &mut self.group else { return };
        if !matches!(group.phase, Phase::Stable | Phase::Revoking(_)) {
            return; // an answer to what was asked before: join and sync say the same, if it is still so
        }
        match verdict {
            Verdict::Unknown => group.member.clear(),
            Verdict::Fenced => return self.fenced(question, code),
            _ => {}
        }
        self.hardly_lasted(now, self.config.backoff_max);
        self.lose(&reason);
        if verdict == Verdict::Fatal {
            self.fail_group(question, code, None);
            self.pause_group(now);
        }
    }

    /// Another process has our place, for good: asking for it again would only throw that one out in turn.
    fn fenced(&mut self, question: Question, code: Code) {
        let Some(group) = &self.group else { return };
        let instance = group.config.instance.as_deref().unwrap_or_default();
        self.fail_group(question, code, Some(format!("another process has joined as {instance:?}")));
        self.lose(&format!("{question} was refused with {code}"));
        self.enter(Phase::Left);
    }

    pub(super) fn lost_heartbeat(&mut self, now: Instant, id: u64) {
        let Some(group) = &mut self.group else { return };
        if group.heartbeat.take_if(|(asked, _)| *asked == id).is_none() {
            return;
        }
        let waits = group.waits_for_others();
        self.beat_soon(now);
        if waits {
            let reason = "the coordinator does not answer heartbeats".to_owned();
            self.give_up_coordinator_lane(now, Lane::Join, reason);
        }
    }

    /// An assignment ends. If it hardly lasted, and the one before neither, the next one may wait, `most` at most: a
    /// coordinator that takes us in and throws us out again must not make us spin.
    fn hardly_lasted(&mut self, now: Instant, most: Duration) {
        let (min, max) = (self.config.backoff_min, self.config.backoff_max);
        let Some(group) = &mut self.group else { return };
        let interval = group.config.heartbeat_interval;
        if group.stable_since.take().is_some_and(|since| now >= since + interval) {
            group.restless.reset();
        }
        let first = group.restless.failures() == 0;
        let pause = group.restless.fail(min, max, &mut self.rng).min(most);
        if !first {
            group.join_after = Some(now + pause);
            self.wake_group(now + pause);
        }
    }

    /// Tries again well before the session ends.
    fn beat_soon(&mut self, now: Instant) {
        let (min, max) = (self.config.backoff_min, self.config.backoff_max);
        let Some(group) = &mut self.group else { return };
        let pause = group.missed.fail(min, max, &mut self.rng);
        let due = now + pause.min(group.config.heartbeat_interval);
        group.heartbeat_due = Some(due);
        self.wake_group(due);
    }

    /// Looks whether the session has ended: so long unheard, the coordinator has given our partitions to others. For whoever
    /// may have slept; deadlines see to it otherwise.
    pub fn session_may_end(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        let is_in = matches!(
            group.phase,
            Phase::Assigning { .. } | Phase::Syncing { .. } | Phase::Stable | Phase::Revoking(_)
        );
        if is_in && now >= group.heard + group.config.session_timeout {
            let reason = format!("no heartbeat was answered for {:?}", group.config.session_timeout);
            if group.heartbeat.is_some() {
                self.give_up_coordinator_lane(now, Lane::Group, reason.clone()); // though bytes may be coming
            }
            self.lose(&reason);
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        if let Some(group) = &mut self.group {
            group.phase = phase;
        }
    }
}

impl Group {
    /// Whether the coordinator may hold a question of ours until others have said something.
    fn waits_for_others(&self) -> bool {
        matches!(self.phase, Phase::Joining { .. } | Phase::Syncing { .. })
    }

    fn heard(&mut self, at: Instant) {
        self.heard = self.heard.max(at);
        self.session.extend(self.heard + self.config.session_timeout);
    }
}

fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// What the coordinator does not repeat of what it refuses.
fn what_we_asked(config: &GroupConfig, code: Code) -> Option<String> {
    match code {
        Code::INVALID_SESSION_TIMEOUT => Some(format!("session_timeout is {:?}", config.session_timeout)),
        Code::INCONSISTENT_GROUP_PROTOCOL => {
            let names: Vec<&str> = config.assignors.iter().map(|assignor| assignor.name()).collect();
            Some(format!("this one has {}", names.join(", ")))
        }
        _ => None,
    }
}
