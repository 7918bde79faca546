//! One consumer after the load: reads its partitions from where the run began to where they end, and notes what is there.
//!
//! Partitions that begin later or end earlier than they must are no failure of the run: what isn't there is lost, and the
//! gap says where.

use std::collections::BTreeMap;

use engine_io::Io;
use engine_record::{Instant, Offset};
use net_client::{Admin, ConsumeError, Consumer, FetchedRecords, Start};

use super::reading::{POLL, found, open, partition_of};
use super::{RunError, Shard, index};
use crate::gap::Gap;
use crate::ledger::Source;
use crate::payload::Reading;

pub(super) async fn run<I: Io>(shard: &Shard<I>, number: u32) -> Result<(), RunError> {
    shard.recorder.borrow_mut().begin_again(shard.io.now());
    let (client, consumer) = open(shard)?;
    let admin = Admin::new(client.clone());
    let mut pass = Pass { shard, admin, consumer, ends: BTreeMap::new() };
    pass.begin(&shard.partitions_of(number)).await;
    pass.read().await;
    client.close();
    Ok(())
}

/// The offsets that a partition has, the end exclusive.
type Bounds = (Offset, Offset);

struct Pass<'a, I: Io> {
    shard: &'a Shard<I>,
    admin: Admin<I>,
    consumer: Consumer<I>,
    /// Where partitions are read to that aren't yet.
    ends: BTreeMap<u32, Offset>,
}

impl<I: Io> Pass<'_, I> {
    /// Compares what partitions there are with what must be there, and begins to read it.
    async fn begin(&mut self, own: &[u32]) {
        for (&partition, bounds) in own.iter().zip(self.bounds(own).await) {
            match bounds {
                Ok(bounds) => {
                    let start = self.shard.prepared.start_offsets[partition as usize];
                    self.read_from(partition, start, bounds);
                    let promised = self.shard.prepared.promised_end(partition);
                    if bounds.1 < promised {
                        self.gap(Gap::EndsEarly { partition, end: bounds.1, promised });
                    }
                }
                Err(why) => self.stop(partition, None, why),
            }
        }
    }

    async fn bounds(&self, partitions: &[u32]) -> Vec<Result<Bounds, String>> {
        let until = self.patience_ends();
        let firsts = found(self.shard, &self.admin, (partitions, Start::Earliest), until).await;
        let ends = found(self.shard, &self.admin, (partitions, Start::Latest), until).await;
        firsts.into_iter().zip(ends).map(|(first, end)| Ok((first?, end?))).collect()
    }

    fn patience_ends(&self) -> Instant {
        self.shard.io.now().after(self.shard.plan.drain_timeout)
    }

    /// Reads a partition from `wanted` on, or from its first record where that is later.
    fn read_from(&mut self, partition: u32, wanted: Offset, (first, end): Bounds) {
        if first > wanted {
            self.gap(Gap::StartsLate { partition, wanted, first });
        }
        let from = wanted.max(first);
        if from < end {
            self.consumer.assign(&self.shard.plan.topic, index(partition), Start::At(from));
            self.ends.insert(partition, end);
        } else {
            self.leave(partition);
        }
    }

    /// Reads until all partitions are at their ends, or nothing has come for as long as the plan allows.
    async fn read(&mut self) {
        let mut until = self.patience_ends();
        while !self.ends.is_empty() {
            match self.consumer.poll(POLL).await {
                Ok(Some(records)) => {
                    until = self.patience_ends();
                    note(self.shard, &records);
                    self.move_on(&records);
                }
                Ok(None) if self.shard.io.now() >= until => {
                    self.give_up().await;
                    until = self.patience_ends();
                }
                Ok(None) => {}
                Err(error) => self.look_at(error).await,
            }
        }
    }

    fn move_on(&mut self, records: &FetchedRecords) {
        let partition = records.partition().0.unsigned_abs();
        if self.ends.get(&partition).is_some_and(|end| records.next_offset() >= *end) {
            self.leave(partition);
        }
    }

    /// Reads a partition no more. One that isn't read doesn't hold up the others' fetches.
    fn leave(&mut self, partition: u32) {
        self.ends.remove(&partition);
        let _not_begun = self.consumer.unassign(&self.shard.plan.topic, index(partition));
    }

    /// Nothing comes any more: partitions that have ended meanwhile are read, the others can't be.
    async fn give_up(&mut self) {
        let stalled = self.consumer.stalled(POLL);
        let left: Vec<_> = self.ends.keys().copied().collect();
        for (&partition, bounds) in left.iter().zip(self.bounds(&left).await) {
            let refusal = stalled.iter().find(|stalled| stalled.partition == index(partition));
            let why = refusal.map_or_else(
                || format!("nothing came for {} s", self.shard.plan.drain_timeout.as_secs()),
                |stalled| stalled.code.to_string(),
            );
            let position = self.consumer.position(&self.shard.plan.topic, index(partition));
            match position.ok().flatten() {
                Some(position) => self.compare(partition, position, bounds, why),
                None => self.stop(partition, None, why),
            }
        }
    }

    /// A partition can't be read on.
    async fn look_at(&mut self, error: ConsumeError) {
        let (partition, why) = (partition_of(&error), error.to_string());
        match error {
            ConsumeError::OutOfRange { position, .. } => {
                let bounds = self.bounds(&[partition]).await.pop();
                self.compare(partition, position, bounds.unwrap_or_else(|| Err(why.clone())), why);
            }
            ConsumeError::Unreadable { .. } => {
                self.shard.recorder.borrow_mut().ledger().corrupt();
                self.stop(partition, None, why);
            }
            ConsumeError::Refused { .. } => self.stop(partition, None, why),
        }
    }

    /// What bounds a partition has now says what became of one that can't be read on from `position`.
    fn compare(&mut self, partition: u32, position: Offset, bounds: Result<Bounds, String>, why: String) {
        let Some(&promised) = self.ends.get(&partition) else { return };
        match bounds {
            Ok((first, end)) if first > position => {
                self.read_from(partition, position, (first, end.min(promised)));
            }
            Ok((_, end)) if end <= position => {
                self.gap(Gap::EndsEarly { partition, end, promised });
                self.leave(partition);
            }
            Ok(_) | Err(_) => self.stop(partition, Some(position), why),
        }
    }

    fn stop(&mut self, partition: u32, position: Option<Offset>, why: String) {
        self.gap(Gap::Stopped { partition, position, why });
        self.shard.recorder.borrow_mut().not_drained();
        self.leave(partition);
    }

    fn gap(&self, gap: Gap) {
        self.shard.recorder.borrow_mut().gap(gap);
    }
}

fn note<I: Io>(shard: &Shard<I>, records: &FetchedRecords) {
    let mut recorder = shard.recorder.borrow_mut();
    let partition = records.partition().0.unsigned_abs();
    let mut count = 0;
    for record in records.records() {
        count += 1;
        let reading = record.map(|record| shard.payload.read(record.value.unwrap_or_default()));
        match reading {
            Ok(Reading::Sound(stamp)) if stamp.partition == partition => {
                let source = Source { partition, producer: stamp.producer };
                recorder.ledger().read(source, stamp.sequence);
            }
            Ok(Reading::Foreign) => {}
            Ok(Reading::Sound(_) | Reading::Corrupt) | Err(_) => recorder.ledger().corrupt(),
        }
    }
    recorder.read_again(count);
}
