//! `ottla doctor`: visits every address and every broker, and says what is wrong.

use std::collections::BTreeMap;

use ottla::{Address, Code, TopicPartition};
use ottla_wire::message::MetadataResponse;
use serde::Serialize;

use super::visit::{Place, Visit, advertised, visit_all};
use crate::{
    exit::Exit,
    plan::DoctorPlan,
    table::{Side, Table},
    tell::{self, Failure, counted},
    watch::if_elsewhere,
};

pub(super) async fn run(plan: &DoctorPlan) -> Result<Exit, Failure> {
    let findings = examine(plan).await;
    match plan.json {
        true => tell::json(&findings.report())?,
        false => tell::text(&findings.text())?,
    }
    Ok(if findings.problems.is_empty() { Exit::Done } else { Exit::Failed })
}

/// All that was found out.
struct Findings {
    visits: Vec<Visit>,
    /// By the first bootstrap address that could say something.
    cluster: Option<MetadataResponse>,
    problems: Vec<String>,
}

async fn examine(plan: &DoctorPlan) -> Findings {
    let mut visits = visit_all(plan.brokers.iter().cloned().map(Place::bootstrap).collect(), true).await;
    let answered = visits.iter().find_map(|visit| Some((&visit.place.address, visit.metadata.clone()?)));
    let Some((by, metadata)) = answered else {
        let tip = if_elsewhere(&plan.brokers).unwrap_or_default();
        let problems = unreachable(&visits).into_iter().map(|problem| problem + tip).collect();
        return Findings { visits, cluster: None, problems };
    };
    let strangers = strangers(&visits);
    let brokers = visit_all(advertised(&metadata, by), false).await;
    visits.extend(brokers);
    let mut problems = unreachable(&visits);
    problems.extend(strangers);
    problems.extend(of_cluster(&metadata, &visits));
    Findings { visits, cluster: Some(metadata), problems }
}

/// For programs.
#[derive(Debug, Serialize)]
struct Report<'a> {
    cluster: Option<&'a str>,
    controller: Option<i32>,
    topics: usize,
    partitions: usize,
    visits: &'a [Visit],
    problems: &'a [String],
}

impl Findings {
    fn report(&self) -> Report<'_> {
        let metadata = self.cluster.as_ref();
        Report {
            cluster: metadata.and_then(|metadata| metadata.cluster_id.as_deref()),
            controller: metadata.and_then(controller),
            topics: metadata.map_or(0, |metadata| metadata.topics.len()),
            partitions: metadata.map_or(0, partitions),
            visits: &self.visits,
            problems: &self.problems,
        }
    }

    fn text(&self) -> String {
        let mut text = table(&self.visits);
        if let Some(metadata) = &self.cluster {
            text += &format!("\n{}", headline(metadata));
            text.extend(remarks(&self.visits));
        }
        text + &verdict(&self.problems)
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
        let found: Vec<String> = visit.found.iter().map(|found| found.ip.to_string()).collect();
        let round_trip = visit.round_trip_ms.map(|ms| format!("{ms:.1} ms"));
        table.push([
            visit.place.who(),
            visit.place.address.to_string(),
            found.join(","),
            round_trip.unwrap_or_else(|| "unreachable".to_owned()),
            visit.kafka.as_ref().map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    table.text()
}

fn headline(metadata: &MetadataResponse) -> String {
    let controller = match controller(metadata) {
        Some(id) => format!("controller: broker {id}"),
        None => "no controller is known".to_owned(),
    };
    format!(
        "cluster {}: {}, {}, {}; {controller}\n",
        metadata.cluster_id.as_deref().unwrap_or("without a name"),
        counted(metadata.brokers.len(), "broker"),
        counted(metadata.topics.len(), "topic"),
        counted(partitions(metadata), "partition")
    )
}

fn controller(metadata: &MetadataResponse) -> Option<i32> {
    let id = metadata.controller_id;
    metadata.brokers.iter().any(|broker| broker.node_id == id).then_some(id)
}

fn partitions(metadata: &MetadataResponse) -> usize {
    metadata.topics.iter().map(|topic| topic.partitions.len()).sum()
}

/// What is not as it might be and does no harm: a name with an address too many (`localhost` often has one).
fn remarks(visits: &[Visit]) -> impl Iterator<Item = String> {
    visits.iter().flat_map(|visit| {
        let name = &visit.place.address.host;
        let told = move |fault: &String| format!("by the way: of the addresses of {name}, {fault}\n");
        visit.found.iter().filter_map(|found| found.fault.as_ref()).map(told)
    })
}

/// What cannot be reached, each once: of a broker its own visit says more than that of a bootstrap address.
fn unreachable(visits: &[Visit]) -> Vec<String> {
    let mut problems: BTreeMap<String, (bool, String)> = BTreeMap::new();
    for visit in visits {
        let (is_broker, address) = (visit.place.broker.is_some(), visit.place.address.to_string());
        if let Some(problem) = visit.problem()
            && problems.get(&address).is_none_or(|&(of_broker, _)| is_broker && !of_broker)
        {
            problems.insert(address, (is_broker, problem));
        }
    }
    problems.into_values().map(|(_, problem)| problem).collect()
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

/// What the cluster says of itself, and what that comes to where brokers were not reached.
fn of_cluster(metadata: &MetadataResponse, visits: &[Visit]) -> Vec<String> {
    let lost: Vec<i32> =
        visits.iter().filter(|it| it.fault.is_some()).filter_map(|it| it.place.broker).collect();
    let (mut refused, mut unled, mut leaderless, mut behind) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for topic in &metadata.topics {
        let name = topic.name.as_deref().unwrap_or_default();
        let code = Code(topic.error_code);
        if code != Code::NONE {
            refused.push(format!("topic {name}: the broker answered {code}"));
        }
        for partition in &topic.partitions {
            let at = TopicPartition::new(name, partition.partition_index);
            if lost.contains(&partition.leader_id) {
                unled.push(at.clone());
            }
            if partition.leader_id < 0 {
                leaderless.push(at);
            } else if partition.isr_nodes.len() < partition.replica_nodes.len() {
                behind.push(at);
            }
        }
    }
    let told = |at: Vec<TopicPartition>, what: &str| {
        (!at.is_empty()).then(|| format!("{what}: {}", TopicPartition::ranges(&at)))
    };
    let unled = told(unled, "led by a broker that cannot be reached, so that they cannot be read");
    let mut problems: Vec<String> = unled.into_iter().chain(refused).collect();
    problems.extend(told(leaderless, "without a leader, so that nobody can read or write"));
    problems.extend(told(behind, "with fewer replicas in sync than there should be"));
    problems
}

fn verdict(problems: &[String]) -> String {
    if problems.is_empty() {
        return "\nnothing is wrong\n".to_owned();
    }
    let lines: String = problems.iter().map(|problem| format!("- {problem}\n")).collect();
    format!("\n{}:\n{lines}", counted(problems.len(), "problem"))
}
