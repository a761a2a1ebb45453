//! Groups by the thousand: each seed makes a cluster, members that come and go, and some trouble. What must hold is
//! checked on the way (`support/ward.rs` over the whole group, `support/watch.rs` for each member) and after the last
//! fault. `support/seeds.rs` says how to run more of them, or one.

mod support;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ottla_broker::{ApiKey, ClusterOptions, Fault as Mishap, GroupState};
use ottla_core::{Assignor, Config, Fault, GroupConfig, Range, RoundRobin, Start, Sticky, TopicPartition};
use ottla_wire::{
    code::Code,
    message::{
        JoinGroupRequest, OffsetCommitRequest, OffsetFetchRequest, join_group_response::JoinGroupResponse,
        offset_commit_response::OffsetCommitResponse, offset_fetch_response::OffsetFetchResponse,
    },
};
use support::*;

/// What runs in every test run.
const SEEDS: u64 = 30;

/// Seeds that once failed, by what was wrong.
const REGRESSIONS: Regressions =
    &[("who has not noticed yet that the log was cut commits what it had acknowledged", &[2044, 2534])];

const G: &str = "g";

#[test]
fn groups_keep_their_promises_on_every_schedule() {
    let mut total = Report::default();
    if let Some(seeds) = run_seeds("group", SEEDS, REGRESSIONS, simulate, |report| total.add(&report)) {
        println!("{seeds} seeds: {total:?}");
        total.check(seeds);
    }
}

/// What came together over the seeds, so that a simulation that does nothing is noticed.
#[derive(Debug, Default)]
struct Report {
    members: u64,
    records: u64,
    repeated: u64,
    rebalances: u64,
    commits: u64,
    commits_refused: u64,
    acks_refused: u64,
    faults: u64,
    steps: u64,
}

impl Report {
    fn add(&mut self, other: &Self) {
        self.members += other.members;
        self.records += other.records;
        self.repeated += other.repeated;
        self.rebalances += other.rebalances;
        self.commits += other.commits;
        self.commits_refused += other.commits_refused;
        self.acks_refused += other.acks_refused;
        self.faults += other.faults;
        self.steps += other.steps;
    }

    fn check(&self, seeds: u64) {
        assert!(self.records > 50 * seeds, "hardly anything was read: {self:?}");
        assert!(self.rebalances > 2 * seeds, "hardly anybody joined: {self:?}");
        assert!(self.commits > 5 * seeds, "hardly anything was committed: {self:?}");
        let fenced = self.commits_refused > 0 && self.acks_refused > 0;
        assert!(seeds < 20 || fenced, "nobody was ever fenced: {self:?}");
    }
}

/// One schedule.
fn simulate(seed: u64) -> Report {
    let mut chaos = Chaos::new(seed);
    chaos.rage(10, 60, Chaos::act);
    chaos.heal();
    chaos.check_the_end();
    chaos.check_closing();
    chaos.report()
}

/// What a schedule has of its own.
struct Members {
    kinds: Vec<Kind>,
    /// Whether the coordinator is loading the group.
    loading: bool,
    shape: MemberShape,
    /// Whether there are static members, and commits carry leader epochs: without them a log that was cut behind a
    /// committed offset and has grown again looks as if nothing had happened.
    new_enough: bool,
}

/// What all members of a schedule have in common.
#[derive(Debug, Clone)]
struct MemberShape {
    start: Start,
    session: Duration,
    rebalance: Duration,
    heartbeat: Duration,
    commit_interval: Duration,
    metadata_max_age: Duration,
    request_timeout: Duration,
    max_wait: Duration,
    max_poll_interval: Option<Duration>,
    assignors: Vec<Arc<dyn Assignor>>,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cut,
    CloseConnections,
    Dark,
    Slow,
    StopNode,
    MoveLeader,
    MoveCoordinator,
    Load,
    Grow,
    NewTopic,
    Truncate,
    Retention,
    ErrorCode,
    OddReply,
    Late,
    Silence,
    LostReply,
    Join,
    Crash,
    Freeze,
    Close,
    Subscribe,
    Rejoin,
    Habit,
    Acks,
    Hooks,
    Seek,
    Nack,
    CommitOffsets,
    Pause,
    /// Members of fixed names, some of which are taken.
    Static,
}

