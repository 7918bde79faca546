//! One connection to a broker: requests out in order, answers back in the same order.
//!
//! Requests are *started* without waiting, so whoever starts two of them knows which the broker sees first, and many can
//! be under way. One task writes, one reads. A broker answers in the order it was asked, so the oldest request owns the
//! next answer; anything else ends the connection, because what follows it would have no meaning.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use engine_io::{
    Closer, Io, Reply, ReplySlot, SendPiece, Signal, Stream, StreamReader, StreamWriter, deadline, reply,
};
use engine_record::Instant;
use net_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use net_wire::{
    ApiKey, DecodeError, EncodeError, ErrorCode, FrameError, FrameStep, Message, Reader, RequestHeader,
    VersionRange, decode_response_header, encode_request, next_frame,
};

use crate::other_protocol::OtherProtocol;
use crate::request::RequestFailure;

/// How much is received at once where no large answer is awaited.
const RECEIVE_BYTES: usize = 64 << 10;

/// What a client calls itself in ApiVersions.
const SOFTWARE_NAME: &str = env!("CARGO_PKG_NAME");
const SOFTWARE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What holds for every connection of a client.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// What the client calls itself in every request.
    pub client_id: Rc<str>,
    /// How long connecting and shaking hands may take.
    pub connect_timeout: Duration,
    /// The largest answer accepted, in bytes.
    pub response_bytes_max: usize,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            client_id: "ringlog".into(),
            connect_timeout: Duration::from_secs(10),
            response_bytes_max: 128 << 20,
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket could not be connected.
    #[error("cannot connect: {0}")]
    Socket(#[from] io::Error),
    /// It took too long.
    #[error("no connection in time")]
    TimedOut,
    /// Somebody took the connection and didn't say in time what it can.
    #[error("connected, but no answer in time")]
    Silent,
    /// The connection ended instead of an answer, or what came is none.
    #[error("the connection was closed, or what came back is no answer of a broker")]
    NoAnswer,
    /// Somebody else's protocol came back.
    #[error("{0} is spoken there")]
    Other(OtherProtocol),
    /// The broker's first answer can't be read.
    #[error("the broker's list of versions can't be read: {0}")]
    Versions(#[from] DecodeError),
    /// The broker refuses to say what it can.
    #[error("the broker refuses: {0}")]
    Refused(ErrorCode),
    /// The first request can't be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// There is no version of an API that both ends speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{api}: no version that this client and the broker both know")]
pub struct NoCommonVersion {
    /// The API.
    pub api: ApiKey,
}

/// An answer, with what is needed to read it.
#[derive(Debug)]
pub struct Answer {
    frame: Vec<u8>,
    body: usize,
    api: ApiKey,
    version: i16,
}

impl Answer {
    fn new(frame: Vec<u8>, api: ApiKey, version: i16) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&frame);
        decode_response_header(&mut reader, api, version)?;
        let body = frame.len() - reader.remaining();
        Ok(Self { frame, body, api, version })
    }

    /// Reads the answer, borrowing from it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    ///
    /// # Panics
    /// Where `M` answers another API than was asked.
    pub fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, DecodeError> {
        assert!(M::API == self.api, "an answer is read as what was asked");
        M::decode(&mut self.reader(), self.version)
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(self.frame.get(self.body..).unwrap_or_default())
    }

    pub(crate) const fn version(&self) -> i16 {
        self.version
    }

    /// The whole answer, and where in it the body begins.
    pub(crate) fn into_frame(self) -> (Vec<u8>, usize) {
        (self.frame, self.body)
    }
}

/// A request that was started.
pub(crate) struct Pending {
    reply: Reply<Result<Vec<u8>, RequestFailure>>,
    api: ApiKey,
    version: i16,
    until: Instant,
}

/// Whether a request has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Answer,
    /// None comes: it is over once it is sent.
    Nothing,
}

struct Outgoing<I: Io> {
    pieces: Vec<SendPiece<I>>,
    /// Told once the pieces are sent, where no answer comes.
    on_sent: Option<ReplySlot<Result<Vec<u8>, RequestFailure>>>,
    correlation_id: i32,
}

struct Waiting {
    correlation_id: i32,
    slot: ReplySlot<Result<Vec<u8>, RequestFailure>>,
}

