//! Carries a plan out on one or more shards.
//!
//! ```text
//!   prepare (once)     the topic is there; where its partitions end now
//!   run_shard (each)   producers: make ─> send ─> note what was promised
//!                      consumers: read from those ends on, and to where the partitions end when the last producer of
//!                                 any shard is done ─> end-to-end latencies
//!                      ticker: a snapshot an interval
//!                      then, when no consumer of any shard reads any more: fresh ones read all of it again
//!                                 ─> note what was found
//!   Outcome::merge     one account of all shards; Report::new tells it
//! ```
//!
//! Only the second pass is verified. It begins when the load is over and read, so what was promised and read once, and is
//! gone since, is not found; a broker that was killed meanwhile has started again.
//!
//! Producers and consumers survive a broker's restart: they retry and reconnect, and what becomes of it is in the
//! ledger.

mod producing;
mod reading;
mod verifying;

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use engine_io::{Io, Sender, Task};
use engine_record::{Instant, Offset, PartitionIndex};
use net_client::admin::{AdminError, TopicRefused};
use net_client::metadata::InvalidEndpoint;
use net_client::{Admin, Client, ClientSettings, CreateMode, Endpoint, NewTopic, Resolver, SendError, Start};
use net_wire::ErrorCode;

use crate::payload::Payload;
use crate::plan::{InvalidPlan, LoadPlan};
use crate::recorder::{Interval, Outcome, Recorder, Window};

