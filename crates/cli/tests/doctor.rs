//! `ottla doctor` against embedded brokers.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use std::net::TcpListener;

use ottla_broker::{ApiKey, ClusterOptions, Leaders, Like};
use serde_json::{Value, json};
use support::{Cluster, ottla};

fn closed_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn of_a_sound_cluster_nothing_is_wrong() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| cluster.create_topic("orders", 4).unwrap());
    let ended = cluster.ottla("doctor").run().quietly();
    let text = ended.text();
    assert!(text.contains("2 brokers, 1 topic, 4 partitions; controller: broker 1\n"), "{text}");
    assert!(text.ends_with("\nnothing is wrong\n"), "{text}");
    let brokers = ended.lines().iter().filter(|line| line.starts_with("broker ")).count();
    assert_eq!(brokers, 2, "{text}");
    let first = ended.lines()[1].to_owned();
    assert!(first.contains(&cluster.bootstrap().split(',').next().unwrap().to_owned()), "{text}");
    assert!(first.contains(" ms  ") && first.contains("4.1 or later (Fetch 18"), "{text}");
}

#[test]
fn programs_get_an_object() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    let bootstrap = cluster.bootstrap().split(',').next().unwrap().to_owned();
    cluster.change(|cluster| {
        cluster.create_topic("orders", 4).unwrap();
        cluster.set_address(2, "no-such-host.invalid", 9092).unwrap();
    });
    let ended = ottla("doctor --json").broker(&bootstrap).run();
    assert_eq!((ended.code, ended.stderr.as_str(), ended.lines().len()), (Some(1), "", 1));
    let report: Value = serde_json::from_str(ended.text()).unwrap();
    assert_eq!(
        (&report["controller"], &report["topics"], &report["partitions"]),
        (&json!(1), &json!(1), &json!(4))
    );
    // The broker, and what it leads.
    assert!(report["cluster"].is_string() && report["problems"].as_array().unwrap().len() == 2, "{report}");
    let visit = |broker: Value| {
        let visits = report["visits"].as_array().unwrap();
        visits.iter().find(|visit| visit["broker"] == broker).unwrap_or_else(|| panic!("{report}")).clone()
    };
    let (sound, lost) = (visit(json!(1)), visit(json!(2)));
    assert_eq!((&sound["fault"], &sound["found"][0]["ip"]), (&Value::Null, &json!("127.0.0.1")));
    assert!(
        sound["round_trip_ms"].as_f64().unwrap() > 0.0 && sound["kafka"]["apis"]["Fetch"] == 18,
        "{sound}"
    );
    assert_eq!(sound["advertised_to"], visit(Value::Null)["address"]);
    assert_eq!(
        (&lost["address"], &lost["round_trip_ms"]),
        (&json!("no-such-host.invalid:9092"), &Value::Null)
    );
    assert!(lost["fault"].as_str().unwrap().contains("cannot connect"), "{lost}");
}

#[test]
fn an_older_kafka_is_known_by_its_apis() {
    for (like, told) in [(Like::V2_8, " 2.8 (Fetch 12"), (Like::V3_9, " 3.9 (Fetch 17")] {
        let cluster = Cluster::with_options(ClusterOptions::new().like(like));
        let ended = cluster.ottla("doctor").run().quietly();
        assert!(ended.text().contains(told), "{}", ended.text());
    }
}

#[test]
fn a_dead_bootstrap_address_is_named() {
    let (cluster, dead) = (Cluster::start(), closed_address());
    let ended = cluster.ottla("doctor").broker(&format!("{dead},{}", cluster.bootstrap())).run();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    let (told, tip) =
        (format!("\n1 problem:\n- {dead}: cannot connect: Connection refused"), "nothing listens there");
    assert!(ended.text().contains(&told) && ended.text().contains(tip), "{}", ended.text());
}

#[test]
fn a_cluster_that_cannot_be_reached_at_all() {
    let dead = closed_address();
    let ended = ottla("doctor").broker(&format!("{dead},no-such-host.invalid:9092")).run();
    assert_eq!(ended.code, Some(1));
    let text = ended.text();
    assert!(text.contains("2 problems:\n") && text.contains("unreachable"), "{text}");
    assert!(text.contains("- no-such-host.invalid:9092: cannot connect"), "{text}");
    assert!(text.contains("this machine knows no such name"), "{text}");
}

/// What a wrong advertised listener looks like.
#[test]
fn a_broker_that_cannot_be_reached_where_it_is_said_to_be() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| {
        cluster.create_topic("orders", 4).unwrap();
        cluster.set_address(2, "no-such-host.invalid", 9092).unwrap();
    });
    let ended = cluster.ottla("doctor").run();
    assert_eq!(ended.code, Some(1));
    let text = ended.text();
    assert!(text.contains("no such name: is it spelt right"), "{text}");
    assert!(text.contains("It is the address that broker 2 advertises, as "), "{text}");
    assert!(text.contains("so that they cannot be read: orders "), "{text}");
}

#[test]
fn a_dead_broker_is_one_problem_also_where_its_address_is_for_bootstrapping() {
    let dead = closed_address();
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    let port = dead.parse::<std::net::SocketAddr>().unwrap().port();
    cluster.change(|cluster| cluster.set_address(2, "127.0.0.1", port).unwrap());
    let ended = cluster.ottla("doctor").broker(&format!("{dead},{}", cluster.bootstrap())).run();
    let text = ended.text();
    assert!(text.contains("\n1 problem:\n") && text.contains("that broker 2 advertises"), "{text}");
}

#[test]
fn partitions_without_a_leader_are_named() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| {
        cluster.create_topic("orders", 3).unwrap();
        cluster.set_leader("orders", 1, None).unwrap();
        cluster.set_leader("orders", 2, None).unwrap();
    });
    let ended = cluster.ottla("doctor").run();
    assert_eq!(ended.code, Some(1));
    let told = "- without a leader, so that nobody can read or write: orders 1-2\n";
    assert!(ended.text().contains(told), "{}", ended.text());
}

#[test]
fn a_node_that_is_down_is_no_broker_any_more() {
    let cluster = Cluster::with_options(ClusterOptions::new().nodes(2));
    cluster.change(|cluster| cluster.stop_node(2, Leaders::Lose).unwrap());
    let ended = cluster.ottla("doctor").run();
    assert!(ended.text().contains("1 broker, "), "{}", ended.text());
}

/// As a KRaft controller answers, where somebody took its port for a broker's.
#[test]
fn what_is_no_broker_is_told_as_that() {
    let cluster = Cluster::start();
    cluster.change(|cluster| cluster.set_versions(ApiKey::Metadata, None));
    cluster.change(|cluster| cluster.set_versions(ApiKey::FindCoordinator, None));
    for line in ["doctor", "read orders", "produce orders", "topics", "groups", "group show g"] {
        let ended = cluster.ottla(line).run();
        let said = format!("{}{}", ended.text(), ended.stderr);
        assert_eq!(ended.code, Some(1), "{line}: {said}");
        assert!(said.contains("is this the port of a KRaft controller, not of a broker?"), "{line}: {said}");
    }
}
