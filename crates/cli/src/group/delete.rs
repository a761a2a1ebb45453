//! `ottla group delete`.

use ottla::Groups;

use crate::tell::{self, Failure, counted};

pub(super) async fn run(groups: &mut Groups, group: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        groups.delete(group).await?;
        tell::note(format!("group {group} is deleted"));
        return Ok(());
    }
    let description = groups.describe(group).await?;
    let offsets = groups.lag(&description).await?.iter().filter(|row| row.committed.is_some()).count();
    let held =
        format!("group {group} ({}) has the offsets of {}", description.state, counted(offsets, "partition"));
    match description.members.len() {
        0 => tell::note(format!("{held}; --yes deletes them all")),
        members => {
            let members = counted(members, "member");
            return Err(Failure(format!("{held} and {members}: it cannot be deleted now")));
        }
    }
    Ok(())
}
