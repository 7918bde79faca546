//! Listening, accepting and connecting.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use engine_io::{ListenMode, Listener};

use super::address::{address_of, is_own, machine_at, overlap};
use super::connection::{Connection, End};
use super::pipe::Pipe;
use super::stream::SimStream;
use super::transfer::Half;
use super::{EndId, Network};
use crate::operation::{Operation, operation};
use crate::seat::Seat;
use crate::trace::Event;
use crate::world::{Boot, World};

/// How many connections wait to be accepted; to more, the listener doesn't answer.
const BACKLOG_MAX: usize = 1024;

/// Where ports start that the system picks; they end with the last port.
const FIRST_FREE_PORT: u16 = 49_152;

/// A listening socket's state.
pub(crate) struct Listening {
    pub(crate) machine: usize,
    address: SocketAddr,
    mode: ListenMode,
    backlog: VecDeque<EndId>,
    accepting: Vec<Waker>,
}

/// A simulated listening socket.
pub struct SimListener {
    seat: Seat,
    number: u64,
    address: SocketAddr,
}

impl SimListener {
    /// Binds and listens at once.
    pub(crate) fn bind(seat: &Seat, address: SocketAddr, mode: ListenMode) -> io::Result<Self> {
        let (number, address) = seat.world(|world| world.listen(seat.boot, address, mode))?;
        Ok(Self { seat: seat.clone(), number, address })
    }

    fn poll_accept(&self, waker: &Waker) -> Poll<EndId> {
        self.seat.world(|world| {
            world.check_runs(self.seat.boot);
            let listening =
                world.network.listeners.get_mut(&self.number).expect("a listener lives with its boot");
            match listening.backlog.pop_front() {
                Some(end) => Poll::Ready(end),
                None => {
                    listening.accepting.push(waker.clone());
                    Poll::Pending
                }
            }
        })
    }
}

impl Listener for SimListener {
    type Stream = SimStream;

    async fn accept(&self) -> io::Result<SimStream> {
        let end = poll_fn(|context| self.poll_accept(context.waker())).await;
        Ok(SimStream::new(self.seat.clone(), end))
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.seat.world(|world| world.stop_listening(self.number));
    }
}

impl World {
    fn listen(&mut self, boot: Boot, address: SocketAddr, mode: ListenMode) -> io::Result<(u64, SocketAddr)> {
        self.check_runs(boot);
        let machine = boot.machine;
        if !is_own(machine, address.ip()) {
            return Err(ErrorKind::AddrNotAvailable.into());
        }
        let port = match address.port() {
            0 => self.free_port(machine, address.ip()).ok_or(ErrorKind::AddrInUse)?,
            port => port,
        };
        let address = SocketAddr::new(address.ip(), port);
        if self.network.conflicts(machine, address, mode) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let number = self.number();
        let listening = Listening { machine, address, mode, backlog: VecDeque::new(), accepting: Vec::new() };
        self.network.listeners.insert(number, listening);
        self.record(Event::Listening { machine, port });
        Ok((number, address))
    }

    /// Connections nobody accepted are closed.
    fn stop_listening(&mut self, number: u64) {
        let Some(listening) = self.network.listeners.remove(&number) else { return };
        for end in listening.backlog {
            self.reset_both(end.connection);
            self.drop_half(end, Half::Reader);
            self.drop_half(end, Half::Writer);
        }
    }

    /// Starts to connect. The end is the caller's at once, so that dropping it gives up.
    pub(crate) fn connect(
        &mut self,
        boot: Boot,
        address: SocketAddr,
    ) -> io::Result<(EndId, Operation<io::Result<()>>)> {
        self.check_runs(boot);
        let target = machine_at(boot.machine, address.ip()).filter(|machine| *machine < self.machines.len());
        let target = target.ok_or(ErrorKind::HostUnreachable)?;
        let own_ip = if address.ip().is_loopback() { address.ip() } else { address_of(boot.machine) };
        let own_address = SocketAddr::new(own_ip, self.next_port(boot.machine));
        let mut ends = [End::new(boot.machine, own_address), End::new(target, address)];
        ends[0].hand_out();
        let end = EndId { connection: self.number(), end: 0 };
        self.network
            .connections
            .insert(end.connection, Connection { ends, pipes: [Pipe::default(), Pipe::default()] });
        self.record(Event::Connecting {
            connection: end.connection,
            machine: boot.machine,
            port: address.port(),
        });
        let (completion, connected) = operation();
        let knocks_at = self.now.after(self.one_way());
        self.travel((boot.machine, target), knocks_at, move |world| {
            let result = world.knock(end, target, address);
            let answered_at = world.now.after(world.one_way());
            world.travel((target, boot.machine), answered_at, move |world| {
                world.record(Event::Connected { connection: end.connection, refused: result.is_err() });
                completion.complete(result);
            });
        });
        Ok((end, connected))
    }

    /// A connection reaches the machine: a listener takes it, or it is refused.
    fn knock(&mut self, client: EndId, machine: usize, address: SocketAddr) -> io::Result<()> {
        let listeners = self.network.listeners_at(machine, address);
        if listeners.is_empty() {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let chosen = listeners[self.random.index(listeners.len())];
        let listening = self.network.listeners.get_mut(&chosen).expect("it was just found");
        if listening.backlog.len() >= BACKLOG_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        let connection = self.network.connections.get_mut(&client.connection);
        let connection = connection.ok_or(ErrorKind::ConnectionAborted)?;
        if connection.ends[1].is_closed {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        connection.ends[1].hand_out();
        listening.backlog.push_back(client.peer());
        listening.accepting.drain(..).for_each(Waker::wake);
        Ok(())
    }

    /// A port nobody listens on, if there is one.
    fn free_port(&mut self, machine: usize, ip: IpAddr) -> Option<u16> {
        for _ in FIRST_FREE_PORT..=u16::MAX {
            let port = self.next_port(machine);
            if !self.network.conflicts(machine, SocketAddr::new(ip, port), ListenMode::Exclusive) {
                return Some(port);
            }
        }
        None
    }

    /// The port after the last one picked on the machine; the first again after the last.
    fn next_port(&mut self, machine: usize) -> u16 {
        let next = &mut self.machines[machine].next_port;
        let port = FIRST_FREE_PORT + *next;
        *next = (*next + 1) % (u16::MAX - FIRST_FREE_PORT + 1);
        port
    }
}

impl Network {
    /// Whether a listener is in the way of a new one.
    fn conflicts(&self, machine: usize, address: SocketAddr, mode: ListenMode) -> bool {
        self.listeners.values().any(|listening| {
            let both_share = mode == ListenMode::SharedByShards && listening.mode == mode;
            listening.machine == machine
                && listening.address.port() == address.port()
                && overlap(listening.address.ip(), address.ip())
                && !both_share
        })
    }

    /// The listeners that hear a connection to the address.
    fn listeners_at(&self, machine: usize, address: SocketAddr) -> Vec<u64> {
        let hears = |listening: &Listening| {
            listening.machine == machine
                && listening.address.port() == address.port()
                && overlap(listening.address.ip(), address.ip())
        };
        self.listeners.iter().filter(|(_, listening)| hears(listening)).map(|(number, _)| *number).collect()
    }
}