struct State<I: Io> {
    outgoing: VecDeque<Outgoing<I>>,
    waiting: VecDeque<Waiting>,
    next_correlation_id: i32,
    is_closed: bool,
}

struct Shared<I: Io> {
    state: RefCell<State<I>>,
    outgoing: Signal,
    settings: ConnectionSettings,
    /// What was spoken instead of an answer.
    other: Cell<Option<OtherProtocol>>,
}

/// See the module. Dropping it ends the connection; what is under way fails.
pub struct Connection<I: Io> {
    io: I,
    shared: Rc<Shared<I>>,
    closer: <<I::Stream as Stream>::Reader as StreamReader>::Closer,
    versions: RefCell<BTreeMap<ApiKey, VersionRange>>,
    _tasks: [I::Task; 2],
}

/// Opening and closing.
impl<I: Io> Connection<I> {
    /// Connects and asks what the broker speaks.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open(
        io: &I,
        address: SocketAddr,
        settings: ConnectionSettings,
    ) -> Result<Self, ConnectError> {
        let until = io.now().after(settings.connect_timeout);
        let stream = deadline(io, until, io.connect(address)).await.ok_or(ConnectError::TimedOut)??;
        let connection = Self::over(io, stream, settings);
        connection.shake_hands(until).await?;
        Ok(connection)
    }

    fn over(io: &I, stream: I::Stream, settings: ConnectionSettings) -> Self {
        let (reader, writer) = stream.split();
        let closer = reader.closer();
        let state = State {
            outgoing: VecDeque::new(),
            waiting: VecDeque::new(),
            next_correlation_id: 0,
            is_closed: false,
        };
        let shared = Rc::new(Shared {
            state: RefCell::new(state),
            outgoing: Signal::new(),
            settings,
            other: Cell::new(None),
        });
        let reading = read_answers(reader, Rc::clone(&shared));
        let writing = write_requests(writer, Rc::clone(&shared), closer.clone());
        let tasks = [io.spawn(reading), io.spawn(writing)];
        Self { io: io.clone(), shared, closer, versions: RefCell::default(), _tasks: tasks }
    }

    async fn shake_hands(&self, until: Instant) -> Result<(), ConnectError> {
        // An old broker answers a version it doesn't know in version 0, and closes nothing.
        for version in [3, 0] {
            let request = ApiVersionsRequest {
                client_software_name: if version == 0 { "" } else { SOFTWARE_NAME },
                client_software_version: if version == 0 { "" } else { SOFTWARE_VERSION },
            };
            let pending = self.start_message(&request, version, until)?;
            let answer = self.finish(pending).await.map_err(|_| self.unanswered(until))?;
            let error = ErrorCode(answer.reader().i16()?);
            if error == ErrorCode::UNSUPPORTED_VERSION && version != 0 {
                continue;
            }
            if !error.is_none() {
                return Err(ConnectError::Refused(error));
            }
            *self.versions.borrow_mut() = versions(&answer.decode()?);
            return Ok(());
        }
        Err(ConnectError::Refused(ErrorCode::UNSUPPORTED_VERSION))
    }

    /// Why the first request has no answer.
    fn unanswered(&self, until: Instant) -> ConnectError {
        match self.shared.other.get() {
            Some(other) => ConnectError::Other(other),
            None if self.io.now() < until => ConnectError::NoAnswer,
            None => ConnectError::Silent,
        }
    }

    /// Whether nothing can be asked any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.state.borrow().is_closed
    }

    /// Ends the connection. Everything under way fails.
    pub fn close(&self) {
        self.shared.close();
        self.closer.close();
    }
}

impl<I: Io> Drop for Connection<I> {
    fn drop(&mut self) {
        self.close();
    }
}

fn versions(response: &ApiVersionsResponse<'_>) -> BTreeMap<ApiKey, VersionRange> {
    let known = response.api_keys.iter().filter_map(|row| {
        Some((ApiKey::from_code(row.api_key)?, VersionRange { min: row.min_version, max: row.max_version }))
    });
    known.collect()
}

