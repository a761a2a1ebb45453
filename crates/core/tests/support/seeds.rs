//! Runs a simulation for many seeds, on all cores; what fails is run again with its trace on.
//!
//! - `OTTLA_SEED=n` runs one seed and prints what happened.
//! - `OTTLA_SEEDS=n` runs so many (soak); `OTTLA_FROM=n` begins there.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use ottla_broker::Like;

use super::tracing;

/// Seeds that once failed, by what was wrong.
pub type Regressions = &'static [(&'static str, &'static [u64])];

/// Runs the seeds that the environment names, or so many and the regressions. `name` is what `cargo xtask sim --only`
/// calls it. Each report is given to `add`; gives how many seeds there were, unless it was one to look at.
pub fn run_seeds<R: std::fmt::Debug>(
    name: &str,
    count: u64,
    regressions: Regressions,
    simulate: impl Fn(u64) -> R + Sync,
    add: impl FnMut(R) + Send,
) -> Option<u64> {
    if let Some(seed) = number("OTTLA_SEED") {
        let (result, lines) = tracing(|| catch_unwind(AssertUnwindSafe(|| simulate(seed))));
        lines.iter().for_each(|line| println!("{line}"));
        let report = result.unwrap_or_else(|_| panic!("seed {seed} failed"));
        println!("{report:?}");
        return None;
    }
    let (from, count) = (number("OTTLA_FROM").unwrap_or(0), number("OTTLA_SEEDS").unwrap_or(count));
    let kept = regressions.iter().flat_map(|(_, seeds)| *seeds).copied();
    let seeds: Vec<u64> = kept.chain(from..from + count).collect();
    if let Some(failed) = first_failure(&seeds, &simulate, add) {
        let (_, lines) = tracing(|| catch_unwind(AssertUnwindSafe(|| simulate(failed))));
        lines.iter().for_each(|line| println!("{line}"));
        panic!("seed {failed} failed: cargo xtask sim --only {name} --seed {failed}");
    }
    Some(seeds.len() as u64)
}

/// Which Kafka the cluster of this seed passes for: half of them the newest. Kept seeds are of when there was no other.
pub fn some_kafka(seed: u64, regressions: Regressions) -> Like {
    if regressions.iter().any(|(_, kept)| kept.contains(&seed)) {
        return Like::V4_4;
    }
    // Dice of its own, so that the rest of a seed's schedule stays what it was.
    match fastrand::Rng::with_seed(seed ^ 0x11ce).u32(0..4) {
        0 => Like::V2_8,
        1 => Like::V3_9,
        _ => Like::V4_4,
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Stops at the first seed that fails, and gives it.
fn first_failure<R>(
    seeds: &[u64],
    simulate: &(impl Fn(u64) -> R + Sync),
    add: impl FnMut(R) + Send,
) -> Option<u64> {
    let add = Mutex::new(add);
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) == u64::MAX {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(place as usize) else { return };
                    match catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
                        Ok(report) => add.lock().expect("nobody panics with it")(report),
                        Err(_) => failed.store(seed, Ordering::Relaxed),
                    }
                }
            });
        }
    });
    Some(failed.into_inner()).filter(|&seed| seed != u64::MAX)
}
