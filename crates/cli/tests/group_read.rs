//! `ottla read -g` against the embedded broker: what was printed is committed, and only that.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

mod support;

use std::{
    io::{BufRead, BufReader, Read},
    time::{Duration, Instant},
};

use ottla_broker::{ApiKey, ClusterOptions, Code, Fault, GroupState};
use serde_json::Value;
use support::{Cluster, Ended, Running, until};

/// Three partitions with a0.., b0.., c0.., so many each.
fn letters(count: i64) -> Cluster {
    let cluster = Cluster::with_orders(3);
    append(&cluster, 0, count);
    cluster
}

fn append(cluster: &Cluster, from: i64, count: i64) {
    for (partition, name) in (0..).zip(["a", "b", "c"]) {
        for n in from..from + count {
            cluster.append(partition, &[&format!("{name}{n}")]);
        }
    }
}

fn all(count: i64) -> Vec<String> {
    ["a", "b", "c"].iter().flat_map(|name| (0..count).map(move |n| format!("{name}{n}"))).collect()
}

fn committed(cluster: &Cluster) -> [Option<i64>; 3] {
    cluster.change(|cluster| [0, 1, 2].map(|partition| cluster.committed("g", "orders", partition)))
}

/// The lines that come until there are so many.
fn lines(running: &mut Running, count: usize) -> Vec<String> {
    let mut lines: Vec<String> = (0..count).map(|_| running.line()).collect();
    lines.sort_unstable();
    lines
}

/// Starts a member of the group, and waits until it has said which partitions it has.
fn member(cluster: &Cluster, options: &str) -> Running {
    let mut running = cluster.ottla(&format!("read -g g {options}")).start();
    running.note("group g: reading ");
    running
}

fn members(cluster: &Cluster) -> usize {
    cluster.change(|cluster| cluster.group("g").map_or(0, |group| group.members.len()))
}

fn is_stable(cluster: &Cluster, members: usize) -> bool {
    cluster.change(|cluster| {
        cluster
            .group("g")
            .is_some_and(|group| group.state == GroupState::Stable && group.members.len() == members)
    })
}

#[test]
fn what_is_printed_is_committed_and_ctrl_c_leaves_the_group() {
    let cluster = letters(4);
    let mut running = cluster.ottla("read -g g orders").start();
    running.note("group g: reading orders 0-2");
    assert_eq!(lines(&mut running, 12), all(4));
    running.ends_cleanly_on("INT");
    assert_eq!((committed(&cluster), members(&cluster)), ([Some(4); 3], 0));
    // Who comes back goes on there.
    append(&cluster, 4, 1);
    let mut running = member(&cluster, "orders --from latest");
    assert_eq!(lines(&mut running, 3), ["a4", "b4", "c4"]);
    running.ends_cleanly_on("TERM");
    assert_eq!(committed(&cluster), [Some(5); 3]);
}

#[test]
fn what_is_printed_is_committed_while_reading_goes_on() {
    let cluster = letters(2);
    let mut running = member(&cluster, "orders");
    assert_eq!(lines(&mut running, 6), all(2));
    until("it is committed", || committed(&cluster) == [Some(2); 3]);
    running.ends_cleanly_on("INT");
}

#[test]
fn a_count_commits_exactly_as_many() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["a0", "a1", "a2", "a3", "a4", "a5"]); // one batch
    let read =
        |options: &str| -> Ended { cluster.ottla(&format!("read -g g orders {options}")).run().done() };
    let offset = || cluster.change(|cluster| cluster.committed("g", "orders", 0));
    assert_eq!(read("-n 2").lines(), ["a0", "a1"]);
    assert_eq!(offset(), Some(2));
    assert_eq!(read("-n 1").lines(), ["a2"]);
    assert_eq!(offset(), Some(3));
    assert_eq!(read("-n 3").lines(), ["a3", "a4", "a5"]);
    assert_eq!(offset(), Some(6));
}

#[test]
fn without_commits_nothing_is_committed() {
    let cluster = letters(3);
    for _ in 0..2 {
        let ended = cluster.ottla("read -g g orders --no-commit -n 9").run().done();
        assert_eq!(ended.sorted(), all(3));
    }
    assert_eq!(committed(&cluster), [None; 3]);
    assert!(cluster.change(|cluster| cluster.commits("g").is_empty()));
}

