//! Log lines that clients can cause, held to a few.
//!
//! A client that does something wrong does it a thousand times a second. Each kind of notice is written at most once
//! in [`INTERVAL`]; the next line says how many were held back.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeMap;

use engine_record::Instant;

/// At most one line of a kind in this time.
const INTERVAL: Duration = Duration::from_secs(5);

/// The kinds, each with a budget of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Notice {
    /// A connection was closed over what its client sent.
    BadRequest,
    /// A connection was refused.
    ConnectionRefused,
    /// Accepting failed.
    AcceptFailed,
    /// A connection was closed since it did nothing, or took too long.
    ConnectionStalled,
    /// Connections were closed for the memory of requests that didn't come to their end.
    RequestsHoldMemory,
    /// Fetches were answered early for the memory that is held with them or behind them.
    FetchesHurried,
    /// Old segments could not be deleted.
    RetentionFailed,
}

/// When each kind was last written, and how often it was held back since.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    written: RefCell<BTreeMap<Notice, (Instant, u64)>>,
}

impl Notices {
    /// Whether a line of this kind may be written now: `Some` with how many were held back before it.
    pub(crate) fn admit(&self, notice: Notice, now: Instant) -> Option<u64> {
        let mut written = self.written.borrow_mut();
        match written.get_mut(&notice) {
            Some((last, held_back)) if now.since(*last) < INTERVAL => {
                *held_back += 1;
                None
            }
            Some(entry) => {
                let held_back = entry.1;
                *entry = (now, 0);
                Some(held_back)
            }
            None => {
                written.insert(notice, (now, 0));
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_one_line_that_counts_it() {
        let notices = Notices::default();
        let start = Instant::from_nanos(1);
        assert_eq!(notices.admit(Notice::BadRequest, start), Some(0));
        for _ in 0..10 {
            assert_eq!(notices.admit(Notice::BadRequest, start.after(INTERVAL / 2)), None);
        }
        assert_eq!(notices.admit(Notice::AcceptFailed, start.after(INTERVAL / 2)), Some(0));
        assert_eq!(notices.admit(Notice::BadRequest, start.after(INTERVAL)), Some(10));
    }
}
