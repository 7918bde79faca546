//! One client's connection: requests are read and started in order, replies leave in that order.
//!
//! Two tasks share a connection. The reading task cuts frames and runs each request's first stage, which fixes its
//! order (a produce has its offsets and its bytes are copied). The writing task drives what remains of each request,
//! one after the other, and sends the replies. So a connection may have many requests under way, and a reply that has
//! to wait (a long poll, a flush) holds back only what came after it on the same connection.

use core::cell::Cell;
use core::task::Poll;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use core::future::poll_fn;
use engine_io::{Closer, Io, SendPiece, Signal, Stream, StreamReader, StreamWriter, Task, first};
use engine_record::Instant;

use crate::dispatch;
use crate::frame_reader::{FrameReadError, FrameReader};
use crate::hooks::Principal;
use crate::notices::Notice;
use crate::reply_queue::{PendingReply, ReplyQueue};
use crate::response::{CloseReason, Reply, ReplyPiece, Response};
use crate::shard::Shard;

/// Replies that are ready are sent together until they reach this many bytes.
const SEND_BYTES: usize = 256 << 10;

type CloserOf<I> = <<<I as Io>::Stream as Stream>::Reader as StreamReader>::Closer;

/// What is known of a connection, shared by its tasks and the shard.
pub(crate) struct Connection<I: Io> {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The address the client reached.
    pub(crate) reached: IpAddr,
    /// Who the client is.
    pub(crate) principal: Principal,
    replies: ReplyQueue<I>,
    closer: CloserOf<I>,
    /// When bytes last came or left.
    active_at: Cell<Instant>,
    doing: Cell<Doing>,
    /// Nobody is there any more to take replies.
    hung_up: Cell<bool>,
    hanging_up: Signal,
    /// No request is read before this moment: the client is held back.
    muted_until: Cell<Instant>,
}

/// What a connection's tasks are busy with; it decides how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Waiting for a request.
    Idle,
    /// In the middle of a frame.
    Receiving,
    /// Working on requests.
    Working,
    /// Sending, with a client that must take it.
    Sending,
}

impl<I: Io> Connection<I> {
    /// How long it has been in the state it is in.
    pub(crate) fn stalled(&self, now: Instant) -> (Doing, core::time::Duration) {
        (self.doing.get(), now.since(self.active_at.get()))
    }

    /// Ends the connection, also from outside its tasks. Replies under way are dropped.
    pub(crate) fn close(&self) {
        self.hung_up.set(true);
        self.hanging_up.notify();
        self.replies.close();
        self.closer.close();
    }

    /// Resolves when nobody is there any more to take replies.
    async fn hung_up(&self) {
        loop {
            let hanging_up = self.hanging_up.wait();
            if self.hung_up.get() {
                return;
            }
            hanging_up.await;
        }
    }

    /// Lets what is under way be answered, then ends the connection.
    pub(crate) fn finish(&self) {
        self.replies.close();
        if self.replies.in_flight() == 0 {
            self.closer.close();
        }
    }

    /// Reads no request before `until`.
    pub(crate) fn mute(&self, until: Instant) {
        self.muted_until.set(self.muted_until.get().max(until));
    }

    fn now_doing(&self, doing: Doing, now: Instant) {
        self.doing.set(doing);
        self.active_at.set(now);
    }
}

/// Serves a connection until it ends. Resolves when both its tasks have.
pub(crate) async fn serve<I: Io>(shard: Rc<Shard<I>>, stream: I::Stream) {
    let (peer, reached) = (stream.peer_address(), stream.local_address().ip());
    let (reader, writer) = stream.split();
    let connection = Rc::new(Connection {
        peer,
        reached,
        principal: Principal::anonymous(),
        replies: ReplyQueue::new(shard.limits().requests_in_flight),
        closer: reader.closer(),
        active_at: Cell::new(shard.io().now()),
        doing: Cell::new(Doing::Idle),
        hung_up: Cell::new(false),
        hanging_up: Signal::new(),
        muted_until: Cell::new(Instant::ZERO),
    });
    let _listed = shard.connections().list(&connection);
    let writing = shard.io().spawn(write_replies(Rc::clone(&shard), Rc::clone(&connection), writer));
    read_requests(&shard, &connection, reader).await;
    connection.replies.close();
    writing.join().await;
    connection.closer.close();
}

