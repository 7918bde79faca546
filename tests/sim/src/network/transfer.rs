//! How bytes, ends and resets get from one end of a connection to the other.

use core::mem;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io;

use engine_record::Instant;

use super::EndId;
use super::pipe::{Parcel, Settled, Source};
use crate::disk::FileId;
use crate::trace::{Event, content_hash};
use crate::world::World;

impl World {
    /// How many bytes the end may send now, as chance cuts `wanted` into pieces: at least 1.
    pub(crate) fn poll_send(&mut self, end: EndId, wanted: usize, waker: &Waker) -> Poll<io::Result<usize>> {
        let in_flight_bytes_max = self.network.settings.in_flight_bytes_max;
        let Some(connection) = self.network.connections.get_mut(&end.connection) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let room = connection.poll_room(end.end, in_flight_bytes_max, waker)?;
        room.map(|room| Ok(1 + self.random.index(wanted.min(room))))
    }

    /// Puts bytes on their way. Where the connection has broken meanwhile, they are dropped; the next send tells.
    pub(crate) fn dispatch(&mut self, end: EndId, bytes: Vec<u8>) {
        let number = self.number();
        self.dispatch_parcel(end, Parcel::new(number, bytes, None));
    }

    /// Puts bytes of a file on their way, straight from the page cache of the machine at this end.
    pub(crate) fn dispatch_file(
        &mut self,
        end: EndId,
        file: FileId,
        position: u64,
        bytes: usize,
    ) -> io::Result<()> {
        let number = self.number();
        let Some(connection) = self.network.connections.get(&end.connection) else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        let machine = connection.ends[end.end].machine;
        let state = self.machines[machine].disk.file(file);
        if state.live().size() < position + bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = state.lend(number, position, bytes);
        self.dispatch_parcel(end, Parcel::new(number, bytes, Some(Source { machine, file })));
        Ok(())
    }

    fn dispatch_parcel(&mut self, end: EndId, parcel: Parcel) {
        self.record(Event::Sent {
            connection: end.connection,
            end: end.end,
            bytes: parcel.bytes.len(),
            content: content_hash(&parcel.bytes[..]),
        });
        let Some(connection) = self.network.connections.get_mut(&end.connection) else {
            self.settle(parcel.settled());
            return;
        };
        connection.outbound(end.end).underway_bytes += parcel.bytes.len();
        self.arrive_later(end, move |world| world.arrive(end, parcel));
        if let Some(count) = self.network.settings.reset_one_in
            && self.random.one_in(count)
        {
            self.reset_both(end.connection);
        }
    }

    /// Receives up to `spare` bytes, as many as have come and chance lets through: 0 at the end.
    pub(crate) fn poll_receive(
        &mut self,
        end: EndId,
        buffer: &mut Vec<u8>,
        spare: usize,
        waker: &Waker,
    ) -> Poll<io::Result<usize>> {
        let limit = 1 + self.random.index(self.network.settings.receive_bytes_max);
        let Some(connection) = self.network.connections.get_mut(&end.connection) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let Poll::Ready(arrived) = connection.poll_arrived(end.end, waker)? else { return Poll::Pending };
        let bytes = arrived.min(spare).min(limit);
        let settled = connection.inbound(end.end).take(buffer, bytes);
        self.settle(settled);
        self.record(Event::Received { connection: end.connection, end: end.end, bytes });
        Poll::Ready(Ok(bytes))
    }

    /// The end sends no more: the other one is told, after all that was sent.
    pub(crate) fn end_sending(&mut self, end: EndId) {
        let Some(connection) = self.network.connections.get_mut(&end.connection) else { return };
        let pipe = connection.outbound(end.end);
        if mem::replace(&mut pipe.is_ended, true) {
            return;
        }
        self.arrive_later(end, move |world| {
            if let Some(connection) = world.network.connections.get_mut(&end.connection) {
                let pipe = connection.outbound(end.end);
                pipe.end_has_arrived = true;
                super::pipe::wake(&mut pipe.reader);
            }
        });
    }

    /// The end shuts both directions down. Bytes that came and were never received break the connection.
    pub(crate) fn close_end(&mut self, end: EndId) {
        self.end_sending(end);
        let Some(connection) = self.network.connections.get_mut(&end.connection) else { return };
        if connection.ends[end.end].is_closed {
            return;
        }
        let was_unread = connection.inbound(end.end).arrived_bytes() > 0;
        let settled = connection.shut(end.end);
        self.settle(settled);
        self.record(Event::Closed { connection: end.connection, end: end.end });
        if was_unread {
            self.tell_reset(end);
        }
    }

