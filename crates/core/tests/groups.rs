//! One test a promise about groups, on a hand-wound clock: each is named after what must happen.

mod support;

use std::time::Duration;

use ottla_broker::{ApiKey, ClusterOptions, Fault as Mishap, GroupState};
use ottla_core::{
    Commit, CommitError, CommitOffset, Config, Event, Fault, GroupConfig, RebalanceKind, Settled, Start,
    Sticky, Take,
};
use ottla_wire::{
    code::Code,
    frame,
    message::{
        JoinGroupRequest, JoinGroupResponse, OffsetFetchRequest, SyncGroupRequest, SyncGroupResponse,
        join_group_request::JoinGroupRequestProtocol, offset_fetch_response::OffsetFetchResponse,
    },
};
use support::*;

const G: &str = "g";

fn world(nodes: i32) -> World {
    World::new(Setup { nodes, ..Setup::default() })
}

fn count(world: &World, client: usize, what: &str) -> usize {
    world.sent(client).iter().filter(|sent| sent.what == what).count()
}

/// A topic `t` whose partitions hold so many records each.
fn filled(nodes: i32, partitions: i32, records: u32) -> World {
    let mut world = world(nodes);
    world.topic("t", partitions);
    if records > 0 {
        (0..partitions).for_each(|partition| world.fill("t", partition, records));
    }
    world
}

fn member(world: &mut World) -> usize {
    member_with(world, |_, _| {})
}

fn member_with(world: &mut World, change: impl FnOnce(&mut Config, &mut GroupConfig)) -> usize {
    let mut config = world.member_config(G, &["t"]);
    let mut group = config.group.take().expect("it is a member's");
    change(&mut config, &mut group);
    world.open(Config { group: Some(group), ..config })
}

fn owned(world: &World, client: usize) -> usize {
    world.wards[G].owned(client).len()
}

fn committed(world: &World, partition: i32) -> Option<i64> {
    world.cluster.committed(G, "t", partition)
}

fn generation(world: &World) -> i32 {
    world.cluster.group(G).expect("somebody has joined").generation
}

fn is_stable(world: &World, members: usize) -> bool {
    let group = world.cluster.group(G);
    group.is_some_and(|group| group.state == GroupState::Stable && group.members.len() == members)
}

fn has_lost(world: &World, client: usize) -> bool {
    world.events(client).any(|event| matches!(event, Event::PartitionsLost { .. }))
}

fn is_closed(world: &World, client: usize) -> bool {
    world.clients[client].caller.closed.is_some()
}

/// Requests to coordinators, or to find them, that go out while so much time passes.
fn asked_of_coordinators(world: &mut World, client: usize, time: Duration) -> usize {
    let before = world.sent(client).len();
    world.run(time);
    let readers = ["metadata", "offsets", "epochs", "fetch"];
    world.sent(client)[before..].iter().filter(|sent| !readers.contains(&sent.what)).count()
}

/// One member, which has read and committed all.
fn settled(world: &mut World) -> usize {
    let one = member(world);
    world.until(secs(3), "all is committed", all_committed);
    one
}

/// One member, which has read all ten records and acknowledges nothing.
fn idle_handler(world: &mut World) -> usize {
    let one = member(world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 10);
    world.run(secs(1));
    one
}

/// Two members that share the partitions.
fn two_members(world: &mut World) -> (usize, usize) {
    let (one, two) = (member(world), member(world));
    world.until(secs(8), "both have some", |w| owned(w, one) > 0 && owned(w, two) > 0);
    world.until(secs(3), "all is committed", all_committed);
    (one, two)
}

fn commit_result(world: &mut World, client: usize, ticket: ottla_core::Ticket) -> Result<(), CommitError> {
    world.until(secs(30), "it is answered", |w| w.clients[client].caller.answer(ticket).is_some());
    match world.clients[client].caller.answer(ticket) {
        Some(Settled::Commit(result)) => result.clone(),
        other => panic!("{other:?}"),
    }
}

fn all_committed(world: &World) -> bool {
    world.wards[G].behind(&world.cluster, &world.truth, "t").is_none()
}

#[test]
fn heartbeats_go_on_while_the_leader_takes_its_time() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    let slow = member(&mut world);
    world.mishap(Mishap::delay(ApiKey::SyncGroup, secs(9)).always());
    let before = (count(&world, one, "heartbeat"), count(&world, slow, "heartbeat"));
    world.run(secs(10));
    let after = (count(&world, one, "heartbeat"), count(&world, slow, "heartbeat"));
    assert!(after.0 - before.0 >= 3 && after.1 - before.1 >= 2, "{before:?}, {after:?}");
}

#[test]
fn a_member_alone_reads_all_and_commits_it() {
    let mut world = filled(1, 3, 10);
    let one = member(&mut world);
    world.until(ms(100), "all is read", |w| w.reads(one).len() == 30);
    world.until(ms(1200), "all is committed", all_committed);
}

#[test]
fn a_second_member_takes_half_over_and_nothing_is_read_twice() {
    let mut world = filled(1, 4, 10);
    let one = member(&mut world);
    world.until(ms(100), "all is read", |w| w.reads(one).len() == 40);
    let two = member(&mut world);
    world.until(secs(4), "each has two", |w| owned(w, one) == 2 && owned(w, two) == 2);
    (0..4).for_each(|partition| world.fill("t", partition, 5));
    world.until(secs(2), "all is committed", all_committed);
    assert_eq!((world.wards[G].repeated, world.reads(two).len()), (0, 10));
}

#[test]
fn close_commits_and_leaves_at_once() {
    let mut world = filled(1, 4, 10);
    let one = member(&mut world);
    world.until(ms(100), "all is read", |w| w.reads(one).len() == 40);
    world.close(one, secs(5));
    world.until(ms(10), "it is closed", |w| w.clients[one].caller.closed.is_some());
    assert!(all_committed(&world));
    assert_eq!(world.cluster.group(G).map(|group| group.members.len()), Some(0));
}

#[test]
fn a_crashed_member_is_replaced_after_its_session() {
    let mut world = filled(1, 4, 10);
    let one = member(&mut world);
    let two = member(&mut world);
    world.until(secs(8), "each has two", |w| owned(w, one) == 2 && owned(w, two) == 2);
    world.crash(one, true);
    world.until(secs(14), "the other has all", |w| owned(w, two) == 4);
    world.until(secs(2), "all is committed", all_committed);
}

#[test]
fn gaps_in_the_log_never_take_the_committed_offset_back() {
    let mut world = filled(1, 1, 0);
    let one = member(&mut world);
    world.set_acks(one, Acks::Late(ms(1500)));
    for _ in 0..20 {
        world.append("t", 0, Produce { shape: Shape::Gaps(5), ..Produce::plain(1) });
        world.run(ms(300));
    }
    world.until(secs(4), "all is committed", all_committed);
}

#[test]
fn a_watched_reader_costs_a_few_wake_ups_an_interval() {
    let mut world = filled(1, 1, 10);
    member_with(&mut world, |_, group| {
        group.max_poll_interval = Some(secs(4));
        group.commit_interval = ms(20);
    });
    world.run(secs(30));
    let before = world.steps;
    world.run(secs(10));
    let steps = world.steps - before;
    assert!(steps < 700, "{steps} steps in 10 s, 500 of them to look whether something is to be committed");
}

#[test]
fn what_is_on_its_way_is_not_committed_again_at_the_interval() {
    let mut world = filled(1, 1, 0);
    world.net.latency_of.insert(1, Latency { least: ms(50), more: Duration::ZERO });
    let one = member_with(&mut world, |_, group| group.commit_interval = ms(60));
    world.run(secs(2));
    let before = count(&world, one, "commit");
    for _ in 0..10 {
        world.fill("t", 0, 1);
        world.run(secs(1));
    }
    assert_eq!(count(&world, one, "commit") - before, 10);
}

#[test]
fn an_answer_to_a_heartbeat_from_before_the_join_is_no_answer_for_after_it() {
    let mut world = filled(1, 2, 10);
    world.net.latency_of.insert(1, Latency { least: ms(5), more: ms(5) });
    let one = member_with(&mut world, |_, group| group.heartbeat_interval = ms(300));
    world.run(secs(1));
    for nth in 1..30 {
        world.mishap(Mishap::delay(ApiKey::Heartbeat, ms(20 * nth)).times(2));
        let two = member_with(&mut world, |_, group| group.heartbeat_interval = ms(300));
        world.until(secs(2), "each has one", |w| owned(w, one) == 1 && owned(w, two) == 1);
        world.close(two, secs(1));
        world.until(secs(2), "the first has both", |w| owned(w, one) == 2);
    }
    let lost = world.clients.iter().flat_map(|client| &client.events);
    let lost = lost.filter(|(_, event)| matches!(event, Event::PartitionsLost { .. }));
    assert_eq!(lost.count(), 0);
}

#[test]
fn an_offset_committed_before_the_beginning_is_known_is_not_replaced_by_it() {
    let mut world = filled(1, 1, 10);
    world.mishap(Mishap::delay(ApiKey::ListOffsets, secs(2)));
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(1), "it is assigned", |w| owned(w, one) == 1);
    let ticket = world.commit_offsets(one, &tp("t", 0), 7).expect("it is ours");
    world.until(secs(1), "it is committed", |w| w.clients[one].caller.answer(ticket).is_some());
    world.until(secs(3), "it is read from its beginning", |w| w.reads(one).len() == 10);
    world.run(secs(3));
    assert_eq!(world.cluster.committed(G, "t", 0), Some(7));
}

// Every code at every place.

