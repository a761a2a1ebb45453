//! What the members of a group say of themselves, and whether it can be true of a group that loses nothing.
//!
//! Each member writes a line at once for everything that it does; somebody else samples what the group has committed.
//! Times are microseconds of one machine's clock.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

/// Something that a member did.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// These partitions are its own from now on.
    Assigned(Vec<i32>),
    /// It gives these up, or they were taken from it.
    Given(Vec<i32>),
    /// It got this record from the reader.
    Out(i32, i64),
    /// It said that this record is done.
    Ack(i32, i64),
    /// It is about to say, now and waiting for it, that all of the partition up to this record is done.
    Committing(i32, i64),
    /// That worked.
    Committed(i32, i64),
    /// Ack or commit failed, and why.
    Refused(i32, i64, String),
    /// It has left.
    Closed,
}

/// A line of a member's log: when, what.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub at: u64,
    pub deed: Deed,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at)?;
        let many = |f: &mut fmt::Formatter<'_>, verb: &str, partitions: &[i32]| {
            f.write_str(verb)?;
            partitions.iter().try_for_each(|partition| write!(f, " {partition}"))
        };
        match &self.deed {
            Deed::Assigned(partitions) => many(f, "assigned", partitions),
            Deed::Given(partitions) => many(f, "given", partitions),
            Deed::Out(partition, offset) => write!(f, "out {partition} {offset}"),
            Deed::Ack(partition, offset) => write!(f, "ack {partition} {offset}"),
            Deed::Committing(partition, offset) => write!(f, "committing {partition} {offset}"),
            Deed::Committed(partition, offset) => write!(f, "committed {partition} {offset}"),
            Deed::Refused(partition, offset, why) => write!(f, "refused {partition} {offset} {why}"),
            Deed::Closed => f.write_str("closed"),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no line of a member");
        let mut words = text.splitn(5, ' ');
        let mut word = || words.next().ok_or_else(wrong);
        let at = word()?.parse().map_err(|_| wrong())?;
        let verb = word()?;
        let number = |word: &str| word.parse().map_err(|_| wrong());
        let mut place = || Ok::<_, String>((number(word()?)? as i32, number(word()?)?));
        let deed = match verb {
            "assigned" | "given" => {
                let partitions = text.split(' ').skip(2).map(|word| Ok(number(word)? as i32));
                let partitions = partitions.collect::<Result<_, String>>()?;
                if verb == "given" { Deed::Given(partitions) } else { Deed::Assigned(partitions) }
            }
            "out" => place().map(|(partition, offset)| Deed::Out(partition, offset))?,
            "ack" => place().map(|(partition, offset)| Deed::Ack(partition, offset))?,
            "committing" => place().map(|(partition, offset)| Deed::Committing(partition, offset))?,
            "committed" => place().map(|(partition, offset)| Deed::Committed(partition, offset))?,
            "refused" => {
                let (partition, offset) = place()?;
                Deed::Refused(partition, offset, words.next().unwrap_or_default().to_owned())
            }
            "closed" => Deed::Closed,
            _ => return Err(wrong()),
        };
        Ok(Self { at, deed })
    }
}

/// A member, by the name of its log.
#[derive(Debug, Clone, Default)]
pub struct Member {
    pub name: String,
    pub lines: Vec<Line>,
    /// From when to when it did not run.
    pub frozen: Vec<(u64, u64)>,
}

impl Member {
    /// What a member wrote; the last line may have been cut short by its death.
    pub fn read(name: &str, text: &str, frozen: Vec<(u64, u64)>) -> Result<Self, String> {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), lines, frozen })
    }

    fn slept_in(&self, from: u64, to: u64) -> bool {
        self.frozen.iter().any(|&(begin, end)| begin <= to && from <= end)
    }
}

/// What the group had committed for a partition: asked at one time, answered at the other.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub asked: u64,
    pub answered: u64,
    pub partition: i32,
    pub offset: i64,
}

/// All that is known of a run.
#[derive(Debug, Default)]
pub struct History {
    pub members: Vec<Member>,
    pub samples: Vec<Sample>,
    /// Where each partition ends; each begins at 0 and has no holes.
    pub ends: Vec<i64>,
    /// How many records a batch has at most.
    pub batch: usize,
}

/// What came together, so that a run in which nothing happens is noticed.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    pub records: u64,
    pub handed_out: u64,
    /// Handed out more than once.
    pub repeated: u64,
    pub tenures: u64,
    /// Acks and commits that were refused.
    pub refused: u64,
    /// Records that a member handed out after another one had got the partition.
    pub late: u64,
    pub samples: u64,
}

