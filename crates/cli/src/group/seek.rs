//! `ottla group seek`: look up, show, and only then do.

use std::collections::BTreeMap;

use ottla::{Code, Error, Groups, ResolvedOffset, Start, TopicPartition};

use crate::{
    args::Target,
    table::{Side, Table},
    tell::{self, Failure, counted},
};

pub(super) async fn run(
    groups: &mut Groups,
    group: &str,
    targets: &[Target],
    start: Start,
    yes: bool,
) -> Result<(), Failure> {
    let (before, in_use) = look(groups, group).await?;
    if let Some(failure) = in_use.as_ref().filter(|_| yes) {
        return Err(Failure(failure.clone()));
    }
    let partitions = partitions(groups, targets).await?;
    let offsets = groups.resolve(&partitions, start).await?;
    tell::text(&table(&offsets, before.as_ref()))?;
    note_clamped(&offsets, start);
    if let Some(failure) = in_use {
        return Err(Failure(failure));
    }
    if !yes {
        let made = if before.is_none() {
            format!("group {group} does not exist and would be made; ")
        } else {
            String::new()
        };
        tell::note(format!("{made}nothing was changed: --yes does it"));
        return Ok(());
    }
    let count = offsets.len();
    groups.set_offsets(group, offsets.into_iter().map(|to| (to.at, to.offset))).await?;
    tell::note(format!("group {group} reads on from there in {}", counted(count, "partition")));
    Ok(())
}

/// What a group has committed; none if it does not exist.
type Before = Option<BTreeMap<TopicPartition, i64>>;

/// What the group has committed, and why that cannot be changed, if it has members.
async fn look(groups: &mut Groups, group: &str) -> Result<(Before, Option<String>), Error> {
    let description = match groups.describe(group).await {
        Ok(description) => description,
        Err(error) if error.code() == Some(Code::GROUP_ID_NOT_FOUND) => return Ok((None, None)),
        Err(error) => return Err(error),
    };
    let members: Vec<&str> = description.members.iter().map(|member| member.client_id.as_str()).collect();
    let in_use = (!members.is_empty()).then(|| {
        let (count, names) = (counted(members.len(), "member"), members.join(", "));
        format!("group {group} has {count} ({names}), who would commit over it; stop that first")
    });
    let rows = groups.lag(&description).await?;
    Ok((Some(rows.into_iter().filter_map(|row| Some((row.at, row.committed?))).collect()), in_use))
}

/// In order, each once.
async fn partitions(groups: &mut Groups, targets: &[Target]) -> Result<Vec<TopicPartition>, Error> {
    let mut partitions = Vec::new();
    for target in targets {
        match target.partition {
            Some(partition) => partitions.push(TopicPartition::new(target.topic.as_str(), partition)),
            None => partitions.extend(groups.partitions(&target.topic).await?),
        }
    }
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}

fn table(offsets: &[ResolvedOffset], before: Option<&BTreeMap<TopicPartition, i64>>) -> String {
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table::new(&[
        ("TOPIC", left),
        ("PARTITION", right),
        ("COMMITTED", right),
        ("TO", right),
        ("CHANGE", right),
    ]);
    for to in offsets {
        let from = before.and_then(|before| before.get(&to.at)).copied();
        let change = from.map(|from| match to.offset - from {
            0 => "none".to_owned(),
            change => format!("{change:+}"),
        });
        table.push([
            to.at.topic.to_string(),
            to.at.partition.to_string(),
            from.map(|from| from.to_string()).unwrap_or_default(),
            to.offset.to_string(),
            change.unwrap_or_else(|| "new".to_owned()),
        ]);
    }
    table.text()
}

fn note_clamped(offsets: &[ResolvedOffset], start: Start) {
    let Start::Offset(asked) = start else { return };
    for to in offsets.iter().filter(|to| to.offset != asked) {
        let ResolvedOffset { at, offset, earliest, end, .. } = to;
        tell::note(format!(
            "{at}: offset {asked} is not in the log, which holds {earliest} to {end}; {offset} it is"
        ));
    }
}