/// Asking.
impl<I: Io> Connection<I> {
    /// The highest version of `api` that both ends speak and that isn't above `at_most`.
    ///
    /// # Errors
    /// [`NoCommonVersion`] where there is none.
    pub fn version(&self, api: ApiKey, at_most: i16) -> Result<i16, NoCommonVersion> {
        let theirs = self.versions.borrow().get(&api).copied().ok_or(NoCommonVersion { api })?;
        let ours = api.versions();
        let highest = ours.max.min(theirs.max).min(at_most);
        if highest >= ours.min.max(theirs.min) { Ok(highest) } else { Err(NoCommonVersion { api }) }
    }

    /// Puts a request on its way behind those started before; `write` makes its frame.
    ///
    /// # Errors
    /// Those of `write`; nothing was sent then.
    pub(crate) fn start(
        &self,
        (api, version): (ApiKey, i16),
        until: Instant,
        expect: Expect,
        write: impl FnOnce(&RequestHeader<'_>) -> Result<Vec<SendPiece<I>>, EncodeError>,
    ) -> Result<Pending, EncodeError> {
        let mut state = self.shared.state.borrow_mut();
        let correlation_id = state.next_correlation_id;
        let client_id = Some(&*self.shared.settings.client_id);
        let pieces = write(&RequestHeader { api, version, correlation_id, client_id })?;
        let (slot, reply) = reply();
        let pending = Pending { reply, api, version, until };
        if state.is_closed {
            slot.answer(Err(RequestFailure::NotSent));
            return Ok(pending);
        }
        state.next_correlation_id = correlation_id.wrapping_add(1);
        let on_sent = match expect {
            Expect::Nothing => Some(slot),
            Expect::Answer => {
                state.waiting.push_back(Waiting { correlation_id, slot });
                None
            }
        };
        state.outgoing.push_back(Outgoing { pieces, on_sent, correlation_id });
        drop(state);
        self.shared.outgoing.notify();
        Ok(pending)
    }

    /// Puts a message on its way.
    ///
    /// # Errors
    /// Where the message can't be written in this version.
    pub(crate) fn start_message<'m, M: Message<'m>>(
        &self,
        message: &M,
        version: i16,
        until: Instant,
    ) -> Result<Pending, EncodeError> {
        self.start((M::API, version), until, Expect::Answer, |header| {
            let mut frame = Vec::new();
            encode_request(&mut frame, header, message)?;
            Ok(vec![SendPiece::Owned(frame)])
        })
    }

    /// Awaits the answer. One that is late or can't be read ends the connection.
    ///
    /// # Errors
    /// [`RequestFailure`] where no answer came.
    pub(crate) async fn finish(&self, pending: Pending) -> Result<Answer, RequestFailure> {
        let Pending { reply, api, version, until } = pending;
        let frame = await_reply(self, reply, until).await?;
        Answer::new(frame, api, version).map_err(|error| {
            tracing::warn!(%api, version, %error, "an answer can't be read");
            self.close();
            RequestFailure::NoAnswer
        })
    }

    /// Awaits that a request without an answer is sent.
    pub(crate) async fn finish_sending(&self, pending: Pending) -> Result<(), RequestFailure> {
        await_reply(self, pending.reply, pending.until).await.map(|_| ())
    }
}

async fn await_reply<I: Io>(
    connection: &Connection<I>,
    reply: Reply<Result<Vec<u8>, RequestFailure>>,
    until: Instant,
) -> Result<Vec<u8>, RequestFailure> {
    match deadline(&connection.io, until, reply.wait()).await {
        Some(Ok(answer)) => answer,
        Some(Err(_closed)) => Err(RequestFailure::NoAnswer),
        None => {
            // Answers come in order: without this one none of the later ones can be had either.
            connection.close();
            Err(RequestFailure::NoAnswer)
        }
    }
}

/// The two tasks.
impl<I: Io> Shared<I> {
    fn close(&self) {
        let (outgoing, waiting) = {
            let mut state = self.state.borrow_mut();
            state.is_closed = true;
            (core::mem::take(&mut state.outgoing), core::mem::take(&mut state.waiting))
        };
        let unsent: Vec<_> = outgoing.iter().map(|outgoing| outgoing.correlation_id).collect();
        for slot in outgoing.into_iter().filter_map(|outgoing| outgoing.on_sent) {
            slot.answer(Err(RequestFailure::NotSent));
        }
        for Waiting { correlation_id, slot } in waiting {
            let is_unsent = unsent.contains(&correlation_id);
            slot.answer(Err(if is_unsent { RequestFailure::NotSent } else { RequestFailure::NoAnswer }));
        }
        self.outgoing.notify();
    }

