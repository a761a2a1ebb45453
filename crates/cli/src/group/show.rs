//! `ottla group show`.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::Duration,
};

use ottla::{GroupDescription, Groups, MemberDescription, PartitionLag, TopicPartition};
use serde::Serialize;

use crate::{
    escape, output,
    table::{Side, Table},
    tell::{self, Failure, counted},
    time::in_words,
};

/// How often `--watch` shows it anew.
const PERIOD: Duration = Duration::from_secs(2);
/// Cursor to the corner, and nothing below it.
const CLEAR: &str = "\x1b[H\x1b[J";

pub(super) async fn once(groups: &mut Groups, group: &str, json: bool) -> Result<(), Failure> {
    let seen = look(groups, group).await?;
    match json {
        true => tell::json(&seen.to_json()),
        false => tell::text(&seen.text()),
    }
}

/// Ends when nobody reads it any more; what passes (a broker that is away, a group that is gone) is told.
pub(super) async fn watch(groups: &mut Groups, group: &str, json: bool) -> Result<(), Failure> {
    tokio::select! {
        () = output::nobody_reads() => Ok(()),
        end = redraw(groups, group, json) => end,
    }
}

async fn redraw(groups: &mut Groups, group: &str, json: bool) -> Result<(), Failure> {
    let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
    let mut period = tokio::time::interval(PERIOD);
    let mut told = None;
    loop {
        period.tick().await;
        match look(groups, group).await {
            Ok(seen) => {
                told = None;
                match json {
                    true => tell::json(&seen.to_json())?,
                    false => tell::text(&format!("{clear}{}\n", seen.text()))?,
                }
            }
            Err(Failure(why)) => {
                if told.as_ref() != Some(&why) {
                    tell::note(format!("{why}; watching on"));
                }
                told = Some(why);
            }
        }
    }
}

async fn look(groups: &mut Groups, group: &str) -> Result<Seen, Failure> {
    let description = groups.describe(group).await?;
    let partitions = groups.lag(&description).await?;
    Ok(Seen { description, partitions })
}

/// A group at a moment.
struct Seen {
    description: GroupDescription,
    partitions: Vec<PartitionLag>,
}

impl Seen {
    fn text(&self) -> String {
        let mut parts = vec![self.headline()];
        if !self.description.members.is_empty() {
            parts.push(self.members());
        }
        if !self.partitions.is_empty() {
            parts.push(self.offsets());
        }
        parts.push(self.sum());
        parts.extend(self.faults());
        parts.join("\n")
    }

    fn headline(&self) -> String {
        let GroupDescription { id, kind, state, assignor, coordinator, .. } = &self.description;
        let assignor = if assignor.is_empty() { String::new() } else { format!(", assigned by {assignor}") };
        let id = escape::shown(id);
        format!(
            "group {id}: {kind}, {state}{assignor}; coordinator: broker {} at {}\n",
            coordinator.node, coordinator.address
        )
    }

    fn members(&self) -> String {
        let mut table = Table::new(&["MEMBER", "HOST", "PARTITIONS", "ID"].map(|title| (title, Side::Left)));
        for (member, name) in self.description.members.iter().zip(names(&self.description.members)) {
            let host = member.host.trim_start_matches('/').to_owned();
            table.push([name, host, TopicPartition::ranges(&member.partitions), member.id.clone()]);
        }
        table.text()
    }

    fn offsets(&self) -> String {
        let (left, right) = (Side::Left, Side::Right);
        let mut table = Table::new(&[
            ("TOPIC", left),
            ("PARTITION", right),
            ("COMMITTED", right),
            ("END", right),
            ("LAG", right),
            ("BEHIND", right),
            ("OWNER", left),
        ]);
        let owners = self.owners();
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        for row in &self.partitions {
            table.push([
                row.at.topic.to_string(),
                row.at.partition.to_string(),
                number(row.committed),
                number(row.end),
                row.lag.map(|lag| lag.to_string()).unwrap_or_default(),
                row.behind.map(in_words).unwrap_or_default(),
                row.owner.as_ref().and_then(|id| owners.get(id.as_str())).cloned().unwrap_or_default(),
            ]);
        }
        table.text()
    }

