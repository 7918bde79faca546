//! Looks at a producer's batch before it is appended, as far as its topic asks for.
//!
//! What is compressed is decompressed only where the topic says so, one batch at a time and a piece at a time: a few bytes
//! can stand for much memory and much of the processor's time.

use engine_io::Io;
use engine_record::{
    ClientBatchError, ClientBatchRules, Compression, DecompressError, Decompression, RecordWalk,
    UnverifiedBatch, validate_client_batch,
};

use crate::shard::Shard;

/// The most that the records of a batch may be, decompressed, in bytes.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;
/// So many records are looked at in a turn.
const RECORDS_A_TURN: usize = 8_192;

/// Checks the one batch that a produce request carries for a partition.
///
/// # Errors
/// See [`validate_client_batch`].
pub(crate) async fn validate<'a, I: Io>(
    shard: &Shard<I>,
    bytes: &'a [u8],
    rules: &ClientBatchRules,
    validates_compressed: bool,
) -> Result<UnverifiedBatch<'a>, ClientBatchError> {
    let batch = validate_client_batch(bytes, rules)?;
    if batch.header().compression() == Compression::None || !validates_compressed {
        return Ok(batch);
    }
    let _turn = shard.turn_to_decompress().await;
    look_into(shard.io(), &batch, rules).await.map_err(|refusal| match batch.verify() {
        Ok(_) => refusal,
        Err(corrupt) => ClientBatchError::Corrupt(corrupt),
    })
}

async fn look_into<'a, I: Io>(
    io: &I,
    batch: &UnverifiedBatch<'a>,
    rules: &ClientBatchRules,
) -> Result<UnverifiedBatch<'a>, ClientBatchError> {
    let records = decompressed(io, batch).await.map_err(|error| ClientBatchError::from(&error))?;
    let mut walk = RecordWalk::new(batch.header(), &records, rules);
    while walk.go_on(RECORDS_A_TURN)? {
        io.yield_now().await;
    }
    Ok(walk.corrected(batch))
}

async fn decompressed<I: Io>(io: &I, batch: &UnverifiedBatch<'_>) -> Result<Vec<u8>, DecompressError> {
    let codec = batch.header().compression();
    let mut decompression = Decompression::new(codec, batch.records_section(), DECOMPRESSED_BYTES_MAX)?;
    while decompression.go_on()? {
        io.yield_now().await;
    }
    Ok(decompression.into_bytes())
}
