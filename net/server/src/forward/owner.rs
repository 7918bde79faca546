//! The owner's side: for each client of another shard a connection without a socket, whose requests come by an inbox
//! and whose answers go back by the places that came with them.

use core::cell::RefCell;
use core::pin::pin;
use std::collections::VecDeque;
use std::rc::Rc;

use engine_io::{Io, Receiver, ReplySlot, Task, Tasks, first, reply};
use engine_store::Read;

use super::carry::{CarriedPartition, carried, carried_frame};
use super::{Answer, Forwarded, Hurry, Opening};
use crate::connection::Connection;
use crate::dispatch;
use crate::frame_reader::RequestFrame;
use crate::reply_memory::{self, Held};
use crate::reply_queue::PendingReply;
use crate::response::{Fetched, Response};
use crate::shard::Shard;

/// Where the answer to a request that has begun goes, and what hurries it.
type Place = (ReplySlot<Answer>, Receiver<Hurry>);

/// Serves the clients that other shards announce, each in a task of its own, until the task is dropped.
pub(crate) async fn accept<I: Io>(shard: Rc<Shard<I>>, openings: Receiver<Opening>, served: Rc<Tasks<I>>) {
    while let Ok(opening) = openings.receive().await {
        let io = shard.io().clone();
        served.spawn(&io, serve(Rc::clone(&shard), opening));
    }
}

/// Carries out the parts of one client's requests in the order in which they come, until the client is gone.
async fn serve<I: Io>(shard: Rc<Shard<I>>, opening: Opening) {
    let connection = Rc::new(Connection::forwarded(&shard, opening.client));
    let _listed = shard.connections().list(&connection);
    let places: Rc<RefCell<VecDeque<Place>>> = Rc::default();
    let answering = answer_in_order(Rc::clone(&shard), Rc::clone(&connection), Rc::clone(&places));
    let answering = shard.io().spawn(answering);
    let replies = connection.forwarded_replies();
    while replies.has_room().await {
        let Ok(Ok(part)) = first(opening.inbox.receive(), connection.hung_up()).await else { break };
        let Forwarded { frame, throttle_time_ms, begun, answer, hurry } = part;
        if !replies.begin() {
            break;
        }
        // Its memory is counted where it was read.
        let frame = RequestFrame { bytes: frame, memory: connection.request_memory().nothing() };
        let reply: PendingReply<I> =
            dispatch::start_forwarded(&shard, &connection, frame, throttle_time_ms).await;
        begun.answer(());
        places.borrow_mut().push_back((answer, hurry));
        replies.push(reply);
    }
    // The client is gone: nobody waits for what is left.
    connection.close();
    answering.join().await;
}

/// Drives the replies in order, until the connection is closed.
async fn answer_in_order<I: Io>(
    shard: Rc<Shard<I>>,
    connection: Rc<Connection<I>>,
    places: Rc<RefCell<VecDeque<Place>>>,
) {
    let counted = Tasks::new();
    let replies = connection.forwarded_replies();
    while let Some(reply) = replies.next().await {
        let place = places.borrow_mut().pop_front();
        let (slot, hurry) = place.expect("a place comes with each request");
        let Ok(made) = first(made(&connection, reply, &hurry), connection.hung_up()).await else { break };
        if let Some(response) = made {
            slot.answer(answer(&shard, response, &counted).await);
        }
        replies.sent(1);
    }
}

/// The response once it is made; `None` where nobody waits for it any more.
async fn made<I: Io>(
    connection: &Connection<I>,
    reply: PendingReply<I>,
    hurry: &Receiver<Hurry>,
) -> Option<Response<I>> {
    let mut reply = pin!(reply);
    loop {
        match first(reply.as_mut(), hurry.receive()).await {
            Ok(response) => return Some(response),
            Err(Ok(Hurry)) => connection.forwarded_replies().hurry_next(),
            Err(Err(_nobody_waits)) => return None,
        }
    }
}

async fn answer<I: Io>(shard: &Shard<I>, response: Response<I>, counted: &Tasks<I>) -> Answer {
    match response {
        Response::Reply(mut reply) => {
            let memory = reply.memory.take();
            let bytes = carried_frame(shard.io(), reply).await;
            let taken = memory.and_then(|memory| {
                count_until_taken(shard, counted, (memory, bytes.capacity() as u64), Vec::new())
            });
            Answer::Frame { bytes, taken }
        }
        Response::Fetched(fetched) => fetched_answer(shard, fetched, counted).await,
        Response::Nothing => Answer::Nothing,
        Response::Close(reason) => Answer::Close(reason),
    }
}

async fn fetched_answer<I: Io>(shard: &Shard<I>, fetched: Fetched<I>, counted: &Tasks<I>) -> Answer {
    let partitions = carried(shard.io(), &fetched).await;
    let bytes = partitions.iter().map(CarriedPartition::memory_bytes).sum();
    let has_files = partitions.iter().any(CarriedPartition::has_files);
    let Fetched { partitions: told, memory } = fetched;
    let mut reads: Vec<_> = told.into_iter().filter_map(|(_, read)| read.filter(|_| has_files)).collect();
    // What was copied needn't stay where it was.
    reads.iter_mut().for_each(|read| read.pieces = Vec::new());
    let taken = memory.and_then(|memory| count_until_taken(shard, counted, (memory, bytes), reads));
    Answer::Fetched { partitions, taken }
}

/// Counts what is large until the client has taken it, and keeps the files that were read as they are as long.
fn count_until_taken<I: Io>(
    shard: &Shard<I>,
    counted: &Tasks<I>,
    (mut memory, bytes): (Held, u64),
    files: Vec<Read<I>>,
) -> Option<ReplySlot<()>> {
    if bytes <= reply_memory::SMALL_BYTES && files.is_empty() {
        return None;
    }
    memory.set(bytes);
    let (taken, is_taken) = reply();
    counted.spawn(shard.io(), async move {
        // It is dropped, never answered.
        let _dropped = is_taken.wait().await;
        drop((memory, files));
    });
    Some(taken)
}
