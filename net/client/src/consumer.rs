//! The consumer: carries out what its core decides.

use core::cell::RefCell;
use core::fmt;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Signal, Tasks, deadline};
use engine_record::{Instant, Offset, PartitionIndex};
use net_wire::ApiKey;

use crate::client::{Client, Purpose};
use crate::connection::{Answer, Connection};
use crate::consumer_core::{
    ConsumeError, ConsumerAction, ConsumerCore, ConsumerSettings, FetchAnswer, FetchPlan, FetchedRecords,
    ListOffsetsPlan, NotAssigned, OffsetsAnswer, Stalled, Start,
};
use crate::metadata::BrokerId;
use crate::protocol::{LeaderNews, fetch, list_offsets};
use crate::request::RequestFailure;

struct Shared<I: Io> {
    client: Client<I>,
    core: RefCell<ConsumerCore>,
    /// There is something for the driver to decide.
    wake: Signal,
    /// Something came.
    progress: Signal,
    tasks: Tasks<I>,
    driver: RefCell<Option<I::Task>>,
}

/// Reads partitions, each from a position on. Lives on one shard. Dropping it closes it.
pub struct Consumer<I: Io> {
    shared: Rc<Shared<I>>,
}

impl<I: Io> Drop for Consumer<I> {
    fn drop(&mut self) {
        self.shared.tasks.cancel();
        let driver = self.shared.driver.borrow_mut().take();
        drop(driver);
    }
}

impl<I: Io> Consumer<I> {
    /// A consumer of nothing.
    #[must_use]
    pub fn new(client: Client<I>, settings: ConsumerSettings) -> Self {
        let shared = Rc::new(Shared {
            client,
            core: RefCell::new(ConsumerCore::new(settings)),
            wake: Signal::new(),
            progress: Signal::new(),
            tasks: Tasks::new(),
            driver: RefCell::new(None),
        });
        let driver = shared.client.io().spawn(drive(Rc::clone(&shared)));
        *shared.driver.borrow_mut() = Some(driver);
        Self { shared }
    }

    /// Reads this partition too; where it is read already it is as after a seek.
    pub fn assign(&self, topic: &str, partition: PartitionIndex, start: Start) {
        self.shared.tell(|core, _| core.assign(topic, partition, start));
    }

    /// No longer reads this partition.
    ///
    /// # Errors
    /// [`NotAssigned`] where it wasn't read.
    pub fn unassign(&self, topic: &str, partition: PartitionIndex) -> Result<(), NotAssigned> {
        self.shared.tell(|core, _| core.unassign(topic, partition))
    }

    /// Goes on reading elsewhere. What came before is dropped.
    ///
    /// # Errors
    /// [`NotAssigned`] where the partition isn't read.
    pub fn seek(&self, topic: &str, partition: PartitionIndex, start: Start) -> Result<(), NotAssigned> {
        self.shared.tell(|core, _| core.seek(topic, partition, start))
    }

    /// The offset of the next record that [`Consumer::poll`] gives; `None` while it is being found.
    ///
    /// # Errors
    /// [`NotAssigned`] where the partition isn't read.
    pub fn position(&self, topic: &str, partition: PartitionIndex) -> Result<Option<Offset>, NotAssigned> {
        self.shared.core.borrow().position(topic, partition)
    }