/// What a coordinator may say, and something that none of ours says.
const CODES: &[Code] = &[
    Code::NOT_COORDINATOR,
    Code::COORDINATOR_NOT_AVAILABLE,
    Code::COORDINATOR_LOAD_IN_PROGRESS,
    Code::UNKNOWN_MEMBER_ID,
    Code::ILLEGAL_GENERATION,
    Code::REBALANCE_IN_PROGRESS,
    Code::MEMBER_ID_REQUIRED,
    Code::GROUP_AUTHORIZATION_FAILED,
    Code::TOPIC_AUTHORIZATION_FAILED,
    Code::INVALID_GROUP_ID,
    Code::INCONSISTENT_GROUP_PROTOCOL,
    Code::INVALID_SESSION_TIMEOUT,
    Code::GROUP_MAX_SIZE_REACHED,
    Code::UNKNOWN_TOPIC_OR_PARTITION,
    Code::UNSTABLE_OFFSET_COMMIT,
    Code::OFFSET_METADATA_TOO_LARGE,
    Code::INVALID_COMMIT_OFFSET_SIZE,
    Code::STALE_MEMBER_EPOCH,
    Code::FENCED_MEMBER_EPOCH,
    Code::UNSUPPORTED_VERSION,
    Code::REQUEST_TIMED_OUT,
    Code::UNKNOWN_SERVER_ERROR,
    Code(12345),
    Code(-2),
];

const PLACES: &[ApiKey] = &[
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::Heartbeat,
    ApiKey::OffsetFetch,
    ApiKey::OffsetCommit,
];

#[test]
fn a_code_that_comes_for_ever_makes_no_hot_loop_and_what_comes_after_it_works() {
    for &api in PLACES {
        for &code in CODES {
            let mut world = filled(1, 2, 10);
            let mishap = world.mishap(Mishap::error(api, code).always());
            let one = member(&mut world);
            let first = asked_of_coordinators(&mut world, one, secs(1));
            assert!(first < 40, "{code} at {api:?}: {first} requests in the first second");
            world.run(secs(20));
            let asked = asked_of_coordinators(&mut world, one, secs(20));
            assert!(asked <= 80, "{code} at {api:?}: {asked} requests in 20 s");
            world.cluster.clear_fault(mishap);
            world.run(secs(12));
            revive(&mut world, one);
            world.fill("t", 0, 1);
            world.run(secs(3));
            assert!(all_committed(&world), "{code} at {api:?}: it goes on when that is over");
        }
    }
}

/// A partition that has failed is read again from where it stands.
fn revive(world: &mut World, client: usize) {
    for at in world.clients[client].watch.failed_partitions() {
        world.seek(client, &at, Start::Earliest);
    }
}

/// A member that is told that it is unknown comes back as another; if that was wrong, the group waits for the one before.
fn time_to_forget(code: Code) -> Duration {
    if code == Code::UNKNOWN_MEMBER_ID { secs(12) } else { secs(5) }
}

#[test]
fn a_code_that_comes_once_costs_little() {
    for &api in PLACES {
        for &code in CODES {
            let mut world = filled(1, 2, 10);
            world.mishap(Mishap::error(api, code));
            let one = member(&mut world);
            world.run(time_to_forget(code));
            revive(&mut world, one);
            world.run(secs(2));
            assert!(all_committed(&world), "{code} at {api:?}");
            assert!(
                count(&world, one, "join") <= 5,
                "{code} at {api:?}: {} joins",
                count(&world, one, "join")
            );
        }
    }
}

#[test]
fn a_code_that_comes_once_in_the_middle_costs_little() {
    for &api in &PLACES[3..] {
        for &code in CODES {
            let mut world = filled(1, 2, 10);
            let one = settled(&mut world);
            let mishap = world.mishap(Mishap::error(api, code));
            if api == ApiKey::OffsetFetch {
                world.rejoin(one);
            }
            world.fill("t", 0, 5);
            world.run(time_to_forget(code));
            revive(&mut world, one);
            world.run(secs(3));
            assert_eq!(world.cluster.fault_hits(mishap), 1, "{code} at {api:?}");
            assert!(all_committed(&world), "{code} at {api:?}");
        }
    }
}

#[test]
fn what_is_fatal_reaches_the_caller_at_once_and_every_time_until_it_is_over() {
    for (api, code) in [
        (ApiKey::FindCoordinator, Code::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::FindCoordinator, Code::INVALID_GROUP_ID),
        (ApiKey::JoinGroup, Code::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::JoinGroup, Code::INCONSISTENT_GROUP_PROTOCOL),
        (ApiKey::JoinGroup, Code::INVALID_SESSION_TIMEOUT),
        (ApiKey::JoinGroup, Code::GROUP_MAX_SIZE_REACHED),
        (ApiKey::SyncGroup, Code::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::OffsetFetch, Code::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::OffsetCommit, Code::GROUP_AUTHORIZATION_FAILED),
    ] {
        let mut world = filled(1, 2, 10);
        let mishap = world.mishap(Mishap::error(api, code).always());
        let one = member(&mut world);
        world.until(ms(200), "it is told", |w| !w.faults(one).is_empty());
        for _ in 0..3 {
            let fault = world.take(one);
            assert!(
                matches!(&fault, Take::Fault(Fault::Group { code: told, .. }) if *told == code),
                "{api:?} {fault:?}"
            );
            world.run(secs(2));
        }
        world.cluster.clear_fault(mishap);
        world.until(secs(8), "it works when that is over", all_committed);
        assert!(!matches!(world.take(one), Take::Fault(_)), "{api:?} {code}");
    }
}

// The coordinator.

#[test]
fn a_refusal_to_name_the_coordinator_is_over_when_it_is_named() {
    let mut world = filled(2, 2, 10);
    let one = settled(&mut world);
    let first = world.cluster.coordinator(G).expect("there is one");
    world.mishap(Mishap::error(ApiKey::FindCoordinator, Code::GROUP_AUTHORIZATION_FAILED));
    world.coordinate(G, 3 - first);
    world.until(secs(10), "the caller is told", |w| !w.faults(one).is_empty());
    world.run(secs(10));
    let told = world.faults(one).len();
    world.fill("t", 0, 5);
    world.until(secs(3), "it reads on, as the member that it was", all_committed);
    assert_eq!((world.faults(one).len(), generation(&world)), (told, 1));
}

#[test]
fn a_coordinator_that_moves_at_any_step_costs_nothing_but_time() {
    for step in ["find", "join", "sync", "heartbeat", "recall", "commit"] {
        let mut world = filled(2, 4, 10);
        world.net.latency_of.insert(1, Latency { least: ms(2), more: ms(1) });
        let one = member(&mut world);
        world.until(secs(5), step, |w| count(w, one, step) > 0);
        let other = 3 - world.cluster.coordinator(G).expect("it runs");
        world.coordinate(G, other);
        world.until(secs(3), "it goes on", all_committed);
        assert_eq!((world.wards[G].repeated, has_lost(&world, one)), (0, false), "{step}");
    }
}

#[test]
fn a_coordinator_that_loads_at_any_step_costs_nothing_but_time() {
    for step in ["find", "join", "sync", "heartbeat", "recall", "commit"] {
        let mut world = filled(1, 4, 10);
        world.net.latency_of.insert(1, Latency { least: ms(2), more: ms(1) });
        let one = member(&mut world);
        world.until(secs(5), step, |w| count(w, one, step) > 0);
        world.load(G);
        let asked = asked_of_coordinators(&mut world, one, secs(8));
        assert!(asked <= 40, "{step}: {asked} requests in 8 s");
        world.loaded(G);
        world.run(secs(14)); // it asks, is told that nobody knows it, and asks as somebody new
        assert!(all_committed(&world), "{step}: it goes on");
        assert!(!has_lost(&world, one), "{step}");
    }
}

#[test]
fn a_coordinator_that_moves_is_no_reason_to_join_anew() {
    let mut world = filled(2, 4, 10);
    let (one, two) = two_members(&mut world);
    let before = generation(&world);
    for node in [1, 2, 1, 2, 1] {
        world.coordinate(G, node);
        (0..4).for_each(|partition| world.fill("t", partition, 3));
        world.until(secs(5), "all is committed", all_committed);
        world.run(secs(4));
    }
    assert_eq!((generation(&world), has_lost(&world, one), has_lost(&world, two)), (before, false, false));
}

#[test]
fn a_coordinator_that_stops_is_replaced_and_loses_nothing() {
    let mut world = filled(3, 6, 10);
    let (one, two) = two_members(&mut world);
    for _ in 0..3 {
        let node = world.cluster.coordinator(G).expect("it runs");
        world.stop(node, ottla_broker::Leaders::Move);
        (0..6).for_each(|partition| world.fill("t", partition, 3));
        world.until(secs(8), "all is committed", all_committed);
        world.start(node);
        world.run(secs(2));
    }
    assert_eq!((world.wards[G].repeated, has_lost(&world, one), has_lost(&world, two)), (0, false, false));
}

#[test]
fn a_node_that_cannot_name_the_coordinator_is_not_asked_again_and_again() {
    for seed in 0..5 {
        let mut world = filled(3, 3, 10);
        let error = Mishap::error(ApiKey::FindCoordinator, Code::COORDINATOR_NOT_AVAILABLE);
        world.mishap(error.node(2).always());
        member_with(&mut world, |config, _| config.seed = seed);
        world.until(secs(2), "another one is asked", all_committed);
    }
}

#[test]
fn rebalances_open_no_connections() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    world.rejoin(one);
    world.run(secs(3));
    let before = world.clients[one].dialled;
    for _ in 0..10 {
        world.rejoin(one);
        world.run(secs(1));
    }
    assert_eq!((world.clients[one].dialled, owned(&world, one)), (before, 2));
}

// Joining.

#[test]
fn a_member_comes_back_with_the_id_that_it_was_given() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    assert_eq!(count(&world, one, "join"), 2, "one to get an id, one with it");
    let group = world.cluster.group(G).expect("there is one");
    assert_eq!((group.members.len(), group.pending.len()), (1, 0));
}

