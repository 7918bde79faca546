//! Why records of a partition couldn't be read again. Which of them were lost is the ledger's to say.

use core::fmt;

use engine_record::Offset;

/// A part of a partition that isn't there, or can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Its first records are gone.
    StartsLate {
        /// The partition.
        partition: u32,
        /// Where reading was to begin, or to go on.
        wanted: Offset,
        /// The first offset there is now.
        first: Offset,
    },
    /// Its last records are gone.
    EndsEarly {
        /// The partition.
        partition: u32,
        /// Where it ends now, exclusive.
        end: Offset,
        /// Where acknowledged records end, or where it ended before, exclusive.
        promised: Offset,
    },
    /// Something else keeps its records from being read.
    Stopped {
        /// The partition.
        partition: u32,
        /// From here on; `None` where not even its bounds are known.
        position: Option<Offset>,
        /// What it is.
        why: String,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartsLate { partition, wanted, first } => write!(
                f,
                "partition {partition} begins at offset {first} now; what was there from offset {wanted} on is gone, \
                 by retention or deletion"
            ),
            Self::EndsEarly { partition, end, promised } => write!(
                f,
                "partition {partition} ends at offset {end} now; what was there up to offset {promised} is gone"
            ),
            Self::Stopped { partition, position: Some(position), why } => {
                write!(f, "partition {partition} can't be read on from offset {position}: {why}")
            }
            Self::Stopped { partition, position: None, why } => {
                write!(f, "partition {partition} can't be read: {why}")
            }
        }
    }
}
