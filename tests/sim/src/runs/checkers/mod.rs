//! What must be true of every history. Each checker knows requests and answers only, and says in words what is wrong.

mod answers;
mod duplicates;
mod loss;
mod offsets;
mod retention;
mod stability;
mod topics;
mod watermark;

use super::history::Event;

/// Finds all that is wrong in one way.
type Checker = fn(&[Event]) -> Vec<String>;

/// Everything that is wrong with a history.
pub(super) fn check(events: &[Event]) -> Vec<String> {
    let of_the_end: [Checker; 4] = [loss::check, stability::check, duplicates::check, topics::check];
    let mut wrong = check_unfinished(events);
    wrong.extend(of_the_end.into_iter().flat_map(|check| check(events)));
    wrong
}

/// What is wrong with a history that was cut short: nobody has read the logs as they are in the end.
pub(super) fn check_unfinished(events: &[Event]) -> Vec<String> {
    let checkers: [Checker; 4] = [answers::check, offsets::check, retention::check, watermark::check];
    checkers.into_iter().flat_map(|check| check(events)).collect()
}

/// Builders of events for the checkers' tests.
#[cfg(test)]
mod testing {
    use engine_record::Instant;
    use net_wire::Uuid;

    use crate::runs::history::{Event, Fetched, Log, Reader};

    pub(super) const TOPIC: Uuid = Uuid([1; 16]);
    pub(super) const LOG: Log = Log { topic: TOPIC, partition: 0 };

    pub(super) fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    pub(super) fn numbers(from: i64, numbers: &[u64]) -> Vec<(i64, Option<u64>)> {
        (from..).zip(numbers.iter().copied().map(Some)).collect()
    }

    pub(super) fn sent(producer: u64, first: u64, count: u64) -> Event {
        Event::Sent { log: LOG, producer, first, count, at: at(0) }
    }

    pub(super) fn acknowledged(first: u64, count: u64, base_offset: i64, nanos: u64) -> Event {
        Event::Acknowledged { log: LOG, first, count, base_offset, at: at(nanos) }
    }

    /// A fetch from `from` on, in epoch 0, that took no time.
    pub(super) fn read(from: i64, high_watermark: i64, nanos: u64, read: &[u64]) -> Event {
        let reader = Reader { epoch: 0, begun_at: at(nanos), ended_at: at(nanos) };
        let fetched = Fetched { high_watermark, log_start: 0, records: numbers(from, read) };
        Event::Read { log: LOG, reader, from, fetched }
    }

    pub(super) fn in_the_end(records: &[u64]) -> Event {
        left_in_the_end(0, records)
    }

    /// What is left, from this offset on, at time 1,000.
    pub(super) fn left_in_the_end(log_start: i64, records: &[u64]) -> Event {
        Event::Final { log: LOG, log_start, records: numbers(log_start, records), at: at(1_000) }
    }
}
