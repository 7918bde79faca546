//! The producer: carries out what its core decides.
//!
//! One task, the driver, asks the core what to do whenever something happened, and does it. A request is put on its
//! connection in the driver itself, so requests leave in the order the core decided; each then has a task that awaits
//! its answer.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::{Io, SendPiece, Signal, Tasks, Wait, deadline};
use engine_record::{Instant, Offset, PartitionIndex, ProducerEpoch, ProducerId, Timestamp};
use net_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use net_wire::{ApiKey, ErrorCode};

use crate::accumulator::{BatchId, NotAccepted};
use crate::batch::SealedBatch;
use crate::client::{Client, ClientError, Purpose};
use crate::connection::{Connection, Expect, Pending};
use crate::metadata::BrokerId;
use crate::producer_core::{
    Acks, Action, Appended, Completion, DeliveryError, Identity, InvalidSettings, NotTaken, PartAnswer,
    ProduceAnswer, ProducePlan, ProducerCore, ProducerSettings,
};
use crate::protocol::{LeaderNews, produce};
use crate::record::ProducerRecord;
use crate::request::RequestFailure;

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The partition it went to.
    pub partition: PartitionIndex,
    /// Its offset; `None` where the broker didn't say (acks=0, or a repetition it no longer knows exactly).
    pub offset: Option<Offset>,
    /// When the broker stamped it, on topics with append time.
    pub append_time: Option<Timestamp>,
}

/// What became of a batch, and when that was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDelivery {
    /// Where it is, or why it isn't.
    pub result: Result<Appended, DeliveryError>,
    /// When the answer came.
    pub at: Instant,
}

#[derive(Debug, Default)]
struct Outcome {
    delivery: Cell<Option<BatchDelivery>>,
    is_known: Signal,
}

/// A batch under way. Await it to learn what became of it; drop it where that doesn't matter.
#[derive(Debug)]
#[must_use = "a batch's outcome is learned by awaiting it"]
pub struct BatchHandle {
    outcome: Rc<Outcome>,
    wait: Wait,
}

impl BatchHandle {
    fn new(outcome: Rc<Outcome>) -> Self {
        let wait = outcome.is_known.wait();
        Self { outcome, wait }
    }

    /// What became of it, if that is known.
    #[must_use]
    pub fn delivery(&self) -> Option<BatchDelivery> {
        self.outcome.delivery.get()
    }
}

impl Future for BatchHandle {
    type Output = BatchDelivery;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BatchDelivery> {
        if let Some(delivery) = self.outcome.delivery.get() {
            return Poll::Ready(delivery);
        }
        // The signal is given once, when the outcome is known.
        match Pin::new(&mut self.wait).poll(context) {
            Poll::Ready(()) => self.outcome.delivery.get().map_or(Poll::Pending, Poll::Ready),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A record under way. Await it to learn where it is; drop it where that doesn't matter.
#[derive(Debug)]
#[must_use = "a record's outcome is learned by awaiting it"]
pub struct DeliveryHandle {
    batch: BatchHandle,
    partition: PartitionIndex,
    index: u32,
}

impl Future for DeliveryHandle {
    type Output = Result<RecordMetadata, DeliveryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let delivered = Pin::new(&mut self.batch).poll(context);
        delivered.map(|delivery| {
            let Appended { base_offset, append_time } = delivery.result?;
            let offset = base_offset.and_then(|base| base.checked_add(u64::from(self.index)));
            Ok(RecordMetadata { partition: self.partition, offset, append_time })
        })
    }
}

/// Why a record could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It was not accepted.
    #[error(transparent)]
    NotTaken(NotTaken),
    /// It could not be accepted in time: the topic stayed unknown, or the memory full.
    #[error("not accepted in time: {0}")]
    TimedOut(NotTaken),
}

struct Shared<I: Io> {
    client: Client<I>,
    core: RefCell<ProducerCore>,
    outcomes: RefCell<BTreeMap<BatchId, Rc<Outcome>>>,
    /// There is something for the driver to decide.
    wake: Signal,
    /// Something was completed, or something new is known of the cluster.
    progress: Signal,
    tasks: Tasks<I>,
    driver: RefCell<Option<I::Task>>,
}

/// See the module. Lives on one shard. Dropping it gives up what is under way; [`Producer::close`] waits for it.
pub struct Producer<I: Io> {
    shared: Rc<Shared<I>>,
}

impl<I: Io> Drop for Producer<I> {
    fn drop(&mut self) {
        self.shared.tasks.cancel();
        let driver = self.shared.driver.borrow_mut().take();
        drop(driver);
        self.shared.abandon();
    }
}

/// Sending.
impl<I: Io> Producer<I> {
    /// Starts a producer.
    ///
    /// # Errors
    /// [`InvalidSettings`] where the settings contradict each other.
    pub fn new(client: Client<I>, settings: ProducerSettings) -> Result<Self, InvalidSettings> {
        let shared = Rc::new(Shared {
            core: RefCell::new(ProducerCore::new(settings)?),
            outcomes: RefCell::default(),
            wake: Signal::new(),
            progress: Signal::new(),
            tasks: Tasks::new(),
            driver: RefCell::new(None),
            client,
        });
        let driver = shared.client.io().spawn(drive(Rc::clone(&shared)));
        *shared.driver.borrow_mut() = Some(driver);
        Ok(Self { shared })
    }

