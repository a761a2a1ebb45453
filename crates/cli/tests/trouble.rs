//! What goes wrong between a command and its cluster, and what the command says to that.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use ottla_broker::{ApiKey, ClusterOptions, Code, Fault, Leaders};
use support::{Cluster, Ended, Ottla, ottla, until};

/// How long a command that reaches nobody tries, and what it may take besides on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
const SLACK: Duration = Duration::from_secs(10);

/// The commands that need a broker.
const NEED_A_BROKER: [&str; 4] = ["read orders", "bench orders --count 1", "produce orders", "topics"];

/// Where nobody of use is, and what is to be said about it.
fn useless_addresses() -> Vec<(String, &'static str)> {
    vec![
        (format!("127.0.0.1:{}", closed_port()), "refused"),
        ("no-such-host.invalid:9092".to_owned(), "cannot connect"),
        (stranger(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), "HTTP"),
        // A fatal alert, with which a TLS server answers what is no TLS: unexpected_message.
        (stranger(&[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x0a]), "TLS"),
        (stranger(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]), "2147483647"),
        (stranger(b""), "versions"), // says nothing
    ]
}

/// All at once, because each takes its time.
#[test]
fn a_command_that_reaches_nobody_says_why_and_gives_up() {
    let mut running = Vec::new();
    for (address, why) in useless_addresses() {
        running.extend(
            NEED_A_BROKER.map(|line| (ottla(line).broker(&address).start(), line, address.clone(), why)),
        );
    }
    for (running, line, address, why) in running {
        let ended = running.end().failed("no broker could be reached within 10 s: ");
        let last = ended.stderr.lines().find(|line| line.contains("no broker could be reached")).unwrap();
        assert!(last.contains(&format!("{address}: ")) && last.contains(why), "{line}: {last}");
        assert!((PATIENCE..PATIENCE + SLACK).contains(&ended.took), "{line} took {:?}", ended.took);
    }
}

/// What a wrong advertised listener does to commands: the bootstrap address answers, and all else leads nowhere.
#[test]
fn a_command_that_is_led_astray_says_so_and_gives_up() {
    let cluster = Cluster::with_orders(2);
    cluster.append(0, &["a"]);
    let (bootstrap, dead) = (cluster.bootstrap(), closed_port());
    cluster.change(|cluster| cluster.set_address(1, "127.0.0.1", dead).unwrap());
    let lines = [
        "read orders",
        "read orders --tail 3",
        "read -g billing orders",
        "bench orders --count 1",
        "produce orders",
    ];
    let running = lines.map(|line| {
        let command = ottla(line).broker(&bootstrap);
        (line, thread::spawn(move || command.run_with(b"b\n")))
    });
    for (line, running) in running {
        let ended = running
            .join()
            .unwrap()
            .failed("no broker could be reached within 10 s where the cluster says that it is: ");
        assert!(
            ended.stderr.contains(&format!("127.0.0.1:{dead}: cannot connect")),
            "{line}: {}",
            ended.stderr
        );
        assert!((PATIENCE..PATIENCE + SLACK).contains(&ended.took), "{line} took {:?}", ended.took);
    }
}

/// Answers every connection with `answer`, once something was asked.
fn stranger(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer_with(stream, answer));
        }
    });
    address
}

fn answer_with(mut stream: TcpStream, answer: &[u8]) {
    let mut asked = [0; 1024];
    let _ = stream.read(&mut asked);
    let _ = stream.write_all(answer);
    let _ = stream.read(&mut asked); // until the other end hangs up
}

/// A port on which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn every_address_is_named() {
    let (one, other) = (closed_port(), closed_port());
    let ended = ottla(&format!("-b 127.0.0.1:{one},127.0.0.1:{other} read orders")).run().failed("no broker");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains(&format!(":{one}: ")) && last.contains(&format!(":{other}: ")), "{last}");
}

#[test]
fn ctrl_c_ends_a_command_that_reaches_nobody() {
    for line in NEED_A_BROKER {
        let mut running = ottla(line).broker(&format!("127.0.0.1:{}", closed_port())).start();
        running.note("trying again");
        running.signal("INT");
        assert_eq!(running.wait(), Some(0), "{}", running.notes());
    }
}

#[test]
fn a_missing_topic_fails_at_once_where_an_end_was_named() {
    let cluster = Cluster::start();
    let at_once = |ottla: Ottla| -> Ended {
        let ended = ottla.run().failed("topic orders does not exist");
        assert!(ended.took < PATIENCE, "it took {:?}", ended.took);
        ended
    };
    for until in ["end", "5", "@5"] {
        let ended = at_once(cluster.ottla(&format!("read orders --until {until}")));
        assert_eq!(ended.stderr, "ottla: topic orders does not exist; ottla topics lists what there is\n");
    }
    at_once(cluster.ottla("bench orders --count 1"));
    let ended = at_once(cluster.ottla("produce orders"));
    let lists = "ottla topics lists what there is";
    let told = format!("ottla: topic orders does not exist; {lists}\nottla: 0 records written to orders\n");
    assert_eq!(ended.stderr, told);
}

