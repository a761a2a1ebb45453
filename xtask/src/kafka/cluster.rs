//! Brokers that belong together, as a folder. One alone lives in the folder itself; several have one each in it, `node-1`
//! and so on, and can be stopped, started, frozen and thawed one by one. Old ones have a ZooKeeper in `zookeeper`.

use super::jars;
use super::node::{Node, Settings, absolute};
use super::ports;
use super::properties::{Quorum, Seat};
use super::zookeeper::ZooKeeper;
use crate::failure::{During, Result, fail, misuse};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;

#[derive(Debug)]
pub(crate) struct Cluster {
    dir: PathBuf,
    nodes: Vec<Node>,
    zookeeper: Option<ZooKeeper>,
}

impl Cluster {
    /// Makes the folders of so many nodes, as [`Node::create`] does; starts nothing.
    pub(crate) fn create(dir: &Path, count: u16, settings: &Settings) -> Result<Self> {
        let dir = absolute(dir)?;
        if count == 2 || !(1..=9).contains(&count) {
            return misuse(format!(
                "a cluster of 3 to 9 nodes, or one alone, but not {count}: two could lose none"
            ));
        }
        check_folder(&dir, count)?;
        let seats = seats(count, settings)?;
        let folders = seats.iter().map(|seat| folder_of(&dir, seat));
        // All at once: each begins with a Java of its own.
        let nodes = thread::scope(|scope| {
            let made: Vec<_> = folders
                .zip(&seats)
                .map(|(folder, seat)| scope.spawn(move || Node::create(&folder, settings, seat)))
                .collect();
            made.into_iter().map(joined).collect::<Result<_>>()
        })?;
        let zookeeper = match seats[0].quorum {
            Quorum::ZooKeeper(port) => Some(ZooKeeper::create(&dir, &settings.version, port)?),
            Quorum::Controllers(_) => None,
        };
        Ok(Self { dir, nodes, zookeeper })
    }

    /// A cluster, or a single node, that was created before.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let dir = absolute(dir)?;
        let nodes = open_nodes(&dir)?;
        let zookeeper = match jars::needs_zookeeper(nodes[0].version()) {
            true => Some(ZooKeeper::open(&dir, nodes[0].version())?),
            false => None,
        };
        Ok(Self { dir, nodes, zookeeper })
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

    /// Starts the nodes that do not run, and the ZooKeeper before them, and waits until they can be used and know each other.
    /// If that fails, what ran before goes on.
    pub(crate) fn start(&self) -> Result<Vec<Child>> {
        let down: Vec<&Node> = self.nodes.iter().filter(|node| node.running().is_none()).collect();
        if down.is_empty() {
            return misuse(format!("Kafka runs already in {}", self.dir.display()));
        }
        let zookeeper = self.zookeeper.as_ref().map(ZooKeeper::start).transpose()?.flatten();
        let ids: Vec<_> = self.nodes.iter().map(Node::id).collect();
        let launched = down.iter().map(|node| node.launch()).collect::<Result<Vec<_>>>();
        let ready = launched.and_then(|children| {
            let each = down.iter().zip(children);
            each.map(|(node, child)| node.ready(child, &ids)).collect::<Result<Vec<_>>>()
        });
        match ready {
            Ok(brokers) => Ok(brokers.into_iter().chain(zookeeper).collect()),
            Err(failure) => {
                each(&down, Node::kill);
                if down.len() == self.nodes.len() {
                    self.zookeeper.iter().for_each(ZooKeeper::stop);
                }
                Err(failure)
            }
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        let zookeeper = self.zookeeper.iter().any(ZooKeeper::is_running);
        zookeeper || self.nodes.iter().any(|node| node.running().is_some())
    }

    /// The brokers first: they tell the ZooKeeper that they go.
    pub(crate) fn stop(&self) {
        self.each(Node::stop);
        self.zookeeper.iter().for_each(ZooKeeper::stop);
    }

    pub(crate) fn kill(&self) {
        self.each(Node::kill);
        self.zookeeper.iter().for_each(ZooKeeper::stop);
    }

    pub(crate) fn remove_data(&self) {
        self.each(Node::remove_data);
        self.zookeeper.iter().for_each(ZooKeeper::remove_data);
    }

    fn each(&self, act: fn(&Node)) {
        each(&self.nodes.iter().collect::<Vec<_>>(), act);
    }
}

/// For all at once: a node that shuts down asks the others, and waits for them in vain when they are gone.
fn each(nodes: &[&Node], act: fn(&Node)) {
    thread::scope(|scope| nodes.iter().for_each(|node| drop(scope.spawn(move || act(node)))));
}

fn open_nodes(dir: &Path) -> Result<Vec<Node>> {
    if Node::is_in(dir) || !Node::is_in(&node_folder(dir, 1)) {
        return Ok(vec![Node::open(dir)?]);
    }
    let folders = (1..).map(|id| node_folder(dir, id)).take_while(|folder| Node::is_in(folder));
    folders.map(|folder| Node::open(&folder)).collect()
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

/// The ports of brokers and controllers, or of the ZooKeeper.
fn seats(count: u16, settings: &Settings) -> Result<Vec<Seat>> {
    let found = ports::free(2 * usize::from(count))?;
    let (brokers, others) = found.split_at(usize::from(count));
    let brokers: Vec<u16> = match settings.port {
        Some(first) => (first..=u16::MAX).take(usize::from(count)).collect(),
        None => brokers.to_vec(),
    };
    if let Some(taken) = brokers.iter().find(|port| !ports::is_free(**port)) {
        return fail(format!("port {taken} is taken; without --port free ones are used"));
    }
    let quorum = match jars::needs_zookeeper(&settings.version) {
        true => Quorum::ZooKeeper(others[0]),
        false => Quorum::Controllers(others.to_vec()),
    };
    let seat = |(id, port)| Seat { id, port, of: count, quorum: quorum.clone() };
    Ok((1..).zip(brokers).map(seat).collect())
}

fn folder_of(dir: &Path, seat: &Seat) -> PathBuf {
    if seat.of == 1 { dir.to_owned() } else { node_folder(dir, seat.id) }
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
    fn two_nodes_are_no_cluster() {
        let error = Cluster::create(Path::new("/nowhere"), 2, &Settings::default()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn seats_have_ports_of_their_own_and_know_all_controllers() {
        let seats = seats(3, &Settings::default()).unwrap();
        let Quorum::Controllers(controllers) = seats[0].quorum.clone() else { panic!("{seats:?}") };
        let mut ports: Vec<_> = seats.iter().map(|seat| seat.port).chain(controllers).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
        assert_eq!(seats.iter().map(|seat| seat.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(seats.iter().all(|seat| seat.of == 3 && seat.quorum == seats[0].quorum));
    }

    #[test]
    fn old_nodes_share_a_zookeeper() {
        let seats = seats(3, &Settings { version: "2.8.2".into(), ..Settings::default() }).unwrap();
        assert!(matches!(seats[0].quorum, Quorum::ZooKeeper(port) if port != seats[0].port));
        assert!(seats.iter().all(|seat| seat.quorum == seats[0].quorum));
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