#[test]
fn a_join_whose_answer_is_lost_leaves_no_ghost() {
    for lost in 1..3 {
        let mut world = filled(1, 2, 10);
        let one = settled(&mut world);
        let id = world.clients[one].machine.member().expect("it is in").id;
        world.mishap(Mishap::cut(ApiKey::JoinGroup, 0).times(lost));
        world.rejoin(one);
        world.until(secs(3), "it is in again", |w| is_stable(w, 1) && owned(w, one) == 2);
        assert_eq!(world.clients[one].machine.member().expect("it is in").id, id);
    }
}

/// The connection stands, only that answer never comes.
#[test]
fn an_answer_that_never_comes_is_not_waited_for_longer_than_the_coordinator_knows_us() {
    for api in [ApiKey::JoinGroup, ApiKey::SyncGroup] {
        let mut world = filled(1, 2, 10);
        let one = member_with(&mut world, |config, _| config.request_timeout = secs(15));
        world.until(secs(3), "all is committed", all_committed);
        world.mishap(Mishap::delay(api, secs(3600)));
        world.rejoin(one);
        world.run(secs(1));
        assert_eq!(owned(&world, one), 0);
        // Of a join, the coordinator forgets us after 10 s, and two heartbeats say so. The leader's assignment is answered at
        // once, if it is: within 15 s.
        world.until(secs(18), "it is in again", |w| is_stable(w, 1) && owned(w, one) == 2);
        world.fill("t", 1, 5);
        world.until(secs(2), "it reads on", all_committed);
    }
}

/// As the test before, but the coordinator holds the join for a member that takes its time.
#[test]
fn a_join_that_is_held_is_waited_for() {
    let mut world = filled(1, 2, 10);
    let slow = |_: &mut Config, group: &mut GroupConfig| group.rebalance_timeout = secs(120);
    let one = member_with(&mut world, slow);
    world.until(secs(3), "all is committed", all_committed);
    let mut stranger = Stranger::join(&mut world, &[0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff]);
    world.until(secs(5), "ours gets its part", |w| owned(w, one) == 1);
    stranger.sync(&mut world);
    let two = member_with(&mut world, slow);
    // The stranger is missed when its session ends; until then nobody is answered.
    world.until(secs(40), "both are in", |w| is_stable(w, 2) && owned(w, one) == 1 && owned(w, two) == 1);
    for member in [one, two] {
        let told = |event: &&Event| matches!(event, Event::Retrying { .. });
        assert_eq!(world.events(member).find(told), None);
    }
}

#[test]
fn an_answer_that_contradicts_itself_or_what_we_sent_is_asked_for_again() {
    let wrong_leader = || {
        Mishap::rewrite::<JoinGroupRequest>(|response: &mut JoinGroupResponse, _| {
            response.leader.push('!');
        })
        .times(2)
    };
    let nothing = || {
        Mishap::rewrite::<SyncGroupRequest>(|response: &mut SyncGroupResponse, _| {
            response.assignment = [&[0; 6][..], &[0xff; 4]].concat().into();
        })
    };
    for (mishap, told) in [
        (wrong_leader(), "is none of its members"),
        (nothing(), "we lead the group, and were assigned what we had not sent"),
    ] {
        let mut world = filled(1, 2, 10);
        world.mishap(mishap);
        let one = member(&mut world);
        world.until(secs(3), "all is read", |w| all_committed(w) && owned(w, one) == 2);
        let says = |event: &Event| matches!(event, Event::Misbehaved { what, .. } if what.contains(told));
        assert_eq!(world.events(one).filter(|event| says(event)).count(), 1);
    }
}

#[test]
fn a_member_without_partitions_waits_and_takes_over() {
    let mut world = filled(1, 2, 10);
    let members: Vec<usize> = (0..3).map(|_| member(&mut world)).collect();
    world.until(secs(8), "all are in", |w| is_stable(w, 3));
    world.run(secs(1));
    let idle =
        *members.iter().find(|&&m| owned(&world, m) == 0).expect("there are more members than partitions");
    let asked = asked_of_coordinators(&mut world, idle, secs(30));
    assert!(asked <= 11, "{asked} requests in 30 s by a member without partitions");
    let busy = *members.iter().find(|&&m| owned(&world, m) == 1).expect("two have one");
    world.close(busy, secs(5));
    world.until(secs(5), "it takes over", |w| owned(w, idle) == 1);
}

#[test]
fn an_assignor_that_nobody_else_has_is_told_and_harms_nobody() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    let before = generation(&world);
    let two = member_with(&mut world, |_, group| group.assignors = vec![std::sync::Arc::new(Sticky)]);
    world.run(secs(10));
    let told = |fault: &Fault| matches!(fault, Fault::Group { code: Code::INCONSISTENT_GROUP_PROTOCOL, .. });
    assert!(world.faults(two).iter().any(told));
    assert_eq!((generation(&world), owned(&world, one)), (before, 2));
    world.close(one, secs(5));
    world.until(secs(10), "alone it gets in", |w| owned(w, two) == 2);
    assert!(!matches!(world.take(two), Take::Fault(_)));
}

#[test]
fn a_group_that_is_full_is_told_until_there_is_room() {
    let cluster = ClusterOptions::new().max_group_size(1);
    let mut world = World::new(Setup { cluster, ..Setup::default() });
    world.topic("t", 2);
    let one = member(&mut world);
    world.until(secs(1), "the first is in", |w| owned(w, one) == 2);
    let two = member(&mut world);
    let told = |fault: &Fault| matches!(fault, Fault::Group { code: Code::GROUP_MAX_SIZE_REACHED, .. });
    world.until(secs(1), "it is told", |w| w.faults(two).iter().any(told));
    world.close(one, secs(5));
    world.until(secs(7), "there is room", |w| owned(w, two) == 2);
}

#[test]
fn of_two_with_one_instance_id_the_later_stays_and_the_earlier_is_told_for_good() {
    let mut world = filled(1, 2, 10);
    let instance = |_: &mut Config, group: &mut GroupConfig| group.instance = Some("i".to_owned());
    let one = member_with(&mut world, instance);
    world.until(secs(3), "all is committed", all_committed);
    let two = member_with(&mut world, instance);
    let told = |fault: &Fault| matches!(fault, Fault::Group { code: Code::FENCED_INSTANCE_ID, .. });
    world.until(secs(5), "the earlier is told", |w| w.faults(one).iter().any(told));
    world.until(secs(5), "the later has all", |w| owned(w, two) == 2);
    let before = generation(&world);
    assert_eq!(asked_of_coordinators(&mut world, one, secs(30)), 0, "it stays out");
    assert!(matches!(world.take(one), Take::Fault(Fault::Group { .. })), "it is told every time");
    assert_eq!(generation(&world), before);
    world.close(one, secs(5));
    world.until(ms(10), "it can be closed", |w| is_closed(w, one));
}

#[test]
fn a_dead_coordinator_that_is_named_again_and_again_is_told_once() {
    let mut world = filled(2, 2, 10);
    let one = settled(&mut world);
    let node = world.cluster.coordinator(G).expect("there is one");
    let found = |w: &World| {
        let events = w.clients[one].events.iter();
        events.filter(|(_, event)| matches!(event, Event::CoordinatorFound { .. })).count()
    };
    let (told, asked) = (found(&world), count(&world, one, "find"));
    world.kill(node);
    world.coordinate(G, node);
    world.until(secs(60), "it is named more than once", |w| count(w, one, "find") > asked + 2);
    assert_eq!(found(&world), told);
}

#[test]
fn what_was_handed_out_of_a_topic_that_was_made_anew_counts_for_nothing() {
    let mut world = filled(1, 1, 100);
    let one = settled(&mut world);
    world.set_acks(one, Acks::Never);
    world.delete_topic("t");
    world.topic("t", 1); // between two looks
    world.fill("t", 0, 30);
    let recreated = |w: &World| w.events(one).any(|event| matches!(event, Event::TopicRecreated { .. }));
    world.until(secs(70), "it is noticed", recreated);
    let pieces = world.pieces(one, &tp("t", 0));
    world.until(secs(5), "it is read", |w| w.pieces(one, &tp("t", 0)).len() > pieces.len());
    let old = pieces.last().expect("something was handed out");
    assert!(old.tenure.ack(old.from, old.to).is_err(), "it is fenced");
    assert!(old.tenure.ack_through(old.to).is_err(), "it is fenced");
    world.run(secs(10));
    assert_eq!(world.cluster.committed(G, "t", 0), Some(0), "nothing of the new one is done");
    let new = world.pieces(one, &tp("t", 0)).split_off(pieces.len());
    assert!(new.iter().all(|piece| world.ack(one, piece)), "it is open");
    world.until(secs(10), "it is committed", |w| w.cluster.committed(G, "t", 0) == Some(30));
}

#[test]
fn an_answer_to_a_commit_of_before_does_not_hide_that_another_has_our_place() {
    let mut world = filled(1, 1, 10);
    let instance = |_: &mut Config, group: &mut GroupConfig| {
        (group.instance, group.commit_interval) = (Some("i".to_owned()), ms(10));
    };
    let one = member_with(&mut world, instance);
    world.until(secs(3), "all is committed", all_committed);
    world.mishap(Mishap::delay(ApiKey::Heartbeat, ms(500)).always());
    let two = member_with(&mut world, instance);
    world.until(secs(5), "the later has all", |w| owned(w, two) == 1);
    let heartbeats = count(&world, one, "heartbeat");
    world.until(secs(5), "the earlier asks", |w| count(w, one, "heartbeat") > heartbeats);
    // Its commit goes out before it is told.
    let commits = count(&world, one, "commit");
    world.fill("t", 0, 1);
    world.until(ms(400), "it commits", |w| count(w, one, "commit") > commits);
    world.run(secs(2));
    let told = |take: Take| matches!(take, Take::Fault(Fault::Group { code: Code::FENCED_INSTANCE_ID, .. }));
    assert!(told(world.take(one)), "it is told every time");
}

