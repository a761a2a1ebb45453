//! What was typed.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{
    Arg, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, StyledStr, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};
use clap_complete::Shell;
use ottla_broker::Like;
use ottla_wire::record::Codec;

use crate::{
    escape,
    filter::{HeaderPattern, Pattern},
    foreign,
    format::Format,
    help,
    kind::Kind,
    time::Moment,
};

/// Reads Apache Kafka.
#[derive(Debug, Parser)]
#[command(name = "ottla", version, about, after_help = help::ALL, max_term_width = 100)]
pub(crate) struct Args {
    /// Where to find the cluster: HOST:PORT, several with commas between them; HOST alone means port 9092.
    #[arg(short, long, global = true, env = "KAFKA_BROKERS", default_value = "localhost:9092")]
    pub(crate) brokers: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the records of topics, and follows them.
    #[command(after_help = help::READ)]
    Read(Box<ReadArgs>),
    /// Lists topics; of those that are named, each partition with its leader, replicas and offsets.
    #[command(after_help = help::TOPICS)]
    Topics(TopicsArgs),
    /// Shows from where to where the partitions of a topic reach, and which offset a time has.
    #[command(after_help = help::OFFSETS)]
    Offsets(OffsetsArgs),
    /// Connects to every broker, and says what is wrong with a cluster or with the way to it.
    #[command(after_help = help::DOCTOR)]
    Doctor(DoctorArgs),
    /// Writes each line of standard input to a topic, as a record.
    #[command(after_help = help::PRODUCE)]
    Produce(ProduceArgs),
    /// Lists the consumer groups of the cluster.
    #[command(after_help = help::GROUPS)]
    Groups(GroupsArgs),
    /// Shows a consumer group, moves its offsets, or deletes it.
    #[command(after_help = help::GROUP)]
    Group(GroupArgs),
    /// Reads a number of records as fast as it can, and prints how fast as a line of JSON.
    #[command(after_help = help::BENCH)]
    Bench(BenchArgs),
    /// Shows it all without a Kafka: fills the embedded broker with a million records and reads them back.
    #[command(after_help = help::DEMO, arg = unlisted_brokers())]
    Demo(DemoArgs),
    /// Runs the embedded broker, which keeps everything in memory, until it is interrupted.
    #[command(after_help = help::BROKER, arg = unlisted_brokers())]
    Broker(BrokerArgs),
    /// Prints a script by which a shell completes this command.
    #[command(after_help = help::COMPLETIONS, arg = unlisted_brokers())]
    Completions(CompletionsArgs),
    /// Prints the manual page of this command, or of one of its commands.
    #[command(after_help = help::MAN, arg = unlisted_brokers())]
    Man(ManArgs),
}

/// In the place of the global `-b`: help leaves it out, and [`Args::try_from_line`] refuses it with a reason.
fn unlisted_brokers() -> Arg {
    Arg::new("brokers").short('b').long("brokers").hide(true)
}

impl Args {
    /// Takes apart what was typed; the first is the name of the program.
    ///
    /// # Errors
    ///
    /// Help, the version, or what was wrong.
    pub(crate) fn try_from_line(
        line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(&line);
        let mut matches = matches.map_err(|error| with_tips(error, &line))?;
        let is_typed = matches.value_source("brokers") == Some(ValueSource::CommandLine);
        let args = Self::from_arg_matches_mut(&mut matches)?;
        match args.command {
            Command::Demo(_) | Command::Broker(_) if is_typed => Err(command.error(
                ErrorKind::ArgumentConflict,
                "this command runs a broker of its own: leave --brokers away",
            )),
            _ => Ok(args),
        }
    }
}

