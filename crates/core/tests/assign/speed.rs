//! A leader must not think for so long that the coordinator takes it for dead.

use std::time::{Duration, Instant};

use ottla_core::{Assignor, GroupMember, Range, RoundRobin, Sticky};

use crate::group::{check, topics};

/// In a debug build on a busy machine; what a release build takes is a hundredth of it.
const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a_hundred_members_and_ten_thousand_partitions_are_divided_at_once() {
    let names: Vec<_> = (0..100).map(|number| format!("topic-{number:02}")).collect();
    let topics = topics(names.iter().map(|name| (name.as_str(), 100)));
    let alike = |_: usize, _: usize| true;
    let differently = |member: usize, topic: usize| topic % 4 != member % 4;
    let staggered = |member: usize, topic: usize| topic >= member;
    for asks in [&alike as &dyn Fn(usize, usize) -> bool, &differently, &staggered] {
        let mut members: Vec<_> = (0..100)
            .map(|member| {
                let asked = names.iter().enumerate().filter(|(topic, _)| asks(member, *topic));
                GroupMember::new(format!("member-{member:02}"), asked.map(|(_, name)| name.as_str()))
            })
            .collect();
        for assignor in [&Range as &dyn Assignor, &RoundRobin, &Sticky] {
            measured(assignor, &members, &topics);
        }
        let before = Sticky.assign(&members, &topics);
        for member in &mut members {
            member.user_data = Sticky.user_data(&before[&member.id], 1);
        }
        members.truncate(60);
        measured(&Sticky, &members, &topics);
    }
}

fn measured(assignor: &dyn Assignor, members: &[GroupMember], topics: &ottla_core::GroupTopics) {
    let begin = now();
    let assignment = assignor.assign(members, topics);
    let took = begin.elapsed();
    println!("{}: {} members in {took:?}", assignor.name(), members.len());
    check(members, topics, &assignment);
    assert!(took < LIMIT, "{assignor:?} took {took:?}");
}

#[allow(clippy::disallowed_methods, reason = "measures")]
fn now() -> Instant {
    Instant::now()
}