#[test]
fn a_static_member_that_comes_back_in_time_costs_no_rebalance() {
    let mut world = filled(1, 4, 10);
    let instance = |name: &'static str| {
        move |_: &mut Config, group: &mut GroupConfig| group.instance = Some(name.to_owned())
    };
    let one = member_with(&mut world, instance("a"));
    let two = member_with(&mut world, instance("b"));
    world.until(secs(8), "both have two", |w| owned(w, one) == 2 && owned(w, two) == 2);
    for mut client in [one, two] {
        let (name, before) = (if client == one { "a" } else { "b" }, generation(&world));
        world.close(client, secs(5));
        world.until(secs(5), "it is closed", |w| is_closed(w, client));
        client = member_with(&mut world, instance(name));
        world.until(secs(5), "it is back", |w| owned(w, client) == 2);
        assert_eq!(generation(&world), before, "{name} was expected back");
    }
    (0..4).for_each(|partition| world.fill("t", partition, 3));
    world.until(secs(3), "all is committed", all_committed);
    assert_eq!(world.wards[G].repeated, 0);
}

#[test]
fn a_hundred_members_that_join_at_once_become_a_group() {
    let mut world = filled(1, 100, 1);
    let members: Vec<usize> =
        (0..100).map(|seed| member_with(&mut world, |config, _| config.seed = seed)).collect();
    world.until(secs(40), "each has one", |w| members.iter().all(|&m| owned(w, m) == 1));
    world.until(secs(3), "all is committed", all_committed);
    let joins: usize = members.iter().map(|&m| count(&world, m, "join")).sum();
    assert!(joins <= 500, "{joins} joins");
    assert_eq!(world.wards[G].repeated, 0);
}

// Members of other kinds.

/// A member that speaks the protocol badly: what it sends is written by hand, and what it is told it does not read.
struct Stranger {
    connection: ottla_broker::ConnectionId,
    next: i32,
}

impl Stranger {
    /// Joins in a version in which the coordinator hands out no ids, with this subscription.
    fn join(world: &mut World, subscription: &[u8]) -> Self {
        let node = world.cluster.coordinator(G).expect("it runs");
        let connection = world.cluster.connect(node).expect("it runs");
        let mut stranger = Self { connection, next: 1 };
        let protocol = |name: &str| JoinGroupRequestProtocol {
            name: name.to_owned(),
            metadata: subscription.to_vec().into(),
            ..JoinGroupRequestProtocol::default()
        };
        let join = JoinGroupRequest {
            group_id: G.to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol("range"), protocol("roundrobin")],
            ..JoinGroupRequest::default()
        };
        stranger.send(world, &join, 3);
        stranger
    }

    fn send<R: ottla_wire::message::Request>(&mut self, world: &mut World, request: &R, version: i16) {
        let bytes = frame::encode_request(request, version, self.next, "stranger").expect("a request");
        self.next += 1;
        world.cluster.handle_frame(world.now, 0, self.connection, bytes::Bytes::from(bytes).slice(4..));
        world.settle();
    }

    fn id(world: &World) -> Option<String> {
        let group = world.cluster.group(G)?;
        group.members.into_iter().find(|member| member.client_id == "stranger").map(|member| member.id)
    }

    /// Takes its assignment, whatever it is.
    fn sync(&mut self, world: &mut World) {
        let sync = SyncGroupRequest {
            group_id: G.to_owned(),
            generation_id: generation(world),
            member_id: Self::id(world).expect("it is in"),
            ..SyncGroupRequest::default()
        };
        self.send(world, &sync, 2);
    }
}

#[test]
fn a_member_whose_subscription_makes_no_sense_gets_nothing_and_harms_nobody() {
    // Topics, no user data, nothing owned, no generation, no rack, and what a version to come may add.
    let topics = [0, 9, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let newer = [&topics[..], &[0xff; 6], &[1, 2, 3, 4, 5]].concat();
    for (garbage, parts) in
        [(&b""[..], 0), (&[0xff; 30], 0), (&[0, 1, 0x7f, 0xff, 0xff, 0xff], 0), (&newer, 1)]
    {
        let mut world = filled(1, 2, 10);
        let one = settled(&mut world);
        let mut stranger = Stranger::join(&mut world, garbage);
        world.until(secs(5), "ours assigns", |w| owned(w, one) == 2 - parts && generation(w) > 1);
        stranger.sync(&mut world);
        world.until(secs(1), "all is well", |w| is_stable(w, 2));
        let odd = world.events(one).any(|event| matches!(event, Event::AssignmentOdd { .. }));
        assert!(odd == (parts == 0) || garbage.is_empty(), "{garbage:?}");
        world.fill("t", 1, 5);
        world.fill("t", 0, 5);
        // The stranger never says anything again.
        world.until(secs(20), "it is missed, and ours reads on", |w| owned(w, one) == 2 && all_committed(w));
        world.until(secs(20), "it is missed", |w| is_stable(w, 1));
    }
}

#[test]
fn a_member_that_never_takes_its_assignment_is_missed() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    let _stranger = Stranger::join(&mut world, &[0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff]);
    world.until(secs(5), "ours gets its part", |w| owned(w, one) == 1);
    world.until(secs(30), "it gets the rest", |w| owned(w, one) == 2 && is_stable(w, 1));
    assert!(!has_lost(&world, one));
}

/// What was waited for in vain runs into its deadline, and one pause follows; not another one of each broker, and of the group.
#[test]
fn after_an_outage_one_pause_is_waited_through_and_not_one_after_the_other() {
    let mut longest = Duration::ZERO;
    for seed in 0..60 {
        let outage = ms(15_000 + 370 * seed);
        let mut world = World::new(Setup { seed, ..Setup::default() });
        world.topic("t", 1);
        world.fill("t", 0, 10);
        let one = member_with(&mut world, |config, _| config.request_timeout = secs(5));
        world.until(secs(3), "all is committed", all_committed);
        world.darken(1);
        world.run(outage);
        world.lighten(1);
        world.fill("t", 0, 1);
        let took = world.until(secs(30), "it reads on", |w| w.offsets(one, "t", 0).contains(&10));
        longest = longest.max(took);
    }
    assert!(longest < secs(7), "{longest:?}");
}

// What the leader knows.

#[test]
fn a_topic_that_is_missing_is_waited_for_and_harms_no_other() {
    let mut world = filled(1, 2, 10);
    let config = world.member_config(G, &["t", "missing"]);
    let one = world.open(config);
    world.until(secs(3), "what is there is read", |w| all_committed(w) && owned(w, one) == 2);
    world.run(secs(30));
    assert_eq!(generation(&world), 1, "a topic that stays missing is no change");
    world.topic("missing", 3);
    world.fill("missing", 2, 5);
    world.until(secs(8), "it is found and read", |w| w.offsets(one, "missing", 2).len() == 5);
}

#[test]
fn new_partitions_are_noticed_by_the_leader_and_read_from_their_beginning() {
    for start in [Start::Earliest, Start::Latest] {
        let mut world = filled(1, 2, 0);
        let age = |config: &mut Config, _: &mut GroupConfig| {
            config.metadata_max_age = secs(5);
            config.start = start;
        };
        let members = [member_with(&mut world, age), member_with(&mut world, age)];
        world.until(secs(8), "both have one", |w| members.iter().all(|&m| owned(w, m) == 1));
        world.run(secs(1));
        world.grow_topic("t", 6);
        (2..6).for_each(|partition| world.fill("t", partition, 5));
        world.until(secs(10), "all are shared", |w| members.iter().all(|&m| owned(w, m) == 3));
        let read = |w: &World| members.iter().map(|&m| w.reads(m).len()).sum::<usize>();
        world.until(secs(2), "what came before they were known is read", |w| read(w) == 20);
        world.until(secs(2), "all is committed", all_committed);
    }
}

#[test]
fn the_leader_notices_growth_of_topics_that_only_others_read() {
    for leader_reads in ["t", "u"] {
        let mut world = filled(1, 1, 1);
        world.topic("u", 1);
        let mut config = world.member_config(G, &[leader_reads]);
        config.metadata_max_age = secs(5);
        let one = world.open(config);
        world.until(secs(2), "it leads", |w| {
            w.clients[one].machine.member().is_some_and(|member| member.leader)
        });
        let other = if leader_reads == "t" { "u" } else { "t" };
        let mut config = world.member_config(G, &[other]);
        config.metadata_max_age = secs(300);
        let two = world.open(config);
        world.until(secs(8), "both are in", |w| owned(w, one) == 1 && owned(w, two) == 1);
        world.run(secs(1));
        world.grow_topic(other, 3);
        world.until(secs(10), "the other has them all", |w| owned(w, two) == 3);
        assert_eq!(owned(&world, one), 1);
    }
}

#[test]
fn a_partition_of_a_topic_that_was_not_asked_for_is_told_and_not_read() {
    let mut world = filled(1, 2, 10);
    world.topic("u", 1);
    let one = settled(&mut world);
    // The leader's too, who notices.
    world.mishap(
        Mishap::rewrite::<SyncGroupRequest>(|response: &mut SyncGroupResponse, _| {
            // t 0, t 1 and u 0.
            let u = [
                0, 0, 0, 0, 0, 2, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b'u', 0, 0, 0, 1, 0,
                0, 0, 0,
            ];
            response.assignment = [&u[..], &[0xff; 4]].concat().into();
        })
        .times(2),
    );
    let two = member(&mut world);
    let odd = |w: &World| w.events(two).any(|event| matches!(event, Event::AssignmentOdd { .. }));
    world.until(secs(8), "it is told", odd);
    world.until(secs(8), "both are in", |w| owned(w, one) == 1 && owned(w, two) == 1);
    world.fill("t", 0, 5);
    world.fill("t", 1, 5);
    world.until(secs(3), "all is read", all_committed);
}