/// Tells who knows another tool what to write here.
fn with_tips(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let line: Vec<String> = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let tips: Vec<_> = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) => {
            let is_like_ours = error.get(ContextKind::SuggestedSubcommand).is_some();
            let guess = || foreign::name(name, &line).filter(|_| !is_like_ours);
            foreign::command(name).or_else(guess).into_iter().collect()
        }
        (ErrorKind::UnknownArgument, _) => foreign::flags(&line),
        _ => Vec::new(),
    };
    if !tips.is_empty() {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = tips.into_iter().map(StyledStr::from).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    /// The topics to read, by name, or as /REGEX/ all whose whole names match it.
    #[arg(value_name = "TOPIC", required = true)]
    pub(crate) topics: Vec<Topics>,
    /// Only this partition of the topic; can be given several times. [default: all of them]
    #[arg(
        short,
        long = "partition",
        value_name = "N",
        value_parser = clap::value_parser!(i32).range(0..),
        conflicts_with = "group"
    )]
    pub(crate) partitions: Vec<i32>,
    #[command(flatten)]
    pub(crate) membership: MembershipArgs,
    /// Where to begin: earliest, latest, an offset, -N for the last N offsets of each partition, or @TIME.
    #[arg(long, value_name = "WHERE", default_value = "earliest", allow_hyphen_values = true)]
    pub(crate) from: From,
    /// Where to stop: end (the end as it was at the start), an offset or @TIME, both exclusive. [default: never]
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, conflicts_with = "group")]
    pub(crate) until: Option<Until>,
    /// The last so many records of all partitions together, in the order of their times; then stop.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = some::<u64>,
        allow_negative_numbers = true,
        conflicts_with_all = ["from", "until", "count", "group", "skip", "sample"]
    )]
    pub(crate) tail: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Stop after so many records are printed, over all partitions.
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = some::<u64>, allow_negative_numbers = true)]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) look: LookArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Tell at the end, on standard error, what was read, waited for and tried again.
    #[arg(
        long,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text",
        conflicts_with = "tail"
    )]
    pub(crate) stats: Option<StatsForm>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsForm {
    /// In words.
    Text,
    /// A JSON object on a line.
    Json,
}

/// How records are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct LookArgs {
    /// How a record looks; the letters are below. [default: %s\n]
    #[arg(short, long, conflicts_with = "json", allow_hyphen_values = true)]
    pub(crate) format: Option<Format>,
    /// Print each record as a JSON object on a line of its own.
    #[arg(long)]
    pub(crate) json: bool,
    /// What keys are; one that is something else is printed as it is.
    #[arg(long, value_name = "KIND", default_value = "string")]
    pub(crate) key_as: Kind,
    /// What values are; one that is something else is printed as it is.
    #[arg(long, value_name = "KIND", default_value = "string")]
    pub(crate) value_as: Kind,
    /// Print keys and values as bytes, each behind its length, for programs; see below.
    #[arg(long, conflicts_with_all = ["format", "json", "key_as", "value_as"])]
    pub(crate) raw: bool,
}

/// Where records are printed to.
#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// Print to this file, which is overwritten, instead of to standard output.
    #[arg(short, long, value_name = "FILE", value_parser = file)]
    pub(crate) output: Option<PathBuf>,
    /// Begin a new file (FILE.1, FILE.2, ...) when one has so many bytes, or up to 128 KiB more; knows k, M, G.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "output")]
    pub(crate) rotate: Option<u64>,
}

/// Which records are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only records whose key holds this text, or matches; given several times, all of them.
    #[arg(long = "key", value_name = "TEXT|/REGEX/", allow_hyphen_values = true)]
    pub(crate) keys: Vec<Pattern>,
    /// Only records whose value holds this text, or matches; given several times, all of them.
    #[arg(long = "value", value_name = "TEXT|/REGEX/", allow_hyphen_values = true)]
    pub(crate) values: Vec<Pattern>,
    /// Only records with this header, or with one whose value holds this text, or matches.
    #[arg(long = "header", value_name = "NAME[=TEXT|/REGEX/]")]
    pub(crate) headers: Vec<HeaderPattern>,
    /// Leave out the first so many of them.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) skip: u64,
    /// Print one of each so many of them.
    #[arg(long, value_name = "1/N", value_parser = sample, default_value = "1/1", hide_default_value = true)]
    pub(crate) sample: u64,
}

