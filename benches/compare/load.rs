//! Loads on a broker: a log to read, and reading and producing with several requests under way.

use std::time::Duration;

use crate::append::BATCH_BYTES;
use crate::broker::Broker;
use crate::client::{Client, Taking, fetch_request, produce_request};
use crate::clock::Stopwatch;
use crate::error::CompareError;

/// What a load carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

impl Carried {
    /// Bytes a second.
    pub(crate) fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }

    /// GiB carried.
    pub(crate) fn gibibytes(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 30)
    }
}

/// A log of batches of one size, as a broker has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// Offset of the first record behind the last batch.
    pub(crate) end: i64,
    /// Records of a batch.
    pub(crate) batch_records: i64,
}

/// Makes the topic and produces `batches` batches to it, `under_way` at a time. One at a time each batch has a buffer of
/// its own in the broker's memory; several share buffers that are left partly empty.
pub(crate) fn make_log(broker: &Broker, batches: usize, under_way: usize) -> Result<Log, CompareError> {
    let mut client = Client::connect(broker.address)?;
    client.create_topic()?;
    let last = produce(&mut client, batches, under_way)?;
    let header = engine_record::BatchHeader::parse(&benches::batch(BATCH_BYTES), u32::MAX);
    let batch_records = i64::from(header.map_err(|_| CompareError::Mismatch)?.record_count);
    Ok(Log { end: last + batch_records, batch_records })
}

impl Log {
    /// Produces one batch more.
    pub(crate) fn grow(&mut self, broker: &Broker) -> Result<(), CompareError> {
        let last = produce(&mut Client::connect(broker.address)?, 1, 1)?;
        self.end = last + self.batch_records;
        Ok(())
    }
}

/// Produces `batches` batches; the offset of the last one.
fn produce(client: &mut Client, batches: usize, under_way: usize) -> Result<i64, CompareError> {
    let request = produce_request(&benches::batch(BATCH_BYTES))?;
    let mut last = 0;
    for number in 0..batches + under_way {
        if number >= under_way {
            last = last.max(client.take_produced()?);
        }
        if number < batches {
            client.send(&request)?;
        }
    }
    Ok(last)
}

/// Produces for a time, each batch durable before it counts.
pub(crate) fn produce_for(
    broker: &Broker,
    under_way: usize,
    time: Duration,
) -> Result<Carried, CompareError> {
    let mut client = Client::connect(broker.address)?;
    let request = produce_request(&benches::batch(BATCH_BYTES))?;
    let since = Stopwatch::start();
    (0..under_way).try_for_each(|_| client.send(&request))?;
    let mut bytes = 0;
    while since.elapsed() < time {
        client.take_produced()?;
        bytes += BATCH_BYTES as u64;
        client.send(&request)?;
    }
    let carried = Carried { bytes, time: since.elapsed() };
    // The broker is to be at rest when the next load begins.
    (0..under_way).try_for_each(|_| client.take_produced().map(drop))?;
    Ok(carried)
}

/// Fetches what is newest of the log, `bytes` at a time, again and again for a time.
pub(crate) fn fetch_newest(
    broker: &Broker,
    log: &Log,
    fetch: Fetches,
    time: Duration,
) -> Result<Carried, CompareError> {
    let batches = i64::try_from(fetch.bytes / BATCH_BYTES).map_err(|_| CompareError::Mismatch)?;
    let request = fetch_request(log.end - batches * log.batch_records, fetch.bytes)?;
    let mut client = Client::connect(broker.address)?;
    client.send(&request)?;
    if client.take_fetched()? != fetch.bytes {
        return Err(CompareError::NoRecords);
    }
    let since = Stopwatch::start();
    (0..fetch.under_way).try_for_each(|_| client.send(&request))?;
    let mut bytes = 0;
    while since.elapsed() < time {
        bytes += take(&mut client, fetch)?;
        client.send(&request)?;
    }
    Ok(Carried { bytes, time: since.elapsed() })
}

/// Fetches the log from its beginning to its end, `bytes` at a time.
pub(crate) fn fetch_all(broker: &Broker, log: &Log, fetch: Fetches) -> Result<Carried, CompareError> {
    let step =
        i64::try_from(fetch.bytes / BATCH_BYTES).map_err(|_| CompareError::Mismatch)? * log.batch_records;
    let offsets = (0..log.end / step).map(|number| number * step);
    let mut client = Client::connect(broker.address)?;
    let (mut bytes, mut under_way) = (0, 0);
    let since = Stopwatch::start();
    for offset in offsets {
        if under_way == fetch.under_way {
            bytes += take(&mut client, fetch)?;
            under_way -= 1;
        }
        client.send(&fetch_request(offset, fetch.bytes)?)?;
        under_way += 1;
    }
    for _ in 0..under_way {
        bytes += take(&mut client, fetch)?;
    }
    Ok(Carried { bytes, time: since.elapsed() })
}

/// How a client fetches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetches {
    /// Bytes of records asked for at a time: whole batches.
    pub(crate) bytes: usize,
    /// Requests under way on the connection.
    pub(crate) under_way: usize,
    /// What becomes of the answers.
    pub(crate) taking: Taking,
}

/// One answer, which must have records: the last fetch of a segment may give less than was asked for, but a batch.
fn take(client: &mut Client, fetch: Fetches) -> Result<u64, CompareError> {
    let bytes = client.take(fetch.taking)?;
    if bytes < BATCH_BYTES { Err(CompareError::NoRecords) } else { Ok(bytes as u64) }
}
