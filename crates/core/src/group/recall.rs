//! Committed offsets: where our partitions begin, and what others want to know.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use ottla_wire::{code::Code, message::OffsetFetchResponse};

use super::{
    Question,
    commit::{CommitError, Committed, Settled, Ticket},
    verdict::{Verdict, verdict},
};
use crate::{
    cluster::Lane,
    event::Event,
    fault::Fault,
    fetch::{
        cursor::Phase as CursorPhase,
        resolve::{Aim, Resolving},
    },
    machine::{Machine, Purpose},
    partition::TopicPartition,
    request::{Body, RecallAsk},
};

/// What is known of a partition's committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recalled {
    Wanted,
    Asked(u64),
    Known(Option<Committed>),
}

/// What is asked of the coordinator.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    asked: Option<Asked>,
    /// What others want to know, in the order in which they asked.
    queries: BTreeMap<Ticket, Vec<TopicPartition>>,
    /// Some of our partitions may have to be asked for.
    pub(super) wanting: bool,
}

#[derive(Debug)]
struct Asked {
    id: u64,
    cursors: Vec<usize>,
    /// The last of the queries that it answers.
    last: Option<Ticket>,
}

impl Recalls {
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.queries.remove(&ticket);
    }
}

/// An answer's offsets, by topic and partition.
type Offsets = BTreeMap<(String, i32), Result<Option<Committed>, Code>>;

impl Machine {
    /// Asks what is committed of these partitions; the answer comes by [`poll_settled`](Self::poll_settled).
    pub fn committed(&mut self, partitions: Vec<TopicPartition>) -> Ticket {
        let ticket = self.next_ticket();
        if let Some(group) = &mut self.group {
            group.recalls.queries.insert(ticket, partitions);
        }
        ticket
    }

    pub(super) fn plan_recall(&mut self, now: Instant) {
        let Some(group) = &self.group else { return };
        let Recalls { asked, queries, wanting } = &group.recalls;
        let nothing = !*wanting && queries.is_empty();
        if nothing || asked.is_some() || group.not_before.is_some() {
            return;
        }
        let wants = |&&index: &&usize| {
            let cursor = &self.cursors[index];
            matches!(cursor.phase, CursorPhase::Recalling)
                && cursor.stake.as_ref().is_some_and(|stake| stake.recalled == Recalled::Wanted)
        };
        let cursors: Vec<usize> = group.owned.iter().filter(wants).copied().collect();
        let last = group.recalls.queries.keys().next_back().copied();
        if cursors.is_empty() && last.is_none() {
            return self.want_recalls(false);
        }
        let Some(peer) = self.coordinator_peer() else { return };
        let mut topics: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
        let asked = group.recalls.queries.values().flatten();
        for at in cursors.iter().map(|&index| &self.cursors[index].at).chain(asked) {
            topics.entry(at.topic.to_string()).or_default().insert(at.partition);
        }
        let ask = RecallAsk {
            group: group.config.id.clone(),
            require_stable: group.config.require_stable,
            topics: topics.into_iter().map(|(topic, set)| (topic, set.into_iter().collect())).collect(),
        };
        let id = self.send(now, peer, Lane::Group, Body::Recall(ask), Purpose::Group(Question::Recall));
        for &index in &cursors {
            self.set_recalled(index, Recalled::Asked(id));
        }
        if let Some(group) = &mut self.group {
            group.recalls.asked = Some(Asked { id, cursors, last });
        }
        self.want_recalls(false);
    }

    pub(super) fn want_recalls(&mut self, wanting: bool) {
        if let Some(group) = &mut self.group {
            group.recalls.wanting = wanting;
        }
    }

    fn set_recalled(&mut self, index: usize, recalled: Recalled) {
        if recalled == Recalled::Wanted {
            self.want_recalls(true);
        }
        if let Some(stake) = &mut self.cursors[index].stake {
            stake.recalled = recalled;
        }
    }

