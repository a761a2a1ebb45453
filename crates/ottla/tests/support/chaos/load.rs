//! Records that keep coming, and what the group commits; all of it goes on while brokers come and go.

use std::time::Duration;

use ottla::{Reader, Until};
use ottla_wire::record::Codec;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{BATCH, PARTITIONS, history::Commit};
use crate::client_support::{Client, PAUSE};

/// Records that keep coming. One that is sent again because no answer came may be there twice.
pub struct Load {
    task: JoinHandle<Client>,
    stop: Option<oneshot::Sender<()>>,
    topic: String,
}

impl Load {
    /// Makes the topic and begins to fill it.
    pub async fn begin(bootstrap: &str, topic: &str) -> Self {
        let mut client = Client::new(bootstrap);
        client.create(topic, PARTITIONS).await;
        let (stop, mut stopped) = oneshot::channel();
        let name = topic.to_owned();
        let task = tokio::spawn(async move {
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let (partition, count) = (fastrand::i32(0..PARTITIONS), fastrand::i64(1..=BATCH));
                let batch = crate::support::batch(Codec::None, partition, 0, count);
                let _ = client.produce(&name, partition, &batch).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            client
        });
        Self { task, stop: Some(stop), topic: topic.to_owned() }
    }

    /// Stops, and tells where the partitions end.
    pub async fn end(&mut self) -> Vec<i64> {
        self.stop = None;
        let mut client = (&mut self.task).await.unwrap();
        let mut ends = Vec::new();
        for partition in 0..PARTITIONS {
            ends.push(client.end(&self.topic, partition).await);
        }
        ends
    }
}

/// What a group has committed.
pub struct Group {
    client: Client,
    bootstrap: String,
    name: String,
    topic: String,
}

impl Group {
    /// Waits until the group has a coordinator: for the first one, brokers have to make their topic of offsets.
    pub async fn known(bootstrap: &str, name: String, topic: String) -> Self {
        let (client, bootstrap) = (Client::new(bootstrap), bootstrap.to_owned());
        let mut group = Self { client, bootstrap, name, topic };
        group.committed().await;
        group
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn committed(&mut self) -> Vec<i64> {
        self.client.committed(&self.name, &self.topic, PARTITIONS).await
    }

    /// Waits until so much is committed.
    pub async fn is_through(&mut self, ends: &[i64]) {
        while self.committed().await != ends {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// All commits that the coordinator ever took, in its order: they are records of its topic. (What a coordinator answers
    /// when it has just taken over may be older for a moment than what the one before has answered.)
    pub async fn commits(&self) -> Vec<Commit> {
        let mut reader =
            Reader::builder(&*self.bootstrap).topic("__consumer_offsets").until(Until::End).open().unwrap();
        let mut commits = Vec::new();
        while let Some(message) = reader.next().await.unwrap() {
            let (from, to) = (message.timestamp() as u64 * 1000, message.timestamp() as u64 * 1000 + 999);
            if let (Some(partition), Some(value)) = (self.partition_in(message.key()), message.value()) {
                let offset = i64::from_be_bytes(*value[2..].first_chunk().unwrap());
                commits.push(Commit { from, to, partition, offset });
            }
        }
        commits
    }

    /// The key of a commit: a version, 0 or 1, our group, our topic, a partition.
    fn partition_in(&self, key: Option<&[u8]>) -> Option<i32> {
        let key = key?.strip_prefix(&[0, 0]).or(key?.strip_prefix(&[0, 1]))?;
        let key = key.strip_prefix(&*prefixed(&self.name))?.strip_prefix(&*prefixed(&self.topic))?;
        Some(i32::from_be_bytes(key.try_into().ok()?))
    }
}

/// A string behind its length.
fn prefixed(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat()
}
