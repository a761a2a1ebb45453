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
    let seek = ottla("man group seek").run().quietly();
    assert!(seek.text().contains(".TH ottla-group-seek 1"), "{}", seek.text());
    ottla("man write").run().failed("there is no command write");
}
