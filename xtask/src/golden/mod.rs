//! `cargo xtask golden`: records what Kafka's own clients, we, and a real broker say to each other, for the tests of
//! ottla-wire.
//!
//! A proxy stands before a broker that tells everybody the proxy's address. Java's tools and the tests that ask a real
//! Kafka everything (`crates/wire/tests/kafka`) go through it; of what it saw, a few exchanges of each API, version and
//! client are kept. Recorded anew, ids and times differ, and nothing else should.

mod exchange;
mod files;
mod java;
mod proxy;

use crate::args::Args;
use crate::failure::Result;
use crate::kafka::Kafka;
use crate::kafka::node::Settings;
use crate::workspace::{cargo, check, own_binary};
use proxy::Proxy;

pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let proxy = Proxy::listen()?;
    let address = proxy.address();
    let advertised = ("advertised.listeners".into(), format!("PLAINTEXT://{address}"));
    let kafka = Kafka::start("golden", &Settings { set: vec![advertised], ..Settings::default() })?;
    let tape = proxy.forward_to(kafka.bootstrap());
    java::play(&address, kafka.dir())?;
    ask_everything(&address, &kafka)?;
    drop(kafka);
    files::write(tape.exchanges())?;
    files::write_content(&java::reads(&files::all()?)?)?;
    check(cargo().args(["test", "--package", "ottla-wire", "--test", "golden"]))
}

/// Our own questions, in all versions; at last the broker is started anew and asked about that.
fn ask_everything(address: &str, kafka: &Kafka) -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--package", "ottla-wire", "--test", "kafka", "--test", "kafka_restart"]);
    // One after the other, so that each finds the same topics every time.
    test.args(["--", "--ignored", "--test-threads=1"]);
    test.env("OTTLA_TEST_KAFKA", address).env("OTTLA_TEST_KAFKA_RESTART", address);
    test.env("OTTLA_TEST_KAFKA_RESTART_DIR", kafka.dir()).env("OTTLA_XTASK", own_binary());
    check(&mut test)
}
