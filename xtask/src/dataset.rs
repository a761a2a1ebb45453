//! The topics that are read back and measured: text of 100 bytes as it is, and JSON in every codec.

use crate::failure::{During, Result, misuse};
use crate::kafka::tools::{Payload, Tools};
use crate::table::thousands;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A topic, by name, and what Java's producer fills it with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) partitions: u32,
    codec: &'static str,
    pub(crate) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content {
    /// 100 random letters.
    Letters,
    /// Lines of JSON, some 160 bytes long.
    Json,
}

/// The length of a record of [`Content::Letters`].
pub(crate) const LETTERS: u32 = 100;

/// How many records a topic gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) letters: u64,
    pub(crate) json: u64,
}

impl Size {
    pub(crate) const FEW: Self = Self { letters: 50_000, json: 50_000 };
    pub(crate) const SHORT: Self = Self { letters: 200_000, json: 200_000 };
    pub(crate) const FULL: Self = Self { letters: 5_000_000, json: 3_000_000 };
    pub(crate) const TENTH: Self = Self { letters: 500_000, json: 300_000 };

    pub(crate) fn of(self, topic: Topic) -> u64 {
        match topic.content {
            Content::Letters => self.letters,
            Content::Json => self.json,
        }
    }
}

pub(crate) const TOPICS: [Topic; 6] = [
    Topic { name: "plain1", partitions: 1, codec: "none", content: Content::Letters },
    Topic { name: "plain6", partitions: 6, codec: "none", content: Content::Letters },
    Topic { name: "lz46", partitions: 6, codec: "lz4", content: Content::Json },
    Topic { name: "zstd6", partitions: 6, codec: "zstd", content: Content::Json },
    Topic { name: "snappy6", partitions: 6, codec: "snappy", content: Content::Json },
    Topic { name: "gzip6", partitions: 6, codec: "gzip", content: Content::Json },
];

/// The topics of these names; all when none is named.
pub(crate) fn named(names: &[String]) -> Result<Vec<Topic>> {
    if names.is_empty() {
        return Ok(TOPICS.to_vec());
    }
    names.iter().map(|name| one_named(name)).collect()
}

/// Makes the topics and fills them; `dir` takes the file of JSON lines.
pub(crate) fn fill(tools: &Tools, dir: &Path, topics: &[Topic], size: Size) -> Result<()> {
    let lines = json_file(dir)?;
    for topic in topics {
        let (records, start) = (size.of(*topic), Instant::now());
        let payload = match topic.content {
            Content::Letters => Payload::Letters(LETTERS),
            Content::Json => Payload::LinesOf(&lines),
        };
        tools.create_topic(topic.name, topic.partitions)?;
        tools.produce(topic.name, records, &payload, topic.codec)?;
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("  {:8} {:>9} records written by Java in {seconds:.1} s", topic.name, thousands(records));
    }
    Ok(())
}

fn one_named(name: &str) -> Result<Topic> {
    match TOPICS.iter().find(|topic| topic.name == name) {
        Some(topic) => Ok(*topic),
        None => {
            let known: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
            misuse(format!("there is no topic `{name}` here; known: {}", known.join(", ")))
        }
    }
}

fn json_file(dir: &Path) -> Result<PathBuf> {
    let path = dir.join("payload.jsonl");
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut file = BufWriter::new(File::create(&path)?);
        json_lines().try_for_each(|line| writeln!(file, "{line}"))?;
        file.flush()
    };
    write().during(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// 20,000 different lines, the same in every run: an id, a time, a user, an event, an amount, a path.
fn json_lines() -> impl Iterator<Item = String> {
    let mut random = Random(0x0774_a0b1);
    (0..20_000u64).map(move |n| {
        const EVENTS: [&str; 8] =
            ["view", "click", "purchase", "refund", "sign_in", "sign_out", "search", "add_to_cart"];
        const ROOMS: [&str; 6] = ["castle", "trial", "letters", "village", "court", "burrow"];
        let event = EVENTS[random.below(EVENTS.len() as u64) as usize];
        let room = ROOMS[random.below(ROOMS.len() as u64) as usize];
        let (minute, second, millis) = (random.below(60), random.below(60), random.below(1000));
        let (user, cents) = (random.below(100_000), random.below(1_000_000));
        let (chapter, page) = (random.below(40), random.below(10_000));
        let id = random.next();
        format!(
            "{{\"id\":\"{id:016x}{n:05}\",\"time\":\"2026-03-14T15:{minute:02}:{second:02}.{millis:03}Z\",\
             \"user\":\"user-{user:05}\",\"event\":\"{event}\",\"amount\":{}.{:02},\"path\":\"/{room}/chapter/{chapter:02}/page/{page}\"}}",
            cents / 100,
            cents % 100
        )
    })
}

/// SplitMix64: enough to make lines that do not compress to nothing.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn json_lines_are_json_different_and_about_160_bytes() {
        let lines: Vec<_> = json_lines().collect();
        assert_eq!(lines.len(), 20_000);
        assert_eq!(lines.iter().collect::<HashSet<_>>().len(), 20_000);
        let mean = lines.iter().map(String::len).sum::<usize>() / lines.len();
        assert!((150..170).contains(&mean), "{mean} bytes");
        for line in lines.iter().step_by(997) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let keys = ["id", "time", "user", "event", "amount", "path"];
            assert!(keys.iter().all(|key| !value[key].is_null()), "{line}");
        }
    }

    #[test]
    fn json_lines_are_the_same_in_every_run() {
        assert!(json_lines().eq(json_lines()));
    }

    #[test]
    fn topics_are_found_by_name_and_unknown_ones_told() {
        assert_eq!(named(&[]).unwrap().len(), 6);
        assert_eq!(named(&["lz46".into()]).unwrap()[0].name, "lz46");
        assert!(named(&["lz4".into()]).unwrap_err().to_string().contains("lz46"));
    }
}
