//! The reader's side: walks what the machine hands out, record by record, as `ottla`'s `walk.rs` and `reader.rs` do.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use ottla_core::{Account, Fault, Lease, Ledger, Machine, Part, Take, TopicPartition, Turn, TurnState};
use ottla_wire::record::{BatchHeader, Codec, Decoder, RecordError, Records};

/// How the caller reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// All there is, at once.
    Fast,
    /// So many records, then so long a pause.
    Slow(usize, Duration),
    /// Not at all.
    Stopped,
}

/// What was handed out.
#[derive(Debug, Clone)]
pub struct Read {
    pub when: Instant,
    pub at: TopicPartition,
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Bytes,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub turn: Arc<Turn>,
    /// Acknowledging it covers all from here, which is the offset, unless others before it are not in the log ...
    pub from: i64,
    /// ... up to and without this.
    pub to: i64,
}

/// What asking once came to.
#[derive(Debug)]
pub enum Polled {
    Records(VecDeque<Read>),
    Fault(Fault),
    Ended,
    Waiting,
}

/// A step on the way there, for who watches.
#[derive(Debug)]
pub enum Step {
    Polled(Polled),
    /// A part was taken from the machine.
    Took,
    /// The part was walked to its end.
    Walked,
    /// The machine was told something.
    Told(Option<Fault>),
}

/// A reader of one machine.
#[derive(Debug)]
pub struct Reader {
    pub habit: Habit,
    /// Takes the rest of a batch at a time, as `next_batch()`.
    pub by_batch: bool,
    /// It waits, and is to be woken when there is something.
    pub registered: bool,
    pub ended: bool,
    pub faults: Vec<(Instant, Fault)>,
    pub reads: Vec<Read>,
    /// Bytes of values that the caller keeps, the latest ones.
    pub keep: usize,
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// Bytes of the largest batch that was unpacked.
    pub largest_unpacked: usize,
    pub walk: Option<Walk>,
    aside: Vec<Walk>,
}

/// A part on its way to the caller.
#[derive(Debug)]
pub struct Walk {
    pub part: Part,
    next: usize,
    open: Option<Open>,
    finished: bool,
    unpacked: usize,
}

#[derive(Debug)]
struct Open {
    records: VecDeque<Read>,
    end: i64,
    unpacked: usize,
    _lease: Option<Lease>,
}

impl Reader {
    pub fn new() -> Self {
        Self {
            habit: Habit::Fast,
            by_batch: false,
            registered: false,
            ended: false,
            faults: Vec::new(),
            reads: Vec::new(),
            keep: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            largest_unpacked: 0,
            walk: None,
            aside: Vec::new(),
        }
    }

    /// Asks for the next record, up to the next point where the machine was spoken to.
    pub fn step(&mut self, now: Instant, machine: &mut Machine) -> Step {
        if let Some(walk) = &mut self.walk {
            let step = walk.step(now, machine.ledger(), self.by_batch);
            self.largest_unpacked = self.largest_unpacked.max(walk.unpacked);
            match step {
                Ok(Walked::Records(records)) => return Step::Polled(Polled::Records(records)),
                Ok(Walked::Finished) if !std::mem::replace(&mut walk.finished, true) => return Step::Walked,
                Ok(Walked::Finished | Walked::Halted) => {}
                Err((header, error)) => {
                    let walk = self.walk.take().expect("it is being walked");
                    return Step::Told(machine.reject(&walk.part, &header, error.to_string()));
                }
            }
        }
        self.put_aside();
        if let Some(place) = self.aside.iter().position(|walk| walk.state() == TurnState::Live) {
            self.walk = Some(self.aside.swap_remove(place));
            return Step::Told(None);
        }
        match machine.take(now) {
            Take::Part(part) => {
                self.walk = Some(Walk { part, next: 0, open: None, finished: false, unpacked: 0 });
                Step::Took
            }
            Take::Fault(fault) => Step::Polled(Polled::Fault(fault)),
            Take::Ended => Step::Polled(Polled::Ended),
            Take::Waiting => {
                self.registered = true;
                Step::Polled(Polled::Waiting)
            }
        }
    }

    /// The caller keeps the value for a while.
    pub fn keep(&mut self, value: Bytes) {
        self.kept_bytes += value.len();
        self.kept.push_back(value);
        self.let_go();
    }

    /// From now on so many bytes are kept.
    pub fn set_keep(&mut self, bytes: usize) {
        self.keep = bytes;
        self.let_go();
    }

