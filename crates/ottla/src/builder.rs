//! From a description to a reader; all that is wrong with it comes in one error.

mod group;

use std::{
    marker::PhantomData,
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use ottla_core::{Address, Config, Machine, MissingTopic, OnOutOfRange, Start, Subscription, Until};
use regex_lite::Regex;
use tokio::sync::mpsc;

use crate::{
    connect::Connect,
    driver::Driver,
    error::Error,
    hooks::{Hook, Hooks},
    kind::Partitions,
    options::{Connector, Options},
    reader::Reader,
    shared::Shared,
};

/// Describes a [`Reader`]; see [`Reader::builder`].
///
/// Nothing is checked before [`open`](Self::open), and nothing touches the network there.
#[must_use = "a builder does nothing until it is opened"]
pub struct Builder<K = Partitions> {
    bootstrap: String,
    topics: Vec<String>,
    patterns: Vec<String>,
    partitions: Option<Vec<i32>>,
    config: Config,
    options: Options,
    auto_ack: bool,
    hook: Option<Hook>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Builder<K> {
    fn clone(&self) -> Self {
        Self {
            bootstrap: self.bootstrap.clone(),
            topics: self.topics.clone(),
            patterns: self.patterns.clone(),
            partitions: self.partitions.clone(),
            config: self.config.clone(),
            options: self.options.clone(),
            auto_ack: self.auto_ack,
            hook: self.hook.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> std::fmt::Debug for Builder<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("bootstrap", &self.bootstrap)
            .field("topics", &self.topics)
            .field("patterns", &self.patterns)
            .field("partitions", &self.partitions)
            .field("config", &self.config)
            .field("options", &self.options)
            .field("auto_ack", &self.auto_ack)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(bootstrap: String) -> Self {
        Self {
            bootstrap,
            topics: Vec::new(),
            patterns: Vec::new(),
            partitions: None,
            config: Config::default(),
            options: Options::default(),
            auto_ack: false,
            hook: None,
            kind: PhantomData,
        }
    }
}

/// What all readers have.
impl<K> Builder<K> {
    /// Reads this topic: every partition, also those that are added later, which are read from their beginning.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// Reads these topics, as [`topic`](Self::topic).
    pub fn topics(mut self, topics: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        self
    }

    /// Reads every topic whose whole name matches this regular expression, also those that are created later; may be called
    /// again for more, and beside [`topic`](Self::topic). Kafka's own topics are not among them.
    ///
    /// Every broker's metadata then names all topics of the cluster. New ones are seen within
    /// [`metadata_max_age`](Self::metadata_max_age), and read from their beginning. Look-around is not known, nor are
    /// Unicode classes ([`regex_lite`](https://docs.rs/regex-lite)).
    pub fn topics_matching(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    /// Reads only this partition of the topic; may be called again for more. Not in a group, whose leader assigns them.
    pub fn partition(self, partition: i32) -> Self {
        self.partitions([partition])
    }

    /// Reads only these partitions of the topic, as [`partition`](Self::partition).
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = i32>) -> Self {
        self.partitions.get_or_insert_default().extend(partitions);
        self
    }

    /// Where to begin; [`Start::Earliest`] unless told. With a group: where nothing is committed (`auto.offset.reset`).
    pub fn start(mut self, start: Start) -> Self {
        self.config.start = start;
        self
    }

    /// Where to stop; never unless told. Then `next()` returns `None` when every partition is there. A partition
    /// without a leader, or one that does not exist yet, is waited for; one that failed counts as ended. A time that no
    /// record has reached yet means the end as it is now, not the future. Not with a group.
    pub fn until(mut self, until: Until) -> Self {
        self.config.until = Some(until);
        self
    }

    /// What to do about a topic or partition that does not exist; [`MissingTopic::Wait`] unless told, which is silent
    /// but for the [events](Reader::events). With [`MissingTopic::Fail`] the whole reader fails if any of them is
    /// missing, so that a mistyped name is noticed at once.
    pub fn missing_topic(mut self, missing: MissingTopic) -> Self {
        self.config.missing_topic = missing;
        self
    }

    /// What to do when the log does not hold our offset; [`OnOutOfRange::Nearest`] unless told
    /// (`auto.offset.reset`, but not where to begin). Told as an event each time.
    pub fn on_out_of_range(mut self, policy: OnOutOfRange) -> Self {
        self.config.on_out_of_range = policy;
        self
    }

    /// Tells an outage once as an error, after so many failed rounds over all known brokers in a row. Off unless
    /// told: an outage is waited through, with events.
    pub fn max_attempts(mut self, rounds: u32) -> Self {
        self.config.max_attempts = Some(rounds);
        self
    }

    /// Names this client to the brokers; "ottla" unless told (`client.id`).
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        self.config.client_id.clone_from(&id);
        self.options.client_id = id;
        self
    }

    /// How long a broker may hold a fetch that has nothing to return; 10 s (`fetch.max.wait.ms`). Seeking, resuming and
    /// closing do not wait for it. A broker that had records a moment ago is asked to hold one for a second only, and for
    /// twice as long each time that none come (unless [`min_bytes`](Self::min_bytes) is set). Longer means fewer questions
    /// while nothing comes for long, and that a broker that freezes meanwhile is doubted later: a second after this time.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.config.max_wait = wait;
        self
    }

    /// How many bytes make a broker answer before `max_wait`; 1 (`fetch.min.bytes`). More saves requests and costs
    /// latency.
    pub fn min_bytes(mut self, bytes: i32) -> Self {
        self.config.min_bytes = bytes;
        self
    }

    /// The ceiling for one reply, in bytes; 50 MiB (`fetch.max.bytes`). What is asked for adapts below it, beginning at
    /// 1 MiB. A single batch that is larger comes all the same.
    pub fn max_bytes(mut self, bytes: i32) -> Self {
        self.config.max_bytes = bytes;
        self
    }

    /// The ceiling for one partition in one reply, in bytes; as much as the reply has unless told
    /// (`max.partition.fetch.bytes`).
    pub fn max_partition_bytes(mut self, bytes: i32) -> Self {
        self.config.max_partition_bytes = Some(bytes);
        self
    }

    /// The ceiling for what the reader holds, in bytes; 64 MiB. Messages that the caller keeps count.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.config.budget = bytes;
        self
    }

    /// The most that one compressed batch may unpack to, in bytes; 1 GiB.
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.options.max_batch_bytes = bytes;
        self
    }

    /// The longest frame that is believed, in bytes; 256 MiB.
    pub fn max_frame_bytes(mut self, bytes: usize) -> Self {
        self.options.max_frame_bytes = bytes;
        self
    }

    /// Makes connections by this instead of plain [`Tcp`](crate::Tcp): through a proxy, over a Unix socket, to other
    /// addresses than brokers advertise; or by a `Tcp` that was told something. See [`Connect`].
    pub fn connect(mut self, connector: impl Connect) -> Self {
        self.options.connector = Connector(Arc::new(connector));
        self
    }

    /// How long a connection may take, over all addresses of a broker's name; 5 s
    /// (`socket.connection.setup.timeout.ms`, there 10 s).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// How long a broker may be silent when it owes an answer, on top of what it was allowed to wait; 30 s
    /// (`request.timeout.ms`).
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self.options.request_timeout = timeout;
        self
    }

    /// How often brokers, leaders and partitions are looked up when nothing calls for it; 60 s
    /// (`metadata.max.age.ms`). New partitions are found so.
    pub fn metadata_max_age(mut self, age: Duration) -> Self {
        self.config.metadata_max_age = age;
        self
    }

    /// The shortest and the longest pause after failures; 100 ms to 5 s, doubling, with 20 % jitter
    /// (`retry.backoff.ms`, `retry.backoff.max.ms`).
    pub fn backoff(mut self, pauses: RangeInclusive<Duration>) -> Self {
        (self.config.backoff_min, self.config.backoff_max) = pauses.into_inner();
        self
    }

    /// Opens the reader. It connects in the background.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the configuration, in one error; or that there is no tokio runtime here.
    pub fn open(mut self) -> Result<Reader<K>, Error> {
        let mut faults = Vec::new();
        self.config.bootstrap = self.addresses(&mut faults);
        self.config.subscriptions = self.subscriptions(&mut faults);
        self.config.pattern = self.pattern(&mut faults);
        self.check(&mut faults);
        self.check_group(&mut faults);
        if !faults.is_empty() {
            return Err(Error::config(&faults));
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Error::runtime())?;
        self.bound_durations();
        self.config.start = self.config.start.resolve(SystemTime::now());
        self.config.seed = fastrand::u64(..);
        let (tell, hooks) = self.hook.map(hooks).unzip();
        let shared = Shared::new(Machine::new(Instant::now(), self.config), self.options, tell);
        let driver = runtime.spawn(Driver(shared.clone()).run(hooks));
        Ok(Reader::new(shared, driver, self.auto_ack))
    }

    /// Whoever says `Duration::MAX` means never.
    fn bound_durations(&mut self) {
        for duration in [
            &mut self.config.request_timeout,
            &mut self.config.metadata_max_age,
            &mut self.config.backoff_min,
            &mut self.config.backoff_max,
            &mut self.options.connect_timeout,
            &mut self.options.request_timeout,
            &mut self.options.close_timeout,
        ] {
            *duration = (*duration).min(NEVER);
        }
        if let Some(group) = &mut self.config.group {
            group.commit_interval = group.commit_interval.min(NEVER);
        }
    }

    fn addresses(&self, faults: &mut Vec<String>) -> Vec<Address> {
        let mut addresses = Vec::new();
        for text in self.bootstrap.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            match text.parse() {
                Ok(address) => addresses.push(address),
                Err(fault) => faults.push(format!("bootstrap: {fault}")),
            }
        }
        if addresses.is_empty() && faults.is_empty() {
            faults.push("bootstrap: no broker is named".to_owned());
        }
        addresses
    }

    fn subscriptions(&self, faults: &mut Vec<String>) -> Vec<Subscription> {
        let mut topics: Vec<&String> = self.topics.iter().collect();
        topics.sort();
        topics.dedup();
        if topics.is_empty() && self.patterns.is_empty() {
            faults.push("no topic is named".to_owned());
        }
        faults.extend(topics.iter().filter_map(|topic| topic_fault(topic)));
        if self.partitions.is_some() && !self.patterns.is_empty() {
            faults.push("partitions are named, and topics by a pattern; name one topic".to_owned());
        }
        let partitions = self.partitions.clone().map(|mut partitions| {
            partitions.sort_unstable();
            partitions.dedup();
            partitions
        });
        match &partitions {
            Some(_) if topics.len() > 1 => {
                faults.push(format!(
                    "partitions are named, but {} topics; name one topic, or none of the partitions",
                    topics.len()
                ));
            }
            Some(none) if none.is_empty() => faults.push("the list of partitions is empty".to_owned()),
            Some(some) if some[0] < 0 => faults.push(format!("partition {} is negative", some[0])),
            _ => {}
        }
        let subscription = |topic: &&String| Subscription {
            topic: Arc::from(topic.as_str()),
            partitions: partitions.clone(),
        };
        topics.iter().map(subscription).collect()
    }

    /// One that matches the names that any of the patterns matches whole.
    fn pattern(&self, faults: &mut Vec<String>) -> Option<Regex> {
        let mut any = Vec::new();
        for pattern in &self.patterns {
            let whole = format!("^(?:{pattern})$");
            // First as it was written: what is said of it names places in it.
            match Regex::new(pattern).and_then(|_| Regex::new(&whole)) {
                Ok(_) => any.push(whole),
                Err(error) => faults.push(format!("topics_matching {pattern:?}: {error}")),
            }
        }
        if any.is_empty() {
            return None;
        }
        Regex::new(&any.join("|")).map_err(|error| faults.push(format!("topics_matching: {error}"))).ok()
    }

    fn check(&self, faults: &mut Vec<String>) {
        let (config, options) = (&self.config, &self.options);
        let mut wrong = |is_wrong: bool, fault: String| {
            if is_wrong {
                faults.push(fault);
            }
        };
        if let Start::Offset(offset) = config.start {
            wrong(offset < 0, format!("start offset {offset} is negative"));
        }
        if let Some(Until::Offset(offset)) = config.until {
            wrong(offset < 0, format!("until offset {offset} is negative"));
        }
        if let (Start::Offset(start), Some(Until::Offset(until))) = (config.start, config.until) {
            wrong(start > until, format!("start offset {start} lies beyond until offset {until}"));
        }
        let (min, max) = (config.min_bytes, config.max_bytes);
        wrong(min < 0, format!("min_bytes {min} is negative"));
        wrong(max < 1, format!("max_bytes {max} is not positive"));
        wrong(min > max && max >= 1, format!("min_bytes {min} is more than max_bytes {max}"));
        if let Some(bytes) = config.max_partition_bytes {
            wrong(bytes < 1, format!("max_partition_bytes {bytes} is not positive"));
        }
        let budget = config.budget;
        wrong(budget < 1 << 20, format!("budget {budget} is less than 1 MiB"));
        wrong(
            options.max_frame_bytes < 1 << 10,
            format!("max_frame_bytes {} is less than 1 KiB", options.max_frame_bytes),
        );
        wrong(
            options.max_batch_bytes < 1 << 10,
            format!("max_batch_bytes {} is less than 1 KiB", options.max_batch_bytes),
        );
        let id = config.client_id.len();
        wrong(id > i16::MAX as usize, format!("client_id has {id} bytes, at most 32767 can be sent"));
        wrong(config.max_attempts == Some(0), "max_attempts 0: leave it out to wait for ever".to_owned());
        for (name, value) in [
            ("request_timeout", config.request_timeout),
            ("connect_timeout", options.connect_timeout),
            ("metadata_max_age", config.metadata_max_age),
            ("backoff", config.backoff_min),
        ] {
            wrong(value.is_zero(), format!("{name} is zero"));
        }
        let longest = Duration::from_millis(i32::MAX as u64);
        wrong(config.max_wait > longest, format!("max_wait {:?} is more than {longest:?}", config.max_wait));
        let (min, max) = (config.backoff_min, config.backoff_max);
        wrong(min > max, format!("backoff: the shortest pause {min:?} is longer than the longest {max:?}"));
    }
}

