//! A connected socket, and waiting for it.
//!
//! Every transfer is a system call that does not wait. Only where it can't go on is the runtime asked to wait, and the
//! runtime's public way to wait for a socket is to transfer a little through it: one byte in, at most 4 KiB out.

use core::cell::RefCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use futures_lite::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// What is sent through the runtime while waiting, at most: it is one copy more for these bytes.
pub(crate) const WAIT_SEND_BYTES: usize = 4 << 10;

/// A socket that does not block. It closes when the last holder lets go.
pub(crate) struct Socket {
    /// Borrowed only inside one poll.
    stream: RefCell<TcpStream>,
    descriptor: RawFd,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let descriptor = stream.as_raw_fd();
        let socket = Self { stream: RefCell::new(stream), descriptor };
        // For sendfile, which has no flag of its own.
        rustix::io::ioctl_fionbio(&socket, true)?;
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(socket)
    }

    pub(crate) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        Self::new(adopt_stream(descriptor))
    }

    /// Receives at most `bytes_max` bytes into the spare capacity of `buffer`, which must be as large.
    fn receive(&self, buffer: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        let spare: &mut [MaybeUninit<u8>] = &mut buffer.spare_capacity_mut()[..bytes_max];
        let ((filled, _unfilled), _) = rustix::net::recv(self, spare, RecvFlags::DONTWAIT)?;
        let count = filled.len();
        extend(buffer, count);
        Ok(count)
    }

    /// As [`Socket::receive`], waiting for the first byte. `ready` says, between calls, whether it is worth a try before
    /// waiting; so a request costs one call that finds nothing and one that finds it.
    pub(crate) fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
        bytes_max: usize,
        ready: &mut bool,
    ) -> Poll<io::Result<usize>> {
        let mut received = None;
        if core::mem::replace(ready, true) {
            received = unless_blocked(self.receive(buffer, bytes_max));
        }
        let received = match received {
            Some(received) => received,
            None => ready!(self.poll_first(context, buffer, bytes_max)),
        };
        *ready = received.as_ref().is_ok_and(|&count| count == bytes_max);
        Poll::Ready(received)
    }

    fn poll_first(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let mut byte = [0];
        let mut stream = self.stream.borrow_mut();
        if ready!(Pin::new(&mut *stream).poll_read(context, &mut byte))? == 0 {
            return Poll::Ready(Ok(0));
        }
        buffer.push(byte[0]);
        Poll::Ready(self.receive_more(buffer, bytes_max - 1).map(|count| count + 1))
    }

    /// Takes what has come behind the byte that was waited for. After an error the buffer is as it was before that byte.
    fn receive_more(&self, buffer: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        if bytes_max == 0 {
            return Ok(0);
        }
        let result = unless_blocked(self.receive(buffer, bytes_max)).unwrap_or(Ok(0));
        if result.is_err() {
            buffer.pop();
        }
        result
    }

    /// Sends what fits of `slices`, waiting until something does. The first slice must not be empty.
    pub(crate) fn poll_send(
        &self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut nothing = SendAncillaryBuffer::default();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::sendmsg(self, slices, &mut nothing, flags);
        if let Some(result) = unless_blocked(sent.map_err(io::Error::from)) {
            return Poll::Ready(result);
        }
        let little = &slices[0][..slices[0].len().min(WAIT_SEND_BYTES)];
        let mut stream = self.stream.borrow_mut();
        Pin::new(&mut *stream).poll_write(context, little)
    }

    /// Ends both directions.
    pub(crate) fn shut_down(&self) {
        // Fails only where there is no connection any more.
        let _already_closed = rustix::net::shutdown(self, Shutdown::Both);
    }
}

impl AsFd for Socket {
    #[expect(unsafe_code, reason = "the runtime's stream lends its descriptor only as a number")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `self.stream` owns the descriptor, is never replaced, and closes it only when dropped, which the
        // borrow of `self` rules out.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

#[expect(unsafe_code, reason = "the runtime takes a descriptor only as a number")]
fn adopt_stream(descriptor: OwnedFd) -> TcpStream {
    let descriptor = descriptor.into_raw_fd();
    // SAFETY: the number comes from an `OwnedFd` that gave up its ownership one line above.
    unsafe { TcpStream::from_raw_fd(descriptor) }
}

#[expect(unsafe_code, reason = "the system filled memory that the vector does not count yet")]
fn extend(buffer: &mut Vec<u8>, count: usize) {
    let len = buffer.len() + count;
    assert!(len <= buffer.capacity(), "the system fills only spare capacity");
    // SAFETY: the assertion bounds `len`, and the caller was given `count` initialized bytes at the start of the spare
    // capacity.
    unsafe { buffer.set_len(len) };
}

fn unless_blocked<T>(result: io::Result<T>) -> Option<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        result => Some(result),
    }
}

/// Waits until there is something to take from a listening socket.
///
/// The runtime's own accept is not used: dropped half-way it loses the connection it was given. A stream made of a
/// duplicate arms a wait at once; what it says when that ends (a listener can't be read) does not matter.
pub(crate) async fn acceptable(listener: BorrowedFd<'_>) -> io::Result<()> {
    let mut waiter = adopt_stream(listener.try_clone_to_owned()?);
    let wait = core::future::poll_fn(|context| Pin::new(&mut waiter).poll_read(context, &mut [0]).map(drop));
    wait.await;
    Ok(())
}
