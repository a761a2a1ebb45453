//! What people type who know other tools (kcat, Kafka's own, rpk), and what it is here.

use clap::{Command, CommandFactory};

use crate::args::Args;

/// A flag of another tool that is none of ours.
struct Foreign {
    names: &'static [&'static str],
    takes_value: bool,
    instead: Instead,
}

/// What to do instead; `{}` is the value, and COMMAND ours with which it is.
enum Instead {
    Write(&'static str),
    /// The same, where the value is a place as kcat and Kafka name them.
    WritePlace,
    LeaveAway(&'static str),
}

use Instead::{LeaveAway, Write, WritePlace};

const fn flag(names: &'static [&'static str], instead: Instead) -> Foreign {
    Foreign { names, takes_value: false, instead }
}

const fn option(names: &'static [&'static str], instead: Instead) -> Foreign {
    Foreign { names, takes_value: true, instead }
}

const FLAGS: &[Foreign] = &[
    option(
        &["--bootstrap-server", "--bootstrap-servers", "--broker-list", "--brokers-list", "--server"],
        Write("-b {}"),
    ),
    option(&["--zookeeper"], Write("-b with the address of a broker, as in -b kafka:9092")),
    flag(&["-C", "--consumer"], Write("ottla read TOPIC")),
    flag(&["-P", "--producer"], Write("ottla produce TOPIC")),
    flag(&["-L"], Write("ottla topics, or ottla doctor for the brokers")),
    flag(&["-Q"], Write("ottla offsets TOPIC --at TIME")),
    option(&["-t", "--topic", "--topics"], Write("{}, without a flag, behind the command: COMMAND {}")),
    option(&["--include", "--whitelist"], Write("'/{}/', without a flag, behind the command")),
    option(&["-o", "--offset", "--offsets"], WritePlace),
    flag(&["--from-beginning", "--beginning"], LeaveAway("reading begins at the oldest record")),
    flag(&["-e", "--exit", "--no-follow"], Write("--until end")),
    option(&["--timeout-ms"], Write("--until end")),
    flag(&["--follow"], LeaveAway("what comes is followed, unless --until or --tail says otherwise")),
    option(&["-c", "--max-messages", "--num", "--limit", "--lines"], Write("-n {}")),
    option(&["--last"], Write("--tail {}")),
    option(&["--since", "--after"], Write("--from @TIME, as in --from @-15m")),
    option(&["--before"], Write("--until @TIME, as in --until @2026-11-30T08:00")),
    option(&["--grep", "--filter"], Write("--value '{}', or --key or --header")),
    flag(&["-J"], Write("--json")),
    option(&["-G", "--consumer-group"], Write("-g {}")),
    option(
        &["--property", "--formatter-property", "--formatter", "--print"],
        Write("-f with what is to be printed, as in -f '%T %k %s\\n', or --json"),
    ),
    option(&["-K", "-D"], Write("-f with what is to be printed, as in -f '%k\\t%s\\n'")),
    option(&["-s", "--value-deserializer", "--value-format"], Write("--value-as KIND, or --key-as KIND")),
    option(&["--key-deserializer", "--key-format"], Write("--key-as KIND")),
    flag(&["-q", "--quiet"], LeaveAway("only records go to standard output, all else to standard error")),
    flag(&["-u"], LeaveAway("records are printed as soon as no more are there")),
    flag(&["-E"], LeaveAway("faults of one partition do not end the others")),
    option(&["-d", "--debug"], Write("--stats, or ask ottla doctor")),
    option(&["--isolation-level"], LeaveAway("records of open and aborted transactions are always printed")),
    option(
        &["-X", "-F", "--consumer.config", "--consumer-config", "--consumer-property", "--command-config"],
        LeaveAway("there are no properties; what can be set is in --help"),
    ),
    flag(&["--describe"], Write("ottla topics TOPIC, or ottla group show GROUP")),
    flag(&["--list"], Write("ottla topics, or ottla groups")),
    flag(&["--reset-offsets"], Write("ottla group seek GROUP TOPIC --to WHERE")),
    flag(&["--to-earliest"], Write("--to earliest")),
    flag(&["--to-latest"], Write("--to latest")),
    option(&["--to-offset"], Write("--to {}")),
    option(&["--to-datetime"], Write("--to @TIME, as in --to @2026-11-30T08:00")),
    flag(&["--execute"], Write("--yes")),
    option(&["--time"], Write("--at TIME, as in --at -1h")),
];