#[test]
fn an_assignment_that_makes_no_sense_is_asked_for_again() {
    let mut world = filled(1, 2, 10);
    world.mishap(Mishap::rewrite::<SyncGroupRequest>(|response: &mut SyncGroupResponse, _| {
        response.assignment = vec![0, 0, 0x7f].into();
    }));
    let one = member(&mut world);
    world.until(secs(3), "all is read", |w| all_committed(w) && owned(w, one) == 2);
}

#[test]
fn a_change_of_subscription_moves_what_is_read_and_only_that() {
    let mut world = filled(1, 2, 10);
    world.topic("u", 2);
    world.fill("u", 0, 5);
    let one = settled(&mut world);
    world.subscribe(one, &["t", "u"]);
    world.until(secs(2), "both are read", |w| owned(w, one) == 4 && w.offsets(one, "u", 0).len() == 5);
    world.subscribe(one, &["u"]);
    world.until(secs(2), "one is given up", |w| owned(w, one) == 2);
    world.fill("t", 0, 5);
    world.run(secs(2));
    assert_eq!(world.offsets(one, "t", 0).len(), 10);
    world.subscribe(one, &["t", "u"]);
    world.until(secs(2), "it goes on where it was", |w| w.offsets(one, "t", 0).len() == 15);
}

// Heartbeats and sessions.

#[test]
fn a_lost_heartbeat_is_sent_again_and_costs_nothing() {
    let faults: [fn() -> Mishap; 4] = [
        || Mishap::silence(ApiKey::Heartbeat),
        || Mishap::cut(ApiKey::Heartbeat, 0),
        || Mishap::close(ApiKey::Heartbeat),
        || Mishap::delay(ApiKey::Heartbeat, secs(5)),
    ];
    for fault in faults {
        let mut world = filled(1, 2, 10);
        let (one, two) = two_members(&mut world);
        let before = generation(&world);
        for _ in 0..4 {
            world.mishap(fault());
            world.run(secs(10));
            world.fill("t", 0, 1);
        }
        world.until(secs(4), "all is committed", all_committed);
        assert_eq!(
            (generation(&world), has_lost(&world, one), has_lost(&world, two)),
            (before, false, false)
        );
        assert_eq!(world.wards[G].repeated, 0);
    }
}

#[test]
fn a_member_that_is_not_heard_for_its_session_gives_all_up_by_itself() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    let piece = world.pieces(one, &tp("t", 0)).pop().expect("it was read");
    world.darken(1);
    world.until(secs(11), "it gives up", |w| has_lost(w, one));
    assert!(!piece.tenure.is_open() && !world.ack(one, &piece));
    world.lighten(1);
    world.until(secs(20), "it is in again", |w| owned(w, one) == 2);
}

#[test]
fn a_member_that_wakes_after_its_session_hands_out_nothing_new_and_its_commits_are_refused() {
    let mut world = filled(1, 2, 10);
    let (one, two) = two_members(&mut world);
    world.set_acks(one, Acks::Never);
    world.fill("t", 0, 5);
    world.fill("t", 1, 5);
    world.run(ms(100));
    let held = world.clients[one].caller.held.clone();
    assert_eq!(held.len(), 5);
    world.freeze(one);
    world.until(secs(20), "the other has all", |w| owned(w, two) == 2);
    world.until(secs(3), "the other has read all", all_committed);
    world.fill("t", 0, 5);
    world.fill("t", 1, 5);
    world.run(secs(2));
    let before = world.reads(one).len();
    world.thaw(one);
    world.run(ms(1));
    for piece in &held {
        assert!(!world.ack(one, piece));
        let commit = Commit::Through { tenure: piece.tenure.clone(), to: piece.to };
        assert!(matches!(world.commit(one, commit), Err(CommitError::Ack(_))));
    }
    assert_eq!(world.reads(one).len(), before);
    assert!(all_committed(&world), "the group's offset stays");
    world.until(secs(8), "it shares again", |w| owned(w, one) == 1 && owned(w, two) == 1);
}

#[test]
fn heartbeats_go_on_while_a_hook_takes_its_time() {
    let mut world = filled(1, 2, 10);
    let one = member_with(&mut world, |_, group| {
        group.hooks = true;
        group.session_timeout = secs(6);
        group.heartbeat_interval = secs(1);
    });
    world.until(secs(3), "all is committed", all_committed);
    world.clients[one].caller.hooks_take = Some(secs(12));
    let two = member(&mut world);
    world.run(secs(8));
    assert_eq!((owned(&world, two), has_lost(&world, one)), (0, false), "the group waits for the hook");
    world.until(secs(8), "then they share", |w| owned(w, one) == 1 && owned(w, two) == 1);
    assert!(!has_lost(&world, one));
}

#[test]
fn a_hook_that_never_ends_holds_the_group_until_its_deadline_only() {
    let mut world = filled(1, 2, 10);
    let one = member_with(&mut world, |_, group| group.hooks = true);
    world.until(secs(3), "all is committed", all_committed);
    world.clients[one].caller.hooks_take = None;
    let two = member(&mut world);
    world
        .until(secs(24), "its time is over before the others'", |w| owned(w, one) == 1 && owned(w, two) == 1);
    assert!(!has_lost(&world, one));
}

#[test]
fn a_hook_that_keeps_an_assignment_is_told_once() {
    let mut world = filled(1, 2, 10);
    let one = member_with(&mut world, |_, group| group.hooks = true);
    world.clients[one].caller.hooks_take = None;
    world.run(secs(60));
    let busy: Vec<String> = world
        .events(one)
        .filter(|event| matches!(event, Event::HookBusy { .. }))
        .map(Event::to_string)
        .collect();
    assert_eq!(
        busy,
        ["group g: a hook has kept t 0-1 for 20s; nothing of it is read until the hook is done"]
    );
    assert!(world.reads(one).is_empty() && is_stable(&world, 1));
}

#[test]
fn hooks_are_told_in_order_and_nothing_is_read_before_they_are_done() {
    let mut world = filled(1, 2, 10);
    let one = member_with(&mut world, |_, group| group.hooks = true);
    world.clients[one].caller.hooks_take = Some(secs(2));
    world.until(secs(1), "it is assigned", |w| owned(w, one) == 2);
    world.run(ms(1900));
    assert_eq!(world.reads(one).len(), 0);
    world.until(secs(1), "then it reads", |w| w.reads(one).len() == 20);
    world.clients[one].caller.hooks_take = Some(ms(10));
    world.rejoin(one);
    world.run(secs(2));
    world.darken(1);
    world.run(secs(12));
    let kinds = world.clients[one].caller.rebalances.iter().map(|(_, rebalance)| match rebalance.kind {
        RebalanceKind::Assigned => 'A',
        RebalanceKind::Revoked { .. } => 'R',
        RebalanceKind::Lost => 'L',
    });
    assert_eq!(kinds.collect::<String>(), "ARAL");
}

#[test]
fn a_hook_may_say_where_to_begin() {
    let mut world = filled(1, 1, 10);
    let one = member_with(&mut world, |_, group| group.hooks = true);
    world.clients[one].caller.hooks_take = Some(secs(1));
    world.until(secs(1), "it is assigned", |w| owned(w, one) == 1);
    world.seek(one, &tp("t", 0), Start::Offset(6));
    world.until(secs(3), "it is read from there", |w| w.offsets(one, "t", 0) == (6..10).collect::<Vec<_>>());
    world.until(secs(2), "all is committed", all_committed);
}

#[test]
fn a_reader_that_does_not_ask_gives_its_partitions_to_others_until_it_does() {
    let mut world = filled(1, 2, 10);
    let watched = |_: &mut Config, group: &mut GroupConfig| group.max_poll_interval = Some(secs(8));
    let (one, two) = (member_with(&mut world, watched), member(&mut world));
    world.until(secs(8), "both have one", |w| owned(w, one) == 1 && owned(w, two) == 1);
    world.run(secs(30));
    assert_eq!(owned(&world, one), 1, "who waits for records asks");
    world.set_habit(one, Habit::Stopped);
    (0..2).for_each(|partition| world.fill("t", partition, 5));
    world.until(secs(15), "the other has all", |w| owned(w, two) == 2);
    world.until(secs(2), "and reads it", all_committed);
    assert!(world.events(one).any(|event| matches!(event, Event::ReaderSilent { .. })));
    world.run(secs(20));
    world.set_habit(one, Habit::Fast);
    world.until(secs(8), "it is back", |w| owned(w, one) == 1 && owned(w, two) == 1);
}

// Rebalances.

#[test]
fn a_rebalance_of_an_idle_group_is_over_within_a_heartbeat_whatever_max_wait() {
    let mut world = filled(1, 8, 10);
    let idle = |config: &mut Config, _: &mut GroupConfig| config.max_wait = secs(60);
    let three: Vec<usize> = (0..3).map(|_| member_with(&mut world, idle)).collect();
    world.until(secs(12), "three share", |w| is_stable(w, 3) && three.iter().all(|&m| owned(w, m) >= 2));
    world.run(secs(40));
    let four = member_with(&mut world, idle);
    let all = |w: &World| is_stable(w, 4) && three.iter().chain([&four]).all(|&m| owned(w, m) == 2);
    world.until(secs(4), "four share", all);
    world.run(secs(40));
    world.close(four, secs(5));
    world.until(ms(50), "it is closed at once", |w| is_closed(w, four));
    world.until(secs(4), "three share", |w| is_stable(w, 3) && three.iter().all(|&m| owned(w, m) >= 2));
}

