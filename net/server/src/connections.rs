//! The connections of one shard: how many there may be, and which have done nothing for too long.

use core::cell::RefCell;
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use engine_io::{Io, Signal};
use engine_record::Instant;

use crate::config::Limits;
use crate::connection::Connection;
use crate::hurrying::Wanted;

/// How long a large request must have been received for its pace to count.
const PACE_AFTER: Duration = Duration::from_secs(2);

/// A connection without requests is closed after this (`connections.max.idle.ms`).
const IDLE_MAX: Duration = Duration::from_secs(600);
/// Where others wait for the memory of replies, a client must take a part of what is sent to it within this.
pub(crate) const STUCK_MAX: Duration = Duration::from_secs(10);
/// A frame must be complete, and a reply taken, within this.
const TRANSFER_MAX: Duration = Duration::from_secs(300);

/// Every connection of the shard.
pub(crate) struct Connections<I: Io> {
    state: RefCell<State<I>>,
    /// Given whenever a connection ends.
    ended: Signal,
}

struct State<I: Io> {
    by_number: BTreeMap<u64, Rc<Connection<I>>>,
    by_address: BTreeMap<IpAddr, usize>,
    admitted: usize,
    next_number: u64,
}

/// Why a connection is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The shard has as many as it may (`max.connections`).
    #[error(
        "the shard has {0} connections, its limit (max.connections): raise max.connections and start again, or have clients \
         keep fewer"
    )]
    Full(usize),
    /// The shard has as many as the process's limits let it have, fewer than it may (`max.connections`).
    #[error(
        "the shard has {connections} connections, as many as the memory and the open files of the process allow of the \
         {setting} of max.connections: raise what the start has warned of, or have clients keep fewer"
    )]
    Cut { connections: usize, setting: u32 },
    /// The address has as many as it may (`max.connections.per.ip`).
    #[error("the address has {0} connections, its limit (max.connections.per.ip)")]
    AddressFull(usize),
}

impl Refused {
    /// At `connections`, the limit, where `setting` (`max.connections`) may ask for more than the process is allowed.
    fn full(connections: usize, setting: u32) -> Self {
        if u64::from(setting) > connections as u64 {
            Self::Cut { connections, setting }
        } else {
            Self::Full(connections)
        }
    }
}

/// Permission to hold one connection, given back when dropped.
pub(crate) struct Admission<I: Io> {
    connections: Rc<Connections<I>>,
    address: IpAddr,
}

/// An entry in the list, taken out when dropped.
pub(crate) struct Listed<'a, I: Io> {
    connections: &'a Connections<I>,
    number: u64,
}

impl<I: Io> Connections<I> {
    pub(crate) fn new() -> Self {
        let state =
            State { by_number: BTreeMap::new(), by_address: BTreeMap::new(), admitted: 0, next_number: 0 };
        Self { state: RefCell::new(state), ended: Signal::new() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.state.borrow().admitted
    }

    /// Admits a connection from `address`, if the limits allow, which may be below `setting` (`max.connections`).
    pub(crate) fn admit(
        self: &Rc<Self>,
        address: IpAddr,
        limits: &Limits,
        setting: u32,
    ) -> Result<Admission<I>, Refused> {
        let mut state = self.state.borrow_mut();
        if state.admitted >= limits.connections {
            return Err(Refused::full(state.admitted, setting));
        }
        let from_address = state.by_address.entry(address).or_default();
        if *from_address >= limits.connections_per_address {
            return Err(Refused::AddressFull(*from_address));
        }
        *from_address += 1;
        state.admitted += 1;
        Ok(Admission { connections: Rc::clone(self), address })
    }

    /// Puts a connection in the list while the entry lives.
    pub(crate) fn list(&self, connection: &Rc<Connection<I>>) -> Listed<'_, I> {
        let mut state = self.state.borrow_mut();
        let number = state.next_number;
        state.next_number += 1;
        state.by_number.insert(number, Rc::clone(connection));
        Listed { connections: self, number }
    }

