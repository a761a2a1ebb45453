//! The leader's part: who reads what, and whether that still fits the cluster.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use bytes::Bytes;
use ottla_wire::message::{MetadataResponse, join_group_response::JoinGroupResponseMember};

use super::{
    Group, Phase,
    assign::{
        Assignor, GroupMember, GroupPartition, GroupTopics,
        metadata::{check_assignment, read_subscription, write_assignment},
    },
    classic::Joined,
    part_of,
};
use crate::{
    event::Event,
    machine::Machine,
    verdict::{Place, Verdict, verdict},
};
use ottla_wire::code::Code;

/// A topic that metadata leaves out once may be an old answer; so often in a row it is gone.
const VANISHED_AFTER: u32 = 2;

impl Machine {
    pub(super) fn begin_assigning(&mut self, now: Instant, joined: Joined, skip: bool) {
        let Some(group) = &mut self.group else { return };
        if !group.leads {
            group.foreign.clear();
            return self.sync(now, Vec::new());
        }
        let members = read_members(&joined.members);
        let topics: std::collections::BTreeSet<Arc<str>> =
            members.iter().flat_map(|(member, _)| member.topics.iter().cloned()).collect();
        group.foreign = topics.into_iter().collect();
        if skip {
            // A static leader that comes back: the assignment stands, only watching is ours (KIP-814).
            group.assigned_from = group.picture();
            return self.sync(now, Vec::new());
        }
        let until = now + part_of(group.config.rebalance_timeout, 1, 2);
        let knows_all = group.knows_all();
        group.phase = Phase::Assigning { joined, until };
        self.wake_group(until);
        if !knows_all {
            self.want_metadata(now);
        }
    }

    /// Assigns, once metadata knows of all topics that the members read.
    pub(super) fn assign_members(&mut self, now: Instant) {
        let Some(group) = &mut self.group else { return };
        let Phase::Assigning { joined, until } = &group.phase else { return };
        if !group.knows_all() && now < *until {
            return;
        }
        let members = read_members(&joined.members);
        let assignor =
            group.config.assignors.iter().find(|assignor| assignor.name() == group.protocol).cloned();
        let topics = group.topics_of(&members);
        group.assigned_from = group.picture();
        let result = match assignor {
            Some(assignor) => assign(&*assignor, members, &topics),
            None => Err(format!(
                "the coordinator chose the assignor {:?}, which we did not offer",
                group.protocol
            )),
        };
        match result {
            Ok((assignments, odd)) => {
                odd.into_iter().for_each(|what| self.tell_assigning(what));
                self.sync(now, assignments);
            }
            Err(what) => {
                // Nobody gets anything until it is mended; without an answer of ours the members would wait.
                self.tell_assigning(what);
                self.sync(now, Vec::new());
            }
        }
    }

    fn tell_assigning(&mut self, what: String) {
        let Some(group) = &self.group else { return };
        let group = group.config.id.clone();
        self.tell(Event::AssignmentOdd { group, what });
    }

    // What metadata says of the group's topics.

    /// Takes the picture for the group's sake: the leader sees growth, a pattern new topics.
    pub(crate) fn group_sees(&mut self, now: Instant, response: &MetadataResponse) {
        let Some(group) = &mut self.group else { return };
        let racks: BTreeMap<i32, &str> =
            response.brokers.iter().filter_map(|b| Some((b.node_id, b.rack.as_deref()?))).collect();
        for topic in &response.topics {
            let Some(name) = topic.name.as_deref() else { continue };
            let code = Code(topic.error_code);
            if code == Code::NONE {
                let mut partitions: Vec<_> = topic.partitions.iter().collect();
                partitions.sort_by_key(|partition| partition.partition_index);
                let racks_of = |nodes: &Vec<i32>| {
                    nodes.iter().filter_map(|node| racks.get(node).map(|rack| (*rack).to_owned())).collect()
                };
                let partitions =
                    partitions.iter().map(|p| GroupPartition { racks: racks_of(&p.replica_nodes) }).collect();
                group.vanished.remove(name);
                group.view.insert(Arc::from(name), partitions);
            } else if verdict(Place::Topic, code) == Verdict::Missing {
                group.miss(name);
            }
        }
        let answered = response.topics.iter().filter_map(|topic| topic.name.as_deref());
        group.answered = answered.map(Arc::from).collect();
        if self.config.pattern.is_some() {
            group.see_all();
        }
        self.picture_may_have_changed(now);
    }