const KINDS: &[Kind] = &[
    Kind::Cut,
    Kind::CloseConnections,
    Kind::Dark,
    Kind::Slow,
    Kind::StopNode,
    Kind::MoveLeader,
    Kind::MoveCoordinator,
    Kind::Load,
    Kind::Grow,
    Kind::NewTopic,
    Kind::Truncate,
    Kind::Retention,
    Kind::ErrorCode,
    Kind::OddReply,
    Kind::Late,
    Kind::Silence,
    Kind::LostReply,
    Kind::Join,
    Kind::Crash,
    Kind::Freeze,
    Kind::Close,
    Kind::Subscribe,
    Kind::Rejoin,
    Kind::Habit,
    Kind::Acks,
    Kind::Hooks,
    Kind::Seek,
    Kind::Nack,
    Kind::CommitOffsets,
    Kind::Pause,
    Kind::Static,
];

/// Kinds of trouble that find more together than among others.
const THEMES: &[&[Kind]] = &[
    &[Kind::Join, Kind::Crash, Kind::Close, Kind::Acks],
    &[Kind::Join, Kind::Freeze, Kind::Late, Kind::Acks],
    &[Kind::MoveCoordinator, Kind::Load, Kind::StopNode, Kind::Acks, Kind::Cut],
    &[Kind::ErrorCode, Kind::OddReply, Kind::LostReply, Kind::Rejoin],
    &[Kind::Grow, Kind::NewTopic, Kind::Subscribe, Kind::MoveLeader],
    &[Kind::Dark, Kind::Slow, Kind::Silence, Kind::Cut, Kind::Acks],
    &[Kind::Seek, Kind::Nack, Kind::CommitOffsets, Kind::Rejoin, Kind::Acks],
    &[Kind::Hooks, Kind::Rejoin, Kind::Close, Kind::Join, Kind::Acks],
    &[Kind::Truncate, Kind::Retention, Kind::Rejoin, Kind::MoveLeader],
    &[Kind::Habit, Kind::Pause, Kind::Acks, Kind::Join],
    &[Kind::Static, Kind::Crash, Kind::Close, Kind::Freeze, Kind::Rejoin],
];

const APIS: &[ApiKey] = &[
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::Heartbeat,
    ApiKey::OffsetFetch,
    ApiKey::OffsetCommit,
    ApiKey::LeaveGroup,
    ApiKey::Metadata,
];

const MOST_MEMBERS: usize = 6;