/// How to be a member of a group.
#[derive(Debug, clap::Args)]
pub(crate) struct MembershipArgs {
    /// Read as a member of this group: share the partitions, begin where it was left, commit what is printed.
    #[arg(short, long, value_parser = group_name)]
    pub(crate) group: Option<String>,
    /// How the group may assign partitions, the most wanted first. [default: range,roundrobin]
    #[arg(long = "assignor", value_name = "NAME", value_delimiter = ',', requires = "group")]
    pub(crate) assignors: Vec<AssignorName>,
    /// How members are kept together.
    #[arg(long, default_value = "classic", requires = "group")]
    pub(crate) protocol: Protocol,
    /// Be a static member of this name: who comes back with it within 45 s has its partitions again.
    #[arg(long, value_name = "ID", requires = "group")]
    pub(crate) instance: Option<String>,
    /// Be a member, but commit nothing.
    #[arg(long, requires = "group")]
    pub(crate) no_commit: bool,
}

/// Assignors that all clients know by these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AssignorName {
    /// Neighbouring partitions of each topic.
    Range,
    /// One by one, over all topics.
    #[value(name = "roundrobin")]
    RoundRobin,
    /// Balanced, and as few moves as can be.
    Sticky,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// JoinGroup and SyncGroup, as all brokers know it.
    Classic,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TopicsArgs {
    /// Topics to show in detail, by name; /REGEX/ lists those whose whole names match it. [default: list all]
    #[arg(value_name = "TOPIC")]
    pub(crate) topics: Vec<Topics>,
    /// Print each topic, with its partitions, as a JSON object on a line of its own.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OffsetsArgs {
    /// The topic, or one partition of it; several can be given.
    #[arg(value_name = "TOPIC[:PARTITION]", required = true)]
    pub(crate) targets: Vec<Target>,
    /// Show the first record that is not older than this time, and how many follow from there.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    pub(crate) at: Option<Moment>,
    /// Print each partition as a JSON object on a line of its own.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProduceArgs {
    /// The topic to write to; it must exist.
    #[arg(value_parser = topic_name)]
    pub(crate) topic: String,
    /// Write to this partition, whatever the key.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
    /// What separates key and value; a line without it has no key (null). Knows \t, \n and \xNN.
    #[arg(short = 'K', long, value_name = "SEPARATOR", allow_hyphen_values = true)]
    pub(crate) key_separator: Option<Separator>,
    /// An empty value is null (a tombstone).
    #[arg(short = 'Z', long)]
    pub(crate) null: bool,
    /// How batches are compressed.
    #[arg(short = 'z', long, default_value = "none", value_parser = codec())]
    pub(crate) codec: Codec,
    /// A header for each record; can be given several times.
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE")]
    pub(crate) headers: Vec<NamedValue>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupsArgs {
    /// Print each group as a JSON object on a line of its own.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Shows its members, and how far it is in each partition.
    #[command(after_help = help::GROUP_SHOW)]
    Show(GroupShowArgs),
    /// Sets the offsets from which it reads on; shows what it would do, and does it with --yes.
    #[command(after_help = help::GROUP_SEEK)]
    Seek(GroupSeekArgs),
    /// Deletes it with its offsets; shows what it would do, and does it with --yes.
    #[command(after_help = help::GROUP_DELETE)]
    Delete(GroupDeleteArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupShowArgs {
    /// The group's name.
    #[arg(value_parser = group_name)]
    pub(crate) group: String,
    /// Print a JSON object on a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it anew every two seconds, until interrupted.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupSeekArgs {
    /// The group's name; one that does not exist is made.
    #[arg(value_parser = group_name)]
    pub(crate) group: String,
    /// The topic, or one partition of it; several can be given.
    #[arg(value_name = "TOPIC[:PARTITION]", required = true)]
    pub(crate) targets: Vec<Target>,
    /// Where to go: earliest, latest, an offset, -N for the last N offsets of each partition, or @TIME.
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub(crate) to: From,
    /// Do it.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupDeleteArgs {
    /// The group's name.
    #[arg(value_parser = group_name)]
    pub(crate) group: String,
    /// Do it.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// The topic to read.
    #[arg(value_parser = topic_name)]
    pub(crate) topic: String,
    /// Only this partition. [default: all of them]
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = clap::value_parser!(i32).range(0..),
        conflicts_with = "group"
    )]
    pub(crate) partition: Option<i32>,
    /// As a member of this group, from where it was left; what is read is acknowledged, in whole batches unless --api message, and committed.
    #[arg(short, long, value_parser = group_name)]
    pub(crate) group: Option<String>,
    /// How many records to read, from the beginning; fewer are an error.
    #[arg(long, value_parser = some::<u64>, allow_negative_numbers = true)]
    pub(crate) count: u64,
    /// Which of the library's two ways to use.
    #[arg(long, default_value = "batch")]
    pub(crate) api: Api,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// Batches, whose records are borrowed (`next_batch`).
    Batch,
    /// Messages, each owned (`next`).
    Message,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// How many records to write and read.
    #[arg(long, default_value_t = 1_000_000, value_parser = some::<u32>, allow_negative_numbers = true)]
    pub(crate) records: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Where to listen; port 0 takes a free one. The address is printed.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092")]
    pub(crate) listen: String,
    /// How many nodes the cluster has; each listens on the port after the one before.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100))]
    pub(crate) nodes: i32,
    /// A topic to begin with; can be given several times.
    #[arg(long = "topic", value_name = "NAME:PARTITIONS")]
    pub(crate) topics: Vec<NewTopic>,
    /// Which Kafka it passes for: 2.8, 3.9 or 4.4. It offers that one's APIs, in that one's versions.
    #[arg(long, value_name = "KAFKA", default_value_t = Like::V4_4)]
    pub(crate) like: Like,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print it all as a JSON object on a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    pub(crate) shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Of which command.
    #[arg(value_name = "COMMAND")]
    pub(crate) names: Vec<String>,
}

/// `--from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Earliest,
    Latest,
    Offset(i64),
    Last(u64),
    At(Moment),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => return Ok(Self::Earliest),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if let Some(time) = text.strip_prefix('@') {
            return time.parse().map(Self::At);
        }
        let parsed = match text.strip_prefix('-') {
            Some(last) => digits(last).map(Self::Last),
            None => digits(text).map(Self::Offset),
        };
        let parsed = parsed.or_else(|| forgotten_at(text).map(Self::At));
        parsed.ok_or_else(|| {
            "write earliest, latest, an offset, -N or @TIME (as in @-15m, @yesterday or @2026-11-30T08:00)".to_owned()
        })
    }
}

