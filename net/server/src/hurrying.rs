//! Fetches that wait for records are answered early where others wait for memory.
//!
//! A fetch may wait for a minute, and an early answer is always right. While it waits it holds its request, and its turn
//! where that is a long list; and whatever its connection asked for behind it can't be answered before it: the requests
//! are held too, and what came of produces. None of these gives way by itself. So where others wait for that memory, the
//! connections that hold some of it are hurried: all that they have under way is answered without waiting for records.
//!
//! A connection that holds nothing but a small fetch keeps its wait, whatever is short: ending it would free nothing, and
//! cost the client and the shard a request.

use core::time::Duration;
use std::rc::Rc;

use engine_io::Io;

use crate::connection::Connection;
use crate::notices::Notice;
use crate::request_memory;
use crate::shard::Shard;

/// How often it is looked whether somebody waits.
const EVERY: Duration = Duration::from_millis(250);

/// The memory that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// That of replies.
    replies: bool,
    /// That of requests, or turns of long lists.
    requests: bool,
}

impl Wanted {
    fn of<I: Io>(shard: &Shard<I>) -> Self {
        Self {
            replies: shard.reply_memory().is_waited_for(),
            requests: shard.request_memory().is_waited_for() || shard.list_memory().lacking() > 0,
        }
    }

    /// Whether the connection holds so much of it that it is worth an early answer.
    pub(crate) fn is_held_by<I: Io>(self, connection: &Connection<I>) -> bool {
        let small = request_memory::SMALL_BYTES as u64;
        (self.replies && connection.outcomes().are_held())
            || (self.requests && connection.request_memory().used() > small)
    }
}

/// Hurries those that hold what others wait for, until the task is dropped.
pub(crate) async fn hurry_holders<I: Io>(shard: Rc<Shard<I>>) {
    loop {
        shard.io().sleep(EVERY).await;
        let wanted = Wanted::of(&shard);
        if !wanted.replies && !wanted.requests {
            continue;
        }
        let hurried = shard.connections().hurry(wanted);
        if hurried > 0 {
            shard.notice(Notice::FetchesHurried, |held_back| {
                tracing::info!(
                    connections = hurried,
                    ?wanted,
                    held_back,
                    "memory is short: fetches that wait are answered early"
                );
            });
        }
    }
}
