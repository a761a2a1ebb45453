//! `ottla produce`: lines become records, records batches, and batches are delivered.

mod batches;
mod delivery;
mod lines;

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::error::TryRecvError;

pub(crate) use batches::{Batches, Route};
pub(crate) use delivery::Delivery;

use crate::{
    exit::Exit,
    interrupt::Interrupt,
    plan::{Layout, ProducePlan},
    tell::{self, Failure},
};

pub(crate) async fn run(plan: ProducePlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    let mut producing = Producing { delivery: Delivery::new(&plan.brokers, &plan.topic), taken: 0 };
    let end = tokio::select! {
        biased;
        () = interrupt.happened() => Ok(()),
        end = producing.run(&plan) => end,
    };
    let exit = match end {
        Ok(()) => Exit::Done,
        Err(Failure(why)) => {
            tell::note(why);
            Exit::Failed
        }
    };
    tell::note(producing.summary(&plan.topic));
    Ok(exit)
}

struct Producing {
    delivery: Delivery,
    /// Lines that became records.
    taken: u64,
}

impl Producing {
    async fn run(&mut self, plan: &ProducePlan) -> Result<(), Failure> {
        let partitions = self.delivery.begin().await?;
        let mut batches = Batches::new(plan.codec, route(plan, partitions)?, partitions);
        let headers: Vec<_> =
            plan.headers.iter().map(|(name, value)| (name.as_str(), Some(&value[..]))).collect();
        let mut chunks = lines::stdin();
        loop {
            let chunk = match chunks.try_recv() {
                Ok(chunk) => Some(chunk),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    // Standard input pauses: what there is goes out, so that a line that was typed is not waited for.
                    self.delivery.send(&mut batches).await?;
                    chunks.recv().await
                }
            };
            let Some(chunk) = chunk else { break };
            match chunk {
                Ok(chunk) => self.take(&chunk, &plan.layout, &headers, &mut batches).await?,
                Err(broken) => {
                    // The lines before it were whole.
                    self.delivery.send(&mut batches).await?;
                    return Err(broken.into());
                }
            }
        }
        self.delivery.send(&mut batches).await
    }

    async fn take(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        headers: &[(&str, Option<&[u8]>)],
        batches: &mut Batches,
    ) -> Result<(), Failure> {
        let timestamp = now_ms();
        for line in lines::split(chunk) {
            let (key, value) = layout.take_apart(line);
            if !batches.add(timestamp, key, value, headers) {
                self.delivery.send(batches).await?;
                batches.add(timestamp, key, value, headers);
            }
            self.taken += 1;
        }
        Ok(())
    }

    fn summary(&self, topic: &str) -> String {
        let written = self.delivery.written();
        let plural = if written == 1 { "" } else { "s" };
        let refused = self.delivery.refused_records();
        let mut told = format!("{written} record{plural} written to {topic}");
        if refused > 0 {
            told += &format!("; {refused} refused");
        }
        match self.taken - written - refused {
            0 => told,
            open => format!("{told}; of {open} more it is not known"),
        }
    }
}

fn route(plan: &ProducePlan, partitions: u32) -> Result<Route, Failure> {
    match plan.partition.map(|partition| (partition, u32::try_from(partition))) {
        None => Ok(Route::ByKey),
        Some((_, Ok(partition))) if partition < partitions => Ok(Route::To(partition)),
        Some((partition, _)) => {
            let (topic, last) = (&plan.topic, partitions - 1);
            Err(Failure(format!(
                "topic {topic} has no partition {partition}; it has {partitions} (0 to {last})"
            )))
        }
    }
}

impl Layout {
    /// Key and value of a line. Without the separator in it, all of it is the value.
    fn take_apart<'a>(&self, line: &'a [u8]) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
        let split = self.separator.as_deref().and_then(|separator| split_once(line, separator));
        let (key, value) = split.map_or((None, line), |(key, value)| (Some(key), value));
        (key, (!self.empty_is_null || !value.is_empty()).then_some(value))
    }
}

fn split_once<'a>(line: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line.windows(separator.len()).position(|window| window == separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

/// The time of a record.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

    fn layout(separator: Option<&str>, empty_is_null: bool) -> Layout {
        Layout { separator: separator.map(|text| text.as_bytes().to_vec()), empty_is_null }
    }

    #[test]
    fn lines_are_taken_apart() {
        let cases: &[(&str, Option<&str>, bool, Parts<'_>)] = &[
            ("a:b", None, false, (None, Some(b"a:b"))),
            ("a:b", Some(":"), false, (Some(b"a"), Some(b"b"))),
            ("a:b:c", Some(":"), false, (Some(b"a"), Some(b"b:c"))),
            ("ab", Some(":"), false, (None, Some(b"ab"))),
            (":b", Some(":"), false, (Some(b""), Some(b"b"))),
            ("a:", Some(":"), false, (Some(b"a"), Some(b""))),
            ("a:", Some(":"), true, (Some(b"a"), None)),
            ("a=>b", Some("=>"), true, (Some(b"a"), Some(b"b"))),
            ("a=b", Some("=>"), true, (None, Some(b"a=b"))),
            ("", None, false, (None, Some(b""))),
            ("", None, true, (None, None)),
            ("", Some(":"), true, (None, None)),
        ];
        for (line, separator, empty_is_null, parts) in cases {
            assert_eq!(layout(*separator, *empty_is_null).take_apart(line.as_bytes()), *parts, "{line}");
        }
    }
}