    fn let_go(&mut self) {
        while self.kept_bytes > self.keep {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.kept_bytes -= oldest.len();
        }
    }

    fn put_aside(&mut self) {
        self.aside.retain(|walk| walk.state() != TurnState::Over);
        if let Some(walk) = self.walk.take()
            && walk.state() == TurnState::Paused
        {
            self.aside.push(walk);
        }
    }
}

enum Walked {
    Records(VecDeque<Read>),
    Finished,
    Halted,
}

type Damage = (BatchHeader, RecordError);

impl Walk {
    fn state(&self) -> TurnState {
        self.part.turn.state()
    }

    fn step(&mut self, now: Instant, ledger: &Arc<Ledger>, by_batch: bool) -> Result<Walked, Damage> {
        loop {
            if !self.part.turn.is_live() {
                return Ok(Walked::Halted);
            }
            if let Some(open) = &mut self.open {
                if by_batch {
                    let mut records = std::mem::take(&mut open.records);
                    let mut from = self.part.turn.handed();
                    for read in &mut records {
                        (read.from, from) = (from, read.to);
                    }
                    if let Some(last) = records.back_mut() {
                        last.to = open.end;
                        self.part.turn.hand_out(open.end);
                    }
                    self.part.turn.advance(open.end);
                    self.open = None;
                    if !records.is_empty() {
                        return Ok(Walked::Records(records));
                    }
                } else if let Some(mut read) = open.records.pop_front() {
                    read.from = self.part.turn.handed();
                    self.part.turn.hand_out(read.to);
                    return Ok(Walked::Records([read].into()));
                } else {
                    self.part.turn.advance(open.end);
                    self.open = None;
                }
            }
            if !self.open_next(now, ledger)? {
                self.part.turn.advance(self.part.next.min(self.part.until));
                return Ok(Walked::Finished);
            }
        }
    }

    fn open_next(&mut self, now: Instant, ledger: &Arc<Ledger>) -> Result<bool, Damage> {
        let Some(outlined) = self.part.batches.get(self.next) else { return Ok(false) };
        let header = outlined.header;
        if header.base_offset >= self.part.until {
            return Ok(false);
        }
        let range = outlined.range.clone();
        self.next += 1;
        let open = self.unpack(now, ledger, &header, range).map_err(|error| (header, error))?;
        self.unpacked = self.unpacked.max(open.unpacked);
        self.open = Some(open);
        Ok(true)
    }

    fn unpack(
        &self,
        now: Instant,
        ledger: &Arc<Ledger>,
        header: &BatchHeader,
        range: std::ops::Range<usize>,
    ) -> Result<Open, RecordError> {
        let batch = self.part.records.slice(range);
        header.check_crc(&batch)?;
        let packed = batch.slice(BatchHeader::SIZE..);
        let (records, lease) = match header.codec()? {
            Codec::None => (packed, None),
            codec => {
                let mut buffer = Vec::new();
                Decoder::new().decode(codec, &packed, 1 << 26, &mut buffer)?;
                let (bytes, account) = share(buffer, ledger);
                (bytes, Some(account.lease()))
            }
        };
        let mut reads = VecDeque::new();
        for record in Records::new(header, &records) {
            let record = record?;
            if record.offset < self.part.from {
                continue;
            }
            if record.offset >= self.part.until {
                break;
            }
            let headers = record.headers().collect::<Result<Vec<_>, _>>()?;
            let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            reads.push_back(Read {
                when: now,
                at: TopicPartition::new(self.part.topic.clone(), self.part.partition),
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key().map(|key| records.slice_ref(key)),
                value: records.slice_ref(record.value().unwrap_or_default()),
                headers: headers
                    .into_iter()
                    .map(|h| (String::from_utf8_lossy(h.key).into_owned(), owned(h.value)))
                    .collect(),
                turn: self.part.turn.clone(),
                from: record.offset,
                to: record.offset + 1,
            });
        }
        let end = header.next_offset().min(self.part.until);
        Ok(Open { records: reads, end, unpacked: lease.as_ref().map_or(0, |_| records.len()), _lease: lease })
    }
}

/// Makes a buffer shareable, entered in the ledger until its last slice is gone.
pub fn share(buffer: Vec<u8>, ledger: &Arc<Ledger>) -> (Bytes, Arc<Account>) {
    let account = ledger.open(buffer.len());
    let frame = Frame { buffer, account: account.clone() };
    (Bytes::from_owner(frame), account)
}

struct Frame {
    buffer: Vec<u8>,
    account: Arc<Account>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.account.close();
    }
}
