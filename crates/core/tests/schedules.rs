//! One test a promise, on a hand-wound clock: each is named after what must happen.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use ottla_broker::{ApiKey, Fault as Mishap, Leaders};
use ottla_core::{
    Address, Config, Event, Fault, Lane, MissingTopic, OnOutOfRange, Peer, Start, Subscription, Until,
};
use ottla_wire::{
    code::Code,
    message::{
        ApiVersionsRequest, ApiVersionsResponse, FetchRequest, HeartbeatRequest, ListOffsetsRequest,
        MetadataRequest, OffsetCommitRequest, Request, fetch_response::FetchResponse,
        metadata_response::MetadataResponse,
    },
    record::{Batches, Codec},
};
use support::*;

fn world(nodes: i32) -> World {
    World::new(Setup { nodes, ..Setup::default() })
}

/// A topic whose partitions hold so many records each, on nodes in turn.
fn filled(nodes: i32, partitions: i32, records: u32) -> World {
    let mut world = world(nodes);
    world.topic("t", partitions);
    if records > 0 {
        (0..partitions).for_each(|partition| world.fill("t", partition, records));
    }
    world
}

fn reading(world: &mut World, change: impl FnOnce(&mut Config)) -> usize {
    let mut config = world.config(&["t"]);
    change(&mut config);
    world.open(config)
}

fn offsets(from: i64, to: i64) -> Vec<i64> {
    (from..to).collect()
}

fn count(world: &World, reader: usize, what: &str) -> usize {
    world.sent(reader).iter().filter(|sent| sent.what == what).count()
}

/// Requests that go out while so much time passes.
fn requests_during(world: &mut World, reader: usize, time: Duration) -> usize {
    let before = world.sent(reader).len();
    world.run(time);
    world.sent(reader).len() - before
}

/// Lets all be read that there is, and the long lanes park.
fn settle(world: &mut World) {
    world.run(ms(500));
}

#[track_caller]
fn delivers(world: &mut World, reader: usize, partition: i32, limit: Duration) {
    let before = world.offsets(reader, "t", partition).len();
    world.until(limit, "a record comes", |w| w.offsets(reader, "t", partition).len() > before);
}

/// Another broker leads partition 1 from now on; what it has is soon read.
fn is_found_at(world: &mut World, reader: usize, leader: i32) {
    world.lead("t", 1, Some(leader));
    world.fill("t", 1, 10);
    delivers(world, reader, 1, ms(1200));
}

// Nothing blocks on the wrong thing.

#[test]
fn a_topic_is_read_from_its_beginning_to_its_end() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |_| {});
    world.until(ms(100), "all is read", |w| w.reads(reader).len() == 20);
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 10));
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 10));
}

#[test]
fn a_seek_to_data_delivers_at_once_beside_idle_neighbours() {
    let mut world = filled(1, 4, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    for start in [Start::Offset(5), Start::Earliest, Start::Last(3), Start::At(UNIX_EPOCH)] {
        world.seek(reader, &tp("t", 2), start);
        delivers(&mut world, reader, 2, ms(100));
        world.run(secs(3)); // the express lane asks with its longest wait by now
    }
}

#[test]
fn a_resumed_partition_delivers_at_once_beside_idle_neighbours() {
    let mut world = filled(1, 4, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.pause(reader, &tp("t", 1));
    world.fill("t", 1, 5);
    world.run(secs(11)); // the fetch that was under way when it was paused may bring them
    world.fill("t", 1, 5);
    world.run(secs(1));
    assert_eq!(world.offsets(reader, "t", 1).len(), 10, "it is paused");
    world.resume(reader, &tp("t", 1));
    world.until(ms(100), "all is read", |w| w.offsets(reader, "t", 1).len() == 20);
}

#[test]
fn a_new_partition_delivers_at_once_beside_idle_neighbours() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |config| config.metadata_max_age = secs(1));
    settle(&mut world);
    world.grow_topic("t", 3);
    world.fill("t", 2, 5);
    let found = |w: &World| w.events(reader).any(|e| matches!(e, Event::PartitionsAdded { count: 3, .. }));
    world.until(secs(2), "it is found", found);
    world.until(ms(100), "it is read", |w| w.offsets(reader, "t", 2) == offsets(0, 5));
}

#[test]
fn what_is_written_is_read_at_once() {
    let mut world = filled(1, 4, 0);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    for partition in [0, 3, 1, 2, 1, 1, 0] {
        world.fill("t", partition, 1);
        delivers(&mut world, reader, partition, ms(5));
    }
}

#[test]
fn after_a_resume_the_lanes_become_one_again() {
    let mut world = filled(1, 4, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.pause(reader, &tp("t", 1));
    world.run(secs(11));
    world.resume(reader, &tp("t", 1));
    world.run(secs(25));
    let idle = requests_during(&mut world, reader, secs(60));
    assert!(idle <= 9, "{idle} requests in an idle minute");
    world.fill("t", 1, 1);
    delivers(&mut world, reader, 1, ms(5));
}

#[test]
fn a_backlog_in_one_partition_delays_no_other() {
    let mut world = filled(1, 3, 0);
    (0..200).for_each(|_| world.append("t", 0, large(2)));
    let reader = reading(&mut world, |_| {});
    world.until(ms(20), "it begins", |w| !w.reads(reader).is_empty());
    while world.offsets(reader, "t", 0).len() < 400 {
        world.fill("t", 1, 1);
        delivers(&mut world, reader, 1, ms(10));
    }
    assert!(world.offsets(reader, "t", 1).len() > 5, "the backlog was there all the time");
}

#[test]
fn batches_larger_than_a_partitions_limit_are_all_read() {
    let mut world = filled(1, 4, 0);
    for partition in 0..4 {
        (0..10).for_each(|_| world.append("t", partition, Produce { value: 20_000, ..Produce::plain(3) }));
    }
    let reader = reading(&mut world, |config| config.max_partition_bytes = Some(1000));
    world.until(ms(200), "all is read", |w| w.reads(reader).len() == 120);
}

#[test]
fn an_express_lane_that_hangs_delays_the_other_partitions_once_at_most() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |config| config.max_wait = ms(200));
    settle(&mut world);
    world.mishap(Mishap::silence(ApiKey::Fetch).partition(1));
    world.seek(reader, &tp("t", 1), Start::Offset(5));
    world.run(secs(1));
    for _ in 0..20 {
        world.run(ms(470));
        world.fill("t", 0, 1);
        delivers(&mut world, reader, 0, ms(5));
    }
}

#[test]
fn an_idle_reader_asks_once_per_max_wait_and_broker() {
    let mut world = filled(3, 6, 10);
    let reader = reading(&mut world, |_| {});
    world.run(secs(15));
    let idle = requests_during(&mut world, reader, secs(60));
    assert!((18..=3 * 7 + 2).contains(&idle), "{idle} requests in an idle minute");
}

#[test]
fn a_partition_without_leader_delays_no_other() {
    let mut world = filled(2, 4, 10);
    world.lead("t", 2, None);
    let reader = reading(&mut world, |_| {});
    world.until(ms(100), "the others are read", |w| w.reads(reader).len() == 30);
    for _ in 0..20 {
        world.run(secs(1));
        world.fill("t", 0, 1);
        delivers(&mut world, reader, 0, ms(5));
    }
    let told = world.events(reader).filter(|e| matches!(e, Event::LeaderMissing { .. })).count();
    assert_eq!(told, 1, "told once");
    world.lead("t", 2, Some(1));
    delivers(&mut world, reader, 2, secs(7));
}

#[test]
fn a_partition_without_leader_does_not_slow_the_search_for_another_ones() {
    let mut world = filled(2, 4, 10);
    world.cluster.set_versions(ApiKey::Fetch, Some((4, 15))); // without hints
    world.lead("t", 2, None);
    let reader = reading(&mut world, |_| {});
    world.run(secs(60)); // metadata is asked for rarely by now
    world.lead("t", 0, Some(2));
    world.fill("t", 0, 1);
    delivers(&mut world, reader, 0, secs(2));
}

#[test]
fn a_slow_broker_delays_no_other() {
    let mut world = filled(3, 3, 10);
    world.net.latency_of.insert(2, Latency { least: ms(800), more: ms(400) });
    let reader = reading(&mut world, |_| {});
    world.until(ms(700), "the others are read", |w| w.reads(reader).len() >= 20);
    for _ in 0..20 {
        world.run(ms(900));
        world.fill("t", 0, 1);
        delivers(&mut world, reader, 0, ms(5));
    }
    world.until(secs(60), "the slow one is read, too", |w| w.offsets(reader, "t", 1).len() == 10);
}

#[test]
fn a_dark_broker_delays_no_other() {
    for seed in 0..10 {
        let mut world = filled(3, 3, 10);
        world.darken(2);
        let reader = reading(&mut world, |config| config.seed = seed);
        world.until(ms(700), "the others are read", |w| w.reads(reader).len() == 20);
        for _ in 0..20 {
            world.run(ms(900));
            world.fill("t", 2, 1);
            delivers(&mut world, reader, 2, ms(5));
        }
        world.lighten(2);
        world.until(secs(20), "it is read when it is back", |w| w.offsets(reader, "t", 1).len() == 10);
    }
}

#[test]
fn a_broker_that_goes_dark_does_not_hold_up_metadata() {
    for seed in 0..10 {
        let mut world = filled(3, 3, 10);
        let reader = reading(&mut world, |config| {
            config.seed = seed;
            config.metadata_max_age = secs(5);
            config.subscriptions.push(Subscription { topic: "later".into(), partitions: None });
        });
        world.run(secs(2));
        world.darken(1 + (seed % 3) as i32);
        world.run(secs(12)); // it has been asked and has not answered
        world.topic("later", 6);
        (0..6).for_each(|partition| world.fill("later", partition, 3));
        world.until(secs(7), "it is found", |w| w.reads(reader).iter().any(|r| *r.at.topic == *"later"));
    }
}

