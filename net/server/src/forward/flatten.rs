//! An answer as bytes that may go to another shard.

use engine_io::{Io, SendFile, SendPiece};

use crate::response::{Reply, ReplyPiece};

/// So much is copied in a turn of the shard.
const STEP_BYTES: usize = 512 << 10;
/// So often a range is brought into the page cache that isn't there any more when it is copied.
const TRIES_MAX: u32 = 16;

/// The bytes of a reply; `None` where the file they lie in can't be read.
pub(super) async fn flatten<I: Io>(io: &I, reply: &mut Reply<I>) -> Option<Vec<u8>> {
    let mut pieces = core::mem::take(&mut reply.pieces);
    if let [ReplyPiece::Memory(SendPiece::Owned(bytes))] = &mut pieces[..] {
        return Some(core::mem::take(bytes));
    }
    let mut flat = Vec::with_capacity(pieces.iter().map(bytes_of).sum());
    for piece in pieces {
        match piece {
            ReplyPiece::Memory(piece) => {
                for step in piece.as_slice().chunks(STEP_BYTES) {
                    flat.extend_from_slice(step);
                    give_way(io, step.len()).await;
                }
            }
            ReplyPiece::File { file, position, bytes } => {
                copy(io, &file, position..position + bytes, &mut flat).await?;
            }
        }
    }
    Some(flat)
}

fn bytes_of<I: Io>(piece: &ReplyPiece<I>) -> usize {
    match piece {
        ReplyPiece::Memory(piece) => piece.as_slice().len(),
        ReplyPiece::File { bytes, .. } => usize::try_from(*bytes).unwrap_or(0),
    }
}

async fn give_way<I: Io>(io: &I, copied: usize) {
    if copied == STEP_BYTES {
        io.yield_now().await;
    }
}

/// Copies a range of a file out of the page cache, into which it is brought first where it isn't there any more.
async fn copy<I: Io>(
    io: &I,
    file: &I::SendFile,
    mut range: core::ops::Range<u64>,
    into: &mut Vec<u8>,
) -> Option<()> {
    let mut tries_left = TRIES_MAX;
    while range.start < range.end {
        let step = STEP_BYTES.min(usize::try_from(range.end - range.start).unwrap_or(STEP_BYTES));
        let at = into.len();
        into.resize(at + step, 0);
        let copied = file.peek(range.start, &mut into[at..]);
        into.truncate(at + copied);
        range.start += copied as u64;
        if copied < step {
            tries_left = tries_left.checked_sub(1)?;
            file.prefetch(range.start, (step - copied) as u64).await.ok()?;
        }
        give_way(io, copied).await;
    }
    Some(())
}
