//! No record that was ever read changes: an offset holds the same record for every reader, and to the end.

use std::collections::{BTreeMap, BTreeSet};

use crate::runs::history::{Event, Log};
use crate::runs::payload::Numbers;

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let mut known: BTreeMap<(Log, i64), Option<u64>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (log, records) in events.iter().filter_map(records_of) {
        for &(offset, number) in records {
            if number.is_none() {
                wrong.push(format!("the record at {offset} of {log:?} is not as any was sent"));
            }
            let before = *known.entry((log, offset)).or_insert(number);
            if before != number {
                wrong.push(format!("the record at {offset} of {log:?} was {before:?} and is {number:?}"));
            }
        }
    }
    wrong.extend(missing_in_the_end(events, &known));
    wrong
}

fn records_of(event: &Event) -> Option<(Log, &Numbers)> {
    if let Event::Read { log, fetched, .. } = event {
        return Some((*log, &fetched.records));
    }
    if let Event::Final { log, records, .. } = event { Some((*log, records)) } else { None }
}

/// What a consumer has read doesn't go away.
fn missing_in_the_end(events: &[Event], known: &BTreeMap<(Log, i64), Option<u64>>) -> Vec<String> {
    let mut ends: BTreeMap<Log, i64> = BTreeMap::new();
    let mut deletable = BTreeSet::new();
    for event in events {
        if let Event::Final { log, log_start, records, .. } = event {
            ends.insert(*log, records.last().map_or(*log_start, |(offset, _)| offset + 1));
        } else if let Event::DeletionAsked { topic } = event {
            deletable.insert(*topic);
        }
    }
    known
        .keys()
        .filter(|(log, _)| !deletable.contains(&log.topic))
        .filter(|(log, offset)| ends.get(log).is_none_or(|end| offset >= end))
        .map(|(log, offset)| format!("the record at {offset} of {log:?} was read and is gone"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{LOG, at, in_the_end, left_in_the_end, read};

    #[test]
    fn a_record_that_changes_between_two_reads_is_found() {
        assert_eq!(check(&[read(0, 2, 1, &[7, 8]), read(1, 2, 2, &[8]), in_the_end(&[7, 8])]), [""; 0]);
        assert_eq!(check(&[read(0, 2, 1, &[7, 8]), read(1, 2, 2, &[9]), in_the_end(&[7, 8])]).len(), 1);
        assert_eq!(check(&[read(0, 2, 1, &[7, 8]), in_the_end(&[7, 9])]).len(), 1);
    }

    #[test]
    fn bytes_that_nobody_sent_are_found() {
        let records = vec![(0, None)];
        assert_eq!(check(&[Event::Final { log: LOG, log_start: 0, records, at: at(1) }]).len(), 1);
    }

    #[test]
    fn a_record_that_was_read_and_is_gone_is_found() {
        assert_eq!(check(&[read(0, 2, 1, &[7, 8]), left_in_the_end(2, &[])]), [""; 0], "deleted from below");
        assert_eq!(check(&[read(0, 2, 1, &[7, 8]), in_the_end(&[7])]).len(), 1);
    }
}
