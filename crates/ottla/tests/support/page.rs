//! `docs/errors.md`: its messages are what tests were told, word for word.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]

use std::{collections::BTreeMap, fs, path::PathBuf};

/// What was said, by the name that the page gives it.
pub type Said = BTreeMap<&'static str, Vec<String>>;

/// Compares what was said with the page, where `<!-- KIND: NAME -->` stands before each block of it. With OTTLA_BLESS=1 it
/// is written there.
pub fn check(kind: &str, said: &Said) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (written, missing) = written(&page, kind, said);
    assert!(missing.is_empty(), "docs/errors.md has no place, or more than one, for {missing:?}");
    if std::env::var_os("OTTLA_BLESS").is_some_and(|bless| bless == "1") {
        fs::write(&path, written).expect("the page can be written");
        return;
    }
    let differences: Vec<String> = page
        .lines()
        .zip(written.lines())
        .filter(|(is, said)| is != said)
        .map(|(is, said)| format!("- {is}\n+ {said}"))
        .take(20)
        .collect();
    assert!(
        page == written,
        "docs/errors.md does not say what is said; OTTLA_BLESS=1 writes it there\n{}",
        differences.join("\n")
    );
}

/// The page with what was said in its blocks; names that have no place there, or places without a name.
fn written(page: &str, kind: &str, said: &Said) -> (String, Vec<String>) {
    let mut missing: Vec<String> = said.keys().map(|name| (*name).to_owned()).collect();
    let mut out = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push(line.to_owned());
        let Some(name) =
            line.strip_prefix(&format!("<!-- {kind}: ")).and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        match (missing.iter().position(|known| known == name), said.get(name)) {
            (Some(at), Some(text)) => {
                missing.swap_remove(at);
                out.push("```text".to_owned());
                out.extend(text.iter().cloned());
                out.push("```".to_owned());
            }
            _ => missing.push(format!("{name} (on the page, not said)")),
        }
        assert_eq!(lines.next(), Some("```text"), "after {line}");
        lines.find(|line| *line == "```").expect("the end of a block");
    }
    (out.join("\n") + "\n", missing)
}

/// Ports that were free are written as 9092, 9093 and so on, in the order in which they appear.
pub fn tidy(text: &str) -> String {
    let mut seen = Vec::<&str>::new();
    let mut out = String::new();
    let mut parts = text.split("127.0.0.1:");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (port, rest) = part.split_at(end);
        let place = seen.iter().position(|known| *known == port).unwrap_or_else(|| {
            seen.push(port);
            seen.len() - 1
        });
        out.push_str(&format!("127.0.0.1:{}{rest}", 9092 + place));
    }
    resolved(&out)
}

/// A machine without a name server says it in other words than one with it.
fn resolved(text: &str) -> String {
    const LOOKUP: &str = "failed to lookup address information: ";
    match text.split_once(LOOKUP) {
        Some((before, after)) => {
            let end = after.find([';', '\n']).unwrap_or(after.len());
            format!("{before}{LOOKUP}Name or service not known{}", &after[end..])
        }
        None => text.to_owned(),
    }
}