#[test]
fn a_revoke_takes_milliseconds() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    world.fill("t", 0, 5);
    world.run(ms(20)); // read and acknowledged, and not committed yet
    let before = count(&world, one, "join");
    world.rejoin(one);
    world.until(ms(5), "it joins again", |w| count(w, one, "join") > before);
    assert!(all_committed(&world), "what was acknowledged was committed before");
}

#[test]
fn a_fetch_that_is_answered_after_the_revoke_is_dropped() {
    let mut world = filled(1, 2, 0);
    let (one, two) = two_members(&mut world);
    world.run(secs(12)); // fetches park
    world.mishap(Mishap::delay(ApiKey::Fetch, secs(2)).times(4));
    (0..2).for_each(|partition| world.fill("t", partition, 5));
    world.rejoin(one);
    world.rejoin(two);
    world.until(secs(8), "all is read and committed", all_committed);
    assert_eq!(world.wards[G].repeated, 0);
}

#[test]
fn what_waits_in_the_queue_is_not_handed_out_after_the_revoke() {
    let mut world = filled(1, 2, 100);
    let one = member(&mut world);
    world.set_habit(one, Habit::Slow(10, ms(200)));
    world.until(secs(2), "it begins", |w| w.reads(one).len() >= 20);
    world.rejoin(one);
    let before = world.reads(one).len();
    world.until(secs(2), "it is in again", |w| owned(w, one) == 2);
    assert_eq!(world.reads(one).len(), before);
    world.set_habit(one, Habit::Fast);
    world.until(secs(3), "all is committed", all_committed);
    assert_eq!(world.wards[G].repeated, 0, "it goes on after what was acknowledged");
}

#[test]
fn a_partition_that_stays_is_still_paused_after_a_rebalance() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    world.pause(one, &tp("t", 0));
    world.fill("t", 0, 5);
    world.fill("t", 1, 5);
    world.rejoin(one);
    world.until(secs(3), "the other one is read", |w| w.offsets(one, "t", 1).contains(&14));
    world.run(secs(3));
    assert_eq!(world.offsets(one, "t", 0).last(), Some(&9));
    // Also while it is given up.
    world.rejoin(one);
    assert!(world.clients[one].machine.position(&tp("t", 0)).is_err());
    world.resume(one, &tp("t", 0));
    world.until(secs(1), "it is read", |w| w.offsets(one, "t", 0).contains(&14));
    // Somebody else has had it meanwhile: a new beginning.
    let paused = tp("t", 0);
    world.pause(one, &paused);
    let two = member(&mut world);
    world.until(secs(8), "both have one", |w| owned(w, one) == 1 && owned(w, two) == 1);
    let theirs = if world.wards[G].owned(one).contains(&paused) { one } else { two };
    world.fill("t", 0, 5);
    world.run(secs(3));
    assert_eq!(world.offsets(theirs, "t", 0).contains(&19), theirs == two);
}

#[test]
fn records_that_were_not_acknowledged_come_again_after_a_rebalance() {
    let mut world = filled(1, 1, 10);
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 10);
    let pieces = world.pieces(one, &tp("t", 0));
    pieces[..4].iter().chain(&pieces[6..]).for_each(|piece| assert!(world.ack(one, piece)));
    world.rejoin(one);
    world.until(secs(2), "the rest comes again", |w| w.reads(one).len() == 16);
    assert_eq!(world.offsets(one, "t", 0)[10..], [4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_message_of_a_partition_that_moved_away_is_neither_acknowledged_nor_committed() {
    let mut world = filled(1, 2, 10);
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 20);
    let held = [world.pieces(one, &tp("t", 0)), world.pieces(one, &tp("t", 1))].concat();
    let two = member(&mut world);
    world.until(secs(8), "they share", |w| owned(w, one) == 1 && owned(w, two) == 1);
    world.until(secs(4), "the other commits", |w| [0, 1].iter().any(|&p| committed(w, p) == Some(10)));
    let before = [committed(&world, 0), committed(&world, 1)];
    for piece in &held {
        assert!(!world.ack(one, piece));
        let error = world.commit(one, Commit::Through { tenure: piece.tenure.clone(), to: piece.to });
        let error = error.expect_err("it moved away").to_string();
        assert!(error.contains("t partition") && error.contains("given up"), "{error}");
    }
    let moved = if world.wards[G].owned(one).contains(&tp("t", 0)) { 1 } else { 0 };
    assert!(world.commit_offsets(one, &tp("t", moved), 3).is_err());
    world.run(secs(5));
    assert_eq!([committed(&world, 0), committed(&world, 1)], before);
}

// Commits.

#[test]
fn commits_that_wait_share_requests() {
    let mut world = filled(1, 1, 256);
    world.net.latency_of.insert(1, Latency { least: ms(10), more: Duration::ZERO });
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 256);
    world.run(secs(1));
    let before = count(&world, one, "commit");
    let pieces = world.pieces(one, &tp("t", 0));
    let commit = |world: &mut World, piece: &Piece| {
        world.commit(one, Commit::Through { tenure: piece.tenure.clone(), to: piece.to }).expect("it is ours")
    };
    let tickets: Vec<_> = pieces.iter().map(|piece| commit(&mut world, piece)).collect();
    for ticket in tickets {
        assert_eq!(commit_result(&mut world, one, ticket), Ok(()));
    }
    assert!(count(&world, one, "commit") - before <= 3, "{} requests", count(&world, one, "commit") - before);
    assert!(all_committed(&world));
}

#[test]
fn a_commit_of_something_earlier_does_not_go_back() {
    let mut world = filled(1, 1, 10);
    let one = settled(&mut world);
    let early = world.pieces(one, &tp("t", 0)).swap_remove(3);
    let ticket = world.commit(one, Commit::Through { tenure: early.tenure.clone(), to: early.to });
    let ticket = ticket.expect("it is ours");
    assert_eq!(commit_result(&mut world, one, ticket), Ok(()));
    assert!(world.ack(one, &early) && early.tenure.ack_through(2).is_ok());
    world.run(secs(3));
    assert_eq!(committed(&world, 0), Some(10));
}

#[test]
fn offsets_that_the_user_names_may_go_back() {
    let mut world = filled(1, 1, 10);
    let one = settled(&mut world);
    let ticket = world.commit_offsets(one, &tp("t", 0), 4).expect("it is ours");
    assert_eq!(commit_result(&mut world, one, ticket), Ok(()));
    world.run(secs(3));
    assert_eq!(committed(&world, 0), Some(4), "nothing was done since");
    world.close(one, secs(5));
    world.until(secs(1), "it is closed", |w| is_closed(w, one));
    assert_eq!(committed(&world, 0), Some(4));
}

#[test]
fn what_is_committed_is_never_beyond_what_is_not_acknowledged() {
    let mut world = filled(1, 1, 20);
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 20);
    let pieces = world.pieces(one, &tp("t", 0));
    for (acked, front) in [(1, 0), (2, 0), (0, 3), (19, 3), (3, 4)] {
        assert!(world.ack(one, &pieces[acked]));
        world.run(secs(2));
        assert_eq!(committed(&world, 0), Some(front), "after {acked}");
    }
}

#[test]
fn a_member_that_is_unknown_when_it_commits_joins_at_once() {
    for code in [Code::UNKNOWN_MEMBER_ID, Code::ILLEGAL_GENERATION, Code::REBALANCE_IN_PROGRESS] {
        let mut world = filled(1, 1, 10);
        let one = settled(&mut world);
        world.run(secs(4));
        world.mishap(Mishap::error(ApiKey::OffsetCommit, code));
        let piece = world.pieces(one, &tp("t", 0)).pop().expect("it was read");
        let before = count(&world, one, "join");
        world.fill("t", 0, 1);
        world.until(ms(1200), "it joins", |w| count(w, one, "join") > before);
        assert!(has_lost(&world, one) && !piece.tenure.is_open(), "{code}");
    }
}

#[test]
fn each_partition_has_an_answer_of_its_own() {
    let mut world = filled(1, 3, 10);
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 30);
    let refused = Mishap::partition_error(ApiKey::OffsetCommit, Code::TOPIC_AUTHORIZATION_FAILED);
    world.mishap(refused.partition(1).times(2));
    let offsets =
        (0..3).map(|p| (tp("t", p), CommitOffset { offset: 5, leader_epoch: -1, metadata: "m".into() }));
    let ticket = world.commit(one, Commit::Offsets(offsets.collect())).expect("they are ours");
    let Err(CommitError::Refused { partitions, .. }) = commit_result(&mut world, one, ticket) else {
        panic!("one was refused")
    };
    assert_eq!(partitions, [(tp("t", 1), Code::TOPIC_AUTHORIZATION_FAILED)]);
    assert_eq!([0, 1, 2].map(|p| committed(&world, p)), [Some(5), Some(0), Some(5)]);
    assert!(world.events(one).any(|event| matches!(event, Event::CommitFailed { .. })));
    assert!(world.faults(one).is_empty(), "reading goes on");
}

#[test]
fn metadata_that_is_too_large_is_refused_and_nothing_else() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    let with = |partition, letters| {
        let metadata = "x".repeat(letters);
        (tp("t", partition), CommitOffset { offset: 3, leader_epoch: -1, metadata })
    };
    let ticket =
        world.commit(one, Commit::Offsets(vec![with(0, 5000), with(1, 4000)])).expect("they are ours");
    let Err(CommitError::Refused { partitions, .. }) = commit_result(&mut world, one, ticket) else {
        panic!("one was refused")
    };
    assert_eq!(partitions, [(tp("t", 0), Code::OFFSET_METADATA_TOO_LARGE)]);
    assert_eq!([committed(&world, 0), committed(&world, 1)], [Some(10), Some(3)]);
    world.run(secs(3));
    world.fill("t", 0, 1);
    world.until(secs(2), "it goes on", |w| committed(w, 0) == Some(11));
}

