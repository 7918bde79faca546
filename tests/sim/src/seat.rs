//! What every handle that a program holds carries: the world, and the machine it runs on.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::rc::Rc;

use crate::disk::{Disk, DiskLatency};
use crate::executor::Core;
use crate::operation::Operation;
use crate::random::Random;
use crate::world::{Boot, World};

/// A program's place in the world: one machine between two crashes. Used after a crash it panics; dropped, it doesn't.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) core: Rc<Core>,
    pub(crate) boot: Boot,
}

/// Which of a disk's latencies an operation draws from.
pub(crate) type LatencyOf = fn(&DiskLatency) -> &RangeInclusive<Duration>;

impl Seat {
    pub(crate) fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.core.world(change)
    }

    /// Looks at the machine's disk or changes it, now.
    pub(crate) fn disk<T>(&self, change: impl FnOnce(&mut Disk, &mut Random) -> T) -> T {
        self.world(|world| {
            world.check_runs(self.boot);
            let (disk, random) = world.disk(self.boot.machine);
            change(disk, random)
        })
    }

    /// Starts an operation of the disk that happens when it resolves.
    pub(crate) fn operate<T: 'static>(
        &self,
        latency: LatencyOf,
        effect: impl FnOnce(&mut World) -> T + 'static,
    ) -> Operation<T> {
        let latency = self.disk(|disk, random| random.duration(latency(&disk.latency)));
        self.world(|world| world.operate(self.boot, latency, effect))
    }

    /// Starts an operation of the disk that happens at some moment before it resolves.
    pub(crate) fn operate_early<T: 'static>(
        &self,
        latency: LatencyOf,
        effect: impl FnOnce(&mut World) -> T + 'static,
    ) -> Operation<T> {
        let latency = self.disk(|disk, random| random.duration(latency(&disk.latency)));
        self.world(|world| world.operate_early(self.boot, latency, effect))
    }
}
