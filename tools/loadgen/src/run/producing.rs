//! One producer: makes records where they are sent from, and notes what the broker promised.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use engine_io::{Io, deadline};
use engine_record::{Instant, Timestamp};
use net_client::partitioner::{Partitioner, Strategy};
use net_client::{BatchDelivery, BatchHandle, BatchWriter, Producer, SealedBatch, SendError};

use super::{RunError, Shard, client, index};
use crate::ledger::Source;
use crate::payload::Stamp;
use crate::plan::{Keys, Pace};
use crate::schedule::{Schedule, WaitMark, Waits};

/// How many records are made before other tasks of the shard get their turn.
const RECORDS_A_TURN: u32 = 1_024;
/// How often records are made while others linger.
const TURNS_A_LINGER: u32 = 4;

pub(super) async fn run<I: Io>(shard: Rc<Shard<I>>, producer: u32) {
    if let Err(error) = produce(&shard, producer).await {
        shard.fail(error);
    }
    shard.prepared.progress.producing.fetch_sub(1, Ordering::AcqRel);
}

async fn produce<I: Io>(shard: &Rc<Shard<I>>, number: u32) -> Result<(), RunError> {
    let client = client(&shard.io, &shard.plan, &shard.resolver)?;
    let settings = shard.plan.producer_settings(number);
    let producer = Producer::new(client.clone(), settings).map_err(crate::plan::InvalidPlan::from)?;
    // The first batch is not to wait for metadata.
    producer.partition_count(&shard.plan.topic).await?;
    let window = shard.recorder.borrow().window();
    shard.io.sleep(window.start.since(shard.io.now())).await;
    let mut maker = Maker::new(shard, &producer, number);
    match shard.plan.pace {
        Pace::Closed { batches_in_flight } => maker.run_closed(batches_in_flight as usize).await?,
        Pace::Open { records_per_second } => maker.run_open(records_per_second).await?,
    }
    maker.finish().await?;
    producer.close(shard.plan.delivery_timeout).await;
    client.close();
    Ok(())
}

/// A batch that is being filled.
struct Filling {
    writer: BatchWriter,
    first_sequence: u64,
    due: Vec<Instant>,
    /// When the first record was due: it lingers from then on.
    began: Instant,
    /// The records' time: reading the wall clock once a batch is enough.
    timestamp: Timestamp,
    /// What the broker's answers had to do with its lateness when it was begun.
    mark: WaitMark,
}

/// A batch that was sent.
struct Sent {
    handle: BatchHandle,
    source: Source,
    sequences: Range<u64>,
    due: Vec<Instant>,
    sent: Instant,
}

struct Maker<'a, I: Io> {
    shard: &'a Shard<I>,
    producer: &'a Producer<I>,
    number: u32,
    partitioner: Partitioner,
    /// Where records without key go until the batch leaves.
    current: Option<usize>,
    made: u64,
    /// By partition.
    filling: Vec<Option<Filling>>,
    next_sequences: Vec<u64>,
    sent: VecDeque<Sent>,
    waits: Waits,
    /// Emptied lists, to be used again.
    spare: Vec<Vec<Instant>>,
}

impl<'a, I: Io> Maker<'a, I> {
    fn new(shard: &'a Shard<I>, producer: &'a Producer<I>, number: u32) -> Self {
        let partitions = shard.plan.partitions as usize;
        let seed = shard.plan.seed.wrapping_add(u64::from(number));
        Self {
            shard,
            producer,
            number,
            // Without key it draws anew each time it is asked, which is when a batch has left.
            partitioner: Partitioner::new(shard.plan.partitioner, 1, seed),
            current: None,
            made: 0,
            filling: (0..partitions).map(|_| None).collect(),
            next_sequences: vec![0; partitions],
            sent: VecDeque::new(),
            waits: Waits::default(),
            spare: Vec::new(),
        }
    }

    /// Keeps so many batches under way until the load is over.
    async fn run_closed(&mut self, batches_in_flight: usize) -> Result<(), RunError> {
        let until = self.shard.recorder.borrow().window().until;
        let mut now = self.shard.io.now();
        while now < until {
            while self.sent.len() >= batches_in_flight {
                self.await_oldest().await;
                now = self.shard.io.now();
            }
            if let Some(partition) = self.make(now) {
                self.send(partition).await?;
                now = self.shard.io.now();
                self.send_lingering(now).await?;
                self.settle();
            }
        }
        Ok(())
    }

