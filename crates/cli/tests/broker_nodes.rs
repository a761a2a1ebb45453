//! `ottla broker --nodes`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::ottla;

#[test]
fn every_node_of_the_broker_listens() {
    let mut broker = ottla("broker --nodes 3 --listen 127.0.0.1:0 --topic orders:6").start();
    let addresses = broker.line();
    assert_eq!(addresses.split(',').count(), 3, "{addresses}");
    ottla("produce orders -K :").broker(&addresses).run_with(b"a:1\nb:2\nc:3\nd:4\ne:5\n").done();
    for address in addresses.split(',') {
        let read = ottla("read orders --until end").broker(address).run().quietly();
        assert_eq!(read.sorted(), ["1", "2", "3", "4", "5"], "{address}");
    }
    broker.ends_cleanly_on("INT");
    assert_eq!(ottla("broker --nodes 0").run().code, Some(2));
}