/// `--until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    End,
    Offset(i64),
    At(Moment),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "end" {
            return Ok(Self::End);
        }
        if let Some(time) = text.strip_prefix('@') {
            return time.parse().map(Self::At);
        }
        let parsed = digits(text).map(Self::Offset).or_else(|| forgotten_at(text).map(Self::At));
        parsed.ok_or_else(|| match text.strip_prefix('-').and_then(digits::<u64>) {
            Some(_) => "--until knows no -N: write end, an offset or @TIME".to_owned(),
            None => "write end, an offset or @TIME (as in @-15m, @now or @2026-11-30T08:00)".to_owned(),
        })
    }
}

/// What can be nothing else is a time also without its `@`. `-15m` is not: one letter less, and it is the last 15
/// offsets.
fn forgotten_at(text: &str) -> Option<Moment> {
    let is_number = text.strip_prefix('-').unwrap_or(text).starts_with(|first: char| first.is_ascii_digit());
    let is_time = if is_number { text.contains([':', '-']) && !text.starts_with('-') } else { true };
    is_time.then(|| text.parse().ok())?
}

/// A time, with or without the `@` that stands before it elsewhere.
fn time(text: &str) -> Result<Moment, String> {
    text.strip_prefix('@').unwrap_or(text).parse()
}

/// The N of `1/N`.
fn sample(text: &str) -> Result<u64, String> {
    let of = text.strip_prefix("1/").and_then(digits).filter(|&of: &u64| of > 0);
    of.ok_or_else(|| "write 1/N, as in 1/100".to_owned())
}

/// Where records go. In other tools `-o` is where they come from.
fn file(text: &str) -> Result<PathBuf, String> {
    match text {
        "json" => Err("to print JSON write --json; if it is a file, write ./json".to_owned()),
        _ if foreign::is_place(text) => {
            Err(format!("where to begin is {}; if it is a file, write ./{text}", foreign::place(text)))
        }
        _ => Ok(text.into()),
    }
}

