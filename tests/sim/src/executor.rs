//! Runs tasks one at a time, in an order drawn from the seed.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use engine_io::Task;
use engine_record::Instant;

use crate::replace::Replacements;
use crate::trace::Event;
use crate::world::{Boot, World};

/// What one poll of a task costs at most, in nanoseconds. Computing takes time: a task that spins meets its deadline.
const POLL_NANOS_MAX: u64 = 500;

/// How many polls may pass with nothing else happening before tasks are taken to wake each other forever.
const POLLS_WITHOUT_EVENT_MAX: u64 = 10_000_000;

/// The number of the future that [`crate::Sim::block_on`] was given.
const ROOT: u64 = 0;

/// The world, and the tasks that live in it. The two are apart so that a task can change the world, also while it is
/// dropped.
pub(crate) struct Core {
    world: RefCell<World>,
    tasks: RefCell<Tasks>,
    woken: Arc<Woken>,
    pub(crate) replacements: Replacements,
}

#[derive(Default)]
struct Tasks {
    alive: BTreeMap<u64, Entry>,
    /// Numbers of tasks to be polled; each at most once.
    ready: Vec<u64>,
    polls_without_event: u64,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Entry {
    boot: Boot,
    /// None while it is polled.
    future: Option<TaskFuture>,
    is_cancelled: bool,
    status: Rc<Status>,
}

/// What a task's handle sees of it.
#[derive(Default)]
struct Status {
    is_finished: Cell<bool>,
    joiner: RefCell<Option<Waker>>,
}

impl Status {
    fn finish(&self) {
        self.is_finished.set(true);
        if let Some(waker) = self.joiner.take() {
            waker.wake();
        }
    }
}

/// What is to be polled next.
pub(crate) enum Turn {
    Root,
    Task(u64),
    /// Nothing can happen up to the limit.
    Idle,
}

impl Core {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            world: RefCell::new(World::new(seed)),
            tasks: RefCell::default(),
            woken: Arc::new(Woken { numbers: Mutex::default() }),
            replacements: Replacements::default(),
        }
    }

    /// Looks at the world or changes it.
    pub(crate) fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.world.borrow_mut())
    }

    /// Starts a task on a shard of the machine.
    ///
    /// # Panics
    /// Where the machine has crashed.
    pub(crate) fn spawn(
        self: &Rc<Self>,
        boot: Boot,
        shard: u32,
        future: impl Future<Output = ()> + 'static,
    ) -> SimTask {
        let number = self.world(|world| {
            world.check_runs(boot);
            let task = world.number();
            world.record(Event::TaskStarted { machine: boot.machine, shard, task });
            task
        });
        let status = Rc::new(Status::default());
        let entry =
            Entry { boot, future: Some(Box::pin(future)), is_cancelled: false, status: Rc::clone(&status) };
        self.tasks.borrow_mut().alive.insert(number, entry);
        self.woken.push(number);
        SimTask { core: Rc::clone(self), number, status }
    }

    /// The waker of the future that is blocked on; it is to be polled at once.
    pub(crate) fn root_waker(&self) -> Waker {
        self.woken.push(ROOT);
        self.waker(ROOT)
    }

    /// Moves time on to the next poll, at most to `limit`.
    pub(crate) fn next_turn(&self, limit: Instant) -> Turn {
        loop {
            let was_due = self.world(World::do_what_is_due);
            let mut tasks = self.tasks.borrow_mut();
            if was_due {
                tasks.polls_without_event = 0;
            }
            self.woken.drain_into(&mut tasks.ready);
            let mut world = self.world.borrow_mut();
            if world.now < limit && !tasks.ready.is_empty() {
                let chosen = world.random.index(tasks.ready.len());
                let number = tasks.ready.swap_remove(chosen);
                tasks.count_poll();
                let cost = 1 + world.random.below(POLL_NANOS_MAX);
                world.now = world.now.after(Duration::from_nanos(cost));
                return if number == ROOT { Turn::Root } else { Turn::Task(number) };
            }
            match world.next_due() {
                Some(at) if at <= limit => world.now = world.now.max(at),
                Some(_) | None => return Turn::Idle,
            }
        }
    }

    /// Polls a task once, or drops it where it was cancelled.
    pub(crate) fn run(&self, number: u64) {
        let Some((mut future, is_cancelled)) = self.take_future(number) else { return };
        if is_cancelled {
            drop(future);
            self.end(number);
            return;
        }
        self.world(|world| world.record(Event::TaskPolled { task: number }));
        let waker = self.waker(number);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                drop(future);
                self.end(number);
            }
            Poll::Pending => self.put_back(number, future),
        }
    }

    /// Drops every task of the boot.
    pub(crate) fn drop_tasks(&self, boot: Boot) {
        let ended: Vec<Entry> = self
            .tasks
            .borrow_mut()
            .alive
            .extract_if(.., |_, entry| entry.boot == boot)
            .map(|(_, e)| e)
            .collect();
        for entry in ended {
            drop(entry.future);
            entry.status.finish();
        }
    }

    /// Drops every task and all that is due: the end of the world.
    pub(crate) fn end_all(&self) {
        let alive = mem::take(&mut self.tasks.borrow_mut().alive);
        drop(alive);
        self.world(World::forget_agenda);
    }

    fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker { number, woken: Arc::clone(&self.woken) }))
    }

    fn take_future(&self, number: u64) -> Option<(TaskFuture, bool)> {
        let mut tasks = self.tasks.borrow_mut();
        let entry = tasks.alive.get_mut(&number)?;
        Some((entry.future.take()?, entry.is_cancelled))
    }

    fn put_back(&self, number: u64, future: TaskFuture) {
        // The task may have crashed its own machine: then it's gone, and the future goes too, with nothing borrowed.
        let mut tasks = self.tasks.borrow_mut();
        if let Some(entry) = tasks.alive.get_mut(&number) {
            entry.future = Some(future);
            return;
        }
        drop(tasks);
        drop(future);
    }

    fn end(&self, number: u64) {
        let entry = self.tasks.borrow_mut().alive.remove(&number);
        if let Some(entry) = entry {
            self.world(|world| world.record(Event::TaskEnded { task: number }));
            entry.status.finish();
        }
    }
}

impl Tasks {
    fn count_poll(&mut self) {
        self.polls_without_event += 1;
        assert!(
            self.polls_without_event < POLLS_WITHOUT_EVENT_MAX,
            "tasks wake each other without end while nothing else happens"
        );
    }
}

/// A task's handle.
pub struct SimTask {
    core: Rc<Core>,
    number: u64,
    status: Rc<Status>,
}

impl Task for SimTask {
    async fn join(self) {
        core::future::poll_fn(|context| {
            if self.status.is_finished.get() {
                return Poll::Ready(());
            }
            self.status.joiner.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn is_finished(&self) -> bool {
        self.status.is_finished.get()
    }
}

impl Drop for SimTask {
    fn drop(&mut self) {
        if let Some(entry) = self.core.tasks.borrow_mut().alive.get_mut(&self.number) {
            entry.is_cancelled = true;
            self.core.woken.push(self.number);
        }
    }
}

/// Numbers of tasks that were woken since they were last looked at. Wakers must be `Send`, hence the lock; there is
/// one thread.
struct Woken {
    numbers: Mutex<Vec<u64>>,
}

impl Woken {
    fn push(&self, number: u64) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    fn drain_into(&self, ready: &mut Vec<u64>) {
        for number in self.numbers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if !ready.contains(&number) {
                ready.push(number);
            }
        }
    }
}

struct TaskWaker {
    number: u64,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.push(self.number);
    }
}
