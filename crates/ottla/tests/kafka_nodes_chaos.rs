//! As `kafka_group_chaos.rs`, but the nodes of the cluster die as well, one at a time, each as soon as the one before is back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]

#[path = "support/chaos/mod.rs"]
mod chaos;
#[path = "support/client.rs"]
mod client_support;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use std::time::Duration;

use chaos::{Chaos, plays_a_member};
use kafka_support::{NODES, environment, node};
use tokio::{sync::oneshot, task::JoinHandle};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_nodes_chaos_loses_nothing_while_nodes_die_too() {
    if plays_a_member().await {
        return;
    }
    let test = "kafka_nodes_chaos_loses_nothing_while_nodes_die_too";
    let mut chaos = Chaos::begin(test, environment(NODES)).await;
    let storm = Storm::begin();
    chaos.rage().await;
    let deaths = storm.calm().await;
    println!("{deaths} nodes died and came back");
    assert!(deaths > 0);
    chaos.judge().await;
}

/// Who kills nodes.
struct Storm {
    task: JoinHandle<u32>,
    stop: oneshot::Sender<()>,
}

impl Storm {
    fn begin() -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (nodes, mut deaths) = (environment(NODES).split(',').count() as i32, 0);
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let id = fastrand::i32(1..=nodes);
                node("stop", id, &["--kill"]).await;
                // Others have taken over after 3 s, or not yet.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(500..6000))).await;
                node("start", id, &[]).await;
                deaths += 1;
                // The next one dies when this one has what it missed, or not yet.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(500..4000))).await;
            }
            deaths
        });
        Self { task, stop }
    }

    /// Returns when all nodes run, with the number of deaths.
    async fn calm(self) -> u32 {
        drop(self.stop);
        self.task.await.unwrap()
    }
}
