//! The values that a setting may have, and reading one of them.

use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use engine_record::TimestampType;
use replication::leader::FlushMode;

use super::SettingError;

/// What the numbers of a setting count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

impl Unit {
    /// The unit by its name; `None` for things, which have none.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Count => None,
            Self::Bytes => Some("bytes"),
            Self::Milliseconds => Some("ms"),
            Self::Minutes => Some("minutes"),
            Self::Hours => Some("hours"),
        }
    }

    /// How a range of numbers of it begins in words.
    const fn words(self) -> &'static str {
        match self {
            Self::Count => "a count",
            Self::Bytes => "a number of bytes",
            Self::Milliseconds => "milliseconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
        }
    }

    /// What one of it is, as a span of time; zero for what is none.
    const fn milliseconds(self) -> u64 {
        match self {
            Self::Count | Self::Bytes => 0,
            Self::Milliseconds => 1,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
        }
    }
}

/// The values that a setting may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// `true` or `false`.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The one value that is carried out.
    Only(&'static str),
    /// A whole number in a range, both ends inclusive.
    Number {
        /// What it counts.
        unit: Unit,
        /// The lowest.
        min: i64,
        /// The highest; the largest number of all where there is none.
        max: i64,
    },
    /// A whole number from 0, or -1 for no limit.
    Limit(Unit),
    /// Text that is read later; what it says, and how that is written.
    Written(&'static str),
}

impl Values {
    /// What its numbers count, by name.
    #[must_use]
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Number { unit, .. } | Self::Limit(unit) => unit.name(),
            Self::Flag | Self::OneOf(_) | Self::Only(_) | Self::Written(_) => None,
        }
    }
}

/// As a refusal ends that says what would be right.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Flag => f.write_str("`true` or `false`"),
            Self::OneOf(words) => one_of(words, f),
            Self::Only(word) => write!(f, "`{word}`, the only one that is carried out"),
            Self::Number { unit, min, max: i64::MAX } => write!(f, "{} from {min}", unit.words()),
            Self::Number { unit, min, max } => write!(f, "{} from {min} to {max}", unit.words()),
            Self::Written(what) => f.write_str(what),
            Self::Limit(_) => write!(f, "a number from 0 to {}, or -1 for no limit", i64::MAX),
        }
    }
}

fn one_of(words: &[&str], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, word) in words.iter().enumerate() {
        let before = match index {
            0 => "",
            _ if index + 1 == words.len() => " or ",
            _ => ", ",
        };
        write!(f, "{before}`{word}`")?;
    }
    Ok(())
}

/// A setting as given: its name, its text, and what that may be.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    pub(super) values: Values,
}