impl Chaos<Members> {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x9409);
        let nodes = rng.i32(1..=3);
        let latency = some_latency(&mut rng, 10);
        let (cluster, new_enough) = some_age(&mut rng, seed);
        let mut world = World::new(Setup { seed, nodes, latency, cluster });
        let topics = some_topics(&mut rng, &mut world, 3);
        let mut kinds = some_kinds(&mut rng, KINDS, THEMES);
        kinds.push(Kind::Join);
        if kinds.contains(&Kind::Static) {
            // A static leader that comes back takes what there is now for what it had assigned from, as Java's does: what
            // came in between waits for the next rebalance.
            kinds.retain(|kind| !matches!(kind, Kind::Grow | Kind::NewTopic));
            for topic in &topics {
                if world.truth.life(topic).is_none() {
                    world.topic(topic, rng.i32(1..=4));
                }
            }
        }
        let pace = ms(rng.u64(5..=800));
        let own = Members { kinds, loading: false, shape: some_member(&mut rng), new_enough };
        let (down, dark) = (Vec::new(), Vec::new());
        let mut chaos = Self { world, rng, topics, apis: APIS, down, dark, pace, own };
        (0..chaos.rng.u32(0..10)).for_each(|_| chaos.produce());
        (0..chaos.rng.u32(1..4)).for_each(|_| chaos.join());
        chaos
    }

    fn act(&mut self) {
        self.bury_the_fenced();
        if self.rng.u32(0..3) > 0 {
            return self.produce();
        }
        let kind = self.own.kinds[self.rng.usize(0..self.own.kinds.len())];
        match kind {
            Kind::Cut => self.cut(),
            Kind::CloseConnections => self.close_connections(),
            Kind::Dark => self.darken_or_lighten(),
            Kind::Slow => self.slow(),
            Kind::StopNode => self.stop_or_start(),
            Kind::MoveLeader => self.move_leader(),
            Kind::MoveCoordinator => {
                let node = self.node();
                self.world.coordinate(G, node);
            }
            Kind::Load => self.load_or_finish(),
            Kind::Grow => self.grow(),
            Kind::NewTopic => self.new_topic(),
            Kind::Truncate => self.truncate_some_log(),
            Kind::Retention => self.retain(),
            Kind::ErrorCode => self.error_code(),
            Kind::OddReply => self.odd_reply(),
            Kind::Late => self.late(5000),
            Kind::Silence => self.silence(),
            Kind::LostReply => {
                let api = self.api();
                self.mishap(Mishap::cut(api, 0));
            }
            Kind::Join | Kind::Static => self.join(),
            Kind::Crash => self.crash(),
            Kind::Freeze => self.freeze_or_thaw(),
            Kind::Close => self.close(),
            Kind::Subscribe => self.subscribe(),
            Kind::Rejoin => self.with_running(|chaos, client| chaos.world.rejoin(client)),
            Kind::Habit => self.habit(),
            Kind::Acks => self.acks(),
            Kind::Hooks => self.hooks(),
            Kind::Seek => self.seek(),
            Kind::Nack => self.nack(),
            Kind::CommitOffsets => self.commit_offsets(),
            Kind::Pause => self.pause_or_resume(),
        }
    }

    fn produce(&mut self) {
        let Some((topic, partition)) = self.place() else { return };
        let shape = self.some_shape();
        self.world.append(&topic, partition, Produce { shape, ..Produce::plain(1) });
    }

    // The cluster.

    fn load_or_finish(&mut self) {
        match self.own.loading {
            true => self.world.loaded(G),
            false => self.world.load(G),
        }
        self.own.loading = !self.own.loading;
    }

    fn new_topic(&mut self) {
        let missing: Vec<_> = self.topics.iter().filter(|t| self.world.truth.life(t).is_none()).collect();
        let Some(topic) = self.rng.choice(missing).cloned() else { return };
        let partitions = self.rng.i32(1..=4);
        self.world.topic(&topic, partitions);
    }

    fn truncate_some_log(&mut self) {
        if !self.own.new_enough {
            return;
        }
        let Some((topic, partition)) = self.place() else { return };
        self.truncate(&topic, partition);
    }

    // Replies.

    fn error_code(&mut self) {
        let api = APIS[self.rng.usize(0..APIS.len() - 1)];
        // Not that another process has taken a place for good: that ends a member, which the tests for it show.
        let codes = [
            Code::NOT_COORDINATOR,
            Code::COORDINATOR_NOT_AVAILABLE,
            Code::COORDINATOR_LOAD_IN_PROGRESS,
            Code::UNKNOWN_MEMBER_ID,
            Code::ILLEGAL_GENERATION,
            Code::REBALANCE_IN_PROGRESS,
            Code::MEMBER_ID_REQUIRED,
            Code::GROUP_AUTHORIZATION_FAILED,
            Code::INCONSISTENT_GROUP_PROTOCOL,
            Code::GROUP_MAX_SIZE_REACHED,
            Code::UNKNOWN_TOPIC_OR_PARTITION,
            Code::UNSTABLE_OFFSET_COMMIT,
            Code::REQUEST_TIMED_OUT,
            Code::UNKNOWN_SERVER_ERROR,
            Code(12345),
        ];
        self.refuse(api, &codes, api == ApiKey::OffsetCommit);
    }

    fn odd_reply(&mut self) {
        let mut rng = self.rng.fork();
        let mishap = match self.rng.u32(0..3) {
            0 => Mishap::rewrite::<OffsetFetchRequest>(move |response: &mut OffsetFetchResponse, _| {
                response.topics.iter_mut().for_each(|topic| topic.partitions.retain(|_| rng.bool()));
                let topics = response.groups.iter_mut().flat_map(|group| &mut group.topics);
                topics.for_each(|topic| topic.partitions.retain(|_| rng.bool()));
            }),
            1 => Mishap::rewrite::<OffsetCommitRequest>(move |response: &mut OffsetCommitResponse, _| {
                response.topics.iter_mut().for_each(|topic| topic.partitions.retain(|_| rng.bool()));
            }),
            _ => Mishap::rewrite::<JoinGroupRequest>(move |response: &mut JoinGroupResponse, _| {
                response.throttle_time_ms = rng.i32(-5..500);
            }),
        };
        self.mishap(mishap);
    }

    // Members.

    fn running(&self) -> Vec<usize> {
        let runs = |client: &usize| {
            let it = &self.world.clients[*client];
            it.life == Life::Runs && !it.caller.closing
        };
        (0..self.world.clients.len()).filter(runs).collect()
    }

    fn with_running(&mut self, act: impl FnOnce(&mut Self, usize)) {
        if let Some(client) = self.rng.choice(self.running()) {
            act(self, client);
        }
    }

    /// Who was told that another process has its name ends.
    fn bury_the_fenced(&mut self) {
        for client in self.running() {
            let fenced = |fault: &Fault| fault.code() == Some(Code::FENCED_INSTANCE_ID);
            if self.world.faults(client).last().is_some_and(fenced) {
                self.world.crash(client, true);
            }
        }
    }

    fn join(&mut self) {
        let alive = self.world.clients.iter().filter(|client| client.life != Life::Gone).count();
        if alive >= MOST_MEMBERS {
            return;
        }
        let topics = self.some_topics();
        let config = self.config(&topics);
        let client = self.world.open(config);
        self.world.clients[client].reader.by_batch = self.rng.u32(0..4) == 0;
        if self.own.kinds.contains(&Kind::Acks) {
            let acks = self.some_acks();
            self.world.set_acks(client, acks);
        }
        if self.rng.u32(0..4) == 0 {
            self.world.clients[client].caller.hooks_take = Some(ms(self.rng.u64(0..3000)));
        }
    }

    /// All, mostly.
    fn some_topics(&mut self) -> Vec<String> {
        let mut topics = self.topics.clone();
        if self.own.kinds.contains(&Kind::Subscribe) {
            let mut rng = self.rng.fork();
            topics.retain(|_| rng.u32(0..3) > 0);
        }
        if topics.is_empty() { self.topics.clone() } else { topics }
    }

    fn config(&mut self, topics: &[String]) -> Config {
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let mut config = self.world.config(&names);
        let has_names = self.own.kinds.contains(&Kind::Static) && self.own.new_enough;
        let (rng, shape) = (&mut self.rng, &self.own.shape);
        perhaps_a_dead_address(rng, &mut config);
        let group = GroupConfig {
            id: G.into(),
            instance: (has_names && rng.bool()).then(|| format!("i{}", rng.u32(0..4))),
            session_timeout: shape.session,
            rebalance_timeout: shape.rebalance,
            heartbeat_interval: shape.heartbeat,
            commit_interval: shape.commit_interval,
            max_poll_interval: shape.max_poll_interval,
            assignors: shape.assignors.clone(),
            require_stable: rng.bool(),
            hooks: rng.u32(0..3) == 0 || self.own.kinds.contains(&Kind::Hooks),
            ..GroupConfig::default()
        };
        Config {
            group: Some(group),
            seed: rng.u64(..),
            start: shape.start,
            max_wait: shape.max_wait,
            request_timeout: shape.request_timeout,
            metadata_max_age: shape.metadata_max_age,
            max_attempts: rng.bool().then(|| rng.u32(1..5)),
            ..config
        }
    }

    fn crash(&mut self) {
        self.with_running(|chaos, client| {
            let connections_close = chaos.rng.bool();
            chaos.world.crash(client, connections_close);
        });
    }

    fn freeze_or_thaw(&mut self) {
        let frozen = self.world.frozen();
        match self.rng.choice(frozen) {
            Some(client) if self.rng.bool() => self.world.thaw(client),
            _ => self.with_running(|chaos, client| chaos.world.freeze(client)),
        }
    }

    fn close(&mut self) {
        self.with_running(|chaos, client| {
            let within = ms(chaos.rng.u64(1..8000));
            chaos.world.close(client, within);
        });
    }

    fn subscribe(&mut self) {
        let topics = self.some_topics();
        self.with_running(|chaos, client| {
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            chaos.world.subscribe(client, &names);
        });
    }

    fn habit(&mut self) {
        let habit = self.some_habit();
        self.with_running(|chaos, client| chaos.world.set_habit(client, habit));
    }

    fn some_acks(&mut self) -> Acks {
        let pause = ms(self.rng.u64(1..2000));
        match self.rng.u32(0..8) {
            0 => Acks::Late(pause),
            1 => Acks::Disorder(pause),
            2 => Acks::Sparse(self.rng.u64(2..20)),
            3 => Acks::Through(pause),
            4 => Acks::Wait,
            5 => Acks::Never,
            _ => Acks::AtOnce,
        }
    }

    fn acks(&mut self) {
        let acks = self.some_acks();
        self.with_running(|chaos, client| chaos.world.set_acks(client, acks));
    }

    fn hooks(&mut self) {
        let take = match self.rng.u32(0..5) {
            0 => None,
            1 => Some(self.secs(1, 20)),
            2 => Some(ms(self.rng.u64(1..1000))),
            _ => Some(Duration::ZERO),
        };
        self.with_running(|chaos, client| chaos.world.clients[client].caller.hooks_take = take);
    }

    fn owned(&mut self, client: usize) -> Option<TopicPartition> {
        let owned = self.world.wards[G].owned(client);
        self.rng.choice(owned).filter(|at| self.world.clients[client].machine.position(at).is_ok())
    }

    fn seek(&mut self) {
        self.with_running(|chaos, client| {
            let Some(at) = chaos.owned(client) else { return };
            let to = match chaos.rng.u32(0..4) {
                0 => Start::Earliest,
                _ => Start::Offset(chaos.some_offset(&at.topic, at.partition)),
            };
            chaos.world.seek(client, &at, to);
        });
    }

    /// Comes back to something that was handed out and is not acknowledged.
    fn nack(&mut self) {
        self.with_running(|chaos, client| {
            let caller = &chaos.world.clients[client].caller;
            let held =
                caller.held.iter().chain(&caller.forgotten).filter(|piece| piece.tenure.takes(piece.offset));
            let Some(piece) = chaos.rng.choice(held.cloned().collect::<Vec<_>>()) else { return };
            chaos.world.nack(client, &piece);
        });
    }

    fn commit_offsets(&mut self) {
        self.with_running(|chaos, client| {
            let Some(at) = chaos.owned(client) else { return };
            let offset = chaos.some_offset(&at.topic, at.partition);
            chaos.world.commit_offsets(client, &at, offset).expect("it is ours");
        });
    }

    fn pause_or_resume(&mut self) {
        self.with_running(|chaos, client| {
            let paused = chaos.world.clients[client].watch.paused_partitions();
            let paused =
                paused.into_iter().filter(|at| chaos.world.clients[client].machine.position(at).is_ok());
            match chaos.rng.choice(paused.collect::<Vec<_>>()) {
                Some(at) if chaos.rng.bool() => chaos.world.resume(client, &at),
                _ => {
                    if let Some(at) = chaos.owned(client) {
                        chaos.world.pause(client, &at);
                    }
                }
            }
        });
    }

    // The end.

    /// The last fault is over, and callers do what is asked of them.
    fn heal(&mut self) {
        self.heal_nodes();
        self.world.loaded(G);
        self.heal_topics();
        let world = &mut self.world;
        world.frozen().into_iter().for_each(|client| world.thaw(client));
        world.run(Duration::ZERO);
        if self.running().is_empty() {
            self.join();
        }
        let names: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        for client in 0..self.world.clients.len() {
            if self.world.clients[client].life != Life::Gone {
                self.world.behave(client, &names);
            }
        }
    }

    /// As long as it may take after the last fault: what hangs is given up, whoever is gone is missed, and what is new is
    /// noticed.
    fn patience(&self) -> Duration {
        let shape = &self.own.shape;
        let hangs =
            [Kind::Silence, Kind::Dark, Kind::Freeze, Kind::Crash].iter().any(|k| self.own.kinds.contains(k));
        let hang = if hangs { shape.request_timeout + shape.rebalance } else { Duration::ZERO };
        3 * shape.session + shape.rebalance + shape.metadata_max_age + hang + secs(12)
    }

    fn check_the_end(&mut self) {
        self.fill_all(1);
        let (patience, mut waited) = (self.patience(), Duration::ZERO);
        while waited < patience && self.behind().is_some() {
            self.world.run(ms(500));
            waited += ms(500);
            self.bury_the_fenced();
            if self.running().is_empty() {
                self.join();
            }
            self.recollect();
        }
        assert_eq!(self.behind(), None, "{waited:?} after the last fault");
        self.fill_all(2);
        self.world.run(self.own.shape.commit_interval + secs(3));
        assert_eq!(self.behind(), None, "what is written is read and committed at once");
        self.world.wards[G].check_complete(&self.world.truth);
        for client in &self.world.clients {
            if client.life == Life::Runs {
                assert_eq!(client.machine.ledger().total(), 0, "all was handed out and nothing is kept");
            }
        }
    }

    /// What was passed over is acknowledged at last.
    fn recollect(&mut self) {
        for client in 0..self.world.clients.len() {
            if self.world.clients[client].life == Life::Runs {
                self.world.clients[client].caller.recollect();
                self.world.acknowledge_new(client);
            }
        }
    }

    fn behind(&self) -> Option<String> {
        let ward = &self.world.wards[G];
        let behind = |topic: &String| ward.behind(&self.world.cluster, &self.world.truth, topic);
        self.unsettled()
            .or_else(|| self.topics.iter().find_map(behind))
            .or_else(|| ward.unowned(&self.world.truth, &self.topics))
    }

    /// Whether the group is not stable, or has others than those who run.
    fn unsettled(&self) -> Option<String> {
        let group = self.world.cluster.group(G)?;
        let ids: BTreeSet<_> = group.members.iter().map(|member| member.id.clone()).collect();
        let member = |&client: &usize| self.world.clients[client].machine.member().map(|member| member.id);
        let running: BTreeSet<_> = self.running().iter().filter_map(member).collect();
        let settled =
            group.state == GroupState::Stable && ids == running && ids.len() == self.running().len();
        (!settled).then(|| format!("the group is {} of {ids:?}, {running:?} run", group.state))
    }

    /// Nobody is missed: who closes leaves, and says that all is committed.
    fn check_closing(&mut self) {
        for client in self.running() {
            self.world.close(client, secs(5));
            self.world.run(secs(5));
            let closed = &self.world.clients[client].caller.closed;
            assert!(matches!(closed, Some((_, Ok(())))), "client {client}: {closed:?}");
        }
        let left = self.world.cluster.group(G).map_or(0, |group| group.members.len());
        let expected = self.world.clients.iter().any(|client| client.is_static());
        assert!(left == 0 || expected || self.leaves_ghosts(), "{left} members are left behind");
    }

    /// Whether a member id may have been given out, or a farewell lost, without anybody knowing.
    fn leaves_ghosts(&self) -> bool {
        self.own.kinds.iter().any(|kind| !matches!(kind, Kind::Join | Kind::Acks | Kind::Habit | Kind::Seek))
    }

    fn report(&self) -> Report {
        let ward = &self.world.wards[G];
        let clients = || self.world.clients.iter();
        Report {
            members: clients().count() as u64,
            records: clients().map(|client| client.reader.reads.len() as u64).sum(),
            repeated: ward.repeated,
            rebalances: ward.rebalances,
            commits: ward.accepted,
            commits_refused: ward.refused,
            acks_refused: clients().map(|client| client.caller.refused).sum(),
            faults: clients().map(|client| client.reader.faults.len() as u64).sum(),
            steps: self.world.steps,
        }
    }
}

