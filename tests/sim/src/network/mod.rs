//! The network: listeners, connections, and how bytes travel between machines.
//!
//! A connection is two pipes. A parcel of bytes takes its time through a pipe, then waits there until it is received;
//! what is on its way and what waits together are bounded, so a slow reader holds its writer up.

mod address;
mod connection;
mod control;
mod listener;
mod pipe;
mod stream;
mod transfer;

use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use self::connection::Connection;
use self::listener::Listening;
use crate::world::Effect;

pub(crate) use self::address::address_of;
pub use self::control::SimNetwork;
pub use self::listener::SimListener;
pub use self::stream::{SimCloser, SimReader, SimStream, SimWriter};

/// How the network behaves; the same for all connections, also those within a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// How long bytes take one way.
    pub latency: RangeInclusive<Duration>,
    /// How many bytes one direction of a connection holds before its writer waits: at least 1.
    pub in_flight_bytes_max: usize,
    /// The most that one receive gives: at least 1. Each draws its own limit up to here.
    pub receive_bytes_max: usize,
    /// One parcel in so many resets its connection.
    pub reset_one_in: Option<u64>,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(20)..=Duration::from_millis(1),
            in_flight_bytes_max: 256 * 1024,
            receive_bytes_max: 64 * 1024,
            reset_one_in: None,
        }
    }
}

/// The state of the network.
#[derive(Default)]
pub(crate) struct Network {
    settings: NetworkSettings,
    listeners: BTreeMap<u64, Listening>,
    connections: BTreeMap<u64, Connection>,
    /// Ways that nothing passes, from one machine to another.
    cut: BTreeSet<(usize, usize)>,
    /// What would have arrived over ways that are cut, in order.
    held: Vec<Effect>,
}

impl Network {
    pub(crate) fn configure(&mut self, settings: NetworkSettings) {
        assert!(settings.in_flight_bytes_max > 0, "a connection that holds nothing carries nothing");
        assert!(settings.receive_bytes_max > 0, "a receive gives at least a byte");
        self.settings = settings;
    }

    /// The address of the end and of its peer.
    fn addresses(&self, end: EndId) -> (SocketAddr, SocketAddr) {
        let ends = &self.connections.get(&end.connection).expect("a held connection is there").ends;
        (ends[end.end].address, ends[end.peer().end].address)
    }

    /// The ends that are the machine's.
    fn ends_of(&self, machine: usize) -> Vec<EndId> {
        let mut ends = Vec::new();
        for (connection, state) in &self.connections {
            let own = [0, 1].into_iter().filter(|end| state.ends[*end].machine == machine);
            ends.extend(own.map(|end| EndId { connection: *connection, end }));
        }
        ends
    }
}

/// One end of a connection: 0 is the one that connected, 1 the one that accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId {
    pub(crate) connection: u64,
    pub(crate) end: usize,
}

impl EndId {
    const fn peer(self) -> Self {
        Self { connection: self.connection, end: 1 - self.end }
    }
}