impl Given<'_> {
    fn wrong(self) -> SettingError {
        let (name, value) = (self.name.to_owned(), self.value.to_owned());
        SettingError::Value { name, value, expected: self.values }
    }

    /// A whole number of the range.
    pub(super) fn number<N: TryFrom<i64>>(self) -> Result<N, SettingError> {
        let range = match self.values {
            Values::Number { min, max, .. } => min..=max,
            Values::Limit(_) => -1..=i64::MAX,
            Values::Flag | Values::OneOf(_) | Values::Only(_) | Values::Written(_) => {
                return Err(self.wrong());
            }
        };
        let number = self.value.trim().parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| self.wrong())
    }

    /// Text, to be read where more is known.
    pub(super) fn text(self) -> Result<String, SettingError> {
        let is_text = !self.value.trim().is_empty() && !self.value.contains(char::is_control);
        if is_text { Ok(self.value.to_owned()) } else { Err(self.wrong()) }
    }

    pub(super) fn flag(self) -> Result<bool, SettingError> {
        self.value.trim().to_ascii_lowercase().parse().map_err(|_| self.wrong())
    }

    /// A limit from 0; `None` for -1, which is no limit.
    pub(super) fn unless_unlimited(self) -> Result<Option<u64>, SettingError> {
        let limit: i64 = self.number()?;
        Ok(u64::try_from(limit).ok())
    }

    /// A span of time in the setting's unit.
    pub(super) fn span(self) -> Result<Duration, SettingError> {
        self.span_unless_unlimited()?.ok_or_else(|| self.wrong())
    }

    /// A span of time in the setting's unit; `None` for -1, which is no limit.
    pub(super) fn span_unless_unlimited(self) -> Result<Option<Duration>, SettingError> {
        let unit = match self.values {
            Values::Number { unit, .. } | Values::Limit(unit) => unit.milliseconds(),
            Values::Flag | Values::OneOf(_) | Values::Only(_) | Values::Written(_) => {
                return Err(self.wrong());
            }
        };
        let span = self.unless_unlimited()?;
        Ok(span.map(|units| Duration::from_millis(units.saturating_mul(unit))))
    }

    pub(super) fn timestamp_type(self) -> Result<TimestampType, SettingError> {
        match self.value.trim() {
            "CreateTime" => Ok(TimestampType::Create),
            "LogAppendTime" => Ok(TimestampType::LogAppend),
            _ => Err(self.wrong()),
        }
    }

    /// Whether all records are validated.
    pub(super) fn records_validation(self) -> Result<bool, SettingError> {
        match self.value.trim() {
            "uncompressed" => Ok(false),
            "all" => Ok(true),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn flush_mode(self) -> Result<FlushMode, SettingError> {
        match self.value.trim() {
            "quorum" => Ok(FlushMode::Quorum),
            "isr" => Ok(FlushMode::Isr),
            "leader" => Ok(FlushMode::Leader),
            "async" => Ok(FlushMode::Async),
            _ => Err(self.wrong()),
        }
    }

    /// Folders with commas between them.
    pub(super) fn folders(self) -> Result<Vec<PathBuf>, SettingError> {
        let folders = self.value.split(',').map(str::trim);
        let is_any_wrong = folders.clone().any(|folder| folder.is_empty() || folder.contains('\0'));
        if is_any_wrong { Err(self.wrong()) } else { Ok(folders.map(PathBuf::from).collect()) }
    }

    /// Accepts the one value that is carried out.
    pub(super) fn only(self) -> Result<(), SettingError> {
        match self.values {
            Values::Only(supported) if self.value.trim() == supported => Ok(()),
            Values::Only(supported) => {
                let (name, value) = (self.name.to_owned(), self.value.to_owned());
                Err(SettingError::Unsupported { name, value, supported })
            }
            Values::Flag
            | Values::OneOf(_)
            | Values::Number { .. }
            | Values::Limit(_)
            | Values::Written(_) => Err(self.wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_values_are_told_in_words() {
        let told = |values: Values| values.to_string();
        assert_eq!(told(Values::Flag), "`true` or `false`");
        assert_eq!(told(Values::OneOf(&["a", "b", "c"])), "`a`, `b` or `c`");
        assert_eq!(told(Values::Only("a")), "`a`, the only one that is carried out");
        assert_eq!(
            told(Values::Number { unit: Unit::Bytes, min: 1, max: 9 }),
            "a number of bytes from 1 to 9"
        );
        assert_eq!(told(Values::Number { unit: Unit::Hours, min: 1, max: i64::MAX }), "hours from 1");
    }

    #[test]
    fn a_number_is_one_of_the_range() {
        let values = Values::Number { unit: Unit::Count, min: 2, max: 5 };
        let read = |value| Given { name: "n", value, values }.number::<u16>();
        assert_eq!((read("2"), read(" 5 ")), (Ok(2), Ok(5)));
        for wrong in ["1", "6", "", "x", "-3", "99999999999999999999"] {
            assert_eq!(
                read(wrong).unwrap_err().to_string(),
                format!("setting `n`: `{wrong}` is not a count from 2 to 5")
            );
        }
    }
}
