use super::super::frame::Header;
use super::*;
use crate::metadata::commands::Command;
use engine_record::TopicId;
use proptest::prelude::*;

const BLOCK_BYTES: usize = 4_096;

fn entry(index: u64, term: u64) -> Entry {
    let mut entry = Entry { index, term, ..Entry::default() };
    entry.set_data(Command::DeleteTopic { id: TopicId([3; 16]) }.encode().into());
    entry
}

fn state(term: u64, vote: u64, commit: u64) -> Record {
    Record::HardState(HardState { term, vote, commit, ..HardState::default() })
}

fn start_of(index: u64, term: u64) -> [Record; 2] {
    let position = LogPosition { index, term };
    [Record::Checkpoint(Checkpoint { snapshot: position, base: position }), state(term, 0, index)]
}

/// A file being written, with the position after each frame.
struct File {
    writer: FrameWriter,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl File {
    fn new() -> Self {
        let mut file = Self { writer: FrameWriter::after(0, 0), bytes: Vec::new(), ends: Vec::new() };
        file.push(0, &start_of(1, 1));
        file
    }

    fn push(&mut self, flushed: u64, records: &[Record]) {
        self.bytes.extend(self.writer.frame(flushed, records).bytes);
        self.ends.push(self.bytes.len());
    }

    /// Frames 2 to `last`, each with one entry, each made when the one before was durable.
    fn filled(last: u64) -> Self {
        let mut file = Self::new();
        for sequence in 2..=last {
            file.push(sequence - 1, &[Record::Entries(vec![entry(sequence, 2)]), state(2, 1, sequence - 1)]);
        }
        file
    }
}

/// The file as it lies on a disk: whole blocks, the last one padded.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut blocks = bytes.to_vec();
    blocks.resize(bytes.len().next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES, 0);
    blocks
}

#[test]
fn a_file_is_read_to_its_last_frame_and_zeros_end_it() {
    let file = File::filled(5);
    let log = recover(&padded(&file.bytes)).unwrap();
    assert_eq!((log.sequence(), log.bytes(), log.is_torn()), (5, file.bytes.len(), false));
    assert_eq!(log.entries, (2..=5).map(|index| entry(index, 2)).collect::<Vec<_>>());
    assert_eq!((log.hard_state.term, log.hard_state.vote, log.hard_state.commit), (2, 1, 4));
    assert_eq!(log.snapshot(), LogPosition { index: 1, term: 1 });
}

#[test]
fn any_prefix_is_the_state_after_its_last_whole_frame() {
    let file = File::filled(5);
    for cut in file.ends[0]..=file.bytes.len() {
        let log = recover(&padded(&file.bytes[..cut])).unwrap();
        let whole = file.ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(log.sequence(), u64::try_from(whole).unwrap(), "cut at {cut}");
        assert_eq!(log.bytes(), file.ends[whole - 1]);
        assert_eq!(log.entries.len(), whole - 1);
    }
}

#[test]
fn a_file_without_its_first_frame_is_refused() {
    let file = File::filled(3);
    assert_eq!(recover(&[]), Err(WalError::NoStart));
    assert_eq!(recover(&[0; BLOCK_BYTES]), Err(WalError::NoStart));
    assert_eq!(recover(&file.bytes[1..]), Err(WalError::NoStart));
    let middle = recover(&file.bytes[file.ends[0]..]);
    assert_eq!(middle, Err(WalError::Contradiction { sequence: 2 }), "a frame that restates nothing");
    let mut damaged = file.bytes;
    damaged[20] ^= 1;
    assert_eq!(recover(&damaged), Err(WalError::NoStart));
}

/// Found by fuzzing: the number after the last one was looked for.
#[test]
fn a_number_after_which_none_can_come_is_refused() {
    let refused = |sequence| Err(WalError::Contradiction { sequence });
    let file = |before: u64, frames: &[&[Record]]| {
        let mut writer = FrameWriter::after(before, 0);
        frames.iter().flat_map(|records| writer.frame(0, records).bytes).collect::<Vec<_>>()
    };
    let start = start_of(1, 1);
    assert_eq!(recover(&file(u64::MAX - 1, &[&start])), refused(u64::MAX));
    assert_eq!(recover(&file(u64::MAX - 2, &[&start, &[state(1, 0, 1)]])), refused(u64::MAX));
    assert_eq!(recover(&file(0, &[&start_of(u64::MAX, 1)])), refused(1));
    let last = Record::Entries(vec![entry(u64::MAX, 1)]);
    assert_eq!(recover(&file(0, &[&start_of(u64::MAX - 1, 1), &[last]])), refused(2));
}

#[test]
fn damage_to_what_was_durable_is_never_cut_away() {
    let file = File::filled(6);
    // Frame 6 says that frame 5 was durable. So damage anywhere in frames 2 to 5 shows.
    for at in file.ends[0]..file.ends[4] {
        let mut damaged = padded(&file.bytes);
        damaged[at] ^= 0x40;
        let whole = file.ends.iter().filter(|end| **end <= at).count();
        let sequence = u64::try_from(whole).unwrap() + 1;
        let expected = WalError::Damaged { sequence, position: file.ends[whole - 1] };
        assert_eq!(recover(&damaged), Err(expected), "byte {at}");
    }
}

#[test]
fn a_block_of_zeros_in_the_middle_is_damage_too() {
    let file = File::filled(200);
    let mut damaged = padded(&file.bytes);
    damaged[BLOCK_BYTES..2 * BLOCK_BYTES].fill(0);
    assert!(matches!(recover(&damaged), Err(WalError::Damaged { .. })));
}

