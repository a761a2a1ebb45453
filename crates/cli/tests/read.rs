//! `ottla read` against the embedded broker.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use std::{
    io::{BufRead, BufReader},
    thread,
};

use ottla_broker::{ApiKey, Fault};
use ottla_wire::record::Codec;
use serde_json::{Value, json};
use support::{Cluster, until};

/// Three partitions: 0 has a0..a4, 1 has b0..b2, 2 nothing. A record at offset n has the time 1000 + n.
fn letters() -> Cluster {
    let cluster = Cluster::with_orders(3);
    for (partition, name, count) in [(0, "a", 5), (1, "b", 3)] {
        for n in 0..count {
            cluster.append_batch(partition, Codec::None, |batch| {
                batch.push(1000 + n, None, Some(format!("{name}{n}").as_bytes()), &[]);
            });
        }
    }
    cluster
}

fn read(cluster: &Cluster, options: &str) -> Vec<String> {
    let ended = cluster.ottla(&format!("read orders {options}")).run().quietly();
    ended.sorted().iter().map(ToString::to_string).collect()
}

#[test]
fn every_partition_is_read_to_its_end_in_order() {
    let cluster = letters();
    let ended = cluster.ottla("read orders --until end").run().quietly();
    assert_eq!(ended.sorted(), ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]);
    for name in ["a", "b"] {
        let of_one: Vec<_> = ended.lines().into_iter().filter(|line| line.starts_with(name)).collect();
        assert!(of_one.is_sorted(), "{of_one:?}");
    }
}

#[test]
fn partitions_can_be_named() {
    let cluster = letters();
    assert_eq!(read(&cluster, "-p 1 --until end"), ["b0", "b1", "b2"]);
    assert_eq!(read(&cluster, "-p 1 -p 2 -p 1 --until end"), ["b0", "b1", "b2"]);
    assert_eq!(read(&cluster, "-p 2 --until end"), [""; 0]);
}

#[test]
fn every_beginning() {
    let cluster = letters();
    for (from, lines) in [
        ("earliest", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"][..]),
        ("latest", &[]),
        ("0", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]),
        ("-0", &[]),
        ("-1", &["a4", "b2"]),
        ("-4", &["a1", "a2", "a3", "a4", "b0", "b1", "b2"]),
        ("-1000", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]),
        ("@1002", &["a2", "a3", "a4", "b2"]),
        ("@1970-01-01T00:00:01.003Z", &["a3", "a4"]),
        ("@-1h", &[]),
        ("@0", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]),
    ] {
        assert_eq!(read(&cluster, &format!("--until end --from {from}")), lines, "{from}");
    }
    assert_eq!(read(&cluster, "-p 0 -p 1 --until end --from 2"), ["a2", "a3", "a4", "b2"]);
}

#[test]
fn a_partition_that_does_not_reach_to_the_beginning_is_told_of() {
    let ended = letters().ottla("read orders --from 4 --until end").run().done();
    assert_eq!(ended.lines(), ["a4"]);
    let mut notes: Vec<_> = ended.stderr.lines().collect();
    notes.sort_unstable();
    let [one, two] = notes[..] else { panic!("{notes:?}") };
    assert!(one.contains("orders partition 1: offset 4 is not in the log; going on at 3"), "{one}");
    assert!(two.contains("orders partition 2: offset 4 is not in the log; going on at 0"), "{two}");
}

