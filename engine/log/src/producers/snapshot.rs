//! The producers as bytes, for checkpoints. The checkpoint has the checksum.
//!
//! ```text
//! version u8 (1), producer count u32, and for each, by rising id:
//!   producer id i64, epoch i16, last append i64, batch count u8 (0 to 5), and for each batch, oldest first:
//!     first sequence i32, last sequence i32, base offset i64, last offset i64, timestamp i64
//! ```

use std::collections::BTreeMap;

use engine_record::{ProducerEpoch, ProducerId};

use super::{AppendedBatch, Producer, Producers, REMEMBERED_BATCHES};
use crate::decoder::{Decoder, Ended};

/// The version that [`Producers::encode`] writes.
pub const PRODUCERS_SNAPSHOT_VERSION: u8 = 1;

/// Size of a producer without batches.
const PRODUCER_BYTES: usize = 19;

/// Size of a remembered batch.
const BATCH_BYTES: usize = 32;

/// Size of a producer with all batches that are remembered of it.
pub(crate) const PRODUCER_BYTES_MAX: usize = PRODUCER_BYTES + REMEMBERED_BATCHES * BATCH_BYTES;

/// At most the size of a snapshot of `count` producers.
pub(crate) const fn encoded_bytes_max(count: usize) -> usize {
    5 + count * PRODUCER_BYTES_MAX
}

/// Why bytes are no snapshot of producers. The remedy is to replay the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducersError {
    /// The bytes end early.
    #[error("the snapshot of producers ends early")]
    Truncated,
    /// Written by another version.
    #[error("snapshot of producers of version {0}")]
    Version(u8),
    /// What it says can't be: ids or offsets that don't rise, too many batches, negative numbers.
    #[error("the snapshot of producers contradicts itself")]
    Content,
}

impl From<Ended> for ProducersError {
    fn from(Ended: Ended) -> Self {
        Self::Truncated
    }
}

impl Producers {
    /// Appends a snapshot to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.by_id.len()).expect("producers are limited by a u32");
        assert!(
            self.by_id.first_key_value().is_none_or(|(id, _)| id.0 >= 0),
            "only producers are remembered"
        );
        out.push(PRODUCERS_SNAPSHOT_VERSION);
        out.extend_from_slice(&count.to_be_bytes());
        for (id, producer) in &self.by_id {
            out.extend_from_slice(&id.0.to_be_bytes());
            producer.encode(out);
        }
    }

    /// Takes a snapshot from the front of `bytes`; also returns the bytes behind it.
    ///
    /// # Errors
    /// See [`ProducersError`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProducersError> {
        let mut decoder = Decoder::new(bytes);
        let version = decoder.u8()?;
        if version != PRODUCERS_SNAPSHOT_VERSION {
            return Err(ProducersError::Version(version));
        }
        let count = decoder.u32()? as usize;
        if count > decoder.rest().len() / PRODUCER_BYTES {
            return Err(ProducersError::Truncated);
        }
        let mut by_id = BTreeMap::new();
        for _ in 0..count {
            let id = ProducerId(decoder.i64()?);
            let rises = id.0 >= 0 && by_id.last_key_value().is_none_or(|(last, _)| *last < id);
            by_id.insert(id, Producer::decode(&mut decoder)?);
            if !rises {
                return Err(ProducersError::Content);
            }
        }
        Ok((Self { by_id }, decoder.rest()))
    }
}

impl Producer {
    fn encode(&self, out: &mut Vec<u8>) {
        let count = u8::try_from(self.batches.len()).expect("five batches are remembered at most");
        assert!(self.batches.len() <= REMEMBERED_BATCHES, "memory of a producer is bounded");
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.last_append.0.to_be_bytes());
        out.push(count);
        for batch in &self.batches {
            out.extend_from_slice(&batch.first_sequence.to_be_bytes());
            out.extend_from_slice(&batch.last_sequence.to_be_bytes());
            let longs = [batch.base_offset.value(), batch.last_offset.value(), batch.timestamp.0];
            out.extend(longs.into_iter().flat_map(i64::to_be_bytes));
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, ProducersError> {
        let epoch = ProducerEpoch(decoder.i16()?);
        let last_append = decoder.timestamp()?;
        let count = usize::from(decoder.u8()?);
        if count > REMEMBERED_BATCHES || epoch.0 < 0 {
            return Err(ProducersError::Content);
        }
        let batches = (0..count).map(|_| decode_batch(decoder)).collect::<Result<Vec<_>, _>>()?;
        let rises = batches.is_sorted_by(|a, b| a.last_offset < b.base_offset);
        if rises { Ok(Self { epoch, last_append, batches }) } else { Err(ProducersError::Content) }
    }
}

fn decode_batch(decoder: &mut Decoder<'_>) -> Result<AppendedBatch, ProducersError> {
    let batch = AppendedBatch {
        first_sequence: decoder.i32()?,
        last_sequence: decoder.i32()?,
        base_offset: decoder.offset()?.ok_or(ProducersError::Content)?,
        last_offset: decoder.offset()?.ok_or(ProducersError::Content)?,
        timestamp: decoder.timestamp()?,
    };
    let sound =
        batch.first_sequence >= 0 && batch.last_sequence >= 0 && batch.base_offset <= batch.last_offset;
    if sound { Ok(batch) } else { Err(ProducersError::Content) }
}
