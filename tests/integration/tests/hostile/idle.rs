//! Clients that hold connections and send next to nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use integration::Connection;
use integration::clock::pause;

use crate::catalogue::{Catalogue, Frame};

/// Connections that announce a frame and never send it.
const ANNOUNCERS: usize = 64;
/// The largest frame a broker accepts by default, bytes.
const ANNOUNCED_BYTES: i32 = 100 << 20;
/// Connections that send byte by byte.
const DRIPPERS: usize = 16;
const DRIP_EVERY: Duration = Duration::from_millis(20);

/// Idle and nearly idle connections.
pub(crate) struct Idlers<'c> {
    /// Only held.
    announcers: Vec<Connection>,
    drippers: Vec<(Connection, &'c Frame)>,
}

impl<'c> Idlers<'c> {
    pub(crate) fn new(addresses: &[SocketAddr], catalogue: &'c Catalogue) -> Self {
        let connect = |turn: usize| Connection::open(addresses[turn % addresses.len()]);
        let announcers = (0..ANNOUNCERS).map(|turn| announce(connect(turn), &catalogue.frames[0])).collect();
        let frames = catalogue.frames.iter().step_by(catalogue.frames.len() / DRIPPERS).take(DRIPPERS);
        let drippers = frames.enumerate().map(|(turn, frame)| (connect(turn), frame)).collect();
        Self { announcers, drippers }
    }

    /// Sends a byte on each of the slow connections now and then, their frames over and over.
    pub(crate) fn drip_until(mut self, stop: &AtomicBool) {
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            for (connection, frame) in &mut self.drippers {
                // The broker may have had enough of it.
                connection.send(&[frame.bytes[at % frame.bytes.len()]]).ok();
            }
            at += 1;
            pause(DRIP_EVERY);
        }
        let held =
            self.announcers.into_iter().chain(self.drippers.into_iter().map(|(connection, _)| connection));
        held.for_each(Connection::reset);
    }
}

/// Says that the largest frame follows, and lets its beginning follow.
fn announce(mut connection: Connection, frame: &Frame) -> Connection {
    let bytes = [&ANNOUNCED_BYTES.to_be_bytes(), &frame.bytes[4..]].concat();
    // A broker that has no room left may refuse; that is its answer to this.
    connection.send(&bytes).ok();
    connection
}