    /// The next records of one partition; `None` where none came within `timeout`. Dropped before it resolves, it loses
    /// nothing.
    ///
    /// # Errors
    /// [`ConsumeError`] of a partition that can't go on; the others aren't touched by it.
    pub async fn poll(&self, timeout: Duration) -> Result<Option<FetchedRecords>, ConsumeError> {
        let io = self.shared.client.io();
        let until = io.now().after(timeout);
        loop {
            let progress = self.shared.progress.wait();
            let ready = self.shared.core.borrow_mut().take_ready();
            if let Some(ready) = ready {
                self.shared.wake.notify();
                return ready.map(Some);
            }
            if deadline(io, until, progress).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// The partitions that have failed at every attempt for at least so long. They are tried on.
    #[must_use]
    pub fn stalled(&self, at_least: Duration) -> Vec<Stalled> {
        self.shared.core.borrow().stalled(self.shared.client.io().now(), at_least)
    }

    /// Ends it.
    pub fn close(self) {
        drop(self);
    }
}

impl<I: Io> Shared<I> {
    /// Tells the core something, and the driver that there is something to decide.
    fn tell<T>(&self, event: impl FnOnce(&mut ConsumerCore, Instant) -> T) -> T {
        let result = event(&mut self.core.borrow_mut(), self.client.io().now());
        self.wake.notify();
        self.progress.notify();
        result
    }

    fn take_news(&self, news: LeaderNews) {
        if self.client.change_metadata(|metadata| news.apply(metadata)) {
            self.tell(|core, now| self.client.with_metadata(|metadata| core.on_metadata(metadata, now)));
        }
    }
}

async fn drive<I: Io>(shared: Rc<Shared<I>>) {
    loop {
        let wake = shared.wake.wait();
        let plan = shared.core.borrow_mut().advance(shared.client.io().now());
        for action in plan.actions {
            carry_out(&shared, action);
        }
        match plan.wake_at {
            Some(at) => drop(deadline(shared.client.io(), at, wake).await),
            None => wake.await,
        }
    }
}

fn carry_out<I: Io>(shared: &Rc<Shared<I>>, action: ConsumerAction) {
    let io = shared.client.io();
    let also = Rc::clone(shared);
    match action {
        ConsumerAction::Connect(broker) => shared.tasks.spawn(io, connect(also, broker)),
        ConsumerAction::RefreshMetadata => shared.tasks.spawn(io, refresh(also)),
        ConsumerAction::Fetch(plan) => shared.tasks.spawn(io, fetch_records(also, plan)),
        ConsumerAction::ListOffsets(plan) => shared.tasks.spawn(io, find_offsets(also, plan)),
    }
}

async fn connect<I: Io>(shared: Rc<Shared<I>>, broker: BrokerId) {
    let connected = shared.client.broker(broker, Purpose::Fetch).await;
    if let Err(error) = &connected {
        tracing::debug!(broker = broker.0, %error, "a broker can't be reached");
    }
    shared.tell(|core, now| match connected {
        Ok(_) => core.on_connected(broker),
        Err(_) => core.on_connect_failed(broker, now),
    });
}

async fn refresh<I: Io>(shared: Rc<Shared<I>>) {
    let topics = shared.core.borrow().topics();
    let refreshed = shared.client.refresh(Some(&topics)).await;
    if let Err(error) = &refreshed {
        tracing::debug!(%error, "no metadata can be had");
    }
    shared.tell(|core, now| match refreshed {
        Ok(()) => shared.client.with_metadata(|metadata| core.on_metadata(metadata, now)),
        Err(_) => core.on_metadata_failed(now),
    });
}

async fn fetch_records<I: Io>(shared: Rc<Shared<I>>, plan: FetchPlan) {
    let fetched = fetch_from(&shared, &plan).await;
    let (answer, news) = match fetched {
        Ok((answer, news)) => (Ok(answer), news),
        Err(failure) => (Err(failure), LeaderNews::default()),
    };
    shared.tell(|core, now| core.on_fetch(plan.request, answer.as_ref().map_err(|failure| *failure), now));
    shared.take_news(news);
}

async fn fetch_from<I: Io>(
    shared: &Shared<I>,
    plan: &FetchPlan,
) -> Result<(FetchAnswer, LeaderNews), RequestFailure> {
    let settings = shared.core.borrow().settings().clone();
    let connection = shared.client.opened(plan.broker, Purpose::Fetch).ok_or(RequestFailure::NotSent)?;
    let version = connection.version(ApiKey::Fetch, fetch::version_max(plan));
    let version = version.map_err(|error| not_sent(plan.broker, &error))?;
    let until = shared.client.io().now().after(plan.wait_max + settings.request_timeout);
    let pending = connection.start_message(&fetch::request(plan, &settings), version, until);
    let answer = connection.finish(pending.map_err(|error| not_sent(plan.broker, &error))?).await?;
    let (frame, body) = answer.into_frame();
    fetch::decode(frame, body, version, plan).map_err(|error| unreadable(&connection, plan.broker, &error))
}

async fn find_offsets<I: Io>(shared: Rc<Shared<I>>, plan: ListOffsetsPlan) {
    let found = find_from(&shared, &plan).await;
    shared.tell(|core, now| core.on_offsets(plan.request, found.as_ref().map_err(|failure| *failure), now));
}

async fn find_from<I: Io>(
    shared: &Shared<I>,
    plan: &ListOffsetsPlan,
) -> Result<OffsetsAnswer, RequestFailure> {
    let timeout = shared.core.borrow().settings().request_timeout;
    let connection = shared.client.opened(plan.broker, Purpose::Fetch).ok_or(RequestFailure::NotSent)?;
    let version = connection.version(ApiKey::ListOffsets, i16::MAX);
    let version = version.map_err(|error| not_sent(plan.broker, &error))?;
    let until = shared.client.io().now().after(timeout);
    let pending = connection.start_message(&list_offsets::request(&plan.parts), version, until);
    let answer: Answer = connection.finish(pending.map_err(|error| not_sent(plan.broker, &error))?).await?;
    list_offsets::decode(&mut answer.reader(), version, &plan.parts)
        .map_err(|error| unreadable(&connection, plan.broker, &error))
}

fn not_sent(broker: BrokerId, error: &impl fmt::Display) -> RequestFailure {
    tracing::error!(broker = broker.0, %error, "a request can't be written");
    RequestFailure::NotSent
}

fn unreadable<I: Io>(
    connection: &Connection<I>,
    broker: BrokerId,
    error: &impl fmt::Display,
) -> RequestFailure {
    tracing::warn!(broker = broker.0, %error, "an answer can't be read");
    connection.close();
    RequestFailure::NoAnswer
}
