use engine_record::{LeaderEpoch, RecordBatch};
use proptest::prelude::*;

use super::*;
use crate::testing::{Sent, offset, producer};

fn batch(id: i64, epoch: i16, first: i32, count: u32) -> BatchHeader {
    let sent = Sent { count, producer: producer(id, epoch, first), ..Sent::default() };
    *RecordBatch::parse(&sent.bytes()).unwrap().0.header()
}

/// Producers with these batches of producer 1 in the log: (epoch, first sequence, count), offsets in order from 0.
fn with(batches: &[(i16, i32, u32)]) -> Producers {
    let (mut producers, mut base) = (Producers::new(), Offset::ZERO);
    for &(epoch, first, count) in batches {
        let batch = batch(1, epoch, first, count);
        producers.record(&batch, base, Timestamp(7), Timestamp(100));
        base = base.checked_add(u64::from(count)).unwrap();
    }
    producers.check(10, base);
    producers
}

fn out_of_order(expected: i32, found: i32) -> Result<Sequence, AppendError> {
    Err(AppendError::OutOfOrderSequence { producer: ProducerId(1), expected, found })
}

#[test]
fn an_unknown_producer_may_begin_anywhere() {
    assert_eq!(Producers::new().check_sequence(&batch(1, 4, 1_234, 1)), Ok(Sequence::Next));
}

#[test]
fn the_next_sequence_follows_the_last() {
    let producers = with(&[(0, 0, 3)]);
    assert_eq!(producers.check_sequence(&batch(1, 0, 3, 1)), Ok(Sequence::Next));
    assert_eq!(producers.check_sequence(&batch(1, 0, 4, 1)), out_of_order(3, 4));
    assert_eq!(producers.check_sequence(&batch(1, 0, 2, 1)), out_of_order(3, 2));
}

#[test]
fn a_duplicate_is_one_of_the_last_five_with_the_same_ends() {
    let producers = with(&[(0, 0, 1), (0, 1, 2), (0, 3, 1), (0, 4, 1), (0, 5, 1), (0, 6, 1)]);
    let Ok(Sequence::Duplicate(second)) = producers.check_sequence(&batch(1, 0, 1, 2)) else { panic!() };
    assert_eq!((second.base_offset, second.last_offset), (offset(1), offset(2)));
    assert_eq!(producers.check_sequence(&batch(1, 0, 0, 1)), out_of_order(7, 0), "the sixth is forgotten");
    assert_eq!(
        producers.check_sequence(&batch(1, 0, 1, 3)),
        out_of_order(7, 1),
        "other records aren't the same"
    );
}

#[test]
fn a_newer_epoch_begins_at_zero_and_fences_the_older() {
    let producers = with(&[(2, 0, 5)]);
    assert_eq!(producers.check_sequence(&batch(1, 3, 0, 1)), Ok(Sequence::Next));
    assert_eq!(producers.check_sequence(&batch(1, 3, 5, 1)), out_of_order(0, 5));
    let fenced = AppendError::InvalidProducerEpoch {
        producer: ProducerId(1),
        known: ProducerEpoch(2),
        given: ProducerEpoch(1),
    };
    assert_eq!(
        producers.check_sequence(&batch(1, 1, 0, 5)),
        Err(fenced),
        "fenced, also where it looks like a duplicate"
    );
}

#[test]
fn batches_of_an_older_epoch_are_no_duplicates() {
    let producers = with(&[(0, 0, 1), (1, 0, 2)]);
    assert_eq!(producers.check_sequence(&batch(1, 1, 0, 1)), out_of_order(2, 0));
}

#[test]
fn sequences_wrap_to_zero() {
    let producers = with(&[(0, i32::MAX - 1, 2)]);
    assert_eq!(producers.check_sequence(&batch(1, 0, 0, 1)), Ok(Sequence::Next));
    let across = with(&[(0, i32::MAX, 3)]);
    assert_eq!(across.check_sequence(&batch(1, 0, 2, 1)), Ok(Sequence::Next));
    let duplicate = across.check_sequence(&batch(1, 0, i32::MAX, 3));
    assert!(matches!(duplicate, Ok(Sequence::Duplicate(_))));
}

#[test]
fn a_marker_moves_the_epoch_and_is_no_batch() {
    let mut producers = with(&[(0, 0, 3)]);
    let bytes = engine_record::transaction_marker(
        ProducerId(1),
        ProducerEpoch(1),
        engine_record::Marker::Abort,
        0,
        Timestamp(0),
    );
    let marker = *RecordBatch::parse(&bytes.unwrap()).unwrap().0.header();
    producers.record(&marker, offset(3), Timestamp(7), Timestamp(100));
    assert!(matches!(
        producers.check_sequence(&batch(1, 0, 3, 1)),
        Err(AppendError::InvalidProducerEpoch { .. })
    ));
    assert_eq!(producers.check_sequence(&batch(1, 1, 0, 1)), Ok(Sequence::Next));
}

#[test]
fn the_idlest_is_forgotten_first() {
    let mut producers = Producers::new();
    for (id, now) in [(1, 300), (2, 100), (3, 200)] {
        producers.record(&batch(id, 0, 0, 1), offset(id), Timestamp(0), Timestamp(now));
    }
    producers.shrink_to(2);
    let left: Vec<_> = producers.by_id.keys().map(|id| id.0).collect();
    assert_eq!(left, [1, 3]);
}