    /// Closes those that have been at one thing for too long; how many. `is_short` says that others wait for the memory of
    /// their replies.
    pub(crate) fn close_stalled(&self, now: Instant, is_short: bool) -> usize {
        let stalled: Vec<_> = self
            .state
            .borrow()
            .by_number
            .values()
            .filter(|connection| is_stalled(connection, now, is_short))
            .cloned()
            .collect();
        stalled.iter().for_each(|connection| connection.close());
        stalled.len()
    }

    /// Closes connections whose large requests would take longer than `longest` at the pace they have, until what they
    /// hold and what they wait for is `bytes`; how many. Those that lack the most come first: they would hold memory the
    /// longest. A request that is only just begun has no pace yet.
    pub(crate) fn close_slow(&self, now: Instant, longest: Duration, bytes: u64) -> usize {
        let mut slow: Vec<_> = self
            .snapshot()
            .into_iter()
            .filter_map(|connection| Some((connection.unfinished()?, connection)))
            .filter(|(progress, _)| now.since(progress.begun_at) > PACE_AFTER)
            .filter(|(progress, _)| progress.remaining(now) > longest)
            .collect();
        slow.sort_by_key(|(progress, _)| (Reverse(progress.lacking), progress.begun_at));
        let mut left = bytes;
        let mut closed = 0;
        for (progress, connection) in slow {
            if left == 0 {
                break;
            }
            connection.close();
            left = left.saturating_sub(progress.held + progress.wanted);
            closed += 1;
        }
        closed
    }

    /// Has those that hold memory which others wait for answer what is under way as soon as they can; how many.
    pub(crate) fn hurry(&self, wanted: Wanted) -> usize {
        let holders = self.snapshot().into_iter().filter(|connection| wanted.is_held_by(connection));
        holders.map(|connection| connection.hurry()).count()
    }

    /// Lets every connection answer what it has begun, then close. Those whose socket another shard has end with it.
    pub(crate) fn finish_all(&self) {
        for connection in self.snapshot().iter().filter(|connection| !connection.is_forwarded()) {
            connection.finish();
        }
    }

    /// Closes every connection now.
    pub(crate) fn close_all(&self) {
        for connection in self.snapshot() {
            connection.close();
        }
    }

    /// Resolves when there is no connection left, those included whose socket another shard has.
    pub(crate) async fn none_left(&self) {
        loop {
            let ended = self.ended.wait();
            if self.count() == 0 && self.state.borrow().by_number.is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn snapshot(&self) -> Vec<Rc<Connection<I>>> {
        self.state.borrow().by_number.values().cloned().collect()
    }
}

fn is_stalled<I: Io>(connection: &Connection<I>, now: Instant, is_short: bool) -> bool {
    let beyond = |since: Option<Duration>, longest| since.is_some_and(|since| since > longest);
    beyond(connection.transferring(now), TRANSFER_MAX)
        || beyond(connection.idle(now), IDLE_MAX)
        || (is_short && beyond(connection.stuck(now), STUCK_MAX))
}

impl<I: Io> Drop for Admission<I> {
    fn drop(&mut self) {
        let mut state = self.connections.state.borrow_mut();
        state.admitted -= 1;
        if let Some(count) = state.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                state.by_address.remove(&self.address);
            }
        }
        drop(state);
        self.connections.ended.notify();
    }
}

impl<I: Io> Drop for Listed<'_, I> {
    fn drop(&mut self) {
        self.connections.state.borrow_mut().by_number.remove(&self.number);
        self.connections.ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_whether_the_setting_or_the_process_is_the_limit() {
        assert_eq!(Refused::full(10, 10), Refused::Full(10));
        assert!(Refused::full(10, 10).to_string().contains("raise max.connections"));
        assert_eq!(Refused::full(1_024, 16_384), Refused::Cut { connections: 1_024, setting: 16_384 });
        let told = Refused::full(1_024, 16_384).to_string();
        assert!(told.contains("1024 connections") && told.contains("16384 of max.connections"), "{told}");
        assert!(told.contains("memory and the open files") && !told.contains("raise max"), "{told}");
    }
}
