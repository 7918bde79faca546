//! What all clients of a run share.

use core::cell::Cell;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use engine_io::Io;
use sim::SimIo;

use super::history::History;

/// Where the node's first shard listens.
pub(super) const PORT: u16 = 9092;

/// Draws from the seed.
#[derive(Clone)]
pub(super) struct Chance(SimIo);

/// The clients' machine, and what they know and share.
pub(super) struct Setting {
    pub(super) io: SimIo,
    pub(super) chance: Chance,
    pub(super) history: History,
    server: IpAddr,
    settling: Cell<bool>,
    next_number: Cell<u64>,
}

impl Chance {
    /// A number in the range.
    pub(super) fn pick(&self, range: RangeInclusive<u64>) -> u64 {
        let span = range.end() - range.start() + 1;
        range.start() + self.0.random() % span
    }

    /// True once in so many times.
    pub(super) fn one_in(&self, times: u64) -> bool {
        self.pick(1..=times) == 1
    }

    pub(super) fn millis(&self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.pick(range))
    }

    /// A served version from `min` to `max`.
    pub(super) fn version(&self, min: i16, max: i16) -> i16 {
        let span = u64::from(max.abs_diff(min));
        min + i16::try_from(self.pick(0..=span)).expect("versions are few")
    }
}

impl Setting {
    pub(super) fn new(io: SimIo, server: IpAddr) -> Self {
        Self {
            chance: Chance(io.clone()),
            io,
            history: History::default(),
            server,
            settling: Cell::new(false),
            next_number: Cell::new(0),
        }
    }

    /// The address of some shard of the node; perhaps one that the node doesn't have now.
    pub(super) fn some_address(&self) -> SocketAddr {
        let shard = if self.chance.one_in(2) { self.chance.pick(0..=2) } else { 0 };
        SocketAddr::new(self.server, PORT + u16::try_from(shard).expect("shards are few"))
    }

    /// From here on clients end what they have begun and begin nothing new.
    pub(super) fn settle(&self) {
        self.settling.set(true);
    }

    pub(super) fn is_settling(&self) -> bool {
        self.settling.get()
    }

    /// The first of so many numbers that no record has had.
    pub(super) fn take_numbers(&self, count: u64) -> u64 {
        self.next_number.replace(self.next_number.get() + count)
    }

    pub(super) async fn pause(&self, range: RangeInclusive<u64>) {
        self.io.sleep(self.chance.millis(range)).await;
    }
}