#[test]
fn a_broker_that_goes_dark_makes_no_flood_of_questions() {
    for node in 1..=3 {
        let mut world = filled(3, 3, 10);
        let reader = reading(&mut world, |config| config.metadata_max_age = secs(5));
        world.run(secs(2));
        world.darken(node);
        world.run(secs(5));
        let busy = requests_during(&mut world, reader, secs(25));
        assert!(busy <= 60, "{busy} requests in 25 s"); // two a second are for who may lead now
    }
}

#[test]
fn the_leaders_of_a_broker_that_went_dark_are_found() {
    let mut world = filled(3, 3, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.darken(2);
    world.run(secs(1));
    world.lead("t", 1, Some(3));
    world.fill("t", 1, 10);
    // Nobody says so: the long fetch to the dark one has to be given up first.
    world.until(secs(60), "it is read from its new leader", |w| w.offsets(reader, "t", 1).len() == 20);
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 20));
}

/// Under load a broker answers in milliseconds: one that does not is doubted long before `max_wait` has passed.
#[test]
fn the_partitions_of_a_busy_broker_that_froze_are_found_at_their_new_leader() {
    for seed in 0..10 {
        let mut world = filled(3, 3, 10);
        let reader = reading(&mut world, |config| config.seed = seed);
        busy(&mut world, secs(1), &[0, 1, 2]);
        world.darken(2);
        busy(&mut world, secs(3 + seed % 7), &[0, 2]);
        world.lead("t", 1, Some(3));
        world.fill("t", 1, 10);
        world.until(secs(1), "it is read there", |w| w.offsets(reader, "t", 1).len() == 30);
        world.lighten(2);
        world.run(secs(1));
        assert_eq!(world.offsets(reader, "t", 1), offsets(0, 30));
    }
}

#[test]
fn the_partitions_of_a_broker_that_froze_as_they_came_to_it_are_found_at_the_next() {
    for seed in 0..10 {
        let mut world = filled(3, 3, 10);
        let reader = reading(&mut world, |config| config.seed = seed);
        world.run(secs(30)); // it has long been quiet
        world.lead("t", 1, Some(3));
        world.run(ms(300 + 100 * seed)); // no record has come from there yet
        world.darken(3);
        world.run(secs(3));
        world.lead("t", 2, Some(1));
        is_found_at(&mut world, reader, 1);
    }
}

#[test]
fn a_broker_that_froze_after_a_quiet_second_is_doubted_before_it_was_quiet_for_ten() {
    for quiet in [1000, 1500, 2000, 3000] {
        let mut world = filled(3, 3, 10);
        let reader = reading(&mut world, |_| {});
        busy(&mut world, secs(1), &[0, 1, 2]);
        world.run(ms(quiet));
        world.darken(2);
        world.run(ms(quiet + 2500));
        is_found_at(&mut world, reader, 3);
    }
}

#[test]
fn a_leader_that_others_have_given_up_is_told_when_there_is_another() {
    let mut world = filled(3, 3, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.stop(2, Leaders::Move);
    let changed = |w: &World| {
        let mut events = w.events(reader);
        events.any(|event| matches!(event, Event::LeaderChanged { at, .. } if at.partition == 1))
    };
    world.until(secs(5), "it is told", changed);
}

/// Records come to these partitions all the time.
fn busy(world: &mut World, time: Duration, partitions: &[i32]) {
    let end = world.elapsed() + time;
    while world.elapsed() < end {
        world.run(ms(100));
        partitions.iter().for_each(|&partition| world.fill("t", partition, 1));
    }
}

#[test]
fn a_dead_brokers_partitions_are_found_at_their_new_leader_however_late_it_is_chosen() {
    for late in [2, 4, 8, 16, 33] {
        let mut world = filled(3, 3, 10);
        let reader = reading(&mut world, |_| {});
        settle(&mut world);
        world.kill(2);
        world.run(secs(late));
        is_found_at(&mut world, reader, 3);
    }
}

#[test]
fn a_dead_broker_that_is_chosen_again_is_dialled_at_once() {
    let mut world = filled(3, 3, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.kill(2);
    world.run(secs(40));
    world.revive(2);
    world.lead("t", 1, Some(2));
    world.fill("t", 1, 10);
    delivers(&mut world, reader, 1, ms(1200));
}

#[test]
fn a_broker_that_stays_away_costs_few_questions_and_fewer_when_it_lasts() {
    let mut world = filled(3, 3, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.kill(2);
    world.run(secs(20));
    let before = count(&world, reader, "metadata");
    world.run(secs(20));
    let asked = count(&world, reader, "metadata") - before;
    assert!((10..=25).contains(&asked), "{asked} questions in 20 s");
    world.run(secs(180));
    let before = count(&world, reader, "metadata");
    world.run(secs(60));
    let asked = count(&world, reader, "metadata") - before;
    assert!((10..=30).contains(&asked), "{asked} questions in a minute when it has lasted long");
}

// Bootstrap and outages.

#[test]
fn a_dead_bootstrap_address_costs_little() {
    for (host, limit) in [("dead", ms(310)), ("hole", ms(310))] {
        for seed in 0..10 {
            let mut world = filled(1, 1, 1);
            let mut config = world.config(&["t"]);
            config.bootstrap.push(Address { host: host.to_owned(), port: 1 });
            config.seed = seed;
            let reader = world.open(config);
            delivers(&mut world, reader, 0, limit);
        }
    }
}

#[test]
fn several_dead_bootstrap_addresses_are_passed_by() {
    for seed in 0..10 {
        let mut world = filled(1, 1, 1);
        let mut config = world.config(&["t"]);
        for host in ["dead1", "hole1", "dead2", "hole2"] {
            config.bootstrap.push(Address { host: host.to_owned(), port: 1 });
        }
        config.seed = seed;
        let reader = world.open(config);
        delivers(&mut world, reader, 0, ms(1000));
    }
}

#[test]
fn a_cluster_that_comes_late_is_found_within_the_longest_pause() {
    let mut world = filled(2, 2, 3);
    world.stop(1, Leaders::Lose);
    world.stop(2, Leaders::Lose);
    let reader = reading(&mut world, |_| {});
    world.run(secs(120));
    world.start(1);
    world.start(2);
    world.until(secs(7), "all is read", |w| w.reads(reader).len() == 6);
}

#[test]
fn dialling_a_dead_cluster_is_bounded() {
    let mut world = filled(2, 2, 3);
    world.stop(1, Leaders::Lose);
    world.stop(2, Leaders::Lose);
    let reader = reading(&mut world, |_| {});
    world.run(secs(60));
    let before = world.clients[reader].dialled;
    world.run(secs(60));
    let dialled = world.clients[reader].dialled - before;
    assert!((10..=40).contains(&dialled), "{dialled} connections in a minute");
}

#[test]
fn a_broker_stopped_and_started_loses_and_repeats_nothing() {
    let mut world = filled(1, 3, 10);
    let reader = reading(&mut world, |_| {});
    for round in 0..10 {
        world.run(ms(730));
        world.stop(1, Leaders::Lose);
        world.run(ms(300 * (round % 4)));
        world.start(1);
        (0..3).for_each(|partition| world.fill("t", partition, 10));
        world.until(secs(7), "all is read", |w| w.reads(reader).len() == 60 + 30 * round as usize);
    }
    (0..3).for_each(|partition| assert_eq!(world.offsets(reader, "t", partition), offsets(0, 110)));
}

#[test]
fn an_outage_is_one_error_and_reading_goes_on() {
    let mut world = filled(2, 2, 3);
    let reader = reading(&mut world, |config| config.max_attempts = Some(3));
    settle(&mut world);
    for outage in 1..=3 {
        world.stop(1, Leaders::Lose);
        world.stop(2, Leaders::Lose);
        world.run(secs(60));
        let faults = world.faults(reader);
        assert_eq!(faults.len(), outage, "{faults:?}");
        assert!(matches!(faults[outage - 1], Fault::Unreachable { rounds: 3, .. }));
        world.start(1);
        world.start(2);
        world.fill("t", 0, 1);
        delivers(&mut world, reader, 0, secs(7));
        assert!(
            matches!(world.events(reader).filter(|e| matches!(e, Event::Reachable)).count(), n if n == outage)
        );
    }
}

#[test]
fn brokers_that_are_replaced_by_older_and_newer_ones_are_read_on() {
    let mut world = filled(2, 2, 10);
    let reader = reading(&mut world, |config| config.max_wait = secs(1));
    for (fetch, metadata) in [(18, 13), (11, 8), (4, 1), (12, 9), (17, 12), (4, 4), (18, 13)] {
        world.run(secs(1));
        world.cluster.set_versions(ApiKey::Fetch, Some((4, fetch)));
        world.cluster.set_versions(ApiKey::Metadata, Some((0, metadata)));
        for node in 1..=2 {
            world.stop(node, Leaders::Lose);
            world.start(node);
        }
        (0..2).for_each(|partition| world.fill("t", partition, 10));
        let before = world.reads(reader).len();
        world.until(secs(7), "all is read", |w| w.reads(reader).len() == before + 20);
    }
    (0..2).for_each(|partition| assert_eq!(world.offsets(reader, "t", partition), offsets(0, 80)));
}

#[test]
fn a_reply_that_trickles_in_is_not_given_up() {
    let mut world = filled(1, 1, 0);
    world.append("t", 0, Produce { value: 60_000, ..Produce::plain(1) });
    world.net.trickle = Some((1000, ms(500)));
    let reader = reading(&mut world, |config| {
        config.request_timeout = secs(3);
        config.max_wait = secs(1);
    });
    world.until(secs(60), "it is read", |w| w.reads(reader).len() == 1);
    let retrying = world.events(reader).filter(|e| matches!(e, Event::Retrying { .. })).count();
    assert_eq!(retrying, 0);
}

#[test]
fn one_dead_broker_among_others_is_no_outage() {
    let mut world = filled(3, 3, 3);
    let reader = reading(&mut world, |config| config.max_attempts = Some(1));
    settle(&mut world);
    world.stop(2, Leaders::Lose);
    world.run(secs(60));
    assert_eq!(world.faults(reader), []);
}

/// A broker closes what is idle, and our question may meet that on its way.
#[test]
fn a_question_that_meets_the_end_of_an_idle_connection_is_asked_again_without_a_word() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| config.max_wait = secs(1));
    settle(&mut world);
    for _ in 0..10 {
        world.pause(reader, &tp("t", 0));
        world.run(secs(10));
        world.fill("t", 0, 1);
        world.cluster.close_connections(1);
        world.resume(reader, &tp("t", 0));
        delivers(&mut world, reader, 0, ms(30));
        settle(&mut world);
    }
    assert_eq!(world.events(reader).filter(|event| !matches!(event, Event::Connected { .. })).count(), 0);
}

#[test]
fn a_broker_at_a_new_address_is_followed() {
    let mut world = filled(2, 2, 3);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.stop(2, Leaders::Lose);
    world.cluster.set_address(2, "moved", 9092).expect("there is a node");
    world.start(2);
    world.fill("t", 1, 3);
    world.until(secs(7), "it is read", |w| w.offsets(reader, "t", 1) == offsets(0, 6));
}

#[test]
fn connections_cut_at_any_moment_lose_and_repeat_nothing() {
    let mut world = filled(2, 4, 50);
    let reader = reading(&mut world, |config| config.max_wait = secs(1));
    for round in 0..200 {
        world.run(Duration::from_micros(731 * (round % 7)) + ms(50));
        let ids: Vec<_> = world.clients[reader].links.values().copied().collect();
        if let Some(id) = ids.get(round as usize % ids.len().max(1)) {
            world.cut(*id);
        }
        world.fill("t", (round % 4) as i32, 3);
    }
    world.until(secs(10), "all is read", |w| w.reads(reader).len() == 4 * 50 + 600);
    (0..4).for_each(|partition| assert_eq!(world.offsets(reader, "t", partition), offsets(0, 200)));
}

#[test]
fn two_readers_of_one_cluster_do_not_disturb_each_other() {
    let mut world = filled(2, 4, 10);
    let (fast, slow) =
        (reading(&mut world, |_| {}), reading(&mut world, |config| config.start = Start::Latest));
    world.set_habit(slow, Habit::Stopped);
    settle(&mut world);
    world.seek(fast, &tp("t", 0), Start::Earliest);
    world.until(ms(100), "it is read again", |w| w.reads(fast).len() == 50);
    (0..4).for_each(|partition| world.fill("t", partition, 1));
    world.until(ms(10), "one has all", |w| w.reads(fast).len() == 54);
    assert_eq!(world.reads(slow).len(), 0);
    world.set_habit(slow, Habit::Fast);
    world.until(ms(10), "the other, too", |w| w.reads(slow).len() == 4);
}

// What is not there.

#[test]
fn a_missing_topic_is_waited_for_and_read_from_its_beginning() {
    for start in [Start::Earliest, Start::Latest] {
        let mut world = world(2);
        let reader = reading(&mut world, |config| config.start = start);
        world.run(secs(30));
        world.topic("t", 2);
        world.fill("t", 0, 5);
        world.fill("t", 1, 5);
        world.until(secs(7), "all is read", |w| w.reads(reader).len() == 10);
        let of = |event: fn(&Event) -> bool| world.events(reader).filter(|e| event(e)).count();
        assert_eq!(of(|e| matches!(e, Event::TopicMissing { .. })), 1);
        assert_eq!(of(|e| matches!(e, Event::TopicFound { partitions: 2, .. })), 1);
    }
}

#[test]
fn a_missing_topic_delays_no_other() {
    let mut world = filled(1, 1, 1);
    let mut config = world.config(&["t", "missing"]);
    config.metadata_max_age = secs(300);
    let reader = world.open(config);
    for _ in 0..30 {
        world.run(secs(1));
        world.fill("t", 0, 1);
        delivers(&mut world, reader, 0, ms(5));
    }
}

#[test]
fn a_missing_topic_fails_the_reader_if_wanted() {
    let mut world = world(1);
    let reader = reading(&mut world, |config| config.missing_topic = MissingTopic::Fail);
    world.run(secs(30));
    let faults = world.faults(reader);
    assert!(
        !faults.is_empty() && faults.iter().all(|f| matches!(f, Fault::TopicMissing { .. })),
        "{faults:?}"
    );
    let told = world.events(reader).filter(|e| matches!(e, Event::Fault(_))).count();
    assert_eq!(told, 1, "told once as an event");
}

#[test]
fn a_missing_partition_fails_the_reader_if_wanted() {
    let mut world = filled(1, 2, 1);
    let reader = reading(&mut world, |config| {
        config.missing_topic = MissingTopic::Fail;
        config.subscriptions[0].partitions = Some(vec![1, 7]);
    });
    world.run(secs(30));
    let faults = world.faults(reader);
    let right = |f: &Fault| matches!(f, Fault::PartitionMissing { at, count: 2 } if at.partition == 7);
    assert!(!faults.is_empty() && faults.iter().all(right), "{faults:?}");
    assert_eq!(faults[0].partition(), None, "it is the reader that fails, every time");
    let told = world.events(reader).filter(|e| matches!(e, Event::Fault(_))).count();
    assert_eq!(told, 1, "told once as an event");
}

#[test]
fn partitions_added_later_are_read_from_their_beginning() {
    let mut world = filled(2, 1, 10);
    let reader = reading(&mut world, |config| {
        config.start = Start::Latest;
        config.metadata_max_age = secs(5);
    });
    settle(&mut world);
    world.grow_topic("t", 4);
    (0..4).for_each(|partition| world.fill("t", partition, 5));
    world.until(secs(7), "all is read", |w| w.reads(reader).len() == 20);
    assert_eq!(world.offsets(reader, "t", 0), offsets(10, 15));
    assert_eq!(world.offsets(reader, "t", 3), offsets(0, 5));
}

#[test]
fn a_partition_named_before_it_is_there_is_read_from_its_beginning() {
    let mut world = filled(1, 1, 3);
    let reader = reading(&mut world, |config| {
        config.start = Start::Latest;
        config.subscriptions[0].partitions = Some(vec![0, 2]);
    });
    world.run(secs(20));
    world.grow_topic("t", 3);
    (0..3).for_each(|partition| world.fill("t", partition, 2));
    world.until(secs(7), "it is read", |w| w.offsets(reader, "t", 2) == offsets(0, 2));
    assert_eq!(world.offsets(reader, "t", 0), offsets(3, 5));
    assert_eq!(world.offsets(reader, "t", 1), []);
}

#[test]
fn a_seek_and_a_pause_before_the_partition_is_known_hold() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |_| {});
    world.seek(reader, &tp("t", 0), Start::Offset(7));
    world.pause(reader, &tp("t", 1));
    settle(&mut world);
    assert_eq!(world.offsets(reader, "t", 0), offsets(7, 10));
    assert_eq!(world.offsets(reader, "t", 1), []);
    world.resume(reader, &tp("t", 1));
    settle(&mut world);
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 10));
}

