//! Long loops that let others have their turn.

use engine_io::Io;
use engine_record::BatchHeader;

/// So many entries of a request are worked on in a turn: some hundred microseconds.
const ENTRIES: u32 = 512;
/// So many bytes of a batch, which are checked and copied, are as much work as an entry: half a mebibyte is a turn.
const BATCH_BYTES: usize = 1 << 10;
/// And so many of its records, which are looked at one by one.
const BATCH_RECORDS: usize = 16;

/// Gives the shard's other tasks a turn every [`ENTRIES`] steps.
pub(crate) struct Turns<'i, I: Io> {
    io: &'i I,
    left: u32,
}

impl<'i, I: Io> Turns<'i, I> {
    pub(crate) fn new(io: &'i I) -> Self {
        Self { io, left: ENTRIES }
    }

    /// To be awaited for each entry.
    pub(crate) async fn step(&mut self) {
        self.steps(1).await;
    }

    /// To be awaited for an entry that is as much work as `count` others.
    pub(crate) async fn steps(&mut self, count: usize) {
        self.left = self.left.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        if self.left == 0 {
            self.left = ENTRIES;
            self.io.yield_now().await;
        }
    }

    /// To be awaited for an entry with a batch, before it is worked on.
    pub(crate) async fn batch(&mut self, bytes: &[u8]) {
        let records = BatchHeader::parse(bytes, u32::MAX).map_or(0, |header| header.record_count);
        let records = usize::try_from(records).unwrap_or(usize::MAX);
        self.steps(1 + bytes.len() / BATCH_BYTES + records / BATCH_RECORDS).await;
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::rc::Rc;

    use engine_record::{BatchBuilder, NewRecord, Timestamp};
    use sim::{Sim, SimIo};

    use super::*;

    /// How many turns others have in a loop.
    fn turns_of_others(in_loop: impl AsyncFnOnce(&mut Turns<'_, SimIo>)) -> u32 {
        let sim = Sim::new(1);
        let io = sim.node().io();
        let turns_of_others = Rc::new(Cell::new(0));
        let (other, counted) = (io.clone(), Rc::clone(&turns_of_others));
        let _other = io.spawn(async move {
            loop {
                counted.set(counted.get() + 1);
                other.yield_now().await;
            }
        });
        sim.block_on(in_loop(&mut Turns::new(&io)));
        turns_of_others.get()
    }

    /// A batch of so many records without a value, and of one with so many bytes.
    fn batch(records: usize, bytes: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        let value = vec![b'x'; bytes];
        for value in core::iter::repeat_n(None, records).chain([Some(value.as_slice())]) {
            builder.push(&NewRecord { timestamp: Timestamp(1), key: None, value, headers: &[] }).unwrap();
        }
        builder.build().unwrap()
    }

    #[test]
    fn others_have_their_turn_in_a_long_loop() {
        let turns = turns_of_others(async |turns| {
            for _ in 0..100 * ENTRIES {
                turns.step().await;
            }
        });
        assert!(turns >= 50, "{turns}");
        let turns = turns_of_others(async |turns| {
            for _ in 0..100 {
                turns.steps(1_000).await;
            }
        });
        assert!(turns >= 50, "{turns}");
    }

    #[test]
    fn others_have_their_turn_among_few_batches_of_many_bytes_or_many_records() {
        for batch in [batch(0, 600_000), batch(10_000, 0)] {
            let turns = turns_of_others(async |turns| {
                for _ in 0..100 {
                    turns.batch(&batch).await;
                }
            });
            assert!(turns >= 50, "{turns}");
        }
    }

    #[test]
    fn small_batches_are_entries_like_others() {
        let small = batch(1, 10);
        let turns = turns_of_others(async |turns| {
            for _ in 0..ENTRIES - 1 {
                turns.batch(&small).await;
            }
        });
        assert_eq!(turns, 0);
    }
}
