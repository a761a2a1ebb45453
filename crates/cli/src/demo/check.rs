//! Whether what comes back is what went out.

use ottla::{Batch, Record};

use super::{
    PARTITIONS,
    letter::{self, Letters},
};
use crate::{partition, progress::Tally, tell::Failure};

/// What has come back so far.
pub(super) struct Check {
    letters: Letters,
    /// Which letters came.
    came: Vec<bool>,
    pub(super) shares: [Share; PARTITIONS as usize],
}

/// A partition's part of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) tally: Tally,
    pub(super) next_offset: i64,
    /// The letter that came last; they were written in order.
    last: Option<u32>,
}

impl Check {
    /// Expects the letters 0 to `records` - 1.
    pub(super) fn new(records: u32) -> Self {
        Self {
            letters: Letters::new(),
            came: vec![false; records as usize],
            shares: [Share::default(); PARTITIONS as usize],
        }
    }

    pub(super) fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
        let partition = batch.partition();
        for record in batch {
            let record = record?;
            self.take_record(partition, &record).map_err(|what| {
                Failure(format!("letters partition {partition} offset {}: {what}", record.offset))
            })?;
        }
        Ok(())
    }

    fn take_record(&mut self, partition: i32, record: &Record<'_>) -> Result<(), String> {
        let number = record.key().and_then(letter::number).ok_or("the key is no number")?;
        if (record.key(), record.value())
            != ({
                let (key, value) = self.letters.write(number);
                (Some(key), Some(value))
            })
        {
            return Err(format!("letter {number} came back changed"));
        }
        let came =
            self.came.get_mut(number as usize).ok_or_else(|| format!("nobody wrote letter {number}"))?;
        if std::mem::replace(came, true) {
            return Err(format!("letter {number} came twice"));
        }
        self.share_of(partition, number)?.take(number, record)
    }

    fn share_of(&mut self, partition: i32, number: u32) -> Result<&mut Share, String> {
        let home = partition::of_key(number.to_string().as_bytes(), PARTITIONS) as i32;
        let share = usize::try_from(partition).ok().and_then(|at| self.shares.get_mut(at));
        match share {
            Some(share) if partition == home => Ok(share),
            _ => Err(format!("letter {number} belongs to partition {home}")),
        }
    }

    pub(super) fn total(&self) -> Tally {
        let sum = |of: fn(&Tally) -> u64| self.shares.iter().map(|share| of(&share.tally)).sum();
        Tally { records: sum(|tally| tally.records), bytes: sum(|tally| tally.bytes) }
    }

    /// Nothing may be missing at the end.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match self.came.iter().position(|came| !came) {
            Some(missing) => Err(Failure(format!("letter {missing} did not come back"))),
            None => Ok(()),
        }
    }
}

impl Share {
    fn take(&mut self, number: u32, record: &Record<'_>) -> Result<(), String> {
        if record.offset != self.next_offset {
            return Err(format!("offset {} was due", self.next_offset));
        }
        if self.last.is_some_and(|last| last >= number) {
            return Err(format!("letter {number} came behind a later one"));
        }
        self.next_offset = record.offset + 1;
        self.last = Some(number);
        self.tally.add(record.key(), record.value());
        Ok(())
    }
}
