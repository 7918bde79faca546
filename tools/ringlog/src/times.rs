//! Moments on the command line: RFC 3339, or milliseconds since 1970.

use jiff::Timestamp as Moment;

/// What was written is no moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes a time such as 2026-11-30T12:00:00Z (RFC 3339), or milliseconds since 1970")]
pub(crate) struct NoMoment;

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Milliseconds(pub(crate) i64);

/// Reads a moment. A time of day needs its zone: what it is elsewhere isn't guessed.
pub(crate) fn milliseconds(text: &str) -> Result<Milliseconds, NoMoment> {
    let since_1970 =
        |milliseconds: i64| Some(Milliseconds(milliseconds)).filter(|_| milliseconds >= 0).ok_or(NoMoment);
    if let Ok(milliseconds) = text.parse::<i64>() {
        return since_1970(milliseconds);
    }
    let moment: Moment = text.parse().map_err(|_| NoMoment)?;
    // A moment within a millisecond is told as its beginning.
    since_1970(moment.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_with_its_zone_or_milliseconds() {
        assert_eq!(milliseconds("0"), Ok(Milliseconds(0)));
        assert_eq!(milliseconds("1764504000000"), Ok(Milliseconds(1_764_504_000_000)));
        assert_eq!(milliseconds("1970-01-01T00:00:01.5Z"), Ok(Milliseconds(1_500)));
        assert_eq!(milliseconds("1970-01-01T02:00:00+02:00"), Ok(Milliseconds(0)));
        for text in ["", "-1", "yesterday", "1970-01-01", "1970-01-01T00:00:00", "1969-12-31T23:59:59Z"] {
            assert_eq!(milliseconds(text), Err(NoMoment), "{text}");
        }
    }
}
