//! `ottla demo`: all of it in one process, and every record checked.

mod check;
mod cover;
mod letter;
mod pair;
mod range;

use std::time::{Duration, Instant};

use indicatif::HumanCount;
use ottla::Address;
use ottla_broker::Broker;
use ottla_wire::record::Codec;

use crate::{
    broker::new_cluster,
    exit::Exit,
    interrupt::Interrupt,
    produce::{Batches, Delivery, Route, now_ms},
    progress::{Progress, Tally, Way, per_second},
    tell::{self, Failure},
};
use cover::Cover;
use pair::Pair;

const TOPIC: &str = "letters";
const PARTITIONS: u32 = 6;
const GROUP: &str = "readers";

pub(crate) async fn run(records: u32, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        () = interrupt.happened() => Ok(Exit::Done),
        end = show(records) => end.map(|()| Exit::Done),
    }
}

async fn show(records: u32) -> Result<(), Failure> {
    let broker = Broker::start(new_cluster().remember_requests(0)).await?;
    broker.with(|cluster| cluster.create_topic(TOPIC, PARTITIONS as i32))?;
    let address = broker.bootstrap();
    tell::line(format!(
        "The embedded broker listens on {address}; topic {TOPIC} has {PARTITIONS} partitions."
    ))?;
    let (written, writing) = timed(write(&address, records)).await?;
    let (pair, reading) = timed(read(&address, records)).await?;
    let cover = broker.with(|cluster| Cover::of(cluster))?;
    cover.check(&pair)?;
    tell::line(table(&pair, &cover))?;
    tell::line(format!("written  {}", totals(written, writing)))?;
    tell::line(format!("read     {}", totals(pair.check.total(), reading)))?;
    tell::line(pair.summary())?;
    tell::line("Every record came back once, in order, as it was written.")?;
    tell::line("The offsets that the broker holds for the group cover every record once.")?;
    Ok(())
}

async fn timed<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<(T, Duration), Failure> {
    let started = Instant::now();
    Ok((work.await?, started.elapsed()))
}

async fn write(address: &str, records: u32) -> Result<Tally, Failure> {
    let progress = Progress::towards(records.into(), "writing");
    let address: Address = address.parse().map_err(Failure)?;
    let mut delivery = Delivery::new(&[address], TOPIC);
    let partitions = delivery.begin().await?;
    let (mut batches, mut letters) =
        (Batches::new(Codec::Lz4, Route::ByKey, partitions), letter::Letters::new());
    let mut tally = Tally::default();
    for number in 0..records {
        let (key, value) = letters.write(number);
        tally.add(Some(key), Some(value));
        if !batches.add(now_ms(), Some(key), Some(value), &[]) {
            delivery.send(&mut batches).await?;
            progress.show(tally, Way::default);
            batches.add(now_ms(), Some(key), Some(value), &[]);
        }
    }
    delivery.send(&mut batches).await?;
    progress.finish();
    Ok(tally)
}

/// By a group of two members.
async fn read(address: &str, records: u32) -> Result<Pair, Failure> {
    let progress = Progress::towards(records.into(), "reading");
    let pair = Pair::read(address, records, &progress).await?;
    progress.finish();
    pair.check.finish()?;
    Ok(pair)
}

fn table(pair: &Pair, cover: &Cover) -> String {
    let mut lines = vec![format!(
        "\n{:>9}  {:>9}  {:>8}  offsets, by the member that read and committed them",
        "partition", "records", "MB"
    )];
    for (partition, share) in pair.check.shares.iter().enumerate() {
        let (records, bytes) = (HumanCount(share.tally.records).to_string(), megabytes(share.tally.bytes));
        let offsets = cover.of_partition(partition, &pair.members);
        lines.push(format!("{partition:>9}  {records:>9}  {bytes:>8}  {offsets}"));
    }
    lines.join("\n") + "\n"
}

fn totals(tally: Tally, elapsed: Duration) -> String {
    let (records, rate) = (HumanCount(tally.records), HumanCount(per_second(tally.records, elapsed)));
    let (bytes, seconds) = (megabytes(tally.bytes), elapsed.as_secs_f64());
    format!("{records} records, {bytes} MB in {seconds:.2} s: {rate} records/s")
}

/// Of keys and values.
fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