const COMMANDS: &[(&[&str], &str)] = &[
    (&["consume", "consumer", "cat", "tail", "follow", "get", "fetch", "view", "print"], "ottla read"),
    (&["list", "ls"], "ottla topics, or ottla groups"),
    (&["describe"], "ottla topics TOPIC, or ottla group show GROUP"),
    (&["topic", "metadata", "create"], "ottla topics"),
    (&["write", "producer", "publish", "send", "put", "push"], "ottla produce"),
    (&["offset", "watermarks", "query"], "ottla offsets"),
    (&["consumer-groups", "consumers"], "ottla groups"),
    (&["lag"], "ottla group show GROUP"),
    (&["reset", "seek"], "ottla group seek GROUP TOPIC --to WHERE"),
    (&["ping", "check", "status", "brokers", "nodes", "cluster", "info", "health"], "ottla doctor"),
    (&["completion"], "ottla completions"),
    (&["version"], "ottla --version"),
    (&["perf", "benchmark"], "ottla bench"),
];

/// For each flag of another tool in a line what to write instead, in their order.
pub(crate) fn flags(line: &[String]) -> Vec<String> {
    let (command, path) = command_of(line);
    let mut tips = Vec::new();
    let mut words = line.iter().skip(1).map(String::as_str).peekable();
    while let Some(word) = words.next() {
        if word.starts_with('-') && is_place(word) {
            tips.push(format!("instead of {word} write {}", place(word))); // as in tail -10
            continue;
        }
        for flag in split(word) {
            let next = words.peek().copied();
            let value = flag.value.or(next).unwrap_or_default();
            let takes_value = match foreign(&flag.name, value, &command) {
                Some(foreign) => {
                    let value = if foreign.takes_value { value } else { "" };
                    tips.push(foreign.tip(&flag.name, value, &path));
                    foreign.takes_value
                }
                None => own_takes_value(&flag.name, &command).unwrap_or(false),
            };
            if takes_value {
                words.next_if(|_| flag.value.is_none());
                break; // the letters behind it were its value
            }
        }
    }
    tips.dedup();
    tips
}

/// What to write instead of a command that there is not.
pub(crate) fn command(name: &str) -> Option<String> {
    let of = COMMANDS.iter().find(|(names, _)| names.contains(&name));
    of.map(|(_, ours)| format!("instead of {name} write {ours}"))
}

/// Who writes a name where a command should be wants to see what has that name.
pub(crate) fn name(name: &str, line: &[String]) -> Option<String> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    is_name.then(|| match line.iter().any(|word| word == "group") {
        true => format!("if {name} is a group, write ottla group show {name}"),
        false => format!("if {name} is a topic, write ottla read {name}"),
    })
}

impl Foreign {
    fn tip(&self, name: &str, value: &str, command: &str) -> String {
        let theirs = format!("{name} {value}");
        let (theirs, value) = (theirs.trim_end(), if value.is_empty() { "VALUE" } else { value });
        match self.instead {
            Write(ours) => {
                let ours = ours.replace("{}", value).replace("COMMAND", command);
                format!("instead of {theirs} write {ours}")
            }
            WritePlace => format!("instead of {theirs} write {}", place(value)),
            LeaveAway(reason) => format!("leave {theirs} away: {reason}"),
        }
    }
}

/// Where kcat's `-o` and Kafka's `--offset` begin, in our words.
pub(crate) fn place(theirs: &str) -> String {
    match theirs {
        "beginning" | "smallest" | "earliest" => "--from earliest".to_owned(),
        "end" | "largest" | "latest" => "--from latest".to_owned(),
        "stored" => "-g GROUP".to_owned(),
        _ => match (theirs.strip_prefix("s@"), theirs.strip_prefix("e@"), theirs.strip_prefix('-')) {
            (Some(time), _, _) => format!("--from @{time}"),
            (_, Some(time), _) => format!("--until @{time}"),
            (_, _, Some(count)) => {
                format!("--from -{count} (of each partition), or --tail {count} (of all together)")
            }
            _ => format!("--from {theirs}"),
        },
    }
}

/// Whether somebody means a place in the log who writes this, and no file.
pub(crate) fn is_place(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(text, "beginning" | "smallest" | "earliest" | "end" | "largest" | "latest" | "stored")
        || is_number(text.strip_prefix('-').unwrap_or(text))
        || text.starts_with("s@")
        || text.starts_with("e@")
}

/// Who has no command yet, as in kcat, wants to read, unless kcat's own flags say otherwise.
fn command_of(line: &[String]) -> (Command, String) {
    let mut root = Args::command();
    root.build();
    let (mut found, mut path) = (&root, "ottla".to_owned());
    for word in line.iter().skip(1) {
        match found.find_subcommand(word) {
            Some(inner) => (found, path) = (inner, format!("{path} {word}")),
            None if found.get_name() != root.get_name() => break,
            None => {}
        }
    }
    if found.get_name() == root.get_name() {
        let says = |flag: &str| line.iter().any(|word| word == flag);
        let default = match (says("-P"), says("-L"), says("-Q")) {
            (true, ..) => "produce",
            (_, true, _) => "topics",
            (.., true) => "offsets",
            _ => "read",
        };
        found = root.find_subcommand(default).unwrap_or(&root);
        path = format!("ottla {default}");
    }
    (found.clone(), path)
}

