//! A node's disk: snapshots by their place in the log, and one WAL file with what has been flushed and what hasn't.

use std::collections::BTreeMap;

use replication::metadata::genesis::Genesis;
use replication::metadata::snapshot::{LogPosition, Snapshot};
use replication::metadata::wal::{self, Recovered, WalFrame};

use super::random::Random;

/// What a power cut keeps or loses as a unit. Smaller than a real one, so that frames tear.
const SECTOR_BYTES: usize = 32;

pub(crate) struct Disk {
    snapshots: BTreeMap<LogPosition, Vec<u8>>,
    file: Vec<u8>,
    pending: Vec<WalFrame>,
}

impl Disk {
    pub(crate) fn format(genesis: &Genesis) -> Self {
        let mut disk =
            Self { snapshots: BTreeMap::new(), file: genesis.frame.bytes.clone(), pending: Vec::new() };
        disk.keep(&genesis.snapshot);
        disk
    }

    /// Makes a snapshot's file durable.
    pub(crate) fn keep(&mut self, snapshot: &Snapshot) {
        self.snapshots.insert(snapshot.position(), snapshot.encode());
    }

    pub(crate) fn write(&mut self, frames: Vec<WalFrame>) {
        self.pending.extend(frames);
    }

    /// The last frame written and not flushed.
    pub(crate) fn last_pending(&self) -> Option<u64> {
        self.pending.last().map(|frame| frame.sequence)
    }

    /// Makes the frames up to `sequence` durable.
    pub(crate) fn flush(&mut self, sequence: u64) {
        let count = self.pending.iter().take_while(|frame| frame.sequence <= sequence).count();
        self.settle(count);
    }

    fn settle(&mut self, count: usize) {
        for frame in self.pending.drain(..count) {
            if frame.starts_file {
                let named = wal::recover(&frame.bytes).unwrap().snapshot();
                self.snapshots.retain(|position, _| *position >= named);
                self.file.clear();
            }
            self.file.extend(frame.bytes);
        }
    }

    /// The power is cut: some of the frames under way are there, and of the next ones in the same file any sectors.
    /// Answers how many frames are lost.
    pub(crate) fn crash(&mut self, random: &mut Random) -> usize {
        let kept = random.place(self.pending.len() + 1);
        self.settle(kept);
        let lost = self.pending.len();
        let same_file = self.pending.iter().take_while(|frame| !frame.starts_file);
        let torn: Vec<u8> = same_file.flat_map(|frame| frame.bytes.clone()).collect();
        for sector in torn.chunks(SECTOR_BYTES) {
            let written = random.percent(50);
            self.file.extend(sector.iter().map(|byte| if written { *byte } else { 0 }));
        }
        self.pending.clear();
        lost
    }

    /// What a start finds; the residue of a crash is cut away.
    pub(crate) fn recover(&mut self) -> (Snapshot, Recovered) {
        let log = wal::recover(&self.file).unwrap();
        self.file.truncate(log.bytes());
        let snapshot =
            self.snapshots.get(&log.snapshot()).expect("the log names a snapshot that isn't there");
        (Snapshot::decode(snapshot).unwrap(), log)
    }
}
