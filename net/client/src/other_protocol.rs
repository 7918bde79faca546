//! Who else may answer at a port, told by the first bytes.

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

impl OtherProtocol {
    /// Whose beginning was taken for the size of an answer.
    pub(crate) fn of(error: &FrameError) -> Option<Self> {
        let FrameError::TooLarge { size, .. } = error else { return None };
        match &u32::try_from(*size).ok()?.to_be_bytes() {
            [0x15 | 0x16, 0x03, ..] => Some(Self::Tls),
            b"HTTP" => Some(Self::Http),
            b"SSH-" => Some(Self::Ssh),
            _ => None,
        }
    }
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
}
