//! `cargo xtask bench`: what reading costs, beside the floor. bench/README.md says what is measured and why.

use crate::args::{Args, pair};
use crate::dataset::{self, Size, Topic};
use crate::failure::{During, Result, fail, misuse};
use crate::kafka::Kafka;
use crate::kafka::node::Settings;
use crate::kafka::tools::Tools;
use crate::measure::{self, Sample};
use crate::table::{Table, thousands};
use crate::workspace::{cargo, check, release_ottla, target};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// No client needs as long for one topic.
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn run(args: Args) -> Result<()> {
    let plan = Plan::from_args(args)?;
    let clients = plan.clients()?;
    // Own brokers end with `kafka`, at the end of this function.
    let (kafka, tools) = match &plan.broker {
        Some(address) => (None, Tools::new(address.clone(), target()?)),
        None => {
            let kafka = Kafka::start("bench", &Settings::default())?;
            let tools = kafka.tools();
            (Some(kafka), tools)
        }
    };
    let inputs = plan.inputs(&tools)?;
    let mut all = Map::new();
    for input in &inputs {
        let results = measure_topic(&plan, &clients, input, tools.bootstrap())?;
        println!("{}: {} records\n{}", input.topic.name, thousands(input.records), report(&results).render());
        all.insert(input.topic.name.into(), to_json(input, &results));
    }
    drop(kafka);
    match plan.json {
        Some(path) => {
            std::fs::write(&path, Value::from(all).to_string()).during(|| format!("writing {path}"))
        }
        None => Ok(()),
    }
}

/// What was asked for.
struct Plan {
    rounds: usize,
    size: Size,
    topics: Vec<Topic>,
    only: Vec<String>,
    extra: Vec<(String, String)>,
    broker: Option<String>,
    json: Option<String>,
}

/// A program that reads a whole topic and prints a line of JSON.
enum Client {
    Floor(PathBuf),
    Ottla(PathBuf, &'static str),
    Extra(String, Vec<String>),
}

struct Input {
    topic: Topic,
    records: u64,
}

/// The samples of one client, one a round.
struct Results {
    client: String,
    samples: Vec<Sample>,
}

impl Plan {
    fn from_args(mut args: Args) -> Result<Self> {
        let plan = Self {
            rounds: args.parsed("--rounds", "a number")?.unwrap_or(5),
            size: if args.flag("--quick") { Size::TENTH } else { Size::FULL },
            topics: dataset::named(&args.list("--topics")?)?,
            only: args.list("--only")?,
            extra: args.values("--extra")?.iter().map(|text| pair(text)).collect::<Result<_>>()?,
            broker: args.value("--broker")?,
            json: args.value("--json")?,
        };
        args.finish()?;
        if plan.rounds == 0 { misuse("--rounds wants at least 1") } else { Ok(plan) }
    }

    /// The clients that are wanted, built; the floor always, as everything is told in its measure.
    fn clients(&self) -> Result<Vec<Client>> {
        self.check_names()?;
        let mut clients = vec![Client::Floor(build_floor()?)];
        let own: Vec<_> = ["batch", "message"].into_iter().filter(|name| self.wants(name)).collect();
        if !own.is_empty() {
            let ottla = release_ottla()?;
            clients.extend(own.into_iter().map(|api| Client::Ottla(ottla.clone(), api)));
        }
        for (name, command) in self.extra.iter().filter(|(name, _)| self.wants(name)) {
            clients
                .push(Client::Extra(name.clone(), command.split_whitespace().map(str::to_owned).collect()));
        }
        Ok(clients)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn check_names(&self) -> Result<()> {
        let known = |name: &String| {
            ["floor", "batch", "message"].contains(&name.as_str())
                || self.extra.iter().any(|(extra, _)| extra == name)
        };
        match self.only.iter().find(|name| !known(name)) {
            Some(name) => {
                misuse(format!("there is no client `{name}`; there are floor, batch, message and --extra"))
            }
            None => Ok(()),
        }
    }

    /// The topics with their number of records; those that the broker lacks are made.
    fn inputs(&self, tools: &Tools) -> Result<Vec<Input>> {
        let there = tools.end_offsets()?;
        let missing: Vec<_> =
            self.topics.iter().filter(|topic| !there.contains_key(topic.name)).copied().collect();
        dataset::fill(tools, &target()?.join("bench"), &missing, self.size)?;
        let there = tools.end_offsets()?;
        self.topics
            .iter()
            .map(|topic| {
                let ends = there.get(topic.name).cloned().unwrap_or_default();
                let (name, partitions) = (topic.name, topic.partitions);
                match ends.len() == partitions as usize {
                    true => Ok(Input { topic: *topic, records: ends.values().sum() }),
                    false => fail(format!("topic {name} has {} partitions, not {partitions}", ends.len())),
                }
            })
            .collect()
    }
}

impl Client {
    fn name(&self) -> String {
        match self {
            Self::Floor(_) => "floor".into(),
            Self::Ottla(_, api) => format!("ottla {api}"),
            Self::Extra(name, _) => name.clone(),
        }
    }

