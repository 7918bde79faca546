//! Which blocks of a file have space on the disk.

use core::ops::Range;

/// A set of block numbers, kept as sorted ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    ranges: Vec<Range<u64>>,
}

impl Extents {
    /// How many blocks of the range aren't in the set.
    pub(crate) fn missing(&self, range: &Range<u64>) -> u64 {
        let covered: u64 = self.ranges.iter().map(|own| overlap(own, range)).sum();
        (range.end - range.start) - covered
    }

    /// Adds the range, joining what it touches.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|own| own.end < range.start);
        let after = self.ranges.partition_point(|own| own.start <= range.end);
        let mut joined = range;
        for own in &self.ranges[first..after] {
            joined = joined.start.min(own.start)..joined.end.max(own.end);
        }
        self.ranges.splice(first..after, [joined]);
    }

    /// Removes every block from `end` on.
    pub(crate) fn truncate(&mut self, end: u64) {
        self.ranges.retain(|own| own.start < end);
        if let Some(last) = self.ranges.last_mut() {
            last.end = last.end.min(end);
        }
    }

    /// How many blocks are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.ranges.iter().map(|own| own.end - own.start).sum()
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::Random;

    #[test]
    fn extents_are_the_set_of_their_blocks() {
        let mut random = Random::new(3);
        for _ in 0..200 {
            let (mut extents, mut model) = (Extents::default(), BTreeSet::new());
            for _ in 0..20 {
                let start = random.below(40);
                let range = start..start + random.below(12);
                let missing = range.clone().filter(|block| !model.contains(block)).count();
                assert_eq!(extents.missing(&range), missing as u64);
                if random.one_in(4) {
                    extents.truncate(start);
                    model.retain(|block| *block < start);
                } else {
                    extents.insert(range.clone());
                    model.extend(range);
                }
                assert_eq!(extents.count(), model.len() as u64);
                assert!(extents.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