    /// A half of the end is gone; with the second, the socket closes.
    pub(crate) fn drop_half(&mut self, end: EndId, half: Half) {
        let Some(connection) = self.network.connections.get_mut(&end.connection) else { return };
        let state = &mut connection.ends[end.end];
        match half {
            Half::Reader => state.has_reader = false,
            Half::Writer => state.has_writer = false,
        }
        if half == Half::Reader && state.is_closed {
            let settled = connection.inbound(end.end).clear();
            self.settle(settled);
        }
        let Some(connection) = self.network.connections.get_mut(&end.connection) else { return };
        let state = &connection.ends[end.end];
        if !state.has_reader && !state.has_writer {
            self.close_end(end);
            self.remove_unheld(end.connection);
        }
    }

    /// Breaks a connection: each end learns of it in its own time.
    pub(crate) fn reset_both(&mut self, connection: u64) {
        for end in [0, 1] {
            self.tell_reset(EndId { connection, end });
        }
    }

    /// The machine stops: its sockets are gone, and the other ends learn of it in their own time.
    pub(crate) fn crash_network(&mut self, machine: usize) {
        self.network.listeners.retain(|_, listening| listening.machine != machine);
        for end in self.network.ends_of(machine) {
            if let Some(connection) = self.network.connections.get_mut(&end.connection) {
                let state = &mut connection.ends[end.end];
                (state.has_reader, state.has_writer) = (false, false);
                let settled = connection.shut(end.end);
                self.settle(settled);
                self.tell_reset(end);
                self.remove_unheld(end.connection);
            }
        }
    }

    /// Nothing passes from one machine to the other any more.
    pub(crate) fn cut_way(&mut self, from: usize, to: usize) {
        self.network.cut.insert((from, to));
    }

    /// Lets everything pass again; what was held arrives now, in order.
    pub(crate) fn heal_network(&mut self) {
        self.network.cut.clear();
        for held in mem::take(&mut self.network.held) {
            held(self);
        }
    }

    /// Lets `arrival` happen at machine `way.1`, one latency from now or when the way is healed.
    pub(crate) fn travel(
        &mut self,
        way: (usize, usize),
        at: Instant,
        arrival: impl FnOnce(&mut Self) + 'static,
    ) {
        self.at(at, move |world| {
            if world.network.cut.contains(&way) {
                world.network.held.push(Box::new(arrival));
            } else {
                arrival(world);
            }
        });
    }

    /// How long something sent now takes.
    pub(crate) fn one_way(&mut self) -> Duration {
        self.random.duration(&self.network.settings.latency)
    }

    /// Lets `arrival` happen at the peer of `end`, after all that `end` sent before.
    fn arrive_later(&mut self, end: EndId, arrival: impl FnOnce(&mut Self) + 'static) {
        let earliest = self.now.after(self.one_way());
        let Some(connection) = self.network.connections.get_mut(&end.connection) else { return };
        let way = (connection.ends[end.end].machine, connection.ends[end.peer().end].machine);
        let pipe = connection.outbound(end.end);
        let at = earliest.max(pipe.last_arrival.after(Duration::from_nanos(1)));
        pipe.last_arrival = at;
        self.travel(way, at, arrival);
    }

    /// A parcel reaches the other end. Where nobody will receive it, its sender is told so.
    fn arrive(&mut self, end: EndId, parcel: Parcel) {
        let Some(connection) = self.network.connections.get_mut(&end.connection) else {
            self.settle(parcel.settled());
            return;
        };
        let bytes = parcel.bytes.len();
        let is_reset = connection.ends[end.peer().end].is_reset;
        let pipe = connection.outbound(end.end);
        pipe.underway_bytes -= bytes;
        if is_reset || pipe.is_abandoned {
            self.settle(parcel.settled());
            self.tell_reset(end.peer());
            return;
        }
        pipe.arrive(parcel);
        self.record(Event::Arrived { connection: end.connection, end: end.peer().end, bytes });
    }

    /// The peer of `end` learns that the connection is broken, after all that `end` sent before.
    fn tell_reset(&mut self, end: EndId) {
        let peer = end.peer();
        self.arrive_later(end, move |world| {
            if let Some(connection) = world.network.connections.get_mut(&peer.connection) {
                let settled = connection.reset(peer.end);
                world.settle(settled);
                world.record(Event::Reset { connection: peer.connection, end: peer.end });
            }
        });
    }

    /// Forgets a connection that no program holds a half of.
    fn remove_unheld(&mut self, number: u64) {
        if self.network.connections.get(&number).is_some_and(|connection| !connection.is_held())
            && let Some(mut connection) = self.network.connections.remove(&number)
        {
            let settled: Vec<Settled> =
                connection.pipes.iter_mut().flat_map(super::pipe::Pipe::clear).collect();
            self.settle(settled);
        }
    }

    /// Tells files what sockets no longer owe of them.
    fn settle(&mut self, settled: impl IntoIterator<Item = Settled>) {
        for settled in settled {
            self.machines[settled.source.machine].disk.release(settled.source.file, settled.parcel);
        }
    }
}

/// A half of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Reader,
    Writer,
}
