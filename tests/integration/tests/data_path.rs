//! Nothing crosses cores on the way of the data: more records mean no more messages between shards.

use std::time::Duration;

use integration::clock::unix_ms;
use integration::rdkafka_load::{Load, assert_holds};
use integration::stats::Stats;
use integration::{Broker, Content, Shape, content, programs, settings, topics};

const PARTITIONS: i32 = 8;
const WAIT: Duration = Duration::from_secs(240);
/// Requests that a load may send to the control channel whatever its size: metadata, a producer id.
const CONTROL_REQUESTS_SPARE: u64 = 8;

#[test]
fn records_cross_no_core() {
    let broker = Broker::start("data-path");
    // So that what a first connection asks for isn't taken for load.
    run_load(&broker, "first", 100);
    let records = content::records_per_codec(settings::records(), PARTITIONS);
    let small = growth(&broker, || run_load(&broker, "small", records));
    let large = growth(&broker, || run_load(&broker, "large", records * 4));
    assert!(
        large <= small + CONTROL_REQUESTS_SPARE,
        "four times the records asked the control channel {large} times instead of {small}"
    );
    let stats = broker.stats();
    assert_eq!(stats.total("data_messages"), 0, "data crossed cores");
    assert_eq!(stats.total("wrong_shard"), 0, "a client was sent to the wrong shard");
}

/// How many requests to the control channel come with what `work` does.
fn growth(broker: &Broker, work: impl FnOnce()) -> u64 {
    let requests = |stats: &Stats| stats.total("control_requests");
    let before = requests(&broker.stats());
    work();
    requests(&broker.stats()) - before
}

/// Creates a topic, writes and reads that many records in each partition.
fn run_load(broker: &Broker, topic: &str, records: u64) {
    topics::create(broker.address(0), topic, PARTITIONS);
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    let load = Load::new(&broker.bootstrap(), topic, content, &[("enable.idempotence", "true")]);
    for sequence in 0..records {
        (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
    }
    let _ = load.finish(WAIT);
    assert_holds(&broker.bootstrap(), topic, content, &[records; 8], WAIT);
}

/// The kernel's own count: a message between shards has to wake its receiver, which takes a write to an eventfd.
#[test]
#[expect(clippy::print_stdout, reason = "the counts, or why there are none")]
fn records_wake_no_other_core() {
    let broker = Broker::start("wakeups");
    topics::create(broker.address(0), "wakeups", PARTITIONS);
    let mut command = programs::shell("wakeups.sh");
    command.args([&broker.process().id().to_string(), &broker.bootstrap(), "wakeups"]);
    println!("{}", programs::run(command, b"", WAIT));
}
