//! No acknowledged record is lost: in the end it stands where its producer was told, or below where the log starts, when
//! it is old enough for that.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use engine_record::Instant;

use super::retention;
use crate::runs::history::{Event, Log};

/// A log as it is in the end.
struct Left {
    log_start: i64,
    records: BTreeMap<i64, Option<u64>>,
    at: Instant,
}

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let mut finals: BTreeMap<Log, Left> = BTreeMap::new();
    let mut deletable = BTreeSet::new();
    let mut sent_at: BTreeMap<(Log, u64), Instant> = BTreeMap::new();
    for event in events {
        if let Event::Final { log, log_start, records, at } = event {
            let records = records.iter().copied().collect();
            finals.insert(*log, Left { log_start: *log_start, records, at: *at });
        } else if let Event::DeletionAsked { topic } = event {
            deletable.insert(*topic);
        } else if let Event::Sent { log, first, at, .. } = event {
            sent_at.insert((*log, *first), *at);
        }
    }
    let least = retention::least(events);
    let mut wrong = Vec::new();
    for event in events {
        let Event::Acknowledged { log, first, count, base_offset, .. } = event else { continue };
        if deletable.contains(&log.topic) {
            continue;
        }
        let left = finals.get(log);
        let since = sent_at.get(&(*log, *first)).copied().unwrap_or(Instant::ZERO);
        for (offset, number) in (*base_offset..).zip(*first..first + count) {
            if left.is_some_and(|left| left.may_lack(offset, since, least)) {
                continue;
            }
            let there = left.and_then(|left| left.records.get(&offset));
            if there != Some(&Some(number)) {
                wrong.push(format!(
                    "record {number}, acknowledged at {offset} of {log:?}, is lost: {there:?}"
                ));
            }
        }
    }
    wrong
}

impl Left {
    /// Whether the record sent then may have been deleted by retention.
    fn may_lack(&self, offset: i64, sent_at: Instant, least: Option<Duration>) -> bool {
        offset < self.log_start && least.is_some_and(|least| self.at.since(sent_at) >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{TOPIC, acknowledged, in_the_end, left_in_the_end, sent};

    #[test]
    fn a_record_that_is_missing_or_elsewhere_is_lost() {
        assert_eq!(check(&[acknowledged(5, 2, 1, 9), in_the_end(&[4, 5, 6])]), [""; 0]);
        assert_eq!(check(&[acknowledged(5, 2, 1, 9), in_the_end(&[4, 5])]).len(), 1);
        assert_eq!(check(&[acknowledged(5, 2, 0, 9), in_the_end(&[4, 5, 6])]).len(), 2);
        assert_eq!(check(&[acknowledged(5, 2, 0, 9)]).len(), 2);
    }

    #[test]
    fn what_somebody_has_asked_to_delete_may_be_gone() {
        assert_eq!(check(&[Event::DeletionAsked { topic: TOPIC }, acknowledged(5, 2, 0, 9)]), [""; 0]);
    }

    #[test]
    fn what_retention_deletes_is_old_enough_and_below_the_start() {
        let run = [sent(1, 5, 2), acknowledged(5, 2, 0, 9), left_in_the_end(1, &[6])];
        let with = |least| [&[Event::Retention { least: Duration::from_nanos(least) }], &run[..]].concat();
        assert_eq!(check(&with(1_000)), [""; 0]);
        assert_eq!(check(&with(1_001)).len(), 1, "too young");
        assert_eq!(check(&run).len(), 1, "nothing is to be deleted");
    }
}
