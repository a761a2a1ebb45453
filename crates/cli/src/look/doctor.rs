//! `ottla doctor`: visits every address and every broker, and says what is wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use ottla::{Address, Code, Options, TopicPartition, raw::Connection};
use ottla_wire::message::{MetadataResponse, metadata_response::MetadataResponseBroker};
use tokio::task::JoinSet;

use super::{
    client::{addresses, metadata_request, options},
    release::release,
};
use crate::{
    exit::Exit,
    partition::ranges,
    plan::DoctorPlan,
    table::{Side, Table},
    tell::{self, Failure, counted},
};

pub(super) async fn run(plan: &DoctorPlan) -> Result<Exit, Failure> {
    let bootstrap: Vec<Place> = plan.brokers.iter().cloned().map(Place::bootstrap).collect();
    let seeds = visit_all(bootstrap, true).await;
    let cluster = seeds.iter().find_map(|visit| visit.metadata.as_ref().map(|metadata| (visit, metadata)));
    let Some((by, metadata)) = cluster else {
        tell::text(&table(&seeds))?;
        return tell_problems(&problems(&seeds));
    };
    let brokers = visit_all(advertised(metadata, &by.place.address), false).await;
    let visits: Vec<Visit> = seeds.iter().cloned().chain(brokers).collect();
    tell::text(&table(&visits))?;
    tell::text(&format!("\n{}", headline(metadata)))?;
    tell::text(&remarks(&visits).collect::<String>())?;
    let mut problems = problems(&visits);
    problems.extend(strangers(&seeds));
    problems.extend(of_cluster(metadata));
    tell_problems(&problems)
}

/// Where something should be.
#[derive(Debug, Clone)]
struct Place {
    /// "bootstrap", or which broker.
    who: String,
    address: Address,
    /// Who says so, for a broker.
    named_by: Option<Address>,
}

impl Place {
    fn bootstrap(address: Address) -> Self {
        Self { who: "bootstrap".to_owned(), address, named_by: None }
    }
}

/// The brokers, where the cluster says they are.
fn advertised(metadata: &MetadataResponse, by: &Address) -> Vec<Place> {
    let rack = |broker: &MetadataResponseBroker| match &broker.rack {
        Some(rack) => format!(", rack {rack}"),
        None => String::new(),
    };
    let mut brokers: Vec<_> = metadata.brokers.iter().collect();
    brokers.sort_by_key(|broker| broker.node_id);
    let known = addresses(metadata);
    let place = |broker: &MetadataResponseBroker| {
        let who = format!("broker {}{}", broker.node_id, rack(broker));
        let address = known.get(&broker.node_id).cloned();
        let address = address.unwrap_or_else(|| Address { host: broker.host.clone(), port: 0 });
        Place { who, address, named_by: Some(by.clone()) }
    };
    brokers.into_iter().map(place).collect()
}

/// What was found there.
#[derive(Debug, Clone)]
struct Visit {
    place: Place,
    /// All addresses of the name; those where nobody answers with their reasons.
    found: Vec<(IpAddr, Option<String>)>,
    round_trip: Option<Duration>,
    kafka: String,
    metadata: Option<MetadataResponse>,
    /// Why it is of no use.
    fault: Option<String>,
}

/// All at once, in their order.
async fn visit_all(places: Vec<Place>, with_topics: bool) -> Vec<Visit> {
    let mut visits = JoinSet::new();
    for (number, place) in places.into_iter().enumerate() {
        visits.spawn(async move { (number, visit(place, with_topics).await) });
    }
    let mut done = BTreeMap::new();
    while let Some(Ok((number, visit))) = visits.join_next().await {
        done.insert(number, visit);
    }
    done.into_values().collect()
}

async fn visit(place: Place, with_topics: bool) -> Visit {
    let options = options();
    let mut visit = Visit {
        found: look_up(&place.address).await.into_iter().map(|ip| (ip, None)).collect(),
        place,
        round_trip: None,
        kafka: String::new(),
        metadata: None,
        fault: None,
    };
    // The reader's own way to connect, so that what is told is what it would tell.
    match Connection::dial(&visit.place.address, &options).await {
        Ok(mut connection) => {
            visit.kafka = release(connection.versions());
            let asked = visit.ask(&mut connection, with_topics).await;
            visit.fault = asked.err().map(|error| error.to_string());
        }
        Err(error) => visit.fault = Some(error.to_string()),
    }
    if visit.fault.is_none() && visit.found.len() > 1 {
        visit.try_each(&options).await;
    }
    visit
}

async fn look_up(address: &Address) -> Vec<IpAddr> {
    let Ok(found) = tokio::net::lookup_host((address.host.as_str(), address.port)).await else {
        return Vec::new();
    };
    let found: BTreeSet<IpAddr> = found.map(|at| at.ip()).collect();
    found.into_iter().collect()
}

impl Visit {
    /// The first answer may have had to warm something up; the second one is timed.
    async fn ask(&mut self, connection: &mut Connection, with_topics: bool) -> Result<(), ottla::Error> {
        let topics = if with_topics { None } else { Some(&[][..]) };
        let metadata = connection.call(&metadata_request(topics)).await?;
        let asked = Instant::now();
        connection.call(&metadata_request(Some(&[]))).await?;
        self.round_trip = Some(asked.elapsed());
        self.metadata = with_topics.then_some(metadata);
        Ok(())
    }

