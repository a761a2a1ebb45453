//! Which records `ottla read` prints: filters, `--skip`, `--sample`, `--tail`.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use ottla_wire::record::Codec;
use support::Cluster;

/// Three partitions with 100 records each. Record n of partition p has the time 1000 + 3n + p, the key `k{n mod 10}`, the
/// value `{"n":n,"p":p}`, and, if n is a multiple of 25, a header `mark` with the value of n.
fn numbers() -> Cluster {
    let cluster = Cluster::with_orders(3);
    for p in 0..3_i64 {
        for first in [0, 50] {
            cluster.append_batch(p as i32, Codec::Lz4, |batch| {
                for n in first..first + 50_i64 {
                    let (key, value) = (format!("k{}", n % 10), format!("{{\"n\":{n},\"p\":{p}}}"));
                    let text = n.to_string();
                    let marks = [("mark", Some(text.as_bytes()))];
                    let marks = if n % 25 == 0 { &marks[..] } else { &[] };
                    batch.push(1000 + 3 * n + p, Some(key.as_bytes()), Some(value.as_bytes()), marks);
                }
            });
        }
    }
    cluster
}

/// What is printed of each record: `p/n`.
fn read(cluster: &Cluster, options: &str) -> Vec<String> {
    let ended = cluster.ottla(&format!("read orders -f %p/%o\\n {options}")).run().quietly();
    ended.lines().iter().map(ToString::to_string).collect()
}

fn sorted(cluster: &Cluster, options: &str) -> Vec<String> {
    let mut lines = read(cluster, &format!("--until end {options}"));
    lines.sort();
    lines
}

#[test]
fn keys_values_and_headers_are_looked_into() {
    let cluster = numbers();
    assert_eq!(sorted(&cluster, "--key k7 --value \"p\":1").len(), 10);
    assert_eq!(sorted(&cluster, "--value \"n\":77,"), ["0/77", "1/77", "2/77"]);
    assert_eq!(sorted(&cluster, "--value /:9[89],/ --value /p\":2/"), ["2/98", "2/99"]);
    assert_eq!(sorted(&cluster, "--header mark").len(), 12);
    assert_eq!(sorted(&cluster, "--header mark=5 -p 1"), ["1/25", "1/50", "1/75"]);
    assert_eq!(sorted(&cluster, "--header mark=/^50$/ -p 1"), ["1/50"]);
    assert_eq!(sorted(&cluster, "--key nobody"), [""; 0]);
}

#[test]
fn what_is_left_is_skipped_sampled_and_counted() {
    let cluster = numbers();
    let of = |options: &str| read(&cluster, &format!("-p 0 --until end {options}"));
    assert_eq!(of("--key k3 --skip 8"), ["0/83", "0/93"]);
    assert_eq!(of("--sample 1/40"), ["0/0", "0/40", "0/80"]);
    assert_eq!(of("--skip 10 --sample 1/40 -n 2"), ["0/10", "0/50"]);
    assert_eq!(of("--key k3 -n 2"), ["0/3", "0/13"]);
}

#[test]
fn the_tail_is_that_of_all_partitions_by_time() {
    let cluster = numbers();
    assert_eq!(read(&cluster, "--tail 5"), ["1/98", "2/98", "0/99", "1/99", "2/99"]);
    assert_eq!(read(&cluster, "--tail 2 -p 1"), ["1/98", "1/99"]);
    assert_eq!(read(&cluster, "--tail 1000").len(), 300);
}

/// The records that a filter leaves lie further back than the last offsets.
#[test]
fn the_tail_of_what_a_filter_leaves_is_found_however_far_back() {
    let cluster = numbers();
    assert_eq!(read(&cluster, "--tail 2 --value \"n\":7,"), ["1/7", "2/7"]);
    assert_eq!(read(&cluster, "--tail 4 --key k5 --value \"p\":1"), ["1/65", "1/75", "1/85", "1/95"]);
    assert_eq!(read(&cluster, "--tail 4 --key nobody"), [""; 0]);
}

#[test]
fn the_tail_of_an_empty_topic_and_of_a_missing_one() {
    let cluster = Cluster::with_orders(2);
    assert_eq!(read(&cluster, "--tail 3"), [""; 0]);
    cluster.ottla("read ghosts --tail 3").run().failed("topic ghosts does not exist");
    for end in ["--tail 3", "--until end"] {
        cluster.ottla(&format!("read /ghost.*/ {end}")).run().failed("no topic whose whole name matches");
        cluster.ottla(&format!("read /or.*/ {end}")).run().quietly();
    }
}

/// Of a partition whose producers' clocks disagree the order stays.
#[test]
fn the_tail_keeps_the_order_of_a_partition() {
    let cluster = Cluster::with_orders(2);
    for (partition, times) in [(0, &[5000, 1000, 6000][..]), (1, &[5500])] {
        cluster.append_batch(partition, Codec::None, |batch| {
            times.iter().for_each(|&time| _ = batch.push(time, None, Some(b"x"), &[]));
        });
    }
    assert_eq!(read(&cluster, "--tail 4"), ["0/0", "0/1", "1/0", "0/2"]);
}

#[test]
fn a_member_of_a_group_commits_what_its_filter_leaves_out() {
    let cluster = numbers();
    let ended = cluster.ottla("read -g g orders --key k9 -n 30").run().done();
    assert_eq!(ended.lines().len(), 30);
    let committed =
        (0..3).map(|partition| cluster.change(|c| c.committed("g", "orders", partition)).unwrap_or(0));
    assert_eq!(committed.sum::<i64>(), 300);
}
