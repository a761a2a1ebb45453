//! `ottla read`.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    io::{self, IsTerminal},
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use ottla::{Batch, Builder, Error, ErrorKind, Reader, Record, RecordError, Records, TopicPartition, Until};

use crate::{
    args::StatsForm,
    exit::Exit,
    interrupt::Interrupt,
    member::{self, Member},
    output::{self, Lost, Output},
    plan::ReadPlan,
    progress::{Progress, Tally, Way},
    row::Place,
    stats::{Read, Stats, Waits, Watch},
    tail,
    tell::{self, Failure},
    time,
    watch::watch_all,
};

/// How long what was formatted may take to get out after Ctrl-C; who does not take it by then never will.
const GRACE: Duration = Duration::from_millis(100);
/// With a group there is more to it: what is out and not known to be would be read again.
const MEMBER_GRACE: Duration = Duration::from_secs(1);
/// So long the other members of a group wait for whoever reads our output.
const STUCK: Duration = Duration::from_secs(2);
/// After so long somebody who pressed Ctrl-C wants to know what is going on.
const SLOW_CLOSE: Duration = Duration::from_secs(1);

pub(crate) async fn run(mut plan: ReadPlan, interrupt: Interrupt) -> Result<Exit, Failure> {
    if plan.file.is_none() && io::stdout().is_terminal() {
        plan.shape.for_eyes(wants_colours());
    }
    if let Some(count) = plan.tail {
        return tail::run(&plan, count, |start, until| builder(&plan).start(start).until(until), interrupt)
            .await;
    }
    match &plan.membership {
        None => print(&plan, builder(&plan).open()?, None, interrupt).await,
        Some(membership) => {
            let (reader, member) = Member::join(membership, builder(&plan))?;
            print(&plan, reader, Some(member), interrupt).await
        }
    }
}

/// By the rules of no-color.org, and as far as the terminal can.
fn wants_colours() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    !is_refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

async fn print<K>(
    plan: &ReadPlan,
    reader: Reader<K>,
    member: Option<Member>,
    mut interrupt: Interrupt,
) -> Result<Exit, Failure> {
    let events = reader.events();
    let mut output = Output::to(plan.file.as_ref())?;
    let progress = Progress::beside_output(plan.file.is_some());
    let stats = Stats::new();
    let mut reading = Reading::new(plan, reader, member, &progress);
    let end = tokio::select! {
        biased;
        () = interrupt.happened() => Ok(End::Interrupted),
        () = output::nobody_reads(), if plan.file.is_none() => Ok(End::Unwanted),
        failure = watch_all(events, &plan.brokers, |note| progress.note(note), |event| stats.see(event)) => Err(failure),
        end = reading.run(&mut output) => end,
    };
    // Where nobody reads it any more that takes no time, and a member has to know what was written before.
    if !matches!(end, Ok(End::Reached)) {
        let grace = if reading.member.is_some() { MEMBER_GRACE } else { GRACE };
        let _ = tokio::time::timeout(grace, output.finish()).await;
    }
    progress.finish();
    if let Some(form) = plan.stats {
        let partitions = reading.reader.control().partitions().len();
        let Reading { tally, printed, first, waits, .. } = reading;
        let summary = stats.summary(&Read { tally, printed, partitions, first, waits });
        match form {
            StatsForm::Text => summary.lines().iter().for_each(tell::note),
            StatsForm::Json => tell::json_beside(&summary)?,
        }
    }
    let matched = !reading.reader.control().partitions().is_empty();
    let exit = if reading.failed.is_empty() { Exit::Done } else { Exit::Failed };
    let closed = tokio::select! {
        biased;
        () = interrupt.happened() => Ok(()), // who asks twice does not want to wait
        closed = tell_if_slow(reading.close()) => closed,
    };
    let is_done = end? == End::Reached;
    closed?;
    if is_done && plan.until.is_some() && !matched { Err(tell::unmatched()) } else { Ok(exit) }
}

async fn tell_if_slow<T>(closing: impl Future<Output = T>) -> T {
    let mut closing = pin!(closing);
    match tokio::time::timeout(SLOW_CLOSE, &mut closing).await {
        Ok(closed) => closed,
        Err(_) => {
            tell::note("committing and leaving the group takes longer than usual; Ctrl-C ends it at once");
            closing.await
        }
    }
}

fn builder(plan: &ReadPlan) -> Builder {
    let brokers: Vec<String> = plan.brokers.iter().map(ToString::to_string).collect();
    let mut builder = Reader::builder(brokers.join(","))
        .client_id("ottla-cli")
        .topics(&plan.topics)
        .start(plan.start)
        .missing_topic(plan.missing);
    if let Some(pattern) = &plan.pattern {
        builder = builder.topics_matching(pattern);
    }
    if !plan.partitions.is_empty() {
        builder = builder.partitions(plan.partitions.iter().copied());
    }
    if let Some(until) = plan.until {
        builder = builder.until(until);
    }
    builder
}

