//! What readers of other clients had to find out, and ours may rely on.

use ottla_core::{Assignor, GroupMember, Range, RoundRobin, Sticky};

use crate::group::{counts, lists, topics};

fn members<const N: usize>(ids: [&str; N], topics: &[&'static str]) -> [GroupMember; N] {
    ids.map(|id| GroupMember::new(id, topics.iter().copied()))
}

#[test]
fn the_range_of_a_first_member_has_the_extra_partition_and_lists_are_sorted() {
    let given = lists(&Range, &members(["b", "a"], &["t", "s"]), &topics([("s", 3), ("t", 5)]));
    assert_eq!(given[1], ["s-0", "s-1", "t-0", "t-1", "t-2"]);
    assert_eq!(given[0], ["s-2", "t-3", "t-4"]);
}

#[test]
fn ranges_over_many_members_differ_by_one() {
    let ids: Vec<_> = (0..66).map(|number| format!("member-{number:02}")).collect();
    let members: Vec<_> = ids.iter().map(|id| GroupMember::new(id, ["t"])).collect();
    let assignment = Range.assign(&members, &topics([("t", 213)]));
    let counts: Vec<_> = counts(&assignment).into_values().collect();
    assert_eq!(counts, [vec![4; 15], vec![3; 51]].concat());
}

#[test]
fn round_robin_goes_on_where_the_last_topic_ended() {
    let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
    let members = members(["a", "b", "c"], &names);
    let topics = topics(names.map(|name| (name, 1)));
    let given = lists(&RoundRobin, &members, &topics);
    assert_eq!(given[0], ["t0-0", "t3-0", "t6-0", "t9-0"]);
    assert_eq!(given.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3, 3]);
    let range = lists(&Range, &members, &topics);
    assert_eq!(
        range.iter().map(Vec::len).collect::<Vec<_>>(),
        [10, 0, 0],
        "which is what range is known for"
    );
}

#[test]
fn round_robin_passes_over_members_that_did_not_ask() {
    let members = [GroupMember::new("a", ["t0"]), GroupMember::new("b", ["t0", "t1"])];
    let given = lists(&RoundRobin, &members, &topics([("t0", 3), ("t1", 2)]));
    assert_eq!(given, [vec!["t0-0", "t0-2"], vec!["t0-1", "t1-0", "t1-1"]]);
}

#[test]
fn a_missing_topic_harms_no_other() {
    let members = members(["a", "b"], &["gone", "t"]);
    for assignor in [&Range as &dyn Assignor, &RoundRobin, &Sticky] {
        let given = lists(assignor, &members, &topics([("t", 2)]));
        assert_eq!(given, [["t-0"], ["t-1"]], "{assignor:?}");
    }
}

#[test]
fn a_topic_that_nobody_asks_for_is_nobodys() {
    for assignor in [&Range as &dyn Assignor, &RoundRobin, &Sticky] {
        let given = lists(assignor, &members(["a"], &["t"]), &topics([("other", 4), ("t", 1), ("z", 1)]));
        assert_eq!(given, [["t-0"]], "{assignor:?}");
    }
}

#[test]
fn static_members_come_first_by_the_name_they_keep() {
    let mut members = members(["a", "z", "y"], &["t"]);
    members[1].instance = Some("instance-0".into());
    members[2].instance = Some("instance-1".into());
    for assignor in [&Range as &dyn Assignor, &RoundRobin] {
        let given = lists(assignor, &members, &topics([("t", 3)]));
        assert_eq!(given, [["t-2"], ["t-0"], ["t-1"]], "{assignor:?}");
    }
}

#[test]
fn a_range_is_near_its_reader_where_racks_differ() {
    let mut members = members(["a", "b"], &["t"]);
    members[0].rack = Some("east".into());
    members[1].rack = Some("west".into());
    let mut topics = topics([("t", 2)]);
    let partitions = topics.get_mut("t").unwrap();
    partitions[0].racks = vec!["west".into()];
    partitions[1].racks = vec!["east".into()];
    assert_eq!(lists(&Range, &members, &topics), [["t-1"], ["t-0"]]);
}

#[test]
fn a_member_that_joins_takes_only_its_share_from_the_others() {
    let mut members = members(["a", "b", "c"], &["t"]).to_vec();
    let topics = topics([("t", 9)]);
    let before = Sticky.assign(&members, &topics);
    remember(&mut members, &before, 7);
    members.push(GroupMember::new("0-comes-first", ["t"]));
    let after = Sticky.assign(&members, &topics);
    assert_eq!(counts(&after), [("0-comes-first", 2), ("a", 3), ("b", 2), ("c", 2)].into());
    for id in ["a", "b", "c"] {
        assert!(after[id].iter().all(|at| before[id].contains(at)), "{id} gets nothing new");
    }
}

#[test]
fn what_a_member_leaves_goes_to_the_others_and_the_rest_stays() {
    let mut members = members(["a", "b", "c"], &["t"]).to_vec();
    let topics = topics([("t", 9)]);
    let before = Sticky.assign(&members, &topics);
    remember(&mut members, &before, 7);
    members.remove(0);
    let after = Sticky.assign(&members, &topics);
    assert_eq!(counts(&after), [("b", 5), ("c", 4)].into());
    for id in ["b", "c"] {
        assert!(before[id].iter().all(|at| after[id].contains(at)), "{id} keeps all");
    }
}

#[test]
fn a_member_that_slept_through_a_generation_loses_to_the_one_that_did_not() {
    let topics = topics([("t", 2)]);
    let mut members = members(["a", "b"], &["t"]);
    let all = [("t", 0), ("t", 1)].map(|(topic, number)| ottla_core::TopicPartition::new(topic, number));
    members[0].user_data = Sticky.user_data(&all, 3);
    members[1].user_data = Sticky.user_data(&all[..1], 4);
    assert_eq!(lists(&Sticky, &members, &topics), [["t-1"], ["t-0"]]);
}

#[test]
fn no_member_and_no_topic_are_no_trouble() {
    for assignor in [&Range as &dyn Assignor, &RoundRobin, &Sticky] {
        assert!(assignor.assign(&[], &topics([("t", 2)])).is_empty());
        let nothing: [&[&str]; 2] = [&[], &["t"]];
        for asked in nothing {
            let member = [GroupMember::new("a", asked.iter().copied())];
            assert_eq!(lists(assignor, &member, &topics([("t", 0)])), [Vec::<String>::new()], "{assignor:?}");
        }
    }
}

fn remember(members: &mut [GroupMember], assignment: &ottla_core::Assignment, generation: i32) {
    for member in members {
        member.user_data = Sticky.user_data(&assignment[&member.id], generation);
    }
}
