//! Fetches of what the broker has in memory beside iperf3.
//!
//! What equals what: one connection over loopback; whoever sends on the one processor (the shard, or iperf3's client)
//! and whoever receives on the other; a fetch of n bytes of records beside a send of n bytes. iperf3 copies what it
//! receives to its memory and has no request to wait for. So the broker is measured with a client that lets the kernel
//! drop the bytes, which shows the broker alone, and with one that copies them, as iperf3 does; and with one fetch
//! under way, as consumers do, and with several, which takes the time for a request's way out of the picture.

use std::path::Path;
use std::time::Duration;

use crate::Arguments;
use crate::broker::{Broker, BytesRead};
use crate::client::Taking;
use crate::error::CompareError;
use crate::iperf;
use crate::load::{Fetches, fetch_newest, make_log};
use crate::processors::{Pinned, Processors};
use crate::report::{Section, per_second, ratio};
use crate::rounds::{Figures, in_turn};

/// Bytes of a fetch and of a send of iperf3's.
const SIZES_BYTES: [usize; 2] = [128 << 10, 1 << 20];
/// Fetches under way, where there are several.
const SEVERAL: usize = 4;
/// Batches produced beforehand: more than the largest fetch takes, less than the memory of a partition holds.
const BATCHES: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Way {
    /// The broker.
    Fetch { under_way: usize, taking: Taking },
    /// iperf3.
    Iperf,
}

const WAYS: [Way; 4] = [
    Way::Fetch { under_way: 1, taking: Taking::Discarded },
    Way::Fetch { under_way: SEVERAL, taking: Taking::Discarded },
    Way::Fetch { under_way: SEVERAL, taking: Taking::Copied },
    Way::Iperf,
];

/// Measures all rows and lays the broker's beside iperf3's.
pub(crate) fn compare(arguments: &Arguments, folder: &Path) -> Result<Section, CompareError> {
    let processors = Processors::choose()?;
    let broker = Broker::start(&arguments.broker, &folder.join("fetch"), processors.server)?;
    let mut log = make_log(&broker, BATCHES, 1)?;
    let before = broker.bytes_read()?;
    let rows: Vec<(usize, Way)> =
        SIZES_BYTES.into_iter().flat_map(|bytes| WAYS.map(|way| (bytes, way))).collect();
    let measured = in_turn(arguments.rounds, &rows, |&(bytes, way)| match way {
        Way::Fetch { under_way, taking } => {
            let _here = Pinned::to(processors.client)?;
            // A partition that nothing is appended to for a minute gives its memory back.
            log.grow(&broker)?;
            let fetches = Fetches { bytes, under_way, taking };
            let time = Duration::from_secs(arguments.seconds.into());
            Ok([fetch_newest(&broker, &log, fetches, time)?.rate()])
        }
        Way::Iperf => Ok([iperf::send(processors, bytes, arguments.seconds)?]),
    })?;
    check_path(before, broker.bytes_read()?)?;
    Ok(section(&measured))
}

/// All must have come from memory.
fn check_path(before: BytesRead, after: BytesRead) -> Result<(), CompareError> {
    let others = after.warm + after.cold - before.warm - before.cold;
    if after.tail > before.tail && others == 0 { Ok(()) } else { Err(CompareError::WrongPath) }
}

fn section(measured: &[[Figures; 1]]) -> Section {
    let lines = SIZES_BYTES.into_iter().zip(measured.chunks(WAYS.len())).map(|(bytes, measured)| {
        let [one, several, copied, iperf] = [0, 1, 2, 3].map(|way| &measured[way][0]);
        let mut line = vec![format!("{} KiB", bytes >> 10)];
        line.extend([one, several, copied, iperf].map(per_second));
        line.extend([one, several, copied].map(|fetch| ratio(fetch, iperf)));
        line
    });
    Section {
        title: "Fetches from memory: the broker beside iperf3 (MB/s)",
        goal: "several under way, discarded / iperf3 >= 0.7",
        header: &[
            "a send",
            "one under way, discarded",
            "4 under way, discarded",
            "4 under way, copied",
            "iperf3",
            "one / iperf3",
            "**4 / iperf3**",
            "4 copied / iperf3",
        ],
        lines: lines.collect(),
    }
}
