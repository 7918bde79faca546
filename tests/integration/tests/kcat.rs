//! kcat as distributions ship it: librdkafka 2.0.2, which reads features out of the advertised versions.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use integration::clock::unix_ms;
use integration::rdkafka_load::read_each;
use integration::{Broker, Codec, Content, Options, Shape, content, programs, settings, topics};
use serde::Deserialize;

const TOPIC: &str = "kcat";
const PARTITIONS: i32 = 8;
const WAIT: Duration = Duration::from_secs(60);

/// kcat's timestamps are its own; the rest of the rule it can follow, in text.
const CONTENT: Content = Content { shape: Shape::Text, first_timestamp_ms: 0 };

#[derive(Debug, Deserialize)]
struct Line {
    partition: i32,
    offset: u64,
    ts: i64,
    key: String,
    payload: String,
    headers: Vec<String>,
}

#[test]
fn every_codec_comes_back_byte_for_byte() {
    round_trip(&Options::new("kcat-codecs"));
}

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    round_trip(&Options::new("kcat-node-codecs").with_one_port());
}

fn round_trip(options: &Options) {
    // kcat makes a topic by writing to it, with as many partitions as the broker gives one that doesn't say.
    let broker = Broker::start_with(&options.clone().with_kafka("num.partitions = 8"));
    let share = content::records_per_codec(settings::records(), PARTITIONS);
    let start_ms = unix_ms();
    for (turn, codec) in (0..).zip(Codec::ALL) {
        for partition in 0..PARTITIONS {
            produce(&broker.bootstrap(), partition, codec, turn * share..=(turn + 1) * share - 1);
        }
    }
    let window = start_ms..=unix_ms();
    assert_eq!(topics::describe(broker.address(0), TOPIC).leaders.len(), 8, "partitions of kcat's own topic");
    let timestamps: Vec<_> = (0..PARTITIONS)
        .map(|partition| check_partition(&broker.bootstrap(), partition, share, window.clone()))
        .collect();
    read_each(&broker.bootstrap(), TOPIC, PARTITIONS, WAIT, |partition, offset, record| {
        let index = |number: i64| usize::try_from(number).expect("numbers of records aren't negative");
        let timestamp = timestamps[index(partition.into())][index(offset)];
        assert_eq!(record.timestamp_ms, timestamp, "another client reads another time");
    });
}

fn produce(bootstrap: &str, partition: i32, codec: Codec, sequences: RangeInclusive<u64>) {
    let lines = sequences.flat_map(|sequence| {
        let record = CONTENT.record(partition, sequence);
        let (key, value) = (record.key.expect("text has no nulls"), record.value.expect("text has no nulls"));
        [key, b"\t".to_vec(), value, b"\n".to_vec()].concat()
    });
    let lines: Vec<u8> = lines.collect();
    let mut command = programs::kcat();
    command.args(["-P", "-b", bootstrap, "-t", TOPIC, "-p", &partition.to_string()]);
    command.args(["-K", "\t", "-z", codec.name(), "-X", "acks=all"]);
    command.args(["-H", &format!("codec={}", codec.name()), "-H", &format!("partition={partition}")]);
    let _ = programs::run(command, &lines, WAIT);
}

/// Reads a partition and checks every record; answers the timestamps.
fn check_partition(bootstrap: &str, partition: i32, share: u64, window: RangeInclusive<i64>) -> Vec<i64> {
    let mut command = programs::kcat();
    command.args(["-C", "-b", bootstrap, "-t", TOPIC, "-p", &partition.to_string()]);
    command.args(["-o", "beginning", "-e", "-q", "-J", "-X", "check.crcs=true"]);
    let output = programs::run(command, b"", WAIT);
    let lines: Vec<Line> = output.lines().map(parse).collect();
    for (sequence, line) in (0..).zip(&lines) {
        let codec =
            Codec::ALL.into_iter().nth(index(sequence / share)).expect("no more records than were sent");
        check_line(line, partition, sequence, codec);
        assert!(window.contains(&line.ts), "{line:?} isn't of {window:?}");
    }
    assert_eq!(lines.len(), index(share * 5), "records of partition {partition}");
    lines.iter().map(|line| line.ts).collect()
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("usize has 64 bits")
}