    /// The reader takes whichever answers first; here each is to show itself.
    async fn try_each(&mut self, options: &Options) {
        for (ip, fault) in &mut self.found {
            let address = Address { host: ip.to_string(), port: self.place.address.port };
            let dialled = Connection::dial(&address, options).await;
            *fault = dialled.err().map(|error| error.to_string());
        }
    }

    fn problem(&self) -> Option<String> {
        let fault = self.fault.as_ref()?;
        Some(match &self.place.named_by {
            None => fault.clone(),
            Some(by) => format!(
                "{fault} (the address that {} advertises, as {by} says; can it be reached from here?)",
                self.place.who
            ),
        })
    }
}

fn table(visits: &[Visit]) -> String {
    let (left, right) = (Side::Left, Side::Right);
    let mut table = Table::new(&[
        ("WHO", left),
        ("ADDRESS", left),
        ("FOUND AT", left),
        ("ROUND TRIP", right),
        ("KAFKA", left),
    ]);
    for visit in visits {
        let found: Vec<String> = visit.found.iter().map(|(ip, _)| ip.to_string()).collect();
        let round_trip = visit.round_trip.map(|took| format!("{:.1} ms", took.as_secs_f64() * 1e3));
        table.push([
            visit.place.who.clone(),
            visit.place.address.to_string(),
            found.join(","),
            round_trip.unwrap_or_else(|| "unreachable".to_owned()),
            visit.kafka.clone(),
        ]);
    }
    table.text()
}

fn headline(metadata: &MetadataResponse) -> String {
    let partitions: usize = metadata.topics.iter().map(|topic| topic.partitions.len()).sum();
    let controller = match metadata.brokers.iter().find(|broker| broker.node_id == metadata.controller_id) {
        Some(broker) => format!("controller: broker {}", broker.node_id),
        None => "no controller is known".to_owned(),
    };
    format!(
        "cluster {}: {}, {}, {}; {controller}\n",
        metadata.cluster_id.as_deref().unwrap_or("without a name"),
        counted(metadata.brokers.len(), "broker"),
        counted(metadata.topics.len(), "topic"),
        counted(partitions, "partition")
    )
}

/// What is not as it might be and does no harm: a name with an address too many (`localhost` often has one).
fn remarks(visits: &[Visit]) -> impl Iterator<Item = String> {
    visits.iter().flat_map(|visit| {
        let name = &visit.place.address.host;
        let told = move |(_, fault): &(IpAddr, Option<String>)| {
            fault.as_ref().map(|fault| format!("by the way: of the addresses of {name}, {fault}\n"))
        };
        visit.found.iter().filter_map(told)
    })
}

/// What cannot be reached, each once.
fn problems(visits: &[Visit]) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    for problem in visits.iter().filter_map(Visit::problem) {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// Bootstrap addresses have to lead to one cluster.
fn strangers(seeds: &[Visit]) -> Option<String> {
    let cluster = |visit: &Visit| {
        let metadata = visit.metadata.as_ref()?;
        Some((metadata.cluster_id.clone()?, visit.place.address.clone()))
    };
    let clusters: BTreeMap<String, Address> = seeds.iter().filter_map(cluster).collect();
    let each: Vec<String> = clusters.iter().map(|(id, address)| format!("{id} at {address}")).collect();
    (each.len() > 1)
        .then(|| format!("the bootstrap addresses lead to different clusters: {}", each.join(", ")))
}

/// What the cluster says of itself.
fn of_cluster(metadata: &MetadataResponse) -> Vec<String> {
    let (mut leaderless, mut behind, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for topic in &metadata.topics {
        let name = topic.name.as_deref().unwrap_or_default();
        let code = Code(topic.error_code);
        if code != Code::NONE {
            problems.push(format!("topic {name}: the broker answered {code}"));
        }
        for partition in &topic.partitions {
            let at = TopicPartition::new(name, partition.partition_index);
            if partition.leader_id < 0 {
                leaderless.push(at);
            } else if partition.isr_nodes.len() < partition.replica_nodes.len() {
                behind.push(at);
            }
        }
    }
    let told = |mut at: Vec<TopicPartition>, what: &str| {
        at.sort_unstable();
        (!at.is_empty()).then(|| format!("{what}: {}", ranges(&at)))
    };
    problems.extend(told(leaderless, "without a leader, so that nobody can read or write"));
    problems.extend(told(behind, "with fewer replicas in sync than there should be"));
    problems
}

fn tell_problems(problems: &[String]) -> Result<Exit, Failure> {
    if problems.is_empty() {
        tell::text("\nnothing is wrong\n")?;
        return Ok(Exit::Done);
    }
    let lines: String = problems.iter().map(|problem| format!("- {problem}\n")).collect();
    tell::text(&format!("\n{}:\n{lines}", counted(problems.len(), "problem")))?;
    Ok(Exit::Failed)
}
