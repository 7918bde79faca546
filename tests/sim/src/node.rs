//! A machine, and what befalls it.

use core::time::Duration;
use std::net::IpAddr;
use std::rc::Rc;

use crate::disk::{CrashMode, SimDisk};
use crate::executor::Core;
use crate::io::SimIo;
use crate::network::address_of;
use crate::trace::Event;

/// A simulated machine: a disk, an address, a wall clock, and shards that share them.
#[derive(Clone)]
pub struct SimNode {
    core: Rc<Core>,
    machine: usize,
}

/// Which way a wall clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// To a later time.
    Forth(Duration),
    /// To an earlier time.
    Back(Duration),
}

impl SimNode {
    pub(crate) const fn new(core: Rc<Core>, machine: usize) -> Self {
        Self { core, machine }
    }

    pub(crate) const fn machine(&self) -> usize {
        self.machine
    }

    /// The machine's own address: 10.0.0.1 for the first.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        address_of(self.machine)
    }

    /// One more shard of the process that runs on the machine now. After a crash it belongs to a new process, whose
    /// clock starts again.
    #[must_use]
    pub fn io(&self) -> SimIo {
        let (boot, shard, started_at) = self.core.world(|world| {
            let boot = world.boot(self.machine);
            let shard = &mut world.machines[self.machine].next_shard;
            *shard += 1;
            (boot, *shard - 1, world.started_at(boot))
        });
        SimIo::new(Rc::clone(&self.core), boot, shard, started_at)
    }

    /// The machine's disk.
    #[must_use]
    pub fn disk(&self) -> SimDisk {
        SimDisk::new(Rc::clone(&self.core), self.machine)
    }

    /// Stops the machine dead and starts it again, with nothing running. Its tasks are dropped, its sockets broken, its
    /// memory is gone; its disk holds what `mode` says. A task may crash its own machine: then it isn't polled again.
    ///
    /// Handles made before stay harmless until they are used, which panics; what awaits them never resolves.
    pub fn crash(&self, mode: CrashMode) {
        let crashed = self.core.world(|world| {
            let crashed = world.boot(self.machine);
            world.record(Event::Crashed { machine: self.machine });
            world.reboot(self.machine);
            world.crash_network(self.machine);
            let (disk, random) = world.disk(self.machine);
            disk.crash(mode, random);
            crashed
        });
        self.core.drop_tasks(crashed);
    }

    /// Sets the machine's wall clock. Its monotonic clock runs on.
    pub fn step_clock(&self, step: ClockStep) {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let step_ms = match step {
            ClockStep::Forth(duration) => millis(duration),
            ClockStep::Back(duration) => -millis(duration),
        };
        self.core.world(|world| {
            let own = &mut world.machines[self.machine].clock_step_ms;
            *own = own.saturating_add(step_ms);
            world.record(Event::ClockStepped { machine: self.machine, step_ms });
        });
    }
}