#[test]
fn two_members_share_the_partitions_and_print_each_record_once() {
    let cluster = letters(5);
    let mut first = member(&cluster, "orders");
    let mut printed = lines(&mut first, 15);
    let mut second = cluster.ottla("read -g g orders").start();
    first.note("giving up orders 0-2");
    until("both are in", || is_stable(&cluster, 2));
    second.note("group g: reading orders ");
    append(&cluster, 5, 5);
    // Range gives two partitions to one of them and one to the other; which, is for the broker to say.
    let owns_two = first.note("reading orders").contains('-');
    let (of_first, of_second) = if owns_two { (10, 5) } else { (5, 10) };
    printed.extend(lines(&mut first, of_first));
    printed.extend(lines(&mut second, of_second));
    printed.sort_unstable();
    let mut expected = all(10);
    expected.sort_unstable();
    assert_eq!(printed, expected);
    // The one that stays takes over, from where the other was.
    first.ends_cleanly_on("INT");
    second.note("giving up orders ");
    second.note("group g: reading orders 0-2");
    append(&cluster, 10, 1);
    assert_eq!(lines(&mut second, 3), ["a10", "b10", "c10"]);
    second.ends_cleanly_on("INT");
    assert_eq!(committed(&cluster), [Some(11); 3]);
}

/// The first member's output is stuck in a pipe that nobody reads for a while: what did not get out is not committed.
#[test]
fn what_did_not_get_out_is_not_committed() {
    let cluster = Cluster::with_orders(1);
    let line = "x".repeat(1000);
    for _ in 0..20 {
        cluster.append(0, &vec![line.as_str(); 100]);
    }
    let mut running = cluster.ottla("read -g g orders").start();
    let mut stdout = running.stdout();
    stdout.read_exact(&mut [0; 1]).unwrap();
    until("something is committed", || {
        cluster.change(|cluster| cluster.committed("g", "orders", 0)).is_some()
    });
    running.signal("INT");
    assert_eq!(running.wait(), Some(0), "{}", running.notes());
    let offset = cluster.change(|cluster| cluster.committed("g", "orders", 0)).unwrap();
    let printed = 1 + BufReader::new(stdout)
        .lines()
        .filter(|line| line.as_ref().is_ok_and(|line| line.len() >= 999))
        .count();
    assert!(offset < 2000 && offset as usize <= printed, "{offset} are committed, {printed} came out");
    assert_eq!(members(&cluster), 0);
}

/// The same where printing stops within a batch, whose last commit waits for nothing but the output.
#[test]
fn a_count_that_did_not_get_out_is_not_committed() {
    let cluster = Cluster::with_orders(1);
    let line = "x".repeat(1000);
    cluster.append(0, &vec![line.as_str(); 300]); // one batch, more than the pipe holds
    let mut running = cluster.ottla("read -g g orders -n 200").start();
    let mut stdout = running.stdout();
    stdout.read_exact(&mut [0; 1]).unwrap();
    running.signal("INT");
    assert_eq!(running.wait(), Some(0), "{}", running.notes());
    let printed =
        BufReader::new(stdout).lines().filter(|line| line.as_ref().is_ok_and(|l| l.len() >= 999)).count();
    let offset = cluster.change(|cluster| cluster.committed("g", "orders", 0)).unwrap_or(0);
    assert!(printed < 200 && offset as usize <= printed + 1, "{offset} are committed, {printed} came out");
    let full = cluster.ottla("read -g full orders -n 200 -o /dev/full").run();
    full.failed("No space left on device");
    let offset = cluster.change(|cluster| cluster.committed("full", "orders", 0)).unwrap_or(0);
    assert_eq!(offset, 0);
}

/// Nobody takes what the first one prints; the second one gets its share all the same.
#[test]
fn a_stuck_output_holds_up_no_other_member() {
    let cluster = Cluster::with_orders(2);
    let line = "x".repeat(1000);
    for partition in 0..2 {
        for _ in 0..10 {
            cluster.append(partition, &vec![line.as_str(); 100]);
        }
    }
    let mut first = cluster.ottla("read -g g orders").start();
    let stdout = first.stdout();
    first.note("group g: reading orders 0-1");
    let started = Instant::now();
    let mut second = cluster.ottla("read -g g orders -f %p\\n").start();
    let reading = second.note("group g: reading orders ");
    let partition = reading.rsplit(' ').next().unwrap();
    assert_eq!(second.line(), partition);
    // A heartbeat (3 s) and the patience with the output (2 s); a revoke without end would have 48 s.
    assert!(started.elapsed() < Duration::from_secs(24), "{:?}", started.elapsed());
    drop(stdout);
    first.end().done();
    second.ends_cleanly_on("INT");
}

