//! Which shard has which part of a list, and the list again from what they made of their parts. Pure.
//!
//! ```text
//! a list     t: 0 1 2   u: 0            owner of each   t: A B A   u: B
//! divided    A gets t: 0 2              B gets t: 1   u: 0
//! joined     what A and B answer, each in the order of its part, stands where the request had it
//! ```

use std::collections::{BTreeMap, VecDeque};

use engine_record::ShardId;

/// A list by topic: what names the topic, and what is said of its partitions.
pub(crate) type ByTopic<T, P> = Vec<(T, Vec<P>)>;

/// A list divided by the shards that own its partitions.
#[derive(Debug)]
pub(crate) struct Divided<T, P> {
    /// The part of each owner: its partitions in the order of the whole list.
    pub(crate) parts: BTreeMap<ShardId, ByTopic<T, P>>,
    /// The owner of each partition, by topic.
    pub(crate) owners: Vec<Vec<ShardId>>,
}

/// Divides a list by the owner of each partition, which are as many as its partitions.
pub(crate) fn divide<T: Clone, P: Clone>(
    list: &ByTopic<T, P>,
    of_each: impl IntoIterator<Item = ShardId>,
) -> Divided<T, P> {
    let mut parts: BTreeMap<ShardId, ByTopic<T, P>> = BTreeMap::new();
    let mut owners = Vec::with_capacity(list.len());
    let mut of_each = of_each.into_iter();
    for (topic, partitions) in list {
        let of_topic: Vec<_> = of_each.by_ref().take(partitions.len()).collect();
        assert_eq!(of_topic.len(), partitions.len(), "every partition has an owner");
        let mut begun: BTreeMap<ShardId, Vec<P>> = BTreeMap::new();
        for (partition, owner) in partitions.iter().zip(&of_topic) {
            begun.entry(*owner).or_default().push(partition.clone());
        }
        for (owner, partitions) in begun {
            parts.entry(owner).or_default().push((topic.clone(), partitions));
        }
        owners.push(of_topic);
    }
    Divided { parts, owners }
}

/// Puts what each owner says of its partitions, in their order, where they stand in the whole list. `missing` says what
/// there is for a partition that its owner says nothing of, by the place of its topic and its place there.
pub(crate) fn join<D>(
    owners: &[Vec<ShardId>],
    mut said: BTreeMap<ShardId, VecDeque<D>>,
    missing: impl Fn(usize, usize) -> D,
) -> Vec<Vec<D>> {
    let mut of = |owner: &ShardId| said.get_mut(owner).and_then(VecDeque::pop_front);
    let topics = owners.iter().enumerate().map(|(topic, owners)| {
        let partitions = owners.iter().enumerate();
        partitions.map(|(at, owner)| of(owner).unwrap_or_else(|| missing(topic, at))).collect()
    });
    topics.collect()
}

/// What there is for a partition, and how much may be answered for it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
}

/// Which of the sizes may be answered under their own limits and one for all: in order, until that is used up. The first
/// that isn't empty always may.
pub(crate) fn within(limit: u64, sizes: &[Size]) -> Vec<bool> {
    let mut left = limit;
    let mut is_first = true;
    let fits = sizes.iter().map(|&Size { bytes, bytes_max }| {
        if bytes == 0 {
            return true;
        }
        let was_first = core::mem::replace(&mut is_first, false);
        let fits = was_first || bytes <= bytes_max.min(left);
        if fits {
            left = left.saturating_sub(bytes);
        }
        fits
    });
    fits.collect()
}

