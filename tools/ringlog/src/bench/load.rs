//! One load, carried out on the generator's shards while this thread looks after the broker, the meter and the live
//! line.

use std::panic::resume_unwind;
use std::time::{Duration, SystemTime};

use engine_io::{Io, Receiver, Sender, first, mailbox};
use engine_io_glommio::{GlommioIo, Running, ShardSpec};
use engine_record::{Instant, Timestamp};
use futures_lite::future::{block_on, zip};
use loadgen::{
    Interval, LoadPlan, Outcome, Pace, Prepared, RunError, ShardPart, ThreadTime, prepare, run_shard,
};
use net_client::metadata::InvalidEndpoint;
use net_client::{Client, ClientSettings, Endpoint, Resolver};

use super::broker::Broker;
use super::cpu::ThreadCpu;
use super::live::Live;
use super::meter::{Meter, Usage};
use crate::client;
use crate::failure::Failure;

/// Memory for the direct I/O of shards that do none, in bytes.
const IO_MEMORY: usize = 256 << 10;
/// From when the load is prepared to when it begins: all shards must run by then.
const LEAD: Duration = Duration::from_millis(500);
/// Snapshots waiting to be shown, at most, for each shard.
const SNAPSHOTS_MAX: usize = 8;
/// Moments of a load: the window begins, the broker is killed, the window ends.
const MOMENTS_MAX: usize = 3;

/// The shards that make the load.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    /// A shard on each.
    pub(super) cpus: Vec<u32>,
    /// Whether the embedded broker lives on the same cores.
    pub(super) shares_cores: bool,
    resolver: Resolver,
}

impl Generator {
    pub(super) const fn new(cpus: Vec<u32>, resolver: Resolver) -> Self {
        Self { cpus, shares_cores: false, resolver }
    }

    pub(super) const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// How many there are.
    pub(super) fn shards(&self) -> u32 {
        u32::try_from(self.cpus.len()).expect("a machine has fewer than 2^32 cores")
    }

    /// A shard on each core, and one for the observer that the system places. In closed loop no shard spins before it
    /// sleeps: whether it had something to do is what its processor time is to tell.
    fn specs(&self, pace: Pace) -> Vec<ShardSpec> {
        let shard = |(index, &cpu): (usize, &u32)| ShardSpec {
            name: format!("load-{index}"),
            cpu: usize::try_from(cpu).ok(),
            dedicated: !self.shares_cores && matches!(pace, Pace::Open { .. }),
        };
        let observer = ShardSpec { name: "observer".to_owned(), cpu: None, dedicated: false };
        self.cpus.iter().enumerate().map(shard).chain([observer]).collect()
    }
}

/// What happens to the embedded broker in the middle of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incident {
    /// Nothing.
    None,
    /// It is killed and started again.
    Kill,
}

/// What a load came to.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) outcome: Outcome,
    /// What the generator's threads had of the processors within the measured window.
    pub(super) threads: Vec<ThreadTime>,
    pub(super) usage: Usage,
    /// When the load began.
    pub(super) began: SystemTime,
}

/// Something the observer tells.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    what: MomentKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MomentKind {
    WindowBegins,
    BrokerDies,
    WindowEnds,
}

/// Makes the load, and reads everything back.
pub(super) fn run(
    generator: &Generator,
    plan: &LoadPlan,
    broker: Option<&mut Broker>,
    (name, incident): (&str, Incident),
) -> Result<Loaded, Failure> {
    let (prepared, start, timestamp) = prepare_load(generator, plan)?;
    let mut attendant =
        Attendant { broker, live: Live::new(name, plan, generator.shards()), meter: Meter::default() };
    let shards = start_shards(generator, plan, &prepared, (start, incident))?;
    let usage = attendant.attend(&shards)?;
    drop(attendant);
    let (outcome, threads) = merged(shards.running)?;
    let began =
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(timestamp.0).unwrap_or(0)) + LEAD;
    Ok(Loaded { outcome, threads, usage, began })
}

fn prepare_load(generator: &Generator, plan: &LoadPlan) -> Result<(Prepared, Instant, Timestamp), Failure> {
    let (plan, resolver) = (plan.clone(), generator.resolver.clone());
    client::on_shard("prepare", move |io| async move {
        let prepared = prepare(&io, &plan, &resolver).await.map_err(|error| failed(&error))?;
        Ok((prepared, io.now().after(LEAD), io.timestamp()))
    })?
}

/// A failure of the load, as it leaves its shard.
fn failed(error: &RunError) -> Failure {
    match error {
        RunError::Admin(error) => client::failed_admin(error),
        RunError::Plan(_)
        | RunError::Bootstrap(_)
        | RunError::TooFewPartitions { .. }
        | RunError::Send(_)
        | RunError::Compress(_) => client::failed(error),
    }
}

/// A client of the brokers the plan names.
pub(super) fn client<I: Io>(
    io: I,
    plan: &LoadPlan,
    resolver: Resolver,
) -> Result<Client<I>, InvalidEndpoint> {
    let bootstrap = plan.bootstrap.iter().map(|text| Endpoint::parse(text)).collect::<Result<_, _>>()?;
    Ok(Client::new(io, ClientSettings { bootstrap, resolver, ..ClientSettings::default() }))
}

/// What became of a shard.
enum Ended {
    Load(Box<Outcome>, ThreadTime),
    Observer,
}

/// Shards that make a load.
struct Shards {
    running: Running<Result<Ended, Failure>>,
    intervals: Receiver<Interval>,
    moments: Receiver<Moment>,
}

