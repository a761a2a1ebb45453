//! Reading as a member of a group, against the embedded broker.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test on sockets looks at the clock")]

mod support;

use std::time::Duration;

use ottla::{Builder, Group, Reader};
use ottla_broker::Broker;
use support::{broker, eventually, fill, offsets, soon};

/// A member of the group "g" that reads the topic "t".
fn member(broker: &Broker) -> Builder<Group> {
    Reader::builder(broker.bootstrap()).group("g").topic("t").heartbeat_interval(Duration::from_millis(100))
}

#[tokio::test]
async fn a_member_reads_all_and_the_next_one_goes_on_where_it_stopped() {
    let broker = broker(&[("t", 1)]).await;
    fill(&broker, "t", 0, 10);
    let mut reader = member(&broker).open().unwrap();
    for _ in 0..5 {
        let message = support::next(&mut reader).await;
        reader.ack(&message).unwrap();
    }
    assert_eq!(offsets(&mut reader, 2).await, [5, 6]);
    soon("close", reader.close()).await.unwrap();
    assert_eq!(broker.with(|c| c.committed("g", "t", 0)), Some(5));
    let mut reader = member(&broker).open().unwrap();
    let message = support::next(&mut reader).await;
    assert_eq!(message.offset(), 5);
    soon("commit", reader.commit(&message)).await.unwrap();
    assert_eq!(broker.with(|c| c.committed("g", "t", 0)), Some(6));
    drop(reader);
    eventually("the group is left", || broker.with(|c| c.open_connections(1)) == 0).await;
}
