//! What one request asks the controller of many topics: each once, some at a time.

use core::cell::OnceCell;
use core::time::Duration;
use std::collections::BTreeMap;

use engine_io::{Io, deadline, together};
use engine_record::Instant;

use crate::dispatch::Request;
use crate::shard::Shard;
use crate::turns::Turns;

/// How many topics of one request the controller has at a time: as many as it makes durable at once, and few of the
/// requests that it takes.
const AT_ONCE: usize = 32;

/// How often a request names each of those that it names.
pub(super) async fn mentions<I: Io, N: Ord>(
    shard: &Shard<I>,
    names: impl Iterator<Item = N>,
) -> BTreeMap<N, usize> {
    let (mut mentions, mut turns) = (BTreeMap::new(), Turns::new(shard.io()));
    for name in names {
        turns.step().await;
        *mentions.entry(name).or_default() += 1;
    }
    mentions
}

/// When a request's timeout ends.
pub(super) fn end_of<I: Io>(request: &Request<I>, timeout_ms: i32) -> Instant {
    request.received_at.after(Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)))
}

/// What came of each order; `None` of one that wasn't given, or isn't finished until then.
pub(super) async fn carried_out<I: Io, T>(
    shard: &Shard<I>,
    until: Option<Instant>,
    orders: impl Iterator<Item = Option<impl Future<Output = T>>>,
) -> Vec<Option<T>> {
    let orders: Vec<_> = orders.collect();
    let outcomes: Vec<OnceCell<T>> = orders.iter().map(|_| OnceCell::new()).collect();
    let given = orders.into_iter().zip(&outcomes).filter_map(|(order, outcome)| {
        let order = order?;
        Some(async {
            let _once = outcome.set(order.await);
        })
    });
    let all = together(AT_ONCE, given);
    match until {
        Some(until) => drop(deadline(shard.io(), until, all).await),
        None => all.await,
    }
    outcomes.into_iter().map(OnceCell::into_inner).collect()
}
