//! `ottla demo`: all of it in one process, and every record checked.

mod check;
mod letter;

use std::time::{Duration, Instant};

use indicatif::HumanCount;
use ottla::{Address, MissingTopic, Reader, Until};
use ottla_broker::Broker;
use ottla_wire::record::Codec;

use crate::{
    broker::new_cluster,
    exit::Exit,
    interrupt::Interrupt,
    produce::{Batches, Delivery, Route, now_ms},
    progress::{Progress, Tally, per_second},
    tell::{self, Failure},
    watch::watch,
};

const TOPIC: &str = "letters";
const PARTITIONS: u32 = 6;

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
    let (check, reading) = timed(read(&address, records)).await?;
    tell::line(table(&check))?;
    tell::line(format!("written  {}", totals(written, writing)))?;
    tell::line(format!("read     {}", totals(check.total(), reading)))?;
    tell::line("Every record came back once, in order, as it was written.")?;
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
            progress.show(tally, || None);
            batches.add(now_ms(), Some(key), Some(value), &[]);
        }
    }
    delivery.send(&mut batches).await?;
    progress.finish();
    Ok(tally)
}

async fn read(address: &str, records: u32) -> Result<check::Check, Failure> {
    let progress = Progress::towards(records.into(), "reading");
    let mut reader =
        Reader::builder(address).topic(TOPIC).missing_topic(MissingTopic::Fail).until(Until::End).open()?;
    let (events, bootstrap) = (reader.events(), [address.parse().map_err(Failure)?]);
    let mut check = check::Check::new(records);
    tokio::select! {
        biased;
        failure = watch(events, &bootstrap, |note| progress.note(note)) => return Err(failure),
        end = take_all(&mut reader, &mut check, &progress) => end?,
    }
    progress.finish();
    check.finish()?;
    Ok(check)
}

async fn take_all(reader: &mut Reader, check: &mut check::Check, progress: &Progress) -> Result<(), Failure> {
    while let Some(batch) = reader.next_batch().await? {
        check.take(&batch)?;
        progress.show(check.total(), || None);
    }
    Ok(())
}

fn table(check: &check::Check) -> String {
    let mut lines = vec![format!("\n{:>9}  {:>9}  {:>8}  offsets", "partition", "records", "MB")];
    for (partition, share) in check.shares.iter().enumerate() {
        let (records, bytes) = (HumanCount(share.tally.records).to_string(), megabytes(share.tally.bytes));
        let offsets = match share.next_offset {
            0 => "none".to_owned(),
            next => format!("0 to {}", next - 1),
        };
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
