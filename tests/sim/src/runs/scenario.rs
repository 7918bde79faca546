//! What the seed decides of a run before it begins.

use core::time::Duration;

use engine_store::FlushScope;

use super::producer::MADE_BEFORE_MS;
use super::setting::Chance;

/// A run's size and weather.
pub(super) struct Scenario {
    pub(super) flush_scope: FlushScope,
    /// How long faults strike, and clients begin new work.
    pub(super) lasts: Duration,
    /// Topics from the beginning; more come and go.
    pub(super) topics: u64,
    pub(super) partitions_max: u64,
    /// Batches that each producer sends.
    pub(super) batches: u64,
    /// Milliseconds between two faults, at most.
    pub(super) calm_ms: u64,
    /// The node's log directories, all on one disk.
    pub(super) directories: &'static [&'static str],
    /// Whether disks fail, too: with its last log directory the process ends, as it should.
    pub(super) disks_fail: bool,
    /// Whether the wall clock is set forth and back.
    pub(super) clock_steps: bool,
    /// A connection is reset with one parcel in so many.
    pub(super) reset_one_in: Option<u64>,
    /// Where retention deletes by age: no record before it has been there for so long.
    pub(super) retention: Option<Duration>,
    /// Settings of the broker, in Kafka's spelling.
    pub(super) settings: Vec<(String, String)>,
}

impl Scenario {
    pub(super) fn draw(chance: &Chance) -> Self {
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut settings = vec![setting("log.segment.bytes", "1048576")];
        if chance.one_in(4) {
            settings.push(setting("log.message.timestamp.type", "LogAppendTime"));
        }
        if chance.one_in(4) {
            settings.push(setting("log.index.interval.bytes", "1"));
        }
        let clock_steps = chance.one_in(3);
        let kept = chance.one_in(3).then(|| chance.millis(500..=8_000));
        if let Some(kept) = kept {
            settings.extend(retention(chance, kept));
        }
        Self {
            flush_scope: if chance.one_in(2) { FlushScope::Device } else { FlushScope::PerFile },
            lasts: chance.millis(1_000..=15_000),
            topics: chance.pick(1..=3),
            partitions_max: chance.pick(1..=4),
            batches: chance.pick(10..=80),
            calm_ms: chance.pick(200..=4_000),
            directories: match chance.pick(0..=3) {
                0 => &["/d1", "/d2"],
                1 => &["/data", "/d1", "/d2"],
                _ => &["/data"],
            },
            disks_fail: chance.one_in(3),
            clock_steps,
            reset_one_in: chance.one_in(3).then(|| chance.pick(50..=1_000)),
            // A clock that is set makes everything old.
            retention: kept.map(|kept| if clock_steps { Duration::ZERO } else { kept - CLOCK_TICK }),
            settings,
        }
    }
}

/// What wall clocks don't tell apart.
const CLOCK_TICK: Duration = Duration::from_millis(1);

/// Settings by which records go once they have been there for `kept`, by segments that are begun often.
fn retention(chance: &Chance, kept: Duration) -> [(String, String); 3] {
    let age_ms = kept.as_millis() + u128::from(MADE_BEFORE_MS.unsigned_abs());
    let (looks_every_ms, segment_ms) = (chance.pick(200..=2_000), chance.pick(200..=4_000));
    [
        ("log.retention.ms".to_owned(), age_ms.to_string()),
        ("log.retention.check.interval.ms".to_owned(), looks_every_ms.to_string()),
        ("log.roll.ms".to_owned(), segment_ms.to_string()),
    ]
}