#[test]
fn every_end() {
    let cluster = letters();
    for (until, lines) in [
        ("end", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"][..]),
        ("0", &[]),
        ("2", &["a0", "a1", "b0", "b1"]),
        ("@1003", &["a0", "a1", "a2", "b0", "b1", "b2"]),
        ("@1000", &[]),
        ("@-1s", &["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]),
    ] {
        assert_eq!(read(&cluster, &format!("-p 0 -p 1 --until {until}")), lines, "{until}");
    }
    assert_eq!(read(&cluster, "-p 0 --from 1 --until 4"), ["a1", "a2", "a3"]);
    assert_eq!(read(&cluster, "-p 0 --from @1001 --until @1003"), ["a1", "a2"]);
    assert_eq!(read(&cluster, "-p 0 --from 3 --until 3"), [""; 0]);
}

#[test]
fn an_end_inside_a_batch_is_kept_to() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["a0", "a1", "a2", "a3"]);
    assert_eq!(read(&cluster, "--from 1 --until 3"), ["a1", "a2"]);
}

#[test]
fn a_count_is_over_all_partitions() {
    let cluster = letters();
    assert_eq!(read(&cluster, "-n 4").len(), 4);
    assert_eq!(read(&cluster, "-n 8").len(), 8);
    assert_eq!(read(&cluster, "-n 100 --until end").len(), 8);
    assert_eq!(read(&cluster, "-n 2 -p 0"), ["a0", "a1"]);
}

#[test]
fn every_codec_is_read() {
    let cluster = Cluster::with_orders(1);
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    for codec in codecs {
        cluster.append_batch(0, codec, |batch| {
            for n in 0..1000 {
                batch.push(0, None, Some(format!("{codec} {n}").as_bytes()), &[]);
            }
        });
    }
    let expected: Vec<_> = codecs.iter().flat_map(|c| (0..1000).map(move |n| format!("{c} {n}"))).collect();
    assert_eq!(cluster.ottla("read orders --until end").run().quietly().lines(), expected);
}

/// A record with everything, one of nulls, and one of empty fields.
fn odd_records() -> Cluster {
    let cluster = Cluster::with_orders(1);
    cluster.append_batch(0, Codec::Zstd, |batch| {
        batch.push(
            1001,
            Some(b"k"),
            Some("gr\u{fc}n".as_bytes()),
            &[("b", Some(b"1")), ("a", None), ("b", Some(b""))],
        );
        batch.push(1002, None, None, &[]);
        batch.push(1003, Some(b""), Some(b""), &[("", Some(b"\xff"))]);
        batch.push(1004, Some(b"\xfe\xff"), Some(b"\0\n\""), &[]);
    });
    cluster
}

#[test]
fn formats_are_kcats() {
    let format = r"%t|%p|%o|%T|%k|%K|%s|%S|%h|%%\x21\t\\;";
    let ended = odd_records().ottla("read orders --until end -f").arg(format).run().quietly();
    let mut expected = "orders|0|0|1001|k|1|gr\u{fc}n|5|b=1,a=NULL,b=|%!\t\\;".as_bytes().to_vec();
    expected.extend_from_slice(b"orders|0|1|1002||-1||-1||%!\t\\;");
    expected.extend_from_slice(b"orders|0|2|1003||0||0|=\xff|%!\t\\;");
    expected.extend_from_slice(b"orders|0|3|1004|\xfe\xff|2|\0\n\"|3||%!\t\\;");
    assert_eq!(ended.stdout, expected, "{}", String::from_utf8_lossy(&ended.stdout));
}

#[test]
fn json_keeps_what_is_odd() {
    let ended = odd_records().ottla("read orders --until end --json").run().quietly();
    let objects: Vec<Value> = ended.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let object = |offset: i64, key: Value, value: Value, headers: Value| {
        json!({
            "topic": "orders", "partition": 0, "offset": offset, "timestamp": 1001 + offset, "timestamp_type": "create",
            "leader_epoch": 0, "key": key, "value": value, "headers": headers,
        })
    };
    let expected = [
        object(0, json!("k"), json!("gr\u{fc}n"), json!([["b", "1"], ["a", null], ["b", ""]])),
        object(1, Value::Null, Value::Null, json!([])),
        object(2, json!(""), json!(""), json!([["", {"base64": "/w=="}]])),
        object(3, json!({"base64": "/v8="}), json!("\0\n\""), json!([])),
    ];
    assert_eq!(objects, expected);
}

#[test]
fn append_time_is_told() {
    let cluster = Cluster::with_orders(1);
    cluster.append_batch(0, Codec::None, |batch| {
        batch.append_time(5000).push(1000, None, Some(b"x"), &[]);
    });
    let ended = cluster.ottla("read orders -n 1 --json").run().quietly();
    let object: Value = serde_json::from_str(ended.text()).unwrap();
    assert_eq!((&object["timestamp"], &object["timestamp_type"]), (&json!(5000), &json!("append")));
}

#[test]
fn what_comes_later_is_followed_at_once() {
    let cluster = letters();
    let mut running = cluster.ottla("read orders -p 0").start();
    for expected in ["a0", "a1", "a2", "a3", "a4"] {
        assert_eq!(running.line(), expected);
    }
    for later in ["a5", "a6"] {
        cluster.append(0, &[later]);
        assert_eq!(running.line(), later);
    }
    running.ends_cleanly_on("INT");
}

#[test]
fn following_from_the_latest_leaves_out_what_was_there() {
    let cluster = letters();
    let mut running = cluster.ottla("read orders -p 0 --from latest").start();
    until("a fetch is parked", || cluster.change(|cluster| cluster.requests(ApiKey::Fetch) > 0));
    cluster.append(0, &["new"]);
    assert_eq!(running.line(), "new");
    running.ends_cleanly_on("TERM");
}

#[test]
fn ctrl_c_ends_an_idle_read() {
    let cluster = Cluster::with_orders(1);
    let running = cluster.ottla("read orders").start();
    until("a fetch is parked", || cluster.change(|cluster| cluster.requests(ApiKey::Fetch) > 0));
    running.ends_cleanly_on("INT");
}

/// Some 20 MB: more than pipes and blocks hold.
fn much() -> Cluster {
    let cluster = Cluster::with_orders(1);
    let value = "x".repeat(100);
    let values = vec![value.as_str(); 1000];
    for _ in 0..200 {
        cluster.append(0, &values);
    }
    cluster
}

#[test]
fn ctrl_c_ends_a_read_whose_output_is_stalled() {
    let cluster = much();
    let mut running = cluster.ottla("read orders").start();
    let mut stdout = BufReader::new(running.stdout());
    stdout.read_line(&mut String::new()).unwrap();
    running.ends_cleanly_on("INT");
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let cluster = much();
    let mut running = cluster.ottla("read orders --until end").start();
    let mut line = String::new();
    BufReader::new(running.stdout()).read_line(&mut line).unwrap(); // and closes it
    assert_eq!(line.len(), 101);
    running.end().quietly();
}

#[test]
#[cfg(target_os = "linux")]
fn a_reader_that_has_enough_is_noticed_while_nothing_comes() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["only"]);
    let mut running = cluster.ottla("read orders").start();
    let mut line = String::new();
    BufReader::new(running.stdout()).read_line(&mut line).unwrap();
    assert_eq!(line, "only\n");
    running.end().quietly();
}

