//! Sockets.

use core::future::Future;
use core::ops::Range;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::{Buffer, Io};

/// Whether a listening port may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenMode {
    /// The port is this listener's alone.
    Exclusive,
    /// Other shards of the process listen on the same port; the kernel spreads connections over them.
    SharedByShards,
}

/// A listening socket.
pub trait Listener: 'static {
    /// What it accepts.
    type Stream;

    /// Waits for the next connection. Dropping it loses no connection.
    ///
    /// # Errors
    /// As the system says; running out of descriptors is one, and the listener stays usable.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Where it listens.
    fn local_address(&self) -> SocketAddr;
}

/// A connected socket, with Nagle's algorithm off.
pub trait Stream: Sized + 'static {
    /// The seam it belongs to.
    type Io: Io;
    /// Its receiving half.
    type Reader: StreamReader;
    /// Its sending half.
    type Writer: StreamWriter<Io = Self::Io>;

    /// The other end's address.
    fn peer_address(&self) -> SocketAddr;

    /// The address the other end reached.
    fn local_address(&self) -> SocketAddr;

    /// Parts the halves, so that two tasks can use them. The socket closes when both are gone.
    fn split(self) -> (Self::Reader, Self::Writer);
}

/// Ends a connection from outside the tasks that read and write it: what they await resolves with an end or an error.
pub trait Closer: Clone + 'static {
    /// Shuts both directions down, now. What had come by then may still be received. Calling it again does nothing.
    fn close(&self);
}

/// The receiving half.
pub trait StreamReader: 'static {
    /// Ends the connection from outside.
    type Closer: Closer;

    /// Receives at least one byte into the spare capacity of `buffer`, and as many as have come and fit. Gives the
    /// buffer back with the bytes appended, and their count: 0 where the peer has closed its side.
    ///
    /// # Errors
    /// As the system says; the buffer comes back as it was.
    ///
    /// # Panics
    /// Where `buffer` has no spare capacity.
    fn receive_some(&mut self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Appends exactly `bytes` bytes to `buffer`, growing it at most once.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where the peer closes before; else as the system says.
    fn receive_exactly(
        &mut self,
        buffer: Vec<u8>,
        bytes: usize,
    ) -> impl Future<Output = (io::Result<()>, Vec<u8>)>;

    /// A handle to end the connection.
    fn closer(&self) -> Self::Closer;
}

/// The sending half.
pub trait StreamWriter: 'static {
    /// The seam it belongs to.
    type Io: Io;

    /// Sends all pieces in order. Resolves when the kernel has taken all bytes. Lets other tasks run at least every
    /// 512 KiB. Dropped before that, the connection is broken in the middle of a piece and must be closed.
    ///
    /// # Errors
    /// As the system says; how much was sent is then unknown.
    fn send(&mut self, pieces: Vec<SendPiece<Self::Io>>) -> impl Future<Output = io::Result<()>>;

    /// Sends `bytes` bytes of `file` from `position` on, which must be in the page cache for this not to hold up the
    /// shard. Pages that went out of it meanwhile are read the slow way, off the shard.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where the file is shorter; else as the system says.
    fn send_file(
        &mut self,
        file: &<Self::Io as Io>::SendFile,
        position: u64,
        bytes: u64,
    ) -> impl Future<Output = io::Result<()>>;
}

/// Bytes on their way to a socket, owned until they are sent.
pub enum SendPiece<I: Io> {
    /// Bytes made for this send.
    Owned(Vec<u8>),
    /// A range of bytes that others hold too, to send them again or to use their memory again.
    Shared(Rc<Vec<u8>>, Range<usize>),
    /// A range of a buffer that others may hold too.
    Buffer(Rc<I::Buffer>, Range<usize>),
    /// A range of what a read gave.
    Read(I::Bytes, Range<usize>),
}

impl<I: Io> SendPiece<I> {
    /// The bytes.
    ///
    /// # Panics
    /// Where the range lies outside its memory.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes, range) => &bytes[range.clone()],
            Self::Buffer(buffer, range) => &buffer.as_slice()[range.clone()],
            Self::Read(bytes, range) => &bytes.as_ref()[range.clone()],
        }
    }
}

impl<I: Io> Clone for SendPiece<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Owned(bytes) => Self::Owned(bytes.clone()),
            Self::Shared(bytes, range) => Self::Shared(Rc::clone(bytes), range.clone()),
            Self::Buffer(buffer, range) => Self::Buffer(Rc::clone(buffer), range.clone()),
            Self::Read(bytes, range) => Self::Read(bytes.clone(), range.clone()),
        }
    }
}