#[test]
fn a_reader_that_has_enough_leaves_the_group() {
    let cluster = letters(100);
    let mut running = cluster.ottla("read -g g orders").start();
    BufReader::new(running.stdout()).read_line(&mut String::new()).unwrap(); // and closes it
    running.end().done();
    assert_eq!(members(&cluster), 0);
}

#[test]
fn where_nothing_is_committed_from_says_where_to_begin() {
    let cluster = letters(3);
    cluster.change(|cluster| cluster.commit_offset("g", "orders", 0, 1));
    let ended = cluster.ottla("read -g g orders --from -1 -n 4").run().done();
    assert_eq!(ended.sorted(), ["a1", "a2", "b2", "c2"]);
}

#[test]
fn topics_are_named_or_match_a_pattern() {
    let cluster = Cluster::start();
    cluster.change(|cluster| {
        for topic in ["orders", "orders-eu", "orders-us", "refunds", "old-orders"] {
            cluster.create_topic(topic, 1).unwrap();
            cluster.append_values(topic, 0, 1000, [topic]).unwrap();
        }
    });
    for (topics, expected) in [
        ("orders refunds", &["orders", "refunds"][..]),
        ("/orders-.*/", &["orders-eu", "orders-us"]),
        ("refunds /orders/", &["orders", "refunds"]),
        ("/refunds|orders-eu/ /.*-us/", &["orders-eu", "orders-us", "refunds"]),
    ] {
        let line = format!("read --no-commit -g g {topics} -n {}", expected.len());
        let ended = cluster.ottla(&line).run().done();
        assert_eq!(ended.sorted(), expected, "{topics}");
        let ended = cluster.ottla(&format!("read {topics} --until end")).run().done();
        assert_eq!(ended.sorted(), expected, "{topics}, without a group");
    }
}

#[test]
fn an_assignor_and_an_instance_are_used() {
    let cluster = letters(1);
    let mut running = member(&cluster, "orders --assignor sticky,range --instance till-1");
    lines(&mut running, 3);
    let group = cluster.change(|cluster| cluster.group("g").unwrap());
    assert_eq!(group.protocol.as_deref(), Some("sticky"));
    assert_eq!(group.members[0].instance.as_deref(), Some("till-1"));
    assert_eq!(group.members[0].protocols, ["sticky", "range"]);
    running.ends_cleanly_on("INT");
    // A static member may come back: it does not leave.
    assert_eq!((members(&cluster), committed(&cluster)), (1, [Some(1); 3]));
}

#[test]
fn the_coordinator_may_move_and_load() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| cluster.create_topic("orders", 3).unwrap());
    append(&cluster, 0, 1);
    let mut running = member(&cluster, "orders");
    assert_eq!(lines(&mut running, 3), all(1));
    let node = cluster.change(|cluster| cluster.coordinator("g")).unwrap();
    cluster.change(|cluster| cluster.set_coordinator("g", 3 - node).unwrap());
    append(&cluster, 1, 1);
    assert_eq!(lines(&mut running, 3), ["a1", "b1", "c1"]);
    until("it is committed", || committed(&cluster) == [Some(2); 3]);
    running.ends_cleanly_on("INT");
    assert_eq!(members(&cluster), 0);
}

#[test]
fn a_refusal_of_the_group_ends_the_command() {
    let cluster = letters(1);
    let code = Code::GROUP_AUTHORIZATION_FAILED;
    cluster.change(|cluster| cluster.fault(Fault::partition_error(ApiKey::FindCoordinator, code).always()));
    let ended = cluster.ottla("read -g g orders").run().failed("GROUP_AUTHORIZATION_FAILED");
    assert!(ended.stderr.contains("group g") && ended.took < Duration::from_secs(10), "{ended:?}");
}