/// Why reading ended without a failure of the whole.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// All that was asked for is out.
    Reached,
    /// Nobody reads our output any more.
    Unwanted,
    Interrupted,
}

/// From the reader to the output.
struct Reading<'a, K> {
    plan: &'a ReadPlan,
    reader: Reader<K>,
    /// With a group: who says there what was printed.
    member: Option<Member>,
    progress: &'a Progress,
    /// What was read.
    tally: Tally,
    /// How many of it the filter wants, and how many were printed.
    wanted: u64,
    printed: u64,
    /// When the first batch came.
    first: Option<Instant>,
    waits: Waits,
    /// Offset and timestamp of the last record.
    latest: (i64, i64),
    /// The partitions that had a fault.
    failed: BTreeSet<TopicPartition>,
}

impl<'a, K> Reading<'a, K> {
    fn new(plan: &'a ReadPlan, reader: Reader<K>, member: Option<Member>, progress: &'a Progress) -> Self {
        Self {
            plan,
            reader,
            member,
            progress,
            tally: Tally::default(),
            wanted: 0,
            printed: 0,
            first: None,
            waits: Waits::default(),
            latest: (-1, -1),
            failed: BTreeSet::new(),
        }
    }

    /// A member commits and leaves; who is none has nothing to wait for.
    async fn close(self) -> Result<(), Error> {
        match self.member {
            Some(member) => member.close(self.reader).await,
            None => Ok(()),
        }
    }

    async fn run(&mut self, output: &mut Output) -> Result<End, Failure> {
        let copied = match self.copy(output).await {
            Err(Stop::Output(lost)) => Err(Stop::Output(lost)),
            copied => output.finish().await.map_err(Stop::Output).and(copied),
        };
        match copied {
            Ok(()) => Ok(End::Reached),
            Err(Stop::Output(Lost::Closed)) => Ok(End::Unwanted),
            Err(Stop::Output(Lost::Failed(error))) => {
                Err(Failure(format!("cannot write the output: {error}")))
            }
            Err(Stop::Reader(error)) => Err(tell::whole(error)),
        }
    }

    async fn copy(&mut self, output: &mut Output) -> Result<(), Stop> {
        while !self.is_complete() {
            match self.next_batch(output).await? {
                Ok(Some(batch)) => self.print(batch, output).await?,
                Ok(None) => return Ok(()),
                Err(error) => self.fail(error)?,
            }
        }
        Ok(())
    }

    /// The next batch; what was formatted goes out first if there is none yet.
    ///
    /// The reader is asked once before anything waits, so that a batch that is there costs no more than a call.
    async fn next_batch(&mut self, output: &mut Output) -> Result<Result<Option<Batch>, Error>, Stop> {
        let mut next = pin!(self.reader.next_batch());
        let ready = poll_fn(|context| match next.as_mut().poll(context) {
            Poll::Ready(batch) => Poll::Ready(Some(batch)),
            Poll::Pending => Poll::Ready(None),
        });
        match ready.await {
            Some(batch) => Ok(batch),
            None => loop {
                flush(&mut self.member, output, &mut self.waits).await?;
                let _waiting = Watch::start(&mut self.waits.brokers);
                tokio::select! {
                    biased;
                    revoked = member::revoked(&mut self.member) => {
                        // What was printed is said to be done while that still counts.
                        let finished = tokio::time::timeout(STUCK, output.finish()).await;
                        finished.unwrap_or(Ok(()))?;
                        drop(revoked);
                    }
                    batch = &mut next => return Ok(batch),
                    lost = output.failure() => return Err(lost.into()),
                }
            },
        }
    }

    async fn print(&mut self, batch: Batch, output: &mut Output) -> Result<(), Stop> {
        self.first.get_or_insert_with(Instant::now);
        let mut records = batch.records();
        loop {
            match self.fill(&batch, &mut records, output) {
                Fill::Full => {
                    flush(&mut self.member, output, &mut self.waits).await?;
                    // Everything else (connections, Ctrl-C) gets its turn at least once a block.
                    tokio::task::yield_now().await;
                }
                Fill::Done => {
                    self.acknowledge(&batch, records.next(), output);
                    break;
                }
                Fill::Damaged(error) => {
                    self.note_fault(TopicPartition::new(batch.topic(), batch.partition()), &error);
                    break;
                }
            }
        }
        self.progress.show(self.tally, || self.way(&batch));
        Ok(())
    }

