//! A cluster that passes for an older Kafka says of itself what that Kafka says (as `crates/wire/tests/golden` has it),
//! and keeps to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::World;
use ottla_broker::wire::api::ApiVersions;
use ottla_broker::wire::frame::decode_response;
use ottla_broker::wire::message::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FindCoordinatorRequest, MetadataRequest, Request,
};
use ottla_broker::{ApiKey, Cluster, ClusterOptions, Like};
use std::fs;

#[test]
fn what_it_speaks_is_what_that_kafka_does() {
    for like in Like::ALL {
        let ours = spoken(&ask(like, &ApiVersionsRequest::default(), 0).unwrap());
        let theirs = recorded(like);
        for api in ApiKey::ALL {
            let Some((min, max)) = ours.range(*api) else { continue };
            let of_kafka = theirs.range(*api).unwrap_or_else(|| panic!("{like} has no {api}"));
            let lowest = if *api == ApiKey::Produce { 0 } else { *api.versions().start() };
            assert_eq!((min, max), (of_kafka.0.max(lowest), of_kafka.1), "{like}: {api}");
        }
        let everything = spoken(&ask_of(ClusterOptions::new(), &ApiVersionsRequest::default(), 0).unwrap());
        for api in ApiKey::ALL.iter().filter(|api| everything.range(**api).is_some()) {
            assert_eq!(ours.range(*api).is_some(), theirs.range(*api).is_some(), "{like}: {api}");
        }
    }
}

#[test]
fn what_it_does_not_speak_it_does_not_answer() {
    // The longest one: a fetch of nothing waits for nothing.
    let speaks = |like, version| ask(like, &FetchRequest::default(), version).is_some();
    assert!(speaks(Like::V2_8, 12) && !speaks(Like::V2_8, 13));
    assert!(speaks(Like::V3_9, 17) && !speaks(Like::V3_9, 18));
    assert!(speaks(Like::V4_4, 18));
    let finds = |like, version| ask(like, &FindCoordinatorRequest::default(), version).is_some();
    assert!(finds(Like::V2_8, 3) && !finds(Like::V2_8, 4) && finds(Like::V3_9, 4));
}

#[test]
fn versions_that_are_named_later_count() {
    let only = |options: ClusterOptions| {
        let answer = ask_of(options, &ApiVersionsRequest::default(), 0).unwrap();
        spoken(&answer).range(ApiKey::Metadata)
    };
    assert_eq!(only(ClusterOptions::new().like(Like::V2_8).versions(ApiKey::Metadata, 1, 4)), Some((1, 4)));
    assert_eq!(only(ClusterOptions::new().versions(ApiKey::Metadata, 1, 4).like(Like::V2_8)), Some((0, 11)));
    let without = ClusterOptions::new().like(Like::V3_9).without(ApiKey::Metadata);
    assert!(ask_of(without, &MetadataRequest::default(), 1).is_none());
}

#[test]
fn it_is_named_by_its_number() {
    for like in Like::ALL {
        assert_eq!(like.to_string().parse(), Ok(like));
    }
    let error = "2.7".parse::<Like>().unwrap_err();
    assert_eq!(error, "`2.7` is not known here; write one of 2.8, 3.9, 4.4");
}

fn ask<R: Request>(like: Like, request: &R, version: i16) -> Option<R::Response> {
    ask_of(ClusterOptions::new().like(like), request, version)
}

/// The reply; `None` if the connection closes instead.
fn ask_of<R: Request>(options: ClusterOptions, request: &R, version: i16) -> Option<R::Response> {
    let mut world = World::new(Cluster::new(options));
    let connection = world.connect(1);
    world.send(connection, request, version);
    let reply = world.take::<R>(connection, version);
    assert_ne!(reply.is_some(), world.is_closed(connection));
    reply
}

fn spoken(response: &ApiVersionsResponse) -> ApiVersions {
    ApiVersions::new(response)
}

/// What the real one says.
fn recorded(like: Like) -> ApiVersions {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/golden");
    let is_it = |name: &str| name.strip_prefix("frames-").is_some_and(|kafka| kafka.starts_with(like.name()));
    let folders = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap());
    let folder = folders.into_iter().find(|entry| is_it(&entry.file_name().to_string_lossy()));
    let text = fs::read_to_string(folder.unwrap().path().join("ApiVersions.txt")).unwrap();
    let reply = text.lines().find_map(|line| line.strip_prefix("0 versions ")?.split(' ').nth(1)).unwrap();
    let digits = reply.as_bytes().chunks(2).map(|digits| str::from_utf8(digits).unwrap());
    let frame = digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect();
    spoken(&decode_response::<ApiVersionsRequest>(frame, 0).unwrap().1)
}
