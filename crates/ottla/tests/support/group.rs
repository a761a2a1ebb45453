//! Groups on a real Kafka: what the broker says of them, and members that are not ours.

#![allow(clippy::disallowed_methods, reason = "a test is the outermost layer")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ottla_wire::{
    code::Code,
    message::{
        DescribeGroupsRequest, FindCoordinatorRequest, OffsetFetchRequest,
        describe_groups_response::DescribedGroup, offset_fetch_request::OffsetFetchRequestTopic,
        offset_fetch_response::OffsetFetchResponsePartition,
    },
};

use crate::kafka_support::{Kafka, environment};

/// Microseconds on the clock that all processes of this machine share.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

impl Kafka {
    /// The node that coordinates the group, and its address. For the first group of all, brokers first have to make their
    /// topic of offsets.
    pub async fn coordinator(&mut self, group: &str) -> (i32, String) {
        // From version 4 on several groups are asked about at once, which brokers before 3.0 do not know.
        let request = FindCoordinatorRequest { key: group.to_owned(), ..Default::default() };
        for _ in 0..1500 {
            let found = self.call_at_most(&request, 3).await;
            if Code(found.error_code) == Code::NONE {
                return (found.node_id, format!("{}:{}", found.host, found.port));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no coordinator");
    }

    /// What the group has committed for each partition: the next offset to read, -1 for none.
    pub async fn committed(&mut self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let all = self.commits(group, topic, partitions).await;
        all.iter().map(|partition| partition.committed_offset).collect()
    }

    /// The same with leader epochs and metadata.
    pub async fn commits(
        &mut self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> Vec<OffsetFetchResponsePartition> {
        let partition_indexes = (0..partitions).collect();
        let topics = Some(vec![OffsetFetchRequestTopic { name: topic.to_owned(), partition_indexes }]);
        let request = OffsetFetchRequest { group_id: group.to_owned(), topics, ..Default::default() };
        for _ in 0..500 {
            // Version 8 asks for several groups at once.
            let response = self.call_at_most(&request, 7).await;
            match Code(response.error_code) {
                Code::NONE => {
                    let mut found = response.topics.into_iter().next().expect("the topic").partitions;
                    found.sort_by_key(|partition| partition.partition_index);
                    return found;
                }
                code if code.is_retriable() => tokio::time::sleep(Duration::from_millis(20)).await,
                code => panic!("{group}: {code}"),
            }
        }
        panic!("{group}: no offsets");
    }

    /// State and members.
    pub async fn describe(&mut self, group: &str) -> DescribedGroup {
        let request = DescribeGroupsRequest { groups: vec![group.to_owned()], ..Default::default() };
        // From version 6 on a group that is not there is an error.
        self.call_at_most(&request, 5).await.groups.remove(0)
    }

    /// Waits until the group has so many members and all of them know their partitions.
    pub async fn stable(&mut self, group: &str, members: usize) {
        crate::support::soon(&format!("{group} is stable with {members} members"), async {
            loop {
                let described = self.describe(group).await;
                if described.group_state == "Stable" && described.members.len() == members {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

/// A member that is a program of its own and speaks as `support/java/Member.java` does.
pub struct Other {
    name: &'static str,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
}

impl Other {
    /// Kafka's own client, with these properties.
    pub fn java(bootstrap: &str, group: &str, topics: &str, properties: &[&str]) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/java/Member.java");
        let mut command = Command::new(environment("OTTLA_XTASK"));
        command.args(["kafka", "tool", program]);
        Self::start("java", command, [bootstrap, group, topics], properties)
    }

    /// The program that a variable names.
    pub fn program(
        name: &'static str,
        variable: &str,
        bootstrap: &str,
        group: &str,
        topics: &str,
        properties: &[&str],
    ) -> Self {
        Self::start(name, Command::new(environment(variable)), [bootstrap, group, topics], properties)
    }

    fn start(name: &'static str, mut command: Command, what: [&str; 3], properties: &[&str]) -> Self {
        command.args(what).args(properties).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the member starts");
        let (lines, stdout) = (Arc::<Mutex<Vec<_>>>::default(), child.stdout.take().expect("a pipe"));
        let kept = lines.clone();
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                kept.lock().expect("not poisoned").push(line);
            }
        });
        Self { name, child, lines, listener: Some(listener) }
    }

    /// All that it has said.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("not poisoned").clone()
    }

    /// What it owns now, as TOPIC:PARTITION; empty if it has nothing or not yet.
    pub fn owned(&self) -> Vec<String> {
        let lines = self.lines();
        let told = |line: &&String| ["assigned", "revoked", "lost"].iter().any(|verb| line.starts_with(verb));
        let newest = lines.iter().rev().find(told).and_then(|line| line.strip_prefix("assigned"));
        newest.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// The records that it got, as partition and offset.
    pub fn records(&self) -> Vec<(i32, i64)> {
        let record = |line: &String| {
            let mut words = line.strip_prefix("record ")?.split(' ').skip(1);
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        self.lines().iter().filter_map(record).collect()
    }

    /// Waits until what it has said satisfies.
    pub async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        // Java compiles the program first.
        crate::support::within(Duration::from_secs(60), &format!("{}: {what}", self.name), async {
            while !holds(self) {
                if let Some(status) = self.child.try_wait().expect("a child") {
                    panic!("{} ended ({status}): {:?}", self.name, self.lines());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Has it leave the group, and returns all that it has said.
    pub async fn leave(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        crate::support::soon(&format!("{} leaves", self.name), async {
            while self.child.try_wait().expect("a child").is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        self.listener.take().map(JoinHandle::join);
        let lines = self.lines();
        assert_eq!(lines.last().map(String::as_str), Some("closed"), "{}", self.name);
        lines
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
