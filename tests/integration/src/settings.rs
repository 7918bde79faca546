//! What can be set by environment variables, for longer and shorter runs.

use std::env;

use crate::broker::Routing;

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

/// How clients reach partitions in tests that aren't about one way to do so.
///
/// # Panics
/// When the variable names no routing.
#[must_use]
pub fn routing() -> Routing {
    env::var("RINGLOG_ROUTING").map_or(Routing::Shard, |name| named(&name))
}

fn named(name: &str) -> Routing {
    Routing::named(name)
        .unwrap_or_else(|| panic!("RINGLOG_ROUTING={name} is no routing; `shard` and `node` are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default() {
        assert_eq!(number("RINGLOG_TEST_NEVER_SET", 7), 7);
    }

    #[test]
    fn a_routing_is_taken_by_its_name() {
        assert_eq!([named("shard"), named("node")], [Routing::Shard, Routing::Node]);
    }

    #[test]
    #[should_panic(expected = "RINGLOG_ROUTING=nodes is no routing")]
    fn a_routing_that_is_none_fails_the_test() {
        let _ = named("nodes");
    }
}
