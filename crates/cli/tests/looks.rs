//! How records look when `ottla read` prints them, and where to.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use std::{fs, path::PathBuf};

use ottla_wire::record::Codec;
use serde_json::{Value, json};
use support::Cluster;

/// A record with the int 7 as its key and JSON as its value, one with a key that is no int, and one of nulls.
fn mixed() -> Cluster {
    let cluster = Cluster::with_orders(1);
    cluster.append_batch(0, Codec::None, |batch| {
        batch.push(0, Some(&7_i32.to_be_bytes()), Some(b"{\"b\": 1, \"a\": [2]}"), &[]);
        batch.push(0, Some(b"odd"), Some(b"{broken"), &[]);
        batch.push(0, None, None, &[]);
    });
    cluster
}

fn read(cluster: &Cluster, options: &str) -> Vec<u8> {
    cluster.ottla(&format!("read orders --until end {options}")).run().quietly().stdout
}

fn text(cluster: &Cluster, options: &str) -> String {
    String::from_utf8(read(cluster, options)).unwrap()
}

#[test]
fn keys_and_values_are_printed_as_what_they_are() {
    let cluster = mixed();
    let lines = text(&cluster, "-f %k|%s\\n --key-as int --value-as json");
    assert_eq!(lines, "7|{\"b\":1,\"a\":[2]}\nodd|{broken\n|\n");
    assert_eq!(text(&cluster, "-f %k|%K\\n --key-as hex"), "00000007|4\n6f6464|3\n|-1\n");
    assert_eq!(text(&cluster, "-f %k\\n --key-as base64"), "AAAABw==\nb2Rk\n\n");
    assert_eq!(text(&cluster, "-f %k\\n --key-as long -n 1"), "\0\0\0\u{7}\n");
}

#[test]
fn json_objects_hold_what_keys_and_values_are() {
    let lines = text(&mixed(), "--json --key-as int --value-as json");
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields: Vec<_> = objects.iter().map(|object| (&object["key"], &object["value"])).collect();
    let expected =
        [(json!(7), json!({"b": 1, "a": [2]})), (json!("odd"), json!("{broken")), (json!(null), json!(null))];
    assert_eq!(fields, expected.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>());
}

#[test]
fn raw_records_stand_behind_their_lengths() {
    let bytes = read(&mixed(), "--raw");
    let expected = [
        &b"\0\0\0\x04\0\0\0\x07\0\0\0\x12{\"b\": 1, \"a\": [2]}"[..],
        b"\0\0\0\x03odd\0\0\0\x07{broken",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    assert_eq!(bytes, expected.concat());
}

/// A directory of its own, gone at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ottla-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn records_go_to_a_file() {
    let (cluster, directory) = (mixed(), Directory::new("file"));
    let file = directory.file("orders.txt");
    fs::write(&file, "something longer than what comes, from before").unwrap();
    assert_eq!(read(&cluster, &format!("-f %k\\n --key-as hex -o {file}")), b"");
    assert_eq!(fs::read_to_string(&file).unwrap(), "00000007\n6f6464\n\n");
    let nowhere = directory.file("none/orders.txt");
    let ended = cluster.ottla(&format!("read orders -o {nowhere}")).run();
    ended.failed(&format!("{nowhere}: No such file"));
}

/// What had room is there, and the exit code says that it is not all.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_with_the_file() {
    let ended = mixed().ottla("read orders --until end -o /dev/full").run();
    ended.failed("cannot write the output: /dev/full: No space left on device");
}

/// The second file cannot be made.
#[test]
fn files_are_rotated_by_size_and_hold_whole_records() {
    let (cluster, directory) = (Cluster::with_orders(1), Directory::new("rotate"));
    let values: Vec<String> = (0..20_000).map(|n| format!("{n:0100}")).collect();
    cluster.append_batch(0, Codec::Lz4, |batch| {
        for value in &values {
            batch.push(0, None, Some(value.as_bytes()), &[]);
        }
    });
    let file = directory.file("orders");
    read(&cluster, &format!("-o {file} --rotate 500k"));
    let mut parts = Vec::new();
    while let Ok(part) = fs::read_to_string(format!("{file}.{}", parts.len() + 1)) {
        assert!(part.ends_with('\n') && part.len() < 512_000 + 200_000, "{}", part.len());
        parts.push(part);
    }
    assert!((3..=4).contains(&parts.len()), "{}", parts.len());
    assert!(parts.concat().lines().eq(values.iter().map(String::as_str)));
    assert!(fs::metadata(&file).is_err());
    // Few records now: those of before in the other files would be taken for theirs.
    let ended = cluster.ottla(&format!("read orders -n 1 -o {file} --rotate 500k")).run();
    ended.failed(&format!("{file}.2 is there already, from an earlier run"));
    assert_eq!(fs::read_to_string(format!("{file}.1")).unwrap(), parts[0]);
}

#[test]
fn stats_tell_what_was_read_and_waited_for() {
    let ended = mixed().ottla("read orders --until end --value b --stats").run().done();
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        lines[0].starts_with("ottla: read 3 records, 32 B of keys and values, from 1 partition in "),
        "{lines:?}"
    );
    assert!(lines[0].ends_with("; printed 2"), "{lines:?}");
    assert!(lines[1].contains(" for brokers and "), "{lines:?}");
    assert!(lines[2].contains(" connections made, 0 lost or refused; "), "{lines:?}");
}

#[test]
fn programs_get_the_stats_as_an_object() {
    let ended = mixed().ottla("read orders --until end --value b --stats=json").run().done();
    let stats: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((&stats["n"], &stats["bytes"], &stats["printed"]), (&json!(3), &json!(32), &json!(2)));
    assert!(stats["secs"].as_f64().unwrap() >= stats["first"].as_f64().unwrap(), "{stats}");
    assert_eq!(ended.lines().len(), 2);
}
