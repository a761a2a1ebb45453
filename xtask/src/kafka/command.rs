//! `cargo xtask kafka ...`: brokers for people, and for tests that stop and start theirs.

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
        Some("start") => with_node(args, start),
        Some("stop") => stop(args),
        Some("freeze") => with_node(args, |node| node.freeze()),
        Some("thaw") => with_node(args, |node| node.thaw()),
        Some("guard") => with_node(args, guard),
        Some("tool") => tool(args),
        _ => misuse("which one: kafka up, down, start, stop, freeze, thaw or tool? See `cargo xtask help`"),
    }
}

/// Starts a broker, or goes on with the one in that folder, and prints its address.
fn up(mut args: Args) -> Result<()> {
    let version = args.value("--version")?.unwrap_or_else(|| jars::NEWEST.into());
    let port = args.parsed("--port", "a port")?;
    let dir = args.value("--dir")?.map(PathBuf::from);
    let set = args.values("--set")?.iter().map(|text| pair(text)).collect::<Result<_>>()?;
    args.finish()?;
    let dir = dir.map_or_else(|| folder(&version), Ok)?;
    if let Some(running) = Node::open(&dir).ok().filter(|node| node.running().is_some()) {
        let (bootstrap, dir) = (running.bootstrap(), dir.display());
        return fail(format!(
            "the Kafka in {dir} runs already, at {bootstrap}; another one needs its own --dir"
        ));
    }
    let node = Node::create(&dir, &Settings { version, port, set })?;
    start(&node)?;
    eprintln!("Kafka {} is up; to stop it: {}", node.version(), how_to_stop(node.dir())?);
    println!("{}", node.bootstrap());
    Ok(())
}

fn down(mut args: Args) -> Result<()> {
    let (all, delete) = (args.flag("--all"), args.flag("--delete"));
    let dir = args.value("--dir")?.map(PathBuf::from);
    args.finish()?;
    let nodes = match (dir, all) {
        (Some(_), true) => return misuse("--dir or --all, not both"),
        (Some(dir), false) => vec![Node::open(&dir)?],
        (None, true) => every_node()?,
        (None, false) => vec![the_running_one()?],
    };
    nodes.iter().try_for_each(|node| take_down(node, delete))
}

fn take_down(node: &Node, delete: bool) -> Result<()> {
    let dir = node.dir();
    if node.running().is_some() {
        node.stop();
        eprintln!("stopped the Kafka in {}", dir.display());
    }
    if delete {
        fs::remove_dir_all(dir).during(|| format!("removing {}", dir.display()))?;
        eprintln!("removed {}", dir.display());
    }
    Ok(())
}

fn start(node: &Node) -> Result<()> {
    node.start().map(drop)
}

fn stop(mut args: Args) -> Result<()> {
    let kill = args.flag("--kill");
    with_node(args, |node| {
        let end = if kill { Node::kill } else { Node::stop };
        end(node);
        Ok(())
    })
}

/// Waits for the end of who started us, then stops the broker (see [`super::Kafka`]).
fn guard(node: &Node) -> Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink()).during(|| "waiting".into())?;
    if node.running().is_some() {
        node.stop();
        node.remove_data();
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

fn with_node(mut args: Args, act: impl FnOnce(&Node) -> Result<()>) -> Result<()> {
    let dir = args.value("--dir")?;
    args.finish()?;
    match dir {
        Some(dir) => act(&Node::open(Path::new(&dir))?),
        None => misuse("which Kafka? --dir DIR names its folder"),
    }
}

/// All brokers in the default place, but for those that belong to a run of xtask, which ends them itself.
fn every_node() -> Result<Vec<Node>> {
    let Ok(entries) = fs::read_dir(folder("")?) else { return Ok(Vec::new()) };
    let dirs = entries.flatten().map(|entry| entry.path()).filter(|dir| !is_locked(dir));
    Ok(dirs.filter_map(|dir| Node::open(&dir).ok()).collect())
}

fn the_running_one() -> Result<Node> {
    let mut running: Vec<_> = every_node()?.into_iter().filter(|node| node.running().is_some()).collect();
    match (running.pop(), running.is_empty()) {
        (Some(node), true) => Ok(node),
        (Some(_), false) => misuse("several brokers run; name one with --dir, or take --all"),
        (None, _) => fail(format!("no Kafka runs below {}", folder("")?.display())),
    }
}

fn how_to_stop(dir: &Path) -> Result<String> {
    let default = dir.parent() == Some(&folder("")?);
    let argument = if default { String::new() } else { format!(" --dir {}", dir.display()) };
    Ok(format!("cargo xtask kafka down{argument}"))
}