/// `-o` is ours too: for a file.
fn foreign(name: &str, value: &str, command: &Command) -> Option<&'static Foreign> {
    let is_ours = own_takes_value(name, command).is_some() && !(name == "-o" && is_place(value));
    FLAGS.iter().find(|foreign| !is_ours && foreign.names.contains(&name))
}

/// Whether this flag of ours takes a value; none if it is none of ours.
fn own_takes_value(name: &str, command: &Command) -> Option<bool> {
    let named = |arg: &&clap::Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
    };
    command.get_arguments().find(named).map(|arg| arg.get_action().takes_values())
}

/// A flag as it was typed.
struct Typed<'a> {
    name: String,
    /// What is attached to it.
    value: Option<&'a str>,
}

/// `--long`, `--long=value`, or letters, each of which may be a flag, or the value of the one before.
fn split(word: &str) -> Vec<Typed<'_>> {
    if word.starts_with("--") {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        return vec![Typed { name: name.to_owned(), value }];
    }
    let Some(letters) = word.strip_prefix('-').filter(|letters| letters.is_ascii()) else {
        return Vec::new();
    };
    let flag = |at: usize| {
        let value = &letters[at + 1..];
        Typed { name: format!("-{}", &letters[at..=at]), value: (!value.is_empty()).then_some(value) }
    };
    (0..letters.len()).map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tips(line: &str) -> Vec<String> {
        flags(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_of_kcat() {
        let told = tips("ottla -C -b kafka:9092 -t orders -o -10 -eq -c5 -f %s -X a=b");
        let expected = [
            "instead of -C write ottla read TOPIC",
            "instead of -t orders write orders, without a flag, behind the command: ottla read orders",
            "instead of -o -10 write --from -10 (of each partition), or --tail 10 (of all together)",
            "instead of -e write --until end",
            "leave -q away: only records go to standard output, all else to standard error",
            "instead of -c 5 write -n 5",
            "leave -X a=b away: there are no properties; what can be set is in --help",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_line_of_kafka_console_consumer() {
        let told = tips(
            "ottla --bootstrap-server=k:1 --topic orders --from-beginning --max-messages 5 --partition 3 \
             --offset latest --property print.key=true",
        );
        let expected = [
            "instead of --bootstrap-server k:1 write -b k:1",
            "instead of --topic orders write orders, without a flag, behind the command: ottla read orders",
            "leave --from-beginning away: reading begins at the oldest record",
            "instead of --max-messages 5 write -n 5",
            "instead of --offset latest write --from latest",
            "instead of --property print.key=true write -f with what is to be printed, as in -f '%T %k %s\\n', \
             or --json",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_a_command_knows_is_left_alone() {
        assert_eq!(tips("ottla produce orders -K : -Z -H a=b"), [""; 0]);
        assert_eq!(tips("ottla read orders -o file -n 5 -f -q --key -e"), [""; 0]);
        assert_eq!(tips("ottla broker --topic orders:1"), [""; 0]);
        assert_eq!(tips("ottla produce orders -t x").len(), 1);
        assert!(tips("ottla offsets -t orders")[0].ends_with("ottla offsets orders"));
        assert!(tips("ottla -P -b k:1 -t orders")[1].ends_with("ottla produce orders"));
        assert_eq!(tips("ottla read orders --from -10 -n -5"), [""; 0]);
        let tail = "instead of -10 write --from -10 (of each partition), or --tail 10 (of all together)";
        assert_eq!(tips("ottla read orders -10"), [tail]);
        assert_eq!(tips("ottla group seek g orders --to-earliest --execute").len(), 2);
    }

    #[test]
    fn places_are_told_in_our_words() {
        for (theirs, ours) in [
            ("beginning", "--from earliest"),
            ("end", "--from latest"),
            ("stored", "-g GROUP"),
            ("1000", "--from 1000"),
            ("s@1796025600000", "--from @1796025600000"),
            ("e@1796025600000", "--until @1796025600000"),
        ] {
            assert!(is_place(theirs), "{theirs}");
            assert_eq!(place(theirs), ours);
        }
        for file in ["orders.txt", "./end", "-", "", "5.txt", "ends"] {
            assert!(!is_place(file), "{file}");
        }
    }

    #[test]
    fn commands_of_others() {
        assert_eq!(command("consume").as_deref(), Some("instead of consume write ottla read"));
        assert_eq!(command("orders"), None);
        let told = |line: &[&str]| name("billing", &line.iter().map(|&word| word.into()).collect::<Vec<_>>());
        assert_eq!(told(&["ottla"]).as_deref(), Some("if billing is a topic, write ottla read billing"));
        let group = "if billing is a group, write ottla group show billing";
        assert_eq!(told(&["ottla", "group"]).as_deref(), Some(group));
        let ours = Args::command();
        for (names, _) in COMMANDS {
            assert!(names.iter().all(|name| ours.find_subcommand(name).is_none()), "{names:?}");
        }
    }
}