#[test]
fn writes_that_were_under_way_in_a_crash_may_have_landed_in_any_order() {
    // Frames 3 to 6 went out together while frame 2 was the last durable one; frame 4 was lost, the others landed.
    let mut file = File::filled(2);
    for sequence in 3..=6 {
        file.push(2, &[Record::Entries(vec![entry(sequence, 2)]), state(2, 1, 2)]);
    }
    file.bytes[file.ends[2]..file.ends[3]].fill(0);
    let log = recover(&padded(&file.bytes)).unwrap();
    assert_eq!((log.sequence(), log.bytes()), (3, file.ends[2]));
    assert!(log.is_torn());
}

#[test]
fn residue_of_an_earlier_crash_is_never_taken_for_a_continuation() {
    // The first life wrote frames 3 and 4 together, and frame 3 was lost. The second one wrote a frame 3 of its own over it,
    // of the same size, so that the first life's frame 4 follows right behind.
    let mut first = File::filled(2);
    for sequence in 3..=4 {
        first.push(2, &[Record::Entries(vec![entry(sequence, 2)]), state(2, 1, 2)]);
    }
    let log = recover(&first.bytes[..first.ends[1]]).unwrap();
    let other = log.writer().frame(2, &[Record::Entries(vec![entry(3, 5)]), state(5, 1, 2)]);
    let mut bytes = first.bytes.clone();
    bytes[first.ends[1]..first.ends[2]].copy_from_slice(&other.bytes);
    let log = recover(&padded(&bytes)).unwrap();
    assert_eq!((log.sequence(), log.is_torn()), (3, true));
    assert_eq!(log.entries, [entry(2, 2), entry(3, 5)]);
}

#[test]
fn a_frame_whose_records_contradict_the_log_is_refused() {
    let contradiction = |records: &[Record]| {
        let mut file = File::filled(4);
        file.push(4, records);
        assert_eq!(recover(&file.bytes), Err(WalError::Contradiction { sequence: 5 }), "{records:?}");
    };
    contradiction(&[Record::Entries(vec![entry(6, 2)])]);
    contradiction(&[Record::Entries(vec![entry(5, 1)])]);
    contradiction(&[Record::Entries(vec![entry(3, 2)])]);
    contradiction(&[Record::Entries(vec![entry(1, 2)])]);
    contradiction(&[Record::Entries(vec![entry(5, 2), entry(7, 2)])]);
    contradiction(&[state(1, 1, 4)]);
    contradiction(&[state(2, 2, 4)]);
    contradiction(&[state(2, 1, 5)]);
    contradiction(&[state(2, 1, 2)]);
    contradiction(&start_of(4, 2));
}

#[test]
fn a_frame_of_a_newer_program_is_named_and_not_skipped() {
    let mut file = File::filled(2);
    let log = recover(&file.bytes).unwrap();
    let (sequence, previous) = (log.sequence() + 1, log.crc);
    file.bytes.extend(Header { sequence, flushed: 2, previous }.frame(&[9, 1, 2]));
    let expected = WalError::Unreadable { sequence: 3, error: DecodeError::Version(9) };
    assert_eq!(recover(&file.bytes), Err(expected));
}

#[test]
fn a_conflicting_suffix_is_replaced_and_stays_gone() {
    let mut file = File::filled(2);
    file.push(2, &[Record::Entries(vec![entry(3, 2), entry(4, 2), entry(5, 2)]), state(2, 1, 2)]);
    file.push(3, &[Record::Entries(vec![entry(4, 3)]), state(3, 0, 2)]);
    let log = recover(&file.bytes).unwrap();
    assert_eq!(log.entries, [entry(2, 2), entry(3, 2), entry(4, 3)]);
}

proptest! {
    #[test]
    fn any_bytes_are_a_log_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..400), whole in 0..4_u64) {
        let mut file = File::filled(whole.max(1)).bytes;
        file.append(&mut bytes);
        drop(recover(&file));
    }

    #[test]
    fn a_crash_keeps_every_flushed_frame_and_refuses_nothing_it_left_behind(
        batches in prop::collection::vec((1..4_u64, any::<bool>()), 1..12),
        kept in prop::collection::vec(any::<bool>(), 64),
    ) {
        // Each batch is written at once; after some of them a flush. Of the blocks written since, a crash keeps any.
        let mut file = File::new();
        let (mut flushed, mut flushed_bytes) = (1, file.bytes.len());
        for (frames, flush) in batches {
            for _ in 0..frames {
                let sequence = file.writer.sequence() + 1;
                file.push(flushed, &[Record::Entries(vec![entry(sequence, 2)]), state(2, 1, 1)]);
            }
            if flush {
                (flushed, flushed_bytes) = (file.writer.sequence(), file.bytes.len());
            }
        }
        let sector = 64;
        let mut disk = padded(&file.bytes[..flushed_bytes]);
        disk.resize(padded(&file.bytes).len(), 0);
        for (at, keep) in (flushed_bytes..file.bytes.len()).step_by(sector).zip(kept.iter().cycle()) {
            let end = (at + sector).min(file.bytes.len());
            if *keep {
                disk[at..end].copy_from_slice(&file.bytes[at..end]);
            }
        }
        let log = recover(&disk).unwrap();
        prop_assert!(log.sequence() >= flushed);
        prop_assert_eq!(log.bytes(), file.ends[usize::try_from(log.sequence()).unwrap() - 1]);
    }
}
