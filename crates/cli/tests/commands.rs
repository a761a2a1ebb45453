//! `bench`, `demo`, `broker`, help and usage.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
};

use ottla::{Options, raw::Connection};
use ottla_wire::{Uuid, message::MetadataRequest};
use serde_json::Value;
use support::{Cluster, ottla};

/// Two partitions with 3000 records each; a value has 10 bytes, and every second record a key of 3.
fn thousands() -> Cluster {
    let cluster = Cluster::with_orders(2);
    for partition in 0..2 {
        for _ in 0..3 {
            cluster.append_batch(partition, ottla_wire::record::Codec::Lz4, |batch| {
                for n in 0..1000 {
                    batch.push(0, (n % 2 == 0).then_some(b"key"), Some(b"0123456789"), &[]);
                }
            });
        }
    }
    cluster
}

#[test]
fn bench_prints_a_line_of_json_about_exactly_so_many_records() {
    let cluster = thousands();
    for (api, options, count) in [
        ("batch", "", 1500),
        ("message", "", 1500),
        ("batch", "", 6000),
        ("message", "-p 1", 3000),
        ("batch", "-p 0", 1),
    ] {
        let line = format!("bench orders {options} --count {count} --api {api}");
        let ended = cluster.ottla(&line).run().quietly();
        assert_eq!(ended.lines().len(), 1);
        let object: Value = serde_json::from_str(ended.text()).unwrap();
        let names: Vec<_> = object.as_object().unwrap().keys().collect();
        assert_eq!(names, ["bytes", "client", "first", "n", "secs"]);
        assert_eq!(object["client"], format!("ottla-{api}"));
        assert_eq!(object["n"], count);
        assert_eq!(object["bytes"], 10 * count + 3 * ((count + 1) / 2), "{line}");
        let [first, secs] = ["first", "secs"].map(|name| object[name].as_f64().unwrap());
        assert!(0.0 < first && first <= secs && secs < ended.took.as_secs_f64(), "{object}");
    }
}

#[test]
fn bench_of_more_than_there_is_fails() {
    let cluster = thousands();
    cluster.ottla("bench orders --count 6001").run().failed("topic orders holds 6000 records, not 6001");
    cluster
        .ottla("bench orders -p 0 --count 3001")
        .run()
        .failed("orders partition 0 holds 3000 records, not 3001");
}

#[test]
fn demo_writes_reads_and_checks() {
    let ended = ottla("demo --records 20000").run().quietly();
    let text = ended.text();
    assert!(
        text.contains("written  20,000 records, ") && text.contains("read     20,000 records, "),
        "{text}"
    );
    assert!(text.contains("Every record came back once, in order, as it was written."), "{text}");
    let rows = text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    let records =
        rows.map(|row| row.split_whitespace().nth(1).unwrap().replace(',', "").parse::<u32>().unwrap());
    let records: Vec<_> = records.collect();
    assert_eq!((records.len(), records.iter().sum::<u32>()), (6, 20_000), "{text}");
    assert!(records.iter().all(|&records| records > 3000), "{text}");
}

/// Two members read, the second from the middle on; together they committed each offset once.
#[test]
fn demo_reads_as_a_group_of_two() {
    // Enough for several replies a partition: of fewer the first might read some whole and leave the second nothing.
    let ended = ottla("demo --records 200000").run().quietly();
    let text = ended.text();
    let rows: Vec<&str> =
        text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).collect();
    let mut by_member = [0, 0];
    for row in &rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        let number = |word: &str| word.trim_end_matches(',').replace(',', "").parse::<u64>().unwrap();
        let mut next = 0;
        for range in words[3..].chunks(4) {
            let [member, from, "to", last] = range else { panic!("{row}") };
            assert_eq!(number(from), next, "{row}");
            next = number(last) + 1;
            by_member[usize::from(*member == "second")] += next - number(from);
        }
        assert_eq!(next, number(words[1]), "{row}");
    }
    assert_eq!((rows.len(), by_member[0] + by_member[1]), (6, 200_000), "{text}");
    assert!(by_member[0] >= 100_000 && by_member[1] > 0, "{by_member:?}: {text}");
    assert!(text.contains("The second member joined after 1"), "{text}");
    assert!(text.contains("cover every record once"), "{text}");
}

#[test]
fn demo_of_a_single_record() {
    let ended = ottla("demo --records 1").run().quietly();
    assert!(ended.text().contains("read     1 records"), "{}", ended.text());
}

#[test]
fn broker_serves_until_it_is_interrupted() {
    let mut broker = ottla("broker --listen 127.0.0.1:0 --topic orders:3 --topic refunds:1").start();
    let address = broker.line();
    let written = ottla("produce orders -K :").broker(&address).run_with(b"a:1\nb:2\n").done();
    assert_eq!(written.stderr, "ottla: 2 records written to orders\n");
    let read = ottla("read orders --until end").broker(&address).run().quietly();
    assert_eq!(read.sorted(), ["1", "2"]);
    ottla("read refunds --until end").broker(&address).run().quietly();
    ottla("read others --until end").broker(&address).run().failed("topic others does not exist");
    broker.ends_cleanly_on("INT");
}

