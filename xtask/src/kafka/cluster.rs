//! Brokers that belong together, as a folder. One alone lives in the folder itself; several have one each in it, `node-1`
//! and so on, and can be stopped, started, frozen and thawed one by one.

use super::jars;
use super::node::{Node, Settings, absolute};
use super::ports;
use super::properties::Seat;
use crate::failure::{During, Result, fail, misuse};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;

#[derive(Debug)]
pub(crate) struct Cluster {
    dir: PathBuf,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Makes the folders of so many nodes, as [`Node::create`] does; starts nothing.
    pub(crate) fn create(dir: &Path, count: u16, settings: &Settings) -> Result<Self> {
        check_version(&settings.version)?;
        let dir = absolute(dir)?;
        if count == 2 || !(1..=9).contains(&count) {
            return misuse(format!(
                "a cluster of 3 to 9 nodes, or one alone, but not {count}: two could lose none"
            ));
        }
        check_folder(&dir, count)?;
        let seats = seats(count, settings.port)?;
        let folders = seats.iter().map(|seat| folder_of(&dir, seat));
        // All at once: each begins with a Java of its own.
        let nodes = thread::scope(|scope| {
            let made: Vec<_> = folders
                .zip(&seats)
                .map(|(folder, seat)| scope.spawn(move || Node::create(&folder, settings, seat)))
                .collect();
            made.into_iter().map(joined).collect::<Result<_>>()
        })?;
        Ok(Self { dir, nodes })
    }

    /// A cluster, or a single node, that was created before.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let dir = absolute(dir)?;
        if Node::is_in(&dir) || !Node::is_in(&node_folder(&dir, 1)) {
            return Ok(Self { nodes: vec![Node::open(&dir)?], dir });
        }
        let folders = (1..).map(|id| node_folder(&dir, id)).take_while(|folder| Node::is_in(folder));
        let nodes = folders.map(|folder| Node::open(&folder)).collect::<Result<_>>()?;
        Ok(Self { dir, nodes })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn version(&self) -> &str {
        self.nodes[0].version()
    }

    /// The node of this number.
    pub(crate) fn node(&self, id: u16) -> Result<&Node> {
        match self.nodes.iter().find(|node| node.id() == id) {
            Some(node) => Ok(node),
            None => {
                misuse(format!("there is no node {id} in {}, but {}", self.dir.display(), self.nodes.len()))
            }
        }
    }

    /// The nodes' addresses, as clients take them.
    pub(crate) fn bootstrap(&self) -> String {
        self.nodes.iter().map(Node::bootstrap).collect::<Vec<_>>().join(",")
    }

    /// Starts all nodes and waits until they can be used and know each other.
    pub(crate) fn start(&self) -> Result<Vec<Child>> {
        let ids: Vec<_> = self.nodes.iter().map(Node::id).collect();
        let launched = self.nodes.iter().map(Node::launch).collect::<Result<Vec<_>>>();
        let ready = launched.and_then(|children| {
            self.nodes.iter().zip(children).map(|(node, child)| node.ready(child, &ids)).collect()
        });
        if ready.is_err() {
            self.each(Node::kill);
        }
        ready
    }

    pub(crate) fn is_running(&self) -> bool {
        self.nodes.iter().any(|node| node.running().is_some())
    }

    pub(crate) fn stop(&self) {
        self.each(Node::stop);
    }

    pub(crate) fn remove_data(&self) {
        self.each(Node::remove_data);
    }

    /// For all at once: a node that shuts down asks the others, and waits for them in vain when they are gone.
    pub(crate) fn each(&self, act: fn(&Node)) {
        thread::scope(|scope| self.nodes.iter().for_each(|node| drop(scope.spawn(move || act(node)))));
    }
}

fn check_version(version: &str) -> Result<()> {
    if jars::major(version) >= 3 {
        return Ok(());
    }
    let known = jars::KNOWN.join(", ");
    fail(format!("Kafka {version} needs a ZooKeeper, which is not started here; known: {known}"))
}

/// What was made for one node is not made into more, nor the other way round: its data would be lost.
fn check_folder(dir: &Path, count: u16) -> Result<()> {
    let alone = Node::is_in(dir);
    let together = (1..).take_while(|id| Node::is_in(&node_folder(dir, *id))).count();
    let fits = if count == 1 { together == 0 } else { !alone && [0, usize::from(count)].contains(&together) };
    if fits {
        return Ok(());
    }
    let there = if alone { 1 } else { together };
    fail(format!("{} holds a Kafka of {there} nodes, not of {count}; name another --dir", dir.display()))
}

/// The ports of brokers and controllers.
fn seats(count: u16, wanted: Option<u16>) -> Result<Vec<Seat>> {
    let found = ports::free(2 * usize::from(count))?;
    let (brokers, controllers) = found.split_at(usize::from(count));
    let brokers: Vec<u16> = match wanted {
        Some(first) => (first..=u16::MAX).take(usize::from(count)).collect(),
        None => brokers.to_vec(),
    };
    if let Some(taken) = brokers.iter().find(|port| !ports::is_free(**port)) {
        return fail(format!("port {taken} is taken; without --port free ones are used"));
    }
    let controllers = controllers.to_vec();
    let seat = |(id, port)| Seat { id, port, controllers: controllers.clone() };
    Ok((1..).zip(brokers).map(seat).collect())
}

fn folder_of(dir: &Path, seat: &Seat) -> PathBuf {
    if seat.controllers.len() == 1 { dir.to_owned() } else { node_folder(dir, seat.id) }
}

fn node_folder(dir: &Path, id: u16) -> PathBuf {
    dir.join(format!("node-{id}"))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| fail("xtask panicked"))
}

/// Removes a cluster's folder; none of its nodes may run.
pub(crate) fn remove(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).during(|| format!("removing {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kafka_is_refused_with_the_reason() {
        let settings = Settings { version: "2.8.2".into(), ..Settings::default() };
        let error = Cluster::create(Path::new("/nowhere"), 1, &settings).unwrap_err().to_string();
        assert!(error.contains("ZooKeeper"), "{error}");
    }

    #[test]
    fn two_nodes_are_no_cluster() {
        let error = Cluster::create(Path::new("/nowhere"), 2, &Settings::default()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn seats_have_ports_of_their_own_and_know_all_controllers() {
        let seats = seats(3, None).unwrap();
        let mut ports: Vec<_> =
            seats.iter().map(|seat| seat.port).chain(seats[0].controllers.clone()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
        assert_eq!(seats.iter().map(|seat| seat.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(seats.iter().all(|seat| seat.controllers == seats[0].controllers));
    }

    #[test]
    fn a_folder_keeps_the_number_of_its_nodes() {
        let dir = std::env::temp_dir().join(format!("ottla-xtask-cluster-{}", std::process::id()));
        let make = |folder: &Path| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("node.json"), r#"{"version":"4.4.0","port":7}"#).unwrap();
        };
        (1..=3).for_each(|id| make(&node_folder(&dir, id)));
        check_folder(&dir, 3).unwrap();
        for count in [1, 4] {
            assert!(check_folder(&dir, count).unwrap_err().to_string().contains("of 3 nodes"));
        }
        let cluster = Cluster::open(&dir).unwrap();
        assert_eq!(cluster.nodes().len(), 3);
        make(&dir);
        check_folder(&dir.join("other"), 1).unwrap();
        assert!(check_folder(&dir, 3).unwrap_err().to_string().contains("of 1 nodes"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
