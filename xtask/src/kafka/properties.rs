//! What Kafka reads when it starts: broker and controller in one process, for tests. No waiting for late group members,
//! no topics that spring up by themselves.

use std::fmt::Write;
use std::path::Path;

/// A node's place in its cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seat {
    /// From 1 on.
    pub(crate) id: u16,
    pub(crate) port: u16,
    /// The controllers' ports of all nodes, by id.
    pub(crate) controllers: Vec<u16>,
}

impl Seat {
    fn controller(&self) -> u16 {
        self.controllers[usize::from(self.id) - 1]
    }

    fn voters(&self) -> String {
        let voter = |(at, port): (usize, &u16)| format!("{}@127.0.0.1:{port}", at + 1);
        self.controllers.iter().enumerate().map(voter).collect::<Vec<_>>().join(",")
    }
}

/// The lines of server.properties; those of `set` come last and win.
pub(super) fn properties(data: &Path, seat: &Seat, set: &[(String, String)]) -> String {
    let mut text = common(data, seat);
    text += match seat.controllers.len() {
        1 => ALONE,
        _ => TOGETHER,
    };
    if seat.controllers.len() > 1 {
        let _ = writeln!(text, "broker.rack=r{}", seat.id - 1);
    }
    for (key, value) in set {
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

fn common(data: &Path, seat: &Seat) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={data}\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.num.partitions=4\n\
         group.initial.rebalance.delay.ms=0\n\
         log.retention.ms=-1\n\
         auto.create.topics.enable=false\n",
        id = seat.id,
        voters = seat.voters(),
        port = seat.port,
        controller = seat.controller(),
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
        let seat = Seat { id: 1, port: 7, controllers: vec![8] };
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
        let seat = Seat { id: 3, port: 7, controllers: vec![11, 12, 13] };
        let text = properties(Path::new("/x"), &seat, &[]);
        assert!(text.contains("node.id=3\n"));
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:11,2@127.0.0.1:12,3@127.0.0.1:13\n"));
        assert!(text.contains("CONTROLLER://127.0.0.1:13\n"));
        assert!(text.contains("offsets.topic.replication.factor=3\n"));
        assert!(text.contains("min.insync.replicas=2\n"));
        assert!(text.ends_with("broker.rack=r2\n"));
    }
}
