//! Reads topics as a member of a group, with as many workers as one likes, until Ctrl-C.
//!
//! ```text
//! cargo run -p ottla --example group -- localhost:9092 GROUP TOPIC...
//! ```
//! Start it twice to see the group share the partitions. What a worker is done with it acknowledges, in whatever order;
//! nothing is committed beyond a message that is still being worked on, so that nothing is lost when this is killed.

use ottla::{Group, Message, Reader, Rebalance};
use tokio::task::JoinSet;

/// So many messages are worked on at a time.
const WORKERS: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(bootstrap), Some(group)) = (args.next(), args.next()) else {
        return Err("usage: group BOOTSTRAP GROUP TOPIC...".into());
    };
    let reader: Reader<Group> = Reader::builder(bootstrap)
        .group(group)
        .topics(args)
        .on_rebalance(|rebalance| async move {
            match rebalance {
                Rebalance::Assigned(assigned) => println!("ours: {:?}", assigned.partitions()),
                Rebalance::Revoked(revoked) => {
                    // The workers finish what they have begun, and nobody does it again.
                    let all = revoked.drained().await;
                    println!(
                        "given up: {:?}{}",
                        revoked.partitions(),
                        if all { "" } else { ", not all done" }
                    );
                }
                Rebalance::Lost(lost) => println!("lost: {:?}", lost.partitions()),
            }
        })
        .open()?;
    read(reader).await
}

async fn read(mut reader: Reader<Group>) -> Result<(), Box<dyn std::error::Error>> {
    let mut workers = JoinSet::new();
    loop {
        tokio::select! {
            message = reader.next(), if workers.len() < WORKERS => match message {
                Ok(Some(message)) => { workers.spawn(work(message)); }
                Ok(None) => break, // only with `until`, which groups do not have
                Err(error) => return Err(error.into()),
            },
            Some(done) = workers.join_next() => match reader.ack(&done?) {
                Err(error) if error.kind() != ottla::ErrorKind::Fenced => return Err(error.into()),
                _ => {} // if the partition is somebody else's now, they do it again
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    while let Some(done) = workers.join_next().await {
        let _ = reader.ack(&done?); // as above
    }
    reader.close().await?; // commits what was acknowledged
    Ok(())
}

async fn work(message: Message) -> Message {
    println!("{} partition {} offset {}", message.topic(), message.partition(), message.offset());
    message
}
