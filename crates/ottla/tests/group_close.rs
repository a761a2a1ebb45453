//! The end of a reader with a group: what it does last, how long that takes, and that nothing is left running.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::{
    future::pending,
    time::{Duration, Instant},
};

use ottla::{Builder, ErrorKind, Group, Reader, Rebalance};
use ottla_broker::{ApiKey, Broker, Code, Fault, Leaders};
use support::{PROMPT, commits, committed, eventually, fill, group_broker, member, next, owns, soon, within};

/// What a test on a loaded machine allows on top of a deadline.
const SLACK: Duration = Duration::from_secs(2);

/// Something is acknowledged and not committed; everything else is quiet.
async fn acknowledged(broker: &Broker, builder: Builder<Group>) -> Reader<Group> {
    fill(broker, "t", 0, 10);
    let mut reader = builder.commit_interval(Duration::MAX).open().unwrap();
    for _ in 0..5 {
        let message = next(&mut reader).await;
        reader.ack(&message).unwrap();
    }
    reader
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Nothing runs any more but what ran before, and no connection is left.
async fn nothing_is_left(broker: &Broker, before: usize) {
    eventually("the connections are gone", || broker.with(|c| c.open_connections(1)) == 0).await;
    eventually("the tasks have ended", || tasks() <= before).await;
}

#[tokio::test]
async fn close_commits_and_leaves() {
    let broker = group_broker(1, &[("t", 2)]).await;
    let before = tasks();
    let reader = acknowledged(&broker, member(&broker)).await;
    let begin = Instant::now();
    within(PROMPT, "close", reader.close()).await.unwrap();
    println!("close: {:?}", begin.elapsed());
    assert_eq!(committed(&broker, 0), Some(5));
    assert!(broker.with(|c| c.group("g")).unwrap().members.is_empty());
    nothing_is_left(&broker, before).await;
}

#[tokio::test]
async fn the_others_take_over_at_once() {
    let broker = group_broker(1, &[("t", 2)]).await;
    let other = member(&broker).open().unwrap();
    let reader = member(&broker).open().unwrap();
    owns(&other.control(), 1).await;
    owns(&reader.control(), 1).await;
    soon("close", reader.close()).await.unwrap();
    let begin = Instant::now();
    owns(&other.control(), 2).await;
    assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn with_a_dead_coordinator_close_says_what_is_not_committed_within_its_time() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let before = tasks();
    let limit = Duration::from_millis(500);
    let reader = acknowledged(&broker, member(&broker).close_timeout(limit)).await;
    broker.with(|c| c.stop_node(1, Leaders::Lose)).unwrap();
    let error = within(limit + SLACK, "close", reader.close()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncommitted);
    assert_eq!(error.partition().map(|at| at.partition), Some(0));
    println!("{error}");
    nothing_is_left(&broker, before).await;
}

#[tokio::test]
async fn with_a_frozen_coordinator_close_says_what_is_not_committed_within_its_time() {
    for frozen in [ApiKey::OffsetCommit, ApiKey::Heartbeat] {
        let broker = group_broker(1, &[("t", 1)]).await;
        let before = tasks();
        let limit = Duration::from_millis(500);
        let reader = acknowledged(&broker, member(&broker).close_timeout(limit)).await;
        let hits = broker.with(|c| c.fault(Fault::silence(frozen).always()));
        if frozen == ApiKey::Heartbeat {
            eventually("it is frozen", || broker.with(|c| c.fault_hits(hits)) > 0).await;
        }
        let error = within(limit + SLACK, "close", reader.close()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncommitted, "{error}");
        assert_eq!(committed(&broker, 0), Some(0));
        nothing_is_left(&broker, before).await;
    }
}

#[tokio::test]
async fn close_with_nothing_to_commit_is_no_failure_though_the_farewell_is_not_answered() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let before = tasks();
    let limit = Duration::from_millis(500);
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).close_timeout(limit).open().unwrap();
    next(&mut reader).await;
    commits(&broker, 0, 0).await;
    broker.with(|c| c.fault(Fault::silence(ApiKey::LeaveGroup).always()));
    within(limit + SLACK, "close", reader.close()).await.unwrap();
    nothing_is_left(&broker, before).await;
}

#[tokio::test]
async fn what_the_coordinator_refuses_at_the_end_is_told() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let reader = acknowledged(&broker, member(&broker)).await;
    let refused = Fault::partition_error(ApiKey::OffsetCommit, Code::TOPIC_AUTHORIZATION_FAILED).always();
    broker.with(|c| c.fault(refused));
    let error = soon("close", reader.close()).await.unwrap_err();
    println!("{error}");
    assert!(matches!(error.kind(), ErrorKind::Refused | ErrorKind::Uncommitted));
    assert!(error.to_string().contains("TOPIC_AUTHORIZATION_FAILED"), "{error}");
}

