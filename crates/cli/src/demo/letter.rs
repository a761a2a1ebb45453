//! The records of the demonstration: each is a function of its number, so that what comes back can be checked.

use std::{io::Write, str};

/// How Franz Kafka's "Die Verwandlung" (1915) begins.
const TEXT: &str = "Als Gregor Samsa eines Morgens aus unruhigen Träumen erwachte, fand er sich in seinem Bett zu einem \
ungeheueren Ungeziefer verwandelt. Er lag auf seinem panzerartig harten Rücken und sah, wenn er den Kopf ein wenig \
hob, seinen gewölbten, braunen, von bogenförmigen Versteifungen geteilten Bauch, auf dessen Höhe sich die Bettdecke, \
zum gänzlichen Niedergleiten bereit, kaum noch erhalten konnte. Seine vielen, im Vergleich zu seinem sonstigen Umfang \
kläglich dünnen Beine flimmerten ihm hilflos vor den Augen. »Was ist mit mir geschehen?«, dachte er. Es war kein \
Traum. Sein Zimmer, ein richtiges, nur etwas zu kleines Menschenzimmer, lag ruhig zwischen den vier wohlbekannten \
Wänden. Gregors Blick richtete sich dann zum Fenster, und das trübe Wetter – man hörte Regentropfen auf das \
Fensterblech aufschlagen – machte ihn ganz melancholisch. »Wie wäre es, wenn ich noch ein wenig weiterschliefe und \
alle Narrheiten vergäße«, dachte er, aber das war gänzlich undurchführbar, denn er war gewöhnt, auf der rechten Seite \
zu schlafen, konnte sich aber in seinem gegenwärtigen Zustand nicht in diese Lage bringen.";

/// An excerpt has so many words at least, and fewer than twice as many.
const WORDS: usize = 10;

/// Writes letters, one at a time.
#[derive(Debug)]
pub(super) struct Letters {
    /// Where the words of the text begin.
    words: Vec<usize>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Letters {
    pub(super) fn new() -> Self {
        let behind_spaces = TEXT.match_indices(' ').map(|(at, _)| at + 1);
        Self { words: std::iter::once(0).chain(behind_spaces).collect(), key: Vec::new(), value: Vec::new() }
    }

    /// Key and value of a letter: its number, and its number with an excerpt of the text.
    pub(super) fn write(&mut self, number: u32) -> (&[u8], &[u8]) {
        self.key.clear();
        self.value.clear();
        let excerpt = self.excerpt(number);
        // Writing to memory does not fail.
        let _ = write!(self.key, "{number}");
        let _ = write!(self.value, "{number}: {excerpt}");
        (&self.key, &self.value)
    }

    fn excerpt(&self, number: u32) -> &'static str {
        let choice = number.wrapping_mul(0x9e37_79b9) >> 8; // neighbours shall not look alike
        let count = WORDS + choice as usize % WORDS;
        let first = (choice as usize / WORDS) % (self.words.len() - count);
        TEXT[self.words[first]..self.words[first + count]].trim_end()
    }
}

/// The number of a letter with this key.
pub(super) fn number(key: &[u8]) -> Option<u32> {
    str::from_utf8(key).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_letter_is_a_function_of_its_number() {
        let (mut one, mut other) = (Letters::new(), Letters::new());
        let mut excerpts = HashSet::new();
        for number in (0..1000).chain([u32::MAX]) {
            let (key, value) = one.write(number);
            assert_eq!((key, value), other.write(number));
            assert_eq!(super::number(key), Some(number));
            let value = str::from_utf8(value).unwrap();
            let excerpt = value.strip_prefix(&format!("{number}: ")).unwrap();
            assert!(TEXT.contains(excerpt) && excerpt.split(' ').count() >= WORDS, "{value}");
            excerpts.insert(excerpt.to_owned());
        }
        assert!(excerpts.len() > 500, "only {} different ones", excerpts.len());
    }

    #[test]
    fn what_is_no_number_is_none() {
        assert_eq!([&b""[..], b"x", b"-1", b"4294967296", b"\xff"].map(number), [None; 5]);
    }
}