/// Coordinators of several ages.
fn some_age(rng: &mut fastrand::Rng, seed: u64) -> (ClusterOptions, bool) {
    let new = ClusterOptions::new().session_timeouts(ms(10), secs(1800));
    let new = if rng.bool() { new.initial_rebalance_delay(ms(rng.u64(0..3000))) } else { new };
    match rng.u32(0..4) {
        0 => {
            // Kafka 1.0: no member ids given out, no static members, no leader epochs.
            let old = new.versions(ApiKey::JoinGroup, 0, 2).versions(ApiKey::SyncGroup, 0, 1);
            let old = old.versions(ApiKey::Heartbeat, 0, 1).versions(ApiKey::LeaveGroup, 0, 1);
            let old = old.versions(ApiKey::OffsetCommit, 0, 3).versions(ApiKey::OffsetFetch, 0, 3);
            (old.versions(ApiKey::FindCoordinator, 0, 1), false)
        }
        1 => {
            // Kafka 2.4
            let old = new.versions(ApiKey::JoinGroup, 0, 6).versions(ApiKey::SyncGroup, 0, 4);
            let old = old.versions(ApiKey::OffsetCommit, 0, 8).versions(ApiKey::OffsetFetch, 0, 6);
            (old.versions(ApiKey::FindCoordinator, 0, 3).versions(ApiKey::LeaveGroup, 0, 4), true)
        }
        _ => (new.like(some_kafka(seed, REGRESSIONS)), true),
    }
}