    fn command(&self, input: &Input, bootstrap: &str) -> Command {
        let (topic, records) = (input.topic, input.records);
        let as_arguments = |mut command: Command| {
            let which = if topic.partitions == 1 { "part:0" } else { "all" };
            command.args([bootstrap, topic.name, which, &records.to_string()]);
            command
        };
        match self {
            Self::Floor(path) => as_arguments(Command::new(path)),
            Self::Ottla(path, api) => {
                let mut command = measure::ottla_bench(path, topic, records, api);
                command.env("KAFKA_BROKERS", bootstrap);
                command
            }
            Self::Extra(_, words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                as_arguments(command)
            }
        }
    }
}

fn build_floor() -> Result<PathBuf> {
    let built = target()?.join("floor");
    let mut build = cargo();
    build.args([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "bench/floor/Cargo.toml",
        "--target-dir",
    ]);
    check(build.arg(&built))?;
    Ok(built.join("release/floor"))
}

/// All clients in turn, so often; who begins changes from round to round. One read by the floor goes before,
/// unmeasured, for the broker's caches, and says how many bytes there are to read.
fn measure_topic(plan: &Plan, clients: &[Client], input: &Input, bootstrap: &str) -> Result<Vec<Results>> {
    let once = |client: &Client| measure::run(&mut client.command(input, bootstrap), LIMIT);
    let truth = once(&clients[0])?;
    let mut results: Vec<_> =
        clients.iter().map(|client| Results { client: client.name(), samples: Vec::new() }).collect();
    for round in 0..plan.rounds {
        eprintln!("{}: round {} of {}", input.topic.name, round + 1, plan.rounds);
        for turn in 0..clients.len() {
            let at = (round + turn) % clients.len();
            let sample = once(&clients[at])?;
            agrees(&clients[at], input, &truth, &sample)?;
            results[at].samples.push(sample);
        }
    }
    Ok(results)
}

/// A client that reads something else is not slower or faster, but wrong.
fn agrees(client: &Client, input: &Input, truth: &Sample, sample: &Sample) -> Result<()> {
    if (sample.records, sample.bytes) == (input.records, truth.bytes) {
        return Ok(());
    }
    let (name, topic) = (client.name(), input.topic.name);
    fail(format!(
        "{name} read {} records of {} bytes from {topic}, but there are {} of {}",
        sample.records, sample.bytes, input.records, truth.bytes
    ))
}

impl Results {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }

