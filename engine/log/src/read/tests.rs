use engine_record::{CorruptBatch, Timestamp};

use super::*;
use crate::testing::{Disk, Sent, at, config, offset, segment_id};

/// Three batches of 10 offsets, and their bytes; batch `i` ends at byte `(i + 1) * len / 3`.
fn three() -> (Vec<u8>, u32) {
    let disk = Disk::with_batches(&[10, 10, 10]);
    let bytes = disk.files[&segment_id(0)].clone();
    let each = u32::try_from(bytes.len() / 3).unwrap();
    (bytes, each)
}

fn request(want: i64, upper: i64, max_bytes: u32, end_position: u32) -> ScanRequest {
    ScanRequest { want: offset(want), upper: offset(upper), max_bytes, at_least_one: false, end_position }
}

fn found(begin: BatchPosition, end: BatchPosition) -> ScanStep {
    ScanStep::Found(BatchRange { begin, end })
}

#[test]
fn a_read_begins_with_the_batch_that_holds_the_offset_and_ends_before_the_bound() {
    let (bytes, each) = three();
    let step = |want, upper| scan(&bytes, at(0, 0), &request(want, upper, u32::MAX, 3 * each));
    assert_eq!(step(0, 30), found(at(0, 0), at(30, 3 * each)));
    assert_eq!(step(15, 30), found(at(10, each), at(30, 3 * each)));
    assert_eq!(step(15, 20), found(at(10, each), at(20, 2 * each)));
    assert_eq!(step(15, 19), ScanStep::Empty, "a batch that reaches over the bound isn't cut");
    assert_eq!(step(30, 30), ScanStep::Empty);
}

#[test]
fn a_read_is_at_most_as_long_as_asked_but_for_a_first_batch() {
    let (bytes, each) = three();
    let step = |max_bytes, at_least_one| {
        scan(&bytes, at(0, 0), &ScanRequest { at_least_one, ..request(5, 30, max_bytes, 3 * each) })
    };
    assert_eq!(step(2 * each, false), found(at(0, 0), at(20, 2 * each)));
    assert_eq!(step(2 * each - 1, false), found(at(0, 0), at(10, each)));
    assert_eq!(step(each - 1, false), ScanStep::Empty);
    assert_eq!(step(each - 1, true), found(at(0, 0), at(10, each)));
    assert_eq!(step(0, true), found(at(0, 0), at(10, each)));
}

#[test]
fn a_scan_looks_at_headers_only_and_at_no_more_than_it_must() {
    let (bytes, each) = three();
    let header_of_second = each as usize + engine_record::BATCH_HEADER_BYTES;
    let all = request(0, 30, u32::MAX, 3 * each);
    let second = request(0, 20, u32::MAX, 3 * each);
    assert_eq!(scan(&bytes[..header_of_second], at(0, 0), &second), found(at(0, 0), at(20, 2 * each)));
    let so_far = Some(BatchRange { begin: at(0, 0), end: at(20, 2 * each) });
    let more = ScanStep::NeedMore { so_far, next: at(20, 2 * each) };
    assert_eq!(scan(&bytes[..header_of_second], at(0, 0), &all), more);
    let so_far = Some(BatchRange { begin: at(0, 0), end: at(10, each) });
    let more = ScanStep::NeedMore { so_far, next: at(10, each) };
    assert_eq!(scan(&bytes[..header_of_second - 1], at(0, 0), &all), more);
    assert_eq!(scan(&[], at(0, 0), &all), ScanStep::NeedMore { so_far: None, next: at(0, 0) });
}

#[test]
fn a_scan_goes_on_where_the_window_ended() {
    let (bytes, each) = three();
    let wanted = request(25, 30, u32::MAX, 3 * each);
    let ScanStep::NeedMore { so_far: None, next } = scan(&bytes[..100], at(0, 0), &wanted) else { panic!() };
    let ScanStep::NeedMore { so_far: None, next } =
        scan(&bytes[next.position as usize..][..100], next, &wanted)
    else {
        panic!()
    };
    let step = scan(&bytes[next.position as usize..], next, &wanted);
    assert_eq!(step, found(at(20, 2 * each), at(30, 3 * each)));
}

#[test]
fn what_is_not_the_next_batch_is_never_answered() {
    let (bytes, each) = three();
    let broken = |bytes: &[u8], end_position| {
        let step = scan(bytes, at(0, 0), &request(0, 30, u32::MAX, end_position));
        let ScanStep::Broken { at, cause } = step else { panic!("{step:?}") };
        (at, cause)
    };
    let mut shifted = bytes.clone();
    shifted[each as usize + 7] += 1;
    let cause = BrokenChain::BaseOffset { expected: offset(10), found: 11 };
    assert_eq!(broken(&shifted, 3 * each), (at(10, each), cause));
    let mut zeroed = bytes.clone();
    zeroed[each as usize..].fill(0);
    assert_eq!(broken(&zeroed, 3 * each), (at(10, each), CorruptBatch::Magic(0).into()));
    let cut = 3 * each - 1;
    assert_eq!(broken(&bytes, cut), (at(20, 2 * each), BrokenChain::PastEnd { end_position: cut }));
    let cut = 2 * each + 10;
    assert_eq!(broken(&bytes, cut), (at(20, 2 * each), BrokenChain::PastEnd { end_position: cut }));
}