    /// Sends each record when it is due until the load is over; what is late by then, for as long as the plan allows.
    async fn run_open(&mut self, records_per_second: u64) -> Result<(), RunError> {
        let window = self.shard.recorder.borrow().window();
        let producers = u64::from(self.shard.plan.producers);
        // The producers' shares add up to the rate, whatever doesn't divide.
        let share = records_per_second / producers
            + u64::from(u64::from(self.number) < records_per_second % producers);
        if share == 0 {
            return Ok(());
        }
        let mut schedule = Schedule::new(window.start, share);
        let give_up = window.until.after(self.shard.plan.overrun_max);
        while schedule.next_at() < window.until {
            let now = self.shard.io.now();
            if now >= give_up {
                self.give_up(&schedule, now);
                break;
            }
            self.make_due(&mut schedule, now.min(window.until), give_up).await?;
            self.send_lingering(now).await?;
            self.settle();
            self.rest(schedule.next_at().min(window.until)).await;
        }
        Ok(())
    }

    /// What is left is never sent.
    fn give_up(&mut self, schedule: &Schedule, now: Instant) {
        let mut recorder = self.shard.recorder.borrow_mut();
        let window = recorder.window();
        let left = schedule.left_between(window.from, window.until);
        let late = now.since(schedule.next_at());
        let mark = self.waits.mark(late);
        recorder.never_sent(left, late, self.waits.since(mark), self.shard.plan.lateness_max);
    }

    /// Makes and sends what is due, until it is another task's turn or time to give up.
    async fn make_due(
        &mut self,
        schedule: &mut Schedule,
        now: Instant,
        give_up: Instant,
    ) -> Result<(), RunError> {
        for _record in 0..RECORDS_A_TURN {
            let Some(due) = schedule.take_due(now) else { break };
            let Some(partition) = self.make(due) else { continue };
            self.send(partition).await?;
            if self.shard.io.now() >= give_up {
                break;
            }
        }
        Ok(())
    }

    /// Waits until something is to be done, or lets others run where that is now. Records that linger anyway are made
    /// several at a time: a processor that wakes for each of them has no time left for the load.
    async fn rest(&self, next_due: Instant) {
        let linger = self.shard.plan.linger;
        let now = self.shard.io.now();
        let lingering = self.filling.iter().flatten().map(|filling| filling.began.after(linger)).min();
        let next_due = next_due.max(now.after(linger / TURNS_A_LINGER));
        let next = lingering.map_or(next_due, |lingering| lingering.min(next_due));
        if next > now {
            self.shard.io.sleep(next.since(now)).await;
        } else {
            self.shard.io.yield_now().await;
        }
    }

    /// Makes a record; answers the partition whose batch it made full.
    fn make(&mut self, due: Instant) -> Option<usize> {
        let plan = &self.shard.plan;
        let key = match plan.keys {
            Keys::None => None,
            Keys::Cycle { count } => Some((self.made % count).to_be_bytes()),
        };
        let key = key.as_ref().map(<[u8; 8]>::as_slice);
        self.made += 1;
        let place = self.choose(key);
        let sequence = self.next_sequences[place];
        self.next_sequences[place] += 1;
        let partition = u32::try_from(place).unwrap_or(u32::MAX);
        let stamp = Stamp { producer: self.number, partition, sequence, due };
        let filling = self.filling[place].get_or_insert_with(|| Filling {
            writer: BatchWriter::new(self.producer.buffer()),
            first_sequence: sequence,
            due: self.spare.pop().unwrap_or_default(),
            began: due,
            timestamp: self.shard.io.timestamp(),
            mark: self.waits.mark(self.shard.io.now().since(due)),
        });
        filling.due.push(due);
        let (timestamp, record_bytes) = (filling.timestamp, plan.record_bytes as usize);
        let payload = &self.shard.payload;
        let pushed =
            filling.writer.push_with(timestamp, key, record_bytes, |room| payload.write(&stamp, room));
        pushed.expect(
            "a batch takes records until it is as large as the plan says, which is less than it can hold",
        );
        let is_full = filling.writer.batch_bytes() + record_bytes > plan.batch_bytes as usize;
        is_full.then_some(place)
    }

    fn choose(&mut self, key: Option<&[u8]>) -> usize {
        let plan = &self.shard.plan;
        let is_sticky = key.is_none() && plan.partitioner != Strategy::RoundRobin;
        if let Some(current) = self.current.filter(|_| is_sticky) {
            return current;
        }
        let chosen = self.partitioner.choose(key, plan.partitions, plan.record_bytes as usize);
        let chosen = usize::try_from(chosen.0).expect("a chosen partition is not negative");
        self.current = is_sticky.then_some(chosen);
        chosen
    }

