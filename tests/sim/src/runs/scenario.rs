//! What the seed decides of a run before it begins.

use core::time::Duration;

use engine_store::FlushScope;

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
            clock_steps: chance.one_in(3),
            reset_one_in: chance.one_in(3).then(|| chance.pick(50..=1_000)),
            settings,
        }
    }
}