/// `100`, `64k`, `10M` or `1G`.
fn size(text: &str) -> Result<u64, String> {
    let (count, unit) = match text.strip_suffix(['k', 'K', 'M', 'G']) {
        Some(count) => (count, &text[count.len()..]),
        None => (text, ""),
    };
    let shift = match unit {
        "" => 0,
        "M" => 20,
        "G" => 30,
        _ => 10,
    };
    let size = digits::<u64>(count).and_then(|count| count.checked_mul(1 << shift)).filter(|&size| size > 0);
    size.ok_or_else(|| "write a number of bytes, or one with k, M or G, as in 64M".to_owned())
}

/// A number without a sign.
fn digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// How many, at least one.
fn some<N: FromStr + Default + PartialEq>(text: &str) -> Result<N, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<N>() {
        Ok(count) if count == N::default() => Err("that would be nothing; the least is 1".to_owned()),
        Ok(count) if is_number => Ok(count),
        Err(_) if is_number => Err("that is more than can be counted".to_owned()),
        _ => Err("write a number, 1 or more".to_owned()),
    }
}

/// `TOPIC`, or `/REGEX/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Topics {
    Named(String),
    Matching(String),
}

impl FromStr for Topics {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            Some("") => Err("between the slashes stands a regular expression, as in /orders-.*/".to_owned()),
            // In the reader's words and by its engine, only earlier.
            Some(pattern) => match regex_lite::Regex::new(pattern) {
                Ok(_) => Ok(Self::Matching(pattern.to_owned())),
                Err(error) => Err(format!("/{pattern}/ is no regular expression: {error}")),
            },
            None => topic_name(text).map(Self::Named),
        }
    }
}

/// A name that a topic can have, by the rule of `org.apache.kafka.common.internals.Topic`.
fn topic_name(text: &str) -> Result<String, String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match text {
        "" | "." | ".." => Err("no topic can be called that".to_owned()),
        _ if text.len() > 249 => Err("a topic's name has 249 characters at most".to_owned()),
        _ if !text.bytes().all(is_legal) => {
            let tip = match text.bytes().find(|&byte| !is_legal(byte)) {
                Some(b',') => "; several are separated by blanks",
                Some(b':' | b'/') => {
                    "; a partition is named with -p, a pattern between slashes, as in /orders-.*/"
                }
                Some(b'*' | b'?' | b'[' | b'(' | b'^') => {
                    "; a pattern stands between slashes, as in /orders-.*/"
                }
                _ => "",
            };
            Err(format!("a topic's name has only letters, digits and . _ -{tip}"))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Anything but nothing: Kafka has no further rule.
fn group_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a group's name has a character at least".to_owned()),
        _ if text.len() > i16::MAX as usize => Err("no broker takes a name that long".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// `TOPIC` or `TOPIC:PARTITION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Err("no pattern is taken here: each topic is named".to_owned());
        }
        let Some((topic, partition)) = text.split_once(':') else {
            return Ok(Self { topic: topic_name(text)?, partition: None });
        };
        let partition =
            digits(partition).ok_or("behind the colon stands a partition's number, as in orders:3")?;
        Ok(Self { topic: topic_name(topic)?, partition: Some(partition) })
    }
}

/// What stands between key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Separator(pub(crate) Vec<u8>);

impl FromStr for Separator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match escape::resolve(text)? {
            bytes if bytes.is_empty() => Err("a separator needs a character at least".to_owned()),
            bytes => Ok(Self(bytes)),
        }
    }
}

/// `NAME=VALUE`; the name ends at the first `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for NamedValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// `NAME:PARTITIONS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
}

impl FromStr for NewTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, partitions) = text.rsplit_once(':').ok_or("write NAME:PARTITIONS, as in orders:6")?;
        let partitions = digits(partitions).filter(|&count| count > 0);
        let partitions = partitions.ok_or("the number of partitions is behind the colon, 1 at least")?;
        Ok(Self { name: topic_name(name)?, partitions })
    }
}

