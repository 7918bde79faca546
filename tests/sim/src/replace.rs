//! Replacing small files: shards of one process that replace the same file take turns, since all go by the neighbour's
//! name.

use core::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use engine_io::Signal;

use crate::seat::Seat;
use crate::world::Boot;

/// The files being replaced.
#[derive(Default)]
pub(crate) struct Replacements {
    paths: RefCell<BTreeSet<(Boot, PathBuf)>>,
    ended: Signal,
}

/// The right to replace one file.
pub(crate) struct Replacing {
    seat: Seat,
    path: PathBuf,
}

impl Replacing {
    /// Waits until no other shard of the process replaces the file.
    pub(crate) async fn alone(seat: &Seat, path: &Path) -> Self {
        let replacements = &seat.core.replacements;
        loop {
            let wait = replacements.ended.wait();
            if replacements.paths.borrow_mut().insert((seat.boot, path.to_owned())) {
                return Self { seat: seat.clone(), path: path.to_owned() };
            }
            wait.await;
        }
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        let replacements = &self.seat.core.replacements;
        replacements.paths.borrow_mut().remove(&(self.seat.boot, core::mem::take(&mut self.path)));
        replacements.ended.notify();
    }
}
