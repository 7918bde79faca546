//! Everything that isn't a task: the clock, what is due, the machines and the network between them.

use core::task::Waker;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use engine_record::Instant;

use crate::disk::{Disk, OpenFile};
use crate::network::Network;
use crate::operation::{Operation, operation};
use crate::random::Random;
use crate::trace::{Event, Trace};

/// The simulated world. Nothing in it owns a value made by a task, so that changing it never runs foreign code.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) random: Random,
    pub(crate) machines: Vec<Machine>,
    pub(crate) network: Network,
    trace: Trace,
    agenda: BTreeMap<Due, Entry>,
    /// Files on their way from shard to shard, by number, each open as long as somebody has the number.
    carried: BTreeMap<u64, Carried>,
    next_number: u64,
}

struct Carried {
    holder: Weak<u64>,
    boot: Boot,
    open: OpenFile,
}

/// A computer: it has a disk and a wall clock, and is started again after each crash.
pub(crate) struct Machine {
    pub(crate) disk: Disk,
    /// How far the wall clock is off.
    pub(crate) clock_step_ms: i64,
    pub(crate) next_shard: u32,
    pub(crate) next_port: u16,
    boot: u64,
    started_at: Instant,
}

/// One machine between two crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boot {
    pub(crate) machine: usize,
    number: u64,
}

/// When an entry of the agenda is due. Those due at the same time come in an order drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    at: Instant,
    tie: u64,
    number: u64,
}

/// Something that happens to the world when its time has come.
pub(crate) type Effect = Box<dyn FnOnce(&mut World)>;

enum Entry {
    Timer(Waker),
    Effect(Effect),
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            random: Random::new(seed),
            machines: Vec::new(),
            network: Network::default(),
            trace: Trace::default(),
            agenda: BTreeMap::new(),
            carried: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// A number never given before: for tasks, files, connections and whatever else needs one.
    pub(crate) const fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Keeps a file open on its way to another shard.
    pub(crate) fn carry(&mut self, boot: Boot, open: OpenFile) -> Arc<u64> {
        self.carried.retain(|_, carried| carried.holder.strong_count() > 0);
        let number = Arc::new(self.number());
        self.carried.insert(*number, Carried { holder: Arc::downgrade(&number), boot, open });
        number
    }

    /// The file that was carried under this number.
    pub(crate) fn carried(&mut self, boot: Boot, number: u64) -> OpenFile {
        let carried = self.carried.remove(&number).expect("it is kept until it is taken, and taken once");
        assert!(carried.boot == boot, "a file is carried within a machine, and through no crash");
        carried.open
    }

    /// Notes that something happens now.
    pub(crate) fn record(&mut self, event: Event) {
        self.trace.record(self.now, event);
    }

    pub(crate) const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Adds a machine; gives its number, from 0 on.
    pub(crate) fn add_machine(&mut self) -> usize {
        self.machines.push(Machine {
            disk: Disk::new(),
            clock_step_ms: 0,
            next_shard: 0,
            next_port: 0,
            boot: 0,
            started_at: self.now,
        });
        self.machines.len() - 1
    }

    /// The machine as it runs now.
    pub(crate) fn boot(&self, machine: usize) -> Boot {
        Boot { machine, number: self.machines[machine].boot }
    }

    /// Whether the machine hasn't crashed since.
    pub(crate) fn runs(&self, boot: Boot) -> bool {
        self.boot(boot.machine) == boot
    }

    /// When the machine was started: its clock's origin.
    pub(crate) fn started_at(&self, boot: Boot) -> Instant {
        self.machines[boot.machine].started_at
    }

    /// From here on, nothing started before happens any more.
    pub(crate) fn reboot(&mut self, machine: usize) {
        let now = self.now;
        self.carried.retain(|_, carried| carried.boot.machine != machine);
        let machine = &mut self.machines[machine];
        machine.boot += 1;
        machine.started_at = now;
        machine.next_shard = 0;
    }

    /// The disk and the chance it draws from.
    pub(crate) fn disk(&mut self, machine: usize) -> (&mut Disk, &mut Random) {
        (&mut self.machines[machine].disk, &mut self.random)
    }

    /// Wakes a task at `at`, unless the timer is removed before.
    pub(crate) fn set_timer(&mut self, at: Instant, waker: Waker) -> Due {
        self.insert(at, Entry::Timer(waker))
    }

    /// Removes a timer; one that has fired is gone already.
    pub(crate) fn remove_timer(&mut self, due: Due) {
        self.agenda.remove(&due);
    }

    /// Lets `effect` happen at `at`.
    pub(crate) fn at(&mut self, at: Instant, effect: impl FnOnce(&mut Self) + 'static) {
        self.insert(at, Entry::Effect(Box::new(effect)));
    }

    /// Starts an operation that happens, and resolves, `latency` from now.
    ///
    /// # Panics
    /// Where the machine has crashed.
    pub(crate) fn operate<T: 'static>(
        &mut self,
        boot: Boot,
        latency: Duration,
        effect: impl FnOnce(&mut Self) -> T + 'static,
    ) -> Operation<T> {
        self.check_runs(boot);
        let (completion, operation) = operation();
        self.at(self.now.after(latency), move |world| {
            if world.runs(boot) {
                let result = effect(world);
                completion.complete(result);
            }
        });
        operation
    }

    /// Like [`Self::operate`], but it happens at some moment before it resolves, as it may in a kernel: a crash in
    /// between leaves something done that nobody was told of.
    pub(crate) fn operate_early<T: 'static>(
        &mut self,
        boot: Boot,
        latency: Duration,
        effect: impl FnOnce(&mut Self) -> T + 'static,
    ) -> Operation<T> {
        self.check_runs(boot);
        let (completion, operation) = operation();
        let early = self.random.duration(&(Duration::ZERO..=latency));
        let resolved_at = self.now.after(latency);
        self.at(self.now.after(early), move |world| {
            if world.runs(boot) {
                let result = effect(world);
                world.at(resolved_at, move |world| {
                    if world.runs(boot) {
                        completion.complete(result);
                    }
                });
            }
        });
        operation
    }

    /// # Panics
    /// Where the machine has crashed since the boot: a handle outlived its process.
    pub(crate) fn check_runs(&self, boot: Boot) {
        assert!(self.runs(boot), "this handle belongs to a machine that has crashed since it was made");
    }

    /// Does all that is due by now; whether anything was.
    pub(crate) fn do_what_is_due(&mut self) -> bool {
        let mut was_due = false;
        while let Some(first) = self.agenda.first_entry()
            && first.key().at <= self.now
        {
            let (due, entry) = first.remove_entry();
            match entry {
                Entry::Timer(waker) => {
                    self.record(Event::TimerFired { number: due.number });
                    waker.wake();
                }
                Entry::Effect(effect) => effect(self),
            }
            was_due = true;
        }
        was_due
    }

    /// When the next thing is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|(due, _)| due.at)
    }

    /// Forgets all that is due.
    pub(crate) fn forget_agenda(&mut self) {
        self.agenda.clear();
    }

    fn insert(&mut self, at: Instant, entry: Entry) -> Due {
        let due = Due { at, tie: self.random.next(), number: self.number() };
        self.agenda.insert(due, entry);
        due
    }
}
