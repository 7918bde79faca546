//! Offsets are dense: nothing is skipped, nothing answered from where nobody asked, no two batches share an offset.

use std::collections::BTreeMap;

use crate::runs::history::{Event, Log};
use crate::runs::payload::Numbers;

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let mut wrong = Vec::new();
    for event in events {
        if let Event::Read { log, from, fetched, .. } = event {
            wrong.extend(gaps(*log, &fetched.records));
            let (first, last) = (fetched.records.first(), fetched.records.last());
            if first.is_some_and(|(offset, _)| offset > from) || last.is_some_and(|(offset, _)| offset < from)
            {
                wrong.push(format!("a fetch of {log:?} from {from} on got {first:?} to {last:?}"));
            }
        } else if let Event::Final { log, log_start, records, .. } = event {
            wrong.extend(gaps(*log, records));
            if records.first().is_some_and(|(offset, _)| offset != log_start) {
                wrong.push(format!("{log:?} starts at {log_start} and begins at {:?}", records.first()));
            }
        }
    }
    wrong.extend(overlaps(events));
    wrong
}

fn gaps(log: Log, records: &Numbers) -> Vec<String> {
    let pairs = records.windows(2).filter(|pair| pair[1].0 != pair[0].0 + 1);
    pairs.map(|pair| format!("offset {} of {log:?} is followed by {}", pair[0].0, pair[1].0)).collect()
}

/// Batches that were told overlapping places.
fn overlaps(events: &[Event]) -> Vec<String> {
    let mut taken: BTreeMap<(Log, i64), u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for event in events {
        let Event::Acknowledged { log, first, count, base_offset, .. } = event else { continue };
        for (offset, number) in (*base_offset..).zip(*first..first + count) {
            if let Some(other) = taken.insert((*log, offset), number) {
                wrong.push(format!(
                    "records {other} and {number} were both acknowledged at {offset} of {log:?}"
                ));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{LOG, acknowledged, at, in_the_end, left_in_the_end, read};

    #[test]
    fn gaps_are_found() {
        assert_eq!(check(&[in_the_end(&[1, 2, 3])]), [""; 0]);
        assert_eq!(check(&[left_in_the_end(1, &[1, 2, 3])]), [""; 0]);
        let of = |records| Event::Final { log: LOG, log_start: 0, records, at: at(1) };
        assert_eq!(check(&[of(vec![(0, Some(1)), (2, Some(2))])]).len(), 1);
        assert_eq!(check(&[of(vec![(1, Some(1))])]).len(), 1);
    }

    #[test]
    fn a_fetch_that_skips_what_it_was_asked_for_is_found() {
        let mut skipping = read(3, 9, 1, &[7, 8]);
        assert_eq!(check(&[skipping.clone()]), [""; 0]);
        if let Event::Read { from, .. } = &mut skipping {
            *from = 2;
        }
        assert_eq!(check(&[skipping]).len(), 1);
    }

    #[test]
    fn two_batches_at_one_offset_are_found() {
        assert_eq!(check(&[acknowledged(0, 2, 0, 1), acknowledged(2, 1, 2, 1)]), [""; 0]);
        assert_eq!(check(&[acknowledged(0, 2, 0, 1), acknowledged(2, 1, 1, 1)]).len(), 1);
    }
}