#[test]
fn a_topic_made_anew_is_read_from_its_beginning() {
    let mut world = filled(2, 2, 10);
    let reader = reading(&mut world, |config| config.start = Start::Latest);
    settle(&mut world);
    world.delete_topic("t");
    world.run(secs(20));
    world.topic("t", 2);
    (0..2).for_each(|partition| world.fill("t", partition, 3));
    world.until(secs(15), "all is read", |w| w.reads(reader).len() == 6);
    (0..2).for_each(|partition| assert_eq!(world.offsets(reader, "t", partition), offsets(0, 3)));
    let of = |event: fn(&Event) -> bool| world.events(reader).filter(|e| event(e)).count();
    assert_eq!(of(|e| matches!(e, Event::TopicMissing { .. })), 1);
    assert_eq!(of(|e| matches!(e, Event::TopicFound { .. })), 1);
    assert_eq!(of(|e| matches!(e, Event::TopicRecreated { .. })), 1, "found again, and not the same");
}

#[test]
fn a_deleted_topic_is_asked_after_by_metadata_only() {
    let mut world = filled(2, 50, 1);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.delete_topic("t");
    world.run(secs(30));
    let busy = requests_during(&mut world, reader, secs(60));
    assert!(busy <= 20, "{busy} requests in a minute");
}

#[test]
fn a_topic_that_one_broker_does_not_know_is_read_on() {
    let mut world = filled(2, 2, 10);
    world.mishap(
        Mishap::partition_error(ApiKey::Metadata, Code::UNKNOWN_TOPIC_OR_PARTITION).topic("t").times(2),
    );
    let reader = reading(&mut world, |config| config.metadata_max_age = secs(2));
    world.until(secs(1), "all is read", |w| w.reads(reader).len() == 20);
    let unknown = Mishap::partition_error(ApiKey::Metadata, Code::UNKNOWN_TOPIC_OR_PARTITION).topic("t");
    world.mishap(unknown.always());
    for _ in 0..10 {
        world.run(secs(1));
        world.fill("t", 0, 1);
        delivers(&mut world, reader, 0, ms(5));
    }
}

#[test]
fn a_topic_made_anew_between_two_looks_is_read_from_its_beginning() {
    for fetch in [18, 12] {
        let mut world = filled(2, 2, 10);
        world.cluster.set_versions(ApiKey::Fetch, Some((4, fetch)));
        let reader = reading(&mut world, |_| {});
        settle(&mut world);
        world.delete_topic("t");
        world.topic("t", 2);
        (0..2).for_each(|partition| world.fill("t", partition, 3));
        world.until(secs(70), "all is read", |w| w.reads(reader).len() == 26);
    }
}

#[test]
fn a_topic_made_anew_fails_if_wanted() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| config.on_out_of_range = OnOutOfRange::Error);
    settle(&mut world);
    world.delete_topic("t");
    world.topic("t", 1);
    world.fill("t", 0, 3);
    world.run(secs(70));
    assert_eq!(world.faults(reader), [Fault::Recreated { at: tp("t", 0), offset: 10 }]);
    world.seek(reader, &tp("t", 0), Start::Earliest);
    world.until(ms(100), "it is read", |w| w.reads(reader).len() == 13);
}

