//! What there is at an address where a broker should be.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use ottla::{Address, Options, raw::Connection};
use ottla_wire::message::{ApiVersionsRequest, MetadataResponse, metadata_response::MetadataResponseBroker};
use serde::{Serialize, Serializer};
use tokio::{net::TcpStream, task::JoinSet};

use super::{
    client::{addresses, metadata_request, options},
    release::{Release, release},
};
use crate::tell::Failure;

/// So often a broker is asked something small, and the middle one of its answers counts.
const ROUND_TRIPS: usize = 5;

const NO_NAME: &str = "this machine knows no such name: is it spelt right, and known where this runs?";
const NO_PORT: &str = "nothing listens there: is the port right, and does the broker run?";
const NO_MACHINE: &str = "nothing answers there: a firewall, another network, or no machine at all?";

/// So long a machine gets to show that it is there.
const TCP_LIMIT: Duration = Duration::from_secs(2);

/// Where something should be.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Place {
    /// None for a bootstrap address.
    pub(super) broker: Option<i32>,
    pub(super) rack: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub(super) address: Address,
    /// Who says so, for a broker.
    #[serde(serialize_with = "as_text_or_null")]
    pub(super) advertised_to: Option<Address>,
}

impl Place {
    pub(super) fn bootstrap(address: Address) -> Self {
        Self { broker: None, rack: None, address, advertised_to: None }
    }

    /// "bootstrap", or which broker.
    pub(super) fn who(&self) -> String {
        match (self.broker, &self.rack) {
            (None, _) => "bootstrap".to_owned(),
            (Some(id), None) => format!("broker {id}"),
            (Some(id), Some(rack)) => format!("broker {id}, rack {rack}"),
        }
    }
}

/// The brokers, where the cluster says they are.
pub(super) fn advertised(metadata: &MetadataResponse, to: &Address) -> Vec<Place> {
    let mut brokers: Vec<_> = metadata.brokers.iter().collect();
    brokers.sort_by_key(|broker| broker.node_id);
    let known = addresses(metadata);
    let place = |broker: &MetadataResponseBroker| {
        let address = known.get(&broker.node_id).cloned();
        Place {
            broker: Some(broker.node_id),
            rack: broker.rack.clone(),
            address: address.unwrap_or_else(|| Address { host: broker.host.clone(), port: 0 }),
            advertised_to: Some(to.clone()),
        }
    };
    brokers.into_iter().map(place).collect()
}

/// What was found there.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Visit {
    #[serde(flatten)]
    pub(super) place: Place,
    /// All addresses of the name.
    pub(super) found: Vec<Found>,
    /// The middle one of several.
    pub(super) round_trip_ms: Option<f64>,
    pub(super) kafka: Option<Release>,
    #[serde(skip)]
    pub(super) metadata: Option<MetadataResponse>,
    /// Why it is of no use.
    pub(super) fault: Option<String>,
    /// What that may come from.
    #[serde(skip)]
    tip: Option<&'static str>,
}

/// One address of a name.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Found {
    pub(super) ip: IpAddr,
    /// Why nobody of use is there, if it was tried by itself.
    pub(super) fault: Option<String>,
}

/// All at once, in their order.
pub(super) async fn visit_all(places: Vec<Place>, with_topics: bool) -> Vec<Visit> {
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
        found: look_up(&place.address).await.into_iter().map(|ip| Found { ip, fault: None }).collect(),
        place,
        round_trip_ms: None,
        kafka: None,
        metadata: None,
        fault: None,
        tip: None,
    };
    // The reader's own way to connect, so that what is told is what it would tell.
    match Connection::dial(&visit.place.address, &options).await {
        Ok(mut connection) => {
            let asked = visit.ask(&mut connection, with_topics).await;
            visit.fault = asked.err().map(|Failure(why)| why);
        }
        Err(error) => {
            visit.fault = Some(error.to_string());
            visit.tip = tip(&visit).await;
        }
    }
    if visit.fault.is_none() && visit.found.len() > 1 {
        visit.try_each(&options).await;
    }
    visit
}

/// What stands in the way, as the network shows it to who comes with nothing but TCP.
async fn tip(visit: &Visit) -> Option<&'static str> {
    if visit.found.is_empty() {
        return Some(NO_NAME);
    }
    let addresses: Vec<_> = visit.found.iter().map(|it| (it.ip, visit.place.address.port).into()).collect();
    let connecting = TcpStream::connect::<&[SocketAddr]>(&addresses);
    match tokio::time::timeout(TCP_LIMIT, connecting).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Some(NO_PORT),
        Err(_) => Some(NO_MACHINE),
        Ok(Ok(_) | Err(_)) => None, // it has been told
    }
}

async fn look_up(address: &Address) -> Vec<IpAddr> {
    let Ok(found) = tokio::net::lookup_host((address.host.as_str(), address.port)).await else {
        return Vec::new();
    };
    let found: BTreeSet<IpAddr> = found.map(|at| at.ip()).collect();
    found.into_iter().collect()
}

impl Visit {
    async fn ask(&mut self, connection: &mut Connection, with_topics: bool) -> Result<(), Failure> {
        let versions = ApiVersionsRequest {
            client_software_name: "ottla".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ApiVersionsRequest::default()
        };
        self.kafka = Some(release(&connection.call(&versions).await?));
        let topics = if with_topics { None } else { Some(&[][..]) };
        let metadata = connection.call(&metadata_request(topics)).await?;
        let mut took = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            connection.call(&metadata_request(Some(&[]))).await?;
            took.push(asked.elapsed());
        }
        took.sort_unstable();
        self.round_trip_ms = Some(took[ROUND_TRIPS / 2].as_micros() as f64 / 1e3);
        self.metadata = with_topics.then_some(metadata);
        Ok(())
    }

    /// The reader takes whichever answers first; here each is to show itself.
    async fn try_each(&mut self, options: &Options) {
        for found in &mut self.found {
            let address = Address { host: found.ip.to_string(), port: self.place.address.port };
            let dialled = Connection::dial(&address, options).await;
            found.fault = dialled.err().map(|error| error.to_string());
        }
    }

    pub(super) fn problem(&self) -> Option<String> {
        let fault = self.fault.as_ref()?;
        let remarks: Vec<String> =
            [self.tip.map(str::to_owned), self.advertised()].into_iter().flatten().collect();
        Some(if remarks.is_empty() { fault.clone() } else { format!("{fault} ({})", remarks.join(" ")) })
    }

    fn advertised(&self) -> Option<String> {
        let (to, who) = (self.place.advertised_to.as_ref()?, self.place.who());
        Some(format!(
            "It is the address that {who} advertises, as {to} says: if that runs and this cannot be reached from here, \
             its advertised.listeners are to be changed."
        ))
    }
}

fn as_text<S: Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(address)
}

fn as_text_or_null<S: Serializer>(address: &Option<Address>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => as_text(address, serializer),
        None => serializer.serialize_none(),
    }
}
