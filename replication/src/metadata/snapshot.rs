//! The whole metadata in one file, so that the log before it can go.
//!
//! ```text
//! magic (8) | version (1) | index | term | membership | image (length, bytes) | CRC-32C of all before (4, little endian)
//! ```
//!
//! A snapshot is written to a new file, made durable, and given its name, before any WAL frame speaks of it; and the one
//! before it stays until that frame is durable. So a crash at any moment leaves one consistent pair.

use crate::codec::{DecodeError, Reader, Writer};
use crate::metadata::image::Image;
use crate::metadata::membership::Membership;

const MAGIC: &[u8; 8] = b"RLMETASN";
const VERSION: u8 = 1;
const CRC_BYTES: usize = 4;

/// A place in the metadata log: an index, and the term of the entry there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The index; 0 before the first entry.
    pub index: u64,
    /// The entry's term; 0 before the first entry.
    pub term: u64,
}

/// The metadata as of one place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    position: LogPosition,
    membership: Membership,
    image: Image,
    image_bytes: Vec<u8>,
}

impl Snapshot {
    /// The metadata `image` as of `position`.
    ///
    /// # Panics
    ///
    /// The image is ahead of the position.
    #[must_use]
    pub fn new(position: LogPosition, membership: Membership, image: Image) -> Self {
        assert!(image.applied() <= position.index, "the image is ahead of its snapshot");
        let image_bytes = image.encode();
        Self { position, membership, image, image_bytes }
    }

    /// The last entry that is in it.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Who votes, as of that entry.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The metadata.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The bytes of the snapshot's file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.fixed(MAGIC);
        writer.u8(VERSION);
        writer.number(self.position.index);
        writer.number(self.position.term);
        self.membership.write(&mut writer);
        writer.bytes(&self.image_bytes);
        let mut bytes = writer.into_bytes();
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the bytes of a snapshot's file.
    ///
    /// # Errors
    ///
    /// The bytes are no snapshot of a version that this program knows, or they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let at = bytes.len().checked_sub(CRC_BYTES).ok_or(DecodeError::Truncated)?;
        let (body, crc) = bytes.split_at(at);
        if !body.starts_with(MAGIC) {
            return Err(DecodeError::Magic);
        }
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return Err(DecodeError::Checksum);
        }
        let mut reader = Reader::new(body);
        reader.slice(MAGIC.len())?;
        match reader.u8()? {
            VERSION => {}
            other => return Err(DecodeError::Version(other)),
        }
        let snapshot = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(snapshot)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let position = LogPosition { index: reader.u64()?, term: reader.u64()? };
        let membership = Membership::read(reader)?;
        Self::from_parts(position, membership, reader.bytes()?)
    }

    fn from_parts(
        position: LogPosition,
        membership: Membership,
        image_bytes: &[u8],
    ) -> Result<Self, DecodeError> {
        let image = Image::decode(image_bytes)?;
        if image.applied() > position.index {
            return Err(DecodeError::Inconsistent);
        }
        Ok(Self { position, membership, image, image_bytes: image_bytes.to_vec() })
    }

    pub(crate) fn from_raft(snapshot: &raft::eraftpb::Snapshot) -> Result<Self, DecodeError> {
        let metadata = snapshot.get_metadata();
        let position = LogPosition { index: metadata.index, term: metadata.term };
        let membership = Membership::from_raft(metadata.get_conf_state());
        Self::from_parts(position, membership, snapshot.get_data())
    }

    pub(crate) fn to_raft(&self) -> raft::eraftpb::Snapshot {
        let mut snapshot = raft::eraftpb::Snapshot::default();
        snapshot.set_data(self.image_bytes.clone().into());
        let metadata = snapshot.mut_metadata();
        metadata.index = self.position.index;
        metadata.term = self.position.term;
        metadata.set_conf_state(self.membership.to_raft());
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::commands::Command;
    use crate::metadata::image::ClusterId;
    use engine_record::{NodeId, TopicId};

    fn snapshot() -> Snapshot {
        let mut image = Image::new(ClusterId([4; 16]));
        image.apply(5, &Command::DeleteTopic { id: TopicId([1; 16]) });
        let position = LogPosition { index: 6, term: 2 };
        Snapshot::new(position, Membership::alone(NodeId(1)), image)
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written() {
        let snapshot = snapshot();
        assert_eq!(Snapshot::decode(&snapshot.encode()), Ok(snapshot.clone()));
        assert_eq!(Snapshot::from_raft(&snapshot.to_raft()), Ok(snapshot.clone()));
        assert!(snapshot.membership().names(NodeId(1)) && !snapshot.membership().names(NodeId(2)));
    }

    #[test]
    fn a_snapshot_with_any_bit_changed_or_any_byte_missing_is_refused() {
        let bytes = snapshot().encode();
        for at in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..at]).is_err(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Snapshot::decode(&damaged).is_err(), "changed at {at}");
        }
    }

    #[test]
    #[should_panic(expected = "ahead of its snapshot")]
    fn an_image_ahead_of_the_log_is_no_snapshot() {
        let mut image = Image::new(ClusterId([4; 16]));
        image.apply(7, &Command::DeleteTopic { id: TopicId([1; 16]) });
        drop(Snapshot::new(LogPosition { index: 6, term: 2 }, Membership::alone(NodeId(1)), image));
    }
}