#[test]
fn a_topic_made_anew_is_read_where_brokers_know_no_topic_ids() {
    let mut world = filled(1, 1, 10);
    world.cluster.set_versions(ApiKey::Metadata, Some((0, 9)));
    world.cluster.set_versions(ApiKey::Fetch, Some((4, 12)));
    let reader = reading(&mut world, |_| {});
    world.lead("t", 0, Some(1)); // the epoch is above that of the new topic
    settle(&mut world);
    world.delete_topic("t");
    world.run(secs(10));
    world.topic("t", 1);
    world.fill("t", 0, 3);
    world.run(secs(70));
    world.fill("t", 0, 3);
    world.until(secs(70), "what is written is read", |w| w.reads(reader).len() >= 13);
}

// Where the log is not what it was.

#[test]
fn out_of_range_follows_the_policy() {
    use OnOutOfRange::{Earliest, Error, Latest, Nearest};
    for (policy, from, to) in [
        (Nearest, 3, Some(10)),
        (Nearest, 500, Some(20)),
        (Earliest, 3, Some(10)),
        (Earliest, 500, Some(10)),
        (Latest, 3, Some(20)),
        (Latest, 500, Some(20)),
        (Error, 3, None),
        (Error, 500, None),
    ] {
        let mut world = filled(1, 2, 20);
        world.delete_records("t", 0, 10);
        let reader = reading(&mut world, |config| {
            config.on_out_of_range = policy;
            config.start = Start::Offset(from);
            config.subscriptions[0].partitions = Some(vec![0]);
        });
        world.run(secs(5));
        world.fill("t", 0, 5);
        world.run(secs(1));
        let wanted = to.map_or(Vec::new(), |to| offsets(to, 25));
        assert_eq!(world.offsets(reader, "t", 0), wanted, "{policy:?} from {from}");
        let reset = world.events(reader).filter(|e| matches!(e, Event::OffsetReset { .. })).count();
        assert_eq!(reset, usize::from(to.is_some()), "told once");
        let fault = Fault::OutOfRange { at: tp("t", 0), offset: from, earliest: 10, latest: 20 };
        let faults = if to.is_none() { vec![fault] } else { vec![] };
        assert_eq!(world.faults(reader), faults);
    }
}

#[test]
fn retention_under_a_slow_reader_is_told_and_reading_goes_on() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| config.budget = 1 << 20);
    settle(&mut world);
    world.set_habit(reader, Habit::Stopped);
    world.append("t", 0, Produce { value: 1 << 20, ..Produce::plain(5) });
    world.run(secs(1));
    world.fill("t", 0, 10);
    world.fill("t", 0, 10);
    world.run(secs(1));
    world.delete_records("t", 0, 25);
    world.set_habit(reader, Habit::Fast);
    world.until(secs(2), "it goes on", |w| w.offsets(reader, "t", 0).last() == Some(&34));
    assert_eq!(world.offsets(reader, "t", 0), [offsets(0, 15), offsets(25, 35)].concat());
}

#[test]
fn a_truncated_log_is_read_again_from_where_it_was_cut() {
    let mut world = filled(2, 1, 100);
    world.lead("t", 0, Some(1));
    world.fill("t", 0, 50);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.truncate("t", 0, 120, 2);
    world.fill("t", 0, 60); // the new log is longer than what was read
    world.until(secs(2), "the new log is read", |w| w.reads(reader).len() == 150 + 60);
    assert_eq!(world.offsets(reader, "t", 0)[150..], offsets(120, 180));
    let truncated = |e: &&Event| matches!(e, Event::Truncated { from: 150, to: 120, .. });
    assert_eq!(world.events(reader).filter(truncated).count(), 1);
}

#[test]
fn what_a_truncation_left_and_was_not_handed_out_yet_is_read_again() {
    let mut world = filled(2, 1, 10);
    (1..10).for_each(|_| world.fill("t", 0, 10));
    let reader = reading(&mut world, |_| {});
    world.set_habit(reader, Habit::Slow(1, ms(20)));
    world.run(ms(500));
    world.truncate("t", 0, 70, 2);
    world.fill("t", 0, 10);
    world.run(secs(5));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 80), "it stood below the cut");
    world.clients[reader].watch.check_complete(&world.truth, "t");
}

#[test]
fn a_truncated_log_fails_the_partition_if_wanted() {
    let mut world = filled(2, 2, 100);
    let reader = reading(&mut world, |config| config.on_out_of_range = OnOutOfRange::Error);
    settle(&mut world);
    world.fill("t", 0, 50);
    settle(&mut world);
    world.truncate("t", 0, 120, 2);
    world.fill("t", 0, 60);
    world.run(secs(2));
    assert_eq!(world.faults(reader), [Fault::Truncated { at: tp("t", 0), offset: 150, end: 120 }]);
    world.fill("t", 1, 5);
    delivers(&mut world, reader, 1, ms(10));
}

#[test]
fn a_log_truncated_twice_is_followed_both_times() {
    let mut world = filled(2, 1, 50);
    world.fill("t", 0, 50);
    world.fill("t", 0, 50);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.truncate("t", 0, 100, 2);
    world.run(secs(2)); // it stands at the new end, and reads nothing there
    world.truncate("t", 0, 50, 1);
    world.fill("t", 0, 80);
    world.until(secs(2), "the new log is read", |w| w.offsets(reader, "t", 0).last() == Some(&129));
    world.clients[reader].watch.check_complete(&world.truth, "t");
}

#[test]
fn a_reader_at_the_end_notices_a_truncation_before_it_has_read_anything() {
    let mut world = filled(2, 1, 50);
    world.fill("t", 0, 50);
    let reader = reading(&mut world, |config| config.start = Start::Latest);
    settle(&mut world);
    world.truncate("t", 0, 50, 2);
    world.fill("t", 0, 80);
    world.until(secs(2), "the new log is read", |w| w.offsets(reader, "t", 0) == offsets(50, 130));
}

/// What was asked before the log was cut is answered after metadata has told of the new epoch.
#[track_caller]
fn an_answer_from_before_a_cut(api: ApiKey, start: Start, ask: impl FnOnce(&mut World, usize)) {
    let mut world = filled(2, 1, 50);
    world.fill("t", 0, 50);
    let reader = reading(&mut world, |config| {
        config.start = start;
        config.metadata_max_age = ms(500);
        config.max_wait = ms(100);
    });
    settle(&mut world);
    world.mishap(Mishap::delay(api, secs(2)).node(1));
    ask(&mut world, reader);
    world.run(ms(300));
    let before = world.reads(reader).len();
    world.truncate("t", 0, 50, 1);
    (0..8).for_each(|_| world.fill("t", 0, 10));
    world.until(secs(5), "the new log is read", |w| w.offsets(reader, "t", 0).last() == Some(&129));
    assert_eq!(world.offsets(reader, "t", 0)[before..], offsets(50, 130));
}

#[test]
fn a_log_cut_after_its_end_was_validated_is_noticed() {
    an_answer_from_before_a_cut(ApiKey::OffsetForLeaderEpoch, Start::Earliest, |world, _| {
        world.lead("t", 0, Some(1));
    });
}

#[test]
fn a_log_cut_after_its_end_was_asked_for_is_noticed() {
    an_answer_from_before_a_cut(ApiKey::ListOffsets, Start::Earliest, |world, reader| {
        world.seek(reader, &tp("t", 0), Start::Latest);
    });
}

#[test]
fn a_log_cut_after_the_first_fetch_is_noticed() {
    an_answer_from_before_a_cut(ApiKey::Fetch, Start::Earliest, |world, reader| {
        world.seek(reader, &tp("t", 0), Start::Offset(50));
    });
}

#[test]
fn a_leader_that_moved_is_found_by_its_hint_at_once() {
    let mut world = filled(2, 2, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.lead("t", 0, Some(2));
    world.fill("t", 0, 5);
    world.until(ms(20), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 15));
}

#[test]
fn hints_that_lead_in_circles_are_not_followed_without_pause() {
    let mut world = filled(2, 2, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    for node in 1..=2 {
        let mut epoch = 10;
        let ball = Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
            for data in response.responses.iter_mut().flat_map(|t| &mut t.partitions) {
                epoch += 10;
                data.error_code = Code::NOT_LEADER_OR_FOLLOWER.0;
                (data.current_leader.leader_id, data.current_leader.leader_epoch) = (3 - node, epoch);
            }
        });
        world.mishap(ball.node(node).always());
    }
    world.fill("t", 0, 1);
    world.run(secs(30));
    let busy = requests_during(&mut world, reader, secs(60));
    assert!(busy <= 150, "{busy} requests in a minute");
}

#[test]
fn a_leader_that_moved_is_found_without_hint() {
    let mut world = filled(2, 2, 10);
    world.cluster.set_versions(ApiKey::Fetch, Some((4, 15)));
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.lead("t", 0, Some(2));
    world.fill("t", 0, 5);
    world.until(ms(400), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 15));
}

#[test]
fn a_leader_that_moves_all_the_time_loses_and_repeats_nothing() {
    for fetch in [18, 15, 12] {
        let mut world = filled(3, 2, 10);
        world.cluster.set_versions(ApiKey::Fetch, Some((4, fetch)));
        let reader = reading(&mut world, |_| {});
        for round in 0..60 {
            world.lead("t", round % 2, Some(1 + round % 3));
            world.fill("t", round % 2, 5);
            world.run(ms(70));
        }
        world.until(secs(5), "all is read", |w| w.reads(reader).len() == 20 + 300);
        (0..2).for_each(|partition| assert_eq!(world.offsets(reader, "t", partition), offsets(0, 160)));
    }
}

#[test]
fn a_leader_unknown_to_an_old_picture_is_found_again() {
    let mut world = filled(3, 1, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    // Node 2 takes over; a broker that lags behind tells of the time before, when node 2 was not even there.
    let old = Mishap::rewrite::<MetadataRequest>(|response: &mut MetadataResponse, _| {
        response.brokers.retain(|b| b.node_id != 2);
        for partition in response.topics.iter_mut().flat_map(|t| &mut t.partitions) {
            (partition.leader_id, partition.leader_epoch) = (1, 0);
        }
    });
    world.mishap(old);
    world.lead("t", 0, Some(2));
    world.fill("t", 0, 5);
    world.until(secs(5), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 15));
    world.fill("t", 0, 5);
    world.until(secs(5), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 20));
}