#[test]
fn a_segment_that_ends_inside_a_header_asks_for_no_more_bytes() {
    let (bytes, each) = three();
    let end_position = each + 10;
    let step = scan(&bytes[..end_position as usize], at(0, 0), &request(0, 30, u32::MAX, end_position));
    assert_eq!(step, ScanStep::Broken { at: at(10, each), cause: BrokenChain::PastEnd { end_position } });
}

#[test]
fn a_reader_at_the_end_gets_an_empty_plan_and_one_past_it_an_error() {
    let mut disk = Disk::with_batches(&[10, 10]);
    disk.log.advance_high_watermark(offset(10));
    let plan = |from, bound| disk.log.plan_read(offset(from), 100, bound);
    assert!(plan(20, ReadBound::LogEnd).unwrap().is_empty());
    assert!(plan(10, ReadBound::HighWatermark).unwrap().is_empty());
    assert!(plan(15, ReadBound::HighWatermark).unwrap().is_empty(), "appended, but not for clients yet");
    assert!(!plan(15, ReadBound::LogEnd).unwrap().is_empty());
    let refused = ReadError::OutOfRange { offset: offset(21), log_start: offset(0), log_end: offset(20) };
    assert_eq!(plan(21, ReadBound::HighWatermark), Err(refused));
}

#[test]
fn a_plan_says_how_far_the_device_has_the_bytes() {
    let mut disk = Disk::with_batches(&[10, 10]);
    let end = disk.batches[0].end_position;
    disk.log.complete_write(segment_id(0), end);
    let plan = disk.log.plan_read(offset(0), 100, ReadBound::LogEnd).unwrap();
    assert_eq!((plan.written_offset, plan.upper_offset), (offset(10), offset(20)));
}

#[test]
fn the_batch_looked_for_lies_between_the_floor_and_the_next_indexed() {
    let disk = Disk::with_batches(&[1; 20]);
    for batch in &disk.batches {
        let plan = disk.log.plan_read(batch.base, 100, ReadBound::LogEnd).unwrap();
        let begin = batch.end_position - u32::try_from(batch.bytes.len()).unwrap();
        assert!(plan.floor.position <= begin);
        assert!(plan.next_indexed.is_none_or(|next| begin < next.position));
        assert!(begin - plan.floor.position < 300 + 100, "the index is dense enough");
    }
}

#[test]
fn a_read_is_of_one_segment_and_the_next_goes_on_in_the_next() {
    let mut disk = Disk::new(config());
    for _ in 0..3 {
        disk.append(&Sent { value_bytes: 1_200, ..Sent::default() });
    }
    for batch in &disk.batches {
        assert_eq!(disk.read(batch.base.value(), u32::MAX, ReadBound::LogEnd).unwrap(), batch.bytes);
    }
}

#[test]
fn a_time_is_found_where_a_batch_first_is_so_late() {
    let mut disk = Disk::new(config());
    for timestamp in [10, 50, 20, 40, 60] {
        disk.append(&Sent { value_bytes: 600, timestamp, ..Sent::default() });
    }
    let find = |timestamp| disk.log.find_timestamp(Timestamp(timestamp)).unwrap();
    assert_eq!(find(5).unwrap().floor.offset, offset(0));
    assert_eq!(find(50).unwrap().floor.offset, offset(1));
    assert_eq!(find(51).unwrap().floor.offset, offset(4));
    assert_eq!(find(61), None);
    let latest = disk.log.max_timestamp().unwrap().unwrap();
    assert_eq!((latest.timestamp, latest.floor.offset), (Timestamp(60), offset(4)));
}

#[test]
fn of_equal_latest_times_the_first_segment_counts() {
    let mut disk = Disk::new(config());
    for timestamp in [10, 60, 60] {
        disk.append(&Sent { value_bytes: 1_200, timestamp, ..Sent::default() });
    }
    let latest = disk.log.max_timestamp().unwrap().unwrap();
    assert_eq!((latest.timestamp, latest.floor.offset), (Timestamp(60), offset(1)));
}

#[test]
fn a_time_below_the_log_start_does_not_count() {
    let mut disk = Disk::new(config());
    for timestamp in [90, 10, 20] {
        disk.append(&Sent { timestamp, ..Sent::default() });
    }
    disk.show_all();
    disk.log.advance_log_start(offset(1)).unwrap();
    let candidate = disk.log.find_timestamp(Timestamp(20)).unwrap().unwrap();
    assert_eq!(candidate.from, offset(1));
    assert!(candidate.floor.offset <= offset(1));
    assert_eq!(disk.log.find_timestamp_from(Timestamp(20), candidate.end_offset), Ok(None));
}
