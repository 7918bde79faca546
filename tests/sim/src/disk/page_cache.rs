//! Which parts of a file the kernel has in memory: chance decides, until somebody asks for them.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::random::Random;

/// The unit in which parts come and go.
const CHUNK_BYTES: u64 = 64 * 1024;

/// One question in so many finds a part gone that was there.
const EVICTED_ONE_IN: u64 = 64;

/// What is known of a file's parts; of those never asked for, nothing.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    is_resident: BTreeMap<u64, bool>,
}

impl PageCache {
    /// How many bytes from the start of the range on are in memory.
    pub(crate) fn resident(&mut self, range: &Range<u64>, random: &mut Random) -> u64 {
        for chunk in chunks_of(range) {
            let is_resident = self.is_resident.entry(chunk).or_insert_with(|| random.one_in(2));
            *is_resident = *is_resident && !random.one_in(EVICTED_ONE_IN);
            if !*is_resident {
                return (chunk * CHUNK_BYTES).saturating_sub(range.start);
            }
        }
        range.end - range.start
    }

    /// Brings the range into memory.
    pub(crate) fn fill(&mut self, range: &Range<u64>) {
        self.is_resident.extend(chunks_of(range).map(|chunk| (chunk, true)));
    }

    /// A direct write drops what it overwrites.
    pub(crate) fn drop_range(&mut self, range: &Range<u64>) {
        for chunk in chunks_of(range) {
            self.is_resident.insert(chunk, false);
        }
    }
}

fn chunks_of(range: &Range<u64>) -> Range<u64> {
    range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_is_resident_and_what_was_written_is_not() {
        let (mut cache, mut random) = (PageCache::default(), Random::new(1));
        let range = 10..3 * CHUNK_BYTES;
        let longest = (0..32).map(|_| {
            cache.fill(&range);
            cache.resident(&range, &mut random)
        });
        assert_eq!(longest.max(), Some(range.end - range.start));
        cache.drop_range(&(CHUNK_BYTES..CHUNK_BYTES + 1));
        assert!(cache.resident(&range, &mut random) <= CHUNK_BYTES - 10);
    }
}