    fn picture_may_have_changed(&mut self, now: Instant) {
        let subscribed = self.subscribed();
        let Some(group) = &mut self.group else { return };
        if !group.config.member {
            return;
        }
        let joined = !matches!(group.phase, Phase::Apart | Phase::Left);
        if joined && subscribed != group.joined_topics {
            group.joined_topics = subscribed;
            return self.want_rejoin(now, "the topics that we read have changed".to_owned());
        }
        let picture = group.picture();
        if group.leads && matches!(group.phase, Phase::Stable) && picture != group.assigned_from {
            let reason = difference(&group.assigned_from, &picture);
            group.assigned_from = picture;
            self.want_rejoin(now, reason);
        }
    }
}

/// What each member is assigned, as it is sent; and what was odd about the members.
type Assigned = (Vec<(String, Bytes)>, Vec<String>);

/// Runs the assignor; what it returns is checked, for it may be the user's.
fn assign(
    assignor: &dyn Assignor,
    members: Vec<(GroupMember, Option<String>)>,
    topics: &GroupTopics,
) -> Result<Assigned, String> {
    let odd = members.iter().filter_map(|(_, odd)| odd.clone()).collect();
    let members: Vec<GroupMember> = members.into_iter().map(|(member, _)| member).collect();
    let assignment = assignor.assign(&members, topics);
    check_assignment(&members, topics, &assignment)
        .map_err(|what| format!("the assignor {:?}: {what}", assignor.name()))?;
    let none = Vec::new();
    let of = |member: &GroupMember| {
        (member.id.clone(), write_assignment(assignment.get(&member.id).unwrap_or(&none)))
    };
    Ok((members.iter().map(of).collect(), odd))
}

/// A member whose subscription makes no sense gets nothing, and holds nobody up.
fn read_members(members: &[JoinGroupResponseMember]) -> Vec<(GroupMember, Option<String>)> {
    let read = |member: &JoinGroupResponseMember| {
        let (id, instance) = (member.member_id.clone(), member.group_instance_id.clone());
        match read_subscription(id.clone(), instance, &member.metadata) {
            Ok(member) => (member, None),
            Err(what) => {
                let odd =
                    format!("member {id} wrote a subscription that makes no sense: {what}; it gets nothing");
                (GroupMember::new(id, Vec::<Arc<str>>::new()), Some(odd))
            }
        }
    };
    members.iter().map(read).collect()
}

fn difference(before: &BTreeMap<Arc<str>, usize>, after: &BTreeMap<Arc<str>, usize>) -> String {
    let changed = after.iter().find(|(topic, count)| before.get(*topic) != Some(count));
    let gone = before.keys().find(|topic| !after.contains_key(*topic));
    match (changed, gone) {
        (Some((topic, count)), _) => format!("topic {topic} has {count} partitions now"),
        (None, Some(topic)) => format!("topic {topic} is gone"),
        (None, None) => "the topics have changed".to_owned(),
    }
}

impl Group {
    /// How many partitions each of the group's topics has.
    fn picture(&self) -> BTreeMap<Arc<str>, usize> {
        let known = |topic: &Arc<str>| Some((topic.clone(), self.view.get(topic)?.len()));
        self.foreign.iter().filter_map(known).collect()
    }

    fn topics_of(&self, members: &[(GroupMember, Option<String>)]) -> GroupTopics {
        let wanted = members.iter().flat_map(|(member, _)| &member.topics);
        let known = |topic: &Arc<str>| Some((topic.clone(), self.view.get(topic)?.clone()));
        wanted.filter_map(known).collect()
    }

    /// Whether metadata has said of each of the group's topics what there is of it.
    fn knows_all(&self) -> bool {
        self.foreign.iter().all(|topic| self.view.contains_key(topic) || self.answered.contains(topic))
    }

    fn miss(&mut self, name: &str) {
        let times = self.vanished.entry(Arc::from(name)).or_default();
        *times = times.saturating_add(1);
        if *times >= VANISHED_AFTER || !self.assigned_from.contains_key(name) {
            self.view.remove(name);
            self.vanished.remove(name);
        }
    }

    /// Who asked for all topics is not told which are not there.
    fn see_all(&mut self) {
        let unseen = |topic: &&Arc<str>| !self.answered.contains(*topic);
        let missing: Vec<Arc<str>> = self.foreign.iter().filter(unseen).cloned().collect();
        for topic in missing {
            self.miss(&topic);
            self.answered.insert(topic);
        }
    }
}