fn start_shards(
    generator: &Generator,
    plan: &LoadPlan,
    prepared: &Prepared,
    (start, incident): (Instant, Incident),
) -> Result<Shards, Failure> {
    let shards = generator.shards();
    let (snapshots, intervals) = mailbox(generator.cpus.len() * SNAPSHOTS_MAX);
    let (told, moments) = mailbox(MOMENTS_MAX);
    let specs = generator.specs(plan.pace);
    let (plan, prepared, resolver) = (plan.clone(), prepared.clone(), generator.resolver.clone());
    let make = move |index: usize, io: GlommioIo| {
        let (plan, prepared, told) = (plan.clone(), prepared.clone(), told.clone());
        let (snapshots, resolver) = (Some(snapshots.clone()), resolver.clone());
        async move {
            match u32::try_from(index) {
                Ok(shard) if shard < shards => {
                    let part = ShardPart { shard, shards, start, snapshots, resolver };
                    load(&io, &plan, &prepared, part).await
                }
                Ok(_) | Err(_) => {
                    observe(&io, &plan, start, incident, &told).await;
                    Ok(Ended::Observer)
                }
            }
        }
    };
    let running = engine_io_glommio::run_without_folder(specs, IO_MEMORY, make);
    Ok(Shards { running: running.map_err(Failure::machine)?, intervals, moments })
}

/// Makes a shard's part of the load, and looks at its thread as the measured window begins and ends.
async fn load(
    io: &GlommioIo,
    plan: &LoadPlan,
    prepared: &Prepared,
    part: ShardPart,
) -> Result<Ended, Failure> {
    let watched = watch(io, plan, part.start);
    let (loaded, thread) = zip(run_shard(io, plan, prepared, part), watched).await;
    let outcome = loaded.map_err(|error| failed(&error))?;
    Ok(Ended::Load(Box::new(outcome), thread.map_err(Failure::failed)?))
}

/// What the calling thread has of the processors within the measured window.
async fn watch<I: Io>(io: &I, plan: &LoadPlan, start: Instant) -> std::io::Result<ThreadTime> {
    let from = start.after(plan.warmup);
    io.sleep(from.since(io.now())).await;
    let (before, began) = (ThreadCpu::of_this_thread()?, io.now());
    io.sleep(from.after(plan.duration).since(began)).await;
    Ok(ThreadCpu::of_this_thread()?.since(before, io.now().since(began)))
}

/// Tells when what begins and ends.
async fn observe<I: Io>(io: &I, plan: &LoadPlan, start: Instant, incident: Incident, told: &Sender<Moment>) {
    let from = start.after(plan.warmup);
    let mut moments = vec![(from, MomentKind::WindowBegins)];
    if incident == Incident::Kill {
        moments.push((from.after(plan.duration / 2), MomentKind::BrokerDies));
    }
    moments.push((from.after(plan.duration), MomentKind::WindowEnds));
    for (at, what) in moments {
        io.sleep(at.since(io.now())).await;
        // Nobody listens where the run has failed.
        let _unheard = told.send(Moment { at: io.now(), what }).await;
    }
}

/// What this thread does while the shards load.
struct Attendant<'a> {
    broker: Option<&'a mut Broker>,
    live: Live,
    meter: Meter,
}

enum Event {
    Interval(Box<Interval>),
    Moment(Moment),
}

impl Attendant<'_> {
    /// Looks after the load until all shards have ended.
    fn attend(&mut self, shards: &Shards) -> Result<Usage, Failure> {
        let mut usage = Usage::default();
        while let Some(event) = block_on(next(shards)) {
            match event {
                Event::Interval(interval) => self.live.show(&interval),
                Event::Moment(Moment { at, what: MomentKind::WindowBegins }) => {
                    self.meter.begin(at, self.broker.as_deref())?;
                }
                Event::Moment(Moment { what: MomentKind::BrokerDies, .. }) => self.replace_broker()?,
                Event::Moment(Moment { at, what: MomentKind::WindowEnds }) => {
                    usage = self.meter.end(at, self.broker.as_deref())?;
                }
            }
            if let Some(broker) = &mut self.broker {
                broker.check_alive()?;
            }
        }
        Ok(usage)
    }

    fn replace_broker(&mut self) -> Result<(), Failure> {
        let Some(broker) = &mut self.broker else { return Ok(()) };
        self.meter.kill(broker)?;
        self.live.say("the broker is killed and started again");
        broker.kill()?;
        broker.restart()
    }
}

/// What happens next; `None` once all shards have ended.
async fn next(shards: &Shards) -> Option<Event> {
    match first(shards.moments.receive(), shards.intervals.receive()).await {
        Ok(Ok(moment)) => Some(Event::Moment(moment)),
        Err(Ok(interval)) => Some(Event::Interval(Box::new(interval))),
        // One mailbox may have been let go of a moment before the other.
        Ok(Err(_)) => shards.intervals.receive().await.ok().map(Box::new).map(Event::Interval),
        Err(Err(_)) => shards.moments.receive().await.ok().map(Event::Moment),
    }
}

fn merged(running: Running<Result<Ended, Failure>>) -> Result<(Outcome, Vec<ThreadTime>), Failure> {
    let (mut merged, mut threads) = (Outcome { is_drained: true, ..Outcome::default() }, Vec::new());
    for ended in running.join() {
        match ended.unwrap_or_else(|panic| resume_unwind(panic))? {
            Ended::Load(outcome, thread) => {
                merged.merge(&outcome);
                threads.push(thread);
            }
            Ended::Observer => {}
        }
    }
    Ok((merged, threads))
}

#[cfg(test)]
mod tests;
