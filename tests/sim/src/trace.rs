//! What happened, folded into one number, so that two runs can be compared.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::collections::VecDeque;

use engine_record::Instant;

/// How many of the newest events are kept to be shown where a run gets stuck.
const RECENT_EVENTS_MAX: usize = 64;

/// One thing that happened. Every field goes into the hash.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Event {
    TaskStarted { machine: usize, shard: u32, task: u64 },
    TaskPolled { task: u64 },
    TaskEnded { task: u64 },
    TimerFired { number: u64 },
    WriteStarted { machine: usize, file: u64, position: u64, bytes: usize, content: u64 },
    WriteEnded { machine: usize, file: u64, position: u64, failed: bool },
    FileRead { machine: usize, file: u64, position: u64, bytes: usize },
    FlushStarted { machine: usize, file: u64 },
    FlushEnded { machine: usize, file: u64, failed: bool },
    FileAllocated { machine: usize, file: u64, position: u64, bytes: u64, failed: bool },
    FileTruncated { machine: usize, file: u64, bytes: u64 },
    Prefetched { machine: usize, file: u64, position: u64, bytes: u64 },
    PathOperation { machine: usize, operation: PathOperation, path: u64, failed: bool },
    Listening { machine: usize, port: u16 },
    Connecting { connection: u64, machine: usize, port: u16 },
    Connected { connection: u64, refused: bool },
    Sent { connection: u64, end: usize, bytes: usize, content: u64 },
    Arrived { connection: u64, end: usize, bytes: usize },
    Received { connection: u64, end: usize, bytes: usize },
    Closed { connection: u64, end: usize },
    Reset { connection: u64, end: usize },
    Crashed { machine: usize },
    ClockStepped { machine: usize, step_ms: i64 },
}

/// What was done to a path.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum PathOperation {
    Open,
    CreateFolder,
    List,
    ListFiles,
    ReadFile,
    ReadRange,
    WriteFile,
    Flush,
    Rename,
    RemoveFile,
    RemoveFolder,
    Space,
}

impl PathOperation {
    /// Whether it opens what the path names.
    pub(crate) const fn needs_descriptor(self) -> bool {
        match self {
            Self::Open
            | Self::CreateFolder
            | Self::List
            | Self::ListFiles
            | Self::ReadFile
            | Self::ReadRange
            | Self::WriteFile
            | Self::Flush => true,
            Self::Rename | Self::RemoveFile | Self::RemoveFolder | Self::Space => false,
        }
    }
}

/// The hash over all events, and the newest of them.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: TraceHasher,
    recent: VecDeque<(Instant, Event)>,
}

impl Trace {
    /// Folds an event in.
    pub(crate) fn record(&mut self, at: Instant, event: Event) {
        (at, event).hash(&mut self.hash);
        if self.recent.len() == RECENT_EVENTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((at, event));
    }

    /// All events so far, and their times, as one number.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash.state
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, event) in &self.recent {
            writeln!(f, "{:>16} ns  {event:?}", at.as_nanos())?;
        }
        Ok(())
    }
}

/// The hash of some bytes or of a path.
pub(crate) fn content_hash(content: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = TraceHasher::default();
    content.hash(&mut hasher);
    hasher.state
}

/// A multiply-and-fold hash with a fixed start, a word at a time; nobody attacks it.
#[derive(Debug)]
struct TraceHasher {
    state: u64,
}

impl Default for TraceHasher {
    fn default() -> Self {
        Self { state: 0x243F_6A88_85A3_08D3 }
    }
}

impl Hasher for TraceHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ bytes.len() as u64);
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.state ^ word).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        self.state = mixed ^ (mixed >> 29);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tells_the_time_the_order_and_every_field_apart() {
        let hash = |events: &[(u64, Event)]| {
            let mut trace = Trace::default();
            for (at, event) in events {
                trace.record(Instant::from_nanos(*at), *event);
            }
            trace.hash()
        };
        let (one, two) = (Event::TaskPolled { task: 1 }, Event::TaskPolled { task: 2 });
        assert_eq!(hash(&[(1, one), (2, two)]), hash(&[(1, one), (2, two)]));
        assert_ne!(hash(&[(1, one), (2, two)]), hash(&[(1, two), (2, one)]));
        assert_ne!(hash(&[(1, one)]), hash(&[(2, one)]));
        assert_ne!(hash(&[(1, one)]), hash(&[(1, Event::TaskEnded { task: 1 })]));
    }

    #[test]
    fn content_of_other_length_hashes_otherwise() {
        assert_ne!(content_hash(&[0_u8; 8][..]), content_hash(&[0_u8; 9][..]));
        assert_ne!(content_hash(&[0_u8; 16][..]), content_hash(&[1_u8; 16][..]));
    }

    #[test]
    fn only_the_newest_events_are_kept_to_be_shown() {
        let mut trace = Trace::default();
        for task in 0..100 {
            trace.record(Instant::ZERO, Event::TaskPolled { task });
        }
        assert_eq!(trace.to_string().lines().count(), RECENT_EVENTS_MAX);
        assert!(trace.to_string().contains("task: 99"));
    }
}