#[test]
fn what_cannot_be_committed_is_a_failure() {
    let cluster = letters(1);
    let fault = Fault::partition_error(ApiKey::OffsetCommit, Code::COORDINATOR_LOAD_IN_PROGRESS).always();
    cluster.change(|cluster| cluster.fault(fault));
    let ended = cluster.ottla("read -g g orders -n 3").run();
    assert_eq!(ended.sorted(), all(1));
    ended.failed("could not be committed");
    assert_eq!(members(&cluster), 0);
}

/// The group is not complete yet, so nobody has a partition.
#[test]
fn ctrl_c_ends_a_member_that_waits_for_the_others() {
    let options = ClusterOptions::new().initial_rebalance_delay(Duration::from_secs(60));
    let cluster = Cluster::with_options(options);
    cluster.change(|cluster| cluster.create_topic("orders", 3).unwrap());
    let running = cluster.ottla("read -g g orders").start();
    until("it joins", || {
        cluster.change(|cluster| cluster.group("g").is_some_and(|group| !group.members.is_empty()))
    });
    running.ends_cleanly_on("INT");
    until("it has left", || members(&cluster) == 0);
}

#[test]
fn ctrl_c_ends_a_member_that_reaches_nobody() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut running = support::ottla("read -g g orders").broker(&closed.to_string()).start();
    running.note("trying again");
    running.ends_cleanly_on("INT");
}

/// The broker that coordinates does not answer any more; who is told to end twice does not wait for it.
#[test]
fn ctrl_c_twice_waits_for_nobody() {
    let cluster = letters(1);
    let mut running = member(&cluster, "orders");
    assert_eq!(lines(&mut running, 3), all(1));
    until("it is committed", || committed(&cluster) == [Some(1); 3]);
    cluster.change(|cluster| cluster.fault(Fault::silence(ApiKey::LeaveGroup).always()));
    running.signal("INT");
    running.note("takes longer than usual");
    running.ends_cleanly_on("INT");
}

#[test]
fn a_group_of_readers_is_shown_with_its_owners() {
    let cluster = letters(3);
    let mut running = member(&cluster, "orders");
    lines(&mut running, 9);
    until("it is committed", || committed(&cluster) == [Some(3); 3]);
    append(&cluster, 3, 1);
    lines(&mut running, 3);
    let ended = cluster.ottla("group show g --json").run().quietly();
    let shown: Value = serde_json::from_str(ended.text()).unwrap();
    assert_eq!((&shown["state"], &shown["assignor"]), (&"Stable".into(), &"range".into()));
    let member = &shown["members"][0];
    assert_eq!(member["client_id"], "ottla-cli");
    assert_eq!(member["partitions"], serde_json::json!({"orders": [0, 1, 2]}));
    let owners = shown["partitions"].as_array().unwrap().iter().map(|row| &row["owner"]);
    assert!(owners.into_iter().all(|owner| owner == &member["id"]), "{shown}");
    for line in ["group seek g orders --to earliest --yes", "group delete g --yes"] {
        cluster.ottla(line).run().failed("group g has 1 member (ottla-cli");
    }
    // What it would do is shown all the same.
    let shown = cluster.ottla("group seek g orders --to earliest").run();
    assert!(shown.text().contains("TO  CHANGE"), "{}", shown.text());
    shown.failed("group g has 1 member (ottla-cli");
    let told = "group g (Stable) has the offsets of 3 partitions and 1 member: it cannot be deleted now";
    cluster.ottla("group delete g").run().failed(told);
    running.ends_cleanly_on("INT");
    cluster.ottla("group seek g orders --to earliest --yes").run().done();
    assert_eq!(committed(&cluster), [Some(0); 3]);
}

#[test]
fn bench_reads_as_a_member_and_commits() {
    let cluster = letters(100);
    for api in ["batch", "message"] {
        let line = format!("bench orders -g g --count 150 --api {api}");
        let ended = cluster.ottla(&line).run().done();
        let object: Value = serde_json::from_str(ended.text()).unwrap();
        assert_eq!((&object["n"], &object["client"]), (&150.into(), &format!("ottla-{api}").into()));
    }
    assert_eq!(committed(&cluster), [Some(100); 3]);
    let why = "topic orders holds 0 records that group g has not read, not 1";
    cluster.ottla("bench orders -g g --count 1").run().failed(why);
}
