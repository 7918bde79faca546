//! No acknowledged record is lost: in the end it stands where its producer was told.

use std::collections::{BTreeMap, BTreeSet};

use crate::runs::history::{Event, Log};

pub(super) fn check(events: &[Event]) -> Vec<String> {
    let mut finals: BTreeMap<Log, BTreeMap<i64, Option<u64>>> = BTreeMap::new();
    let mut deletable = BTreeSet::new();
    for event in events {
        if let Event::Final { log, records } = event {
            finals.insert(*log, records.iter().copied().collect());
        } else if let Event::DeletionAsked { topic } = event {
            deletable.insert(*topic);
        }
    }
    let mut wrong = Vec::new();
    for event in events {
        let Event::Acknowledged { log, first, count, base_offset, .. } = event else { continue };
        if deletable.contains(&log.topic) {
            continue;
        }
        for (offset, number) in (*base_offset..).zip(*first..first + count) {
            let there = finals.get(log).and_then(|records| records.get(&offset));
            if there != Some(&Some(number)) {
                wrong.push(format!(
                    "record {number}, acknowledged at {offset} of {log:?}, is lost: {there:?}"
                ));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::checkers::testing::{TOPIC, acknowledged, in_the_end};

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
}
