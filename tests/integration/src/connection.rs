//! One socket to the broker, with nothing of a client library in between.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use net_wire::frame::{self, FrameStep, next_frame};
use net_wire::header::{RequestHeader, decode_response_header};
use net_wire::message::{Message, Request};
use net_wire::{ApiKey, Reader};
use socket2::SockRef;

/// How long a healthy broker may take for any answer.
pub const ANSWER_SECONDS_MAX: u64 = 10;
/// Largest answer read.
const FRAME_BYTES_MAX: usize = 100 << 20;
/// What the connection calls itself.
pub const CLIENT_ID: &str = "integration";

/// A connection. Requests go one at a time, or as raw bytes.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Read and not yet part of a whole frame.
    unread: Vec<u8>,
    next_correlation_id: i32,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The broker closed the connection, which is how it refuses what it can't read.
    #[error("the broker closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("no answer in time")]
    Late,
    /// The socket failed otherwise.
    #[error("the socket failed: {0}")]
    Socket(#[source] io::Error),
    /// What came is no frame.
    #[error("the answer is no frame: {0}")]
    Frame(#[from] frame::FrameError),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock,
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "the kinds of std are not ours, and open")]
        match error.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof => Self::Closed,
            TimedOut | WouldBlock => Self::Late,
            _ => Self::Socket(error),
        }
    }
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Answer {
    api: ApiKey,
    version: i16,
    bytes: Vec<u8>,
}

impl Answer {
    /// Its body.
    ///
    /// # Panics
    /// When the bytes aren't such an answer, or one to another API.
    #[must_use]
    pub fn body<'a, M: Message<'a>>(&'a self) -> M {
        assert_eq!(M::API, self.api, "an answer is read as what was asked for");
        let (api, version) = (self.api, self.version);
        let mut reader = Reader::new(&self.bytes);
        decode_response_header(&mut reader, api, version)
            .and_then(|_| M::decode(&mut reader, version))
            .unwrap_or_else(|error| {
                panic!("the answer to {api} v{version} is wrong: {error}: {:?}", self.bytes)
            })
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// When the broker doesn't accept.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects.
    ///
    /// # Errors
    /// When the broker doesn't accept in time.
    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let wait = Duration::from_secs(ANSWER_SECONDS_MAX);
        let stream = TcpStream::connect_timeout(&address, wait)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(wait))?;
        stream.set_write_timeout(Some(wait))?;
        Ok(Self { stream, unread: Vec::new(), next_correlation_id: 1 })
    }

    /// Asks and waits for the answer.
    ///
    /// # Panics
    /// When there is none, or one to another request.
    pub fn ask<'a, M: Message<'a> + Request>(&mut self, version: i16, request: &M) -> Answer {
        self.try_ask(version, request).unwrap_or_else(|error| panic!("{} v{version}: {error}", M::API))
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// [`NoAnswer`] says why there is none.
    ///
    /// # Panics
    /// When the request can't be encoded, or the answer is one to another request.
    pub fn try_ask<'a, M: Message<'a> + Request>(
        &mut self,
        version: i16,
        request: &M,
    ) -> Result<Answer, NoAnswer> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        self.send(&encode(version, correlation_id, request))?;
        let bytes = self.receive()?;
        let (head, _) = bytes.split_first_chunk::<4>().expect("an answer begins with a correlation id");
        assert_eq!(i32::from_be_bytes(*head), correlation_id, "answers come in the order of the requests");
        Ok(Answer { api: M::API, version, bytes })
    }

    /// Sends these bytes, whatever they are.
    ///
    /// # Errors
    /// When the broker has closed the connection, or takes nothing for too long.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), NoAnswer> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// The next frame, without its size.
    ///
    /// # Errors
    /// [`NoAnswer`] says why there is none.
    pub fn receive(&mut self) -> Result<Vec<u8>, NoAnswer> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let FrameStep::Frame(range) = next_frame(&self.unread, FRAME_BYTES_MAX)? {
                let frame = self.unread[range.clone()].to_vec();
                self.unread.drain(..range.end);
                return Ok(frame);
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(NoAnswer::Closed),
                count => self.unread.extend_from_slice(&chunk[..count]),
            }
        }
    }

    /// Says that nothing more will be sent; answers can still come.
    pub fn finish_sending(&mut self) {
        // Fails only when the broker has closed the connection, and then nothing more is sent either.
        self.stream.shutdown(Shutdown::Write).ok();
    }

    /// Closes with a reset instead of in order, as a client does that dies with unread answers.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn reset(self) {
        SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("a socket may linger for no time");
    }

    /// Where this end is.
    ///
    /// # Panics
    /// When the system doesn't tell.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().expect("a connected socket has an address")
    }
}

/// A whole request frame.
///
/// # Panics
/// When the request says what the version can't.
#[must_use]
pub fn encode<'a, M: Message<'a>>(version: i16, correlation_id: i32, request: &M) -> Vec<u8> {
    let header = RequestHeader { api: M::API, version, correlation_id, client_id: Some(CLIENT_ID) };
    let mut bytes = Vec::new();
    frame::encode_request(&mut bytes, &header, request)
        .unwrap_or_else(|error| panic!("cannot encode {} v{version}: {error}", M::API));
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use net_wire::messages::metadata::{MetadataRequest, MetadataResponse};

    use super::*;

    fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::open(listener.local_addr().unwrap());
        (connection, listener.accept().unwrap().0)
    }

    #[test]
    fn an_answer_in_pieces_is_read_whole() {
        let (mut connection, mut broker) = pair();
        let response = MetadataResponse { controller_id: 1000, ..MetadataResponse::default() };
        let mut bytes = Vec::new();
        frame::encode_response(&mut bytes, 1, 12, &response).unwrap();
        let (first, second) = bytes.split_at(7);
        let (first, second) = (first.to_vec(), second.to_vec());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                broker.write_all(&first).unwrap();
                broker.write_all(&second).unwrap();
            });
            let answer = connection.ask(12, &MetadataRequest::default());
            assert_eq!(answer.body::<MetadataResponse<'_>>(), response);
        });
    }

    #[test]
    fn a_closed_connection_is_told_from_a_silent_one() {
        let (mut connection, broker) = pair();
        drop(broker);
        assert!(matches!(connection.receive(), Err(NoAnswer::Closed)));
        let (mut connection, _broker) = pair();
        connection.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(matches!(connection.receive(), Err(NoAnswer::Late)));
    }
}
