//! Records on their way into batches.

use ottla_wire::record::{BatchBuilder, Codec};

use crate::partition;

/// A batch takes no further record beyond this. Java's producer takes 16 KB; its tuning guides, and the readers here,
/// like 64 KB better.
const BATCH: usize = 64 << 10;
/// All batches together hold no more, so that a topic of a thousand partitions does not keep us packing for seconds.
const TOTAL: usize = 4 << 20;
/// What a record costs beside its bytes, at most, and each of its headers.
const RECORD_OVERHEAD: usize = 32;
const HEADER_OVERHEAD: usize = 10;

/// Where records go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// All to this partition.
    To(u32),
    /// By the key as Java has it; those without one round-robin, a batch at a time.
    ByKey,
}

/// One batch for each partition, being filled.
///
/// When a record has no room, all batches are sent together: so they travel full under load, while a quiet input sends
/// each record as it comes.
#[derive(Debug)]
pub(crate) struct Batches {
    codec: Codec,
    route: Route,
    builders: Vec<BatchBuilder>,
    /// Where records without a key go at the moment.
    turn: usize,
    /// Bytes in all builders.
    total: usize,
}

impl Batches {
    pub(crate) fn new(codec: Codec, route: Route, partitions: u32) -> Self {
        let builders: Vec<_> = (0..partitions.max(1)).map(|_| BatchBuilder::new(codec)).collect();
        // As many commands that write one line each should not all meet in the first partition.
        let turn = fastrand::usize(..builders.len());
        Self { codec, route, builders, turn, total: 0 }
    }

    /// Adds a record, if there is room for it. If not, everything is to be sent first.
    pub(crate) fn add(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> bool {
        let len = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let headers_size: usize =
            headers.iter().map(|(name, v)| name.len() + len(*v) + HEADER_OVERHEAD).sum();
        let size = len(key) + len(value) + headers_size + RECORD_OVERHEAD;
        if self.total > 0 && self.total + size > TOTAL {
            return false;
        }
        let Some(partition) = self.place(key, size) else { return false };
        self.builders[partition].push(timestamp, key, value, headers);
        self.total += size;
        true
    }

    /// The partition for a record of `size` bytes, if its batch has room.
    fn place(&mut self, key: Option<&[u8]>, size: usize) -> Option<usize> {
        let partition = match (self.route, key) {
            (Route::To(partition), _) => partition as usize,
            (Route::ByKey, Some(key)) => partition::of_key(key, self.builders.len() as u32) as usize,
            (Route::ByKey, None) => {
                if !self.has_room(self.turn, size) {
                    self.pass_on();
                }
                self.turn
            }
        };
        self.has_room(partition, size).then_some(partition)
    }

    /// An empty batch takes a record of any size: it is the broker's to refuse.
    fn has_room(&self, partition: usize, size: usize) -> bool {
        let builder = &self.builders[partition];
        builder.is_empty() || builder.bytes() + size <= BATCH
    }

    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.builders.len();
    }

    /// Takes out all batches that hold something.
    pub(crate) fn take(&mut self) -> Vec<(u32, BatchBuilder)> {
        self.pass_on();
        self.total = 0;
        let filled = self.builders.iter_mut().zip(0..).filter(|(builder, _)| !builder.is_empty());
        filled.map(|(builder, at)| (at, std::mem::replace(builder, BatchBuilder::new(self.codec)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(route: Route, partitions: u32) -> Batches {
        Batches::new(Codec::None, route, partitions)
    }

    fn add(batches: &mut Batches, key: Option<&[u8]>, value: &[u8]) -> bool {
        batches.add(0, key, Some(value), &[])
    }

    /// Partitions and numbers of records.
    fn taken(batches: &mut Batches) -> Vec<(u32, usize)> {
        batches.take().iter().map(|(partition, builder)| (*partition, builder.len())).collect()
    }

    #[test]
    fn keys_go_where_java_sends_them_and_others_stay_together() {
        let mut batches = batches(Route::ByKey, 6);
        batches.turn = 5;
        for key in ["a", "ab", "abc", "abcd", "21"] {
            assert!(add(&mut batches, Some(key.as_bytes()), b"x"));
        }
        assert!(add(&mut batches, None, b"x") && add(&mut batches, None, b"x"));
        assert_eq!(taken(&mut batches), [(0, 1), (2, 2), (3, 1), (4, 1), (5, 2)]);
    }

    #[test]
    fn records_without_a_key_go_round_a_batch_at_a_time() {
        let mut batches = batches(Route::ByKey, 3);
        batches.turn = 1;
        let value = [0; 30 << 10];
        for _ in 0..6 {
            assert!(add(&mut batches, None, &value));
        }
        assert!(!add(&mut batches, None, &value), "three batches hold two each");
        assert_eq!(taken(&mut batches), [(0, 2), (1, 2), (2, 2)]);
    }

    #[test]
    fn single_records_go_round_too() {
        let mut batches = batches(Route::ByKey, 3);
        batches.turn = 2;
        let turns: Vec<_> = (0..4)
            .map(|_| {
                add(&mut batches, None, b"x");
                taken(&mut batches)[0].0
            })
            .collect();
        assert_eq!(turns, [2, 0, 1, 2]);
    }

    #[test]
    fn a_named_partition_takes_all() {
        let mut batches = batches(Route::To(2), 6);
        assert!(add(&mut batches, Some(b"a"), b"x") && add(&mut batches, None, b"x"));
        assert_eq!(taken(&mut batches), [(2, 2)]);
        assert_eq!(taken(&mut batches), []);
    }

    #[test]
    fn many_partitions_do_not_hold_more_together() {
        let mut batches = batches(Route::ByKey, 1000);
        let added = (0..10_000).take_while(|n: &u32| add(&mut batches, Some(&n.to_be_bytes()), &[0; 1000]));
        let added = added.count();
        assert!((3900..4100).contains(&added), "{added}");
        assert_eq!(taken(&mut batches).iter().map(|(_, records)| records).sum::<usize>(), added);
        assert!(add(&mut batches, None, b"x"));
    }

    #[test]
    fn batches_stay_below_their_size_but_a_large_record_goes_alone() {
        let mut batches = batches(Route::To(0), 1);
        while batches.add(0, Some(b"key"), Some(&[7; 100]), &[("name", Some(b"value"))]) {}
        let (_, builder) = batches.take().remove(0);
        assert!(builder.bytes() <= BATCH && builder.bytes() > BATCH - 200, "{}", builder.bytes());
        assert!(add(&mut batches, None, &vec![0; 2 * BATCH]));
        assert!(!add(&mut batches, None, b"x"));
    }
}
