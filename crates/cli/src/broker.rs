//! `ottla broker`.

use std::net::SocketAddr;

use ottla_broker::{Broker, BrokerOptions, ClusterOptions};

use crate::{
    exit::Exit,
    interrupt::Interrupt,
    plan::BrokerPlan,
    tell::{self, Failure},
};

pub(crate) async fn run(plan: BrokerPlan, mut interrupt: Interrupt) -> Result<Exit, Failure> {
    let address = resolve(&plan.listen).await?;
    let options = BrokerOptions::new(new_cluster().nodes(plan.nodes).like(plan.like)).listen(address);
    let broker = Broker::start(options)
        .await
        .map_err(|error| Failure(format!("cannot listen on {}: {error}", plan.listen)))?;
    for topic in &plan.topics {
        broker.with(|cluster| cluster.create_topic(topic.name.as_str(), topic.partitions))?;
    }
    tell::line(broker.bootstrap())?;
    interrupt.happened().await;
    Ok(Exit::Done)
}

/// A cluster whose topics have ids that no other one gave: a reader that outlives the broker tells by them that what the
/// next broker calls by the same name is another topic.
pub(crate) fn new_cluster() -> ClusterOptions {
    ClusterOptions::new().seed(fastrand::u64(..))
}

async fn resolve(listen: &str) -> Result<SocketAddr, Failure> {
    let found = tokio::net::lookup_host(listen).await;
    let found = found.map_err(|error| Failure(format!("cannot listen on {listen}: {error}")))?;
    found.into_iter().next().ok_or_else(|| Failure(format!("cannot listen on {listen}: it has no address")))
}
