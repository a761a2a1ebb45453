//! `ottla groups` and `ottla group` against the embedded broker.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

mod support;

use std::{net::TcpListener, time::Duration};

use ottla_broker::{ApiKey, ClusterOptions, Code, Fault};
use ottla_wire::record::Codec;
use serde_json::{Value, json};
use support::{Cluster, ottla, until};

/// Two partitions: 0 has five records, 1 has three; the record at offset n has the time 1000 + n. The group billing stands
/// at 2 and 3.
fn billing() -> Cluster {
    let cluster = Cluster::with_orders(2);
    for (partition, count) in [(0, 5), (1, 3)] {
        for n in 0..count {
            cluster.append_batch(partition, Codec::None, |batch| {
                batch.push(1000 + n, None, Some(b"x"), &[]);
            });
        }
    }
    cluster.change(|cluster| {
        cluster.commit_offset("billing", "orders", 0, 2);
        cluster.commit_offset("billing", "orders", 1, 3);
    });
    cluster
}

fn committed(cluster: &Cluster, group: &str) -> [Option<i64>; 2] {
    cluster.change(|cluster| [0, 1].map(|partition| cluster.committed(group, "orders", partition)))
}

/// The cells of the table's rows, from the line on that begins with `title`.
fn rows(text: &str, title: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    lines.take_while(|line| !line.is_empty()).map(cells).collect()
}

#[test]
fn groups_are_listed_from_all_brokers() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| {
        cluster.create_topic("orders", 1).unwrap();
        for (group, node) in [("shipping", 1), ("billing", 2)] {
            cluster.set_coordinator(group, node).unwrap();
            cluster.commit_offset(group, "orders", 0, 0);
        }
    });
    let ended = cluster.ottla("groups").run().quietly();
    let lines: Vec<Vec<&str>> = ended.lines().iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["GROUP", "KIND", "TYPE", "STATE"]);
    assert_eq!(lines[1], ["billing", "classic", "-", "Empty"]);
    assert_eq!(lines[2][0], "shipping");
    let ended = cluster.ottla("groups --json").run().quietly();
    let objects: Vec<Value> = ended.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let object =
        |group: &str| json!({"group": group, "kind": "classic", "protocol_type": "", "state": "Empty"});
    assert_eq!(objects, [object("billing"), object("shipping")]);
}

#[test]
fn a_group_is_shown_with_its_lag() {
    let ended = billing().ottla("group show billing").run().quietly();
    let text = ended.text();
    assert!(text.starts_with("group billing: classic, Empty; coordinator: broker 1 at 127.0.0.1:"), "{text}");
    let rows = rows(text, "TOPIC");
    assert_eq!(rows[0][..5], ["orders", "0", "2", "5", "3"], "{text}");
    assert_eq!(rows[1], ["orders", "1", "3", "3", "0", "0", "s", "-"], "{text}");
    // Of January 1970, so the words are days and hours.
    assert_eq!((&rows[0][6][..], &rows[0][8][..]), ("d", "h"), "{text}");
    assert!(text.contains("0 members, 2 partitions, 3 records behind, the oldest "), "{text}");
}

#[test]
fn a_group_is_shown_as_json() {
    let ended = billing().ottla("group show billing --json").run().quietly();
    assert_eq!(ended.lines().len(), 1);
    let object: Value = serde_json::from_str(ended.text()).unwrap();
    assert_eq!((&object["group"], &object["state"]), (&json!("billing"), &json!("Empty")));
    assert_eq!(object["members"], json!([]));
    let partitions = object["partitions"].as_array().unwrap();
    let figures = |at: usize| {
        ["partition", "committed", "earliest", "end", "lag"].map(|name| partitions[at][name].clone())
    };
    assert_eq!(figures(0), [0, 2, 0, 5, 3]);
    assert_eq!(figures(1), [1, 3, 0, 3, 0]);
    // The next record is of 1970, a second and two milliseconds after its beginning.
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let behind = partitions[0]["behind_secs"].as_f64().unwrap();
    let late = since_1970.as_secs_f64() - 1.002 - behind;
    assert!((-0.01..ended.took.as_secs_f64() + 0.01).contains(&late), "{behind}");
    assert_eq!(partitions[1]["behind_secs"], 0.0);
}

