//! What was written, read and done in a storm, and whether it fits together. Times count from the storm's beginning.

use std::{collections::BTreeMap, fmt, time::Duration};

/// After a deed things may take so long to be as before.
const AFTERMATH: Duration = Duration::from_secs(3);

/// A record is handed out before so long has passed, whoever is in trouble, unless it is the broker that acknowledged it.
const SILENCE: Duration = Duration::from_secs(2);

/// A partition's records, by offset: each has its place in the log by its number, since the broker takes no batch twice.
#[derive(Clone, Default)]
struct Page {
    acknowledged: Vec<Acknowledged>,
    handed_out: Vec<Duration>,
}

#[derive(Clone, Copy)]
struct Acknowledged {
    at: Duration,
    by: i32,
}

/// Something that was done to the cluster.
#[derive(Clone, Debug)]
pub struct Deed {
    pub kind: Kind,
    /// To which node.
    pub node: Option<i32>,
    /// Which partitions that node led when it began, or which moved.
    pub partitions: Vec<i32>,
    pub from: Duration,
    pub to: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Kill,
    Freeze,
    Reassign,
    Roll,
}

/// What a deed means to a record that was written and not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Its partition has nothing to do with it.
    Elsewhere,
    /// Its partition moves, and was acknowledged by a broker that is well.
    Moved,
    /// Who acknowledged it is the one to whom it is done.
    Struck,
}

#[derive(Default)]
pub struct Book {
    pages: BTreeMap<i32, Page>,
    deeds: Vec<Deed>,
    wrong: Vec<String>,
}

/// Pauses between a record's acknowledgement and its being handed out.
pub struct Pauses(BTreeMap<(Option<Kind>, Fate), Vec<Pause>>);

/// A record's, with when it was acknowledged; the longest comes last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pause(Duration, Duration, i32);

impl Book {
    /// A broker has acknowledged the next records of a partition.
    pub fn acknowledged(&mut self, at: Duration, partition: i32, by: i32, offset: i64, count: i64) {
        let page = self.pages.entry(partition).or_default();
        if offset != page.acknowledged.len() as i64 {
            let next = page.acknowledged.len();
            self.wrong
                .push(format!("partition {partition}: node {by} wrote at {offset} what comes at {next}"));
        }
        page.acknowledged.extend((0..count).map(|_| Acknowledged { at, by }));
    }

    /// The reader has handed out a record.
    pub fn handed_out(&mut self, at: Duration, partition: i32, offset: i64) {
        let page = self.pages.entry(partition).or_default();
        let next = page.handed_out.len() as i64;
        match offset == next {
            true => page.handed_out.push(at),
            false => self.wrong.push(format!("partition {partition}: got {offset} where {next} was next")),
        }
    }

    pub fn done(&mut self, deed: Deed) {
        self.deeds.push(deed);
    }

    pub fn went_wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    pub fn deeds(&self) -> &[Deed] {
        &self.deeds
    }

    /// How many records were acknowledged, and whether so many were handed out of each partition.
    pub fn progress(&self) -> (usize, bool) {
        let through = self.pages.values().all(|page| page.handed_out.len() >= page.acknowledged.len());
        (self.pages.values().map(|page| page.acknowledged.len()).sum(), through)
    }

    /// What does not fit together when all is over, and how long records took.
    pub fn check(&self) -> (Vec<String>, Pauses) {
        let mut wrong = self.wrong.clone();
        let mut pauses = Pauses(BTreeMap::new());
        for (&partition, page) in &self.pages {
            let (written, read) = (page.acknowledged.len(), page.handed_out.len());
            if read != written {
                wrong.push(format!("partition {partition}: {written} were acknowledged, {read} handed out"));
            }
            for (offset, (acknowledged, &at)) in page.acknowledged.iter().zip(&page.handed_out).enumerate() {
                let pause = at.saturating_sub(acknowledged.at);
                let (kind, fate) = self.fate(partition, acknowledged, at);
                pauses.0.entry((kind, fate)).or_default().push(Pause(pause, acknowledged.at, partition));
                if fate != Fate::Struck && pause > SILENCE {
                    wrong.push(format!(
                        "partition {partition}: {offset}, acknowledged by node {} at {:?}, was handed out after {pause:?}",
                        acknowledged.by, acknowledged.at
                    ));
                }
            }
        }
        (wrong, pauses)
    }

    /// The worst that happened while a record was on its way.
    fn fate(&self, partition: i32, record: &Acknowledged, handed_out: Duration) -> (Option<Kind>, Fate) {
        let meets = |deed: &&Deed| deed.from <= handed_out && record.at <= deed.to + AFTERMATH;
        let fates = self.deeds.iter().filter(meets).map(|deed| {
            let fate = match () {
                () if deed.node == Some(record.by) => Fate::Struck,
                () if deed.partitions.contains(&partition) => Fate::Moved,
                () => Fate::Elsewhere,
            };
            (fate, deed.kind)
        });
        match fates.max() {
            Some((fate, kind)) => (Some(kind), fate),
            None => (None, Fate::Elsewhere),
        }
    }
}

impl fmt::Display for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:<10} {:>8} {:>9} {:>9} {:>9}  the longest began",
            "deed", "partition", "records", "p50", "p99", "max"
        )?;
        for ((kind, fate), pauses) in &self.0 {
            let kind = kind.map_or("none".to_owned(), |kind| format!("{kind:?}"));
            row(f, &kind, &format!("{fate:?}"), pauses)?;
        }
        row(f, "all", "", &self.0.values().flatten().copied().collect::<Vec<_>>())
    }
}

fn row(f: &mut fmt::Formatter<'_>, deed: &str, fate: &str, pauses: &[Pause]) -> fmt::Result {
    let mut pauses = pauses.to_vec();
    pauses.sort_unstable();
    let Some(&Pause(_, longest, partition)) = pauses.last() else { return Ok(()) };
    let at = |share: f64| pauses[((pauses.len() as f64 * share) as usize).min(pauses.len() - 1)].0;
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| format!("{} ms", at(share).as_millis()));
    writeln!(
        f,
        "{deed:<10} {fate:<10} {:>8} {p50:>9} {p99:>9} {max:>9}  at {longest:.1?} in partition {partition}",
        pauses.len()
    )
}