    /// Names by member ids.
    fn owners(&self) -> BTreeMap<&str, String> {
        let members = &self.description.members;
        members.iter().map(|member| member.id.as_str()).zip(names(members)).collect()
    }

    fn sum(&self) -> String {
        let (rows, members) = (&self.partitions, self.description.members.len());
        let lag: u64 = rows.iter().filter_map(|row| row.lag).sum();
        let oldest = rows.iter().filter_map(|row| row.behind).max().filter(|behind| !behind.is_zero());
        let oldest = oldest.map_or(String::new(), |behind| format!(", the oldest {} ago", in_words(behind)));
        let lag = usize::try_from(lag).unwrap_or(usize::MAX);
        format!(
            "{}, {}, {} behind{oldest}\n",
            counted(members, "member"),
            counted(rows.len(), "partition"),
            counted(lag, "record")
        )
    }

    fn faults(&self) -> impl Iterator<Item = String> {
        let told = |row: &PartitionLag| row.fault.as_ref().map(|fault| format!("{}: {fault}\n", row.at));
        self.partitions.iter().filter_map(told)
    }

    fn to_json(&self) -> Shown<'_> {
        let of = &self.description;
        Shown {
            group: &of.id,
            kind: of.kind.to_string(),
            state: &of.state,
            protocol_type: &of.protocol_type,
            assignor: &of.assignor,
            epoch: of.epoch,
            coordinator: ShownBroker { id: of.coordinator.node, address: of.coordinator.address.to_string() },
            members: of.members.iter().map(ShownMember::new).collect(),
            partitions: self.partitions.iter().map(ShownPartition::new).collect(),
        }
    }
}

/// What members are called: by their instance or client id, with a number where several have the same.
fn names(members: &[MemberDescription]) -> Vec<String> {
    let name = |member: &MemberDescription| member.instance.as_ref().unwrap_or(&member.client_id).clone();
    let plain: Vec<String> = members.iter().map(name).collect();
    let numbered = plain.iter().enumerate().map(|(at, name)| {
        let alike = |names: &[String]| names.iter().filter(|other| *other == name).count();
        if alike(&plain) > 1 { format!("{name}#{}", alike(&plain[..at]) + 1) } else { name.clone() }
    });
    numbered.collect()
}

/// A group as `--json` has it.
#[derive(Serialize)]
struct Shown<'a> {
    group: &'a str,
    kind: String,
    state: &'a str,
    protocol_type: &'a str,
    assignor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i32>,
    coordinator: ShownBroker,
    members: Vec<ShownMember<'a>>,
    partitions: Vec<ShownPartition<'a>>,
}

#[derive(Serialize)]
struct ShownBroker {
    id: i32,
    address: String,
}

#[derive(Serialize)]
struct ShownMember<'a> {
    id: &'a str,
    instance: Option<&'a str>,
    client_id: &'a str,
    host: &'a str,
    topics: &'a [String],
    /// Numbers by topic.
    partitions: BTreeMap<&'a str, Vec<i32>>,
}

impl<'a> ShownMember<'a> {
    fn new(member: &'a MemberDescription) -> Self {
        let mut partitions = BTreeMap::<&str, Vec<i32>>::new();
        for at in &member.partitions {
            partitions.entry(&at.topic).or_default().push(at.partition);
        }
        Self {
            id: &member.id,
            instance: member.instance.as_deref(),
            client_id: &member.client_id,
            host: member.host.trim_start_matches('/'),
            topics: &member.topics,
            partitions,
        }
    }
}

#[derive(Serialize)]
struct ShownPartition<'a> {
    topic: &'a str,
    partition: i32,
    committed: Option<i64>,
    metadata: &'a str,
    earliest: Option<i64>,
    end: Option<i64>,
    lag: Option<u64>,
    behind_secs: Option<f64>,
    /// A member's id.
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

impl<'a> ShownPartition<'a> {
    fn new(row: &'a PartitionLag) -> Self {
        Self {
            topic: &row.at.topic,
            partition: row.at.partition,
            committed: row.committed,
            metadata: &row.metadata,
            earliest: row.earliest,
            end: row.end,
            lag: row.lag,
            behind_secs: row.behind.map(|behind| behind.as_millis() as f64 / 1e3),
            owner: row.owner.as_deref(),
            fault: row.fault.as_ref().map(ToString::to_string),
        }
    }
}
