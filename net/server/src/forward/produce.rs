//! The front's side of a produce: its first stage is over when each owner's is.

use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::Io;
use engine_record::ShardId;
use net_wire::Reader;
use net_wire::messages::ProduceRequest;
use net_wire::produce::ProduceView;

use super::Answer;
use super::ask::{Begun, ask, owner};
use super::request::{Outline, all_begun, ask_all, divided, reply_of};
use crate::dispatch::Request;
use crate::handlers;
use crate::reply_memory::Held;
use crate::reply_queue::PendingReply;
use crate::request_limits;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// `acks` of a produce that isn't answered.
const NO_ANSWER_ASKED: i16 = 0;

/// Stage one, wherever it is.
pub(crate) async fn start<I: Io>(shard: &Rc<Shard<I>>, request: Request<I>) -> PendingReply<I> {
    let started = match owners(shard, &request).await {
        Ok(Owners::One(own)) if own == shard.id() => return handlers::produce::start(shard, request).await,
        Ok(Owners::One(other)) => start_whole(shard, request, other).await,
        Ok(Owners::Several) => start_divided(shard, request).await,
        Err(reason) => Err(reason),
    };
    started.unwrap_or_else(|reason| Box::pin(core::future::ready(Response::Close(reason))))
}

/// Whose partitions the batches are for.
enum Owners {
    One(ShardId),
    Several,
}

/// Found in place: most produces are for one shard, and are never taken apart.
async fn owners<I: Io>(shard: &Shard<I>, request: &Request<I>) -> Result<Owners, CloseReason> {
    let view = ProduceView::decode(&mut Reader::new(request.body()), request.version)?;
    request_limits::check_produce(&view)?;
    let image = shard.image();
    let (mut only, mut turns) = (None, Turns::new(shard.io()));
    for topic in view.topics() {
        for partition in topic.partitions() {
            turns.step().await;
            let owner = owner(shard, &image, topic.topic, partition.index);
            if *only.get_or_insert(owner) != owner {
                return Ok(Owners::Several);
            }
        }
    }
    Ok(Owners::One(only.unwrap_or_else(|| shard.id())))
}

/// The whole request goes to its owner as it came, and its answer to the client.
async fn start_whole<I: Io>(
    shard: &Rc<Shard<I>>,
    request: Request<I>,
    owner: ShardId,
) -> Result<PendingReply<I>, CloseReason> {
    let (connection, throttle_time_ms) = (Rc::clone(&request.connection), request.throttle_time_ms);
    let (frame, memory) = request.into_frame();
    let sent =
        ask(shard, (&connection, throttle_time_ms), owner, frame).await.ok_or(CloseReason::ShardGone)?;
    let begun = sent.begun().await;
    drop(memory);
    let shard = Rc::clone(shard);
    Ok(Box::pin(async move {
        match begun.answered().await {
            Some(Answer::Frame { bytes, taken }) => Response::Reply(reply_of(&shard, bytes, taken)),
            Some(Answer::Fetched { .. }) => unreachable!("only a fetch is answered so"),
            Some(Answer::Nothing) => Response::Nothing,
            Some(Answer::Close(reason)) => Response::Close(reason),
            None => Response::Close(CloseReason::ShardGone),
        }
    }))
}

/// Each owner gets its batches. Once all have begun, nothing is left here but what is needed for the answer.
async fn start_divided<I: Io>(
    shard: &Rc<Shard<I>>,
    request: Request<I>,
) -> Result<PendingReply<I>, CloseReason> {
    let asked: ProduceRequest<'_> = request.decode()?;
    let divided = divided(shard, &request, &asked).await;
    let owners = divided.parts.len();
    let parts = ask_all(shard, &request, &asked, &divided).await?;
    let outline = Outline::of(&request, &asked, divided);
    let (acks, memory) = (asked.acks, shard.reply_memory().count(outline.bytes()));
    let parts = all_begun(parts).await;
    drop(request);
    Ok(Box::pin(finish(Rc::clone(shard), outline, (owners, parts), acks, memory)))
}

/// Stage two: the answers of all, put together.
async fn finish<I: Io>(
    shard: Rc<Shard<I>>,
    outline: Outline,
    (owners, parts): (usize, BTreeMap<ShardId, Begun>),
    acks: i16,
    memory: Held,
) -> Response<I> {
    let mut answers = BTreeMap::new();
    for (owner, part) in parts {
        answers.extend(part.answered().await.map(|answer| (owner, answer)));
    }
    if acks == NO_ANSWER_ASKED {
        let is_done = answers.len() == owners && answers.values().all(|said| matches!(said, Answer::Nothing));
        return if is_done { Response::Nothing } else { Response::Close(CloseReason::UnacknowledgedFailure) };
    }
    let answered = outline.respond::<I, ProduceRequest<'_>>(&shard, answers);
    answered.unwrap_or_else(Response::Close).counted(memory)
}
