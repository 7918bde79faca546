//! What a node of the quorum sends, and the commands in it, are read or refused, never a panic; what is read has no other
//! bytes than these.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replication::metadata::commands::Command;
use replication::metadata::message::PeerMessage;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = PeerMessage::decode(data) {
        assert_eq!(message.encode(), data);
    }
    if let Ok(command) = Command::decode(data) {
        assert_eq!(command.encode(), data);
    }
});