#[test]
fn a_leader_that_is_no_broker_is_waited_for() {
    let mut world = filled(2, 2, 10);
    let stranger = world.mishap(
        Mishap::rewrite::<MetadataRequest>(|response: &mut MetadataResponse, _| {
            response.topics[0].partitions[0].leader_id = 99;
        })
        .always(),
    );
    let reader = reading(&mut world, |_| {});
    world.until(ms(100), "the other is read", |w| w.reads(reader).len() == 10);
    world.run(secs(20));
    let busy = requests_during(&mut world, reader, secs(60));
    assert!(busy <= 75, "{busy} requests in a minute");
    world.cluster.clear_fault(stranger);
    world.until(secs(7), "it is read", |w| w.reads(reader).len() == 20);
}

#[test]
fn a_high_watermark_that_goes_back_moves_nothing() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| config.max_wait = ms(100));
    settle(&mut world);
    world.mishap(rewriting_fetches(|response| {
        for data in response.responses.iter_mut().flat_map(|t| &mut t.partitions) {
            data.high_watermark = 3;
        }
    }));
    for round in 1..10 {
        world.run(ms(300));
        assert_eq!(world.clients[reader].machine.lag(&tp("t", 0)), Ok(Some(0)));
        world.fill("t", 0, 1);
        world.until(ms(10), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 10 + round));
    }
}

// Odd logs.

#[test]
fn reading_passes_what_holds_no_record() {
    let mut world = world(1);
    world.topic("t", 1);
    let shapes = [
        Shape::Empty(5),
        Shape::Control,
        Shape::Plain(3),
        Shape::Tail(10),
        Shape::Empty(1),
        Shape::Empty(7),
        Shape::Gaps(5),
        Shape::Control,
        Shape::Control,
    ];
    for codec in [Codec::None, Codec::Lz4, Codec::Gzip, Codec::Snappy, Codec::Zstd] {
        shapes.iter().for_each(|&shape| world.append("t", 0, Produce { shape, codec, value: 0 }));
    }
    let reader = reading(&mut world, |_| {});
    world.run(secs(1));
    let end = world.truth.end("t", 0);
    let position = world.clients[reader].machine.position(&tp("t", 0)).expect("it is read");
    assert_eq!(position, Some(end));
    world.clients[reader].watch.check_complete(&world.truth, "t");
    assert_eq!(world.reads(reader).len(), 5 * 9);
    let idle = requests_during(&mut world, reader, secs(60));
    assert!(idle <= 9, "{idle} requests in an idle minute");
}

#[test]
fn a_batch_that_goes_back_fails_its_partition_only() {
    let mut world = filled(1, 2, 10);
    world.fill("t", 0, 10);
    let overlap = Mishap::rewrite::<FetchRequest>(|response: &mut FetchResponse, _| {
        for data in response.responses.iter_mut().flat_map(|t| &mut t.partitions) {
            let Some(records) = data.records.as_ref().filter(|r| data.partition_index == 0 && !r.is_empty())
            else {
                continue;
            };
            let twice = [&records[..], &records[..]].concat();
            data.records = Some(twice.into());
        }
    });
    world.mishap(overlap);
    let reader = reading(&mut world, |_| {});
    world.run(secs(1));
    let faults = world.faults(reader);
    assert!(matches!(&faults[..], [Fault::Corrupt { offset: 20, .. }]), "{faults:?}");
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 20), "what came before is handed out");
    world.fill("t", 1, 5);
    delivers(&mut world, reader, 1, ms(10));
    world.seek(reader, &tp("t", 0), Start::Offset(20));
    world.fill("t", 0, 1);
    delivers(&mut world, reader, 0, ms(100));
}

#[test]
fn a_damaged_batch_fails_its_partition_only() {
    // Length negative, magic, CRC, attributes (which make it a control batch), count, records.
    for at in [8, 16, 17, 21, 22, 57, 70] {
        let mut world = filled(1, 2, 10);
        world.mishap(Mishap::corrupt_records(at).partition(0).always());
        let reader = reading(&mut world, |_| {});
        world.run(secs(1));
        let faults = world.faults(reader);
        assert!(matches!(&faults[..], [Fault::Corrupt { offset: 0, .. }]), "byte {at}: {faults:?}");
        world.fill("t", 1, 5);
        world.until(ms(10), "the other goes on", |w| w.offsets(reader, "t", 1) == offsets(0, 15));
        world.cluster.clear_faults();
        world.run(secs(1));
        assert_eq!(world.offsets(reader, "t", 0), [], "byte {at}: it stands still");
        world.seek(reader, &tp("t", 0), Start::Offset(0));
        world.until(ms(100), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 10));
    }
}

#[test]
fn a_batch_that_jumps_beyond_the_end_of_the_log_fails_its_partition_only() {
    let mut world = filled(1, 2, 10);
    world.fill("t", 0, 10);
    // The offset of the second batch, which no CRC covers.
    world.mishap(Mishap::rewrite::<FetchRequest>(|response: &mut FetchResponse, _| {
        for data in response.responses.iter_mut().flat_map(|t| &mut t.partitions) {
            let mut records = data.records.clone().unwrap_or_default().to_vec();
            let second = Batches::new(&records).nth(1).map(|batch| batch.expect("it is whole").1.start);
            if let Some(second) = second {
                records[second + 2] = 1;
            }
            data.records = Some(records.into());
        }
    }));
    let reader = reading(&mut world, |_| {});
    world.run(secs(1));
    let faults = world.faults(reader);
    assert!(matches!(&faults[..], [Fault::Corrupt { offset: 10, .. }]), "{faults:?}");
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 10));
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 10));
    world.seek(reader, &tp("t", 0), Start::Offset(10));
    world.until(ms(100), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 20));
}

#[test]
fn records_that_lead_nowhere_are_not_asked_for_without_pause() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    // A batch that is cut before its end, and one that lies before the position.
    let cuts: [fn(&mut Vec<u8>); 2] = [|records| records.truncate(100), |records| records[..8].fill(0)];
    for cut in cuts {
        let wrong = Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| {
            for data in response.responses.iter_mut().flat_map(|t| &mut t.partitions) {
                if data.partition_index == 0
                    && let Some(records) = data.records.as_ref().filter(|r| !r.is_empty())
                {
                    let mut records = records.to_vec();
                    cut(&mut records);
                    data.records = Some(records.into());
                }
            }
        });
        let mishap = world.mishap(wrong.always());
        world.run(secs(11)); // what is under way is answered rightly
        world.fill("t", 0, 5);
        world.run(secs(10));
        let busy = requests_during(&mut world, reader, secs(60));
        assert!(busy <= 60, "{busy} requests in a minute");
        world.fill("t", 1, 1);
        delivers(&mut world, reader, 1, ms(10));
        world.cluster.clear_fault(mishap);
        delivers(&mut world, reader, 0, secs(20));
    }
}

// Odd replies.

fn rewriting_fetches(change: impl Fn(&mut FetchResponse) + Send + 'static) -> Mishap {
    Mishap::rewrite::<FetchRequest>(move |response: &mut FetchResponse, _| change(response)).always()
}

#[test]
fn a_partition_left_out_of_replies_is_asked_for_again_with_pauses() {
    let mut world = filled(1, 2, 10);
    let leaves_out = world.mishap(rewriting_fetches(|response| {
        for topic in &mut response.responses {
            topic.partitions.retain(|p| p.partition_index != 0);
        }
    }));
    let reader = reading(&mut world, |_| {});
    world.run(secs(20));
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 10));
    let busy = requests_during(&mut world, reader, secs(60));
    assert!(busy <= 100, "{busy} requests in a minute");
    world.cluster.clear_fault(leaves_out);
    world.until(secs(17), "it is read", |w| w.offsets(reader, "t", 0) == offsets(0, 10));
}

#[test]
fn a_partition_twice_in_a_reply_counts_once() {
    let mut world = filled(1, 2, 10);
    world.mishap(rewriting_fetches(|response| {
        for topic in &mut response.responses {
            let twice = topic.partitions.clone();
            topic.partitions.extend(twice);
        }
    }));
    let reader = reading(&mut world, |_| {});
    world.run(secs(1));
    world.fill("t", 0, 5);
    world.run(secs(1));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 15));
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 10));
}

#[test]
fn a_partition_that_was_not_asked_for_is_not_taken() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    world.pause(reader, &tp("t", 1));
    world.run(secs(11));
    world.mishap(rewriting_fetches(|response| {
        for topic in &mut response.responses {
            let mut other = topic.partitions[0].clone();
            (other.partition_index, other.error_code) = (1, Code::OFFSET_OUT_OF_RANGE.0);
            let stranger =
                ottla_wire::message::fetch_response::PartitionData { partition_index: 77, ..other.clone() };
            topic.partitions.extend([other, stranger]);
        }
    }));
    world.fill("t", 0, 5);
    world.fill("t", 1, 5);
    world.run(secs(11));
    world.cluster.clear_faults();
    world.resume(reader, &tp("t", 1));
    world.run(secs(1));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 15));
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 15));
    assert!(!world.events(reader).any(|e| matches!(e, Event::OffsetReset { .. })));
}

#[test]
fn no_error_code_anywhere_makes_a_hot_loop() {
    let places = [ApiKey::Metadata, ApiKey::ListOffsets, ApiKey::Fetch, ApiKey::OffsetForLeaderEpoch];
    let codes = (-1..=133).chain([12345, i16::MIN, i16::MAX]).filter(|&code| code != 0);
    for code in codes.map(Code) {
        for api in places {
            for whole in [false, true] {
                let mut world = filled(2, 2, 10);
                let mishap = match whole {
                    false => Mishap::partition_error(api, code).topic("t").partition(0),
                    true => Mishap::error(api, code),
                };
                let id = world.mishap(mishap.always());
                let reader = reading(&mut world, |config| config.max_wait = secs(1));
                world.run(secs(1));
                world.lead("t", 0, Some(2)); // so that epochs are asked for
                world.fill("t", 1, 1);
                world.run(secs(2));
                let busy = requests_during(&mut world, reader, secs(10));
                assert!(busy <= 120, "{api:?} {code} {whole}: {busy} requests in 10 s");
                if !whole && !matches!(world.faults(reader).first(), Some(Fault::Topic { .. })) {
                    assert_eq!(world.offsets(reader, "t", 1).len(), 11, "{api:?} {code}: the other goes on");
                }
                world.cluster.clear_fault(id);
                for at in world.clients[reader].watch.failed_partitions() {
                    let at_offset = world.clients[reader].machine.position(&at).expect("it is read");
                    world.seek(reader, &at, at_offset.map_or(Start::Earliest, Start::Offset));
                }
                let what = format!("{api:?} {code} {whole}: it goes on");
                world.until(secs(15), &what, |w| w.offsets(reader, "t", 0).len() >= 10);
            }
        }
    }
}

