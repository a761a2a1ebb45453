//! Serves until interrupted: `serve [ADDRESS] [TOPIC:PARTITIONS].. [--nodes N]`, `127.0.0.1:9092` and one node by default.

use ottla_broker::{Broker, BrokerOptions, ClusterOptions};
use std::error::Error;
use std::net::SocketAddr;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut listen: SocketAddr = "127.0.0.1:9092".parse()?;
    let mut nodes = 1;
    let mut topics = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--nodes" {
            nodes = arguments.next().ok_or("--nodes needs a number")?.parse()?;
        } else if let Ok(address) = argument.parse() {
            listen = address;
        } else {
            let (name, partitions) = argument.split_once(':').ok_or("TOPIC:PARTITIONS wanted")?;
            topics.push((name.to_owned(), partitions.parse()?));
        }
    }
    let cluster = ClusterOptions::new().nodes(nodes).remember_requests(0);
    let broker = Broker::start(BrokerOptions::new(cluster).listen(listen)).await?;
    for (name, partitions) in topics {
        broker.with(|cluster| cluster.create_topic(&name, partitions))?;
    }
    println!("serving at {}", broker.bootstrap());
    tokio::signal::ctrl_c().await?;
    broker.stop().await;
    Ok(())
}
