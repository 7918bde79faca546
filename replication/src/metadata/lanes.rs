//! Lanes: which shard of a node owns a partition, without the cluster knowing how many shards a node has today.
//!
//! A partition has one small number, its lane. The owner on a node is `lane mod shards`, so a node restarted with more or
//! fewer shards moves ownership without touching a file. What remains is to deal lanes so that the shards stay level:
//!
//! ```text
//! partitions of a topic led by one node:   k =  0   1   2   3   4   5
//! lanes, start 6:                               6   7   8   9  10  11
//! owners with 4 shards:                         2   3   0   1   2   3      consecutive lanes differ by at most one a shard,
//! owners with 5 shards:                         1   2   3   4   0   1      whatever the number of shards
//! ```

mod deal;
mod grow;
#[cfg(test)]
mod tests;

pub use deal::{ReplicaTarget, deal, manual};
pub use grow::deal_more;

use engine_record::ShardId;

use crate::codec::{DecodeError, Reader};

/// A partition's lane, from 0 to 1,023.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(u16);

impl Lane {
    /// How many lanes there are.
    pub const COUNT: u16 = 1_024;

    /// The lane with this number, or `None` from [`Lane::COUNT`] on.
    #[must_use]
    pub const fn new(value: u16) -> Option<Self> {
        if value < Self::COUNT { Some(Self(value)) } else { None }
    }

    /// The lane's number.
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }

    /// The shard that owns this lane's partitions on a node with so many shards.
    ///
    /// # Panics
    ///
    /// `shards` is 0.
    #[must_use]
    pub const fn owner(self, shards: u16) -> ShardId {
        assert!(shards > 0, "a node has at least one shard");
        ShardId(self.0 % shards)
    }

    /// The lane `count` further, beginning again after the last.
    pub(crate) fn forward(self, count: usize) -> Self {
        let lane = (usize::from(self.0) + count) % usize::from(Self::COUNT);
        Self(u16::try_from(lane).expect("a remainder of 1,024 fits 16 bits"))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::new(reader.number()?).ok_or(DecodeError::Number)
    }
}
