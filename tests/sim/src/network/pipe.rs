//! One direction of a connection.

use core::task::Waker;
use std::collections::VecDeque;

use engine_record::Instant;

use crate::disk::FileId;

/// Bytes that travel together.
pub(crate) struct Parcel {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    /// Where they come from, when from the page cache: they must not change there until they are received.
    pub(crate) source: Option<Source>,
    taken: usize,
}

/// A file that a socket owes bytes of.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) machine: usize,
    pub(crate) file: FileId,
}

/// What a file no longer owes.
pub(crate) struct Settled {
    pub(crate) source: Source,
    pub(crate) parcel: u64,
}

/// Bytes from one end to the other.
#[derive(Default)]
pub(crate) struct Pipe {
    /// Sent and not arrived yet.
    pub(crate) underway_bytes: usize,
    /// When the last thing sent arrives: what is sent later arrives later.
    pub(crate) last_arrival: Instant,
    /// The writer sends no more.
    pub(crate) is_ended: bool,
    /// The reader has been told so.
    pub(crate) end_has_arrived: bool,
    /// The reader reads no more.
    pub(crate) is_abandoned: bool,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    arrived: VecDeque<Parcel>,
    arrived_bytes: usize,
}

impl Parcel {
    /// A parcel of which nothing was received yet.
    pub(crate) const fn new(number: u64, bytes: Vec<u8>, source: Option<Source>) -> Self {
        Self { number, bytes, source, taken: 0 }
    }

    /// What is settled once it was received or dropped.
    pub(crate) fn settled(&self) -> Option<Settled> {
        self.source.map(|source| Settled { source, parcel: self.number })
    }
}

impl Pipe {
    /// How many bytes may be sent now.
    pub(crate) const fn room(&self, in_flight_bytes_max: usize) -> usize {
        in_flight_bytes_max.saturating_sub(self.underway_bytes + self.arrived_bytes)
    }

    /// How many bytes wait to be received.
    pub(crate) const fn arrived_bytes(&self) -> usize {
        self.arrived_bytes
    }

    /// A parcel reaches the reader's side.
    pub(crate) fn arrive(&mut self, parcel: Parcel) {
        self.arrived_bytes += parcel.bytes.len();
        self.arrived.push_back(parcel);
        wake(&mut self.reader);
    }

    /// Moves up to `bytes` arrived bytes into `buffer`; gives what is settled by it.
    pub(crate) fn take(&mut self, buffer: &mut Vec<u8>, bytes: usize) -> Vec<Settled> {
        let (mut left, mut settled) = (bytes, Vec::new());
        while left > 0
            && let Some(parcel) = self.arrived.front_mut()
        {
            let taken = left.min(parcel.bytes.len() - parcel.taken);
            buffer.extend_from_slice(&parcel.bytes[parcel.taken..parcel.taken + taken]);
            parcel.taken += taken;
            left -= taken;
            if parcel.taken == parcel.bytes.len() {
                settled.extend(parcel.settled());
                self.arrived.pop_front();
            }
        }
        self.arrived_bytes -= bytes - left;
        wake(&mut self.writer);
        settled
    }

    /// Drops all that has arrived; gives what is settled by it.
    pub(crate) fn clear(&mut self) -> Vec<Settled> {
        self.arrived_bytes = 0;
        self.arrived.drain(..).filter_map(|parcel| parcel.settled()).collect()
    }
}

/// Wakes who waits, if anyone does.
pub(crate) fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
