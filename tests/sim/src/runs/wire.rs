//! A connection in frames of the protocol, on which nothing is waited for without an end.

use core::marker::PhantomData;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;

use engine_io::{Io, SendPiece, Stream, StreamReader, StreamWriter, deadline};
use net_wire::frame::SIZE_BYTES;
use net_wire::{Message, Reader, Request, RequestHeader, decode_response_header, encode_request};
use sim::{SimReader, SimWriter};

use super::history::Event;
use super::setting::Setting;

/// An answer or the connection's end comes within this, long polls and slow disks included.
const PATIENCE: Duration = Duration::from_secs(120);

/// The connection has ended, or is of no use any more. What became of requests under way isn't known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// A connection to a shard.
pub(super) struct Wire {
    setting: Rc<Setting>,
    reader: SimReader,
    writer: SimWriter,
    next_sent: i32,
    next_answered: i32,
}

/// The answer to a request of type `Q`.
pub(super) struct Answer<Q> {
    version: i16,
    frame: Vec<u8>,
    request: PhantomData<Q>,
}

impl Wire {
    pub(super) async fn connect(setting: &Rc<Setting>, address: SocketAddr) -> Result<Self, Lost> {
        let until = setting.io.now().after(PATIENCE);
        let connected = deadline(&setting.io, until, setting.io.connect(address)).await;
        let stream = connected.ok_or(Lost)?.map_err(|_| Lost)?;
        let (reader, writer) = stream.split();
        Ok(Self { setting: Rc::clone(setting), reader, writer, next_sent: 1, next_answered: 1 })
    }

    /// Sends a request.
    pub(super) async fn send<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) -> Result<(), Lost> {
        let header =
            RequestHeader { api: Q::API, version, correlation_id: self.next_sent, client_id: Some("sim") };
        self.next_sent += 1;
        let mut frame = Vec::new();
        encode_request(&mut frame, &header, request)
            .expect("clients build requests of the version they name");
        let until = self.setting.io.now().after(PATIENCE);
        let sending = self.writer.send(vec![SendPiece::Owned(frame)]);
        match deadline(&self.setting.io, until, sending).await {
            Some(sent) => sent.map_err(|_| Lost),
            None => Err(self.silence(Q::API.name())),
        }
    }

    /// Receives the answer to the oldest request that has none.
    pub(super) async fn receive<'q, Q: Message<'q> + Request>(
        &mut self,
        version: i16,
    ) -> Result<Answer<Q>, Lost> {
        let until = self.setting.io.now().after(PATIENCE);
        let io = self.setting.io.clone();
        let Some(received) = deadline(&io, until, self.receive_frame()).await else {
            return Err(self.silence(Q::API.name()));
        };
        let answer = Answer { version, frame: received?, request: PhantomData };
        if let Err(why) = answer.check(self.next_answered) {
            self.setting.history.note(Event::Nonsense { request: Q::API.name(), why });
            return Err(Lost);
        }
        self.next_answered += 1;
        Ok(answer)
    }

    /// Asks and waits for the answer.
    pub(super) async fn ask<'q, Q: Message<'q> + Request>(
        &mut self,
        version: i16,
        request: &Q,
    ) -> Result<Answer<Q>, Lost> {
        self.send(version, request).await?;
        self.receive(version).await
    }

    async fn receive_frame(&mut self) -> Result<Vec<u8>, Lost> {
        let (received, size) = self.reader.receive_exactly(Vec::new(), SIZE_BYTES).await;
        received.map_err(|_| Lost)?;
        let size = i32::from_be_bytes(size.try_into().expect("4 bytes were asked for"));
        let bytes = usize::try_from(size).map_err(|_| Lost)?;
        let (received, content) = self.reader.receive_exactly(Vec::new(), bytes).await;
        received.map_err(|_| Lost)?;
        Ok(content)
    }

    fn silence(&self, request: &'static str) -> Lost {
        self.setting.history.note(Event::Silence { request });
        Lost
    }
}

impl<Q: Request> Answer<Q> {
    /// Whether it is a whole answer to the request with this correlation id.
    fn check(&self, expected: i32) -> Result<(), String> {
        let mut reader = Reader::new(&self.frame);
        let api = <Q::Response<'_> as Message<'_>>::API;
        let id = decode_response_header(&mut reader, api, self.version).map_err(|error| error.to_string())?;
        if id != expected {
            return Err(format!("correlation id {id} where {expected} is next"));
        }
        let body: Result<Q::Response<'_>, _> = Message::decode(&mut reader, self.version);
        body.map(drop).map_err(|error| format!("version {}: {error}", self.version))
    }

    /// The body.
    pub(super) fn body(&self) -> Q::Response<'_> {
        let mut reader = Reader::new(&self.frame);
        let api = <Q::Response<'_> as Message<'_>>::API;
        let header = decode_response_header(&mut reader, api, self.version);
        header.and_then(|_| Message::decode(&mut reader, self.version)).expect("it was checked when it came")
    }
}
