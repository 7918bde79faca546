//! Frames that real clients and brokers sent (`tests/vectors`, recorded by `tests/clients/tap.py`): each is read whole, and
//! written again as the same bytes.

use core::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use super::family::{Family, for_every_message};
use crate::api::ApiKey;
use crate::frame::{FrameStep, next_frame};
use crate::header::{RequestHeader, decode_response_header, encode_response_header};
use crate::message::Message;
use crate::reader::Reader;
use crate::writer::Writer;

/// What real clients write otherwise than the protocol says, and the broker overlooks: client, API, and the end of what the
/// codec says of it. Each is among the recorded frames.
const ODD: &[(&str, ApiKey, &str)] = &[
    // All topics, from version 9 on: null in the old form, four bytes, of which the first alone says it.
    ("confluent", ApiKey::Metadata, "3 bytes follow the end"),
];

/// A recorded frame, and what it is.
struct Vector {
    path: PathBuf,
    frame: Vec<u8>,
    is_request: bool,
    api: ApiKey,
    version: i16,
}

impl Vector {
    /// The frame in this file; what it is stands in the request, its own or the one it answers.
    fn read(path: PathBuf) -> Self {
        let frame = fs::read(&path).unwrap();
        let request = fs::read(path.with_extension("request")).unwrap();
        let header = RequestHeader::decode(&mut Reader::new(content(&request))).unwrap();
        let is_request = path.extension().is_some_and(|extension| extension == "request");
        Self { is_request, api: header.api, version: header.version, frame, path }
    }

    /// Whether this is one that clients are known to write so.
    fn is_odd(&self, error: &str) -> bool {
        let client = self.path.parent().unwrap().file_name().unwrap();
        ODD.iter().any(|(name, api, oddity)| {
            client == *name && self.api == *api && self.is_request && error.ends_with(oddity)
        })
    }

    /// Reads the frame as this message, if it is one, and writes it again.
    fn check<F: Family>((vector, is_checked): (&Self, &Cell<bool>)) {
        let is_this = F::Ours::API == vector.api && F::NAME.ends_with("Request") == vector.is_request;
        if !is_this {
            return;
        }
        let (path, version) = (vector.path.display(), vector.version);
        let mut reader = Reader::new(content(&vector.frame));
        let mut again = Vec::new();
        let mut writer = Writer::new(&mut again);
        if vector.is_request {
            RequestHeader::decode(&mut reader).unwrap().encode(&mut writer).unwrap();
        } else {
            let id = decode_response_header(&mut reader, vector.api, version).unwrap();
            encode_response_header(&mut writer, vector.api, version, id);
        }
        match <F::Ours<'_> as Message<'_>>::decode(&mut reader, version).map_err(|error| error.to_string()) {
            Ok(message) => {
                message.encode(&mut writer, version).unwrap();
                assert_eq!(again, content(&vector.frame), "{path}: {message:?}");
            }
            Err(error) => assert!(vector.is_odd(&error), "{path}: {error}"),
        }
        is_checked.set(true);
    }
}

/// A frame without its size, which must be right.
fn content(frame: &[u8]) -> &[u8] {
    let FrameStep::Frame(range) = next_frame(frame, frame.len()).unwrap() else { panic!("a whole frame") };
    assert_eq!(range.end, frame.len(), "one frame and nothing else");
    &frame[range]
}

fn vectors() -> Vec<Vector> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let paths = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let clients = paths(&root).filter(|path| path.is_dir());
    let mut files: Vec<_> = clients.flat_map(|client| paths(&client).collect::<Vec<_>>()).collect();
    files.sort();
    files.into_iter().map(Vector::read).collect()
}

#[test]
fn what_real_clients_and_brokers_sent_is_read_whole_and_written_as_the_same_bytes() {
    for vector in vectors() {
        let is_checked = Cell::new(false);
        for_every_message!(check((&vector, &is_checked)));
        assert!(is_checked.get(), "{}: no message of ours", vector.path.display());
    }
}

fn check<F: Family>(checked: (&Vector, &Cell<bool>)) {
    Vector::check::<F>(checked);
}

#[test]
fn every_api_is_among_the_recorded_ones() {
    let recorded: Vec<ApiKey> = vectors().iter().map(|vector| vector.api).collect();
    // Clients ask for the end of an epoch only after a leader has changed.
    let missing = |api: &&ApiKey| !recorded.contains(api) && **api != ApiKey::OffsetForLeaderEpoch;
    assert_eq!(ApiKey::ALL.iter().filter(missing).collect::<Vec<_>>(), [] as [&ApiKey; 0]);
}
