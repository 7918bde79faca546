//! One consumer while the load runs, and until it is read: when records come. Whether all of them do, and stay, the second
//! pass tells (`verifying`).

use core::time::Duration;
use std::collections::BTreeSet;

use engine_io::Io;
use engine_record::{Instant, Offset};
use net_client::metadata::InvalidEndpoint;
use net_client::{
    Acks, Admin, Client, ConsumeError, Consumer, ConsumerSettings, FetchedRecords, OffsetReset, Start,
};

use super::{RunError, Shard, client, index, offsets};

/// How long the ends of partitions must stand still where no answer tells them.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a consumer waits for records before it looks whether the load is over.
pub(super) const POLL: Duration = Duration::from_millis(100);

pub(super) async fn run<I: Io>(shard: &Shard<I>, number: u32) -> Result<(), RunError> {
    let (client, consumer) = open(shard)?;
    let own = shard.partitions_of(number);
    for &partition in &own {
        let start = shard.prepared.start_offsets[partition as usize];
        consumer.assign(&shard.plan.topic, index(partition), Start::At(start));
    }
    let mut reader = Reader { shard, consumer, open: own.iter().copied().collect() };
    while shard.is_producing() {
        reader.take().await;
    }
    let admin = Admin::new(client.clone());
    if let Err(why) = reader.drain(&admin, &own).await {
        shard.recorder.borrow_mut().reading_ended(why);
    }
    client.close();
    Ok(())
}

/// A client and a consumer of its own, of nothing yet.
pub(super) fn open<I: Io>(shard: &Shard<I>) -> Result<(Client<I>, Consumer<I>), InvalidEndpoint> {
    let client = client(&shard.io, &shard.plan, &shard.resolver)?;
    let settings = ConsumerSettings { reset: OffsetReset::Error, ..ConsumerSettings::default() };
    let consumer = Consumer::new(client.clone(), settings);
    Ok((client, consumer))
}

/// The partition that can't be read on.
pub(super) const fn partition_of(error: &ConsumeError) -> u32 {
    match error {
        ConsumeError::OutOfRange { partition, .. }
        | ConsumeError::Refused { partition, .. }
        | ConsumeError::Unreadable { partition, .. } => partition.0.unsigned_abs(),
    }
}

struct Reader<'a, I: Io> {
    shard: &'a Shard<I>,
    consumer: Consumer<I>,
    /// Partitions that can be read on.
    open: BTreeSet<u32>,
}

impl<I: Io> Reader<'_, I> {
    async fn take(&mut self) {
        match self.consumer.poll(POLL).await {
            Ok(Some(records)) => note(self.shard, &records, self.shard.io.now()),
            Ok(None) => {}
            Err(error) => {
                self.open.remove(&partition_of(&error));
                self.shard.recorder.borrow_mut().reading_ended(error.to_string());
            }
        }
    }

    /// Reads on to where the partitions end after the load.
    ///
    /// # Errors
    /// Why that isn't possible.
    async fn drain(&mut self, admin: &Admin<I>, own: &[u32]) -> Result<(), String> {
        let patience = self.shard.plan.drain_timeout;
        let until = self.shard.io.now().after(patience);
        let ends = settled_ends(self.shard, admin, own, until).await?;
        while !self.is_read(own, &ends) {
            if self.shard.io.now() >= until {
                return Err(format!("not everything came within {} s after the load", patience.as_secs()));
            }
            self.take().await;
        }
        Ok(())
    }

    fn is_read(&self, own: &[u32], ends: &[Offset]) -> bool {
        own.iter().zip(ends).filter(|(partition, _)| self.open.contains(partition)).all(
            |(&partition, &end)| {
                let end = end.max(self.shard.prepared.promised_end(partition));
                let position = self.consumer.position(&self.shard.plan.topic, index(partition));
                position.is_ok_and(|position| position >= Some(end))
            },
        )
    }
}

/// Where partitions end, once all of them stand still. What is sent without asking for an answer may still be on its
/// way, and nothing tells when it has come.
async fn settled_ends<I: Io>(
    shard: &Shard<I>,
    admin: &Admin<I>,
    partitions: &[u32],
    until: Instant,
) -> Result<Vec<Offset>, String> {
    let mut ends = ends_of(shard, admin, partitions, until).await?;
    while shard.plan.acks == Acks::None && shard.io.now() < until {
        shard.io.sleep(SETTLE).await;
        let next = ends_of(shard, admin, partitions, until).await?;
        if next == ends {
            break;
        }
        ends = next;
    }
    Ok(ends)
}

async fn ends_of<I: Io>(
    shard: &Shard<I>,
    admin: &Admin<I>,
    partitions: &[u32],
    until: Instant,
) -> Result<Vec<Offset>, String> {
    found(shard, admin, (partitions, Start::Latest), until).await.into_iter().collect()
}

/// Where partitions begin or end, in their order, or why that isn't known. A broker that is just starting again is asked
/// again.
pub(super) async fn found<I: Io>(
    shard: &Shard<I>,
    admin: &Admin<I>,
    (partitions, which): (&[u32], Start),
    until: Instant,
) -> Vec<Result<Offset, String>> {
    loop {
        let found = offsets(admin, &shard.plan, partitions, which).await;
        let is_late = shard.io.now() >= until;
        match found {
            Ok(found) if is_late || found.iter().all(Result::is_ok) => {
                return found.into_iter().map(|found| found.map_err(|code| code.to_string())).collect();
            }
            Err(error) if is_late => return vec![Err(error.to_string()); partitions.len()],
            Ok(_) | Err(_) => shard.io.sleep(POLL).await,
        }
    }
}

fn note<I: Io>(shard: &Shard<I>, records: &FetchedRecords, now: Instant) {
    let mut recorder = shard.recorder.borrow_mut();
    for record in records.records().flatten() {
        // What isn't as it was sent is the second pass's to find.
        if let Some(stamp) = shard.payload.stamp(record.value.unwrap_or_default()) {
            recorder.read(stamp.due, now);
        }
    }
}