    pub(super) fn take_recall(&mut self, now: Instant, id: u64, answer: OffsetFetchResponse) {
        let Some(group) = &mut self.group else { return };
        let Some(asked) = group.recalls.asked.take_if(|asked| asked.id == id) else { return };
        let name = group.config.id.clone();
        match read(&name, answer) {
            Err(code) => self.refused_recall(now, &asked, code),
            Ok(offsets) => {
                let mut again = false;
                for &index in &asked.cursors {
                    again |= !self.recalled(index, id, &offsets);
                }
                again |= !self.answer_queries(&asked, &offsets);
                if again {
                    self.pause_group(now);
                } else {
                    self.group_works();
                }
            }
        }
    }

    /// Takes what an answer says of a partition; false if it has to be asked again.
    fn recalled(&mut self, index: usize, id: u64, offsets: &Offsets) -> bool {
        let cursor = &self.cursors[index];
        if cursor.stake.as_ref().is_none_or(|stake| stake.recalled != Recalled::Asked(id)) {
            return true; // it is not ours any more, or anew
        }
        let at = cursor.at.clone();
        let code = match offsets.get(&(at.topic.to_string(), at.partition)) {
            Some(Ok(committed)) => {
                self.set_recalled(index, Recalled::Known(committed.clone()));
                self.settle_recall(index);
                return true;
            }
            Some(Err(code)) => *code,
            None => Code::UNKNOWN_SERVER_ERROR,
        };
        if verdict(Question::Recall, code) == Verdict::Refuse {
            self.set_recalled(index, Recalled::Known(None));
            self.fail_cursor(index, Fault::Partition { at, offset: -1, code });
            return true;
        }
        self.tell(Event::Refused { at, code });
        self.set_recalled(index, Recalled::Wanted);
        false
    }

    /// Answers who asked; false if somebody has to be asked for again, as one of the offsets may change at any moment.
    fn answer_queries(&mut self, asked: &Asked, offsets: &Offsets) -> bool {
        let Some(group) = &mut self.group else { return true };
        let found = |at: &TopicPartition| {
            let found = offsets.get(&(at.topic.to_string(), at.partition));
            found.cloned().unwrap_or(Err(Code::UNKNOWN_SERVER_ERROR))
        };
        let unsettled = |at: &TopicPartition| found(at) == Err(Code::UNSTABLE_OFFSET_COMMIT);
        let queries = &mut group.recalls.queries;
        let later = queries.split_off(&asked.last.map_or(Ticket::FIRST, Ticket::next));
        let (again, answered): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::replace(queries, later).into_iter().partition(|(_, of)| of.iter().any(unsettled));
        let all = again.is_empty();
        queries.extend(again);
        for (ticket, partitions) in answered {
            let of = |at: &TopicPartition| match found(at) {
                Ok(committed) => Ok((at.clone(), committed)),
                Err(code) => Err(CommitError::refused(&group.config.id, vec![(at.clone(), code)])),
            };
            let answer = partitions.iter().map(of).collect();
            group.commits.settled.push_back((ticket, Settled::Committed(answer)));
        }
        all
    }

    fn refused_recall(&mut self, now: Instant, asked: &Asked, code: Code) {
        for &index in &asked.cursors {
            self.set_recalled(index, Recalled::Wanted);
        }
        match verdict(Question::Recall, code) {
            Verdict::Elsewhere => self.forget_coordinator(),
            Verdict::Fatal | Verdict::Refuse => self.fail_group(Question::Recall, code, None),
            verdict @ (Verdict::Unknown | Verdict::Stale | Verdict::Fenced) => {
                return self.out_of_group(now, Question::Recall, code, verdict);
            }
            _ => self.tell_refused(Question::Recall, code),
        }
        self.pause_group(now);
    }

    pub(super) fn lost_recall(&mut self, id: u64) {
        let Some(group) = &mut self.group else { return };
        let Some(asked) = group.recalls.asked.take_if(|asked| asked.id == id) else { return };
        for &index in &asked.cursors {
            if self.cursors[index].stake.as_ref().is_some_and(|stake| stake.recalled == Recalled::Asked(id)) {
                self.set_recalled(index, Recalled::Wanted);
            }
        }
    }