    /// Hands an answer to the oldest request; `false` where it isn't its.
    fn take_answer(&self, frame: Vec<u8>) -> bool {
        let Some(bytes) = frame.first_chunk() else { return false };
        let correlation_id = i32::from_be_bytes(*bytes);
        let oldest = self.state.borrow_mut().waiting.pop_front();
        match oldest {
            Some(waiting) if waiting.correlation_id == correlation_id => {
                waiting.slot.answer(Ok(frame));
                true
            }
            Some(waiting) => {
                waiting.slot.answer(Err(RequestFailure::NoAnswer));
                false
            }
            None => false,
        }
    }
}

async fn write_requests<I: Io>(
    mut writer: <I::Stream as Stream>::Writer,
    shared: Rc<Shared<I>>,
    closer: impl Closer,
) {
    loop {
        let more = shared.outgoing.wait();
        let (requests, is_closed) = {
            let mut state = shared.state.borrow_mut();
            (core::mem::take(&mut state.outgoing), state.is_closed)
        };
        if is_closed {
            return;
        }
        if requests.is_empty() {
            more.await;
            continue;
        }
        let (mut pieces, mut on_sent) = (Vec::new(), Vec::new());
        for request in requests {
            pieces.extend(request.pieces);
            on_sent.extend(request.on_sent);
        }
        let sent = writer.send(pieces).await;
        for slot in on_sent {
            slot.answer(if sent.is_ok() { Ok(Vec::new()) } else { Err(RequestFailure::NoAnswer) });
        }
        if sent.is_err() {
            shared.close();
            closer.close();
            return;
        }
    }
}

async fn read_answers<I: Io>(mut reader: <I::Stream as Stream>::Reader, shared: Rc<Shared<I>>) {
    let mut buffer = Vec::with_capacity(RECEIVE_BYTES);
    let limit = shared.settings.response_bytes_max;
    loop {
        match take_frames(&mut buffer, limit, &shared) {
            Ok(Step::Receive) => {
                buffer.reserve(RECEIVE_BYTES);
                let (received, back) = reader.receive_some(buffer).await;
                buffer = back;
                if !received.is_ok_and(|bytes| bytes > 0) {
                    break;
                }
            }
            Ok(Step::ReceiveRest { start, lacking }) => {
                let (received, frame) = reader.receive_exactly(start, lacking).await;
                if received.is_err() || !shared.take_answer(frame) {
                    break;
                }
            }
            Ok(Step::End) => break,
            Err(error) => {
                tracing::warn!(%error, "a broker sent what can't be an answer");
                shared.other.set(OtherProtocol::of(&error));
                break;
            }
        }
    }
    shared.close();
    reader.closer().close();
}

/// What to do once the whole frames of a buffer are taken.
enum Step {
    Receive,
    /// A large frame has begun: the rest goes where it stays.
    ReceiveRest {
        start: Vec<u8>,
        lacking: usize,
    },
    End,
}

fn take_frames<I: Io>(buffer: &mut Vec<u8>, limit: usize, shared: &Shared<I>) -> Result<Step, FrameError> {
    let mut from = 0;
    let step = loop {
        let rest = &buffer[from..];
        match next_frame(rest, limit)? {
            FrameStep::Frame(range) => {
                let end = range.end;
                if !shared.take_answer(rest[range].to_vec()) {
                    return Ok(Step::End);
                }
                from += end;
            }
            FrameStep::NeedMore(lacking) if lacking > RECEIVE_BYTES => {
                let begun = &rest[net_wire::frame::SIZE_BYTES..];
                let mut start = Vec::with_capacity(begun.len() + lacking);
                start.extend_from_slice(begun);
                from = buffer.len();
                break Step::ReceiveRest { start, lacking };
            }
            FrameStep::NeedMore(_) => break Step::Receive,
        }
    };
    buffer.drain(..from);
    Ok(step)
}
