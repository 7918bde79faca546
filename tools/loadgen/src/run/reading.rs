//! One consumer: reads its partitions and notes what it finds.

use core::time::Duration;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{Instant, Offset};
use net_client::{Acks, Admin, Consumer, ConsumerSettings, FetchedRecords, OffsetReset, Start};

use super::{RunError, Shard, client, end_offsets, index};
use crate::ledger::Source;
use crate::payload::Reading;

/// How long the ends of partitions must stand still where no answer tells them.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a consumer waits for records before it looks whether the load is over.
const POLL: Duration = Duration::from_millis(100);

pub(super) async fn run<I: Io>(shard: Rc<Shard<I>>, consumer: u32) {
    if let Err(error) = read(&shard, consumer).await {
        shard.fail(error);
    }
}

async fn read<I: Io>(shard: &Shard<I>, number: u32) -> Result<(), RunError> {
    let plan = &shard.plan;
    let client = client(&shard.io, plan, &shard.resolver)?;
    let settings = ConsumerSettings { reset: OffsetReset::Error, ..ConsumerSettings::default() };
    let consumer = Consumer::new(client.clone(), settings);
    let own: Vec<_> = (number..plan.partitions).step_by(plan.consumers as usize).collect();
    for &partition in &own {
        let start = shard.prepared.start_offsets[partition as usize];
        consumer.assign(&plan.topic, index(partition), Start::At(start));
    }
    while shard.is_producing() {
        take(shard, &consumer).await?;
    }
    let admin = Admin::new(client.clone());
    let until = shard.io.now().after(plan.drain_timeout);
    let ends = settled_ends(shard, &admin, &own, until).await?;
    let ends = own.iter().zip(ends).map(|(&partition, end)| {
        let promised = shard.prepared.promised_end(partition);
        (partition, end.max(promised))
    });
    let ends: Vec<_> = ends.collect();
    while !is_read(shard, &consumer, &ends) {
        if shard.io.now() >= until {
            shard.recorder.borrow_mut().not_drained();
            break;
        }
        take(shard, &consumer).await?;
    }
    consumer.close();
    client.close();
    Ok(())
}

/// Where partitions end, once all of them stand still. What is sent without asking for an answer may still be on its
/// way, and nothing tells when it has come.
async fn settled_ends<I: Io>(
    shard: &Shard<I>,
    admin: &Admin<I>,
    partitions: &[u32],
    until: Instant,
) -> Result<Vec<Offset>, RunError> {
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

/// Where partitions end. A broker that is just starting again is asked again.
async fn ends_of<I: Io>(
    shard: &Shard<I>,
    admin: &Admin<I>,
    partitions: &[u32],
    until: Instant,
) -> Result<Vec<Offset>, RunError> {
    loop {
        match end_offsets(admin, &shard.plan, partitions).await {
            Ok(ends) => return Ok(ends),
            Err(error) if shard.io.now() >= until => return Err(error.into()),
            Err(_) => shard.io.sleep(POLL).await,
        }
    }
}

fn is_read<I: Io>(shard: &Shard<I>, consumer: &Consumer<I>, ends: &[(u32, Offset)]) -> bool {
    ends.iter().all(|(partition, end)| {
        let position = consumer.position(&shard.plan.topic, index(*partition));
        position.is_ok_and(|position| position >= Some(*end))
    })
}

async fn take<I: Io>(shard: &Shard<I>, consumer: &Consumer<I>) -> Result<(), RunError> {
    if let Some(records) = consumer.poll(POLL).await? {
        note(shard, &records, shard.io.now());
    }
    Ok(())
}

fn note<I: Io>(shard: &Shard<I>, records: &FetchedRecords, now: Instant) {
    let mut recorder = shard.recorder.borrow_mut();
    let partition = records.partition().0.unsigned_abs();
    for record in records.records() {
        let reading = record.map(|record| shard.payload.read(record.value.unwrap_or_default()));
        match reading {
            Ok(Reading::Sound(stamp)) if stamp.partition == partition => {
                recorder.read(stamp.due, now);
                let source = Source { partition, producer: stamp.producer };
                recorder.ledger().read(source, stamp.sequence);
            }
            Ok(Reading::Foreign) => {}
            Ok(Reading::Sound(_) | Reading::Corrupt) | Err(_) => recorder.ledger().corrupt(),
        }
    }
}
