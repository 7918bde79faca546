//! Listening, accepting, connecting.

use core::cell::Cell;
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

/// So many are accepted in a turn, some hundred microseconds. With one a turn, the last of many that come together would
/// wait for as many turns of all that those before it ask for.
const ACCEPTED_IN_TURN: u32 = 32;

/// A listening socket.
#[derive(Debug)]
pub struct GlommioListener {
    descriptor: OwnedFd,
    local: SocketAddr,
    /// How many may still be accepted in this turn.
    left_in_turn: Cell<u32>,
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
        Ok(Self { descriptor, local, left_in_turn: Cell::new(0) })
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
        if self.left_in_turn.get() == 0 {
            turn::give_way().await;
            self.left_in_turn.set(ACCEPTED_IN_TURN);
        }
        loop {
            match self.take() {
                Ok((descriptor, peer)) => {
                    self.left_in_turn.update(|left| left.saturating_sub(1));
                    return accepted(descriptor, peer);
                }
                Err(Errno::AGAIN) => {
                    acceptable(self.descriptor.as_fd()).await?;
                    self.left_in_turn.set(ACCEPTED_IN_TURN);
                }
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

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Client;
    use std::rc::Rc;

    use engine_io::{Io, Task};

    use super::*;
    use crate::testing::on_shard;

    /// How many turns another task had while 100 connections were accepted that are there.
    fn turns_of_another() -> u32 {
        let turns = on_shard(|io, _| async move {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = GlommioListener::listen(address, ListenMode::Exclusive).unwrap();
            let clients: Vec<_> =
                (0..100).map(|_| Client::connect(listener.local_address()).unwrap()).collect();
            let turns = Rc::new(Cell::new(0));
            let (counter, counting) = (Rc::clone(&turns), io.clone());
            let _counting = io.spawn(async move {
                loop {
                    counter.set(counter.get() + 1);
                    counting.yield_now().await;
                }
            });
            let accepting = io.spawn(async move {
                for _ in &clients {
                    listener.accept().await.unwrap();
                }
            });
            accepting.join().await;
            turns.get()
        });
        turns.unwrap()
    }

    /// Each of the others' turns may be all that the connections before it ask for. Now and then the system shows the last
    /// connections a little late, and waiting for them takes many turns: one try of several has to find them all there.
    #[test]
    fn many_that_come_together_are_accepted_in_few_turns() {
        let turns: Vec<_> = (0..20).map(|_| turns_of_another()).collect();
        let fewest = turns.iter().min();
        assert!(fewest.is_some_and(|fewest| (1..=12).contains(fewest)), "others had {turns:?} turns");
    }
}