/// Where rebalances are told, and who is told them.
fn hooks(hook: Hook) -> (mpsc::UnboundedSender<ottla_core::Rebalance>, Hooks) {
    let (tell, told) = mpsc::unbounded_channel();
    (tell, Hooks { hook, told })
}

/// Names of topics to subscribe to, if Kafka would take them all.
pub(crate) fn checked_topics(names: impl Iterator<Item = String>) -> Result<Vec<Arc<str>>, Error> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let mut faults: Vec<String> = names.iter().filter_map(|name| topic_fault(name)).collect();
    if names.is_empty() {
        faults.push("no topic is named".to_owned());
    }
    match faults.is_empty() {
        true => Ok(names.into_iter().map(Arc::from).collect()),
        false => Err(Error::argument(faults.join("; "))),
    }
}

/// So long that nobody sees its end, and yet a time that can be added to another.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What Kafka would refuse about a topic's name.
fn topic_fault(topic: &str) -> Option<String> {
    match topic {
        "" => Some("a topic's name is empty".to_owned()),
        name => name_fault("topic", name),
    }
}

/// What Kafka would refuse about a name that is not empty; instance ids follow the same rules.
fn name_fault(what: &str, name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "." | ".." => Some(format!("{what} {name:?} is no name")),
        long if long.len() > 249 => Some(format!("{what} {long:?} has more than 249 characters")),
        name if !name.chars().all(legal) => {
            Some(format!("{what} {name:?} has characters other than letters, digits, '.', '_' and '-'"))
        }
        _ => None,
    }
}
