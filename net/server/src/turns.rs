//! Long loops that let others have their turn.

use engine_io::Io;

/// So many entries of a request are worked on in a turn: some hundred microseconds.
const ENTRIES: u32 = 512;

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
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::rc::Rc;

    use sim::Sim;

    use super::*;

    #[test]
    fn others_have_their_turn_in_a_long_loop() {
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
        sim.block_on(async {
            let mut turns = Turns::new(&io);
            for _ in 0..100 * ENTRIES {
                turns.step().await;
            }
        });
        assert!(turns_of_others.get() >= 50, "{}", turns_of_others.get());
        let before = turns_of_others.get();
        sim.block_on(async {
            let mut turns = Turns::new(&io);
            for _ in 0..100 {
                turns.steps(1_000).await;
            }
        });
        assert!(turns_of_others.get() - before >= 50, "{}", turns_of_others.get());
    }
}