#[test]
fn a_fault_of_the_whole_reader_is_told_every_time_until_it_is_mended() {
    for api in [ApiKey::Fetch, ApiKey::ListOffsets] {
        let mut world = filled(1, 2, 10);
        let refused = Mishap::partition_error(api, Code::TOPIC_AUTHORIZATION_FAILED).topic("t").always();
        let refused = world.mishap(refused);
        let reader = reading(&mut world, |config| config.max_wait = secs(1));
        world.until(secs(1), "it is told", |w| !w.faults(reader).is_empty());
        for _ in 0..200 {
            world.run(ms(50));
            let taken = world.take(reader);
            assert!(matches!(taken, ottla_core::Take::Fault(_)), "{api:?}: {taken:?}");
        }
        let told = world.events(reader).filter(|e| matches!(e, Event::Fault(_))).count();
        assert_eq!(told, 1, "{api:?}: told once as an event");
        world.cluster.clear_fault(refused);
        world.until(secs(10), "all is read", |w| w.reads(reader).len() == 20);
    }
}

#[test]
fn metadata_that_makes_no_sense_is_asked_of_another_broker() {
    let nonsense: [fn(&mut MetadataResponse); 3] =
        [|r| r.brokers.clear(), |r| r.topics.clear(), |r| r.error_code = Code::UNKNOWN_SERVER_ERROR.0];
    for change in nonsense {
        for node in 1..=2 {
            let mut world = filled(2, 2, 10);
            let wrong = Mishap::rewrite::<MetadataRequest>(move |response, version| {
                change(response);
                if version < 13 {
                    response.error_code = 0;
                }
            });
            world.mishap(wrong.node(node).always());
            let reader = reading(&mut world, |config| config.seed = node as u64);
            world.until(secs(3), "all is read", |w| w.reads(reader).len() == 20);
        }
    }
}

#[test]
fn a_bootstrap_connection_is_closed_once_it_has_answered_well_or_not() {
    let mut world = filled(2, 1, 10);
    world.mishap(Mishap::rewrite::<MetadataRequest>(|response: &mut MetadataResponse, _| {
        response.brokers.clear();
    }));
    let reader = reading(&mut world, |_| {});
    world.until(secs(1), "all is read", |w| w.reads(reader).len() == 10);
    let links: Vec<_> = world.clients[reader].links.keys().collect();
    assert_eq!(links, [&(Peer::Node(1), Lane::Control), &(Peer::Node(1), Lane::Long)]);
}

#[test]
fn metadata_with_a_monstrous_partition_number_takes_no_memory() {
    let mut world = filled(1, 2, 10);
    world.mishap(
        Mishap::rewrite::<MetadataRequest>(|response: &mut MetadataResponse, _| {
            let partitions = &mut response.topics[0].partitions;
            let mut monster = partitions[0].clone();
            monster.partition_index = i32::MAX;
            partitions.push(monster);
        })
        .always(),
    );
    let reader = reading(&mut world, |_| {});
    world.until(ms(100), "the others are read", |w| w.reads(reader).len() == 20);
}

#[test]
fn a_broker_that_does_not_speak_metadata_is_tried_again() {
    for seed in 0..20 {
        let mut world = filled(1, 1, 10);
        world.cluster.set_versions(ApiKey::Metadata, None);
        let reader = reading(&mut world, |config| config.seed = seed);
        world.run(secs(60));
        let misbehaved = world.events(reader).filter(|e| matches!(e, Event::Misbehaved { .. })).count();
        assert!((5..=40).contains(&misbehaved), "told {misbehaved} times in a minute");
        world.cluster.set_versions(ApiKey::Metadata, Some((0, 13)));
        // The versions of a connection are those of its beginning.
        let ids: Vec<_> = world.clients[reader].links.values().copied().collect();
        ids.into_iter().for_each(|id| world.cut(id));
        world.until(secs(7), "all is read", |w| w.reads(reader).len() == 10);
    }
}

#[test]
fn a_broker_that_cannot_be_asked_for_records_fails_the_reader_until_it_can() {
    let mut world = filled(2, 2, 10);
    let speaks_no_fetch = Mishap::rewrite::<ApiVersionsRequest>(|response: &mut ApiVersionsResponse, _| {
        response.api_keys.retain(|api| api.api_key != ApiKey::Fetch as i16);
    });
    let mishap = world.mishap(speaks_no_fetch.node(2).always());
    let reader = reading(&mut world, |config| config.max_wait = ms(100));
    world.run(secs(5));
    assert!(matches!(world.faults(reader).last(), Some(Fault::Unsupported { .. })));
    for _ in 0..200 {
        world.run(ms(50));
        let taken = world.take(reader);
        assert!(matches!(taken, ottla_core::Take::Fault(_)), "{taken:?}");
    }
    let told = world.events(reader).filter(|e| matches!(e, Event::Fault(_))).count();
    assert_eq!(told, 1, "told once as an event");
    world.cluster.clear_fault(mishap);
    world.until(secs(7), "all is read", |w| w.reads(reader).len() == 20);
}

#[test]
fn a_broker_that_does_not_speak_leader_epochs_is_read_without_them() {
    let mut world = filled(2, 2, 10);
    world.cluster.set_versions(ApiKey::OffsetForLeaderEpoch, None);
    let reader = reading(&mut world, |_| {});
    settle(&mut world);
    for leader in [2, 1, 2] {
        world.lead("t", 0, Some(leader));
        world.fill("t", 0, 5);
        delivers(&mut world, reader, 0, secs(1));
    }
}

#[test]
fn a_throttled_reader_waits_as_long_as_it_is_told() {
    let mut world = filled(1, 1, 10);
    world.mishap(rewriting_fetches(|response| response.throttle_time_ms = 2000));
    let reader = reading(&mut world, |config| config.max_wait = ms(100));
    world.run(secs(1));
    let fetches = count(&world, reader, "fetch");
    world.run(secs(60));
    let fetches = count(&world, reader, "fetch") - fetches;
    assert!((25..=31).contains(&fetches), "{fetches} fetches in a minute");
    let told = world.clients[reader].events.iter();
    let told = told.filter(|(_, event)| matches!(event, Event::Throttled { pause, .. } if *pause == secs(2)));
    assert!((2..=3).contains(&told.count()), "it is told, and not each time");
}

/// Kafka answers a fetch beyond a quota without the partitions that it was about.
#[test]
fn an_answer_that_only_throttles_leaves_nothing_out() {
    let mut world = filled(1, 2, 10);
    let throttle = |response: &mut FetchResponse, _| {
        (response.throttle_time_ms, response.responses) = (500, Vec::new());
    };
    world.mishap(Mishap::rewrite::<FetchRequest>(throttle).times(6));
    let reader = reading(&mut world, |_| {});
    let time = world.until(ms(3100), "all is read", |w| w.reads(reader).len() == 20);
    assert!(time >= secs(3), "{time:?}");
    let misbehaved = world.events(reader).filter(|event| matches!(event, Event::Misbehaved { .. })).count();
    assert_eq!(misbehaved, 0);
}

/// Every answer asks for two seconds of silence on its connection.
fn throttled<R: Request<Response: 'static>>(
    set: impl Fn(&mut R::Response) -> &mut i32 + Send + 'static,
) -> Mishap {
    Mishap::rewrite::<R>(move |response, _| *set(response) = 2000).always()
}

/// The shortest time between two requests on one connection, but for those that leave before an answer can be there.
fn shortest_silence(world: &World, reader: usize, lane: Lane) -> Duration {
    let on_lane = world.sent(reader).iter().filter(|sent| sent.lane == lane && sent.peer == Peer::Node(1));
    let times: Vec<_> = on_lane.map(|sent| sent.when).collect();
    assert!(times.len() > 5, "{lane:?}: {} requests show nothing", times.len());
    times.windows(2).map(|two| two[1] - two[0]).filter(|gap| *gap > ms(50)).min().expect("it was silent")
}

#[test]
fn a_throttled_connection_is_left_alone_whatever_it_is_for() {
    let mut world = filled(1, 1, 10);
    world.mishap(throttled::<MetadataRequest>(|response| &mut response.throttle_time_ms));
    world.mishap(throttled::<ListOffsetsRequest>(|response| &mut response.throttle_time_ms));
    let reader = reading(&mut world, |config| config.metadata_max_age = ms(700));
    for _ in 0..40 {
        world.run(ms(300));
        world.seek(reader, &tp("t", 0), Start::Latest);
    }
    assert!(shortest_silence(&world, reader, Lane::Control) >= secs(2));
    assert!(world.faults(reader).is_empty());
    world.cluster.clear_faults();
    world.seek(reader, &tp("t", 0), Start::Earliest);
    delivers(&mut world, reader, 0, secs(5));
}

#[test]
fn a_throttled_coordinator_is_left_alone_and_throws_nobody_out() {
    let mut world = filled(1, 1, 10);
    world.mishap(throttled::<HeartbeatRequest>(|response| &mut response.throttle_time_ms));
    world.mishap(throttled::<OffsetCommitRequest>(|response| &mut response.throttle_time_ms));
    let mut config = world.member_config("g", &["t"]);
    let group = config.group.as_mut().expect("a member");
    (group.heartbeat_interval, group.commit_interval) = (ms(500), ms(300));
    let member = world.open(config);
    for _ in 0..30 {
        world.fill("t", 0, 1);
        delivers(&mut world, member, 0, secs(3));
        world.run(ms(500));
    }
    assert!(shortest_silence(&world, member, Lane::Group) >= secs(2));
    let lost = world.events(member).filter(|event| matches!(event, Event::PartitionsLost { .. })).count();
    assert_eq!(lost, 0);
}

