//! What is wrong with the configuration of a group comes in one error, before anything touches the network.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

use std::{sync::Arc, time::Duration};

use ottla::{
    Assignment, Assignor, Builder, Error, ErrorKind, Group, GroupMember, GroupTopics, Range, Reader, Until,
};

const TOO_LONG: Duration = Duration::from_millis(i32::MAX as u64 + 1);

fn builder(group: &str) -> Builder<Group> {
    Reader::builder("localhost:1").group(group).topic("t")
}

/// The faults, which must be all that is told.
fn faults<K>(opened: Result<Reader<K>, Error>) -> Vec<String> {
    let error = opened.expect_err("it is wrong");
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    let faults = text.strip_prefix("bad configuration: ").unwrap();
    faults.split("; ").map(str::to_owned).collect()
}

#[derive(Debug)]
struct Named(String);

impl Assignor for Named {
    fn name(&self) -> &str {
        &self.0
    }

    fn assign(&self, _: &[GroupMember], _: &GroupTopics) -> Assignment {
        Assignment::new()
    }
}

fn named(name: impl Into<String>) -> Arc<dyn Assignor> {
    Arc::new(Named(name.into()))
}

#[test]
fn all_faults_of_a_group_come_in_one_error() {
    let told = faults(
        builder("")
            .partition(3)
            .until(Until::End)
            .instance_id("a b")
            .rack("r".repeat(40_000))
            .assignors([named("x"), named(""), named("x")])
            .session_timeout(Duration::from_secs(3))
            .heartbeat_interval(Duration::from_secs(3))
            .rebalance_timeout(Duration::ZERO)
            .max_poll_interval(TOO_LONG)
            .commit_interval(Duration::ZERO)
            .retention(Duration::from_micros(999))
            .close_timeout(Duration::ZERO)
            .topics_matching("(")
            .max_bytes(0)
            .open(),
    )
    .join("; ");
    for part in [
        "the group's id is empty",
        "until: a reader with a group has no end",
        "partitions are named, but a group's leader assigns them",
        "instance_id \"a b\" has characters other than letters, digits, '.', '_' and '-'",
        "rack has 40000 bytes, at most 32767 can be sent",
        "the assignor \"x\" is named twice",
        "an assignor's name is empty",
        "heartbeat_interval 3s is not shorter than session_timeout 3s",
        "rebalance_timeout 0ns is less than 1 ms",
        "max_poll_interval 2147483.648s is more than 2147483.647s",
        "commit_interval is zero",
        "retention 999µs is less than 1 ms",
        "close_timeout is zero",
        "topics_matching \"(\": ",
        "max_bytes 0 is not positive",
    ] {
        assert!(told.contains(part), "{told:?} should say {part:?}");
    }
}

#[test]
fn each_fault_is_told_alone() {
    let long = "g".repeat(32_768);
    for (opened, wanted) in [
        (builder(&long).open(), "the group's id has 32768 bytes, at most 32767 can be sent"),
        (builder("g").instance_id("").open(), "instance_id is empty"),
        (builder("g").instance_id("..").open(), "instance_id \"..\" is no name"),
        (builder("g").assignors([]).open(), "no assignor is named"),
        (
            builder("g").assignors([named(long.clone())]).open(),
            "an assignor's name has 32768 bytes, at most 32767 can be sent",
        ),
        (
            builder("g").assignors([Arc::new(Range) as _, named("range")]).open(),
            "the assignor \"range\" is named twice",
        ),
        (
            builder("g").session_timeout(TOO_LONG).open(),
            "session_timeout 2147483.648s is more than 2147483.647s",
        ),
        (builder("g").heartbeat_interval(Duration::ZERO).open(), "heartbeat_interval 0ns is less than 1 ms"),
        (
            builder("g").rebalance_timeout(Duration::from_secs(3)).open(),
            "rebalance_timeout 3s is not longer than heartbeat_interval 3s",
        ),
        (
            builder("g").retention(Duration::MAX).open(),
            "retention 18446744073709551615.999999999s is more than 9223372036854775.807s",
        ),
    ] {
        assert_eq!(faults(opened), [wanted]);
    }
    let none = Reader::builder("localhost:1").group("g").open();
    assert_eq!(faults(none), ["no topic is named"]);
    let both = Reader::builder("localhost:1").topics_matching("a.*").partition(1).open();
    assert_eq!(faults(both), ["partitions are named, and topics by a pattern", "name one topic"]);
}

#[test]
fn a_reader_that_stores_in_a_group_has_fewer_rules() {
    let builder = || Reader::builder("localhost:1").topic("t").partitions([0, 1]).stored_in("g");
    assert_eq!(faults(builder().until(Until::End).open()), ["until: a reader with a group has no end"]);
    let outside = builder().open().unwrap_err();
    assert_eq!(outside.kind(), ErrorKind::Runtime, "all is well but for the runtime");
}

#[test]
fn whoever_says_for_ever_means_never() {
    let builder = builder("g").commit_interval(Duration::MAX).close_timeout(Duration::MAX);
    assert_eq!(builder.clone().open().unwrap_err().kind(), ErrorKind::Runtime);
    assert!(format!("{builder:?}").contains("topics: [\"t\"]"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { builder.open().unwrap().close().await.unwrap() });
}
