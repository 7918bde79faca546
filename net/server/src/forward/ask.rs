//! Asking other shards, and waiting for what they say.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use std::collections::BTreeMap;

use engine_io::{Closed, Io, Reply, Sender, mailbox, reply};
use engine_record::{PartitionIndex, ShardId};
use net_wire::TopicRef;
use replication::metadata::image::Image;

use super::link::send;
use super::{Answer, Forwarded, Hurry};
use crate::connection::Connection;
use crate::shard::Shard;
use crate::turns::Turns;

/// A part that was sent. Dropped, its owner lets go of it.
pub(super) struct Asked {
    begun: Reply<()>,
    answer: Reply<Answer>,
    hurry: Sender<Hurry>,
}

/// Sends a part of a request; `None` where its owner is gone.
pub(super) async fn ask<I: Io>(
    shard: &Shard<I>,
    (connection, throttle_time_ms): (&Connection<I>, i32),
    owner: ShardId,
    frame: Vec<u8>,
) -> Option<Asked> {
    let peers = shard.peers()?;
    let ((begins, begun), (answers, answer), (hurry, hurried)) = (reply(), reply(), mailbox(1));
    let part = Forwarded { frame, throttle_time_ms, begun: begins, answer: answers, hurry: hurried };
    send(peers, connection, owner, part).await.ok()?;
    Some(Asked { begun, answer, hurry })
}

impl Asked {
    /// The part once its owner has begun it, in the order sent, or is gone.
    pub(super) async fn begun(self) -> Begun {
        // An owner that is gone doesn't answer either.
        let _gone = self.begun.wait().await;
        Begun { answer: self.answer, hurry: self.hurry }
    }

    /// The part, however far it is.
    pub(super) fn beginning(self) -> Begun {
        Begun { answer: self.answer, hurry: self.hurry }
    }
}

/// A part that is answered by and by.
pub(super) struct Begun {
    answer: Reply<Answer>,
    hurry: Sender<Hurry>,
}

impl Begun {
    /// What its owner says; `None` where that is gone.
    pub(super) async fn answered(self) -> Option<Answer> {
        let answer = self.answer.wait().await.ok();
        drop(self.hurry);
        answer
    }
}

/// What all owners say. Once one has said something, or the client's requests are hurried, the others are hurried.
pub(super) async fn answered_together<I: Io>(
    connection: &Connection<I>,
    parts: BTreeMap<ShardId, Begun>,
) -> BTreeMap<ShardId, Answer> {
    type Waiting = Pin<Box<dyn Future<Output = Result<Answer, Closed>>>>;
    let mut waiting: Vec<(ShardId, Waiting)> = Vec::with_capacity(parts.len());
    let mut hurries = Vec::with_capacity(parts.len());
    for (owner, part) in parts {
        waiting.push((owner, Box::pin(part.answer.wait())));
        hurries.push(part.hurry);
    }
    let mut hurried = pin!(connection.hurried());
    let (mut are_hurried, mut answers) = (false, BTreeMap::new());
    poll_fn(|context| {
        let before = waiting.len();
        waiting.retain_mut(|(owner, answer)| match answer.as_mut().poll(context) {
            Poll::Ready(said) => {
                answers.extend(said.ok().map(|said| (*owner, said)));
                false
            }
            Poll::Pending => true,
        });
        let is_one_there = waiting.len() < before;
        if !are_hurried && (is_one_there || hurried.as_mut().poll(context).is_ready()) {
            are_hurried = true;
            // There is room for the one that each is ever sent, and one that is gone needs none.
            hurries.iter().for_each(|hurry| drop(hurry.try_send(Hurry)));
        }
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers
}

/// The owner of each partition wanted, in order.
pub(super) async fn owners<'w, I: Io>(
    shard: &Shard<I>,
    wanted: impl Iterator<Item = (TopicRef<'w>, i32)>,
) -> Vec<ShardId> {
    let (mut owners, mut turns) = (Vec::new(), Turns::new(shard.io()));
    for (topic, index) in wanted {
        turns.step().await;
        owners.push(owner(shard, &shard.image(), topic, index));
    }
    owners
}

/// The shard that answers for a partition: who owns it on this node, or this one where that is nobody.
pub(super) fn owner<I: Io>(shard: &Shard<I>, image: &Image, topic: TopicRef<'_>, index: i32) -> ShardId {
    let topic = match topic {
        TopicRef::Name(name) => image.topic_named(name),
        TopicRef::Id(id) => image.topic(engine_record::TopicId(id.0)),
    };
    let partition = topic.and_then(|topic| topic.partition(PartitionIndex(index)));
    let here = shard.config().node;
    let led_here = partition.filter(|partition| partition.leader == Some(here));
    led_here.and_then(|partition| image.owner(here, partition.lane)).unwrap_or_else(|| shard.id())
}