#[test]
fn a_clock_set_back_makes_nobody_idle() {
    let mut producers = with(&[(0, 0, 1)]);
    producers.record(&batch(1, 0, 1, 1), offset(1), Timestamp(0), Timestamp(-5_000));
    let second = core::time::Duration::from_secs(1);
    assert_eq!(producers.expire(second, Timestamp(1_099)), 0);
    assert_eq!(producers.expire(second, Timestamp(1_100)), 1);
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let mut bytes = Vec::new();
    with(&[(0, 0, 1), (0, 1, 1)]).encode(&mut bytes);
    let refused = |position: usize, value: u8| {
        let mut damaged = bytes.clone();
        damaged[position] = value;
        Producers::decode(&damaged).unwrap_err()
    };
    // Bytes: version 0, count 1-4, id 5-12, epoch 13-14, last append 15-22, batch count 23, batches of 32 from 24.
    assert_eq!(refused(0, 9), ProducersError::Version(9));
    assert_eq!(refused(1, 0xff), ProducersError::Truncated);
    assert_eq!(refused(5, 0xff), ProducersError::Content);
    assert_eq!(refused(13, 0xff), ProducersError::Content);
    assert_eq!(refused(23, 6), ProducersError::Content);
    assert_eq!(refused(23, 3), ProducersError::Truncated);
    assert_eq!(refused(24, 0xff), ProducersError::Content);
    assert_eq!(refused(24 + 15, 9), ProducersError::Content, "a batch that ends before it begins");
    assert_eq!(refused(24 + 32 + 15, 0), ProducersError::Content, "batches that don't rise");
}

/// Everything that was ever appended, looked through each time.
#[derive(Default)]
struct Naive {
    batches: Vec<(BatchHeader, Offset)>,
}

impl Naive {
    fn check(&self, batch: &BatchHeader) -> Result<Option<Offset>, ()> {
        let of_producer = self.batches.iter().filter(|(known, _)| known.producer_id == batch.producer_id);
        let Some(epoch) = of_producer.clone().map(|(known, _)| known.producer_epoch).next_back() else {
            return Ok(None);
        };
        if batch.producer_epoch < epoch {
            return Err(());
        }
        let in_epoch: Vec<_> =
            of_producer.rev().take_while(|(known, _)| known.producer_epoch == epoch).collect();
        let same = |known: &BatchHeader| {
            (known.base_sequence, known.last_offset_delta) == (batch.base_sequence, batch.last_offset_delta)
        };
        if batch.producer_epoch == epoch
            && let Some((_, base)) = in_epoch.iter().take(5).find(|(known, _)| same(known))
        {
            return Ok(Some(*base));
        }
        let last = i64::from(in_epoch[0].0.base_sequence) + i64::from(in_epoch[0].0.last_offset_delta);
        let next = if batch.producer_epoch > epoch { 0 } else { (last + 1) % (1 << 31) };
        if i64::from(batch.base_sequence) == next { Ok(None) } else { Err(()) }
    }
}

/// A batch as (producer, epoch, choice of sequence, count).
fn attempt() -> impl Strategy<Value = (i64, i16, usize, u32)> {
    (0_i64..3, 0_i16..3, 0_usize..12, 1_u32..4)
}

proptest! {
    #[test]
    fn producers_decide_as_if_they_remembered_everything(attempts in prop::collection::vec(attempt(), 0..120)) {
        let (mut producers, mut naive, mut end) = (Producers::new(), Naive::default(), Offset::ZERO);
        let sequences = [0, 1, 2, 3, 4, 5, i32::MAX - 1, i32::MAX];
        for (id, epoch, choice, count) in attempts {
            // Often the sequence that comes next, so that histories grow long.
            let next = producers.by_id.get(&ProducerId(id)).and_then(Producer::next_sequence).unwrap_or(0);
            let first = sequences.get(choice).copied().unwrap_or(next);
            let batch = batch(id, epoch, first, count);
            let expected = naive.check(&batch);
            let found = producers.check_sequence(&batch);
            let place = match found {
                Ok(Sequence::Duplicate(known)) => Ok(Some(known.base_offset)),
                Ok(Sequence::Next) => Ok(None),
                Err(_) => Err(()),
            };
            prop_assert_eq!(place, expected, "{:?}", batch);
            if place == Ok(None) {
                producers.record(&batch, end, Timestamp(0), Timestamp(0));
                naive.batches.push((batch, end));
                end = end.checked_add(u64::from(count)).unwrap();
            }
            producers.check(3, end);
        }
        let mut bytes = Vec::new();
        producers.encode(&mut bytes);
        bytes.push(0xee);
        prop_assert_eq!(Producers::decode(&bytes), Ok((producers.clone(), &[0xee][..])));
        for cut in 0..bytes.len() - 1 {
            prop_assert_eq!(Producers::decode(&bytes[..cut]), Err(ProducersError::Truncated));
        }
    }

    #[test]
    fn a_snapshot_of_noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let versioned = [&[PRODUCERS_SNAPSHOT_VERSION, 0, 0, 0, 3][..], &noise].concat();
        for bytes in [&noise, &versioned] {
            if let Ok((producers, _)) = Producers::decode(bytes) {
                producers.check(u32::MAX, Offset::MAX);
            }
        }
    }
}

#[test]
fn a_truncation_forgets_exactly_the_batches_above_it() {
    let mut producers = with(&[(0, 0, 1), (0, 1, 1), (0, 2, 1)]);
    assert!(!producers.clone().truncate(offset(3)));
    assert!(producers.truncate(offset(2)));
    assert_eq!(producers, with(&[(0, 0, 1), (0, 1, 1)]));
    assert!(producers.truncate(offset(0)));
    assert!(producers.is_empty());
}

#[test]
fn leader_epochs_are_no_matter_to_producers() {
    let other_leader = BatchHeader { leader_epoch: LeaderEpoch(9), ..batch(1, 0, 0, 1) };
    assert!(matches!(with(&[(0, 0, 1)]).check_sequence(&other_leader), Ok(Sequence::Duplicate(_))));
}
