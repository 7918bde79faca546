//! One client's connection: requests are read and started in order, replies leave in that order.
//!
//! Two tasks share a connection. The reading task cuts frames and runs each request's first stage, which fixes its
//! order (a produce has its offsets and its bytes are copied). The writing task drives what remains of each request,
//! one after the other, and sends the replies. So a connection may have many requests under way, and a reply that has
//! to wait (a long poll, a flush) holds back only what came after it on the same connection. What has been driven once is
//! driven to its end, also while the client takes what is before it: it may hold what others wait for.

use core::cell::Cell;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use engine_io::{Closer, Io, Signal, Stream, StreamReader, Task, deadline, first};
use engine_record::Instant;

use crate::dispatch;
use crate::driven::Driven;
use crate::forward::Links;
use crate::frame_reader::{FrameReadError, FrameReader, Progress, RequestFrame, Unfinished};
use crate::hooks::Principal;
use crate::lookups::TimeHad;
use crate::notices::Notice;
use crate::reply_memory::ConnectionOutcomes;
use crate::reply_queue::ReplyQueue;
use crate::request_memory::ConnectionMemory;
use crate::response::CloseReason;
use crate::sending::Sending;
use crate::shard::Shard;

type CloserOf<I> = <<<I as Io>::Stream as Stream>::Reader as StreamReader>::Closer;

/// What is known of a connection, shared by its tasks and the shard.
pub(crate) struct Connection<I: Io> {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The address the client reached.
    pub(crate) reached: IpAddr,
    /// The listener it came by: a place among those of the configuration.
    pub(crate) listener: usize,
    /// Who the client is.
    pub(crate) principal: Principal,
    replies: ReplyQueue<I>,
    /// `None` where another shard has the socket, and forwards what is this shard's ([`crate::forward`]).
    closer: Option<CloserOf<I>>,
    /// The ways by which what is other shards' goes to them.
    links: Links,
    /// The request that is being received, where it is a large one.
    unfinished: Rc<Unfinished>,
    request_memory: ConnectionMemory,
    outcomes: ConnectionOutcomes,
    lookups: TimeHad,
    reading: Activity,
    writing: Activity,
    /// Nobody is there any more to take replies.
    hung_up: Cell<bool>,
    hanging_up: Signal,
    /// No request is read before this moment: the client is held back.
    muted_until: Cell<Instant>,
}

/// What one of a connection's tasks waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing of the client: its next request may come whenever it likes.
    Resting,
    /// Bytes of the client: the rest of a frame, or that it takes what is sent.
    Transferring,
    /// The server's own work.
    Working,
}

/// What one of a connection's tasks does, and since when. The tasks don't share one: a client that takes no replies
/// would hide behind the requests it sends.
struct Activity {
    doing: Cell<Doing>,
    since: Cell<Instant>,
    /// When bytes passed last, or what it does began.
    moved_at: Cell<Instant>,
}

impl Activity {
    fn new(doing: Doing, now: Instant) -> Self {
        Self { doing: Cell::new(doing), since: Cell::new(now), moved_at: Cell::new(now) }
    }

    fn now_does(&self, doing: Doing, now: Instant) {
        self.doing.set(doing);
        self.since.set(now);
        self.moved_at.set(now);
    }

    fn has_done(&self, doing: Doing, now: Instant) -> Option<Duration> {
        (self.doing.get() == doing).then(|| now.since(self.since.get()))
    }
}

/// Who is at the other end of a connection, and how it came there.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) reached: IpAddr,
    pub(crate) listener: usize,
    pub(crate) principal: Principal,
}

impl<I: Io> Connection<I> {
    fn new(shard: &Shard<I>, client: Client, closer: Option<CloserOf<I>>) -> Self {
        // What is forwarded comes when it comes: it is for who has the socket to say that nothing does.
        let reading = if closer.is_some() { Doing::Resting } else { Doing::Working };
        let Client { peer, reached, listener, principal } = client;
        Self {
            peer,
            reached,
            listener,
            principal,
            replies: ReplyQueue::new(shard.limits().requests_in_flight),
            closer,
            links: Links::default(),
            unfinished: Rc::new(Unfinished::none()),
            request_memory: shard.request_memory().of_connection(frame_limit(shard)),
            outcomes: ConnectionOutcomes::new(),
            lookups: TimeHad::default(),
            reading: Activity::new(reading, shard.io().now()),
            writing: Activity::new(Doing::Resting, shard.io().now()),
            hung_up: Cell::new(false),
            hanging_up: Signal::new(),
            muted_until: Cell::new(Instant::ZERO),
        }
    }

