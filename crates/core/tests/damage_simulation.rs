//! Groups whose brokers' answers come damaged for a while, which no checksum shows. What such an answer says may be
//! believed; but nothing may stay that way once answers are sound again.

mod support;

use std::time::Duration;

use ottla_broker::{GroupState, GroupView};
use ottla_core::{Config, GroupConfig, Range, Sticky};
use support::*;

/// What runs in every test run.
const SEEDS: u64 = 40;

/// Seeds that once failed, by what was wrong.
const REGRESSIONS: Regressions = &[
    (
        "an answer whose length was damaged was waited for, or never seen to be none",
        &[23, 149, 221, 305, 408, 505],
    ),
    ("a lane that could not be asked to fetch hid that the other one can", &[1981]),
];

const G: &str = "g";
const PARTITIONS: i32 = 4;

#[test]
fn a_group_recovers_from_damaged_answers() {
    let mut damaged = 0;
    if let Some(seeds) = run_seeds("damage", SEEDS, REGRESSIONS, simulate, |told| damaged += told) {
        assert!(damaged > seeds, "hardly anybody noticed: {damaged} of {seeds}");
    }
}

/// One schedule; gives how often something was told while answers were damaged.
fn simulate(seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xda3a);
    let mut world = World::new(Setup { seed, nodes: rng.i32(1..=2), ..Setup::default() });
    world.topic("t", PARTITIONS);
    fill(&mut world);
    let shape = Shape::some(&mut rng);
    let members: Vec<usize> = (0..rng.u32(1..=3)).map(|_| world.open(shape.config(&world))).collect();
    world.run(ms(rng.u64(0..3000)));
    world.damage = Some(rng.u32(2..6));
    world.run(ms(rng.u64(1000..20_000)));
    world.damage = None;
    let told = members.iter().map(|&member| world.events(member).count() as u64).sum();
    world.until(shape.patience(), "the group is whole", |world| is_whole(world, &members));
    let before: Vec<usize> = members.iter().map(|&member| world.reads(member).len()).collect();
    fill(&mut world);
    let read = |world: &World| {
        let since = members.iter().zip(&before).map(|(&member, before)| world.reads(member).len() - before);
        since.sum::<usize>()
    };
    world.until(secs(15), "what is new is read", |world| read(world) >= 5 * PARTITIONS as usize);
    told
}

fn fill(world: &mut World) {
    (0..PARTITIONS).for_each(|partition| world.fill("t", partition, 5));
}

/// Every partition is somebody's, and nobody is missing.
fn is_whole(world: &World, members: &[usize]) -> bool {
    let stable = |group: GroupView| group.state == GroupState::Stable && group.members.len() == members.len();
    let owned: usize = members.iter().map(|&member| world.wards[G].owned(member).len()).sum();
    world.cluster.group(G).is_some_and(stable) && owned == PARTITIONS as usize
}

/// What all members of a schedule have in common.
struct Shape {
    session: Duration,
    rebalance: Duration,
    request_timeout: Duration,
    metadata_max_age: Duration,
    sticky: bool,
}

impl Shape {
    fn some(rng: &mut fastrand::Rng) -> Self {
        Self {
            session: ms(rng.u64(6000..15_000)),
            rebalance: ms(rng.u64(5000..60_000)),
            request_timeout: ms(rng.u64(1000..10_000)),
            metadata_max_age: ms(rng.u64(1000..10_000)),
            sticky: rng.bool(),
        }
    }

    fn config(&self, world: &World) -> Config {
        let config = world.member_config(G, &["t"]);
        let group = GroupConfig {
            session_timeout: self.session,
            heartbeat_interval: self.session / 4,
            rebalance_timeout: self.rebalance,
            assignors: if self.sticky {
                vec![std::sync::Arc::new(Sticky)]
            } else {
                vec![std::sync::Arc::new(Range)]
            },
            ..config.group.clone().expect("it is a member's")
        };
        Config {
            request_timeout: self.request_timeout,
            metadata_max_age: self.metadata_max_age,
            group: Some(group),
            ..config
        }
    }

    /// A join whose answer is lost is waited for as long as it may be held.
    fn patience(&self) -> Duration {
        2 * (self.rebalance + self.request_timeout) + 3 * self.session + self.metadata_max_age
    }
}
