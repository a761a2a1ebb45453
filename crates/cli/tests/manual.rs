//! Completions and manual pages.

#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]

mod support;

use support::ottla;

#[test]
fn shells_get_completions() {
    for (shell, begins) in [("bash", "_ottla()"), ("zsh", "#compdef ottla"), ("fish", "# Print an optspec")] {
        let ended = ottla(&format!("completions {shell}")).run().quietly();
        assert!(ended.text().starts_with(begins), "{shell}: {:?}", ended.lines().first());
        for word in ["doctor", "value-as", "roundrobin"] {
            assert!(ended.text().contains(word), "{shell} does not know {word}");
        }
    }
    assert_eq!(ottla("completions csh").run().code, Some(2));
}

/// As bash itself would ask.
#[test]
#[cfg(unix)]
fn bash_completes_by_them() {
    let script = ottla("completions bash").run().quietly().text().to_owned();
    for (words, expected) in [
        ("ottla doc", "doctor"),
        ("ottla read orders --value-a", "--value-as"),
        ("ottla read orders --value-as b", "base64"),
        ("ottla group s", "show seek"),
    ] {
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _ottla ottla \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let told = std::process::Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), expected, "{words}: {told:?}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let whole = ottla("man").run().quietly();
    assert!(
        whole.text().contains(".TH ottla 1") && whole.text().contains("ottla\\-doctor(1)"),
        "{}",
        whole.text()
    );
    let read = ottla("man read").run().quietly();
    assert!(
        read.text().contains(".TH ottla-read 1") && read.text().contains("\\-\\-value\\-as"),
        "{}",
        read.text()
    );
    assert!(
        read.text().contains("\nExamples:\n.nf\n  ottla read orders "),
        "examples are filled: {}",
        read.text()
    );
    let seek = ottla("man group seek").run().quietly();
    assert!(seek.text().contains(".TH ottla-group-seek 1"), "{}", seek.text());
    ottla("man write").run().failed("there is no command write");
}

/// Who comes from kcat or from Kafka's own tools is told all that is different at once.
#[test]
fn flags_of_other_tools_are_explained() {
    let kcat = ottla("-C -b kafka:9092 -t orders -o -10 -e").run();
    assert_eq!((kcat.code, kcat.text()), (Some(2), ""));
    let tips: Vec<&str> = kcat.stderr.lines().filter(|line| line.contains("tip: ")).collect();
    let ours = ["ottla read TOPIC", "behind the command: ottla read orders", "--from -10 ", "--until end"];
    assert_eq!(tips.len(), ours.len(), "{}", kcat.stderr);
    assert!(tips.iter().zip(ours).all(|(tip, ours)| tip.contains(ours)), "{}", kcat.stderr);
    let topic = ottla("orders").run();
    assert!(topic.code == Some(2) && topic.stderr.contains("write ottla read orders"), "{}", topic.stderr);
    let file = ottla("read orders -o beginning").run();
    assert!(file.code == Some(2) && file.stderr.contains("--from earliest"), "{}", file.stderr);
    // Clap's own tips are left where we know nothing better.
    assert!(ottla("read orders --form 5").run().stderr.contains("'--from'"));
}

/// What is no topic, no time or no address is told with what it should have been.
#[test]
fn wrong_values_are_answered_with_right_ones() {
    for (line, told) in [
        ("read orders,refunds", "several are separated by blanks"),
        ("read orders:1", "a partition is named with -p"),
        ("read orders*", "/orders-.*/"),
        ("read orders --from monday", "@yesterday"),
        ("offsets orders --at noon", "'yesterday 08:00'"),
        ("-b PLAINTEXT://kafka:9092 topics", "write kafka:9092 instead of PLAINTEXT://kafka:9092"),
        ("consume orders", "instead of consume write ottla read"),
        ("group billing", "write ottla group show billing"),
    ] {
        let ended = ottla(line).run();
        assert!(ended.code == Some(2) && ended.stderr.contains(told), "{line}: {}", ended.stderr);
    }
}
