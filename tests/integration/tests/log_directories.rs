//! Two log directories: `kill -9` under load, and a start while one of them is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use integration::clock::{pause, unix_ms, wait_until};
use integration::rdkafka_load::{Load, assert_holds};
use integration::{Broker, Content, Options, Random, Shape, settings, topics};

const TOPIC: &str = "spread";
const PARTITIONS: i32 = 8;
const WAIT: Duration = Duration::from_secs(60);
/// Longest time that a round lets the load run before the kill.
const RUN_MS_MAX: usize = 400;

fn options(name: &'static str) -> Options {
    Options::new(name).with_kept_ports().with_kafka("log.dirs = \"d1,d2\"")
}

/// The folders of partitions in a log directory.
fn partitions_in(directory: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("the folder can be listed");
        entries.map(|entry| entry.expect("it can be looked at").path()).filter(|path| path.is_dir()).collect()
    };
    below(&directory.join("topics")).iter().flat_map(|topic| below(topic)).collect()
}

fn send_until(load: &Load, stop: &AtomicBool) -> u64 {
    let mut sequence = 0;
    while !stop.load(Ordering::Relaxed) {
        (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
        sequence += 1;
    }
    sequence
}

struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn kill_nine_loses_nothing_acknowledged_in_either_directory() {
    let mut random = Random::from_environment();
    let mut broker = Broker::start_with(&options("log_directories_kill"));
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let settings_of_producer = [("enable.idempotence", "true"), ("queue.buffering.max.messages", "2000")];
    let load = Load::new(&broker.bootstrap(), TOPIC, content, &settings_of_producer);
    let stop = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| send_until(&load, &stop));
        // A round that fails must not leave the sender running: the scope waits for it.
        let _stop = StopOnDrop(&stop);
        for round in 1..=settings::number("ROUNDS", 5) {
            let before = load.acknowledged_count();
            wait_until("the broker acknowledges again", WAIT, || load.acknowledged_count() > before);
            let run_ms = u64::try_from(random.below(RUN_MS_MAX)).expect("usize has at most 64 bits");
            pause(Duration::from_millis(run_ms));
            broker.kill();
            broker.start_again();
            assert_eq!(broker.ready().recovery.offline, 0, "round {round}: {:?}", broker.ready());
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("the sender says itself why it fails")
    });
    let acknowledged = load.finish(WAIT);
    assert_eq!(acknowledged.len() as u64, sent * u64::from(PARTITIONS.unsigned_abs()));
    for directory in ["d1", "d2"] {
        assert_eq!(partitions_in(&broker.folder().join(directory)).len(), 4, "{directory}");
    }
    assert!(!broker.data_folder().join("topics").exists(), "the data folder holds the metadata alone");
    let counts: Vec<u64> = (0..PARTITIONS).map(|_| sent).collect();
    assert_holds(&broker.bootstrap(), TOPIC, content, &counts, WAIT);
    broker.stop();
}

#[test]
fn a_directory_that_is_missing_at_a_start_keeps_its_records_for_the_next() {
    const RECORDS: u64 = 100;
    let mut broker = Broker::start_with(&options("log_directories_missing"));
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let load = Load::new(&broker.bootstrap(), TOPIC, content, &[]);
    for sequence in 0..RECORDS {
        (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
    }
    let acknowledged = load.finish(WAIT);
    assert_eq!(acknowledged.len() as u64, RECORDS * u64::from(PARTITIONS.unsigned_abs()));
    broker.stop();
    let (directory, away) = (broker.folder().join("d2"), broker.folder().join("away"));
    fs::rename(&directory, &away).expect("a folder can be renamed");
    broker.start_again();
    let ready = broker.ready();
    assert_eq!((ready.recovery.partitions, ready.recovery.offline), (8, 4), "{ready:?}");
    let online: Vec<_> = ready.log_directories.iter().map(|directory| directory.online).collect();
    assert_eq!(online, [true, false], "{ready:?}");
    assert!(broker.log().contains("a log directory is offline"), "{}", broker.log());
    broker.stop();
    assert!(!directory.exists(), "nothing was made in its place");
    fs::rename(&away, &directory).expect("a folder can be renamed");
    broker.start_again();
    assert_eq!(broker.ready().recovery.offline, 0);
    assert_holds(&broker.bootstrap(), TOPIC, content, &[RECORDS; 8], WAIT);
    broker.stop();
}
