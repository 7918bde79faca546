//! A drive that fills up under a producer: nothing acknowledged is lost, reading goes on, and so does all else once there is
//! space, without a restart and after one.

use std::time::Duration;

use integration::clock::{unix_ms, wait_until};
use integration::drive::Filler;
use integration::rdkafka_load::{Load, read_each};
use integration::{Broker, Content, Options, Shape, rdkafka_load, topics};

const TOPIC: &str = "full";
const PARTITIONS: i32 = 4;
const WAIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
const DRIVE_BYTES: u64 = 96 * MIB;

/// Records sent so far, each once: the client sends again what is refused.
struct Sender {
    load: Load,
    content: Content,
    sent: u64,
}

impl Sender {
    fn new(broker: &Broker) -> Self {
        let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
        let settings = [("enable.idempotence", "true"), ("queue.buffering.max.messages", "1000000")];
        Self { load: Load::new(&broker.bootstrap(), TOPIC, content, &settings), content, sent: 0 }
    }

    fn send(&mut self, records: u64) {
        for sequence in self.sent..self.sent + records {
            (0..PARTITIONS).for_each(|partition| self.load.send(partition, sequence));
        }
        self.sent += records;
    }

    fn acknowledged(&self) -> usize {
        self.load.acknowledged_count()
    }

    fn all_acknowledged(&self) {
        let all = usize::try_from(self.sent * 4).expect("they are counted in memory");
        wait_until("all that was sent is acknowledged", WAIT, || self.acknowledged() == all);
    }

    /// Waits until everything is acknowledged, and reads it back.
    fn finish(self, broker: &Broker) {
        self.all_acknowledged();
        let _ = self.load.finish(WAIT);
        rdkafka_load::assert_holds(&broker.bootstrap(), TOPIC, self.content, &[self.sent; 4], WAIT);
    }
}

fn start(name: &'static str, own: &'static str) -> (Broker, Sender) {
    let kafka = "log.segment.bytes = 1048576";
    let options = Options::new(name).with_kept_ports().with_kafka(kafka).with_own(own);
    let broker = Broker::start_with(&options.on_a_drive(DRIVE_BYTES));
    topics::create(broker.address(0), TOPIC, PARTITIONS);
    let mut sender = Sender::new(&broker);
    sender.send(1_000);
    sender.all_acknowledged();
    (broker, sender)
}

/// Sends until the broker says that it takes no more.
fn send_until_refused(broker: &Broker, sender: &mut Sender, said: &str) {
    wait_until("records are refused", WAIT, || {
        if sender.sent < 100_000 {
            sender.send(1_000);
        }
        broker.log().contains(said)
    });
}

fn readable(broker: &Broker) -> usize {
    let mut count = 0;
    read_each(&broker.bootstrap(), TOPIC, PARTITIONS, WAIT, |_, _, _| count += 1);
    count
}

fn fill(broker: &Broker, leave: u64) -> Filler {
    broker.drive().fill(leave)
}

#[test]
fn a_full_drive_loses_nothing_through_kills_and_goes_on_once_there_is_space() {
    let (mut broker, mut sender) = start("full_drive", "disk_soft_watermark = 0\ndisk_hard_watermark = 0");
    let filler = fill(&broker, 3 * MIB);
    send_until_refused(&broker, &mut sender, "no space left: appends are refused");
    for _ in 0..3 {
        broker.kill();
        broker.start_again();
        assert_eq!(broker.ready().recovery.offline, 0, "{:?}", broker.ready());
        let acknowledged = sender.acknowledged();
        assert!(readable(&broker) >= acknowledged, "{acknowledged} were acknowledged");
    }
    drop(filler);
    sender.finish(&broker);
    broker.stop();
}

#[test]
fn below_the_soft_watermark_nothing_is_written_and_above_it_all_is_again() {
    let (mut broker, mut sender) = start("soft_watermark", "disk_soft_watermark = \"16MiB\"");
    let filler = fill(&broker, 12 * MIB);
    send_until_refused(&broker, &mut sender, "less is free than disk_soft_watermark");
    assert!(readable(&broker) >= 4_000, "reading goes on");
    topics::create(broker.address(0), "another", 1);
    drop(filler);
    sender.finish(&broker);
    broker.stop();
}