fn some_member(rng: &mut fastrand::Rng) -> MemberShape {
    let session = ms(rng.u64(1500..10_000));
    let heartbeat = session / rng.u32(3..8);
    let choices: [Vec<Arc<dyn Assignor>>; 4] = [
        vec![Arc::new(Range), Arc::new(RoundRobin)],
        vec![Arc::new(RoundRobin)],
        vec![Arc::new(Sticky)],
        vec![Arc::new(Sticky), Arc::new(Range)],
    ];
    MemberShape {
        start: if rng.u32(0..4) == 0 { Start::Latest } else { Start::Earliest },
        session,
        // Members hear of a rebalance by their heartbeats.
        rebalance: 3 * heartbeat + ms(rng.u64(1000..20_000)),
        heartbeat,
        commit_interval: ms([40, 200, 1000, 3000][rng.usize(0..4)]),
        metadata_max_age: ms([300, 2000, 10_000][rng.usize(0..3)]),
        request_timeout: secs([1, 5, 5, 30][rng.usize(0..4)]),
        max_wait: ms([50, 500, 3000, 10_000][rng.usize(0..4)]),
        max_poll_interval: (rng.u32(0..3) == 0).then(|| ms(rng.u64(2000..10_000))),
        assignors: choices[rng.usize(0..choices.len())].clone(),
    }
}