/// A partition with a member, from its coming to its going.
#[derive(Debug)]
struct Tenure {
    member: usize,
    partition: i32,
    from: u64,
    out: Vec<(u64, i64)>,
    /// When it began to commit, and whether that worked.
    commits: Vec<(u64, i64, bool)>,
}

impl History {
    /// What cannot be, as sentences; and what came together.
    pub fn check(&self) -> (Vec<String>, Tally) {
        let mut wrong = Vec::new();
        let tenures = self.tenures(&mut wrong);
        self.nothing_is_lost(&tenures, &mut wrong);
        self.tenures_have_no_holes(&tenures, &mut wrong);
        self.commits_never_go_back(&mut wrong);
        self.nothing_is_committed_that_was_not_done(&tenures, &mut wrong);
        self.nothing_comes_again_that_was_committed(&tenures, &mut wrong);
        let late = self.one_owner_at_a_time(&tenures, &mut wrong);
        let tally = self.tally(&tenures, late);
        (wrong, tally)
    }

    fn tally(&self, tenures: &[Tenure], late: u64) -> Tally {
        let mut times = BTreeMap::<_, u64>::new();
        for tenure in tenures {
            tenure
                .out
                .iter()
                .for_each(|(_, offset)| *times.entry((tenure.partition, *offset)).or_default() += 1);
        }
        let refused = |line: &&Line| matches!(line.deed, Deed::Refused(..));
        Tally {
            records: self.ends.iter().sum::<i64>() as u64,
            handed_out: times.values().sum(),
            repeated: times.values().filter(|times| **times > 1).count() as u64,
            tenures: tenures.len() as u64,
            refused: self.members.iter().flat_map(|member| &member.lines).filter(refused).count() as u64,
            late,
            samples: self.samples.len() as u64,
        }
    }

    /// What each member had of each partition, and when; by time.
    fn tenures(&self, wrong: &mut Vec<String>) -> Vec<Tenure> {
        let mut all = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            let mut open = BTreeMap::<i32, Tenure>::new();
            for line in &member.lines {
                take(number, member, line, &mut open, &mut all, wrong);
            }
            all.extend(open.into_values());
        }
        all.sort_by_key(|tenure| tenure.from);
        all
    }

    /// Every record was handed out by somebody.
    fn nothing_is_lost(&self, tenures: &[Tenure], wrong: &mut Vec<String>) {
        let mut seen = BTreeSet::new();
        for tenure in tenures {
            seen.extend(tenure.out.iter().map(|(_, offset)| (tenure.partition, *offset)));
        }
        for (partition, end) in self.ends.iter().enumerate() {
            let lost: Vec<_> =
                (0..*end).filter(|offset| !seen.contains(&(partition as i32, *offset))).collect();
            if let Some(first) = lost.first() {
                wrong.push(format!(
                    "{} records of partition {partition} are lost, from {first} on",
                    lost.len()
                ));
            }
        }
    }

    /// Within a tenure each record comes once, and in order.
    fn tenures_have_no_holes(&self, tenures: &[Tenure], wrong: &mut Vec<String>) {
        for tenure in tenures {
            let bad = tenure.out.windows(2).find(|pair| pair[1].1 != pair[0].1 + 1);
            if let Some([(_, before), (at, offset)]) = bad {
                wrong.push(format!("{at}: {} got {offset} after {before}", self.shown(tenure)));
            }
        }
    }

    fn commits_never_go_back(&self, wrong: &mut Vec<String>) {
        let mut last = BTreeMap::<i32, i64>::new();
        for sample in &self.samples {
            let before = last.insert(sample.partition, sample.offset).unwrap_or(-1);
            if sample.offset < before {
                let Sample { answered, partition, offset, .. } = sample;
                wrong.push(format!(
                    "{answered}: the commit of partition {partition} went from {before} to {offset}"
                ));
            }
        }
    }

    /// A committed offset is never ahead of what members said was done.
    fn nothing_is_committed_that_was_not_done(&self, tenures: &[Tenure], wrong: &mut Vec<String>) {
        let done = self.done(tenures);
        let mut checked = BTreeMap::<i32, i64>::new();
        for sample in &self.samples {
            let from = checked.entry(sample.partition).or_insert(0);
            let undone = (*from..sample.offset)
                .find(|offset| done.get(&(sample.partition, *offset)).is_none_or(|at| *at > sample.answered));
            if let Some(offset) = undone {
                let Sample { answered, partition, offset: committed, .. } = sample;
                wrong.push(format!(
                    "{answered}: {committed} is committed for partition {partition}, but {offset} was not done"
                ));
            }
            *from = (*from).max(sample.offset);
        }
    }

    /// When each record was first said to be done.
    fn done(&self, tenures: &[Tenure]) -> BTreeMap<(i32, i64), u64> {
        let mut done = BTreeMap::new();
        let mut note = |partition: i32, offset: i64, at: u64| {
            let first = done.entry((partition, offset)).or_insert(at);
            *first = at.min(*first);
        };
        for line in self.members.iter().flat_map(|member| &member.lines) {
            if let Deed::Ack(partition, offset) = line.deed {
                note(partition, offset, line.at);
            }
        }
        for tenure in tenures {
            for (begun, to, _) in &tenure.commits {
                let covered = tenure.out.iter().filter(|(_, offset)| offset <= to);
                covered.for_each(|(_, offset)| note(tenure.partition, *offset, *begun));
            }
        }
        done
    }

    /// A tenure begins at the group's offset.
    fn nothing_comes_again_that_was_committed(&self, tenures: &[Tenure], wrong: &mut Vec<String>) {
        for tenure in tenures {
            let Some((_, first)) = tenure.out.first() else { continue };
            let before = self
                .samples
                .iter()
                .filter(|sample| sample.partition == tenure.partition && sample.answered < tenure.from);
            let committed = before.map(|sample| sample.offset).max().unwrap_or(0);
            if *first < committed {
                wrong.push(format!("{} began at {first}, but {committed} was committed", self.shown(tenure)));
            }
        }
    }

    /// When a partition has come to a member, nobody else commits it or hands it out, but for what a frozen member was
    /// handing out: the batch that it was in.
    fn one_owner_at_a_time(&self, tenures: &[Tenure], wrong: &mut Vec<String>) -> u64 {
        let mut all_late = 0;
        for old in tenures {
            let newer = tenures.iter().filter(|new| {
                new.partition == old.partition && new.member != old.member && new.from > old.from
            });
            let Some(new) = newer.min_by_key(|new| new.from) else { continue };
            let late: Vec<_> = old.out.iter().filter(|(at, _)| *at > new.from).collect();
            let slept = self.members[old.member].slept_in(old.from, new.from);
            all_late += late.len() as u64;
            let allowed = if slept { self.batch } else { 0 };
            if let Some((at, offset)) = late.get(allowed) {
                wrong.push(format!(
                    "{at}: {} handed out {offset} ({} in all, {}) while {} had it",
                    self.shown(old),
                    late.len(),
                    if slept { "after a freeze" } else { "never frozen" },
                    self.shown(new)
                ));
            }
            if let Some((at, offset, _)) =
                old.commits.iter().find(|(at, _, worked)| *worked && *at > new.from)
            {
                wrong.push(format!(
                    "{at}: {} committed {offset} while {} had it",
                    self.shown(old),
                    self.shown(new)
                ));
            }
        }
        all_late
    }

    fn shown(&self, tenure: &Tenure) -> String {
        let Tenure { member, partition, from, .. } = tenure;
        format!("{} with partition {partition} since {from}", self.members[*member].name)
    }
}