/// How long a created topic may take to have leaders.
const TOPIC_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan can't be carried out.
    #[error(transparent)]
    Plan(#[from] InvalidPlan),
    /// A bootstrap address is none.
    #[error(transparent)]
    Bootstrap(#[from] InvalidEndpoint),
    /// The cluster can't be asked, or refuses the topic.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The topic has fewer partitions than the plan writes to.
    #[error("the plan writes to {wanted} partitions, of which topic {topic} has only {found}")]
    TooFewPartitions {
        /// The topic.
        topic: String,
        /// What it has.
        found: u32,
        /// What the plan says.
        wanted: u32,
    },
    /// A batch can't be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A batch can't be made.
    #[error("a batch can't be compressed")]
    Compress(#[from] engine_record::CompressError),
}

/// What is known before the load begins. May be handed to other threads.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Where each partition ended: reading begins there.
    start_offsets: Vec<Offset>,
    progress: Arc<Progress>,
}

/// How far all shards are together.
#[derive(Debug)]
struct Progress {
    /// Producers that aren't done.
    producing: AtomicU32,
    /// Consumers that still read along with the load.
    reading: AtomicU32,
    /// A shard can't carry out its part.
    has_failed: AtomicBool,
    /// Where the records end that were acknowledged, in each partition. With acks=1 a broker may acknowledge what it
    /// doesn't let anyone read yet, so the end it tells isn't the end to read to.
    promised_ends: Box<[AtomicI64]>,
}

impl Prepared {
    fn new(start_offsets: Vec<Offset>, plan: &LoadPlan) -> Self {
        let progress = Progress {
            producing: AtomicU32::new(plan.producers),
            reading: AtomicU32::new(plan.consumers),
            has_failed: AtomicBool::new(false),
            promised_ends: start_offsets.iter().map(|_| AtomicI64::new(0)).collect(),
        };
        Self { start_offsets, progress: Arc::new(progress) }
    }

    /// So many records of this partition were acknowledged, the first at `base_offset`.
    fn promise(&self, partition: u32, base_offset: Offset, records: u64) {
        let end = base_offset.checked_add(records).unwrap_or(Offset::MAX);
        self.progress.promised_ends[partition as usize].fetch_max(end.value(), Ordering::AcqRel);
    }

    fn promised_end(&self, partition: u32) -> Offset {
        let end = self.progress.promised_ends[partition as usize].load(Ordering::Acquire);
        Offset::new(end).expect("only ends of records are noted, and these are not negative")
    }
}

/// Which part of a plan a shard carries out.
#[derive(Clone, Debug)]
pub struct ShardPart {
    /// The shard's number, from 0.
    pub shard: u32,
    /// How many shards carry the plan out.
    pub shards: u32,
    /// When the load begins; the same for all shards, and ahead.
    pub start: Instant,
    /// Where snapshots go as they are made; one that finds the mailbox full is dropped, the outcome has it all the same.
    pub snapshots: Option<Sender<Interval>>,
    /// Turns host names into addresses.
    pub resolver: Resolver,
}

impl ShardPart {
    /// The members of a group of `count` that this shard runs.
    fn own(&self, count: u32) -> impl Iterator<Item = u32> {
        (self.shard..count).step_by(self.shards.max(1) as usize)
    }
}

/// Sees to it that the topic is there, and notes where it ends.
///
/// # Errors
/// See [`RunError`].
pub async fn prepare<I: Io>(io: &I, plan: &LoadPlan, resolver: &Resolver) -> Result<Prepared, RunError> {
    plan.check()?;
    let client = client(io, plan, resolver)?;
    let admin = Admin::new(client.clone());
    create_topic(&admin, plan).await?;
    let found = wait_for_leaders(io, &admin, plan).await?;
    if found < plan.partitions {
        let topic = plan.topic.clone();
        return Err(RunError::TooFewPartitions { topic, found, wanted: plan.partitions });
    }
    let all: Vec<_> = (0..plan.partitions).collect();
    let topic = plan.topic.as_str();
    let refused = |code| AdminError::from(TopicRefused { topic: topic.into(), code, message: None });
    let ends = offsets(&admin, plan, &all, Start::Latest).await?;
    let start_offsets = ends.into_iter().map(|end| end.map_err(refused)).collect::<Result<_, _>>()?;
    client.close();
    Ok(Prepared::new(start_offsets, plan))
}

async fn create_topic<I: Io>(admin: &Admin<I>, plan: &LoadPlan) -> Result<(), RunError> {
    let topic = NewTopic {
        name: plan.topic.as_str().into(),
        partitions: Some(plan.partitions),
        replication_factor: None,
        configs: Vec::new(),
    };
    match admin.create_topic(&topic, CreateMode::Create).await {
        Ok(_) => Ok(()),
        Err(AdminError::Refused(refused)) if refused.code == ErrorCode::TOPIC_ALREADY_EXISTS => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How many partitions there are, once each has a leader or the time is over.
async fn wait_for_leaders<I: Io>(io: &I, admin: &Admin<I>, plan: &LoadPlan) -> Result<u32, RunError> {
    let until = io.now().after(TOPIC_TIMEOUT);
    loop {
        let topic = admin.describe_topic(&plan.topic).await;
        let is_late = io.now() >= until;
        match topic {
            Ok(topic) if is_late || topic.partitions.iter().all(|partition| partition.leader.is_some()) => {
                return Ok(u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX));
            }
            Err(error) if is_late => return Err(error.into()),
            Ok(_) | Err(_) => io.sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Where these partitions begin or end now, in their order.
async fn offsets<I: Io>(
    admin: &Admin<I>,
    plan: &LoadPlan,
    partitions: &[u32],
    which: Start,
) -> Result<Vec<Result<Offset, ErrorCode>>, AdminError> {
    let indexes: Vec<_> = partitions.iter().copied().map(index).collect();
    admin.offsets(&plan.topic, &indexes, which).await
}

/// What the tasks of one shard share.
struct Shard<I: Io> {
    io: I,
    plan: LoadPlan,
    payload: Payload,
    recorder: RefCell<Recorder>,
    prepared: Prepared,
    resolver: Resolver,
    /// The first error of any task.
    error: RefCell<Option<RunError>>,
}

impl<I: Io> Shard<I> {
    fn fail(&self, error: RunError) {
        self.error.borrow_mut().get_or_insert(error);
        self.prepared.progress.has_failed.store(true, Ordering::Release);
    }

    fn is_producing(&self) -> bool {
        self.prepared.progress.producing.load(Ordering::Acquire) > 0
    }

    /// Whether any consumer, of any shard, reads along with the load.
    fn is_reading(&self) -> bool {
        self.prepared.progress.reading.load(Ordering::Acquire) > 0
    }

    /// The partitions that a consumer reads.
    fn partitions_of(&self, consumer: u32) -> Vec<u32> {
        (consumer..self.plan.partitions).step_by(self.plan.consumers as usize).collect()
    }
}

/// Carries out a shard's part of the plan. Resolves when its load is over and its partitions are read to the end twice.
///
/// # Errors
/// See [`RunError`]; what was measured until then is lost.
pub async fn run_shard<I: Io>(
    io: &I,
    plan: &LoadPlan,
    prepared: &Prepared,
    part: ShardPart,
) -> Result<Outcome, RunError> {
    plan.check()?;
    let from = part.start.after(plan.warmup);
    let window = Window { start: part.start, from, until: from.after(plan.duration) };
    let shard = Rc::new(Shard {
        io: io.clone(),
        plan: plan.clone(),
        payload: Payload::new(
            plan.run_mark,
            plan.seed,
            plan.record_bytes as usize,
            plan.compressible_percent,
        ),
        recorder: RefCell::new(Recorder::new(window)),
        prepared: prepared.clone(),
        resolver: part.resolver.clone(),
        error: RefCell::new(None),
    });
    let consumers = part.own(plan.consumers).map(|consumer| io.spawn(consume(Rc::clone(&shard), consumer)));
    let producers =
        part.own(plan.producers).map(|producer| io.spawn(producing::run(Rc::clone(&shard), producer)));
    let tasks: Vec<_> = consumers.chain(producers).collect();
    let ticker = io.spawn(tick(Rc::clone(&shard), part.snapshots));
    for task in tasks {
        task.join().await;
    }
    drop(ticker);
    finish(&shard)
}

/// Reads along with the load; once nobody does any more, reads all of it again.
async fn consume<I: Io>(shard: Rc<Shard<I>>, consumer: u32) {
    let read = reading::run(&shard, consumer).await;
    read.unwrap_or_else(|error| shard.fail(error));
    shard.prepared.progress.reading.fetch_sub(1, Ordering::AcqRel);
    while shard.is_reading() {
        shard.io.sleep(reading::POLL).await;
    }
    // What can't be reported need not be verified.
    if !shard.prepared.progress.has_failed.load(Ordering::Acquire) {
        let verified = verifying::run(&shard, consumer).await;
        verified.unwrap_or_else(|error| shard.fail(error));
    }
}

fn finish<I: Io>(shard: &Shard<I>) -> Result<Outcome, RunError> {
    if let Some(error) = shard.error.borrow_mut().take() {
        return Err(error);
    }
    let window = shard.recorder.borrow().window();
    let recorder = shard.recorder.replace(Recorder::new(window));
    Ok(recorder.finish(shard.io.now()))
}

/// Ends an interval whenever its time is over.
async fn tick<I: Io>(shard: Rc<Shard<I>>, snapshots: Option<Sender<Interval>>) {
    let mut next = shard.recorder.borrow().window().start;
    loop {
        next = next.after(shard.plan.interval);
        shard.io.sleep(next.since(shard.io.now())).await;
        let now = shard.io.now();
        shard.recorder.borrow_mut().end_interval(now, |interval| {
            if let Some(snapshots) = &snapshots {
                // The outcome has every interval; a reader that is slow misses a line.
                let _missed = snapshots.try_send(interval.clone());
            }
        });
    }
}

fn client<I: Io>(io: &I, plan: &LoadPlan, resolver: &Resolver) -> Result<Client<I>, InvalidEndpoint> {
    let bootstrap: Result<Vec<_>, _> = plan.bootstrap.iter().map(|text| Endpoint::parse(text)).collect();
    let settings =
        ClientSettings { bootstrap: bootstrap?, resolver: resolver.clone(), ..ClientSettings::default() };
    Ok(Client::new(io.clone(), settings))
}

fn index(partition: u32) -> PartitionIndex {
    PartitionIndex(i32::try_from(partition).unwrap_or(i32::MAX))
}