    /// Sends a record. Resolves once it is accepted, which takes time only where its topic isn't known yet or the memory
    /// is full; the handle resolves once it is delivered, or has failed for good.
    ///
    /// # Errors
    /// See [`SendError`]; the record was not sent then.
    pub async fn send(&self, record: &ProducerRecord<'_>) -> Result<DeliveryHandle, SendError> {
        let io = self.shared.client.io();
        let (timestamp, mut until) = (io.timestamp(), None);
        loop {
            let progress = self.shared.progress.wait();
            let now = io.now();
            let accepted = self.shared.core.borrow_mut().accept(record, timestamp, now);
            match accepted {
                Ok(accepted) => {
                    let ticket = accepted.ticket;
                    // Later records of a batch change nothing for the driver but, at most, that it is full.
                    if ticket.index == 0 {
                        self.shared.wake.notify();
                    }
                    let batch = BatchHandle::new(self.shared.outcome(ticket.batch));
                    return Ok(DeliveryHandle { batch, partition: accepted.partition, index: ticket.index });
                }
                Err(reason) => self.shared.wait_for_room(reason, &mut until, progress).await?,
            }
        }
    }

    /// Sends a batch the application wrote itself; see [`crate::batch::BatchWriter`] and [`Producer::buffer`].
    ///
    /// # Errors
    /// See [`SendError`]; the batch was not sent then.
    pub async fn send_batch(
        &self,
        topic: &str,
        partition: PartitionIndex,
        batch: SealedBatch,
    ) -> Result<BatchHandle, SendError> {
        let (mut batch, mut until) = (batch, None);
        loop {
            let progress = self.shared.progress.wait();
            match self.try_send_batch(topic, partition, batch) {
                Ok(handle) => return Ok(handle),
                Err((reason, back)) => {
                    batch = back;
                    self.shared.wait_for_room(reason, &mut until, progress).await?;
                }
            }
        }
    }

    /// Sends a batch if it can be accepted now.
    ///
    /// # Errors
    /// Why not, and the batch back.
    pub fn try_send_batch(
        &self,
        topic: &str,
        partition: PartitionIndex,
        batch: SealedBatch,
    ) -> Result<BatchHandle, (NotTaken, SealedBatch)> {
        let now = self.shared.client.io().now();
        let accepted = self.shared.core.borrow_mut().accept_batch(topic, partition, batch, now);
        self.shared.wake.notify();
        Ok(BatchHandle::new(self.shared.outcome(accepted?)))
    }

    /// Memory to write a batch into, used before if possible.
    #[must_use]
    pub fn buffer(&self) -> Vec<u8> {
        self.shared.core.borrow_mut().buffer()
    }

    /// How many partitions a topic has. Resolves once that is known.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn partition_count(&self, topic: &str) -> Result<u32, SendError> {
        let mut until = None;
        loop {
            let progress = self.shared.progress.wait();
            let known = self.shared.core.borrow_mut().require_topic(topic);
            match known {
                Ok(count) => return Ok(count),
                Err(reason) => self.shared.wait_for_room(reason, &mut until, progress).await?,
            }
        }
    }

    /// Resolves once everything sent before is delivered or has failed for good. What is sent meanwhile doesn't hold it
    /// up.
    pub async fn flush(&self) {
        self.shared.core.borrow_mut().flush();
        self.shared.wake.notify();
        let last = self.shared.outcomes.borrow().last_key_value().map(|(batch, _)| *batch);
        loop {
            let progress = self.shared.progress.wait();
            let oldest = self.shared.outcomes.borrow().first_key_value().map(|(batch, _)| *batch);
            if oldest.is_none_or(|oldest| Some(oldest) > last) {
                return;
            }
            progress.await;
        }
    }

