//! What the command says when it fails, word for word as on `docs/errors.md`.
//!
//! `OTTLA_BLESS=1 cargo test -p ottla-cli --test errors` writes what is said into the page.

#![cfg(target_os = "linux")] // some of it is the system's own words
#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

#[path = "../../ottla/tests/support/page.rs"]
mod page;
mod support;

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use ottla_broker::{ApiKey, Code, Fault, Leaders};
use page::{Said, tidy};
use support::{Cluster, Ottla, ottla};

#[test]
fn the_page_says_what_the_command_says() {
    let cases = [
        wrong_usage as fn() -> Case,
        nobody,
        unknown_host,
        web_server,
        missing_topic,
        missing_topic_is_waited_for,
        missing_partition,
        not_allowed,
        damaged,
        outage,
        unwritable,
        missing_group,
        group_in_use,
        advertised,
    ];
    let running = cases.map(thread::spawn);
    let said: Said = running.into_iter().map(|case| case.join().unwrap()).collect();
    page::check("command", &said);
}

type Case = (&'static str, Vec<String>);

/// Runs it to its end: the line that was typed, what came on standard error, and the exit code.
fn told(line: &str, command: Ottla) -> Vec<String> {
    let ended = command.run();
    shown(line, &ended.stderr, ended.code)
}

fn shown(line: &str, stderr: &str, code: Option<i32>) -> Vec<String> {
    let mut lines = vec![format!("$ ottla {line}")];
    lines.extend(tidy(stderr).lines().map(str::to_owned));
    lines.extend(code.map(|code| format!("(exit code {code})")));
    lines
}

fn at(address: &str, line: &str) -> Vec<String> {
    told(line, ottla(line).broker(address))
}

/// A port that refuses connections for as long as the test runs: it is taken, and nobody listens.
fn closed_port() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::mem::forget(socket);
    address
}

/// Answers every connection as a web server does.
fn http() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    address
}

fn wrong_usage() -> Case {
    ("usage", at("127.0.0.1:1", "read orders --from soon"))
}

fn nobody() -> Case {
    ("nobody", at(&closed_port(), "read orders"))
}

fn unknown_host() -> Case {
    ("unknown host", at("no-such-host.invalid", "read orders"))
}

fn web_server() -> Case {
    ("HTTP", at(&http(), "topics"))
}

fn missing_topic() -> Case {
    ("unknown topic", at(&Cluster::start().bootstrap(), "read order --until end"))
}

fn missing_topic_is_waited_for() -> Case {
    let cluster = Cluster::start();
    let mut running = cluster.ottla("read order").start();
    running.note("waiting");
    cluster.change(|cluster| cluster.create_topic("order", 2).unwrap());
    running.note("is there");
    ("unknown topic, waiting", shown("read order", &running.notes(), None))
}

fn missing_partition() -> Case {
    let cluster = Cluster::with_orders(6);
    ("unknown partition", at(&cluster.bootstrap(), "read orders -p 9 --until end"))
}

fn not_allowed() -> Case {
    let cluster = Cluster::with_orders(1);
    let refusal = Fault::partition_error(ApiKey::Metadata, Code::TOPIC_AUTHORIZATION_FAILED).always();
    cluster.change(|cluster| cluster.fault(refusal));
    ("not allowed", at(&cluster.bootstrap(), "read orders"))
}

fn damaged() -> Case {
    let cluster = Cluster::with_orders(2);
    (0..2).for_each(|partition| cluster.append(partition, &["a", "b"]));
    cluster.change(|cluster| cluster.fault(Fault::corrupt_records(80).partition(0).always()));
    ("broken CRC", at(&cluster.bootstrap(), "read orders --until end"))
}

fn outage() -> Case {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["a"]);
    let mut running = cluster.ottla("read orders").start();
    running.line();
    cluster.change(|cluster| cluster.stop_node(1, Leaders::Lose).unwrap());
    running.note("trying again");
    cluster.change(|cluster| cluster.start_node(1).unwrap());
    cluster.append(0, &["b"]);
    running.note("reachable again");
    assert_eq!(running.line(), "b");
    ("outage", shown("read orders", &running.notes(), None))
}

fn unwritable() -> Case {
    let cluster = Cluster::with_orders(1);
    ("unwritable", at(&cluster.bootstrap(), "read orders -o /no/such/directory/orders.txt"))
}

fn missing_group() -> Case {
    ("group missing", at(&Cluster::start().bootstrap(), "group show biling"))
}

fn group_in_use() -> Case {
    let cluster = Cluster::with_orders(1);
    cluster.append(0, &["a"]);
    let mut running = cluster.ottla("read orders --group billing").start();
    running.note("reading orders 0");
    ("group in use", at(&cluster.bootstrap(), "group delete billing --yes"))
}

/// The bootstrap address works, the one that the broker names does not.
fn advertised() -> Case {
    let cluster = Cluster::with_orders(1);
    let bootstrap = cluster.bootstrap();
    let dead = closed_port().rsplit_once(':').unwrap().1.parse().unwrap();
    cluster.change(|cluster| cluster.set_address(1, "127.0.0.1", dead).unwrap());
    let mut lines = at(&bootstrap, "read orders");
    let ended = ottla("doctor").broker(&bootstrap).run();
    lines.push("$ ottla doctor".to_owned());
    let problems = ended.text().lines().skip_while(|line| !line.contains("problem"));
    lines.extend(tidy(&problems.collect::<Vec<_>>().join("\n")).lines().map(str::to_owned));
    lines.push(format!("(exit code {})", ended.code.unwrap()));
    ("advertised", lines)
}
