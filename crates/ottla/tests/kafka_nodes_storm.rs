//! Three real nodes under steady load, one of them always in trouble (`support/storm`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/client.rs"]
mod client_support;
#[path = "support/kafka.rs"]
mod kafka_support;
#[path = "support/storm/mod.rs"]
mod storm;
mod support;

use storm::Storm;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_nodes_storm_loses_nothing_and_whoever_is_well_is_heard() {
    let mut storm = Storm::begin().await;
    storm.rage().await;
    storm.judge().await;
}

/// That the checker finds what it is there for.
mod checker {
    use std::time::Duration;

    use crate::storm::book::{Book, Deed, Kind};

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Node 1 leads partition 0 and node 2 partition 1; each record is read a second after it was written, for ten seconds.
    fn good() -> Book {
        let mut book = Book::default();
        for n in 0..10 {
            for (partition, node) in [(0, 1), (1, 2)] {
                book.acknowledged(secs(n), partition, node, n as i64, 1);
                book.handed_out(secs(n + 1), partition, n as i64);
            }
        }
        book
    }

    /// Node 1 is in trouble from the tenth to the twentieth second.
    fn trouble() -> Deed {
        Deed { kind: Kind::Freeze, node: Some(1), partitions: vec![0], from: secs(10), to: secs(20) }
    }

    fn wrong(change: impl FnOnce(&mut Book)) -> Vec<String> {
        let mut book = good();
        change(&mut book);
        book.check().0
    }

    #[test]
    fn a_good_run_is_good() {
        assert!(wrong(|_| {}).is_empty());
        assert_eq!(good().progress(), (20, true));
        let shown = good().check().1.to_string();
        let all: Vec<_> = shown.lines().last().unwrap().split_whitespace().take(5).collect();
        assert_eq!(all, ["all", "20", "1000", "ms", "1000"], "{shown}");
    }

    #[test]
    fn what_is_lost_repeated_or_out_of_order_is_found() {
        let lost = wrong(|book| book.acknowledged(secs(11), 1, 2, 10, 3));
        assert_eq!(lost, ["partition 1: 13 were acknowledged, 10 handed out"]);
        let repeated = wrong(|book| book.handed_out(secs(11), 1, 9));
        assert_eq!(repeated, ["partition 1: got 9 where 10 was next"]);
        assert!(wrong(|book| book.handed_out(secs(11), 1, 11))[0].contains("got 11 where 10"));
        assert!(wrong(|book| book.acknowledged(secs(11), 1, 2, 12, 1))[0].contains("wrote at 12"));
    }

    /// A record that waits from the eleventh second on, with node 1 in trouble.
    fn waits(partition: i32, node: i32, pause: u64) -> Vec<String> {
        wrong(|book| {
            book.done(trouble());
            book.acknowledged(secs(11), partition, node, 10, 1);
            book.handed_out(secs(11 + pause), partition, 10);
        })
    }

    #[test]
    fn only_who_is_in_trouble_may_be_silent() {
        assert!(waits(0, 1, 9).is_empty(), "its leader is frozen");
        assert!(waits(1, 2, 2).is_empty(), "two seconds are allowed");
        assert_eq!(waits(0, 2, 3).len(), 1, "it has a leader that is well by now");
        assert!(waits(1, 2, 3)[0].contains("10, acknowledged by node 2 at 11s, was handed out after 3s"));
        let later = wrong(|book| {
            book.done(trouble());
            book.acknowledged(secs(25), 0, 1, 10, 1);
            book.handed_out(secs(28), 0, 10);
        });
        assert_eq!(later.len(), 1, "it is over: {later:?}");
    }
}