fn check_line(line: &Line, partition: i32, sequence: u64, codec: Codec) {
    let expected = CONTENT.record(partition, sequence);
    assert_eq!((line.partition, line.offset), (partition, sequence));
    assert_eq!(Some(line.key.as_bytes()), expected.key.as_deref(), "{line:?}");
    assert_eq!(Some(line.payload.as_bytes()), expected.value.as_deref(), "{line:?}");
    assert_eq!(line.headers, ["codec", codec.name(), "partition", &partition.to_string()], "{line:?}");
}

fn parse(line: &str) -> Line {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("kcat printed ({error}): {line}"))
}

#[derive(Debug, Deserialize)]
struct Listing {
    brokers: Vec<ListedBroker>,
    topics: Vec<ListedTopic>,
}

#[derive(Debug, Deserialize)]
struct ListedBroker {
    id: i32,
    name: String,
}

#[derive(Debug, Deserialize)]
struct ListedTopic {
    topic: String,
    partitions: Vec<ListedPartition>,
}

#[derive(Debug, Deserialize)]
struct ListedPartition {
    leader: i32,
}

#[test]
fn each_shard_is_listed_as_a_broker_of_its_own() {
    let broker = Broker::start_with(&Options::new("kcat-list").with_port_per_shard());
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let mut command = programs::kcat();
    command.args(["-L", "-J", "-b", &broker.address(1).to_string()]);
    let output = programs::run(command, b"", WAIT);
    let listing: Listing = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    let listed: BTreeSet<(i32, String)> =
        listing.brokers.into_iter().map(|each| (each.id, each.name)).collect();
    let ready = &broker.ready().endpoints;
    let expected = ready.iter().map(|endpoint| (endpoint.broker_id, endpoint.address.to_string()));
    assert_eq!(listed, expected.collect());
    assert_eq!(listing.topics.len(), 1, "{:?}", listing.topics);
    assert_eq!((listing.topics[0].topic.as_str(), listing.topics[0].partitions.len()), (TOPIC, 8));
    let leads = |id: i32| listing.topics[0].partitions.iter().filter(|each| each.leader == id).count();
    assert_eq!([leads(1000), leads(1001)], [4, 4]);
}

#[test]
fn one_port_for_all_shards_is_listed_as_one_broker() {
    let broker = Broker::start_with(&Options::new("kcat-node-list").with_one_port());
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let mut command = programs::kcat();
    command.args(["-L", "-J", "-b", &broker.bootstrap()]);
    let output = programs::run(command, b"", WAIT);
    let listing: Listing = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    let listed: Vec<_> = listing.brokers.into_iter().map(|each| (each.id, each.name)).collect();
    assert_eq!(listed, [(1000, broker.bootstrap())]);
    assert!(listing.topics[0].partitions.iter().all(|each| each.leader == 1000));
}

#[test]
fn a_time_leads_to_an_offset() {
    let broker = Broker::start("kcat-query");
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let bootstrap = broker.bootstrap();
    let before_ms = unix_ms();
    produce(&bootstrap, 3, Codec::Lz4, 0..=99);
    let query = |time_ms: i64| {
        let mut command = programs::kcat();
        command.args(["-Q", "-b", &bootstrap, "-t", &format!("{TOPIC}:3:{time_ms}")]);
        programs::run(command, b"", WAIT).trim().to_owned()
    };
    assert_eq!(query(before_ms), format!("{TOPIC} [3] offset 0"));
    assert_eq!(query(-2), format!("{TOPIC} [3] offset 0"));
    assert_eq!(query(-1), format!("{TOPIC} [3] offset 100"));
    assert_eq!(query(unix_ms() + 60_000), format!("{TOPIC} [3] offset -1"));
}

#[test]
fn a_topic_is_made_by_writing_to_it() {
    let broker = Broker::start("kcat-auto-create");
    let bootstrap = broker.bootstrap();
    produce(&bootstrap, 0, Codec::None, 0..=9);
    let mut command = programs::kcat();
    command.args(["-C", "-b", &bootstrap, "-t", TOPIC, "-o", "beginning", "-e", "-q", "-f", "%o\\n"]);
    let offsets = programs::run(command, b"", WAIT);
    assert_eq!(offsets.lines().count(), 10, "{offsets}");
}
