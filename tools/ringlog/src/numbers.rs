//! Numbers and times of the command line. Each flag has one range: its help states it, and a refusal repeats it.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// What was written is no number of the flag's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes a whole number from {first} to {last}")]
pub(crate) struct NoNumber<N> {
    first: N,
    last: N,
}

/// Reads a whole number of this range.
pub(crate) fn number<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, NoNumber<N>> + Clone + Send + Sync + 'static
where
    N: Copy + FromStr + PartialOrd + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| NoNumber { first: *range.start(), last: *range.end() })
    }
}

/// What was written is no time of the flag's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes a time from {first} to {last}, a whole number with its unit: 500ms, 5s or 2m")]
pub(crate) struct NoTime {
    first: Time,
    last: Time,
}

/// Reads a time of this range: a number and its unit.
pub(crate) fn time(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, NoTime> + Clone + Send + Sync + 'static {
    move |text| {
        let time = parse_time(text).filter(|time| range.contains(time));
        time.ok_or_else(|| NoTime { first: Time(*range.start()), last: Time(*range.end()) })
    }
}

fn parse_time(text: &str) -> Option<Duration> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    milliseconds.map(Duration::from_millis)
}

/// A time as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        match (milliseconds % 1_000, milliseconds % 60_000) {
            (0, 0) if milliseconds > 0 => write!(f, "{}m", milliseconds / 60_000),
            (0, _) => write!(f, "{}s", milliseconds / 1_000),
            (_, _) => write!(f, "{milliseconds}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_one_of_its_range_and_whatever_else_is_told_the_range() {
        let read = number(2..=5_u32);
        assert_eq!((read("2"), read("5")), (Ok(2), Ok(5)));
        for text in ["1", "6", "-1", "99999999999999999999", "x", "", "2.5"] {
            assert_eq!(read(text).unwrap_err().to_string(), "it takes a whole number from 2 to 5", "{text}");
        }
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!(parse_time("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_time("90s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_time("2m"), Some(Duration::from_secs(120)));
        for text in ["", "5", "s", "5 s", "-1s", "5h", "99999999999999999999s", "18446744073709551615m"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_one_of_its_range_and_whatever_else_is_told_the_range() {
        let read = time(Duration::ZERO..=Duration::from_secs(90));
        assert_eq!((read("0s"), read("90s")), (Ok(Duration::ZERO), Ok(Duration::from_secs(90))));
        for text in ["90001ms", "2m", "5", "-1s"] {
            let refused = read(text).unwrap_err().to_string();
            assert!(refused.starts_with("it takes a time from 0s to 90s, "), "{text}: {refused}");
        }
        let shown =
            [1, 1_000, 1_500, 60_000, 90_000].map(|time| Time(Duration::from_millis(time)).to_string());
        assert_eq!(shown, ["1ms", "1s", "1500ms", "1m", "90s"]);
    }
}
