//! `kill -9` under load: what was acknowledged is there, once and in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use integration::clock::{pause, unix_ms, wait_until};
use integration::rdkafka_load::{Acknowledged, Load, assert_holds};
use integration::{Broker, Content, Options, Random, Shape, settings, topics};

const LOADED: &str = "loaded";
const QUIET: &str = "quiet";
const PARTITIONS: i32 = 8;
const QUIET_RECORDS: u64 = 500;
const WAIT: Duration = Duration::from_secs(60);
/// Longest time that a round lets the load run before the kill.
const RUN_MS_MAX: usize = 500;
/// Records that the client holds back at most: keeps the load in step with the broker.
const QUEUE_RECORDS: &str = "2000";

#[test]
fn kill_nine_loses_nothing_acknowledged_and_repeats_nothing() {
    kill_under_load(&Options::new("kill").with_kept_ports());
}

#[test]
fn kill_nine_of_shards_with_one_port_loses_and_repeats_nothing_either() {
    kill_under_load(&Options::new("kill-node").with_kept_ports().with_one_port());
}

fn kill_under_load(options: &Options) {
    let mut random = Random::from_environment();
    let mut broker = Broker::start_with(options);
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    fill_quiet_topic(&broker, content);
    topics::create(broker.address(0), LOADED, PARTITIONS);
    let load = Load::new(&broker.bootstrap(), LOADED, content, &producer_settings());
    let stop = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| send_until(&load, &stop));
        // A round that fails must not leave the sender running: the scope waits for it.
        let _stop = StopOnDrop(&stop);
        for round in 1..=settings::number("ROUNDS", 20) {
            kill_once(&mut broker, &load, &mut random, round);
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("the sender says itself why it fails")
    });
    check_acknowledged(&load.finish(WAIT), sent);
    let counts: Vec<u64> = (0..PARTITIONS).map(|_| sent).collect();
    assert_holds(&broker.bootstrap(), LOADED, content, &counts, WAIT);
    assert_holds(&broker.bootstrap(), QUIET, content, &[QUIET_RECORDS; 8], WAIT);
    broker.stop();
}

fn producer_settings() -> [(&'static str, &'static str); 4] {
    [
        ("enable.idempotence", "true"),
        ("compression.codec", "lz4"),
        ("queue.buffering.max.messages", QUEUE_RECORDS),
        ("reconnect.backoff.max.ms", "200"),
    ]
}

/// Records that no round touches: a broker that damages what it doesn't write to shows here.
fn fill_quiet_topic(broker: &Broker, content: Content) {
    topics::create(broker.address(0), QUIET, PARTITIONS);
    let load = Load::new(&broker.bootstrap(), QUIET, content, &[]);
    for sequence in 0..QUIET_RECORDS {
        (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
    }
    let _ = load.finish(WAIT);
}

/// Writes to all partitions in turn; answers how many records each got.
fn send_until(load: &Load, stop: &AtomicBool) -> u64 {
    let mut sequence = 0;
    while !stop.load(Ordering::Relaxed) {
        (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
        sequence += 1;
    }
    sequence
}

fn kill_once(broker: &mut Broker, load: &Load, random: &mut Random, round: u64) {
    let before = load.acknowledged_count();
    wait_until("the broker acknowledges again", WAIT, || load.acknowledged_count() > before);
    let run_ms = u64::try_from(random.below(RUN_MS_MAX)).expect("usize has at most 64 bits");
    pause(Duration::from_millis(run_ms));
    broker.kill();
    broker.start_again();
    let ready = broker.ready();
    assert!(!ready.new && !ready.recovery.clean, "round {round}: {ready:?}");
    assert_eq!(ready.recovery.offline, 0, "round {round}: {ready:?}");
    let most = Duration::from_millis(settings::number("START_MS_MAX", 2_000));
    assert!(broker.start_took() < most, "round {round}: the start took {:?}: {ready:?}", broker.start_took());
}

fn check_acknowledged(acknowledged: &[Acknowledged], sent: u64) {
    for record in acknowledged {
        assert_eq!(u64::try_from(record.offset), Ok(record.sequence), "{record:?}");
    }
    let expected = sent * u64::try_from(PARTITIONS).expect("partitions are counted from 0");
    assert_eq!(u64::try_from(acknowledged.len()), Ok(expected), "every record that was sent is acknowledged");
}

struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