    /// Where we are behind this batch.
    fn way(&self, batch: &Batch) -> Way {
        let (offset, timestamp) = self.latest;
        let place = (offset >= 0).then(|| {
            let at = format!("{} {}/{offset}", batch.topic(), batch.partition());
            if timestamp >= 0 { format!("{at} of {}", time::text(timestamp)) } else { at }
        });
        match (self.plan.limit, self.plan.until) {
            (Some(limit), _) => Way { place, left: Some(limit - self.printed), gone: self.printed },
            (None, Some(Until::End)) => Way { place, left: self.lag(), gone: self.tally.records },
            (None, _) => Way { place, left: self.lag(), gone: 0 },
        }
    }

    /// How many offsets lie ahead, as far as is known of all partitions.
    fn lag(&self) -> Option<u64> {
        self.reader.control().lags().into_iter().map(|(_, lag)| lag).sum()
    }

    /// The batch counts as done once it is printed; up to `left`, if that is the first record that is not.
    fn acknowledge(&mut self, batch: &Batch, left: Option<Result<Record<'_>, Error>>, output: &mut Output) {
        match (&mut self.member, left) {
            (Some(member), None) => member.printed(batch.clone(), output),
            (Some(member), Some(Ok(left))) => member.cut(batch, left.offset, output),
            (Some(_), Some(Err(_))) | (None, _) => {}
        }
    }

    /// The loop over records; nothing in it waits.
    fn fill(&mut self, batch: &Batch, records: &mut Records<'_>, output: &mut Output) -> Fill {
        let place =
            Place { topic: batch.topic(), partition: batch.partition(), leader_epoch: batch.leader_epoch() };
        let limit = self.plan.limit.unwrap_or(u64::MAX);
        while self.printed < limit {
            let record = match records.next() {
                None => return Fill::Done,
                Some(Err(error)) => return Fill::Damaged(error.to_string()),
                Some(Ok(record)) => record,
            };
            self.tally.add(record.key(), record.value());
            self.latest = (record.offset, record.timestamp);
            match self.write(place, &record, output.block()) {
                Ok(()) if output.is_full() => return Fill::Full,
                Ok(()) => {}
                Err(error) => return Fill::Damaged(format!("offset {}: {error}", record.offset)),
            }
        }
        Fill::Done
    }

    /// Appends a record to `out`, if it is wanted.
    #[inline]
    fn write(&mut self, place: Place<'_>, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), RecordError> {
        if !self.plan.filter.wants(record)? {
            return Ok(());
        }
        let before = self.wanted;
        self.wanted += 1;
        if self.plan.thinning.keeps(before) {
            self.plan.shape.write(place, record, out)?;
            self.printed += 1;
        }
        Ok(())
    }

    /// Whether there is nothing left to do: as many records as were asked for, or no partition that could give one.
    fn is_complete(&self) -> bool {
        self.plan.limit.is_some_and(|limit| self.printed >= limit) || self.all_failed()
    }

    fn all_failed(&self) -> bool {
        if self.failed.is_empty() {
            return false;
        }
        let named = self.plan.partitions.iter().flat_map(|&partition| {
            self.plan.topics.iter().map(move |topic| TopicPartition::new(topic.as_str(), partition))
        });
        let known = self.reader.control().partitions();
        named.chain(known).all(|at| self.failed.contains(&at))
    }

    /// A partition's fault is told and the others go on; a fault of the whole ends it all.
    fn fail(&mut self, error: Error) -> Result<(), Stop> {
        match error.partition().cloned() {
            // What is missing does not come back as long as we are not told to wait for it.
            Some(at) if error.kind() != ErrorKind::Missing => self.note_fault(at, &error.to_string()),
            _ => return Err(Stop::Reader(error)),
        }
        Ok(())
    }

    fn note_fault(&mut self, at: TopicPartition, what: &str) {
        self.progress.note(what);
        self.failed.insert(at);
    }
}

/// Hands over what was formatted. While nobody takes it, other members need not wait for us: what they get is not
/// acknowledged, so that they print it.
async fn flush(member: &mut Option<Member>, output: &mut Output, waits: &mut Waits) -> Result<(), Lost> {
    let _waiting = Watch::start(&mut waits.output);
    loop {
        if let Ok(flushed) = tokio::time::timeout(STUCK, output.flush()).await {
            return flushed;
        }
        member.iter_mut().for_each(Member::let_go);
    }
}

/// What ended a walk over records.
enum Fill {
    /// The block is full.
    Full,
    /// The batch is at its end, or there are as many records as were asked for.
    Done,
    Damaged(String),
}

/// What ends reading early.
enum Stop {
    Output(Lost),
    Reader(Error),
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        Self::Output(lost)
    }
}
