//! What was put in has come out: names, offsets, errors, and records with all that they have.

use crate::frames::{self, Exchange};
use crate::reread;
use bytes::{Buf, Bytes};
use ottla_wire::api::{ApiKey, ApiVersions};
use ottla_wire::code::Code;
use ottla_wire::message::*;
use ottla_wire::record::{BatchHeader, Batches, Codec, Control, Decoder, Records};

type Text = Option<&'static str>;

/// Key, value and headers.
type Record = (Text, Text, &'static [(&'static str, Text)]);

/// What Java's ConsoleProducer was given as lines.
const BY_JAVA: [Record; 4] = [
    (Some("key"), Some("value"), &[("one", Some("1")), ("two", Some("2"))]),
    (None, Some("of no key"), &[("none", Some(""))]),
    (Some("of no value"), None, &[("last", Some(""))]),
    (Some(""), Some(""), &[("four", Some("4"))]),
];

/// What our tests write.
const BY_US: [Record; 3] = [
    (None, Some("the first value"), &[]),
    (Some("key"), None, &[("header", Some("one")), ("header", None)]),
    (Some(""), Some(""), &[]),
];

#[test]
fn kafka_speaks_every_version_that_is_spoken_here() {
    for exchange in named(ApiKey::ApiVersions, "versions") {
        if exchange.kafka != frames::NEWEST {
            continue;
        }
        let spoken = ApiVersions::new(&reply::<ApiVersionsRequest>(&exchange));
        for api in ApiKey::ALL {
            let (min, max) = spoken.range(*api).unwrap();
            let here = api.versions();
            assert!(min <= *here.start() && *here.end() <= max, "{exchange}: {api} {min} to {max}");
        }
    }
}

#[test]
fn topics_have_their_names_ids_and_errors() {
    for exchange in named(ApiKey::Metadata, "topics") {
        let reply = reply::<MetadataRequest>(&exchange);
        assert_eq!((reply.brokers[0].node_id, &*reply.brokers[0].host), (1, "127.0.0.1"), "{exchange}");
        let mut topics: Vec<_> = reply.topics.iter().collect();
        topics.sort_by_key(|topic| topic.name.clone());
        let named: Vec<_> = topics
            .iter()
            .map(|topic| (topic.name.as_deref().unwrap(), Code(topic.error_code), topic.partitions.len()))
            .collect();
        let missing = ("golden-missing", Code::UNKNOWN_TOPIC_OR_PARTITION, 0);
        assert_eq!(named, [("golden-described", Code::NONE, 3), missing], "{exchange}");
        assert_eq!(topics[0].topic_id.is_zero(), exchange.version < 10, "{exchange}");
        assert!(topics[0].partitions.iter().all(|partition| partition.leader_id == 1), "{exchange}");
    }
}

#[test]
fn offsets_are_where_they_were_asked_for() {
    for exchange in named(ApiKey::ListOffsets, "offsets") {
        let mut partitions = reply::<ListOffsetsRequest>(&exchange).topics.remove(0).partitions;
        partitions.sort_by_key(|partition| partition.partition_index);
        let offsets: Vec<_> = partitions.iter().map(|partition| partition.offset).collect();
        // The end, the start, from a time on, after all times; the greatest time, the start on the disk, what is kept
        // elsewhere: nothing.
        let known = match exchange.version {
            ..7 => 4,
            7 => 5,
            8 => 6,
            _ => 7,
        };
        assert_eq!(offsets, [3, 0, 1, -1, 2, 0, -1][..known], "{exchange}");
        assert_eq!(partitions[2].timestamp, 1_700_000_000_001, "{exchange}");
    }
}

#[test]
fn records_that_java_writes_are_read() {
    for codec in Codec::ALL {
        for exchange in named(ApiKey::Produce, &format!("java-producer-{codec}")) {
            let (_, mut request) = reread::request::<ProduceRequest>(&exchange.request).unwrap();
            let records = request.topic_data.remove(0).partition_data.remove(0).records.unwrap();
            check(&records, codec, &BY_JAVA);
        }
    }
}