fn codec() -> impl TypedValueParser<Value = Codec> {
    PossibleValuesParser::new(["none", "gzip", "snappy", "lz4", "zstd"]).try_map(|name| name.parse::<Codec>())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn parse(line: &str) -> Args {
        Args::try_from_line(line.split_whitespace()).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn read(line: &str) -> ReadArgs {
        match parse(line).command {
            Command::Read(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definitions_hold_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn read_has_its_defaults() {
        let args = read("ottla read orders");
        assert_eq!(args.topics, [Topics::Named("orders".to_owned())]);
        assert_eq!((args.from, args.until, args.count, args.look.json), (From::Earliest, None, None, false));
        assert!(args.partitions.is_empty() && args.look.format.is_none());
    }

    #[test]
    fn every_place_to_begin() {
        let time = Moment::At(UNIX_EPOCH + Duration::from_millis(5));
        for (text, from) in [
            ("earliest", From::Earliest),
            ("latest", From::Latest),
            ("0", From::Offset(0)),
            ("9223372036854775807", From::Offset(i64::MAX)),
            ("-1", From::Last(1)),
            ("-100", From::Last(100)),
            ("@5", From::At(time)),
            ("@-15m", From::At(Moment::Ago(Duration::from_secs(900)))),
            ("1970-01-01T00:00:00.005Z", From::At(time)),
            ("now", From::At(Moment::Ago(Duration::ZERO))),
        ] {
            assert_eq!(read(&format!("ottla read orders --from {text} -n 1")).from, from);
            assert_eq!(read(&format!("ottla read orders --from={text}")).from, from);
        }
    }

    #[test]
    fn every_place_to_stop() {
        let time = Moment::At(UNIX_EPOCH + Duration::from_millis(5));
        for (text, until) in [("end", Until::End), ("7", Until::Offset(7)), ("@5", Until::At(time))] {
            assert_eq!(read(&format!("ottla read orders --until {text}")).until, Some(until));
        }
    }

    #[test]
    fn brokers_stand_before_or_behind_the_command() {
        assert_eq!(parse("ottla -b a:1,b:2 read orders").brokers, "a:1,b:2");
        assert_eq!(parse("ottla read -b a:1,b:2 orders").brokers, "a:1,b:2");
    }

    #[test]
    fn who_runs_a_broker_of_its_own_refuses_another() {
        for line in [
            "ottla -b a:1 demo",
            "ottla demo -b a:1",
            "ottla --brokers a:1 broker",
            "ottla broker --brokers=localhost:9092",
            "ottla broker --listen [::1]:0 -ba:1",
        ] {
            let error = Args::try_from_line(line.split_whitespace()).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains("runs a broker of its own"), "{line}: {error}");
        }
    }

    #[test]
    fn produce_takes_all_its_options() {
        let line = r"ottla produce orders -p 3 -K \t -Z -z zstd -H a=1 -H b=2=3 -H c=";
        let Command::Produce(args) = parse(line).command else { panic!() };
        assert_eq!((args.partition, args.null, args.codec), (Some(3), true, Codec::Zstd));
        assert_eq!(args.key_separator, Some(Separator(b"\t".to_vec())));
        let headers: Vec<_> = args.headers.iter().map(|h| (h.name.as_str(), h.value.as_str())).collect();
        assert_eq!(headers, [("a", "1"), ("b", "2=3"), ("c", "")]);
    }

    #[test]
    fn a_member_of_a_group_has_its_options() {
        let args = read("ottla read -g g a /b.*/ --assignor sticky,range --instance i --no-commit");
        let topics = [Topics::Named("a".to_owned()), Topics::Matching("b.*".to_owned())];
        assert_eq!(args.topics, topics);
        let membership = args.membership;
        assert_eq!(membership.group.as_deref(), Some("g"));
        assert_eq!(membership.assignors, [AssignorName::Sticky, AssignorName::Range]);
        assert_eq!((membership.instance.as_deref(), membership.no_commit), (Some("i"), true));
    }

    #[test]
    fn a_seek_goes_to_topics_and_partitions() {
        let line = "ottla group seek billing orders refunds:12 --to -5 --yes";
        let Command::Group(GroupArgs { command: GroupCommand::Seek(args) }) = parse(line).command else {
            panic!()
        };
        assert_eq!((args.group.as_str(), args.to, args.yes), ("billing", From::Last(5), true));
        let targets: Vec<_> = args.targets.iter().map(|t| (t.topic.as_str(), t.partition)).collect();
        assert_eq!(targets, [("orders", None), ("refunds", Some(12))]);
    }

    #[test]
    fn topics_for_the_broker() {
        let Command::Broker(args) = parse("ottla broker --topic a:1 --topic b:12 --listen [::1]:0").command
        else {
            panic!()
        };
        let topics: Vec<_> =
            args.topics.iter().map(|topic| (topic.name.as_str(), topic.partitions)).collect();
        assert_eq!((topics, args.listen.as_str()), (vec![("a", 1), ("b", 12)], "[::1]:0"));
    }

    #[test]
    fn topics_have_the_names_that_kafka_allows() {
        let long = "x".repeat(249);
        for name in ["a", "A.b_c-9", "...", &long] {
            assert_eq!(topic_name(name).as_deref(), Ok(name));
        }
        for name in ["", ".", "..", "a b", "a/b", "a:b", "gr\u{fc}n", &format!("{long}x")] {
            assert!(topic_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "ottla",
            "ottla write x",
            "ottla read",
            "ottla read a/b",
            "ottla read /a",
            "ottla read //",
            "ottla read /(/",
            "ottla read /a)(b/",
            "ottla read a --value-as float",
            "ottla read a --raw --json",
            "ottla read a --raw -f %s",
            "ottla read a --raw --key-as int",
            "ottla read a --rotate 5",
            "ottla read a -o f --rotate 0",
            "ottla read a -o f --rotate 5T",
            "ottla read a --tail 0",
            "ottla read a --tail 5 -n 3",
            "ottla read a --tail 5 --from -5",
            "ottla read a --tail 5 --skip 1",
            "ottla read a --tail 5 -g g",
            "ottla read a --key /(/",
            "ottla read a --header =x",
            "ottla read a --skip -1",
            "ottla read a --sample 2/3",
            "ottla read a --sample 1/0",
            "ottla topics /[/",
            "ottla topics a/b",
            "ottla offsets",
            "ottla offsets /a/",
            "ottla offsets a:x",
            "ottla offsets a --at noon",
            "ottla read a -g g -p 1",
            "ottla read a -g g --until end",
            "ottla read a --instance i",
            "ottla read a --no-commit",
            "ottla read a --assignor range",
            "ottla read a -g g --assignor fair",
            "ottla read a -g g --protocol consumer",
            "ottla bench a --count 1 -g g -p 1",
            "ottla produce ..",
            "ottla bench a/b --count 1",
            "ottla broker --topic a/b:1",
            "ottla read a -p -1",
            "ottla read a -p x",
            "ottla read a -n 0",
            "ottla read a -n -5",
            "ottla read a --from first",
            "ottla read a --from --5",
            "ottla read a --from +5",
            "ottla read a --from 1.5",
            "ottla read a --from @",
            "ottla read a --from 9223372036854775808",
            "ottla read a --until latest",
            "ottla read a --until -5",
            "ottla read a -f %q",
            "ottla read a -f %s --json",
            "ottla produce a -z lzma",
            "ottla produce a -H novalue",
            "ottla produce a -p 1 -p 2",
            "ottla doctor a",
            "ottla completions",
            "ottla completions csh",
            "ottla broker --like 1.0",
            "ottla groups a",
            "ottla group",
            "ottla group show",
            "ottla group show a b",
            "ottla group seek g",
            "ottla group seek g a",
            "ottla group seek g --to latest",
            "ottla group seek g a:x --to latest",
            "ottla group seek g a:-1 --to latest",
            "ottla group seek g a/b --to latest",
            "ottla group seek g a --to first",
            "ottla group delete",
            "ottla bench a",
            "ottla bench a --count 0",
            "ottla bench a --count 5 --api fast",
            "ottla demo --records 0",
            "ottla broker --topic a",
            "ottla broker --topic a:0",
            "ottla broker --topic a:x",
            "ottla -C -b a:1 -t b",
            "ottla read a -o -10",
            "ottla read a -o end",
            "ottla read a -o json",
            "ottla read a -f json",
            "ottla read a -10",
        ] {
            let error = Args::try_from_line(line.split_whitespace()).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        assert!(Args::try_from_line(["ottla", "produce", "a", "-K", ""]).is_err());
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            for command in command.get_subcommands() {
                let path = format!("{path} {}", command.get_name());
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains(&path), "{path}: {help}");
                check(command, &path);
            }
        }
        check(&Args::command(), "ottla");
    }
}
