//! What a checkpoint keeps of a log's epochs and producers is read or refused, never a panic; what is read has no other
//! bytes than these.
#![no_main]

use engine_log::{LeaderEpochs, Producers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((epochs, rest)) = LeaderEpochs::decode(data) {
        let mut again = Vec::new();
        epochs.encode(&mut again);
        assert_eq!(again, data[..data.len() - rest.len()]);
    }
    if let Ok((producers, rest)) = Producers::decode(data) {
        let mut again = Vec::new();
        producers.encode(&mut again);
        assert_eq!(again, data[..data.len() - rest.len()]);
    }
});
