//! The accounts of a run: what producers were promised, and what was found when all of it was read again.
//!
//! Records of one producer in one partition are numbered from 0, so a promise about a batch is a range, and a run
//! without incidents is one range, however long it is.

use core::ops::Range;
use std::collections::BTreeMap;

/// Numbers as ascending ranges that don't touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// By their start.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `range`; answers how many of its numbers were new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return 0;
        }
        // What continues the last range, as nearly everything does, costs one step.
        if let Some(mut last) = self.ranges.last_entry().filter(|last| *last.get() == range.start) {
            *last.get_mut() = range.end;
            return length;
        }
        let before = self.count_within(&range);
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&first, &last)) =
            self.ranges.range(..=start).next_back().filter(|(_, last)| **last >= start)
        {
            (start, end) = (first, end.max(last));
        }
        while let Some((&next, &last)) = self.ranges.range(start..=end).next() {
            self.ranges.remove(&next);
            end = end.max(last);
        }
        self.ranges.insert(start, end);
        length - before
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// How many of `range` there are.
    #[must_use]
    pub fn count_within(&self, range: &Range<u64>) -> u64 {
        let first = self.ranges.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        let overlapping = self.ranges.range(first..range.end.max(first));
        overlapping.map(|(&start, &end)| end.min(range.end).saturating_sub(start.max(range.start))).sum()
    }

    /// How many of these are also in `other`.
    #[must_use]
    pub fn count_common(&self, other: &Self) -> u64 {
        self.ranges.iter().map(|(&start, &end)| other.count_within(&(start..end))).sum()
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (&start, &end) in &other.ranges {
            self.insert(start..end);
        }
    }
}

/// A producer in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The partition.
    pub partition: u32,
    /// The producer.
    pub producer: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    acknowledged: Ranges,
    /// Whether they were appended is unknown.
    unknown: Ranges,
    read: Ranges,
    /// The last one read, to see whether the next comes after it.
    last_read: Option<u64>,
    repeated: u64,
    out_of_order: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    accounts: BTreeMap<Source, Account>,
    corrupt: u64,
}

/// What the accounts say. All counts are of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// Promised to be in the log.
    pub acknowledged: u64,
    /// Of these, found when everything was read again after the load.
    pub read_back: u64,
    /// Of these, not found then.
    pub lost: u64,
    /// Found again, after the first time.
    pub repeated: u64,
    /// Found after a later one of the same producer.
    pub out_of_order: u64,
    /// Found, but not as they were sent.
    pub corrupt: u64,
    /// Neither promised nor refused: they may be there or not.
    pub unknown: u64,
    /// Found although not promised, which is allowed.
    pub unacknowledged_read: u64,
}

impl Verdict {
    /// Whether every promise was kept.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.lost == 0 && self.repeated == 0 && self.out_of_order == 0 && self.corrupt == 0
    }
}

impl core::fmt::Display for Verdict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            acknowledged,
            read_back,
            lost,
            repeated,
            out_of_order,
            corrupt,
            unknown,
            unacknowledged_read,
        } = self;
        let once = if self.is_clean() { " once and in order" } else { "" };
        write!(
            f,
            "{acknowledged} acknowledged, {read_back} read back{once}, {lost} lost, {repeated} repeated, "
        )?;
        write!(f, "{out_of_order} out of order, {corrupt} corrupt")?;
        if *unknown > 0 || *unacknowledged_read > 0 {
            write!(f, " ({unknown} with unknown outcome, {unacknowledged_read} read without a promise)")?;
        }
        Ok(())
    }
}

impl Ledger {
    /// The broker promised these.
    pub fn acknowledge(&mut self, source: Source, sequences: Range<u64>) {
        self.accounts.entry(source).or_default().acknowledged.insert(sequences);
    }

    /// Nobody knows whether these were appended.
    pub fn leave_unknown(&mut self, source: Source, sequences: Range<u64>) {
        self.accounts.entry(source).or_default().unknown.insert(sequences);
    }