#[test]
fn records_that_kafka_gives_to_java_are_read() {
    for kafka in frames::KAFKAS {
        let mut exchanges = frames::of(kafka, ApiKey::Fetch);
        // Where there is more than those lines.
        exchanges.retain(|exchange| exchange.is_by_java() && exchange.client != "java-reads-committed");
        let topics = exchanges.iter().flat_map(|exchange| reply::<FetchRequest>(exchange).responses);
        let records = topics.filter_map(|mut topic| topic.partitions.remove(0).records);
        let records: Vec<_> = records.filter(|records| !records.is_empty()).collect();
        for codec in Codec::ALL {
            let packed = |records: &&Bytes| BatchHeader::parse(records).unwrap().codec() == Ok(codec);
            assert!(records.iter().any(|records| packed(&records)), "{kafka} {codec}");
            records.iter().filter(packed).for_each(|records| check(records, codec, &BY_JAVA));
        }
    }
}

#[test]
fn records_that_kafka_gives_to_us_are_read() {
    for exchange in named(ApiKey::Fetch, "read") {
        let partitions = reply::<FetchRequest>(&exchange).responses.remove(0).partitions;
        assert_eq!(partitions.len(), Codec::ALL.len(), "{exchange}");
        for partition in partitions {
            assert_eq!((partition.error_code, partition.high_watermark), (0, 3), "{exchange}");
            let codec = Codec::ALL[partition.partition_index as usize];
            check(&partition.records.unwrap(), codec, &BY_US);
        }
    }
}

/// The records of one batch, the first in its partition.
fn check(records: &Bytes, codec: Codec, wanted: &[Record]) {
    let mut batches = Batches::new(records);
    let (header, range) = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none() && batches.tail() == 0);
    assert_eq!((header.codec(), header.base_offset), (Ok(codec), 0));
    let unpacked = unpacked(&header, &records[range]);
    let read: Vec<_> = Records::new(&header, &unpacked).map(Result::unwrap).collect();
    assert_eq!(read.len(), wanted.len());
    for ((offset, record), (key, value, headers)) in (0..).zip(&read).zip(wanted) {
        assert_eq!((record.offset, record.key(), record.value()), (offset, bytes(*key), bytes(*value)));
        let found: Vec<_> =
            record.headers().map(Result::unwrap).map(|header| (header.key, header.value)).collect();
        let wanted: Vec<_> = headers.iter().map(|(key, value)| (key.as_bytes(), bytes(*value))).collect();
        assert_eq!(found, wanted);
    }
}

fn bytes(text: Text) -> Option<&'static [u8]> {
    text.map(str::as_bytes)
}

fn unpacked(header: &BatchHeader, batch: &[u8]) -> Vec<u8> {
    header.check_crc(batch).unwrap();
    let mut unpacked = Vec::new();
    let codec = header.codec().unwrap();
    Decoder::new().decode(codec, &batch[BatchHeader::SIZE..], 1 << 20, &mut unpacked).unwrap();
    unpacked
}

