//! Groups whose coordinator is an old Kafka: what it does not know is done without.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::time::Duration;

use ottla_broker::{ApiKey, Broker, Like};
use support::{committed, fill, group_broker, member, offsets, owns, soon};

/// The highest versions that a broker of before 2.3 speaks, which knows no static members (KIP-345).
fn before_static_members(broker: &Broker) {
    broker.with(|cluster| {
        for (api, max) in [
            (ApiKey::JoinGroup, 4),
            (ApiKey::SyncGroup, 2),
            (ApiKey::Heartbeat, 2),
            (ApiKey::LeaveGroup, 2),
            (ApiKey::OffsetCommit, 6),
        ] {
            cluster.set_versions(api, Some((0, max)));
        }
    });
}

#[tokio::test]
async fn an_instance_id_is_done_without_where_it_is_not_known_and_its_member_leaves_when_it_closes() {
    let broker = group_broker(1, &[("t", 2)]).await;
    before_static_members(&broker);
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).instance_id("fixed").open().unwrap();
    for expected in 0..5 {
        let message = support::next(&mut reader).await;
        assert_eq!(message.offset(), expected);
        soon("commit", reader.commit(&message)).await.unwrap();
    }
    assert_eq!(committed(&broker, 0), Some(5));
    let heartbeats =
        || broker.with(|cluster| cluster.received().filter(|r| r.api == ApiKey::Heartbeat).count());
    let before = heartbeats();
    support::eventually("a heartbeat", || heartbeats() > before).await;
    soon("close", reader.close()).await.unwrap();
    assert!(broker.with(|cluster| cluster.group("g")).unwrap().members.is_empty(), "nobody waits for it");

    let mut reader = member(&broker).instance_id("fixed").open().unwrap();
    owns(&reader.control(), 2).await;
    assert_eq!(offsets(&mut reader, 5).await, [5, 6, 7, 8, 9]);
}

/// Only old versions of OffsetCommit say how long offsets are kept, and those know no instance.
#[tokio::test]
async fn a_static_member_may_say_how_long_its_offsets_are_kept() {
    let broker = group_broker(1, &[("t", 1)]).await;
    fill(&broker, "t", 0, 1);
    let builder = member(&broker).instance_id("fixed").retention(Duration::from_secs(3600));
    let mut reader = builder.open().unwrap();
    let message = support::next(&mut reader).await;
    soon("commit", reader.commit(&message)).await.unwrap();
    assert_eq!(committed(&broker, 0), Some(1));
}

#[tokio::test]
async fn static_and_other_members_share_a_topic_of_any_kafka() {
    for like in Like::ALL {
        let broker = Broker::start(ottla_broker::ClusterOptions::new().like(like)).await.unwrap();
        broker.with(|cluster| cluster.create_topic("t", 4)).unwrap();
        fill(&broker, "t", 3, 10);
        let one = member(&broker).open().unwrap();
        let two = member(&broker).instance_id("fixed").open().unwrap();
        owns(&two.control(), 2).await;
        owns(&one.control(), 2).await;
        soon("close", two.close()).await.unwrap();
        soon("close", one.close()).await.unwrap();
        let members = broker.with(|cluster| cluster.group("g")).unwrap().members;
        let left: Vec<_> = members.into_iter().map(|member| member.instance).collect();
        assert_eq!(left, [Some("fixed".to_owned())], "{like}: a static member is expected back");
    }
}
