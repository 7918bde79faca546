//! Connections.

use core::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};

use engine_io::{Closer, SendFile, SendPiece, Stream, StreamReader, StreamWriter};

use crate::GlommioIo;
use crate::cursor::Cursor;
use crate::send_file::GlommioSendFile;
use crate::socket::{Socket, WAIT_SEND_BYTES};
use crate::turn::{TURN_BYTES, Turn};

/// How many slices one system call sends at most: 1 KiB of stack.
const SLICES_MAX: usize = 64;

/// A connection.
#[derive(Debug)]
pub struct GlommioStream {
    socket: Rc<Socket>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl GlommioStream {
    pub(crate) fn new(socket: Socket, peer: SocketAddr) -> io::Result<Self> {
        let local = rustix::net::getsockname(&socket)?.try_into()?;
        Ok(Self { socket: Rc::new(socket), peer, local })
    }
}

impl Stream for GlommioStream {
    type Io = GlommioIo;
    type Reader = GlommioStreamReader;
    type Writer = GlommioStreamWriter;

    fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn split(self) -> (GlommioStreamReader, GlommioStreamWriter) {
        let socket = Rc::clone(&self.socket);
        let reader = GlommioStreamReader { socket, ready: true, turn: Turn::default() };
        (reader, GlommioStreamWriter { socket: self.socket, turn: Turn::default() })
    }
}

/// Ends a connection. Holding it does not keep the connection open.
#[derive(Clone, Debug)]
pub struct GlommioCloser {
    socket: Weak<Socket>,
}

impl Closer for GlommioCloser {
    fn close(&self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.shut_down();
        }
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct GlommioStreamReader {
    socket: Rc<Socket>,
    /// Whether something may have come since the last receive found the socket empty.
    ready: bool,
    turn: Turn,
}

impl GlommioStreamReader {
    async fn receive(&mut self, buffer: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        // Before, not after: whoever drops this future loses no bytes by it.
        self.turn.give_way_if_over().await;
        let Self { socket, ready, turn } = self;
        let count = poll_fn(|context| socket.poll_receive(context, buffer, bytes_max, ready)).await?;
        turn.count(count);
        Ok(count)
    }

    async fn receive_until(&mut self, buffer: &mut Vec<u8>, target: usize) -> io::Result<()> {
        while buffer.len() < target {
            let bytes_max = (target - buffer.len()).min(TURN_BYTES);
            if self.receive(buffer, bytes_max).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

impl StreamReader for GlommioStreamReader {
    type Closer = GlommioCloser;

    async fn receive_some(&mut self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let spare = buffer.capacity() - buffer.len();
        assert!(spare > 0, "receiving needs room");
        let received = self.receive(&mut buffer, spare).await;
        (received, buffer)
    }

    async fn receive_exactly(&mut self, mut buffer: Vec<u8>, bytes: usize) -> (io::Result<()>, Vec<u8>) {
        buffer.reserve(bytes);
        let target = buffer.len() + bytes;
        let received = self.receive_until(&mut buffer, target).await;
        (received, buffer)
    }

    fn closer(&self) -> GlommioCloser {
        GlommioCloser { socket: Rc::downgrade(&self.socket) }
    }
}

/// The sending half.
#[derive(Debug)]
pub struct GlommioStreamWriter {
    socket: Rc<Socket>,
    turn: Turn,
}

impl GlommioStreamWriter {
    /// Sends part of a file; how much. At most [`TURN_BYTES`].
    async fn send_file_step(
        &mut self,
        file: &GlommioSendFile,
        position: u64,
        bytes: usize,
    ) -> io::Result<usize> {
        if file.resident(position, bytes as u64) < bytes as u64 {
            return self.send_copy(file, position, bytes).await;
        }
        match file.send_to(self.socket.as_fd(), position, bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.send_copy(file, position, bytes.min(WAIT_SEND_BYTES)).await
            }
            sent => {
                self.turn.count(bytes);
                sent
            }
        }
    }

    /// Sends part of a file through memory: where it has to be read off the shard, and to wait for room in the socket.
    async fn send_copy(&mut self, file: &GlommioSendFile, position: u64, bytes: usize) -> io::Result<usize> {
        let piece = file.read(position, bytes).await?;
        let bytes = piece.len();
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.send(vec![SendPiece::Owned(piece)]).await?;
        Ok(bytes)
    }
}

impl StreamWriter for GlommioStreamWriter {
    type Io = GlommioIo;

    async fn send(&mut self, pieces: Vec<SendPiece<GlommioIo>>) -> io::Result<()> {
        let mut cursor = Cursor::new(&pieces);
        while !cursor.is_at_end() {
            let sent = poll_fn(|context| {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = cursor.fill(&mut slices, TURN_BYTES);
                self.socket.poll_send(context, &slices[..count])
            });
            let sent = sent.await?;
            cursor.advance(sent);
            self.turn.count(sent);
            self.turn.give_way_if_over().await;
        }
        Ok(())
    }

    async fn send_file(&mut self, file: &GlommioSendFile, position: u64, bytes: u64) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes {
            let step = usize::try_from(bytes - sent).unwrap_or(TURN_BYTES).min(TURN_BYTES);
            sent += self.send_file_step(file, position + sent, step).await? as u64;
            self.turn.give_way_if_over().await;
        }
        Ok(())
    }
}