/// Reads requests and runs their first stage until the connection ends.
async fn read_requests<I: Io>(
    shard: &Rc<Shard<I>>,
    connection: &Rc<Connection<I>>,
    reader: <I::Stream as Stream>::Reader,
) {
    let limits = shard.limits();
    let limit = usize::try_from(limits.frame_bytes).unwrap_or(usize::MAX);
    let mut frames = FrameReader::new(reader, limit, shard.request_memory().clone());
    while connection.replies.has_room().await {
        wait_while_muted(shard, connection).await;
        let doing = if frames.is_within_frame() { Doing::Receiving } else { Doing::Idle };
        connection.now_doing(doing, shard.io().now());
        let frame = match frames.next().await {
            Ok(Some(frame)) => frame,
            // A client that is gone takes no replies: a long poll must not outlive it.
            Ok(None) | Err(FrameReadError::Receive(_)) => return connection.close(),
            Err(error @ (FrameReadError::Frame(_) | FrameReadError::CutShort)) => {
                shard.notice(Notice::BadRequest, |held_back| {
                    tracing::warn!(peer = %connection.peer, %error, held_back, "closing a connection");
                });
                return;
            }
        };
        connection.now_doing(Doing::Working, shard.io().now());
        let reply = dispatch::start(shard, connection, frame).await;
        connection.replies.push(reply);
    }
}

async fn wait_while_muted<I: Io>(shard: &Rc<Shard<I>>, connection: &Connection<I>) {
    let pause = connection.muted_until.get().since(shard.io().now());
    if !pause.is_zero() {
        shard.io().sleep(pause).await;
    }
}

/// Drives the replies in order and sends them until the queue is closed and empty, or the connection fails.
async fn write_replies<I: Io>(
    shard: Rc<Shard<I>>,
    connection: Rc<Connection<I>>,
    mut writer: <I::Stream as Stream>::Writer,
) {
    let mut next = connection.replies.next().await;
    while let Some(reply) = next.take() {
        let mut sending = Batch { replies: Vec::new(), bytes: 0, count: 0 };
        let Ok(response) = first(reply, connection.hung_up()).await else { break };
        let mut closing = sending.add(response);
        while closing.is_none() && sending.bytes < SEND_BYTES {
            let Some(mut waiting) = connection.replies.try_next() else { break };
            match poll_now(&mut waiting).await {
                Some(ready) => closing = sending.add(ready),
                None => {
                    next = Some(waiting);
                    break;
                }
            }
        }
        let count = sending.count;
        connection.now_doing(Doing::Sending, shard.io().now());
        let sent = sending.send(&mut writer).await;
        connection.now_doing(Doing::Idle, shard.io().now());
        connection.replies.sent(count);
        if let Some(reason) = closing {
            report(&shard, &connection, &reason);
            break;
        }
        if sent.is_err() {
            break;
        }
        if next.is_none() {
            next = connection.replies.next().await;
        }
    }
    connection.close();
}

fn report<I: Io>(shard: &Shard<I>, connection: &Connection<I>, reason: &CloseReason) {
    shard.notice(Notice::BadRequest, |held_back| {
        tracing::warn!(peer = %connection.peer, %reason, held_back, "closing a connection");
    });
}

/// Polls `reply` once.
async fn poll_now<I: Io>(reply: &mut PendingReply<I>) -> Option<Response<I>> {
    poll_fn(|context| match reply.as_mut().poll(context) {
        Poll::Ready(response) => Poll::Ready(Some(response)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Replies that leave together.
struct Batch<I: Io> {
    replies: Vec<Reply<I>>,
    /// Bytes of them that are in memory.
    bytes: usize,
    /// Requests answered by them, those without a reply included.
    count: usize,
}

impl<I: Io> Batch<I> {
    /// Adds a response; `Some` where the connection must be closed after what is here.
    fn add(&mut self, response: Response<I>) -> Option<CloseReason> {
        self.count += 1;
        match response {
            Response::Reply(reply) => {
                self.bytes += reply.pieces.iter().map(ReplyPiece::memory_bytes).sum::<usize>();
                self.replies.push(reply);
                None
            }
            Response::Nothing => None,
            Response::Close(reason) => Some(reason),
        }
    }

    async fn send(self, writer: &mut <I::Stream as Stream>::Writer) -> std::io::Result<()> {
        let mut held = Vec::new();
        let mut memory: Vec<SendPiece<I>> = Vec::new();
        for reply in self.replies {
            held.push(reply.held);
            for piece in reply.pieces {
                match piece {
                    ReplyPiece::Memory(piece) => memory.push(piece),
                    ReplyPiece::File { file, position, bytes } => {
                        writer.send(core::mem::take(&mut memory)).await?;
                        writer.send_file(&file, position, bytes).await?;
                    }
                }
            }
        }
        if !memory.is_empty() {
            writer.send(memory).await?;
        }
        drop(held);
        Ok(())
    }
}

impl<I: Io> ReplyPiece<I> {
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory(piece) => piece.as_slice().len(),
            Self::File { .. } => 0,
        }
    }
}
