//! Every frame, broken off at every byte.

use std::net::SocketAddr;

use integration::Connection;

use crate::catalogue::{Catalogue, Frame};

/// Longer frames are broken off at this many points: each field of theirs lies before.
const POINTS_MAX: usize = 160;

pub(crate) fn run(addresses: &[SocketAddr], catalogue: &Catalogue) {
    for (turn, frame) in catalogue.frames.iter().enumerate() {
        for point in 0..points(frame) {
            let mut connection = Connection::open(addresses[(turn + point) % addresses.len()]);
            // An answer isn't due, and a refusal may come at any byte.
            connection.send(&frame.bytes[..point]).ok();
            // Both ways to be gone: in order, and with a reset.
            if point % 2 == 0 {
                connection.reset();
            }
        }
    }
}

fn points(frame: &Frame) -> usize {
    frame.bytes.len().min(POINTS_MAX)
}
