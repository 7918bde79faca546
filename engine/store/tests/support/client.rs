//! A client that receives what reads give, through a socket where a read gives pieces of files.

use std::net::SocketAddr;

use engine_io::{Io, ListenMode, Listener, Stream, StreamReader, StreamWriter};
use engine_record::Offset;
use engine_store::{Piece, Read, ReadBound, ReadRequest};
use sim::{SimIo, SimNode, SimReader, SimWriter};

use super::SimLog;

/// A connection of a machine to itself.
pub(crate) struct Client {
    writer: SimWriter,
    reader: SimReader,
}

/// How much is sent before it is received, in bytes: less than a socket holds.
const STEP_BYTES: u64 = 8 << 10;

impl Client {
    pub(crate) async fn connect(node: &SimNode) -> Self {
        let io: SimIo = node.io();
        let any_port = SocketAddr::new(node.address(), 0);
        let listener = io.listen(any_port, ListenMode::Exclusive).await.expect("a port is free");
        let near = io.connect(listener.local_address()).await.expect("the listener is there");
        let far = listener.accept().await.expect("a connection came");
        Self { writer: near.split().1, reader: far.split().0 }
    }

    /// The bytes of a read, received.
    pub(crate) async fn receive(&mut self, read: &Read<SimIo>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in &read.pieces {
            match piece {
                Piece::Memory(memory) => bytes.extend(memory.as_slice()),
                Piece::File { file, position, bytes: count } => {
                    let mut sent = 0;
                    while sent < *count {
                        let step = STEP_BYTES.min(count - sent);
                        self.writer.send_file(file, position + sent, step).await.expect("the socket is open");
                        let step_bytes = usize::try_from(step).expect("a step is small");
                        let (result, all) = self.reader.receive_exactly(bytes, step_bytes).await;
                        result.expect("the bytes come");
                        bytes = all;
                        sent += step;
                    }
                }
            }
        }
        assert_eq!(bytes.len(), read.bytes as usize, "a read is as long as it says");
        bytes
    }

    /// Everything from `from` on, by reads of at most `max_bytes`.
    pub(crate) async fn read_all(&mut self, log: &SimLog, from: Offset, max_bytes: u32) -> Vec<u8> {
        let (mut bytes, mut offset) = (Vec::new(), from);
        loop {
            let request = ReadRequest { offset, max_bytes, at_least_one: true, bound: ReadBound::LogEnd };
            let read = log.read(request).await.expect("the log is readable");
            if read.is_empty() {
                assert_eq!(read.next_offset, offset, "an empty read goes nowhere");
                return bytes;
            }
            assert!(read.first_offset <= offset && offset < read.next_offset, "a read gets on");
            bytes.extend(self.receive(&read).await);
            offset = read.next_offset;
        }
    }
}