/// Three records and their marker, and once more; then come some that cannot be read yet.
#[test]
fn transactions_come_with_their_markers() {
    for exchange in named(ApiKey::Fetch, "read-committed") {
        let partition = reply::<FetchRequest>(&exchange).responses.remove(0).partitions.remove(0);
        assert_eq!((partition.last_stable_offset, partition.high_watermark), (8, 11), "{exchange}");
        let records = partition.records.unwrap();
        let batches: Vec<_> = Batches::new(&records).map(Result::unwrap).collect();
        let bases: Vec<_> = batches.iter().map(|(header, _)| header.base_offset).collect();
        assert_eq!(bases, [0, 3, 4, 7], "{exchange}");
        let markers = batches.iter().filter(|(header, _)| header.is_control());
        let markers: Vec<_> = markers
            .map(|(header, range)| {
                let marker = unpacked(header, &records[range.clone()]);
                let marker = Records::new(header, &marker).next().unwrap().unwrap();
                Control::parse(marker.key()).unwrap()
            })
            .collect();
        assert_eq!(markers, [Control::Abort, Control::Commit], "{exchange}");
        let aborted = &partition.aborted_transactions.unwrap()[0];
        let of_it: Vec<_> =
            batches.iter().map(|(header, _)| header.producer_id == aborted.producer_id).collect();
        assert_eq!((aborted.first_offset, of_it), (0, vec![true, true, false, false]), "{exchange}");
    }
}

/// KIP-951 and KIP-320: tagged fields, which are seldom there. (2.8.2 was never fenced: its leader stayed.)
#[test]
fn who_is_fenced_hears_of_the_leader_and_who_has_diverged_of_where() {
    let since_3 = &frames::KAFKAS[..2];
    for exchange in named_with(since_3, ApiKey::Fetch, "read-fenced") {
        let reply = reply::<FetchRequest>(&exchange);
        let partition = &reply.responses[0].partitions[0];
        assert_eq!(Code(partition.error_code), Code::FENCED_LEADER_EPOCH, "{exchange}");
        let (leader, hosts) = match exchange.version {
            ..16 => (-1, vec![]),
            _ => (1, vec!["127.0.0.1"]),
        };
        assert_eq!(partition.current_leader.leader_id, leader, "{exchange}");
        let told: Vec<_> = reply.node_endpoints.iter().map(|node| &*node.host).collect();
        assert_eq!(told, hosts, "{exchange}");
    }
    for exchange in named_with(since_3, ApiKey::Fetch, "read-diverged") {
        let diverging = &reply::<FetchRequest>(&exchange).responses[0].partitions[0].diverging_epoch;
        assert_eq!((diverging.epoch, diverging.end_offset), (0, 3), "{exchange}");
    }
}

/// What members of a group tell each other lies in byte fields, each with its version in front.
#[test]
fn what_java_subscribes_to_and_is_assigned_is_read() {
    let joining = named(ApiKey::JoinGroup, "java-classic-member");
    for exchange in &joining {
        let (_, request) = reread::request::<JoinGroupRequest>(&exchange.request).unwrap();
        let mut metadata = request.protocols[0].metadata.clone();
        let version = metadata.get_i16();
        let subscription = reread::message::<ConsumerProtocolSubscription>(&metadata, version).unwrap();
        assert_eq!((version, &*subscription.topics), (3, &["java-none".to_owned()][..]));
    }
    let exchange = &named(ApiKey::SyncGroup, "java-classic-member")[0];
    let mut assignment = reply::<SyncGroupRequest>(exchange).assignment;
    let version = assignment.get_i16();
    let assignment = reread::message::<ConsumerProtocolAssignment>(&assignment, version).unwrap();
    let assigned = &assignment.assigned_partitions[0];
    assert_eq!((&*assigned.topic, &*assigned.partitions), ("java-none", &[0][..]));
}

/// What that client asked of an API; of each Kafka at least once.
fn named(api: ApiKey, client: &str) -> Vec<Exchange> {
    named_with(&frames::KAFKAS, api, client)
}

fn named_with(kafkas: &[&'static str], api: ApiKey, client: &str) -> Vec<Exchange> {
    let of = |&kafka| {
        let mut found = frames::of(kafka, api);
        found.retain(|exchange| exchange.client == client);
        assert!(!found.is_empty(), "{kafka} {api} {client}");
        found
    };
    kafkas.iter().flat_map(of).collect()
}

fn reply<R: Request>(exchange: &Exchange) -> R::Response {
    reread::reply::<R>(exchange.reply.as_ref().unwrap(), exchange.version).unwrap()
}
