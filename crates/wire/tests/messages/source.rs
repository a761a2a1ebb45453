//! Where random values come from. A seed gives the same values every time.

use bytes::Bytes;
use ottla_wire::Uuid;
use std::iter;

/// What can be made up for a version: all fields that the version carries get values, the others stay at their
/// defaults.
pub(crate) trait Random: Sized {
    fn random(source: &mut Source, version: i16) -> Self;
}

/// How many values to try: `usual`, and more where proptest is asked for more cases than it tries by itself.
pub(crate) fn rounds(usual: u64) -> u64 {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    (usual * asked.unwrap_or(256) / 256).max(1)
}

pub(crate) struct Source {
    random: fastrand::Rng,
    /// The elements that arrays may still have, so that nested ones do not grow without end.
    elements: usize,
    /// Whether some strings and arrays are too long for a length of one byte.
    long: bool,
}

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), elements: 200, long: true }
    }

    /// For what is done at every byte of a message.
    pub(crate) fn small(seed: u64) -> Self {
        Self { elements: 12, long: false, ..Self::new(seed) }
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.usize(..end)
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.random.bool()
    }

    pub(crate) fn i8(&mut self) -> i8 {
        self.i64() as i8
    }

    pub(crate) fn i16(&mut self) -> i16 {
        self.i64() as i16
    }

    pub(crate) fn i32(&mut self) -> i32 {
        self.i64() as i32
    }

    /// Of any size, and often at an edge.
    pub(crate) fn i64(&mut self) -> i64 {
        match self.below(6) {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            // The lowest of each size, whatever is cut off.
            3 => i64::MIN | 0x8000_8080,
            _ => self.random.i64(..) >> self.below(64),
        }
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        Uuid(std::array::from_fn(|_| self.random.u8(..)))
    }

    pub(crate) fn string(&mut self) -> String {
        const LETTERS: [char; 8] = ['a', 'Z', '0', '.', '"', 'ß', '読', '🦀'];
        let length = self.length(60);
        iter::repeat_with(|| LETTERS[self.below(LETTERS.len())]).take(length).collect()
    }

    pub(crate) fn bytes(&mut self) -> Bytes {
        let length = self.length(200);
        iter::repeat_with(|| self.random.u8(..)).take(length).collect()
    }

    pub(crate) fn array<T: Random>(&mut self, version: i16) -> Vec<T> {
        let length = self.length(130).min(self.elements);
        self.elements -= length;
        iter::repeat_with(|| T::random(self, version)).take(length).collect()
    }

    pub(crate) fn nullable<T>(&mut self, allowed: bool, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if allowed && self.below(3) == 0 { None } else { Some(value(self)) }
    }

    /// A tagged field is left out half the time.
    pub(crate) fn tagged<T>(&mut self, default: T, value: impl FnOnce(&mut Self) -> T) -> T {
        if self.bool() { value(self) } else { default }
    }

    /// Short as a rule, `long` now and then.
    fn length(&mut self, long: usize) -> usize {
        if self.long && self.below(40) == 0 { long } else { self.below(4) }
    }
}

macro_rules! element {
    ($type:ty, $method:ident) => {
        impl Random for $type {
            fn random(source: &mut Source, _: i16) -> Self {
                source.$method()
            }
        }
    };
}

element!(i8, i8);
element!(i16, i16);
element!(i32, i32);
element!(i64, i64);
element!(String, string);
element!(Uuid, uuid);
