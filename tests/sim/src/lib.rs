//! A world in memory: machines, disks and a network behind the seam of `engine-io`, in virtual time, under one seed.
//!
//! Whatever is generic over [`engine_io::Io`] runs in it unchanged: a store, a server, a cluster of them. One thread
//! runs everything; each choice that the real world would make (which task runs next, how long a write takes, what a
//! power cut leaves) is drawn from the seed. So a seed is a schedule, and a failure is a number that brings it back.
//!
//! ```text
//!   Sim ──── block_on, run_for ── executor ─── polls tasks, in an order drawn from the seed
//!    ├─ SimNode ── crash, step_clock     │
//!    │    ├─ SimIo (a shard) ────────────┤     the seam: what programs see
//!    │    └─ SimDisk ── faults, images   │
//!    └─ SimNetwork ── latency, cuts      └──── world ─── clock and agenda, disks, connections
//! ```
//!
//! What holds:
//! - The same seed and the same program give the same [`Sim::trace_hash`]. There is no clock, thread or address in it.
//! - A disk never keeps a promise it hasn't made: a write is safe once a flush that started after it resolved has
//!   resolved, a name once its folder was flushed. [`CrashMode`] says what happens to the rest.
//! - Misuse of the seam panics, where a real system would lose data in silence: direct I/O that isn't of whole blocks,
//!   writes in flight that overlap, bytes changed that a socket still owes its client.
//!
//! It isn't a model of speed: latencies are drawn from plain ranges, and computing costs next to nothing.
#![forbid(unsafe_code)]

mod buffer;
mod disk;
mod executor;
mod file;
mod io;
mod network;
mod node;
mod operation;
mod random;
mod replace;
mod seat;
mod timer;
mod trace;
mod world;

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::rc::Rc;

use engine_record::Instant;

use crate::executor::{Core, Turn};

pub use buffer::{SimBuffer, SimBytes};
pub use disk::{CrashMode, DiskLatency, SimDisk};
pub use executor::SimTask;
pub use file::{SimCarriedFile, SimFile, SimSendFile};
pub use io::SimIo;
pub use network::{NetworkSettings, SimCloser, SimListener, SimNetwork, SimReader, SimStream, SimWriter};
pub use node::{ClockStep, SimNode};

/// How much virtual time may pass before a future or a world that doesn't come to an end is given up.
const ENDLESS: Duration = Duration::from_hours(24);

/// A simulated world. Dropping it ends everything in it.
pub struct Sim {
    core: Rc<Core>,
}

impl Sim {
    /// A world without machines, whose every choice comes from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { core: Rc::new(Core::new(seed)) }
    }

    /// Adds a machine with an empty disk.
    #[must_use]
    pub fn node(&self) -> SimNode {
        let machine = self.core.world(world::World::add_machine);
        SimNode::new(Rc::clone(&self.core), machine)
    }

    /// The network between the machines.
    #[must_use]
    pub fn network(&self) -> SimNetwork {
        SimNetwork::new(Rc::clone(&self.core))
    }

    /// The virtual time since the world began.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.core.world(|world| world.now)
    }

    /// Runs the world until the future resolves. The future belongs to no machine: no crash drops it.
    ///
    /// # Panics
    /// Where it can't resolve any more, or doesn't within a day of virtual time.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let waker = self.core.root_waker();
        let limit = self.now().after(ENDLESS);
        loop {
            match self.core.next_turn(limit) {
                Turn::Root => {
                    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return value;
                    }
                }
                Turn::Task(task) => self.core.run(task),
                Turn::Idle => self.give_up("nothing can happen any more that would resolve the future"),
            }
        }
    }

    /// Runs the world until nothing can happen any more.
    ///
    /// # Panics
    /// Where that isn't so within a day of virtual time: a task that sets a timer again and again keeps a world busy.
    pub fn run_until_idle(&self) {
        let limit = self.now().after(ENDLESS);
        self.run_until(limit);
        if self.now() >= limit {
            self.give_up("the world is still busy after a day");
        }
    }

    /// Runs the world for a while: afterwards it is `duration` later.
    pub fn run_for(&self, duration: Duration) {
        let limit = self.now().after(duration);
        self.run_until(limit);
        self.core.world(|world| world.now = world.now.max(limit));
    }

    /// Folds every event so far, with its time, into one number: the same for two runs only where they were the same.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.core.world(|world| world.trace().hash())
    }

    fn run_until(&self, limit: Instant) {
        loop {
            match self.core.next_turn(limit) {
                Turn::Task(task) => self.core.run(task),
                // Left over from a future that resolved before this call.
                Turn::Root => {}
                Turn::Idle => return,
            }
        }
    }

    fn give_up(&self, why: &str) -> ! {
        let recent = self.core.world(|world| world.trace().to_string());
        panic!("{why}; the last events were:\n{recent}");
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.core.end_all();
    }
}
