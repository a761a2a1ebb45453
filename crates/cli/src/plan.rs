//! What was typed, and what it means.

use std::{path::PathBuf, time::SystemTime};

use clap_complete::Shell;
use ottla::{Address, MissingTopic, Start, Until};
use ottla_broker::Like;
use ottla_wire::record::Codec;
use regex_lite::Regex;

use crate::{
    args::{
        self, Api, Args, AssignorName, BenchArgs, BrokerArgs, Command, FilterArgs, GroupArgs, GroupCommand,
        LookArgs, MembershipArgs, NewTopic, OffsetsArgs, ProduceArgs, ReadArgs, StatsForm, Target, Topics,
        TopicsArgs,
    },
    filter::{Filter, Thinning},
    pretty::Layout as JsonLayout,
    row::Kinds,
    shape::Shape,
};

/// What a command is going to do; nothing here is open any more.
#[derive(Debug)]
pub(crate) enum Plan {
    Read(Box<ReadPlan>),
    Topics(TopicsPlan),
    Offsets(OffsetsPlan),
    Doctor(DoctorPlan),
    Produce(ProducePlan),
    Groups(GroupsPlan),
    Group(GroupPlan),
    Bench(BenchPlan),
    Demo { records: u32 },
    Broker(BrokerPlan),
    Completions(Shell),
    Man(Vec<String>),
}

#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) brokers: Vec<Address>,
    /// Named ones, in order, each once.
    pub(crate) topics: Vec<String>,
    /// A regular expression that the whole names of others match.
    pub(crate) pattern: Option<String>,
    /// Of the one topic; in order, each once; none means all.
    pub(crate) partitions: Vec<i32>,
    pub(crate) membership: Option<Membership>,
    pub(crate) start: Start,
    pub(crate) until: Option<Until>,
    pub(crate) missing: MissingTopic,
    /// The last so many of all partitions, instead of those from `start` on.
    pub(crate) tail: Option<u64>,
    pub(crate) filter: Filter,
    pub(crate) thinning: Thinning,
    pub(crate) limit: Option<u64>,
    pub(crate) shape: Shape,
    /// Instead of standard output.
    pub(crate) file: Option<OutputFile>,
    pub(crate) stats: Option<StatsForm>,
}

/// A file to print to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
    /// A new one begins when one has so many bytes.
    pub(crate) rotate: Option<u64>,
}

/// Our part in a group.
#[derive(Debug, PartialEq)]
pub(crate) struct Membership {
    pub(crate) group: String,
    /// None means those that every group understands.
    pub(crate) assignors: Vec<AssignorName>,
    pub(crate) instance: Option<String>,
    pub(crate) commit: bool,
}