    /// Takes no more records, waits up to `timeout` for those under way, and gives up the rest.
    pub async fn close(self, timeout: Duration) {
        let io = self.shared.client.io();
        self.shared.core.borrow_mut().close();
        let all_known = deadline(io, io.now().after(timeout), self.flush()).await;
        if all_known.is_none() {
            tracing::warn!("a producer is closed before all of its records are delivered");
        }
    }
}

/// Between the application and the core.
impl<I: Io> Shared<I> {
    fn outcome(&self, batch: BatchId) -> Rc<Outcome> {
        Rc::clone(self.outcomes.borrow_mut().entry(batch).or_default())
    }

    /// Waits where the reason passes, at most for as long as a delivery may take.
    async fn wait_for_room(
        &self,
        reason: NotTaken,
        until: &mut Option<Instant>,
        progress: Wait,
    ) -> Result<(), SendError> {
        if !reason.is_passing() {
            return Err(SendError::NotTaken(reason));
        }
        if reason == NotTaken::NotAccepted(NotAccepted::MemoryFull) {
            // What lingers must leave for memory to become free.
            self.core.borrow_mut().flush();
        }
        let io = self.client.io();
        let limit = self.core.borrow().settings().delivery_timeout;
        let until = *until.get_or_insert_with(|| io.now().after(limit));
        self.wake.notify();
        deadline(io, until, progress).await.ok_or(SendError::TimedOut(reason))
    }

    fn complete(&self, Completion { batch, result }: Completion) {
        let at = self.client.io().now();
        if let Some(outcome) = self.outcomes.borrow_mut().remove(&batch) {
            outcome.delivery.set(Some(BatchDelivery { result, at }));
            outcome.is_known.notify();
        }
    }

    /// Tells everyone who waits that nothing more will be known.
    fn abandon(&self) {
        let plan = {
            let mut core = self.core.borrow_mut();
            core.abandon();
            core.advance(self.client.io().now())
        };
        for action in plan.actions {
            match action {
                Action::Complete(completion) => self.complete(completion),
                // Nothing is left to be sent, and nobody to send it.
                Action::Connect(_) | Action::Send(_) | Action::RefreshMetadata | Action::InitProducerId => {}
            }
        }
        self.progress.notify();
    }

    /// Tells the core something, and the driver that there is something to decide.
    fn tell(&self, event: impl FnOnce(&mut ProducerCore, Instant)) {
        event(&mut self.core.borrow_mut(), self.client.io().now());
        self.wake.notify();
        self.progress.notify();
    }
}

/// The driver.
async fn drive<I: Io>(shared: Rc<Shared<I>>) {
    loop {
        let wake = shared.wake.wait();
        let plan = shared.core.borrow_mut().advance(shared.client.io().now());
        let did_something = !plan.actions.is_empty();
        for action in plan.actions {
            carry_out(&shared, action);
        }
        if did_something {
            shared.progress.notify();
        }
        match plan.wake_at {
            Some(at) => drop(deadline(shared.client.io(), at, wake).await),
            None => wake.await,
        }
    }
}

fn carry_out<I: Io>(shared: &Rc<Shared<I>>, action: Action) {
    let io = shared.client.io();
    match action {
        Action::Complete(completion) => shared.complete(completion),
        Action::Send(plan) => send(shared, plan),
        Action::Connect(broker) => shared.tasks.spawn(io, connect(Rc::clone(shared), broker)),
        Action::RefreshMetadata => shared.tasks.spawn(io, refresh(Rc::clone(shared))),
        Action::InitProducerId => shared.tasks.spawn(io, init_producer_id(Rc::clone(shared))),
    }
}

async fn connect<I: Io>(shared: Rc<Shared<I>>, broker: BrokerId) {
    let connected = shared.client.broker(broker, Purpose::Produce).await;
    if let Err(error) = &connected {
        tracing::debug!(broker = broker.0, %error, "a broker can't be reached");
    }
    shared.tell(|core, now| match connected {
        Ok(_) => core.on_connected(broker),
        Err(_) => core.on_connect_failed(broker, now),
    });
}

async fn refresh<I: Io>(shared: Rc<Shared<I>>) {
    let topics: Vec<_> = shared.core.borrow().topics().cloned().collect();
    let refreshed = shared.client.refresh(Some(&topics)).await;
    if let Err(error) = &refreshed {
        tracing::debug!(%error, "no metadata can be had");
    }
    shared.tell(|core, now| match refreshed {
        Ok(()) => shared.client.with_metadata(|metadata| core.on_metadata(metadata, now)),
        Err(_) => core.on_metadata_failed(now),
    });
}

