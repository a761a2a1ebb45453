//! One test a promise about groups, on a hand-wound clock: each is named after what must happen.

mod support;

use std::time::Duration;

use ottla_broker::{ApiKey, Fault as Mishap};
use ottla_core::{Config, Event, GroupConfig};
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

fn all_committed(world: &World) -> bool {
    world.wards[G].behind(&world.cluster, &world.truth, "t").is_none()
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