impl<T, P> Divided<T, P> {
    /// The only owner, where there is no other.
    pub(crate) fn only_owner(&self) -> Option<ShardId> {
        let (first, _) = self.parts.first_key_value()?;
        (self.parts.len() == 1).then_some(*first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type List = ByTopic<u8, u32>;

    fn lists() -> impl Strategy<Value = List> {
        proptest::collection::vec((0_u8..4, proptest::collection::vec(0_u32..8, 0..6)), 0..6)
    }

    fn owner(topic: u8, partition: u32, seed: u32) -> ShardId {
        ShardId(u16::try_from((u32::from(topic) * 7 + partition * 5 + seed) % 3).unwrap())
    }

    fn divided(list: &List, seed: u32) -> Divided<u8, u32> {
        let owners = list
            .iter()
            .flat_map(|(topic, partitions)| partitions.iter().map(move |index| owner(*topic, *index, seed)));
        divide(list, owners)
    }

    /// What an owner makes of its part: each partition once, in order.
    fn answered(part: &List) -> VecDeque<(u8, u32)> {
        part.iter().flat_map(|(topic, partitions)| partitions.iter().map(|index| (*topic, *index))).collect()
    }

    proptest! {
        #[test]
        fn what_is_divided_and_joined_is_the_list_again(list in lists(), seed in 0_u32..9) {
            let divided = divided(&list, seed);
            for (shard, part) in &divided.parts {
                for (topic, partitions) in part {
                    prop_assert!(!partitions.is_empty());
                    prop_assert!(partitions.iter().all(|index| owner(*topic, *index, seed) == *shard));
                }
            }
            let said = divided.parts.iter().map(|(shard, part)| (*shard, answered(part))).collect();
            let joined = join(&divided.owners, said, |_, _| unreachable!("every owner has answered"));
            let expected: Vec<Vec<_>> = list.iter()
                .map(|(topic, partitions)| partitions.iter().map(|index| (*topic, *index)).collect())
                .collect();
            prop_assert_eq!(joined, expected);
        }

        #[test]
        fn an_owner_that_says_nothing_fails_its_partitions_and_no_others(list in lists(), seed in 0_u32..9) {
            let divided = divided(&list, seed);
            let said = divided.parts.iter()
                .filter(|(shard, _)| **shard != ShardId(1))
                .map(|(shard, part)| (*shard, answered(part).into_iter().map(Some).collect()))
                .collect();
            let joined = join(&divided.owners, said, |_, _| None);
            for ((topic, partitions), joined) in list.iter().zip(joined) {
                for (index, said) in partitions.iter().zip(joined) {
                    let failed = owner(*topic, *index, seed) == ShardId(1);
                    prop_assert_eq!(said, (!failed).then_some((*topic, *index)));
                }
            }
        }

        #[test]
        fn what_is_answered_keeps_the_limits_but_for_the_first(
            limit in 0_u64..50,
            sizes in proptest::collection::vec((0_u64..20, 0_u64..20), 0..10),
        ) {
            let sizes: Vec<_> = sizes.into_iter().map(|(bytes, bytes_max)| Size { bytes, bytes_max }).collect();
            let fits = within(limit, &sizes);
            let mut taken = sizes.iter().zip(&fits).filter(|(_, fits)| **fits).map(|(size, _)| *size);
            let first = sizes.iter().copied().find(|size| size.bytes > 0);
            prop_assert!(sizes.iter().zip(&fits).all(|(size, fits)| size.bytes > 0 || *fits));
            let total: u64 = taken.clone().map(|size| size.bytes).sum();
            prop_assert!(total <= limit.max(first.map_or(0, |first| first.bytes)));
            prop_assert_eq!(taken.find(|size| size.bytes > 0), first);
            prop_assert!(taken.all(|size| size.bytes <= size.bytes_max || size.bytes == 0));
        }
    }

    #[test]
    fn a_list_of_one_owner_is_known() {
        let list = vec![("t", vec![0, 1]), ("u", vec![])];
        assert_eq!(divide(&list, [ShardId(2); 2]).only_owner(), Some(ShardId(2)));
        assert_eq!(divide(&list, [0, 1].map(ShardId)).only_owner(), None);
        assert_eq!(divide(&vec![("u", Vec::<u16>::new())], []).only_owner(), None);
    }
}