    /// A client whose socket another shard has.
    pub(crate) fn forwarded(shard: &Shard<I>, client: Client) -> Self {
        Self::new(shard, client, None)
    }

    /// Who the client is, for another shard.
    pub(crate) fn client(&self) -> Client {
        let Self { peer, reached, listener, .. } = *self;
        Client { peer, reached, listener, principal: self.principal.clone() }
    }

    /// How long the client has kept the server in the middle of a frame or a reply.
    pub(crate) fn transferring(&self, now: Instant) -> Option<Duration> {
        let longest = [&self.reading, &self.writing].map(|task| task.has_done(Doing::Transferring, now));
        longest.into_iter().max().flatten()
    }

    /// How long the client has taken nothing of a reply that is being sent.
    pub(crate) fn stuck(&self, now: Instant) -> Option<Duration> {
        let is_sending = self.writing.doing.get() == Doing::Transferring;
        is_sending.then(|| now.since(self.writing.moved_at.get()))
    }

    /// How far the request is that is being received, where it is a large one.
    pub(crate) fn unfinished(&self) -> Option<Progress> {
        self.unfinished.progress()
    }

    /// How long the client has asked for nothing and nothing was under way for it.
    pub(crate) fn idle(&self, now: Instant) -> Option<Duration> {
        let silent = self.reading.has_done(Doing::Resting, now)?;
        let quiet = self.writing.has_done(Doing::Resting, now)?;
        (self.replies.in_flight() == 0).then_some(silent.min(quiet))
    }

    /// Ends the connection, also from outside its tasks. Replies under way are dropped.
    pub(crate) fn close(&self) {
        self.hung_up.set(true);
        self.hanging_up.notify();
        self.unfinished.give_up();
        self.replies.close();
        // At once, not when the connection ends: its reading task may be waiting for the memory they hold.
        self.replies.abandon();
        self.links.close();
        self.close_socket();
    }

    fn close_socket(&self) {
        if let Some(closer) = &self.closer {
            closer.close();
        }
    }

    /// Whether another shard has the client's socket.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.closer.is_none()
    }

    /// Its ways to other shards.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// The replies to what was forwarded, for who answers it.
    pub(crate) fn forwarded_replies(&self) -> &ReplyQueue<I> {
        &self.replies
    }

    /// Resolves when nobody is there any more to take replies.
    pub(crate) async fn hung_up(&self) {
        loop {
            let hanging_up = self.hanging_up.wait();
            if self.hung_up.get() {
                return;
            }
            hanging_up.await;
        }
    }

    /// Its memory for what came of its produces.
    pub(crate) fn outcomes(&self) -> &ConnectionOutcomes {
        &self.outcomes
    }

    /// What it has had of the time for lookups.
    pub(crate) fn lookups(&self) -> &TimeHad {
        &self.lookups
    }

    /// Its memory for requests.
    pub(crate) fn request_memory(&self) -> &ConnectionMemory {
        &self.request_memory
    }

    /// What is under way is answered as soon as it can be: others wait for the memory it holds.
    pub(crate) fn hurry(&self) {
        self.replies.hurry();
    }

    /// Whether the request being answered is to be answered as soon as it can be.
    pub(crate) fn is_hurried(&self) -> bool {
        self.replies.is_hurried()
    }

    /// Resolves when it is.
    pub(crate) async fn hurried(&self) {
        self.replies.hurried().await;
    }

    /// Reads no request any more: one that was begun can't be answered, so none behind it will be. What came before is.
    pub(crate) fn reads_no_more(&self) {
        self.replies.close();
    }

    /// Lets what has begun be answered, then ends the connection.
    pub(crate) fn finish(&self) {
        self.replies.close();
        if self.replies.in_flight() == 0 {
            self.close_socket();
        }
    }

    /// Reads no request before `until`.
    pub(crate) fn mute(&self, until: Instant) {
        self.muted_until.set(self.muted_until.get().max(until));
    }
}

/// Serves a connection until it ends that came by a listener. Resolves when both its tasks have.
pub(crate) async fn serve<I: Io>(shard: Rc<Shard<I>>, listener: usize, stream: I::Stream) {
    let client = Client {
        peer: stream.peer_address(),
        reached: stream.local_address().ip(),
        listener,
        principal: Principal::anonymous(),
    };
    let (reader, writer) = stream.split();
    let connection = Rc::new(Connection::new(&shard, client, Some(reader.closer())));
    let _listed = shard.connections().list(&connection);
    let _abandoned = AbandonReplies(&connection);
    let writing = shard.io().spawn(write_replies(Rc::clone(&shard), Rc::clone(&connection), writer));
    read_requests(&shard, &connection, reader).await;
    connection.replies.close();
    // Nobody reads any more, so nobody would notice that the client is gone: what is under way gets no longer than in
    // a shutdown.
    if deadline(shard.io(), shard.io().now().after(shard.limits().drain), writing.join()).await.is_none() {
        connection.close();
    }
    connection.links.close();
    connection.close_socket();
}