/// Before KIP-219 a broker waited itself, and then said how long it had.
#[test]
fn what_an_old_broker_says_of_throttling_is_past() {
    let mut world = filled(1, 1, 10);
    world.cluster.set_versions(ApiKey::Fetch, Some((4, 7)));
    world.mishap(rewriting_fetches(|response| response.throttle_time_ms = 2000));
    let reader = reading(&mut world, |config| config.max_wait = ms(100));
    world.run(secs(1));
    let fetches = count(&world, reader, "fetch");
    world.run(secs(10));
    let fetches = count(&world, reader, "fetch") - fetches;
    assert!((80..=101).contains(&fetches), "{fetches} fetches in ten seconds");
}

#[test]
fn a_connection_that_closes_after_every_reply_is_dialled_with_pauses() {
    let mut world = filled(1, 1, 10);
    world.mishap(Mishap::close(ApiKey::Fetch).always());
    let reader = reading(&mut world, |_| {});
    world.run(secs(30));
    let before = world.clients[reader].dialled;
    world.run(secs(60));
    let dialled = world.clients[reader].dialled - before;
    assert!(dialled <= 80, "{dialled} connections in a minute");
    world.cluster.clear_faults();
    delivers(&mut world, reader, 0, secs(7));
}

#[test]
fn garbage_closes_the_connection_and_reading_goes_on() {
    let garbage: [&[u8]; 5] = [
        &[0xff, 0xff, 0xff, 0xff, 1, 2, 3],
        &[0x7f, 0xff, 0xff, 0xff],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[0, 0, 0, 5, 0, 0, 0, 9, 1],
        &[0, 0, 0, 0],
    ];
    for api in [ApiKey::ApiVersions, ApiKey::Metadata, ApiKey::ListOffsets, ApiKey::Fetch] {
        for bytes in garbage {
            let mut world = filled(1, 1, 10);
            world.mishap(Mishap::garbage(api, bytes.to_vec()).times(3));
            let reader = reading(&mut world, |_| {});
            world.until(secs(3), &format!("{api:?} {bytes:?}"), |w| w.reads(reader).len() == 10);
        }
        for cut in [0, 1, 3, 4, 7, 8, 20] {
            let mut world = filled(1, 1, 10);
            world.mishap(Mishap::cut(api, cut).times(3));
            let reader = reading(&mut world, |_| {});
            world.until(secs(3), &format!("{api:?} cut after {cut}"), |w| w.reads(reader).len() == 10);
        }
    }
}

#[test]
fn a_request_that_is_never_answered_is_given_up_after_its_time() {
    for api in [ApiKey::Metadata, ApiKey::ListOffsets, ApiKey::Fetch] {
        let mut world = filled(1, 1, 10);
        world.mishap(Mishap::silence(api));
        let reader = reading(&mut world, |config| {
            config.request_timeout = secs(3);
            config.max_wait = secs(2);
        });
        world.until(secs(7), &format!("{api:?}"), |w| w.reads(reader).len() == 10);
    }
}

// Bounds.

fn large(count: u32) -> Produce {
    Produce { value: 100_000, ..Produce::plain(count) }
}

#[test]
fn a_caller_that_stops_reading_bounds_what_is_held() {
    for codec in [Codec::None, Codec::Lz4] {
        let mut world = filled(2, 4, 0);
        for partition in 0..4 {
            (0..30).for_each(|_| world.append("t", partition, Produce { codec, ..large(2) }));
        }
        let reader = reading(&mut world, |config| config.budget = 3 << 20);
        world.until(secs(1), "it begins", |w| !w.reads(reader).is_empty());
        world.set_habit(reader, Habit::Stopped);
        world.run(secs(30));
        let idle = requests_during(&mut world, reader, secs(60));
        assert!(idle <= 5, "{idle} requests in a minute");
        assert!(world.ours(reader) <= (3 << 20) + 2 * (1 << 20) + 1000, "{}", world.ours(reader));
        world.set_habit(reader, Habit::Fast);
        world.until(secs(2), "all is read", |w| w.reads(reader).len() == 240);
    }
}

#[test]
fn a_caller_that_keeps_more_than_the_budget_still_gets_the_next() {
    let mut world = filled(2, 4, 0);
    for partition in 0..4 {
        (0..30).for_each(|_| world.append("t", partition, large(2)));
    }
    let reader = reading(&mut world, |config| config.budget = 1 << 20);
    world.set_keep(reader, usize::MAX);
    world.until(secs(5), "all is read", |w| w.reads(reader).len() == 240);
    assert!(world.events(reader).any(|e| matches!(e, Event::HeldByCaller { .. })));
    let buffered = world.clients[reader].machine.ledger().buffered();
    assert!(buffered.held >= 240 * 100_000, "{buffered:?}");
    world.set_keep(reader, 0);
    assert_eq!(world.clients[reader].machine.ledger().total(), 0);
}

#[test]
fn what_paused_partitions_keep_is_given_up_when_space_is_short() {
    let mut world = filled(1, 2, 0);
    (0..20).for_each(|_| world.append("t", 0, large(2)));
    let reader = reading(&mut world, |config| config.budget = 2 << 20);
    world.set_habit(reader, Habit::Stopped);
    world.run(secs(1));
    world.pause(reader, &tp("t", 0));
    world.set_habit(reader, Habit::Fast);
    (0..40).for_each(|_| world.append("t", 1, large(2)));
    world.until(secs(2), "the other is read", |w| w.offsets(reader, "t", 1).len() == 80);
    world.resume(reader, &tp("t", 0));
    world.until(secs(2), "it is read", |w| w.offsets(reader, "t", 0).len() == 40);
}

#[test]
fn a_pause_keeps_what_was_fetched_and_a_resume_hands_it_out_without_a_fetch() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |_| {});
    world.set_habit(reader, Habit::Stopped);
    world.run(secs(1));
    world.pause(reader, &tp("t", 0));
    world.set_habit(reader, Habit::Fast);
    world.run(secs(1));
    assert_eq!(world.offsets(reader, "t", 0), []);
    let fetches = count(&world, reader, "fetch");
    world.resume(reader, &tp("t", 0));
    world.until(Duration::ZERO, "it is there", |w| w.offsets(reader, "t", 0) == offsets(0, 10));
    assert!(count(&world, reader, "fetch") <= fetches + 1, "only what comes after is asked for");
}

#[test]
fn a_batch_that_was_begun_goes_on_after_pause_and_resume() {
    for by_batch in [false, true] {
        let mut world = filled(1, 2, 20);
        let reader = reading(&mut world, |_| {});
        world.clients[reader].reader.by_batch = by_batch;
        world.set_habit(reader, Habit::Slow(3, ms(100)));
        world.run(ms(50));
        let begun = world.reads(reader)[0].at.clone();
        world.pause(reader, &begun);
        world.run(secs(3));
        world.resume(reader, &begun);
        world.run(secs(3));
        (0..2).for_each(|partition| assert_eq!(world.offsets(reader, "t", partition), offsets(0, 20)));
    }
}

#[test]
fn a_waiting_reader_is_served_though_what_was_ready_is_paused_and_the_caller_keeps_all() {
    let mut world = filled(1, 2, 0);
    let reader = reading(&mut world, |config| config.budget = 1 << 20);
    world.set_keep(reader, usize::MAX);
    (0..10).for_each(|_| world.append("t", 0, large(2)));
    world.until(secs(2), "it is read", |w| w.reads(reader).len() == 20);
    // Something comes for a reader that waits, and is paused before the reader has looked.
    world.append("t", 0, large(1));
    world.until(secs(1), "it is there", |w| w.clients[reader].machine.poll_ready());
    world.pause(reader, &tp("t", 0));
    world.append("t", 1, large(1));
    world.until(ms(20), "the other is read", |w| w.offsets(reader, "t", 1).len() == 1);
}

#[test]
fn a_reader_that_fails_with_its_budget_full_recovers() {
    let mut world = filled(1, 2, 0);
    world.topic("refused", 1);
    world.append("refused", 0, large(3));
    let refused =
        Mishap::partition_error(ApiKey::Fetch, Code::TOPIC_AUTHORIZATION_FAILED).topic("refused").always();
    let refused = world.mishap(refused);
    let mut config = world.config(&["t", "refused"]);
    (config.budget, config.max_wait) = (500_000, secs(1));
    let reader = world.open(config);
    world.until(secs(1), "it fails", |w| !w.faults(reader).is_empty());
    for partition in 0..2 {
        (0..10).for_each(|_| world.append("t", partition, large(3)));
    }
    world.run(secs(30));
    world.cluster.clear_fault(refused);
    world.until(secs(20), "all is read", |w| w.reads(reader).len() == 63);
}

#[test]
fn a_reader_that_fails_with_its_budget_full_does_not_fetch_again_and_again_what_nobody_takes() {
    let mut world = filled(2, 2, 0);
    let reader = reading(&mut world, |config| {
        (config.budget, config.max_wait, config.metadata_max_age) = (500_000, ms(50), secs(1));
    });
    world.until(secs(1), "both are asked", |w| count(w, reader, "fetch") >= 2);
    let refused = Mishap::partition_error(ApiKey::Metadata, Code::TOPIC_AUTHORIZATION_FAILED).topic("t");
    let refused = world.mishap(refused.always());
    world.until(secs(5), "it fails", |w| !w.faults(reader).is_empty());
    (0..2).for_each(|partition| (0..10).for_each(|_| world.append("t", partition, large(3))));
    world.run(secs(1));
    let before = count(&world, reader, "fetch");
    world.run(secs(10));
    let fetches = count(&world, reader, "fetch") - before;
    assert!(fetches <= 20, "{fetches} fetches in 10 s brought nobody anything");
    world.cluster.clear_fault(refused);
    world.until(secs(20), "all is read", |w| w.reads(reader).len() == 60);
}