#[test]
fn what_is_wrong_with_a_partition_is_shown_below() {
    let cluster = billing();
    cluster.change(|cluster| cluster.set_leader("orders", 0, None).unwrap());
    let ended = cluster.ottla("group show billing").run().quietly();
    assert!(ended.text().contains("orders partition 0 has no leader"), "{}", ended.text());
    assert_eq!(rows(ended.text(), "TOPIC")[0][..5], ["orders", "0", "2", "-", "-"]);
}

#[test]
fn a_group_is_watched_until_ctrl_c() {
    let cluster = billing();
    let mut running = cluster.ottla("group show billing --watch --json").start();
    let lag = |line: String| serde_json::from_str::<Value>(&line).unwrap()["partitions"][0]["lag"].clone();
    assert_eq!(lag(running.line()), 3);
    cluster.change(|cluster| cluster.commit_offset("billing", "orders", 0, 4));
    while lag(running.line()) != 1 {}
    running.ends_cleanly_on("INT");
}

#[test]
fn watching_goes_on_through_what_passes() {
    let cluster = billing();
    let mut running = cluster.ottla("group show shipping --watch").start();
    running.note("group shipping does not exist");
    cluster.change(|cluster| cluster.commit_offset("shipping", "orders", 0, 4));
    assert!(running.line().starts_with("group shipping: classic, Empty"));
    running.ends_cleanly_on("INT");
}

#[test]
fn a_group_that_is_not_there_is_a_failure() {
    let cluster = billing();
    for line in ["group show shipping", "group delete shipping", "group delete shipping --yes"] {
        let ended = cluster.ottla(line).run().failed("group shipping does not exist");
        assert_eq!((ended.stdout.len(), ended.stderr.lines().count()), (0, 1), "{}", ended.stderr);
    }
}

#[test]
fn a_seek_shows_what_it_would_do_and_does_it_with_yes() {
    let cluster = billing();
    for (to, expected) in [
        ("earliest", [0, 0]),
        ("latest", [5, 3]),
        ("1", [1, 1]),
        ("-2", [3, 1]),
        ("@1001", [1, 1]),
        ("@1970-01-01T00:00:01.002Z", [2, 2]),
        ("@-1h", [5, 3]),
    ] {
        let before = committed(&cluster, "billing");
        let line = format!("group seek billing orders --to {to}");
        let ended = cluster.ottla(&line).run().done();
        assert_eq!(ended.stderr, "ottla: nothing was changed: --yes does it\n");
        assert_eq!(committed(&cluster, "billing"), before, "{to}");
        let shown: Vec<i64> = rows(ended.text(), "TOPIC").iter().map(|row| row[3].parse().unwrap()).collect();
        assert_eq!(shown, expected, "{to}");
        let ended = cluster.ottla(&format!("{line} --yes")).run().done();
        assert_eq!(ended.stderr, "ottla: group billing reads on from there in 2 partitions\n");
        assert_eq!(committed(&cluster, "billing"), expected.map(Some), "{to}");
    }
}

#[test]
fn a_seek_tells_the_change() {
    let cluster = billing();
    let changes = |line: &str| -> Vec<String> {
        let ended = cluster.ottla(line).run().done();
        rows(ended.text(), "TOPIC").into_iter().map(|mut row| row.remove(4)).collect()
    };
    assert_eq!(changes("group seek billing orders --to 3"), ["+1", "none"]);
    assert_eq!(changes("group seek billing orders:1 --to earliest"), ["-3"]);
    assert_eq!(changes("group seek shipping orders --to earliest"), ["new", "new"]);
}

#[test]
fn a_seek_of_one_partition_leaves_the_others() {
    let cluster = billing();
    cluster.ottla("group seek billing orders:1 --to 0 --yes").run().done();
    assert_eq!(committed(&cluster, "billing"), [Some(2), Some(0)]);
}