#[derive(Debug)]
pub(crate) struct TopicsPlan {
    pub(crate) brokers: Vec<Address>,
    /// To be shown in detail, in order, each once; none means a list.
    pub(crate) names: Vec<String>,
    /// What the whole names of others match.
    pub(crate) pattern: Option<Regex>,
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct OffsetsPlan {
    pub(crate) brokers: Vec<Address>,
    pub(crate) targets: Vec<Target>,
    pub(crate) at: Option<SystemTime>,
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct DoctorPlan {
    pub(crate) brokers: Vec<Address>,
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct ProducePlan {
    pub(crate) brokers: Vec<Address>,
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
    pub(crate) layout: Layout,
    pub(crate) codec: Codec,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

/// What the parts of a line mean.
#[derive(Debug, PartialEq)]
pub(crate) struct Layout {
    /// Never empty.
    pub(crate) separator: Option<Vec<u8>>,
    pub(crate) empty_is_null: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct GroupsPlan {
    pub(crate) brokers: Vec<Address>,
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct GroupPlan {
    pub(crate) brokers: Vec<Address>,
    pub(crate) group: String,
    pub(crate) deed: Deed,
}

/// What to do with a group.
#[derive(Debug, PartialEq)]
pub(crate) enum Deed {
    Show {
        json: bool,
        watch: bool,
    },
    /// Without `yes` it is only told what would be done.
    Seek {
        targets: Vec<Target>,
        start: Start,
        yes: bool,
    },
    Delete {
        yes: bool,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) struct BenchPlan {
    pub(crate) brokers: Vec<Address>,
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
    pub(crate) group: Option<String>,
    pub(crate) count: u64,
    pub(crate) api: Api,
}

#[derive(Debug, PartialEq)]
pub(crate) struct BrokerPlan {
    pub(crate) listen: String,
    pub(crate) nodes: i32,
    pub(crate) topics: Vec<NewTopic>,
    pub(crate) like: Like,
}

impl Plan {
    /// Times ago are counted back from `now`.
    ///
    /// # Errors
    ///
    /// A sentence about what makes no sense.
    pub(crate) fn new(args: Args, now: SystemTime) -> Result<Self, String> {
        let Args { brokers, command } = args;
        Ok(match command {
            Command::Read(args) => Self::Read(Box::new(read(addresses(&brokers)?, *args, now)?)),
            Command::Topics(args) => Self::Topics(topics_plan(addresses(&brokers)?, args)?),
            Command::Offsets(args) => Self::Offsets(offsets(addresses(&brokers)?, args, now)),
            Command::Doctor(args) => {
                Self::Doctor(DoctorPlan { brokers: addresses(&brokers)?, json: args.json })
            }
            Command::Completions(args) => Self::Completions(args.shell),
            Command::Man(args) => Self::Man(args.names),
            Command::Produce(args) => Self::Produce(produce(addresses(&brokers)?, args)),
            Command::Groups(args) => {
                Self::Groups(GroupsPlan { brokers: addresses(&brokers)?, json: args.json })
            }
            Command::Group(args) => Self::Group(group(addresses(&brokers)?, args, now)),
            Command::Bench(args) => Self::Bench(bench(addresses(&brokers)?, args)),
            Command::Demo(args) => Self::Demo { records: args.records },
            Command::Broker(args) => Self::Broker(broker(args)?),
        })
    }
}

fn addresses(brokers: &str) -> Result<Vec<Address>, String> {
    let texts = brokers.split(',').map(str::trim).filter(|text| !text.is_empty());
    let addresses: Vec<Address> = texts.map(address).collect::<Result<_, _>>()?;
    match addresses.is_empty() {
        true => Err("no broker is named: give -b HOST:PORT, or set KAFKA_BROKERS".to_owned()),
        false => Ok(addresses),
    }
}

fn address(text: &str) -> Result<Address, String> {
    match text.split_once("://") {
        Some((scheme, _)) if scheme.contains("SSL") || scheme.contains("SASL") => {
            Err(format!("{text}: there is no TLS and no SASL here yet, only listeners in plain text"))
        }
        Some((_, address)) => Err(format!("write {address} instead of {text}")),
        None => text.parse(),
    }
}

fn read(brokers: Vec<Address>, args: ReadArgs, now: SystemTime) -> Result<ReadPlan, String> {
    let (start, until) = (start(args.from, now), args.until.map(|until| until_of(until, now)));
    check_order(start, until)?;
    let (topics, pattern) = topics(args.topics);
    let FilterArgs { keys, values, headers, skip, sample } = args.filter;
    let mut partitions = args.partitions;
    partitions.sort_unstable();
    partitions.dedup();
    if !partitions.is_empty() && (topics.len() != 1 || pattern.is_some()) {
        return Err("-p names partitions of one topic: name that alone".to_owned());
    }
    Ok(ReadPlan {
        brokers,
        topics,
        pattern,
        partitions,
        membership: membership(args.membership),
        start,
        until,
        // Who names an end wants to get there; who follows can wait.
        missing: if until.is_some() || args.tail.is_some() { MissingTopic::Fail } else { MissingTopic::Wait },
        tail: args.tail,
        filter: Filter { keys, values, headers },
        thinning: Thinning { skip, one_of: sample },
        limit: args.count,
        shape: shape(args.look),
        file: args.file.output.map(|path| OutputFile { path, rotate: args.file.rotate }),
        stats: args.stats,
    })
}

fn shape(args: LookArgs) -> Shape {
    let LookArgs { format, json, key_as: key, value_as: value, raw } = args;
    match (raw, json) {
        (true, _) => Shape::Raw,
        (_, true) => Shape::Json(Kinds { key, value, layout: JsonLayout::default() }),
        _ => Shape::Text(format.unwrap_or_default(), Kinds { key, value, layout: JsonLayout::default() }),
    }
}

fn topics(typed: Vec<Topics>) -> (Vec<String>, Option<String>) {
    let (mut names, mut patterns) = (Vec::new(), Vec::new());
    for topics in typed {
        match topics {
            Topics::Named(name) => names.push(name),
            Topics::Matching(pattern) => patterns.push(pattern),
        }
    }
    names.sort_unstable();
    names.dedup();
    // Builders enclose the whole: one alone stays as it was typed.
    let each = |pattern: &String| format!("(?:{pattern})");
    let pattern = match patterns.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(several.iter().map(each).collect::<Vec<_>>().join("|")),
    };
    (names, pattern)
}

fn topics_plan(brokers: Vec<Address>, args: TopicsArgs) -> Result<TopicsPlan, String> {
    let (names, pattern) = topics(args.topics);
    let pattern = pattern.map(|pattern| Regex::new(&format!("^(?:{pattern})$"))).transpose();
    let pattern = pattern.map_err(|error| error.to_string())?;
    Ok(TopicsPlan { brokers, names, pattern, json: args.json })
}

fn offsets(brokers: Vec<Address>, args: OffsetsArgs, now: SystemTime) -> OffsetsPlan {
    let at = args.at.map(|moment| moment.resolve(now));
    OffsetsPlan { brokers, targets: args.targets, at, json: args.json }
}

fn membership(args: MembershipArgs) -> Option<Membership> {
    // Of protocols there is one yet.
    let MembershipArgs { group, assignors, protocol: _, instance, no_commit } = args;
    Some(Membership { group: group?, assignors, instance, commit: !no_commit })
}

fn start(from: args::From, now: SystemTime) -> Start {
    match from {
        args::From::Earliest => Start::Earliest,
        args::From::Latest => Start::Latest,
        args::From::Offset(offset) => Start::Offset(offset),
        args::From::Last(count) => Start::Last(count),
        args::From::At(moment) => Start::At(moment.resolve(now)),
    }
}

fn until_of(until: args::Until, now: SystemTime) -> Until {
    match until {
        args::Until::End => Until::End,
        args::Until::Offset(offset) => Until::Offset(offset),
        args::Until::At(moment) => Until::At(moment.resolve(now)),
    }
}

/// Refuses an end before the beginning, where that shows without asking a broker. Both at one place read nothing, which
/// is fine: a script may have computed them.
fn check_order(start: Start, until: Option<Until>) -> Result<(), String> {
    match (start, until) {
        (Start::Offset(from), Some(Until::Offset(until))) if from > until => {
            Err(format!("nothing can be read: --from {from} is beyond --until {until}"))
        }
        (Start::At(from), Some(Until::At(until))) if from > until => {
            Err("nothing can be read: the time of --from is after that of --until".to_owned())
        }
        _ => Ok(()),
    }
}

fn produce(brokers: Vec<Address>, args: ProduceArgs) -> ProducePlan {
    ProducePlan {
        brokers,
        topic: args.topic,
        partition: args.partition,
        layout: Layout {
            separator: args.key_separator.map(|separator| separator.0),
            empty_is_null: args.null,
        },
        codec: args.codec,
        headers: args.headers.into_iter().map(|header| (header.name, header.value.into_bytes())).collect(),
    }
}

fn group(brokers: Vec<Address>, args: GroupArgs, now: SystemTime) -> GroupPlan {
    let (group, deed) = match args.command {
        GroupCommand::Show(args) => (args.group, Deed::Show { json: args.json, watch: args.watch }),
        GroupCommand::Seek(args) => {
            let start = start(args.to, now);
            (args.group, Deed::Seek { targets: args.targets, start, yes: args.yes })
        }
        GroupCommand::Delete(args) => (args.group, Deed::Delete { yes: args.yes }),
    };
    GroupPlan { brokers, group, deed }
}

fn bench(brokers: Vec<Address>, args: BenchArgs) -> BenchPlan {
    let BenchArgs { topic, partition, group, count, api } = args;
    BenchPlan { brokers, topic, partition, group, count, api }
}

fn broker(args: BrokerArgs) -> Result<BrokerPlan, String> {
    let BrokerArgs { listen, nodes, topics, like } = args;
    let twice =
        topics.iter().enumerate().find(|(at, topic)| topics[..*at].iter().any(|t| t.name == topic.name));
    match twice {
        Some((_, topic)) => Err(format!("topic {} is named twice", topic.name)),
        None => Ok(BrokerPlan { listen, nodes, topics, like }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn plan(line: &str) -> Result<Plan, String> {
        Plan::new(Args::try_from_line(line.split(' ')).unwrap(), now())
    }

    fn read(line: &str) -> ReadPlan {
        match plan(line) {
            Ok(Plan::Read(plan)) => *plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plain_read_waits_for_its_topic_and_follows() {
        let plan = read("ottla -b kafka:1 read orders");
        assert_eq!(plan.brokers, ["kafka:1".parse().unwrap()]);
        assert_eq!((plan.start, plan.until, plan.missing), (Start::Earliest, None, MissingTopic::Wait));
        assert_eq!((plan.limit, plan.partitions), (None, vec![]));
        assert_eq!(plan.shape, Shape::Text("%s\\n".parse().unwrap(), Kinds::default()));
    }

    #[test]
    fn an_end_makes_a_missing_topic_a_failure() {
        for until in ["end", "5", "@5"] {
            assert_eq!(read(&format!("ottla read orders --until {until}")).missing, MissingTopic::Fail);
        }
        assert_eq!(read("ottla read orders -n 5").missing, MissingTopic::Wait);
    }

    #[test]
    fn times_ago_are_counted_back_once() {
        let plan = read("ottla read orders --from @-15m --until @-1s");
        assert_eq!(plan.start, Start::At(now() - Duration::from_secs(900)));
        assert_eq!(plan.until, Some(Until::At(now() - Duration::from_secs(1))));
        assert_eq!(read("ottla read orders --from -3").start, Start::Last(3));
    }

    #[test]
    fn an_end_before_the_beginning_is_refused() {
        let told = |options: &str| plan(&format!("ottla read orders {options}")).unwrap_err();
        let why = "nothing can be read: --from 5 is beyond --until 2";
        assert_eq!(told("--from 5 --until 2"), why);
        assert!(told("--from @6 --until @5").contains("the time of --from is after"));
        assert!(told("--from @-1m --until @-2m").contains("the time of --from is after"));
        for line in
            ["--from 5 --until 5", "--from @5 --until @5", "--from -5 --until 2", "--from 5 --until @2"]
        {
            read(&format!("ottla read orders {line}"));
        }
    }

    #[test]
    fn topics_come_once_and_patterns_together() {
        let plan = read("ottla read b a b");
        assert_eq!((&plan.topics[..], plan.pattern), (&["a".to_owned(), "b".to_owned()][..], None));
        let plan = read("ottla read -g g /a|b/ c /d.*/");
        assert_eq!(
            (&plan.topics[..], plan.pattern.as_deref()),
            (&["c".to_owned()][..], Some("(?:a|b)|(?:d.*)"))
        );
        assert!(super::tests::plan("ottla read a b -p 1").unwrap_err().contains("one topic"));
        assert!(super::tests::plan("ottla read /a/ -p 1").unwrap_err().contains("one topic"));
    }

    #[test]
    fn a_member_commits_unless_told() {
        assert_eq!(read("ottla read orders").membership, None);
        let plan = read("ottla read -g g orders --instance i");
        let membership = Membership {
            group: "g".to_owned(),
            assignors: Vec::new(),
            instance: Some("i".to_owned()),
            commit: true,
        };
        assert_eq!((plan.membership, plan.until, plan.start), (Some(membership), None, Start::Earliest));
        assert!(!read("ottla read -g g orders --no-commit").membership.unwrap().commit);
    }

    #[test]
    fn partitions_are_sorted_and_come_once() {
        assert_eq!(read("ottla read orders -p 3 -p 0 -p 3").partitions, [0, 3]);
    }

    #[test]
    fn several_brokers_and_bad_ones() {
        let brokers: Vec<String> =
            read("ottla -b a,b:2,,[::1]:3 read x").brokers.iter().map(ToString::to_string).collect();
        assert_eq!(brokers, ["a:9092", "b:2", "[::1]:3"]);
        for (brokers, told) in [("a:x", "\"x\""), (",", "no broker"), ("", "no broker"), ("a:0", "\"0\"")] {
            let error = plan(&format!("ottla -b {brokers} read x")).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_topic_named_twice_is_refused() {
        assert!(plan("ottla broker --topic a:1 --topic b:1 --topic a:2").unwrap_err().contains("topic a"));
    }
}
