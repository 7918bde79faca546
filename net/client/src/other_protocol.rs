//! Who else may answer at a port, told by the first bytes that come: of themselves, or once greeted in that protocol.

use core::time::Duration;
use std::net::SocketAddr;

use engine_io::{Io, SendPiece, Stream, StreamReader, StreamWriter, deadline};
use net_wire::FrameError;

/// A protocol that is not a broker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherProtocol {
    /// TLS: an alert or a handshake, RFC 8446, 5.1.
    #[error("TLS")]
    Tls,
    /// HTTP/1: a status line, RFC 9112, 4.
    #[error("HTTP")]
    Http,
    /// SSH: its version, RFC 4253, 4.2.
    #[error("SSH")]
    Ssh,
}

/// A handshake that begins, RFC 5246, 7.4.1.2, with suites of TLS 1.2 and 1.3: whoever speaks either answers with a
/// handshake or an alert.
const CLIENT_HELLO: [u8; 58] = [
    0x16, 3, 1, 0, 53, // a record of a handshake: 53 bytes
    1, 0, 0, 49, 3, 3, // a hello of TLS 1.2: 49 bytes
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, // what is random where it matters
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, // the rest of it
    0,  // no session
    0, 10, 0x13, 1, 0x13, 2, 0xC0, 0x2F, 0xC0, 0x2B, 0, 0x2F, // five suites
    1, 0, // no compression
];

/// What is answered by a status line, if only by that of an error.
const GET: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

impl OtherProtocol {
    /// Greets whoever listens at an address in other protocols, one connection each, and tells which is answered. `None`
    /// where none is within `patience` each.
    pub async fn ask<I: Io>(io: &I, address: SocketAddr, patience: Duration) -> Option<Self> {
        for greeting in [&CLIENT_HELLO[..], GET] {
            let begun = deadline(io, io.now().after(patience), greet(io, address, greeting)).await;
            if let Some(known) = begun.flatten().and_then(|begun| Self::by_beginning(&begun)) {
                return Some(known);
            }
        }
        None
    }

    /// Whose beginning was taken for the size of an answer.
    pub(crate) fn of(error: &FrameError) -> Option<Self> {
        let FrameError::TooLarge { size, .. } = error else { return None };
        Self::by_beginning(&u32::try_from(*size).ok()?.to_be_bytes())
    }

    fn by_beginning(bytes: &[u8; 4]) -> Option<Self> {
        match bytes {
            [0x15 | 0x16, 0x03, ..] => Some(Self::Tls),
            b"HTTP" => Some(Self::Http),
            b"SSH-" => Some(Self::Ssh),
            _ => None,
        }
    }
}

/// The first bytes of the answer.
async fn greet<I: Io>(io: &I, address: SocketAddr, greeting: &[u8]) -> Option<[u8; 4]> {
    let (mut reader, mut writer) = io.connect(address).await.ok()?.split();
    writer.send(vec![SendPiece::Owned(greeting.to_vec())]).await.ok()?;
    let (received, begun) = reader.receive_exactly(Vec::new(), 4).await;
    received.ok()?;
    begun.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use net_wire::next_frame;

    use super::*;

    #[test]
    fn others_are_known_by_how_they_begin() {
        let beginning = |bytes: &[u8]| OtherProtocol::of(&next_frame(bytes, 128 << 20).unwrap_err());
        assert_eq!(beginning(b"\x15\x03\x01\x00\x02\x02\x46"), Some(OtherProtocol::Tls));
        assert_eq!(beginning(b"\x16\x03\x03\x00\x7a"), Some(OtherProtocol::Tls));
        assert_eq!(beginning(b"HTTP/1.1 400 Bad Request"), Some(OtherProtocol::Http));
        assert_eq!(beginning(b"SSH-2.0-OpenSSH"), Some(OtherProtocol::Ssh));
        assert_eq!(beginning(b"220 mail"), None);
        assert_eq!(beginning(&[0xff; 4]), None);
    }

    #[test]
    fn the_handshake_has_the_lengths_it_says() {
        let [_, _, _, high, low, _, _, _, hello, rest @ ..] = CLIENT_HELLO;
        assert_eq!(usize::from(u16::from_be_bytes([high, low])), CLIENT_HELLO.len() - 5);
        assert_eq!(usize::from(hello), rest.len());
    }
}
