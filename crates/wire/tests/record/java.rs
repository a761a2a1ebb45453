//! Kafka's own code reads what is written here.

use std::process::Command;

use ottla_wire::record::{BatchBuilder, Codec, Control};

use crate::dump::dump;
use crate::golden::{directory, golden, names, rewrite};
use crate::{LIMIT, read};

/// Needs Java 17 and the libraries of an Apache Kafka:
/// `KAFKA_LIBS=.../libs cargo test -p ottla-wire --test record -- --ignored java`
#[test]
#[ignore = "needs Java 17 and KAFKA_LIBS, the libs directory of an Apache Kafka 4.4.0"]
fn java_reads_what_we_write() {
    let bytes = all_batches();
    let file = std::env::temp_dir().join(format!("ottla-record-{}.bin", std::process::id()));
    std::fs::write(&file, &bytes).unwrap();
    let read = java_dump(&file);
    std::fs::remove_file(&file).unwrap();
    let expected = dump(&bytes).unwrap();
    assert!(expected.lines().count() > 500);
    assert!(read == expected, "Java reads\n{read}instead of\n{expected}");
}

fn java_dump(file: &std::path::Path) -> String {
    let libs = std::env::var("KAFKA_LIBS").expect("KAFKA_LIBS names the libs directory of an Apache Kafka");
    let output = Command::new("java")
        .args(["-cp", &format!("{libs}/*")])
        .arg(directory().join("Batches.java"))
        .arg("dump")
        .arg(file)
        .output()
        .expect("java runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every golden batch written anew in every codec, and what only a broker writes.
fn all_batches() -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in names() {
        let (batches, _) = read(&golden(&name), LIMIT).unwrap();
        for mut batch in batches {
            for codec in Codec::ALL {
                batch.codec = codec;
                let batch = rewrite(&batch);
                // Java's reader wants a compressed stream even where there is no record.
                if !batch.is_empty() || codec == Codec::None {
                    bytes.extend(batch.build().unwrap());
                }
            }
        }
    }
    let mut marker = BatchBuilder::new(Codec::None);
    marker.producer(7, 1, -1).transactional(true).control(true);
    marker.push(1, Some(&Control::Abort.key()), Some(&Control::value(3)), &[]);
    bytes.extend(marker.build().unwrap());
    bytes
}
