//! Listening, accepting, connecting.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use engine_io::{ListenMode, Listener};
use glommio::net::TcpStream;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};

use crate::error;
use crate::socket::{Socket, acceptable};
use crate::stream::GlommioStream;
use crate::turn;

/// Connections the system keeps for us until they are accepted: a cluster's clients coming back all at once.
const BACKLOG: i32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub struct GlommioListener {
    descriptor: OwnedFd,
    local: SocketAddr,
}

impl GlommioListener {
    pub(crate) fn listen(address: SocketAddr, mode: ListenMode) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor =
            net::socket_with(family(address), SocketType::STREAM, flags, Some(net::ipproto::TCP))?;
        // A restart must not wait for the old connections' TIME_WAIT. Two listeners still can't share a port by it.
        sockopt::set_socket_reuseaddr(&descriptor, true)?;
        match mode {
            ListenMode::Exclusive => {}
            ListenMode::SharedByShards => sockopt::set_socket_reuseport(&descriptor, true)?,
        }
        net::bind(&descriptor, &address)?;
        net::listen(&descriptor, BACKLOG)?;
        let local = net::getsockname(&descriptor)?.try_into()?;
        Ok(Self { descriptor, local })
    }

    /// The next connection that is there. A failure that concerns only the connection is not the listener's.
    fn take(&self) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match net::acceptfrom_with(&self.descriptor, flags) {
                Err(errno) if is_of_connection(errno) => {}
                taken => return taken,
            }
        }
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET }
}

/// Errors of a connection that broke while it waited; the system reports them where it would have been accepted.
fn is_of_connection(errno: Errno) -> bool {
    [
        Errno::CONNABORTED,
        Errno::INTR,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NONET,
    ]
    .contains(&errno)
}

impl Listener for GlommioListener {
    type Stream = GlommioStream;

    async fn accept(&self) -> io::Result<GlommioStream> {
        // First, so that a flood of connections does not keep others waiting, and a dropped future loses none.
        turn::give_way().await;
        loop {
            match self.take() {
                Ok((descriptor, peer)) => return accepted(descriptor, peer),
                Err(Errno::AGAIN) => acceptable(self.descriptor.as_fd()).await?,
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

/// The peer's address comes from accept itself: a peer that has reset by now has none that could be asked for.
fn accepted(descriptor: OwnedFd, peer: Option<SocketAddrAny>) -> io::Result<GlommioStream> {
    let peer = peer.ok_or(io::ErrorKind::NotConnected)?.try_into()?;
    GlommioStream::new(Socket::adopt(descriptor)?, peer)
}

pub(crate) async fn connect(address: SocketAddr) -> io::Result<GlommioStream> {
    let stream = TcpStream::connect(address).await.map_err(error::system)?;
    GlommioStream::new(Socket::new(stream)?, address)
}