    /// A consumer found this one, in the order of the partition.
    pub fn read(&mut self, source: Source, sequence: u64) {
        let account = self.accounts.entry(source).or_default();
        let is_new = account.read.insert(sequence..sequence + 1) == 1;
        if !is_new {
            account.repeated += 1;
        } else if account.last_read.is_some_and(|last| sequence < last) {
            account.out_of_order += 1;
        } else {
            account.last_read = Some(sequence);
        }
    }

    /// A consumer found a record of this run that isn't as it was sent.
    pub const fn corrupt(&mut self) {
        self.corrupt += 1;
    }

    /// Puts two ledgers together. Each partition must have been read by only one of them.
    pub fn merge(&mut self, other: &Self) {
        self.corrupt += other.corrupt;
        for (source, account) in &other.accounts {
            let own = self.accounts.entry(*source).or_default();
            own.acknowledged.extend(&account.acknowledged);
            own.unknown.extend(&account.unknown);
            own.read.extend(&account.read);
            own.last_read = own.last_read.max(account.last_read);
            own.repeated += account.repeated;
            own.out_of_order += account.out_of_order;
        }
    }

    /// What it all comes to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict { corrupt: self.corrupt, ..Verdict::default() };
        for account in self.accounts.values() {
            let acknowledged = account.acknowledged.count();
            let read_back = account.acknowledged.count_common(&account.read);
            verdict.acknowledged += acknowledged;
            verdict.read_back += read_back;
            verdict.lost += acknowledged - read_back;
            verdict.repeated += account.repeated;
            verdict.out_of_order += account.out_of_order;
            verdict.unknown += account.unknown.count();
            verdict.unacknowledged_read += account.read.count() - read_back;
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SOURCE: Source = Source { partition: 1, producer: 2 };

    #[test]
    fn each_fault_is_told_from_the_others() {
        let mut ledger = Ledger::default();
        ledger.acknowledge(SOURCE, 0..10);
        ledger.leave_unknown(SOURCE, 10..20);
        for sequence in [0, 1, 1, 3, 2, 4, 5, 6, 7, 12] {
            ledger.read(SOURCE, sequence);
        }
        ledger.corrupt();
        let expected = Verdict {
            acknowledged: 10,
            read_back: 8,
            lost: 2,
            repeated: 1,
            out_of_order: 1,
            corrupt: 1,
            unknown: 10,
            unacknowledged_read: 1,
        };
        assert_eq!(ledger.verdict(), expected);
        assert!(!expected.is_clean());
    }

    #[test]
    fn a_run_without_incidents_says_so_and_is_one_range() {
        let (mut promised, mut found) = (Ledger::default(), Ledger::default());
        for batch in 0..100 {
            promised.acknowledge(SOURCE, batch * 10..batch * 10 + 10);
        }
        (0..1_000).for_each(|sequence| found.read(SOURCE, sequence));
        promised.merge(&found);
        let account = &promised.accounts[&SOURCE];
        assert_eq!((account.acknowledged.ranges.len(), account.read.ranges.len()), (1, 1));
        let text = "1000 acknowledged, 1000 read back once and in order, 0 lost, 0 repeated, 0 out of order, 0 corrupt";
        assert_eq!(promised.verdict().to_string(), text);
    }

    proptest! {
        #[test]
        fn ranges_count_like_a_set(inserted in vec((0_u64..60, 0_u64..12), 0..40), asked in (0_u64..60, 0_u64..30)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, length) in inserted {
                let before = set.len();
                set.extend(start..start + length);
                let new = u64::try_from(set.len() - before).unwrap();
                prop_assert_eq!(ranges.insert(start..start + length), new);
                let pairs: Vec<_> = ranges.ranges.iter().collect();
                prop_assert!(pairs.windows(2).all(|pair| pair[0].1 < pair[1].0), "they don't touch");
            }
            prop_assert_eq!(ranges.count(), u64::try_from(set.len()).unwrap());
            let asked = asked.0..asked.0 + asked.1;
            let within = set.iter().filter(|number| asked.contains(number)).count();
            prop_assert_eq!(ranges.count_within(&asked), u64::try_from(within).unwrap());
        }
    }
}
