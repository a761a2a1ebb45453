//! The hunt itself: changes a case, tries it, and keeps it as a beginning for others where it led to something new.
#![allow(clippy::disallowed_methods, reason = "a hunt ends when its time is over")]

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::mutate::mutate;

/// A case that takes longer goes round in circles, or through much more than there is.
const CASE_MAX: Duration = Duration::from_secs(60);
/// So many cases are kept as beginnings.
const POOL_MAX: usize = 10_000;
const SECONDS: u64 = 2;
const SEED: u64 = 1883;

pub(crate) struct Hunt {
    name: &'static str,
    pool: Vec<Vec<u8>>,
    /// Outcomes, without their numbers.
    seen: HashSet<u64>,
    mend: fn(&mut [u8]),
    random: fastrand::Rng,
    time: Duration,
}

/// What a case came to: the error, or what was read. Numbers in it do not count.
pub(crate) type Outcome = String;

impl Hunt {
    pub(crate) fn new(name: &'static str, pool: Vec<Vec<u8>>) -> Self {
        let seconds = setting("OTTLA_FUZZ_SECONDS");
        let usual = if seconds.is_some() { fastrand::u64(..) } else { SEED };
        let seed = setting("OTTLA_FUZZ_SEED").unwrap_or(usual);
        println!("{name}: OTTLA_FUZZ_SEED={seed}, {} cases to begin with", pool.len());
        assert!(!pool.is_empty());
        Self {
            name,
            pool,
            seen: HashSet::new(),
            mend: |_| (),
            random: fastrand::Rng::with_seed(seed),
            time: Duration::from_secs(seconds.unwrap_or(SECONDS)),
        }
    }

    /// Half of what was changed is made consistent again, so that more of it gets further.
    pub(crate) fn mended_by(mut self, mend: fn(&mut [u8])) -> Self {
        self.mend = mend;
        self
    }

    pub(crate) fn run(mut self, mut read: impl FnMut(&[u8]) -> Outcome) {
        let watch = Watch::new(self.name);
        let begun: Vec<_> = found(self.name).into_iter().chain(self.pool.clone()).collect();
        for case in &begun {
            self.attempt(case, &watch, &mut read);
        }
        let known = self.seen.len();
        let end = Instant::now() + self.time;
        let mut tried = 0_u64;
        while Instant::now() < end {
            let case = self.changed();
            if self.attempt(&case, &watch, &mut read) && self.pool.len() < POOL_MAX {
                self.pool.push(case);
            }
            tried += 1;
        }
        println!("{}: {tried} cases, {} outcomes, {known} of them at first", self.name, self.seen.len());
        assert!(self.seen.len() > known, "{}: what was changed makes a difference", self.name);
    }

    fn changed(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut case = self.pool[random.usize(..self.pool.len())].clone();
        for _ in 0..=random.u8(..4) {
            mutate(&mut case, &self.pool, random);
        }
        if random.bool() {
            (self.mend)(&mut case);
        }
        case
    }

    /// Whether it led to something new.
    fn attempt(&mut self, case: &[u8], watch: &Watch, read: &mut impl FnMut(&[u8]) -> Outcome) -> bool {
        watch.begin(case);
        match catch_unwind(AssertUnwindSafe(|| read(case))) {
            Ok(outcome) => self.seen.insert(signature(&outcome)),
            Err(_) => panic!("{}: this case fails, it was kept as {}", self.name, keep(self.name, case)),
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

fn signature(outcome: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    outcome.chars().filter(|char| !char.is_ascii_digit()).for_each(|char| char.hash(&mut hasher));
    hasher.finish()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/found")
}

/// What a target has failed on before.
fn found(name: &str) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(folder()) else { return Vec::new() };
    let paths = files.map(|entry| entry.unwrap().path());
    let ours =
        paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&format!("{name}-")));
    ours.map(|path| fs::read(path).unwrap()).collect()
}

/// Writes the case to where it is tried again in every run.
fn keep(name: &str, case: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    case.hash(&mut hasher);
    let path = folder().join(format!("{name}-{:016x}.bin", hasher.finish()));
    let written = fs::create_dir_all(folder()).and_then(|()| fs::write(&path, case));
    match written {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("nothing ({error}): {case:02x?}"),
    }
}

/// Ends the process where a case does not end.
struct Watch {
    current: Arc<Mutex<Current>>,
    /// Closed with the hunt.
    _over: mpsc::Sender<()>,
}

#[derive(Default)]
struct Current {
    number: u64,
    case: Vec<u8>,
}

impl Watch {
    fn new(name: &'static str) -> Self {
        let current = Arc::new(Mutex::new(Current::default()));
        let (over, is_over) = mpsc::channel();
        let watched = current.clone();
        thread::spawn(move || {
            let mut last = 0;
            while let Err(mpsc::RecvTimeoutError::Timeout) = is_over.recv_timeout(CASE_MAX) {
                let current = watched.lock().unwrap();
                if current.number == last {
                    eprintln!("{name}: no end in {CASE_MAX:?}, kept as {}", keep(name, &current.case));
                    std::process::abort();
                }
                last = current.number;
            }
        });
        Self { current, _over: over }
    }

    fn begin(&self, case: &[u8]) {
        let mut current = self.current.lock().unwrap();
        current.number += 1;
        current.case.clear();
        current.case.extend_from_slice(case);
    }
}
