//! Connected sockets as programs see them.

use core::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use engine_io::{Closer, SendFile, SendPiece, Stream, StreamReader, StreamWriter};

use super::EndId;
use super::transfer::Half;
use crate::file::SimSendFile;
use crate::io::SimIo;
use crate::seat::Seat;
use crate::timer::Yield;

/// How many bytes are sent before other tasks get a turn.
const SEND_TURN_BYTES: usize = 256 * 1024;

/// A simulated connected socket.
pub struct SimStream {
    reader: SimReader,
    writer: SimWriter,
    own_address: SocketAddr,
    peer_address: SocketAddr,
}

impl SimStream {
    /// The socket at the end, whose halves are the caller's.
    pub(crate) fn new(seat: Seat, end: EndId) -> Self {
        let (own_address, peer_address) = seat.world(|world| world.network.addresses(end));
        let reader = SimReader { held: HeldHalf::new(&seat, end, Half::Reader) };
        let writer = SimWriter { held: HeldHalf::new(&seat, end, Half::Writer) };
        Self { reader, writer, own_address, peer_address }
    }

    /// Connects. Dropped before it resolves, it leaves no connection.
    pub(crate) async fn connect(seat: &Seat, address: SocketAddr) -> io::Result<Self> {
        let (end, connected) = seat.world(|world| world.connect(seat.boot, address))?;
        let stream = Self::new(seat.clone(), end);
        connected.await?;
        Ok(stream)
    }
}

impl Stream for SimStream {
    type Io = SimIo;
    type Reader = SimReader;
    type Writer = SimWriter;

    fn peer_address(&self) -> SocketAddr {
        self.peer_address
    }

    fn local_address(&self) -> SocketAddr {
        self.own_address
    }

    fn split(self) -> (SimReader, SimWriter) {
        (self.reader, self.writer)
    }
}

/// Which end of which connection, on which machine.
#[derive(Clone)]
struct Socket {
    seat: Seat,
    end: EndId,
}

/// Holds a half of a socket until it is dropped.
struct HeldHalf {
    socket: Socket,
    half: Half,
}

impl HeldHalf {
    fn new(seat: &Seat, end: EndId, half: Half) -> Self {
        Self { socket: Socket { seat: seat.clone(), end }, half }
    }
}

impl Drop for HeldHalf {
    fn drop(&mut self) {
        self.socket.seat.world(|world| world.drop_half(self.socket.end, self.half));
    }
}

/// The receiving half of a simulated socket.
pub struct SimReader {
    held: HeldHalf,
}

impl SimReader {
    /// Receives into at most `spare` bytes of the buffer's spare capacity.
    async fn receive(&self, buffer: &mut Vec<u8>, spare: usize) -> io::Result<usize> {
        let Socket { seat, end } = &self.held.socket;
        poll_fn(|context| {
            seat.world(|world| {
                world.check_runs(seat.boot);
                world.poll_receive(*end, buffer, spare, context.waker())
            })
        })
        .await
    }
}

impl StreamReader for SimReader {
    type Closer = SimCloser;

    async fn receive_some(&mut self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let spare = buffer.capacity() - buffer.len();
        assert!(spare > 0, "there is no room to receive into");
        let result = self.receive(&mut buffer, spare).await;
        (result, buffer)
    }

    async fn receive_exactly(&mut self, mut buffer: Vec<u8>, bytes: usize) -> (io::Result<()>, Vec<u8>) {
        buffer.reserve_exact(bytes);
        let mut left = bytes;
        while left > 0 {
            match self.receive(&mut buffer, left).await {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buffer),
                Ok(received) => left -= received,
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    fn closer(&self) -> SimCloser {
        SimCloser { socket: self.held.socket.clone() }
    }
}

/// The sending half of a simulated socket.
pub struct SimWriter {
    held: HeldHalf,
}

impl SimWriter {
    /// Tells the other end that no more will be sent, and goes on receiving: what some clients do.
    pub fn end_sending(&mut self) {
        let Socket { seat, end } = &self.held.socket;
        seat.world(|world| world.end_sending(*end));
    }

    /// Waits until bytes can be sent: how many of the `wanted`, at least 1.
    async fn room(&self, wanted: usize) -> io::Result<usize> {
        let Socket { seat, end } = &self.held.socket;
        poll_fn(|context| {
            seat.world(|world| {
                world.check_runs(seat.boot);
                world.poll_send(*end, wanted, context.waker())
            })
        })
        .await
    }

    async fn send_bytes(&self, mut bytes: &[u8]) -> io::Result<()> {
        let Socket { seat, end } = &self.held.socket;
        while !bytes.is_empty() {
            let sent;
            (sent, bytes) = bytes.split_at(self.room(bytes.len()).await?);
            seat.world(|world| world.dispatch(*end, sent.to_vec()));
        }
        Ok(())
    }

    /// Sends one parcel from the page cache; gives its bytes.
    async fn send_file_parcel(&self, file: &SimSendFile, position: u64, wanted: usize) -> io::Result<usize> {
        let bytes = self.room(wanted).await?;
        if file.resident(position, bytes as u64) < bytes as u64 {
            file.prefetch(position, bytes as u64).await?;
        }
        let Socket { seat, end } = &self.held.socket;
        seat.world(|world| world.dispatch_file(*end, file.open.file, position, bytes))?;
        Ok(bytes)
    }
}

impl StreamWriter for SimWriter {
    type Io = SimIo;

    async fn send(&mut self, pieces: Vec<SendPiece<SimIo>>) -> io::Result<()> {
        let mut unyielded = 0;
        for turn in pieces.iter().flat_map(|piece| piece.as_slice().chunks(SEND_TURN_BYTES)) {
            if unyielded + turn.len() > SEND_TURN_BYTES {
                unyielded = 0;
                Yield::default().await;
            }
            self.send_bytes(turn).await?;
            unyielded += turn.len();
        }
        Ok(())
    }

    async fn send_file(&mut self, file: &SimSendFile, position: u64, bytes: u64) -> io::Result<()> {
        let own = self.held.socket.seat.boot;
        assert_eq!(file.seat.boot, own, "a file is sent by the process that opened it");
        let end = position.checked_add(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let mut position = position;
        while position < end {
            let turn_bytes = SEND_TURN_BYTES.min(usize::try_from(end - position).unwrap_or(SEND_TURN_BYTES));
            position += self.send_file_parcel(file, position, turn_bytes).await? as u64;
            Yield::default().await;
        }
        Ok(())
    }
}

/// Ends a simulated connection from outside.
#[derive(Clone)]
pub struct SimCloser {
    socket: Socket,
}

impl Closer for SimCloser {
    fn close(&self) {
        self.socket.seat.world(|world| world.close_end(self.socket.end));
    }
}