#[test]
fn a_closed_output_from_the_start_is_no_failure() {
    let cluster = much();
    let mut running = cluster.ottla("read orders").start();
    drop(running.stdout());
    running.end().quietly();
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_a_failure() {
    for options in ["", "--until end", "-n 1"] {
        let ended = letters().ottla(&format!("read orders {options}")).print_to("/dev/full").run();
        ended.failed("cannot write the output: No space left on device");
    }
}

#[test]
fn a_slow_output_gets_everything() {
    let cluster = much();
    let mut running = cluster.ottla("read orders --until end").start();
    let stdout = BufReader::with_capacity(4096, running.stdout());
    let counting =
        thread::spawn(move || stdout.lines().filter(|line| line.as_ref().unwrap().len() == 100).count());
    assert_eq!(running.wait(), Some(0), "{}", running.notes());
    assert_eq!(counting.join().unwrap(), 200_000);
}

#[test]
fn a_damaged_partition_is_told_and_the_others_go_on() {
    let cluster = letters();
    cluster.change(|cluster| cluster.fault(Fault::corrupt_records(65).topic("orders").partition(1).always()));
    let ended = cluster.ottla("read orders --until end").run().failed("orders partition 1");
    assert_eq!(ended.lines(), ["a0", "a1", "a2", "a3", "a4"]);
    assert!(ended.stderr.contains("damaged"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn when_all_partitions_are_damaged_there_is_nothing_to_follow() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["x"]);
    cluster.change(|cluster| cluster.fault(Fault::corrupt_records(65).always()));
    cluster.ottla("read orders").run().failed("orders partition 0");
}

#[test]
fn an_offset_that_is_gone_is_told() {
    let cluster = letters();
    cluster.change(|cluster| cluster.delete_records("orders", 0, 3).unwrap());
    let ended = cluster.ottla("read orders -p 0 --from 1 --until end").run().done();
    assert_eq!(ended.lines(), ["a3", "a4"]);
    assert!(
        ended.stderr.contains("orders partition 0: offset 1 is not in the log; going on at 3"),
        "{}",
        ended.stderr
    );
}

#[test]
fn times_without_a_zone_are_local() {
    let cluster = Cluster::with_orders(1);
    let eight_utc = 1_796_025_600_000; // 2026-11-30T08:00:00Z
    for (n, value) in [(-1, "before"), (0, "then"), (1, "after")] {
        cluster.append_batch(0, Codec::None, |batch| {
            batch.push(eight_utc + n, None, Some(value.as_bytes()), &[]);
        });
    }
    for (zone, from) in [
        ("UTC0", "2026-11-30T08:00"),
        ("EET-2", "2026-11-30T10:00:00"),
        ("XST8", "2026-11-30"),
        ("UTC0", "2026-11-30T08:00Z"),
    ] {
        let line = format!("read orders --until end --from @{from}");
        let ended = cluster.ottla(&line).variable("TZ", zone).run().quietly();
        assert_eq!(ended.lines(), ["then", "after"], "{zone} {from}");
    }
}