#[test]
fn a_missing_topic_is_waited_for_otherwise() {
    let cluster = Cluster::start();
    let mut running = cluster.ottla("read orders").start();
    running.note("topic orders does not exist; waiting for it");
    cluster.change(|cluster| cluster.create_topic("orders", 2).unwrap());
    cluster.append(1, &["first"]);
    assert_eq!(running.line(), "first");
    running.note("topic orders is there, with 2 partitions");
    running.ends_cleanly_on("INT");
}

#[test]
fn a_partition_out_of_range_fails_at_once_where_an_end_was_named() {
    let cluster = Cluster::with_orders(2);
    let why = "topic orders has no partition 9; it has 2 (0 to 1)";
    for partitions in ["-p 9", "-p 9 -p 1"] {
        let ended = cluster.ottla(&format!("read orders {partitions} --until end")).run().failed(why);
        assert_eq!((ended.stdout.len(), ended.stderr.lines().count()), (0, 1), "{}", ended.stderr);
        assert!(ended.took < PATIENCE, "it took {:?}", ended.took);
    }
    cluster.ottla("bench orders -p 9 --count 1").run().failed(why);
    cluster.ottla("produce orders -p 9").run_with(b"x\n").failed(why);
}

#[test]
fn a_partition_out_of_range_is_waited_for_otherwise() {
    let cluster = Cluster::with_orders(1);
    let mut running = cluster.ottla("read orders -p 1").start();
    running.note("topic orders has no partition 1; it has 1 (0 to 0); waiting for it");
    cluster.change(|cluster| cluster.add_partitions("orders", 2).unwrap());
    cluster.append(1, &["first"]);
    assert_eq!(running.line(), "first");
    running.ends_cleanly_on("INT");
}

#[test]
fn a_topic_that_may_not_be_read_ends_the_command() {
    let cluster = Cluster::with_orders(1);
    let code = Code::TOPIC_AUTHORIZATION_FAILED;
    cluster.change(|cluster| cluster.fault(Fault::partition_error(ApiKey::Metadata, code).always()));
    for line in &NEED_A_BROKER[..3] {
        let ended = cluster.ottla(line).run().failed("TOPIC_AUTHORIZATION_FAILED");
        assert!(ended.took < PATIENCE, "{line} took {:?}", ended.took);
    }
    let ended = cluster.ottla("topics").run();
    assert_eq!(ended.code, Some(1));
    assert!(ended.text().contains("TOPIC_AUTHORIZATION_FAILED"), "{}", ended.text());
}

#[test]
fn an_outage_is_waited_through() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["before"]);
    let mut running = cluster.ottla("read orders").start();
    assert_eq!(running.line(), "before");
    for round in ["one", "two"] {
        cluster.change(|cluster| cluster.stop_node(1, Leaders::Lose).unwrap());
        running.note("trying again");
        cluster.change(|cluster| cluster.start_node(1).unwrap());
        cluster.append(0, &[round]);
        assert_eq!(running.line(), round);
        running.note("reachable again");
    }
    assert_eq!(running.notes().lines().count(), 4, "one note for each change: {}", running.notes());
    running.ends_cleanly_on("INT");
}

#[test]
fn a_partition_without_a_leader_holds_up_no_other() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| {
        cluster.create_topic("orders", 2).unwrap();
        cluster.set_leader("orders", 0, None).unwrap();
    });
    cluster.append(1, &["b0"]);
    let mut running = cluster.ottla("read orders").start();
    assert_eq!(running.line(), "b0");
    running.note("orders partition 0 has no leader; waiting for one");
    cluster.change(|cluster| cluster.set_leader("orders", 0, Some(2)).unwrap());
    cluster.append(0, &["a0"]);
    assert_eq!(running.line(), "a0");
    running.ends_cleanly_on("INT");
}

#[test]
fn one_dead_broker_of_the_list_is_no_obstacle() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["x"]);
    let both = format!("127.0.0.1:{},{}", closed_port(), cluster.bootstrap());
    let ended = ottla("read orders --until end").broker(&both).run().done();
    assert_eq!(ended.lines(), ["x"]);
}

#[test]
fn a_broker_that_cuts_its_replies_is_asked_again() {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["x", "y"]);
    cluster.change(|cluster| cluster.fault(Fault::cut(ApiKey::Fetch, 50).times(2)));
    let ended = cluster.ottla("read orders --until end").run().done();
    assert_eq!(ended.lines(), ["x", "y"]);
    assert!(ended.stderr.contains("trying again"), "{}", ended.stderr);
}

#[test]
fn records_written_while_nobody_could_be_reached_are_all_there() {
    let cluster = Cluster::with_orders(1);
    let mut running = cluster.ottla("read orders --until 3").start();
    until("a fetch is parked", || cluster.change(|cluster| cluster.requests(ApiKey::Fetch) > 0));
    cluster.change(|cluster| cluster.stop_node(1, Leaders::Lose).unwrap());
    running.note("trying again");
    cluster.append(0, &["a0", "a1", "a2", "a3"]);
    cluster.change(|cluster| cluster.start_node(1).unwrap());
    let ended = running.end().done();
    assert_eq!(ended.lines(), ["a0", "a1", "a2"]);
}
