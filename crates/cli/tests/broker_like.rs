//! `ottla broker --like`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::ottla;

#[test]
fn the_broker_passes_for_older_ones_and_is_written_to_and_read_all_the_same() {
    for kafka in ["2.8", "3.9", "4.4"] {
        let mut broker =
            ottla(&format!("broker --like {kafka} --listen 127.0.0.1:0 --topic orders:2")).start();
        let address = broker.line();
        ottla("produce orders -K :").broker(&address).run_with(b"a:1\nb:2\nc:3\n").done();
        let read = ottla("read orders --until end").broker(&address).run().quietly();
        assert_eq!(read.sorted(), ["1", "2", "3"], "{kafka}");
        let read = ottla("read orders -g billing -n 3").broker(&address).run().done();
        assert_eq!(read.sorted(), ["1", "2", "3"], "{kafka}");
        broker.ends_cleanly_on("INT");
    }
    let refused = ottla("broker --like 2.7").run();
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("2.8, 3.9, 4.4"), "{}", refused.stderr);
}