#[test]
fn one_batch_larger_than_the_budget_gets_through() {
    let mut world = filled(1, 1, 0);
    world.append("t", 0, Produce { value: 500_000, ..Produce::plain(10) });
    world.fill("t", 0, 10);
    let reader = reading(&mut world, |config| config.budget = 1 << 20);
    world.until(secs(1), "all is read", |w| w.reads(reader).len() == 20);
}

#[test]
fn a_long_round_trip_makes_replies_grow() {
    let far = Latency { least: ms(25), more: ms(1) };
    let mut world = World::new(Setup { latency: far, ..Setup::default() });
    world.topic("t", 1);
    (0..40).for_each(|_| world.append("t", 0, Produce { value: 250_000, ..Produce::plain(4) }));
    let reader = reading(&mut world, |config| config.budget = 256 << 20);
    let time = world.until(secs(2), "40 MB are read", |w| w.reads(reader).len() == 160);
    assert!(time < ms(900), "{time:?}: more than a MB came a round trip");
}

// Until.

fn ended(world: &World, reader: usize) -> bool {
    world.clients[reader].reader.ended
}

#[test]
fn the_end_is_that_of_the_beginning() {
    let mut world = filled(2, 4, 10);
    world.append("t", 1, Produce { shape: Shape::Tail(20), codec: Codec::None, value: 0 });
    world.append("t", 2, Produce { shape: Shape::Empty(20), codec: Codec::None, value: 0 });
    world.grow_topic("t", 5); // an empty one
    let reader = reading(&mut world, |config| config.until = Some(Until::End));
    world.until(secs(1), "it ends", |w| ended(w, reader));
    assert_eq!(world.reads(reader).len(), 41);
    world.fill("t", 0, 10);
    world.run(secs(20));
    assert_eq!(world.reads(reader).len(), 41, "what came later is not read");
}

#[test]
fn an_offset_and_a_time_are_ends_that_are_not_read() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| config.until = Some(Until::Offset(7)));
    world.until(secs(1), "it ends", |w| ended(w, reader));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 7));

    let mut world = filled(1, 1, 10);
    let time = UNIX_EPOCH + ms(1_000_004); // as the fifth record has it
    let reader = reading(&mut world, |config| config.until = Some(Until::At(time)));
    world.until(secs(1), "it ends", |w| ended(w, reader));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 4));
}

#[test]
fn an_end_inside_a_batch_ends_reading_by_batch_too() {
    for until in [1, 9, 10, 11, 25] {
        let mut world = filled(1, 1, 10);
        (0..2).for_each(|_| world.fill("t", 0, 10));
        let reader = reading(&mut world, |config| config.until = Some(Until::Offset(until)));
        world.clients[reader].reader.by_batch = true;
        world.until(secs(1), "it ends", |w| ended(w, reader));
        assert_eq!(world.offsets(reader, "t", 0), offsets(0, until));
    }
}

#[test]
fn an_end_that_is_not_reached_yet_is_waited_for() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| config.until = Some(Until::Offset(15)));
    world.run(secs(30));
    assert!(!ended(&world, reader));
    world.fill("t", 0, 10);
    world.until(ms(100), "it ends", |w| ended(w, reader));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 15));
}

#[test]
fn a_failed_partition_counts_as_ended() {
    let mut world = filled(1, 2, 10);
    world.mishap(Mishap::corrupt_records(70).partition(0).always());
    let reader = reading(&mut world, |config| config.until = Some(Until::End));
    world.until(secs(1), "it ends", |w| ended(w, reader));
    assert_eq!(world.offsets(reader, "t", 1), offsets(0, 10));
    assert_eq!(world.faults(reader).len(), 1);
}

#[test]
fn a_partition_without_leader_is_waited_for_before_the_end() {
    let mut world = filled(1, 2, 10);
    world.lead("t", 0, None);
    let reader = reading(&mut world, |config| config.until = Some(Until::End));
    world.run(secs(30));
    assert!(!ended(&world, reader));
    world.lead("t", 0, Some(1));
    world.until(secs(7), "it ends", |w| ended(w, reader));
    assert_eq!(world.reads(reader).len(), 20);
}

#[test]
fn a_reset_over_the_end_ends_the_partition() {
    let mut world = filled(1, 1, 10);
    (0..20).for_each(|_| world.append("t", 0, large(2)));
    let end = world.truth.end("t", 0);
    let reader = reading(&mut world, |config| {
        config.until = Some(Until::End);
        config.budget = 1 << 20;
    });
    world.set_habit(reader, Habit::Stopped);
    world.run(secs(1));
    world.fill("t", 0, 10);
    world.delete_records("t", 0, end + 5);
    // What is queued is read on the way to the reset.
    world.set_habit(reader, Habit::Slow(1, ms(50)));
    world.until(secs(20), "it ends", |w| ended(w, reader));
}

#[test]
fn a_reset_over_the_end_ends_the_partition_once_what_came_before_is_handed_out() {
    let mut world = filled(1, 1, 10);
    let reader = reading(&mut world, |config| {
        config.until = Some(Until::Offset(50));
        config.max_bytes = 200; // less than a batch: nothing is asked for while one waits
    });
    world.set_habit(reader, Habit::Stopped);
    world.run(secs(1));
    (1..10).for_each(|_| world.fill("t", 0, 10));
    world.delete_records("t", 0, 60);
    world.set_habit(reader, Habit::Slow(1, ms(300))); // the reset comes while the batch is walked
    world.until(secs(60), "it ends", |w| ended(w, reader));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 10));
}

#[test]
fn a_reset_over_the_end_that_was_refused_at_first_ends_the_partition() {
    let mut world = filled(1, 1, 60);
    world.delete_records("t", 0, 50);
    world.mishap(Mishap::partition_error(ApiKey::ListOffsets, Code::TOPIC_AUTHORIZATION_FAILED).topic("t"));
    let reader = reading(&mut world, |config| {
        config.start = Start::Offset(10);
        config.until = Some(Until::Offset(20));
    });
    world.until(secs(2), "it ends", |w| ended(w, reader));
    assert!(!world.faults(reader).is_empty(), "it was refused");
}

#[test]
fn a_seek_after_the_end_reads_again() {
    let mut world = filled(1, 2, 10);
    let reader = reading(&mut world, |config| config.until = Some(Until::End));
    world.until(secs(1), "it ends", |w| ended(w, reader));
    world.seek(reader, &tp("t", 0), Start::Offset(5));
    world.until(secs(1), "it is read", |w| w.reads(reader).len() == 25);
}

// Seeks.

#[test]
fn a_seek_while_a_fetch_is_under_way_hands_out_nothing_from_before() {
    let far = Latency { least: ms(20), more: ms(20) };
    for seed in 0..20 {
        let mut world = World::new(Setup { latency: far, seed, ..Setup::default() });
        world.topic("t", 2);
        (0..20).for_each(|_| world.fill("t", 0, 10));
        let reader = reading(&mut world, |config| config.max_bytes = 2000);
        world.until(secs(1), "it begins", |w| !w.reads(reader).is_empty());
        for target in [150, 3, 77, 0, 199] {
            world.run(ms(3 * seed));
            let before = world.reads(reader).len();
            world.seek(reader, &tp("t", 0), Start::Offset(target));
            world.run(ms(500));
            assert_eq!(world.reads(reader).get(before).map(|r| r.offset), Some(target));
        }
    }
}

#[test]
fn a_leader_change_refetches_nothing_that_is_queued() {
    let mut world = filled(2, 1, 10);
    let reader = reading(&mut world, |_| {});
    world.set_habit(reader, Habit::Stopped);
    world.run(secs(1));
    world.lead("t", 0, Some(2));
    world.fill("t", 0, 5);
    world.run(secs(2));
    world.set_habit(reader, Habit::Fast);
    world.run(secs(1));
    assert_eq!(world.offsets(reader, "t", 0), offsets(0, 15));
}

#[test]
fn lost_offsets_replies_are_asked_for_again() {
    let mut world = filled(1, 1, 10);
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    world.mishap(
        Mishap::rewrite::<ListOffsetsRequest>(move |response, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            response.topics.clear();
        })
        .times(3),
    );
    let reader = reading(&mut world, |_| {});
    world.until(secs(3), "all is read", |w| w.reads(reader).len() == 10);
    assert_eq!(seen.load(Ordering::Relaxed), 3);
    let control = world.sent(reader).iter().filter(|s| s.what == "offsets");
    assert!(control.clone().all(|s| s.lane == Lane::Control && s.peer == Peer::Node(1)));
}

#[test]
fn a_way_that_carries_only_so_much_at_a_time_is_asked_for_less() {
    let mut world = filled(1, 1, 0);
    (0..40).for_each(|_| world.append("t", 0, Produce { value: 20_000, ..Produce::plain(3) }));
    let fault = world.mishap(Mishap::cut(ApiKey::Fetch, 200_000).always());
    let reader = reading(&mut world, |_| {});
    world.until(secs(60), "all is read", |w| w.offsets(reader, "t", 0) == offsets(0, 120));
    world.cluster.clear_fault(fault);
    (0..40).for_each(|_| world.append("t", 0, Produce { value: 20_000, ..Produce::plain(3) }));
    world.until(secs(5), "all is read", |w| w.offsets(reader, "t", 0) == offsets(0, 240));
}

#[test]
fn a_broker_that_sends_us_back_to_the_bootstrap_list_is_obeyed() {
    let mut world = filled(2, 2, 3);
    let reader = reading(&mut world, |config| config.metadata_max_age = secs(5));
    settle(&mut world);
    let asked = |world: &World| {
        let seeds = |sent: &&Sent| sent.what == "metadata" && matches!(sent.peer, Peer::Seed(_));
        world.sent(reader).iter().filter(seeds).count()
    };
    let before = asked(&world);
    let sent_back = Mishap::error(ApiKey::Metadata, Code::REBOOTSTRAP_REQUIRED);
    world.mishap(sent_back);
    world.until(secs(10), "the bootstrap list is asked", |world| asked(world) > before);
    world.fill("t", 0, 1);
    delivers(&mut world, reader, 0, secs(7));
}