#[test]
fn a_commit_that_is_refused_for_a_while_is_committed_in_the_end_and_its_caller_waits() {
    let retried = [
        Code::COORDINATOR_LOAD_IN_PROGRESS,
        Code::NOT_COORDINATOR,
        Code::COORDINATOR_NOT_AVAILABLE,
        Code::REQUEST_TIMED_OUT,
        Code::UNKNOWN_TOPIC_OR_PARTITION,
    ];
    for code in retried {
        let mut world = filled(1, 1, 10);
        let one = member(&mut world);
        world.set_acks(one, Acks::Never);
        world.until(secs(2), "all is read", |w| w.reads(one).len() == 10);
        world.run(secs(1));
        world.mishap(Mishap::error(ApiKey::OffsetCommit, code).times(3));
        let last = world.pieces(one, &tp("t", 0)).pop().expect("it was read");
        let ticket = world.commit(one, Commit::Through { tenure: last.tenure.clone(), to: last.to });
        let ticket = ticket.expect("it is ours");
        assert_eq!(commit_result(&mut world, one, ticket), Ok(()), "{code}");
        assert_eq!(committed(&world, 0), Some(10));
    }
}

#[test]
fn a_commit_that_the_group_is_not_authorized_for_is_told_to_its_caller() {
    let mut world = filled(1, 1, 10);
    let one = idle_handler(&mut world);
    world.mishap(Mishap::error(ApiKey::OffsetCommit, Code::GROUP_AUTHORIZATION_FAILED).always());
    let last = world.pieces(one, &tp("t", 0)).pop().expect("it was read");
    let ticket = world.commit(one, Commit::Through { tenure: last.tenure.clone(), to: last.to });
    let ticket = ticket.expect("it is ours");
    world.until(secs(1), "it is told", |w| w.clients[one].caller.answer(ticket).is_some());
    assert!(matches!(commit_result(&mut world, one, ticket), Err(CommitError::Refused { .. })));
    world.cluster.clear_faults();
    world.until(secs(7), "what was acknowledged is committed when it may be", all_committed);
}

#[test]
fn commits_that_wait_when_the_partition_goes_are_answered() {
    let mut world = filled(1, 1, 10);
    let one = idle_handler(&mut world);
    let last = world.pieces(one, &tp("t", 0)).pop().expect("it was read");
    world.darken(1);
    let ticket = world.commit(one, Commit::Through { tenure: last.tenure.clone(), to: last.to });
    let ticket = ticket.expect("it is ours");
    world.until(secs(11), "the session ends", |w| has_lost(w, one));
    assert!(matches!(commit_result(&mut world, one, ticket), Err(CommitError::Ack(_))));
}

#[test]
fn commits_that_wait_when_the_time_to_close_is_over_are_told_why() {
    let mut world = filled(1, 1, 10);
    let one = idle_handler(&mut world);
    world.mishap(Mishap::silence(ApiKey::OffsetCommit).always());
    let pieces = world.pieces(one, &tp("t", 0));
    let commit = |piece: &Piece| Commit::Through { tenure: piece.tenure.clone(), to: piece.to };
    let tickets: Vec<_> =
        pieces.iter().map(|piece| world.commit(one, commit(piece)).expect("it is ours")).collect();
    world.close(one, secs(5));
    world.until(secs(5), "it is closed", |w| is_closed(w, one));
    for ticket in tickets {
        let result = commit_result(&mut world, one, ticket);
        assert!(matches!(result, Err(CommitError::Unfinished { .. })), "{result:?}");
    }
}

#[test]
fn what_is_acknowledged_while_a_revoke_hook_works_is_committed_before_the_partition_goes() {
    let mut world = filled(1, 2, 10);
    let one = member_with(&mut world, |_, group| group.hooks = true);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 20);
    world.clients[one].caller.hooks_take = Some(secs(4));
    let pieces = [world.pieces(one, &tp("t", 0)), world.pieces(one, &tp("t", 1))].concat();
    let two = member(&mut world);
    world.until(secs(5), "it is revoked", |w| owned(w, one) == 0);
    world.run(secs(1));
    for piece in &pieces[..15] {
        assert!(world.ack(one, piece), "it may still be acknowledged");
    }
    world.run(secs(2));
    pieces[15..].iter().for_each(|piece| assert!(world.ack(one, piece)));
    world.until(secs(5), "they share", |w| owned(w, one) == 1 && owned(w, two) == 1);
    world.run(secs(1));
    assert_eq!((all_committed(&world), world.wards[G].repeated), (true, 0));
}

#[test]
fn a_message_that_is_sent_back_comes_again_and_is_not_committed() {
    let mut world = filled(1, 1, 10);
    let one = member(&mut world);
    world.set_acks(one, Acks::Never);
    world.until(secs(2), "all is read", |w| w.reads(one).len() == 10);
    let pieces = world.pieces(one, &tp("t", 0));
    pieces[..4].iter().for_each(|piece| assert!(world.ack(one, piece)));
    world.nack(one, &pieces[4]);
    world.until(secs(1), "it comes again", |w| w.reads(one).len() == 16);
    assert_eq!(world.offsets(one, "t", 0)[10..], [4, 5, 6, 7, 8, 9]);
    world.run(secs(2));
    assert_eq!(committed(&world, 0), Some(4));
}

#[test]
fn the_end_that_reading_began_at_is_committed_at_once() {
    let mut world = filled(1, 2, 10);
    let latest = |config: &mut Config, group: &mut GroupConfig| {
        config.start = Start::Latest;
        group.commit_interval = secs(60);
    };
    let one = member_with(&mut world, latest);
    world.until(ms(100), "where it begins is committed", |w| committed(w, 0) == Some(10));
    world.crash(one, true);
    world.fill("t", 0, 5);
    let two = member_with(&mut world, latest);
    world.until(secs(16), "what came meanwhile is read", |w| {
        w.offsets(two, "t", 0) == (10..15).collect::<Vec<_>>()
    });
}

#[test]
fn latest_loses_nothing_when_the_group_rebalances() {
    for commit_start in [true, false] {
        let mut world = filled(1, 2, 10);
        let latest = |config: &mut Config, group: &mut GroupConfig| {
            config.start = Start::Latest;
            group.commit_start = commit_start;
        };
        let one = member_with(&mut world, latest);
        world.run(secs(2));
        assert_eq!(committed(&world, 0), commit_start.then_some(10));
        world.rejoin(one);
        (0..2).for_each(|partition| world.fill("t", partition, 5));
        world.until(secs(3), "what came meanwhile is read", |w| w.reads(one).len() == 10);
    }
}

#[test]
fn a_second_cut_behind_a_committed_offset_is_noticed_by_whoever_begins_there() {
    let mut world = filled(2, 1, 20);
    world.lead("t", 0, Some(1));
    world.fill("t", 0, 10);
    let one = settled(&mut world);
    world.rejoin(one); // it has not read what lies before, and does not know its epochs
    world.until(secs(3), "it is in again", |w| owned(w, one) == 1);
    world.fill("t", 0, 5);
    world.until(secs(3), "all is committed", all_committed);
    world.truncate("t", 0, 20, 2);
    world.until(secs(3), "it goes back", |w| committed(w, 0) == Some(20));
    world.close(one, secs(5));
    world.until(secs(1), "it is closed", |w| is_closed(w, one));
    world.truncate("t", 0, 0, 1);
    world.fill("t", 0, 50);
    let two = member(&mut world);
    world.until(secs(3), "all is read", |w| w.offsets(two, "t", 0) == (0..50).collect::<Vec<_>>());
}

#[test]
fn what_was_handed_out_of_a_tail_that_was_cut_counts_for_nothing() {
    // By leader epochs, and by an offset that is out of range where there are none.
    let none = ClusterOptions::new().versions(ApiKey::Metadata, 0, 6).versions(ApiKey::Fetch, 4, 8);
    for cluster in [ClusterOptions::new(), none] {
        of_a_tail_that_was_cut(World::new(Setup { nodes: 2, cluster, ..Setup::default() }));
    }
}

fn of_a_tail_that_was_cut(mut world: World) {
    world.topic("t", 1);
    world.fill("t", 0, 10);
    world.lead("t", 0, Some(1));
    let one = settled(&mut world);
    world.set_acks(one, Acks::Never);
    (0..2).for_each(|_| world.fill("t", 0, 5)); // a log is cut between batches
    world.until(secs(3), "all is handed out", |w| w.pieces(one, &tp("t", 0)).len() == 20);
    let old = world.pieces(one, &tp("t", 0));
    world.truncate("t", 0, 15, 2);
    let noticed =
        |e: &Event| matches!(e, Event::Truncated { to: 15, .. } | Event::OffsetReset { to: 15, .. });
    world.until(secs(8), "it is noticed", |w| w.events(one).any(noticed));
    world.fill("t", 0, 5);
    world.until(secs(5), "what came is read", |w| w.pieces(one, &tp("t", 0)).len() == 25);
    let (new, at) = (world.pieces(one, &tp("t", 0)).split_off(20), |offset: usize| &old[offset]);
    for offset in 15..20 {
        assert!(!world.ack(one, at(offset)), "it is not there any more");
        let through = Commit::Through { tenure: at(offset).tenure.clone(), to: at(offset).to };
        let result = world.commit(one, through);
        assert!(matches!(result, Err(CommitError::Ack(_))), "{result:?}");
    }
    (10..15).for_each(|offset| assert!(world.ack(one, at(offset)), "it was not cut"));
    world.until(secs(3), "what lies before the cut is committed", |w| committed(w, 0) == Some(15));
    world.nack(one, at(12));
    let read = world.reads(one).len();
    world.until(secs(3), "it comes again", |w| w.reads(one).len() == read + 8);
    (12..15).for_each(|offset| assert!(world.ack(one, at(offset)), "it was not cut"));
    new.iter().for_each(|piece| assert!(world.ack(one, piece), "it is there"));
    world.until(secs(3), "all is committed", |w| committed(w, 0) == Some(20));
}