async fn init_producer_id<I: Io>(shared: Rc<Shared<I>>) {
    let identity = ask_identity(&shared.client).await;
    shared.tell(|core, now| core.on_identity(identity, now));
}

/// A code that passes stands for what isn't an answer.
async fn ask_identity<I: Io>(client: &Client<I>) -> Result<Identity, ErrorCode> {
    let asked = async {
        let connection = client.any().await?;
        let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
        let answer = client.ask(&connection, &request).await?;
        Ok::<_, ClientError>(answer.decode::<InitProducerIdResponse>()?)
    };
    let response = asked.await.map_err(|error| {
        tracing::debug!(%error, "no producer id can be had");
        ErrorCode::NETWORK_EXCEPTION
    })?;
    let identity =
        Identity { id: ProducerId(response.producer_id), epoch: ProducerEpoch(response.producer_epoch) };
    if response.error_code.is_none() { Ok(identity) } else { Err(response.error_code) }
}

/// Puts a request on its connection now, so that it keeps its place, and awaits the answer in a task.
fn send<I: Io>(shared: &Rc<Shared<I>>, plan: ProducePlan) {
    let io = shared.client.io();
    match start(shared, &plan) {
        Some((connection, pending)) => {
            shared.tasks.spawn(io, finish(Rc::clone(shared), connection, pending, plan));
        }
        None => {
            let request = plan.request;
            shared.tell(|core, now| core.on_answer(request, Err(RequestFailure::NotSent), now));
        }
    }
}

fn start<I: Io>(shared: &Rc<Shared<I>>, plan: &ProducePlan) -> Option<(Rc<Connection<I>>, Pending)> {
    let connection = shared.client.opened(plan.broker, Purpose::Produce)?;
    let settings = shared.core.borrow().settings().clone();
    let version = connection.version(ApiKey::Produce, produce::version_max(plan));
    let version =
        version.inspect_err(|error| tracing::error!(broker = plan.broker.0, %error, "can't produce")).ok()?;
    let expect = if settings.acks == Acks::None { Expect::Nothing } else { Expect::Answer };
    let until = shared.client.io().now().after(settings.request_timeout);
    let started = connection.start((ApiKey::Produce, version), until, expect, |header| {
        let frame = produce::encode(plan, header, settings.acks, settings.request_timeout)?;
        Ok(frame.pieces().into_iter().map(|(bytes, range)| SendPiece::Shared(bytes, range)).collect())
    });
    let pending = started.inspect_err(|error| tracing::error!(%error, "a request can't be written")).ok()?;
    Some((connection, pending))
}

async fn finish<I: Io>(
    shared: Rc<Shared<I>>,
    connection: Rc<Connection<I>>,
    pending: Pending,
    plan: ProducePlan,
) {
    let acks = shared.core.borrow().settings().acks;
    let answer = match acks {
        Acks::None => connection.finish_sending(pending).await.map(|()| (sent(&plan), LeaderNews::default())),
        Acks::Leader | Acks::All => answer(&connection, pending, &plan).await,
    };
    let request = plan.request;
    // The batches' memory is to be free when the core lets go of it.
    drop(plan);
    let (answer, news) = match answer {
        Ok((answer, news)) => (Ok(answer), news),
        Err(failure) => (Err(failure), LeaderNews::default()),
    };
    let has_news = shared.client.change_metadata(|metadata| news.apply(metadata));
    shared.tell(|core, now| {
        core.on_answer(request, answer.as_ref().map_err(|failure| *failure), now);
        if has_news {
            shared.client.with_metadata(|metadata| core.on_metadata(metadata, now));
        }
    });
}

async fn answer<I: Io>(
    connection: &Connection<I>,
    pending: Pending,
    plan: &ProducePlan,
) -> Result<(ProduceAnswer, LeaderNews), RequestFailure> {
    let answer = connection.finish(pending).await?;
    produce::decode(&mut answer.reader(), answer.version(), plan).map_err(|error| {
        tracing::warn!(broker = plan.broker.0, %error, "an answer can't be read");
        connection.close();
        RequestFailure::NoAnswer
    })
}

/// With acks=0 what is sent counts as delivered.
fn sent(plan: &ProducePlan) -> ProduceAnswer {
    let part = PartAnswer { error: ErrorCode::NONE, base_offset: None, append_time: None };
    ProduceAnswer { parts: vec![Some(part); plan.parts.len()], throttle: Duration::ZERO }
}