#[tokio::test]
async fn a_reader_that_never_joined_closes_at_once() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let before = tasks();
    let reader = Reader::builder(nobody.to_string()).group("g").topic("t").open().unwrap();
    within(PROMPT, "close", reader.close()).await.unwrap();
    eventually("the tasks have ended", || tasks() <= before).await;
}

#[tokio::test]
async fn a_dropped_reader_commits_and_leaves_in_the_background() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let before = tasks();
    let reader = acknowledged(&broker, member(&broker)).await;
    let control = reader.control();
    let begin = Instant::now();
    drop(reader);
    assert!(begin.elapsed() < Duration::from_millis(100), "dropping does not wait: {:?}", begin.elapsed());
    assert!(control.rejoin().unwrap_err().is_closed());
    commits(&broker, 0, 5).await;
    eventually("it has left", || broker.with(|c| c.group("g")).unwrap().members.is_empty()).await;
    nothing_is_left(&broker, before).await;
}

#[tokio::test]
async fn a_dropped_reader_gives_up_in_time_if_nobody_answers() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let before = tasks();
    let limit = Duration::from_millis(300);
    let reader = acknowledged(&broker, member(&broker).close_timeout(limit)).await;
    broker.with(|c| c.fault(Fault::silence(ApiKey::OffsetCommit).always()));
    drop(reader);
    let begin = Instant::now();
    nothing_is_left(&broker, before).await;
    assert!(begin.elapsed() < limit + SLACK, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_reader_dropped_outside_of_the_runtime_leaves_too() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let reader = acknowledged(&broker, member(&broker)).await;
    std::thread::spawn(move || drop(reader)).join().unwrap();
    commits(&broker, 0, 5).await;
    eventually("it has left", || broker.with(|c| c.group("g")).unwrap().members.is_empty()).await;
}

#[tokio::test]
async fn hooks_that_never_return_end_with_the_reader() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let before = tasks();
    let limit = Duration::from_secs(3); // an eighth of it is left when the hook has had its time
    let hook = |rebalance| async move {
        if let Rebalance::Revoked(revoked) = rebalance {
            pending::<()>().await;
            drop(revoked);
        }
    };
    let reader = acknowledged(&broker, member(&broker).close_timeout(limit).on_rebalance(hook)).await;
    within(limit + SLACK, "close", reader.close()).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(5), "what was acknowledged is committed all the same");
    nothing_is_left(&broker, before).await;
}

#[tokio::test]
async fn close_after_a_close_from_elsewhere_still_tells_how_it_went() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let limit = Duration::from_millis(300);
    let reader = acknowledged(&broker, member(&broker).close_timeout(limit)).await;
    broker.with(|c| c.fault(Fault::silence(ApiKey::OffsetCommit).always()));
    let control = reader.control();
    control.close();
    control.close();
    eventually("it has ended", || control.member().is_none()).await;
    let error = within(limit + SLACK, "close", reader.close()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncommitted);
}

#[tokio::test]
async fn who_waits_for_a_commit_is_told_when_the_reader_ends() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).close_timeout(Duration::from_millis(300)).open().unwrap();
    let message = next(&mut reader).await;
    commits(&broker, 0, 0).await;
    let silent = broker.with(|c| c.fault(Fault::silence(ApiKey::OffsetCommit).always()));
    let waiting = tokio::spawn(reader.commit(&message));
    eventually("it is on its way", || broker.with(|c| c.fault_hits(silent)) > 0).await;
    soon("close", reader.close()).await.unwrap_err();
    let error = soon("the answer", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncommitted, "{error}");
}

#[tokio::test]
async fn the_end_of_the_runtime_is_noticed() {
    let broker = group_broker(1, &[("t", 1)]).await;
    let bootstrap = broker.bootstrap();
    let error = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reader =
            runtime.block_on(async { Reader::builder(bootstrap).group("g").topic("t").open().unwrap() });
        drop(runtime);
        let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(reader.close()).unwrap_err()
    });
    let error = tokio::task::spawn_blocking(|| error.join().unwrap()).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

/// Its join is held by the coordinator until another member has given up; a static member does not say farewell anyway.
#[tokio::test]
async fn a_static_member_that_waits_to_be_taken_in_closes_at_once() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    let hold = |rebalance| async move {
        if let ottla::Rebalance::Revoked(revoked) = rebalance {
            std::future::pending::<()>().await;
            drop(revoked);
        }
    };
    let mut slow = member(&broker).on_rebalance(hold).open().unwrap();
    next(&mut slow).await;
    let before = broker.with(|c| c.requests(ApiKey::JoinGroup));
    let waiting = member(&broker).instance_id("i1").open().unwrap();
    eventually("it joins", || broker.with(|c| c.requests(ApiKey::JoinGroup)) > before).await;
    within(PROMPT, "close", waiting.close()).await.unwrap();
}
