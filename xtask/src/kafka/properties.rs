//! What Kafka reads when it starts: broker and controller in one process, or a broker beside a ZooKeeper, for tests. No
//! waiting for late group members, no topics that spring up by themselves.

use std::fmt::Write;
use std::path::Path;

/// A node's place in its cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seat {
    /// From 1 on.
    pub(crate) id: u16,
    pub(crate) port: u16,
    /// How many nodes the cluster has.
    pub(crate) of: u16,
    pub(crate) quorum: Quorum,
}

/// Where the nodes of a cluster agree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Quorum {
    /// The controllers' ports of all nodes, by id.
    Controllers(Vec<u16>),
    /// The port of the one ZooKeeper.
    ZooKeeper(u16),
}

/// The lines of server.properties; those of `set` come last and win.
pub(super) fn properties(data: &Path, seat: &Seat, set: &[(String, String)]) -> String {
    let mut text = match &seat.quorum {
        Quorum::Controllers(ports) => with_controllers(seat, ports),
        Quorum::ZooKeeper(port) => with_zookeeper(seat, *port),
    };
    text += &common(data, seat);
    text += match seat.of {
        1 => ALONE,
        _ => TOGETHER,
    };
    if seat.of > 1 {
        let _ = writeln!(text, "broker.rack=r{}", seat.id - 1);
    }
    for (key, value) in set {
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

fn with_controllers(seat: &Seat, ports: &[u16]) -> String {
    let voter = |(at, port): (usize, &u16)| format!("{}@127.0.0.1:{port}", at + 1);
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n",
        id = seat.id,
        voters = ports.iter().enumerate().map(voter).collect::<Vec<_>>().join(","),
        port = seat.port,
        controller = ports[usize::from(seat.id) - 1],
    )
}

/// A node that died is given up after 6 s, as was usual in Kafka's own settings for long.
fn with_zookeeper(seat: &Seat, port: u16) -> String {
    format!(
        "broker.id={id}\n\
         zookeeper.connect=127.0.0.1:{port}\n\
         zookeeper.session.timeout.ms=6000\n\
         listeners=PLAINTEXT://127.0.0.1:{own}\n",
        id = seat.id,
        own = seat.port,
    )
}

fn common(data: &Path, seat: &Seat) -> String {
    format!(
        "advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         log.dirs={data}\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.num.partitions=4\n\
         group.initial.rebalance.delay.ms=0\n\
         log.retention.ms=-1\n\
         auto.create.topics.enable=false\n",
        port = seat.port,
        data = data.display()
    )
}

/// No replication.
const ALONE: &str = "\
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
";

/// Everything is everywhere, and what two nodes have is kept. A node that died is given up after 3 s instead of 9: tests
/// wait for that.
const TOGETHER: &str = "\
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_caller_come_last_and_win() {
        let seat = Seat { id: 1, port: 7, of: 1, quorum: Quorum::Controllers(vec![8]) };
        let set = [("auto.create.topics.enable".into(), "true".into())];
        let text = properties(Path::new("/x/data"), &seat, &set);
        assert!(text.contains("log.dirs=/x/data\n"));
        assert!(text.contains("advertised.listeners=PLAINTEXT://127.0.0.1:7\n"));
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:8\n"));
        assert!(text.contains("offsets.topic.replication.factor=1\n"));
        assert!(!text.contains("broker.rack"));
        assert!(text.ends_with("\nauto.create.topics.enable=true\n"));
    }

    #[test]
    fn nodes_of_a_cluster_know_each_other_and_stand_in_racks() {
        let seat = Seat { id: 3, port: 7, of: 3, quorum: Quorum::Controllers(vec![11, 12, 13]) };
        let text = properties(Path::new("/x"), &seat, &[]);
        assert!(text.contains("node.id=3\n"));
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:11,2@127.0.0.1:12,3@127.0.0.1:13\n"));
        assert!(text.contains("CONTROLLER://127.0.0.1:13\n"));
        assert!(text.contains("offsets.topic.replication.factor=3\n"));
        assert!(text.contains("min.insync.replicas=2\n"));
        assert!(text.ends_with("broker.rack=r2\n"));
    }

    #[test]
    fn an_old_broker_knows_its_zookeeper_and_no_controllers() {
        let seat = Seat { id: 1, port: 7, of: 1, quorum: Quorum::ZooKeeper(8) };
        let text = properties(Path::new("/x"), &seat, &[]);
        assert!(text.starts_with("broker.id=1\nzookeeper.connect=127.0.0.1:8\n"));
        assert!(text.contains("listeners=PLAINTEXT://127.0.0.1:7\n"));
        assert!(!text.contains("node.id") && !text.contains("CONTROLLER"));
    }
}