/// As a reader that outlives a broker sees it: else it would go on in the new topic where it was in the old one.
#[test]
fn broker_gives_a_topic_another_id_each_time() {
    let topic_id = || {
        let mut broker = ottla("broker --listen 127.0.0.1:0 --topic orders:1").start();
        topic_id_at(&broker.line())
    };
    let ids = [topic_id(), topic_id()];
    assert!(!ids[0].is_zero() && ids[0] != ids[1], "{ids:?}");
}

/// Of the one topic there.
fn topic_id_at(address: &str) -> Uuid {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let metadata = runtime.block_on(async {
        let address = address.parse().unwrap();
        let mut connection = Connection::dial(&address, &Options::default()).await.unwrap();
        connection.call(&MetadataRequest { topics: None, ..Default::default() }).await.unwrap()
    });
    metadata.topics[0].topic_id
}

#[test]
fn broker_on_a_port_that_is_taken_fails() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    ottla(&format!("broker --listen {address}")).run().failed(&format!("cannot listen on {address}"));
    ottla("broker --listen nonsense").run().failed("cannot listen on nonsense");
}

#[test]
fn help_and_version_are_no_failure() {
    for line in [
        "--help",
        "-h",
        "help",
        "read --help",
        "produce --help",
        "groups --help",
        "group --help",
        "group show --help",
        "group seek --help",
        "group delete --help",
        "bench --help",
        "demo --help",
        "broker --help",
    ] {
        let ended = ottla(line).run().quietly();
        assert!(ended.text().contains("Usage: ottla"), "{}", ended.text());
        assert!(ended.text().contains("Examples:"), "{}", ended.text());
        assert!(!ended.text().contains('\x1b'), "color without a terminal");
    }
    assert!(ottla("--version").run().quietly().text().starts_with("ottla 0."));
}

#[test]
fn only_who_needs_a_broker_lists_the_option_for_it() {
    for (command, is_listed) in [
        ("read", true),
        ("produce", true),
        ("groups", true),
        ("group show", true),
        ("bench", true),
        ("demo", false),
        ("broker", false),
    ] {
        let ended = ottla(&format!("{command} --help")).run().quietly();
        assert_eq!(ended.text().contains("--brokers"), is_listed, "{}", ended.text());
    }
}

#[test]
fn demo_and_broker_take_no_other_broker_but_do_not_mind_the_environment() {
    for line in ["demo -b localhost:9092", "-b localhost:9092 broker"] {
        let ended = ottla(line).run();
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains("a broker of its own"), "{}", ended.stderr);
    }
    ottla("demo --records 1").broker("127.0.0.1:1").run().quietly();
    let mut broker = ottla("broker --listen 127.0.0.1:0").broker("127.0.0.1:1").start();
    broker.line();
    broker.ends_cleanly_on("INT");
}

#[test]
fn help_may_be_cut_short() {
    let mut running = ottla("read --help").start();
    drop(BufReader::new(running.stdout()).lines().next());
    running.end().quietly();
}

#[test]
fn wrong_usage_is_told_as_such() {
    for (line, why) in [
        ("", "Usage"),
        ("reed orders", "reed"),
        ("read", "TOPIC"),
        ("read orders --from someday", "yesterday"),
        ("read orders -f %z", "%"),
        ("read orders --until -5", "--until knows no -N"),
        ("read orders --until -15m", "@-15m"),
        ("read orders --from 5 --until 2", "--from 5 is beyond --until 2"),
        ("read orders -n 0", "nothing; the least is 1"),
        ("read orders -n -3", "write a number"),
        ("read orders --count 99999999999999999999", "more than can be counted"),
        ("bench orders --count 0", "nothing; the least is 1"),
        ("demo --records 0", "nothing; the least is 1"),
        ("-b host:port read orders", "port"),
        ("read orders -p x", "x"),
        ("read bad/name", "bad/name"),
        ("produce orders -z rar", "rar"),
        ("group", "Usage"),
        ("group show", "GROUP"),
        ("group seek billing orders", "--to"),
        ("group seek billing orders:x --to 5", "orders:3"),
        ("group seek billing orders --to -15m", "@-15m"),
        ("bench orders", "--count"),
        ("broker --topic orders", "NAME:PARTITIONS"),
    ] {
        let ended = ottla(line).run();
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{line}: {}", ended.stderr);
        assert_eq!(ended.stdout, b"");
    }
}

#[test]
fn brokers_come_from_the_option_before_the_environment() {
    let cluster = thousands();
    let line = format!("-b {} bench orders --count 1", cluster.bootstrap());
    ottla(&line).broker("127.0.0.1:1").run().quietly();
}
