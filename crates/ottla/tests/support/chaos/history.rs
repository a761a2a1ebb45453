//! What the members of a group say of themselves, and whether it can be true of a group that loses nothing.
//!
//! Each member writes a line at once for everything that it does; the coordinator keeps a log of all commits. Times are
//! microseconds of one machine's clock.

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
    /// It gives these up; what it has of them it may still commit for a moment.
    Given(Vec<i32>),
    /// These were taken from it; it was not giving them up.
    Lost(Vec<i32>),
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
            Deed::Lost(partitions) => many(f, "lost", partitions),
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
            "assigned" | "given" | "lost" => {
                let partitions = text.split(' ').skip(2).map(|word| Ok(number(word)? as i32));
                let partitions = partitions.collect::<Result<_, String>>()?;
                match verb {
                    "assigned" => Deed::Assigned(partitions),
                    "given" => Deed::Given(partitions),
                    _ => Deed::Lost(partitions),
                }
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

/// A commit that the coordinator took, in its order. Its clock has milliseconds: it was not before `from`, and before `to`.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    pub from: u64,
    pub to: u64,
    pub partition: i32,
    /// The next one to read.
    pub offset: i64,
}

/// All that is known of a run.
#[derive(Debug, Default)]
pub struct History {
    pub members: Vec<Member>,
    pub commits: Vec<Commit>,
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
    pub commits: u64,
}

/// A partition with a member, from its coming to its going.
#[derive(Debug)]
struct Tenure {
    member: usize,
    partition: i32,
    from: u64,
    /// It has not been given up yet.
    lasts: bool,
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
            commits: self.commits.len() as u64,
        }
    }

    /// What each member had of each partition, and when; by time.
    fn tenures(&self, wrong: &mut Vec<String>) -> Vec<Tenure> {
        let mut all = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            let mut own = Vec::new();
            for line in &member.lines {
                if let Err(what) = take(number, line, &mut own) {
                    wrong.push(format!("{}: {} {what}", line.at, member.name));
                }
            }
            all.extend(own);
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
        for commit in &self.commits {
            let Commit { to: at, partition, offset, .. } = commit;
            let before = last.insert(*partition, *offset).unwrap_or(-1);
            if *offset < before {
                wrong.push(format!(
                    "{at}: the commit of partition {partition} went from {before} to {offset}"
                ));
            }
        }
    }

    /// A committed offset is never ahead of what members said was done.
    fn nothing_is_committed_that_was_not_done(&self, tenures: &[Tenure], wrong: &mut Vec<String>) {
        let done = self.done(tenures);
        let mut checked = BTreeMap::<i32, i64>::new();
        for commit in &self.commits {
            let Commit { to: at, partition, offset, .. } = commit;
            let from = checked.entry(*partition).or_insert(0);
            let is_undone = |offset: &i64| done.get(&(*partition, *offset)).is_none_or(|done| done > at);
            if let Some(undone) = (*from..*offset).find(is_undone) {
                wrong.push(format!(
                    "{at}: {offset} was committed for partition {partition}, but {undone} was not done"
                ));
            }
            *from = (*from).max(*offset);
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
            let commits = self.commits.iter().filter(|commit| commit.partition == tenure.partition);
            let before = commits.filter(|commit| commit.to < tenure.from).map(|commit| commit.offset);
            let committed = before.max().unwrap_or(0);
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

/// Takes a line of a member into its tenures; what cannot be is told.
fn take(member: usize, line: &Line, own: &mut Vec<Tenure>) -> Result<(), String> {
    let at = line.at;
    match &line.deed {
        Deed::Assigned(partitions) => {
            if let Some(twice) =
                partitions.iter().find(|p| newest(own, **p).is_some_and(|tenure| tenure.lasts))
            {
                return Err(format!("got partition {twice}, which it has"));
            }
            let tenure = |&partition: &i32| Tenure {
                member,
                partition,
                from: at,
                lasts: true,
                out: Vec::new(),
                commits: Vec::new(),
            };
            own.extend(partitions.iter().map(tenure));
        }
        Deed::Given(partitions) | Deed::Lost(partitions) => {
            for partition in partitions {
                match newest(own, *partition) {
                    Some(tenure) if tenure.lasts => tenure.lasts = false,
                    _ => return Err(format!("gave up partition {partition}, which it has not")),
                }
            }
        }
        Deed::Out(partition, offset) => match newest(own, *partition).filter(|tenure| tenure.lasts) {
            Some(tenure) => tenure.out.push((at, *offset)),
            None => return Err(format!("got {offset} of partition {partition}, which it has not")),
        },
        Deed::Committing(partition, offset) => {
            // Also when it is just being given up.
            if let Some(tenure) = newest(own, *partition) {
                tenure.commits.push((at, *offset, false));
            }
        }
        Deed::Committed(partition, offset) => {
            let of_it = own.iter_mut().filter(|tenure| tenure.partition == *partition);
            let begun = of_it.flat_map(|tenure| &mut tenure.commits).filter(|(_, to, _)| to == offset);
            begun.for_each(|(_, _, worked)| *worked = true);
        }
        Deed::Ack(..) | Deed::Refused(..) | Deed::Closed => {}
    }
    Ok(())
}

fn newest(own: &mut [Tenure], partition: i32) -> Option<&mut Tenure> {
    own.iter_mut().rev().find(|tenure| tenure.partition == partition)
}
