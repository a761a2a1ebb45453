//! What committing costs: acknowledging every message against none, and many tasks that wait for their commit against one
//! commit a round trip.
//!
//! ```text
//! cargo run --release -p ottla --example commit_cost -- localhost:9092 TOPIC [MESSAGES]
//! ```
//! TOPIC has to hold so many messages (1,000,000). The groups it makes are named commit-cost-...

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use ottla::{CommitOffset, Group, Reader, Start};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Who waits at the same time.
const TASKS: usize = 256;

/// Each measure is the best of so many.
const ROUNDS: usize = 5;

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(bootstrap), Some(topic)) = (args.next(), args.next()) else {
        return Err("usage: commit_cost BOOTSTRAP TOPIC [MESSAGES]".into());
    };
    let messages = args.next().map_or(Ok(1_000_000), |count| count.parse())?;
    acknowledging(&bootstrap, &topic, messages).await?;
    waiting(&bootstrap, &topic).await
}

/// Reads so many messages twice, in turns, so that both meet the same machine.
async fn acknowledging(bootstrap: &str, topic: &str, messages: u64) -> Result<()> {
    let (mut without, mut with) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        without = without.min(read(bootstrap, topic, messages, false).await?);
        with = with.min(read(bootstrap, topic, messages, true).await?);
    }
    let rate = |time: Duration| messages as f64 / time.as_secs_f64();
    println!(
        "{messages} messages, none acknowledged: {:.0} ms, {:.0} messages/s",
        ms(without),
        rate(without)
    );
    println!("{messages} messages, each acknowledged: {:.0} ms, {:.0} messages/s", ms(with), rate(with));
    println!("acknowledging each: x {:.3}", with.as_secs_f64() / without.as_secs_f64());
    Ok(())
}

/// From the first message on: joining is not what is measured.
async fn read(bootstrap: &str, topic: &str, messages: u64, ack: bool) -> Result<Duration> {
    let mut reader = open(bootstrap, topic)?;
    let first = reader.next().await?.ok_or("the topic ended")?;
    reader.ack(&first)?;
    let begin = Instant::now();
    for read in 1..messages {
        let message = reader.next().await?.ok_or_else(|| format!("the topic ended after {read} messages"))?;
        if ack {
            reader.ack(&message)?;
        }
    }
    let time = begin.elapsed();
    reader.close().await?;
    Ok(time)
}

/// One commit a round trip, then as many at once as there are tasks.
async fn waiting(bootstrap: &str, topic: &str) -> Result<()> {
    let mut reader = open(bootstrap, topic)?;
    let first = reader.next().await?.ok_or("the topic is empty")?;
    reader.commit(&first).await?;
    let at = first.topic_partition();
    let control = reader.control();
    let commit = move |offset: i64| {
        let (control, at) = (control.clone(), at.clone());
        let offset = CommitOffset { offset, ..CommitOffset::default() };
        async move { control.commit_offsets([(at, offset)]).await }
    };
    let time = Duration::from_secs(1);

    let (begin, mut alone) = (Instant::now(), 0);
    while begin.elapsed() < time {
        commit(alone).await?;
        alone += 1;
    }
    let alone = alone as f64 / begin.elapsed().as_secs_f64();

    let (begin, commit) = (Instant::now(), Arc::new(commit));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let commit = commit.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while begin.elapsed() < time {
                    commit(count).await?;
                    count += 1;
                }
                Ok::<i64, ottla::Error>(count)
            })
        })
        .collect();
    let mut together = 0;
    for task in tasks {
        together += task.await??;
    }
    let together = together as f64 / begin.elapsed().as_secs_f64();
    println!("one commit a round trip: {alone:.0} commits/s");
    println!("{TASKS} tasks, each awaiting its own: {together:.0} commits/s, x {:.0}", together / alone);
    reader.close().await?;
    Ok(())
}

fn open(bootstrap: &str, topic: &str) -> Result<Reader<Group>> {
    let unique = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
    let group = format!("commit-cost-{unique}");
    Ok(Reader::builder(bootstrap).group(group).topic(topic).start(Start::Earliest).open()?)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