// Committed offsets, asked for.

#[test]
fn an_answer_that_leaves_partitions_out_is_asked_for_again() {
    let mut world = filled(1, 4, 10);
    world.mishap(
        Mishap::rewrite::<OffsetFetchRequest>(|response: &mut OffsetFetchResponse, _| {
            response
                .groups
                .iter_mut()
                .flat_map(|group| &mut group.topics)
                .for_each(|topic| topic.partitions.truncate(1));
        })
        .times(2),
    );
    member(&mut world);
    world.until(secs(3), "all is read", all_committed);
    assert_eq!(world.wards[G].repeated, 0);
}

#[test]
fn an_offset_that_a_transaction_is_about_to_commit_is_waited_for_and_no_other() {
    let mut world = filled(1, 2, 10);
    world.cluster.set_unstable(G, "t", 0, true);
    let one = member(&mut world);
    world.until(secs(2), "the other is read", |w| w.offsets(one, "t", 1).len() == 10);
    let asked = asked_of_coordinators(&mut world, one, secs(20));
    assert!(asked <= 40, "{asked} requests in 20 s");
    assert_eq!(world.offsets(one, "t", 0).len(), 0);
    world.cluster.set_unstable(G, "t", 0, false);
    world.until(secs(7), "then it is read", all_committed);
}

#[test]
fn what_a_transaction_is_about_to_commit_is_answered_when_it_has() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    world.cluster.set_unstable(G, "t", 1, true);
    let ticket = world.committed(one, &tp("t", 1));
    let asked = asked_of_coordinators(&mut world, one, secs(20));
    assert!(asked <= 40, "{asked} requests in 20 s");
    assert!(world.clients[one].caller.answer(ticket).is_none());
    world.cluster.set_unstable(G, "t", 1, false);
    world.until(secs(7), "it is answered", |w| w.clients[one].caller.answer(ticket).is_some());
    assert!(matches!(world.clients[one].caller.answer(ticket), Some(Settled::Committed(Ok(_)))));
}

#[test]
fn what_is_committed_can_be_asked_for() {
    let mut world = filled(1, 2, 10);
    let one = settled(&mut world);
    let ticket = world.committed(one, &tp("t", 1));
    world.until(secs(1), "it is answered", |w| w.clients[one].caller.answer(ticket).is_some());
    let Some(Settled::Committed(Ok(found))) = world.clients[one].caller.answer(ticket) else {
        panic!("an answer")
    };
    let offsets = found.iter().map(|(at, committed)| (at.clone(), committed.as_ref().map(|c| c.offset)));
    assert_eq!(offsets.collect::<Vec<_>>(), [(tp("t", 1), Some(10))]);
}

// Closing.

#[test]
fn close_at_any_step_is_over_in_its_time_and_leaves_nobody_behind() {
    for step in ["metadata", "find", "join", "sync", "heartbeat", "recall", "commit", "fetch"] {
        let mut world = filled(1, 2, 10);
        world.net.latency_of.insert(1, Latency { least: ms(20), more: ms(5) });
        let one = member(&mut world);
        world.until(secs(4), step, |w| count(w, one, step) > 0);
        world.close(one, secs(5));
        world.until(secs(5), step, |w| is_closed(w, one));
        world.run(secs(1));
        let left = world.cluster.group(G).map_or(0, |group| group.members.len());
        assert_eq!(
            (left, &world.clients[one].caller.closed.as_ref().map(|(_, r)| r.is_ok())),
            (0, &Some(true)),
            "{step}"
        );
    }
}

#[test]
fn close_says_what_could_not_be_committed_when_the_coordinator_is_away() {
    let away: [fn(&mut World); 3] = [
        |world| world.darken(1),
        |world| world.stop(1, ottla_broker::Leaders::Lose),
        |world| _ = world.mishap(Mishap::silence(ApiKey::OffsetCommit).always()),
    ];
    for go_away in away {
        let mut world = filled(1, 2, 10);
        let one = settled(&mut world);
        world.run(ms(20));
        world.fill("t", 0, 5);
        world.until(ms(50), "it is read", |w| w.reads(one).len() == 25);
        go_away(&mut world);
        world.run(ms(100));
        world.close(one, secs(5));
        world.until(secs(5), "it is over in its time", |w| is_closed(w, one));
        let Some((_, Err(CommitError::Unfinished { partitions, .. }))) = &world.clients[one].caller.closed
        else {
            panic!("{:?}", world.clients[one].caller.closed)
        };
        assert_eq!(partitions, &[tp("t", 0)]);
    }
}

#[test]
fn close_says_that_the_session_was_over_if_that_is_why() {
    let mut world = filled(1, 1, 10);
    let one = settled(&mut world);
    world.set_acks(one, Acks::Never);
    world.fill("t", 0, 5);
    world.run(ms(100));
    world.freeze(one);
    world.run(secs(12));
    world.thaw(one);
    let held = world.clients[one].caller.held.clone();
    held.iter().for_each(|piece| assert!(world.ack(one, piece), "nobody has looked at the clock yet"));
    world.close(one, secs(5));
    world.until(secs(5), "it is closed", |w| is_closed(w, one));
    let closed = &world.clients[one].caller.closed;
    let Some((_, Err(CommitError::Unfinished { last, .. }))) = closed else { panic!("{closed:?}") };
    assert_eq!(last, "no heartbeat was answered for 10s");
}

#[test]
fn the_last_commit_is_tried_again_while_there_is_time() {
    let mut world = filled(1, 1, 10);
    let one = settled(&mut world);
    world.fill("t", 0, 5);
    world.until(ms(50), "it is read", |w| w.reads(one).len() == 15);
    world.mishap(Mishap::error(ApiKey::OffsetCommit, Code::COORDINATOR_LOAD_IN_PROGRESS).times(3));
    world.mishap(Mishap::cut(ApiKey::OffsetCommit, 0));
    world.close(one, secs(5));
    world.until(secs(5), "it is closed", |w| is_closed(w, one));
    assert!(matches!(world.clients[one].caller.closed, Some((_, Ok(())))));
    assert!(all_committed(&world));
}

#[test]
fn a_farewell_that_the_wrong_node_hears_is_said_again() {
    for code in [Code::NOT_COORDINATOR, Code::COORDINATOR_LOAD_IN_PROGRESS, Code::COORDINATOR_NOT_AVAILABLE] {
        let mut world = filled(1, 1, 10);
        let one = settled(&mut world);
        world.mishap(Mishap::error(ApiKey::LeaveGroup, code));
        world.close(one, secs(5));
        world.until(secs(5), "it is closed", |w| is_closed(w, one));
        assert_eq!(world.cluster.group(G).map(|group| group.members.len()), Some(0), "{code}");
    }
}

#[test]
fn after_close_commits_and_questions_are_refused_at_once() {
    let mut world = filled(1, 1, 10);
    let one = settled(&mut world);
    let piece = world.pieces(one, &tp("t", 0)).pop().expect("it was read");
    world.close(one, secs(5));
    world.until(ms(50), "it is closed", |w| is_closed(w, one));
    assert!(!world.ack(one, &piece));
    let machine = &mut world.clients[one].machine;
    assert!(machine.commit(Commit::Through { tenure: piece.tenure.clone(), to: piece.to }).is_err());
    let acked = machine.commit(Commit::Acked);
    assert!(matches!(acked, Err(CommitError::Closed)), "{acked:?}");
    let ticket = machine.committed(vec![tp("t", 0)]);
    assert!(machine.poll_request(world.now).is_none(), "nobody is asked");
    let answer = machine.poll_settled();
    assert!(
        matches!(answer, Some((it, Settled::Committed(Err(CommitError::Closed)))) if it == ticket),
        "{answer:?}"
    );
}

#[test]
fn close_has_the_revoke_hook_done_first() {
    let mut world = filled(1, 1, 10);
    let one = member_with(&mut world, |_, group| group.hooks = true);
    world.until(secs(3), "all is committed", all_committed);
    world.clients[one].caller.hooks_take = Some(secs(1));
    world.set_acks(one, Acks::Late(ms(500)));
    world.fill("t", 0, 5);
    world.until(ms(50), "it is read", |w| w.reads(one).len() == 15);
    world.close(one, secs(5));
    world.run(ms(900));
    assert!(!is_closed(&world, one));
    world.until(ms(200), "it is closed when the hook is done", |w| is_closed(w, one));
    assert!(all_committed(&world), "what was acknowledged meanwhile is committed");
}

// Offsets without membership.

#[test]
fn partitions_that_are_named_are_read_and_committed_without_joining() {
    let mut world = filled(1, 3, 10);
    let stored = |config: &mut Config, group: &mut GroupConfig| {
        group.member = false;
        config.subscriptions[0].partitions = Some(vec![1]);
    };
    let one = member_with(&mut world, stored);
    world.until(secs(2), "it is committed", |w| committed(w, 1) == Some(10));
    assert_eq!(
        (world.reads(one).len(), count(&world, one, "join"), count(&world, one, "heartbeat")),
        (10, 0, 0)
    );
    world.close(one, secs(5));
    world.until(secs(1), "it is closed", |w| is_closed(w, one));
    world.fill("t", 1, 5);
    let two = member_with(&mut world, stored);
    world.until(secs(2), "it goes on there", |w| w.offsets(two, "t", 1) == (10..15).collect::<Vec<_>>());
}
