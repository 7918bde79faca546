//! A client's connection.

use core::marker::PhantomData;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;

use engine_io::{Io, SendPiece, Stream, StreamReader, StreamWriter, deadline};
use engine_record::Instant;
use futures_lite::future::zip;
use net_wire::frame::SIZE_BYTES;
use net_wire::{Message, Reader, Request, RequestHeader, Writer, decode_response_header, encode_request};
use sim::{SimIo, SimReader, SimWriter};

/// No answer takes longer than this.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to a shard.
pub(crate) struct Client {
    io: SimIo,
    reader: SimReader,
    writer: SimWriter,
    next_correlation_id: i32,
}

/// The answer to a request of type `Q`.
pub(crate) struct Answer<Q> {
    version: i16,
    frame: Vec<u8>,
    request: PhantomData<Q>,
}

impl Client {
    pub(crate) async fn connect(io: &SimIo, address: SocketAddr) -> io::Result<Self> {
        let (reader, writer) = io.connect(address).await?.split();
        Ok(Self { io: io.clone(), reader, writer, next_correlation_id: 1 })
    }

    /// The client's clock.
    pub(crate) fn now(&self) -> Instant {
        self.io.now()
    }

    /// A request's frame. Correlation ids count up from frame to frame.
    pub(crate) fn frame<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) -> Vec<u8> {
        let header = RequestHeader {
            api: Q::API,
            version,
            correlation_id: self.next_correlation_id,
            client_id: Some("test"),
        };
        self.next_correlation_id += 1;
        let mut frame = Vec::new();
        encode_request(&mut frame, &header, request).expect("tests build requests of the version they name");
        frame
    }

    /// The frame of an API and version that the codec may not know, with any body.
    pub(crate) fn odd_frame(&mut self, api: i16, version: i16, body: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        let mut writer = Writer::new(&mut content);
        writer.i16(api);
        writer.i16(version);
        writer.i32(self.next_correlation_id);
        writer.nullable_string(Some("test")).unwrap();
        self.next_correlation_id += 1;
        content.extend_from_slice(body);
        let size = i32::try_from(content.len()).unwrap();
        [size.to_be_bytes().to_vec(), content].concat()
    }

    /// Sends bytes as they are.
    pub(crate) async fn send_bytes(&mut self, bytes: Vec<u8>) {
        // A server that has closed the connection is noticed where its answer is missed.
        let _closed = self.writer.send(vec![SendPiece::Owned(bytes)]).await;
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn send<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) {
        let frame = self.frame(version, request);
        self.send_bytes(frame).await;
    }

    /// The next frame's content; `None` where the server has closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let until = self.io.now().after(PATIENCE);
        let io = self.io.clone();
        let received = deadline(&io, until, receive_frame(&mut self.reader)).await;
        received.unwrap_or_else(|| panic!("neither an answer nor an end within {PATIENCE:?}"))
    }

    /// Receives the answer to the oldest request that has none.
    pub(crate) async fn answer<Q>(&mut self, version: i16) -> Answer<Q> {
        self.try_answer(version).await.expect("an answer, not the connection's end")
    }

    /// Receives the answer to the oldest request that has none, or sees the connection's end.
    pub(crate) async fn try_answer<Q>(&mut self, version: i16) -> Option<Answer<Q>> {
        let frame = self.receive().await?;
        Some(Answer { version, frame, request: PhantomData })
    }

    /// Sends requests while it receives their answers, from `late` on.
    pub(crate) async fn answers_while_sending<Q>(
        &mut self,
        version: i16,
        requests: Vec<Vec<u8>>,
        late: Duration,
    ) -> Vec<Answer<Q>> {
        let count = requests.len();
        let Self { io, reader, writer, .. } = self;
        let sending = writer.send(requests.into_iter().map(SendPiece::Owned).collect());
        let receiving = async {
            io.sleep(late).await;
            let mut answers = Vec::new();
            while answers.len() < count {
                let frame = receive_frame(reader).await.expect("an answer, not the connection's end");
                answers.push(Answer { version, frame, request: PhantomData });
            }
            answers
        };
        let until = io.now().after(PATIENCE);
        let (sent, answers) = deadline(&*io, until, zip(sending, receiving)).await.expect("answers in time");
        sent.expect("the server receives all requests");
        answers
    }

    /// Asks and waits for the answer, which must be this request's.
    pub(crate) async fn ask<'q, Q: Message<'q> + Request>(&mut self, version: i16, request: &Q) -> Answer<Q> {
        self.send(version, request).await;
        let answer = self.answer(version).await;
        assert_eq!(answer.correlation_id(), self.next_correlation_id - 1, "answers come in order");
        answer
    }

    /// The server closes the connection without another answer.
    pub(crate) async fn is_closed(&mut self) {
        let received = self.receive().await;
        assert!(received.is_none(), "an answer where the connection should end: {received:?}");
    }
}

async fn receive_frame(reader: &mut SimReader) -> Option<Vec<u8>> {
    let (received, size) = reader.receive_exactly(Vec::new(), SIZE_BYTES).await;
    received.ok()?;
    let size = i32::from_be_bytes(size.try_into().expect("4 bytes were asked for"));
    let bytes = usize::try_from(size).expect("a server sends no negative size");
    let (received, content) = reader.receive_exactly(Vec::new(), bytes).await;
    received.ok().map(|()| content)
}

impl<Q: Request> Answer<Q> {
    pub(crate) fn correlation_id(&self) -> i32 {
        Reader::new(&self.frame).i32().expect("an answer begins with its correlation id")
    }

    /// The body, which must be of the version asked for, to its last byte.
    pub(crate) fn body(&self) -> Q::Response<'_> {
        let mut reader = Reader::new(&self.frame);
        let api = <Q::Response<'_> as Message<'_>>::API;
        decode_response_header(&mut reader, api, self.version).unwrap();
        Message::decode(&mut reader, self.version)
            .unwrap_or_else(|error| panic!("the answer is not {api} in version {}: {error}", self.version))
    }
}
