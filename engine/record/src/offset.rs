//! Offsets: a record's number in its partition.

use core::fmt;

/// The number of a record in its partition: 0 for the first record ever appended.
///
/// An `Offset` used as a bound is exclusive (`log_end`, `high_watermark`), unless its name begins with `last_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(i64);

impl Offset {
    /// The offset of the first record of a new log.
    pub const ZERO: Self = Self(0);
    /// The largest offset the protocol can carry.
    pub const MAX: Self = Self(i64::MAX);

    /// Makes an offset of `value`, or `None` where it is negative.
    #[must_use]
    pub const fn new(value: i64) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The offset as the protocol carries it; never negative.
    #[must_use]
    pub const fn value(self) -> i64 {
        self.0
    }

    /// The offset `count` records further, or `None` past [`Offset::MAX`].
    #[must_use]
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add_unsigned(count) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// How many records lie from `earlier` (inclusive) up to `self` (exclusive); `None` where `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Option<u64> {
        if self.0 < earlier.0 { None } else { Some(self.0.abs_diff(earlier.0)) }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_never_negative() {
        assert_eq!(Offset::new(-1), None);
        assert_eq!(Offset::new(0), Some(Offset::ZERO));
    }

    #[test]
    fn distance_and_addition_are_inverse_and_checked() {
        let base = Offset::new(40).unwrap();
        let next = base.checked_add(2).unwrap();
        assert_eq!(next.since(base), Some(2));
        assert_eq!(base.since(next), None);
        assert_eq!(Offset::MAX.checked_add(1), None);
    }
}