    /// Nobody will answer these any more.
    pub(super) fn fail_queries(&mut self, error: &CommitError) {
        let Some(group) = &mut self.group else { return };
        group.recalls.asked = None;
        for ticket in std::mem::take(&mut group.recalls.queries).into_keys() {
            group.commits.settled.push_back((ticket, Settled::Committed(Err(error.clone()))));
        }
    }

    /// Begins to read a partition, once it is known where, and may be.
    pub(super) fn settle_recall(&mut self, index: usize) {
        let cursor = &mut self.cursors[index];
        let Some(stake) = &mut cursor.stake else { return };
        if stake.hook.is_some() || !matches!(cursor.phase, CursorPhase::Recalling) {
            return;
        }
        let committed = match (&stake.recalled, stake.given.take()) {
            (_, Some(start)) => return self.resolve_start(index, start),
            (Recalled::Known(committed), None) => committed.clone(),
            _ => return,
        };
        let (start, epoch) = match (committed, cursor.remembered) {
            (Some(committed), _) => {
                stake.covered = Some(committed.offset);
                stake.stored = Some(committed.offset);
                (committed.offset, committed.leader_epoch)
            }
            (None, Some(remembered)) => (remembered, -1),
            (None, None) => {
                let start = cursor.start;
                return self.resolve_start(index, start);
            }
        };
        stake.note_epoch(start - 1, epoch);
        stake.begin_turn(start);
        cursor.stand(start, None);
        cursor.found(epoch, true);
        self.commit_soon(index);
        self.touch(index);
    }

    fn resolve_start(&mut self, index: usize, start: crate::config::Start) {
        self.cursors[index].phase = CursorPhase::Resolving(Resolving::new(Aim::Start(start), None));
        self.settle_position(index);
        self.hasten(index);
    }

    /// A position of a group's partition was found, to begin or by a seek: a turn begins there.
    pub(crate) fn begin_stake(&mut self, index: usize, start: i64) {
        let Some(commit_start) = self.group.as_ref().map(|group| group.config.commit_start) else { return };
        let cursor = &mut self.cursors[index];
        let Some(stake) = &mut cursor.stake else { return };
        if !commit_start && stake.tenure.front().is_none() {
            stake.covered = Some(start);
        }
        let handed = stake.begin_turn(start);
        cursor.turn.begin(start, handed);
        self.commit_soon(index);
    }
}

/// Reads the answer of any version.
fn read(group: &str, answer: OffsetFetchResponse) -> Result<Offsets, Code> {
    let committed = |offset: i64, leader_epoch: i32, metadata: Option<String>, code: i16| match Code(code) {
        Code::NONE => {
            let metadata = metadata.unwrap_or_default();
            Ok((offset >= 0).then_some(Committed { offset, leader_epoch, metadata }))
        }
        code => Err(code),
    };
    let mut offsets = Offsets::new();
    let mut code = Code(answer.error_code);
    for topic in answer.topics {
        for p in topic.partitions {
            let found = committed(p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code);
            offsets.insert((topic.name.clone(), p.partition_index), found);
        }
    }
    for answered in answer.groups.into_iter().filter(|answered| answered.group_id == group) {
        code = Code(answered.error_code);
        for topic in answered.topics {
            for p in topic.partitions {
                let found = committed(p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code);
                offsets.insert((topic.name.clone(), p.partition_index), found);
            }
        }
    }
    // Versions below 2 say it of each partition.
    let whole = |code: &Code| !matches!(verdict(Question::Recall, *code), Verdict::Refuse | Verdict::Retry);
    let common = offsets.values().find_map(|offset| offset.as_ref().err().copied().filter(whole));
    match common {
        _ if code != Code::NONE => Err(code),
        Some(code) => Err(code),
        None => Ok(offsets),
    }
}
