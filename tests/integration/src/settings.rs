//! What can be set by environment variables, for longer and shorter runs.

use std::env;

/// The number in the variable, or `default` if it isn't set.
///
/// # Panics
/// When the variable holds something else than a number: a run with a typing error tests something else than was meant.
#[must_use]
pub fn number(variable: &str, default: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// Records of one round trip through a client.
#[must_use]
pub fn records() -> u64 {
    number("RECORDS", 100_000)
}

/// How clients are to reach partitions (`--routing`), if the test isn't to leave it to the broker.
#[must_use]
pub fn routing() -> Option<String> {
    env::var("RINGLOG_ROUTING").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default() {
        assert_eq!(number("RINGLOG_TEST_NEVER_SET", 7), 7);
    }
}
