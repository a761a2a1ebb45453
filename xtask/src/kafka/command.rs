//! `cargo xtask kafka ...`: brokers for people, and for tests that stop and start theirs.

use super::cluster::{self, Cluster};
use super::node::{Node, Settings};
use super::{folder, is_locked, jars, tools};
use crate::args::{Args, pair};
use crate::failure::{During, Result, fail, misuse};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) fn run(mut args: Args) -> Result<()> {
    match args.word().as_deref() {
        Some("up") => up(args),
        Some("down") => down(args),
        Some("start") => with_target(args, start),
        Some("stop") => stop(args),
        Some("freeze") => with_target(args, |target| target.nodes().try_for_each(Node::freeze)),
        Some("thaw") => with_target(args, |target| target.nodes().try_for_each(Node::thaw)),
        Some("guard") => with_target(args, |target| guard(&target.cluster)),
        Some("tool") => tool(args),
        _ => misuse("which one: kafka up, down, start, stop, freeze, thaw or tool? See `cargo xtask help`"),
    }
}

/// Starts a broker or a cluster, or goes on with the one in that folder, and prints where to reach it.
fn up(mut args: Args) -> Result<()> {
    let version = args.value("--version")?.unwrap_or_else(|| jars::NEWEST.into());
    let count = args.parsed("--nodes", "a number of nodes")?.unwrap_or(1);
    let port = args.parsed("--port", "a port")?;
    let dir = args.value("--dir")?.map(PathBuf::from);
    let set = args.values("--set")?.iter().map(|text| pair(text)).collect::<Result<_>>()?;
    args.finish()?;
    let name = if count == 1 { version.clone() } else { format!("{version}-{count}-nodes") };
    let dir = dir.map_or_else(|| folder(&name), Ok)?;
    if let Some(running) = Cluster::open(&dir).ok().filter(Cluster::is_running) {
        let (bootstrap, dir) = (running.bootstrap(), dir.display());
        return fail(format!(
            "the Kafka in {dir} runs already, at {bootstrap}; another one needs its own --dir"
        ));
    }
    let cluster = Cluster::create(&dir, count, &Settings { version, port, set })?;
    cluster.start()?;
    let (version, dir) = (cluster.version(), cluster.dir());
    eprintln!("Kafka {version} is up in {}; to stop it: {}", dir.display(), how_to_stop(dir)?);
    println!("{}", cluster.bootstrap());
    Ok(())
}

fn down(mut args: Args) -> Result<()> {
    let (all, delete) = (args.flag("--all"), args.flag("--delete"));
    let dir = args.value("--dir")?.map(PathBuf::from);
    let node = args.parsed("--node", "the number of a node")?;
    args.finish()?;
    if node.is_some() && (all || delete) {
        return misuse("--node stops one node of a cluster; --all and --delete are for whole ones");
    }
    let clusters = match (dir, all) {
        (Some(_), true) => return misuse("--dir or --all, not both"),
        (Some(dir), false) => vec![Cluster::open(&dir)?],
        (None, true) => every_one()?,
        (None, false) => vec![the_running_one()?],
    };
    match node {
        Some(id) => clusters.iter().try_for_each(|cluster| cluster.node(id).map(Node::stop)),
        None => clusters.iter().try_for_each(|cluster| take_down(cluster, delete)),
    }
}

fn take_down(cluster: &Cluster, delete: bool) -> Result<()> {
    let dir = cluster.dir();
    if cluster.is_running() {
        cluster.stop();
        eprintln!("stopped the Kafka in {}", dir.display());
    }
    if delete {
        cluster::remove(dir)?;
        eprintln!("removed {}", dir.display());
    }
    Ok(())
}

fn start(target: &Target) -> Result<()> {
    match target.node()? {
        Some(node) => node.start().map(drop),
        None => target.cluster.start().map(drop),
    }
}

fn stop(mut args: Args) -> Result<()> {
    let kill = args.flag("--kill");
    with_target(args, |target| {
        match (target.node()?, kill) {
            (Some(node), true) => node.kill(),
            (Some(node), false) => node.stop(),
            (None, true) => target.cluster.kill(),
            (None, false) => target.cluster.stop(),
        }
        Ok(())
    })
}

/// Waits for the end of who started us, then stops the brokers (see [`super::Kafka`]).
fn guard(cluster: &Cluster) -> Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink()).during(|| "waiting".into())?;
    if cluster.is_running() {
        cluster.stop();
        cluster.remove_data();
    }
    Ok(())
}

fn tool(mut args: Args) -> Result<()> {
    let Some(class) = args.word() else {
        return misuse("kafka tool CLASS ARGS..., for example: kafka tool TopicCommand --help");
    };
    let mut java = tools::class(&class)?;
    let status = java.args(args.into_rest()).status().during(|| "starting Java".into())?;
    if status.success() { Ok(()) } else { fail(format!("{class} ended with {status}")) }
}

/// What a command is about: a whole cluster, or one node of it.
struct Target {
    cluster: Cluster,
    id: Option<u16>,
}

impl Target {
    fn node(&self) -> Result<Option<&Node>> {
        self.id.map(|id| self.cluster.node(id)).transpose()
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.cluster.nodes().iter().filter(|node| self.id.is_none_or(|id| id == node.id()))
    }
}

fn with_target(mut args: Args, act: impl FnOnce(&Target) -> Result<()>) -> Result<()> {
    let dir = args.value("--dir")?;
    let id = args.parsed("--node", "the number of a node")?;
    args.finish()?;
    let cluster = match dir {
        Some(dir) => Cluster::open(Path::new(&dir))?,
        None => the_one_meant()?,
    };
    let target = Target { cluster, id };
    target.node()?;
    act(&target)
}

/// All brokers in the default place, but for those that belong to a run of xtask, which ends them itself.
fn every_one() -> Result<Vec<Cluster>> {
    let Ok(entries) = fs::read_dir(folder("")?) else { return Ok(Vec::new()) };
    let dirs = entries.flatten().map(|entry| entry.path()).filter(|dir| !is_locked(dir));
    Ok(dirs.filter_map(|dir| Cluster::open(&dir).ok()).collect())
}

/// The one that runs, or else the only one there is.
fn the_one_meant() -> Result<Cluster> {
    let mut all = every_one()?;
    if all.len() == 1 { Ok(all.remove(0)) } else { the_running_one() }
}

fn the_running_one() -> Result<Cluster> {
    let mut running: Vec<_> = every_one()?.into_iter().filter(Cluster::is_running).collect();
    match running.len() {
        0 => fail(format!(
            "no Kafka runs below {}; --dir DIR names one that is elsewhere",
            folder("")?.display()
        )),
        1 => Ok(running.remove(0)),
        _ => {
            let each =
                running.iter().map(|it| format!("\n  --dir {}  ({})", it.dir().display(), it.bootstrap()));
            misuse(format!("several Kafkas run; name one:{}", each.collect::<String>()))
        }
    }
}

fn how_to_stop(dir: &Path) -> Result<String> {
    let default = dir.parent() == Some(&folder("")?);
    let argument = if default { String::new() } else { format!(" --dir {}", dir.display()) };
    Ok(format!("cargo xtask kafka down{argument}"))
}