    /// The least and the most CPU time a record, in ns: far apart, the machine was busy with something else.
    fn extremes(&self) -> (f64, f64) {
        let costs = || self.samples.iter().map(Sample::cpu_per_record);
        (costs().fold(f64::MAX, f64::min), costs().fold(0.0, f64::max))
    }
}

fn report(results: &[Results]) -> Table {
    let mut table = Table::new([
        "client",
        "wall s",
        "M rec/s",
        "CPU ns/rec",
        "least",
        "most",
        "first ms",
        "peak MB",
        "wall/floor",
        "CPU/floor",
    ]);
    let (floor_wall, floor_cpu) =
        (results[0].median(|s| s.seconds), results[0].median(Sample::cpu_per_record));
    for result in results {
        let (wall, cpu) = (result.median(|s| s.seconds), result.median(Sample::cpu_per_record));
        let (least, most) = result.extremes();
        table.row([
            result.client.clone(),
            format!("{wall:.3}"),
            format!("{:.2}", result.median(|s| s.records as f64) / wall / 1e6),
            format!("{cpu:.1}"),
            format!("{least:.1}"),
            format!("{most:.1}"),
            format!("{:.1}", result.median(|s| s.first * 1e3)),
            format!("{:.1}", result.median(|s| s.peak_memory as f64) / 1e6),
            format!("{:.2}", wall / floor_wall),
            format!("{:.2}", cpu / floor_cpu),
        ]);
    }
    table
}

fn to_json(input: &Input, results: &[Results]) -> Value {
    let samples = |result: &Results| result.samples.iter().map(Sample::to_json).collect::<Vec<_>>();
    let clients: Map<String, Value> =
        results.iter().map(|result| (result.client.clone(), samples(result).into())).collect();
    json!({ "records": input.records, "clients": clients })
}

/// The middle one, or the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, cpu_millis: u64) -> Sample {
        Sample {
            records: 1_000_000,
            bytes: 100,
            seconds,
            first: 0.002,
            cpu: Duration::from_millis(cpu_millis),
            system: Duration::ZERO,
            peak_memory: 5_000_000,
        }
    }

    fn plan(args: &[&str]) -> Result<Plan> {
        Plan::from_args(Args::new(args.iter().copied()))
    }

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn the_report_gives_ratios_to_the_floor() {
        let results = [
            Results {
                client: "floor".into(),
                samples: vec![sample(0.5, 50), sample(0.4, 40), sample(0.6, 60)],
            },
            Results { client: "ottla batch".into(), samples: vec![sample(1.0, 75)] },
        ];
        let text = report(&results).render();
        let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["floor", "0.500", "2.00", "50.0", "40.0", "60.0", "2.0", "5.0", "1.00", "1.00"]);
        assert_eq!(rows[2][2..], ["1.000", "1.00", "75.0", "75.0", "75.0", "2.0", "5.0", "2.00", "1.50"]);
    }

    #[test]
    fn a_client_that_reads_something_else_fails_the_run() {
        let input = Input { topic: dataset::TOPICS[0], records: 1_000_000 };
        let (client, truth) = (Client::Floor("floor".into()), sample(1.0, 1));
        agrees(&client, &input, &truth, &truth).unwrap();
        let short = Sample { bytes: 99, ..truth.clone() };
        assert!(agrees(&client, &input, &truth, &short).is_err());
        let few = Sample { records: 999_999, ..truth.clone() };
        assert!(agrees(&client, &input, &truth, &few).is_err());
    }

    #[test]
    fn clients_get_their_arguments() {
        let input = Input { topic: dataset::TOPICS[1], records: 7 };
        let shown = |client: Client| crate::workspace::shown(&client.command(&input, "b:1"));
        assert_eq!(shown(Client::Floor("/x/floor".into())), "floor b:1 plain6 all 7");
        assert_eq!(shown(Client::Ottla("ottla".into(), "batch")), "ottla bench plain6 --count 7 --api batch");
        let extra = Client::Extra("peer".into(), vec!["peer".into(), "--fast".into()]);
        assert_eq!(shown(extra), "peer --fast b:1 plain6 all 7");
    }

    #[test]
    fn nonsense_on_the_command_line_is_refused() {
        assert!(plan(&["--rounds", "0"]).is_err());
        assert!(plan(&["--topics", "plain2"]).is_err());
        assert!(plan(&["--extra", "peer"]).is_err());
        assert!(plan(&["--only", "flor"]).unwrap().check_names().is_err());
        let good = plan(&["--only", "floor,peer", "--extra", "peer=cmd a", "--quick"]).unwrap();
        good.check_names().unwrap();
        assert!(!good.wants("batch"));
        assert_eq!(good.size.letters, 500_000);
    }
}
