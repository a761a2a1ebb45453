//! Coming back to a message that was handed out and could not be done.

use std::sync::Arc;

use super::{commit::CommitError, tenure::Tenure};
use crate::{fetch::cursor::Phase as CursorPhase, machine::Machine};

impl Machine {
    /// Hands the message at `offset` out again, and all that follows it, although it was acknowledged. Everything from
    /// `from` on, where the message before it ended, counts as not done.
    ///
    /// Unlike a seek it leaves what lies before as it is: what is not acknowledged there still holds up what is committed.
    ///
    /// # Errors
    ///
    /// The tenure has ended.
    pub fn nack(&mut self, tenure: &Arc<Tenure>, from: i64, offset: i64) -> Result<(), CommitError> {
        self.handed_out_here(tenure)?;
        let at = tenure.at();
        let ended = || CommitError::ended(at);
        let index = self.cursor_named(&at.topic, at.partition).ok_or_else(ended)?;
        let cursor = &mut self.cursors[index];
        let is_its = |stake: &&super::Stake| tenure.counts_in(&stake.tenure, offset);
        cursor.stake.as_ref().filter(is_its).ok_or_else(ended)?.tenure.cut(from);
        let comes_anyway = cursor.turn.position().is_some_and(|position| position <= offset);
        // While it is given up nothing is handed out: who owns it next reads from what was committed.
        if !comes_anyway && !matches!(cursor.phase, CursorPhase::Idle) {
            cursor.turn.withdraw();
            self.new_turn(index, CursorPhase::Reading);
            let cursor = &mut self.cursors[index];
            cursor.last_epoch = -1;
            cursor.stand(offset, None);
            cursor.turn.begin(offset, from);
            self.hasten(index);
        }
        Ok(())
    }
}
