//! A connection: two ends and a pipe each way.

use core::task::{Poll, Waker};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::pipe::{Pipe, Settled};

/// A connection.
pub(crate) struct Connection {
    pub(crate) ends: [End; 2],
    /// The pipe at an end's index carries what that end sends.
    pub(crate) pipes: [Pipe; 2],
}

/// One side's socket.
pub(crate) struct End {
    pub(crate) machine: usize,
    pub(crate) address: SocketAddr,
    /// Whether a program, or a listener for it, holds the receiving half.
    pub(crate) has_reader: bool,
    /// Whether a program, or a listener for it, holds the sending half.
    pub(crate) has_writer: bool,
    /// Both directions were shut down from this side.
    pub(crate) is_closed: bool,
    /// The other side broke the connection, and this one was told.
    pub(crate) is_reset: bool,
}

impl End {
    pub(crate) const fn new(machine: usize, address: SocketAddr) -> Self {
        Self { machine, address, has_reader: false, has_writer: false, is_closed: false, is_reset: false }
    }

    /// A program gets both halves.
    pub(crate) const fn hand_out(&mut self) {
        self.has_reader = true;
        self.has_writer = true;
    }

    const fn is_held(&self) -> bool {
        self.has_reader || self.has_writer
    }
}

impl Connection {
    /// What `end` sends into.
    pub(crate) const fn outbound(&mut self, end: usize) -> &mut Pipe {
        &mut self.pipes[end]
    }

    /// What `end` receives from.
    pub(crate) const fn inbound(&mut self, end: usize) -> &mut Pipe {
        &mut self.pipes[1 - end]
    }

    /// Whether any program still holds a half of it.
    pub(crate) fn is_held(&self) -> bool {
        self.ends.iter().any(End::is_held)
    }

    /// How many bytes `end` may send now, at least 1; wakes the task when that changes.
    pub(crate) fn poll_room(
        &mut self,
        end: usize,
        in_flight_bytes_max: usize,
        waker: &Waker,
    ) -> Poll<io::Result<usize>> {
        if self.ends[end].is_reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let pipe = self.outbound(end);
        if pipe.is_ended {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        match pipe.room(in_flight_bytes_max) {
            0 => {
                pipe.writer = Some(waker.clone());
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    /// How many bytes `end` may receive now: 0 where none will come any more; wakes the task when that changes.
    pub(crate) fn poll_arrived(&mut self, end: usize, waker: &Waker) -> Poll<io::Result<usize>> {
        if self.ends[end].is_reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let pipe = self.inbound(end);
        match pipe.arrived_bytes() {
            0 if pipe.is_abandoned || pipe.end_has_arrived => Poll::Ready(Ok(0)),
            0 => {
                pipe.reader = Some(waker.clone());
                Poll::Pending
            }
            arrived => Poll::Ready(Ok(arrived)),
        }
    }

    /// `end` sends no more, and receives only what has come by now. Gives what is settled: bytes that nobody is left to
    /// receive.
    pub(crate) fn shut(&mut self, end: usize) -> Vec<Settled> {
        self.ends[end].is_closed = true;
        self.outbound(end).is_ended = true;
        self.inbound(end).is_abandoned = true;
        self.wake(end);
        if self.ends[end].has_reader { Vec::new() } else { self.inbound(end).clear() }
    }

    /// `end` learns that the connection is broken. Gives what is settled.
    pub(crate) fn reset(&mut self, end: usize) -> Vec<Settled> {
        self.ends[end].is_reset = true;
        self.wake(end);
        self.inbound(end).clear()
    }

    fn wake(&mut self, end: usize) {
        super::pipe::wake(&mut self.outbound(end).writer);
        super::pipe::wake(&mut self.inbound(end).reader);
    }
}
