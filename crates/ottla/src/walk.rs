//! Walks what was fetched: opens one batch after another, and steps from record to record.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use ottla_core::{Lease, Outlined, Part, TurnState};
use ottla_wire::record::{self, BatchHeader, Codec, Decoder, RecordError};

use crate::{
    batch::{Batch, Inner},
    message::Message,
    pool::Pool,
};

/// A part on its way to the caller.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) part: Part,
    /// The next batch to open.
    next: usize,
    open: Option<Open>,
    /// What was handed out before this offset counts as done, for readers that acknowledge by themselves.
    done: i64,
}

/// The batch that is being walked.
#[derive(Debug)]
struct Open {
    batch: Arc<Inner>,
    walk: record::Walk,
    /// Keeps an unpacked batch on our side of the ledger.
    _lease: Option<Lease>,
}

/// What unpacks batches, and what it may use up.
#[derive(Debug)]
pub(crate) struct Unpacker {
    decoder: Decoder,
    pool: Arc<Pool>,
    limit: usize,
}

/// A batch that cannot be right.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) header: BatchHeader,
    pub(crate) error: RecordError,
}

/// What a step came to.
pub(crate) enum Step<T> {
    /// This is next.
    Item(T),
    /// Nothing is left of the part.
    Finished,
    /// The turn is paused or over: hand out nothing more of it now.
    Halted,
}

impl Walk {
    pub(crate) fn new(part: Part) -> Self {
        let done = part.turn.handed();
        Self { part, next: 0, open: None, done }
    }

    /// What was handed out last is done, unless it will be handed out again.
    #[inline]
    pub(crate) fn acknowledge(&mut self) {
        let handed = self.part.turn.handed();
        if handed > self.done {
            let done = std::mem::replace(&mut self.done, handed);
            if let Some(tenure) = self.part.turn.tenure()
                && !self.part.turn.is_withdrawn()
                && tenure.front() >= Some(done)
            {
                let _ = tenure.ack(done, handed); // if it was given up, it is read again
            }
        }
    }

    pub(crate) fn state(&self) -> TurnState {
        self.part.turn.state()
    }

    /// The next record. Inlined wherever it is called, which is once a kind of reader: a call would move each message twice.
    #[inline(always)]
    pub(crate) fn step(&mut self, unpacker: &mut Unpacker) -> Result<Step<Message>, Box<Damage>> {
        loop {
            if !self.part.turn.is_live() {
                return Ok(Step::Halted);
            }
            if let Some(open) = &mut self.open {
                if let Some(message) = open.step(self.part.turn.handed())? {
                    self.part.turn.hand_out(message.offset() + 1);
                    return Ok(Step::Item(message));
                }
                let end = open.batch.end();
                self.part.turn.advance(end);
                self.open = None;
            }
            if self.is_outlived() {
                return Ok(Step::Halted);
            }
            if !self.open_next(unpacker)? {
                self.part.turn.advance(self.part.next.min(self.part.until));
                return Ok(Step::Finished);
            }
        }
    }

    /// Looked at before each batch: who slept beyond the end of the session goes on with nothing but what is at hand.
    fn is_outlived(&self) -> bool {
        self.part.turn.tenure().is_some_and(|tenure| tenure.is_outlived(Instant::now()))
    }

    /// What is left of the batch that is being walked, or the next one.
    pub(crate) fn step_batch(&mut self, unpacker: &mut Unpacker) -> Result<Step<Batch>, Box<Damage>> {
        while self.part.turn.is_live() && !self.is_outlived() {
            if let Some(open) = self.open.take() {
                let from = open.batch.header.base_offset + i64::from(open.walk.next_offset_delta());
                let (handed, end) = (self.part.turn.handed(), open.batch.end());
                let batch = Batch::new(open.batch, from, handed);
                let is_empty = batch.is_empty();
                if !is_empty {
                    self.part.turn.hand_out(end); // first: what is behind it is done only if this is
                }
                self.part.turn.advance(end);
                if !is_empty {
                    return Ok(Step::Item(batch));
                }
            } else if !self.open_next(unpacker)? {
                self.part.turn.advance(self.part.next.min(self.part.until));
                return Ok(Step::Finished);
            }
        }
        Ok(Step::Halted)
    }

    fn open_next(&mut self, unpacker: &mut Unpacker) -> Result<bool, Box<Damage>> {
        let Some(outlined) = self.part.batches.get(self.next) else { return Ok(false) };
        if outlined.header.base_offset >= self.part.until && !outlined.header.is_wrapper() {
            return Ok(false); // all that follows lies beyond the end that was asked for
        }
        self.next += 1;
        let (header, records, lease) = unpacker
            .unpack(&self.part.records, outlined)
            .map_err(|error| Box::new(Damage { header: outlined.header, error }))?;
        let batch = Inner {
            topic: self.part.topic.clone(),
            partition: self.part.partition,
            header,
            records,
            from: self.part.from,
            until: self.part.until,
            high_watermark: self.part.high_watermark,
            tenure: self.part.turn.tenure().cloned(),
        };
        let walk = record::Walk::new(&batch.header);
        self.open = Some(Open { batch: Arc::new(batch), walk, _lease: lease });
        Ok(true)
    }
}

impl Open {
    /// The next record; what came before it ended at `handed`.
    #[inline(always)]
    fn step(&mut self, handed: i64) -> Result<Option<Message>, Box<Damage>> {
        while let Some(span) = self.walk.next(&self.batch.records) {
            let span = span.map_err(|error| self.damage(error))?;
            let offset = self.batch.header.base_offset + i64::from(span.offset_delta());
            if offset >= self.batch.until {
                return Ok(None);
            }
            if offset >= self.batch.from {
                return Ok(Some(Message::new(self.batch.clone(), span, handed)));
            }
        }
        Ok(None)
    }

    #[cold]
    fn damage(&self, error: RecordError) -> Box<Damage> {
        Box::new(Damage { header: self.batch.header, error })
    }
}

impl Unpacker {
    pub(crate) fn new(pool: Arc<Pool>, limit: usize) -> Self {
        Self { decoder: Decoder::new(), pool, limit }
    }

    /// Checks a batch and unpacks its records, with the header that they go by. Those of an uncompressed one stay where
    /// they are; messages of before Kafka 0.11 are written anew.
    fn unpack(
        &mut self,
        records: &Bytes,
        outlined: &Outlined,
    ) -> Result<(BatchHeader, Bytes, Option<Lease>), RecordError> {
        let header = &outlined.header;
        let batch = &records[outlined.range.clone()];
        header.check_crc(batch)?;
        let packed = outlined.range.start + BatchHeader::SIZE..outlined.range.end;
        let codec = header.codec()?;
        if codec == Codec::None && header.magic == 2 {
            return Ok((*header, records.slice(packed), None));
        }
        let growth = if codec == Codec::None { 1 } else { 4 };
        let mut buffer = self.pool.take_used(batch.len() * growth);
        let header = self.decoder.unpack(header, batch, self.limit, &mut buffer)?;
        let (unpacked, account) = self.pool.share(buffer);
        let lease = account.lease();
        Ok((header, unpacked, Some(lease)))
    }
}