/// Takes a line of a member into its tenures.
fn take(
    number: usize,
    member: &Member,
    line: &Line,
    open: &mut BTreeMap<i32, Tenure>,
    closed: &mut Vec<Tenure>,
    wrong: &mut Vec<String>,
) {
    let (name, at) = (&member.name, line.at);
    match &line.deed {
        Deed::Assigned(partitions) => {
            for &partition in partitions {
                let tenure =
                    Tenure { member: number, partition, from: at, out: Vec::new(), commits: Vec::new() };
                if open.insert(partition, tenure).is_some() {
                    wrong.push(format!("{at}: {name} got partition {partition}, which it has"));
                }
            }
        }
        Deed::Given(partitions) => {
            for partition in partitions {
                match open.remove(partition) {
                    Some(tenure) => closed.push(tenure),
                    None => {
                        wrong.push(format!("{at}: {name} gave up partition {partition}, which it has not"));
                    }
                }
            }
        }
        Deed::Out(partition, offset) => match open.get_mut(partition) {
            Some(tenure) => tenure.out.push((at, *offset)),
            None => {
                wrong.push(format!("{at}: {name} got {offset} of partition {partition}, which it has not"));
            }
        },
        Deed::Committing(partition, offset) => {
            if let Some(tenure) = open.get_mut(partition) {
                tenure.commits.push((at, *offset, false));
            }
        }
        Deed::Committed(partition, offset) => {
            // It may have been given up meanwhile.
            let newest = closed.iter_mut().filter(|tenure| tenure.member == number).chain(open.values_mut());
            let begun =
                newest.filter(|tenure| tenure.partition == *partition).flat_map(|tenure| &mut tenure.commits);
            begun.filter(|(_, to, _)| to == offset).for_each(|(_, _, worked)| *worked = true);
        }
        Deed::Ack(..) | Deed::Refused(..) | Deed::Closed => {}
    }
}
