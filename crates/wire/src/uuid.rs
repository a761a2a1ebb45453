//! Kafka's uuids.

use std::fmt;

/// A 128-bit id, of a topic for example.
///
/// Shown as Kafka shows it: base64 with the URL's alphabet, without padding, 22 letters.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// No id.
    pub const ZERO: Self = Self([0; 16]);

    /// Whether this is no id.
    pub const fn is_zero(&self) -> bool {
        u128::from_be_bytes(self.0) == 0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.letters() {
            fmt::Write::write_char(f, letter)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// 128 bits in groups of six from the top; the last group has two bits and four zeroes after them.
    fn letters(&self) -> impl Iterator<Item = char> {
        let bits = u128::from_be_bytes(self.0);
        let six = move |at: u32| if at < 21 { bits >> (122 - 6 * at) } else { bits << 4 };
        (0..22).map(move |at| char::from(ALPHABET[(six(at) & 63) as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected letters are what Java's `org.apache.kafka.common.Uuid.toString` gives.
    #[test]
    fn shown_as_kafka_shows_it() {
        let counting = Uuid(std::array::from_fn(|at| at as u8));
        for (uuid, letters) in [
            (Uuid::ZERO, "AAAAAAAAAAAAAAAAAAAAAA"),
            (Uuid([0xff; 16]), "_____________________w"),
            (counting, "AAECAwQFBgcICQoLDA0ODw"),
        ] {
            assert_eq!(uuid.to_string(), letters);
        }
    }

    #[test]
    fn zero_is_no_id() {
        assert!(Uuid::ZERO.is_zero());
        assert!(!Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).is_zero());
    }
}