#[test]
fn a_seek_makes_a_group_that_is_not_there() {
    let cluster = billing();
    let ended = cluster.ottla("group seek shipping orders --to latest").run().done();
    assert!(ended.stderr.contains("group shipping does not exist and would be made"), "{}", ended.stderr);
    assert!(cluster.change(|cluster| cluster.group("shipping")).is_none());
    cluster.ottla("group seek shipping orders --to latest --yes").run().done();
    assert_eq!(committed(&cluster, "shipping"), [Some(5), Some(3)]);
}

#[test]
fn a_seek_beyond_the_log_tells_where_it_ends() {
    let ended = billing().ottla("group seek billing orders --to 4").run().done();
    let told = "ottla: orders partition 1: offset 4 is not in the log, which holds 0 to 3; 3 it is\n";
    assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
}

#[test]
fn a_seek_to_what_is_not_there_changes_nothing() {
    let cluster = billing();
    for (line, why) in [
        ("group seek billing refunds --to 0 --yes", "topic refunds does not exist"),
        ("group seek billing orders refunds --to 0 --yes", "topic refunds does not exist"),
        ("group seek billing orders:7 --to 0 --yes", "topic orders has no partition 7; it has 2 (0 to 1)"),
    ] {
        cluster.ottla(line).run().failed(why);
    }
    assert_eq!(committed(&cluster, "billing"), [Some(2), Some(3)]);
}

#[test]
fn a_group_is_deleted_with_yes() {
    let cluster = billing();
    let ended = cluster.ottla("group delete billing").run().done();
    let told = "ottla: group billing (Empty) has the offsets of 2 partitions; --yes deletes them all\n";
    assert_eq!(ended.stderr, told);
    assert!(cluster.change(|cluster| cluster.group("billing")).is_some());
    let ended = cluster.ottla("group delete billing --yes").run().done();
    assert_eq!(ended.stderr, "ottla: group billing is deleted\n");
    assert!(cluster.change(|cluster| cluster.group("billing")).is_none());
}

#[test]
fn a_refusal_says_who_must_act() {
    let cluster = billing();
    let fault = Fault::partition_error(ApiKey::FindCoordinator, Code::GROUP_AUTHORIZATION_FAILED).always();
    cluster.change(|cluster| cluster.fault(fault));
    for line in ["group show billing", "group seek billing orders --to 0", "group delete billing --yes"] {
        let ended = cluster.ottla(line).run().failed("GROUP_AUTHORIZATION_FAILED");
        assert!(ended.stderr.contains("allow this client to Describe the group"), "{}", ended.stderr);
        assert!(ended.took < Duration::from_secs(10), "{:?}", ended.took);
    }
}

#[test]
fn a_coordinator_that_loads_is_waited_for() {
    let cluster = billing();
    cluster.change(|cluster| cluster.load_coordinator("billing"));
    let running = cluster.ottla("group show billing").start();
    until("it asks again", || cluster.change(|cluster| cluster.requests(ApiKey::DescribeGroups)) > 1);
    cluster.change(|cluster| cluster.finish_loading("billing"));
    running.end().quietly();
}

/// All at once, because each takes its time.
#[test]
fn a_command_that_reaches_nobody_says_why_and_gives_up() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let lines = ["groups", "group show g", "group seek g t --to 0", "group delete g"];
    let running = lines.map(|line| ottla(line).broker(&closed).start());
    for running in running {
        let ended = running.end().failed("no broker could be reached within 10 s: ");
        assert!(ended.stderr.contains(&closed) && ended.stderr.contains("refused"), "{}", ended.stderr);
        assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    }
}

#[test]
fn ctrl_c_ends_what_waits() {
    let cluster = billing();
    cluster.change(|cluster| cluster.load_coordinator("billing"));
    let running = cluster.ottla("group show billing").start();
    until("it asks again", || cluster.change(|cluster| cluster.requests(ApiKey::DescribeGroups)) > 1);
    running.ends_cleanly_on("INT");
}
