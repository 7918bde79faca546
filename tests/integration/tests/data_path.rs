//! With a port for each shard nothing crosses cores on the way of the data: records, however many, mean no message between shards.

use core::ops::Range;
use std::time::Duration;

use integration::clock::unix_ms;
use integration::rdkafka_load::{Load, assert_holds};
use integration::stats::Stats;
use integration::{Broker, Content, Options, Shape, content, programs, settings, topics};

const TOPIC: &str = "data-path";
const PARTITIONS: i32 = 8;
const WAIT: Duration = Duration::from_secs(240);
const FIRST_RECORDS: u64 = 100;

#[test]
fn records_cross_no_core() {
    let broker = Broker::start_with(&Options::new("data-path").with_port_per_shard());
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    let records = content::records_per_codec(settings::records(), PARTITIONS);
    // So that what a first connection asks for isn't taken for load.
    run_load(&broker, content, 0..FIRST_RECORDS);
    let before = broker.stats();
    run_load(&broker, content, FIRST_RECORDS..FIRST_RECORDS + records);
    let after = broker.stats();
    assert_eq!(crossed(&after) - crossed(&before), 0, "records, or their fetches, crossed cores");
    assert_eq!(after.total("wrong_shard"), 0, "a client was sent to the wrong shard");
    // The count isn't one of nothing: what must cross is in it.
    topics::create(broker.address(0), "another", PARTITIONS);
    assert!(crossed(&broker.stats()) > crossed(&after), "a new topic is told to every shard");
}

/// The messages that have passed the shards' mailboxes, without the questions this test asks.
fn crossed(stats: &Stats) -> u64 {
    stats.total("mailbox_messages") - stats.total("questions")
}

/// Writes these records to each partition, and reads all there are.
fn run_load(broker: &Broker, content: Content, records: Range<u64>) {
    // Without idempotence: a producer's identity comes in blocks, for which its shard asks the controller.
    let load = Load::new(&broker.bootstrap(), TOPIC, content, &[("enable.idempotence", "false")]);
    for sequence in records.clone() {
        (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
    }
    let _ = load.finish(WAIT);
    assert_holds(&broker.bootstrap(), TOPIC, content, &[records.end; 8], WAIT);
}

/// The kernel's own count: a message between shards has to wake its receiver, which takes a write to an eventfd.
#[test]
#[expect(clippy::print_stdout, reason = "the counts, or why there are none")]
fn records_wake_no_other_core() {
    let broker = Broker::start_with(&Options::new("wakeups").with_port_per_shard());
    topics::create(broker.address(0), "wakeups", PARTITIONS);
    let mut command = programs::shell("wakeups.sh");
    command.args([&broker.process().id().to_string(), &broker.bootstrap(), "wakeups"]);
    println!("{}", programs::run(command, b"", WAIT));
}
