//! `cargo xtask golden`: records what Kafka's own clients, we, and a real broker say to each other, for the tests of
//! ottla-wire.
//!
//! A proxy stands before a broker that tells everybody the proxy's address. Java's tools and the tests that ask a real
//! Kafka everything (`crates/wire/tests/kafka`) go through it; of what it saw, a few exchanges of each API, version and
//! client are kept. Recorded anew, ids and times differ, and nothing else should. The older Kafkas are recorded as the
//! newest is, with the tools of the newest.

mod exchange;
mod files;
mod java;
mod proxy;

use crate::args::Args;
use crate::failure::{Result, misuse};
use crate::kafka::node::Settings;
use crate::kafka::{Kafka, jars, ports};
use crate::versions;
use crate::workspace::{cargo, check, own_binary};
use files::Files;
use proxy::Proxy;

pub(crate) fn run(mut args: Args) -> Result<()> {
    let only = args.value("--version")?;
    args.finish()?;
    let recorded = [jars::NEWEST].into_iter().chain(versions::OLDER);
    let wanted: Vec<_> =
        recorded.filter(|version| only.as_ref().is_none_or(|only| only == version)).collect();
    if wanted.is_empty() {
        return misuse(format!("recorded are {} and {}", jars::NEWEST, versions::OLDER.join(", ")));
    }
    wanted.into_iter().try_for_each(record)?;
    check(cargo().args(["test", "--package", "ottla-wire", "--test", "golden"]))
}

fn record(version: &'static str) -> Result<()> {
    let proxy = Proxy::listen()?;
    let address = proxy.address();
    let advertised = ("advertised.listeners".into(), format!("PLAINTEXT://{address}"));
    let port = ports::free(1)?[0];
    // At once: an old broker is told what it is by a controller who knows this address only.
    let tape = proxy.forward_to(format!("127.0.0.1:{port}"));
    let settings = Settings { version: version.into(), port: Some(port), set: vec![advertised] };
    let kafka = Kafka::start("golden", &settings)?;
    java::play(&address, kafka.dir(), version)?;
    ask_everything(&address, &kafka, version)?;
    drop(kafka);
    let files = Files::of(version);
    files.write(tape.exchanges())?;
    files.write_content(&java::reads(&files.all()?)?)
}

/// Our own questions, in all versions; at last the broker is started anew and asked about that.
fn ask_everything(address: &str, kafka: &Kafka, version: &str) -> Result<()> {
    let package = ["--package", "ottla-wire"];
    let tests = versions::tests_for(version, &package, |_| true)?;
    let mut test = cargo();
    test.arg("test").args(package).args(["--test", "kafka", "--test", "kafka_restart"]);
    // One after the other, so that each finds the same topics every time.
    test.args(["--", "--ignored", "--test-threads=1", "--exact"]).args(versions::names(&tests));
    test.env("OTTLA_TEST_KAFKA", address).env("OTTLA_TEST_KAFKA_RESTART", address);
    test.env("OTTLA_TEST_KAFKA_RESTART_DIR", kafka.dir()).env("OTTLA_XTASK", own_binary());
    check(&mut test)
}
