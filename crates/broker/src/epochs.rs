//! Which leader epoch began where in a log (Kafka's `LeaderEpochFileCache`).

/// The leader epochs of a log with the offset each begins at: both strictly ascending.
#[derive(Debug, Clone, Default)]
pub(crate) struct Epochs(Vec<Entry>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    epoch: i32,
    start: i64,
}

impl Epochs {
    /// From `start` on, records carry `epoch`. An epoch that is known already keeps its place.
    pub(crate) fn assign(&mut self, epoch: i32, start: i64) {
        if self.latest().is_some_and(|latest| latest == epoch) {
            return;
        }
        self.0.retain(|entry| entry.epoch < epoch && entry.start < start);
        self.0.push(Entry { epoch, start });
    }

    /// The newest epoch.
    pub(crate) fn latest(&self) -> Option<i32> {
        self.0.last().map(|entry| entry.epoch)
    }

    /// The oldest epoch, if it reaches back to `log_start`.
    pub(crate) fn earliest(&self, log_start: i64) -> Option<i32> {
        self.0.first().filter(|entry| entry.start <= log_start).map(|entry| entry.epoch)
    }

    /// The greatest epoch that is not above `epoch`, and where it ends; `None` where that is not defined.
    ///
    /// An epoch below all that are known ends where the oldest begins.
    pub(crate) fn end_of(&self, epoch: i32, log_end: i64) -> Option<(i32, i64)> {
        if epoch >= 0 && self.latest() == Some(epoch) {
            return Some((epoch, log_end));
        }
        if epoch < 0 {
            return None;
        }
        let above = self.0.partition_point(|entry| entry.epoch <= epoch);
        let end = self.0.get(above)?.start;
        let floor = above.checked_sub(1).map_or(epoch, |below| self.0[below].epoch);
        Some((floor, end))
    }

    /// The log now ends at `end`.
    pub(crate) fn cut_end(&mut self, end: i64) {
        self.0.retain(|entry| entry.start < end);
    }

    /// The log now starts at `start`.
    pub(crate) fn cut_start(&mut self, start: i64) {
        let gone = self.0.partition_point(|entry| entry.start <= start);
        let Some(current) = gone.checked_sub(1) else { return };
        self.0[current].start = start;
        self.0.drain(..current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for &(epoch, start) in entries {
            epochs.assign(epoch, start);
        }
        epochs
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = epochs(&[(1, 0), (3, 10), (7, 25)]);
        let table = [
            (-1, None),
            (0, Some((0, 0))),
            (1, Some((1, 10))),
            (2, Some((1, 10))),
            (3, Some((3, 25))),
            (6, Some((3, 25))),
            (7, Some((7, 40))),
            (8, None),
        ];
        for (epoch, end) in table {
            assert_eq!(epochs.end_of(epoch, 40), end, "epoch {epoch}");
        }
    }

    #[test]
    fn an_epoch_without_records_is_replaced() {
        let epochs = epochs(&[(0, 0), (1, 0), (2, 5), (3, 5)]);
        assert_eq!(epochs.0, [Entry { epoch: 1, start: 0 }, Entry { epoch: 3, start: 5 }]);
    }

    #[test]
    fn a_moved_start_keeps_the_epoch_it_falls_into() {
        let mut epochs = epochs(&[(0, 0), (1, 10), (2, 20)]);
        epochs.cut_start(15);
        assert_eq!(epochs.0, [Entry { epoch: 1, start: 15 }, Entry { epoch: 2, start: 20 }]);
        assert_eq!(epochs.earliest(15), Some(1));
        assert_eq!(epochs.earliest(14), None);
    }

    #[test]
    fn a_cut_end_forgets_what_began_behind_it() {
        let mut epochs = epochs(&[(0, 0), (1, 10), (2, 20)]);
        epochs.cut_end(10);
        assert_eq!(epochs.latest(), Some(0));
    }
}