/// Drops what is left of a connection's replies when it ends, also where its task is dropped.
struct AbandonReplies<'a, I: Io>(&'a Connection<I>);

impl<I: Io> Drop for AbandonReplies<'_, I> {
    fn drop(&mut self) {
        self.0.replies.abandon();
    }
}

fn frame_limit<I: Io>(shard: &Shard<I>) -> usize {
    usize::try_from(shard.limits().frame_bytes).unwrap_or(usize::MAX)
}

/// Reads requests and runs their first stage until the connection ends.
async fn read_requests<I: Io>(
    shard: &Rc<Shard<I>>,
    connection: &Rc<Connection<I>>,
    reader: <I::Stream as Stream>::Reader,
) {
    let memory = connection.request_memory.clone();
    let unfinished = Rc::clone(&connection.unfinished);
    let mut frames = FrameReader::new(shard.io().clone(), reader, frame_limit(shard), memory, unfinished);
    while connection.replies.has_room().await {
        wait_while_muted(shard, connection).await;
        let frame = match next_frame(shard, connection, &mut frames).await {
            Ok(Some(frame)) => frame,
            // A client that is gone takes no replies: a long poll must not outlive it.
            Ok(None) | Err(FrameReadError::Receive(_) | FrameReadError::CutShort) => {
                return connection.close();
            }
            Err(error @ (FrameReadError::Frame(_) | FrameReadError::NoMemory(_))) => {
                shard.notice(Notice::BadRequest, |held_back| {
                    tracing::warn!(peer = %connection.peer, %error, held_back, "closing a connection");
                });
                return;
            }
        };
        if !connection.replies.begin() {
            // It came after all that is to be answered: carried out without an answer, it would be repeated elsewhere.
            return;
        }
        connection.reading.now_does(Doing::Working, shard.io().now());
        let reply = dispatch::start(shard, connection, frame).await;
        connection.replies.push(reply);
    }
}

/// The next request's frame. From its first byte on, the client may not take its time any more.
async fn next_frame<I: Io>(
    shard: &Shard<I>,
    connection: &Connection<I>,
    frames: &mut FrameReader<I, <I::Stream as Stream>::Reader>,
) -> Result<Option<RequestFrame>, FrameReadError> {
    if !frames.is_within_frame() {
        connection.reading.now_does(Doing::Resting, shard.io().now());
        if !frames.begin().await? {
            return Ok(None);
        }
    }
    connection.reading.now_does(Doing::Transferring, shard.io().now());
    frames.next().await
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
    let mut next = connection.replies.next().await.map(Driven::new);
    while let Some(reply) = next.take() {
        let mut sending = Sending::new(shard.reply_memory());
        let Ok(response) = first(reply.response(), connection.hung_up()).await else { break };
        let mut closing = sending.add(response);
        while closing.is_none() && !sending.is_full() {
            connection.replies.leaving(sending.count());
            let Some(mut waiting) = connection.replies.try_next().map(Driven::new) else { break };
            match waiting.poll_once().await {
                Some(ready) => closing = sending.add(ready),
                None => {
                    next = Some(waiting);
                    break;
                }
            }
        }
        let count = sending.count();
        connection.replies.leaving(count);
        connection.writing.now_does(Doing::Transferring, shard.io().now());
        // In a place of its own, which an idle connection doesn't have.
        let mut leaving =
            Box::pin(sending.send(&mut writer, || connection.writing.moved_at.set(shard.io().now())));
        let sent = match &mut next {
            Some(waiting) => waiting.drive_during(leaving.as_mut()).await,
            None => leaving.as_mut().await,
        };
        drop(leaving);
        connection.writing.now_does(Doing::Resting, shard.io().now());
        connection.replies.sent(count);
        if let Some(reason) = closing {
            report(&shard, &connection, &reason);
            break;
        }
        if sent.is_err() {
            break;
        }
        if next.is_none() {
            next = connection.replies.next().await.map(Driven::new);
        }
    }
    connection.close();
}

fn report<I: Io>(shard: &Shard<I>, connection: &Connection<I>, reason: &CloseReason) {
    shard.notice(Notice::BadRequest, |held_back| {
        tracing::warn!(peer = %connection.peer, %reason, held_back, "closing a connection");
    });
}