    /// Sends what waited long enough.
    async fn send_lingering(&mut self, now: Instant) -> Result<(), RunError> {
        for partition in 0..self.filling.len() {
            let is_over = |filling: &Filling| filling.began.after(self.shard.plan.linger) <= now;
            if self.filling[partition].as_ref().is_some_and(is_over) {
                self.send(partition).await?;
            }
        }
        Ok(())
    }

    /// Sends a partition's batch. Waits only where the producer has no room, which is the broker's doing.
    async fn send(&mut self, partition: usize) -> Result<(), RunError> {
        let Some(filling) = self.filling[partition].take() else { return Ok(()) };
        let Filling { writer, first_sequence, due, mark, .. } = filling;
        self.current = self.current.filter(|current| *current != partition);
        let place = u32::try_from(partition).unwrap_or(u32::MAX);
        let batch = writer.seal(self.shard.plan.compression)?;
        let handle = self.hand_over(place, batch).await?;
        let sent = self.shard.io.now();
        let lateness_max = match self.shard.plan.pace {
            // A record may linger before it counts as late.
            Pace::Open { .. } => self.shard.plan.linger + self.shard.plan.lateness_max,
            Pace::Closed { .. } => Duration::MAX,
        };
        self.shard.recorder.borrow_mut().sent(&due, sent, self.waits.since(mark), lateness_max);
        let source = Source { partition: place, producer: self.number };
        let sequences = first_sequence..first_sequence + due.len() as u64;
        self.sent.push_back(Sent { handle, source, sequences, due, sent });
        Ok(())
    }

    /// Gives a batch to the producer. Only where that has no room for it is time spent for the broker, whatever else may
    /// hold this task up.
    async fn hand_over(&mut self, partition: u32, batch: SealedBatch) -> Result<BatchHandle, SendError> {
        let (topic, partition) = (&self.shard.plan.topic, index(partition));
        let batch = match self.producer.try_send_batch(topic, partition, batch) {
            Ok(handle) => return Ok(handle),
            Err((_no_room, batch)) => batch,
        };
        let asked = self.shard.io.now();
        let handle = self.producer.send_batch(topic, partition, batch).await?;
        self.waits.add(self.shard.io.now().since(asked));
        Ok(handle)
    }

    /// Notes what became of the oldest batches that are answered.
    fn settle(&mut self) {
        while let Some(delivery) = self.sent.front().and_then(|sent| sent.handle.delivery()) {
            self.settle_oldest(delivery);
        }
    }

    fn settle_oldest(&mut self, delivery: BatchDelivery) {
        let Some(Sent { source, sequences, mut due, sent, .. }) = self.sent.pop_front() else { return };
        let mut recorder = self.shard.recorder.borrow_mut();
        match delivery.result {
            Ok(appended) => {
                if let Some(base_offset) = appended.base_offset {
                    self.shard.prepared.promise(source.partition, base_offset, due.len() as u64);
                }
                recorder.acknowledged(&due, sent, delivery.at);
                recorder.ledger().acknowledge(source, sequences);
            }
            Err(error) => {
                tracing::debug!(%error, "a batch was not delivered");
                recorder.failed(due.len() as u64, error);
                if error.may_be_appended() {
                    recorder.ledger().leave_unknown(source, sequences);
                }
            }
        }
        due.clear();
        self.spare.push(due);
    }

    async fn await_oldest(&mut self) {
        let Some(sent) = self.sent.front_mut() else { return };
        let delivery = (&mut sent.handle).await;
        self.settle_oldest(delivery);
        self.settle();
    }

    /// Sends what is left and awaits all answers.
    async fn finish(&mut self) -> Result<(), RunError> {
        for partition in 0..self.filling.len() {
            self.send(partition).await?;
        }
        // Each batch ends by itself when its time is over; this is for one that doesn't.
        let patience = self.shard.plan.delivery_timeout * 2;
        let until = self.shard.io.now().after(patience);
        while let Some(sent) = self.sent.front_mut() {
            match deadline(&self.shard.io, until, &mut sent.handle).await {
                Some(delivery) => self.settle_oldest(delivery),
                None => break,
            }
        }
        for Sent { source, sequences, .. } in self.sent.drain(..) {
            self.shard.recorder.borrow_mut().ledger().leave_unknown(source, sequences);
        }
        Ok(())
    }
}
