//! What kinds of reader there are; told apart by their types, so that a commit without a group does not compile.

/// Reads partitions that are named by the user; what a [`Reader`](crate::Reader) is unless its type says otherwise.
///
/// It has no group, and so nowhere to commit to:
///
/// ```compile_fail,E0599
/// # async fn example(mut reader: ottla::Reader) -> Result<(), ottla::Error> {
/// let message = reader.next().await?.unwrap();
/// reader.commit(&message).await?; // no method named `commit` found for struct `Reader`
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Partitions {}

/// Is a member of a group, and reads the partitions that the group's leader assigns to it; see
/// [`Builder::group`](crate::Builder::group).
#[derive(Debug)]
pub enum Group {}

/// Reads partitions that are named by the user and stores its offsets in a group, without being a member of it; see
/// [`Builder::stored_in`](crate::Builder::stored_in).
#[derive(Debug)]
pub enum Stored {}

/// Readers whose offsets are stored in a group: [`Group`] and [`Stored`]. They can acknowledge and commit.
pub trait Commits: sealed::Sealed {}

impl Commits for Group {}
impl Commits for Stored {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Group {}
    impl Sealed for super::Stored {}
}
