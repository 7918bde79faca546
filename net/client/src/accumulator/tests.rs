use engine_record::{Producer, RecordBatch, Timestamp};

use super::*;

const LIMITS: BatchLimits = BatchLimits {
    batch_bytes: 400,
    linger: Duration::from_millis(5),
    request_bytes_max: 1_000,
    compression: Compression::None,
};
const START: Instant = Instant::ZERO;

fn record(value: &[u8]) -> NewRecord<'_> {
    NewRecord { timestamp: Timestamp(1), value: Some(value), ..NewRecord::default() }
}

fn values(batch: &mut QueuedBatch) -> Vec<Vec<u8>> {
    batch.sealed.stamp(Producer::NONE);
    let bytes = batch.sealed.bytes();
    let (parsed, _) = RecordBatch::parse(&bytes).unwrap();
    parsed.records().unwrap().map(|record| record.unwrap().value.unwrap().to_vec()).collect()
}

#[test]
fn records_leave_in_the_order_they_came_and_every_ticket_names_its_place() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(100_000));
    let mut placed = Vec::new();
    for number in 0..100_u8 {
        let value = vec![number; 30];
        let ticket = queue.push(&record(&value), &LIMITS, &mut memory, START).unwrap();
        placed.push((ticket, value));
    }
    let mut left = 0;
    while let Some(batch) = queue.take(&LIMITS, &mut memory) {
        let mut batch = batch.unwrap();
        for (index, value) in values(&mut batch).into_iter().enumerate() {
            assert_eq!(placed[left].0, Ticket { batch: batch.id, index: u32::try_from(index).unwrap() });
            assert_eq!(placed[left].1, value);
            left += 1;
        }
        assert!(batch.sealed.batch_bytes() <= LIMITS.batch_bytes);
        memory.release(batch);
    }
    assert_eq!((left, memory.bytes()), (100, 0));
}

#[test]
fn a_small_batch_waits_for_its_linger_and_a_full_or_flushed_one_does_not() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(100_000));
    assert_eq!(queue.ready_at(&LIMITS, START), None);
    queue.push(&record(&[1; 10]), &LIMITS, &mut memory, START).unwrap();
    let later = START.after(Duration::from_millis(1));
    assert_eq!(queue.ready_at(&LIMITS, later), Some(START.after(LIMITS.linger)));
    queue.close();
    assert_eq!(queue.ready_at(&LIMITS, later), Some(later));

    let mut full = BatchQueue::default();
    full.push(&record(&[1; 390]), &LIMITS, &mut memory, START).unwrap();
    assert_eq!(full.ready_at(&LIMITS, later), Some(later));
}

#[test]
fn full_memory_takes_nothing_until_a_batch_ends() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(500));
    queue.push(&record(&[1; 300]), &LIMITS, &mut memory, START).unwrap();
    let refused = queue.push(&record(&[2; 300]), &LIMITS, &mut memory, START);
    assert_eq!(refused, Err(NotAccepted::MemoryFull));
    let batch = queue.take(&LIMITS, &mut memory).unwrap().unwrap();
    assert_eq!(queue.push(&record(&[2; 300]), &LIMITS, &mut memory, START), Err(NotAccepted::MemoryFull));
    memory.release(batch);
    assert!(queue.push(&record(&[2; 300]), &LIMITS, &mut memory, START).is_ok());
}

#[test]
fn a_record_larger_than_a_batch_gets_its_own_and_one_larger_than_a_request_is_refused() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(100_000));
    let small = queue.push(&record(&[1; 10]), &LIMITS, &mut memory, START).unwrap();
    let large = queue.push(&record(&[2; 900]), &LIMITS, &mut memory, START).unwrap();
    let after = queue.push(&record(&[3; 10]), &LIMITS, &mut memory, START).unwrap();
    assert!(small.batch < large.batch && large.batch < after.batch);
    let refused = queue.push(&record(&[2; 1_000]), &LIMITS, &mut memory, START);
    assert!(matches!(refused, Err(NotAccepted::RecordTooLarge { record_bytes_max: 1_000, .. })));
}

#[test]
fn a_batch_written_elsewhere_keeps_its_place_behind_open_records() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(100_000));
    queue.push(&record(b"first"), &LIMITS, &mut memory, START).unwrap();
    let mut writer = BatchWriter::new(memory.buffer());
    writer.push(&record(b"second")).unwrap();
    let sealed = writer.seal(Compression::None).unwrap();
    let id = queue.push_batch(sealed, &LIMITS, &mut memory, START).unwrap();
    queue.push(&record(b"third"), &LIMITS, &mut memory, START).unwrap();
    let mut order = Vec::new();
    while let Some(batch) = queue.take(&LIMITS, &mut memory) {
        let mut batch = batch.unwrap();
        order.extend(values(&mut batch));
        assert_eq!(batch.id == id, order.len() == 2);
        memory.release(batch);
    }
    assert_eq!(order, [b"first".to_vec(), b"second".to_vec(), b"third".to_vec()]);
}

#[test]
fn times_too_far_apart_for_one_batch_go_into_two() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(100_000));
    let early = NewRecord { timestamp: Timestamp(-5), ..record(b"a") };
    let late = NewRecord { timestamp: Timestamp(i64::MAX), ..record(b"b") };
    let first = queue.push(&early, &LIMITS, &mut memory, START).unwrap();
    let second = queue.push(&late, &LIMITS, &mut memory, START).unwrap();
    assert_eq!((second.index, first.batch < second.batch), (0, true));
}

#[test]
fn discarded_batches_give_their_memory_back() {
    let (mut queue, mut memory) = (BatchQueue::default(), BufferMemory::new(100_000));
    for _ in 0..50 {
        queue.push(&record(&[1; 30]), &LIMITS, &mut memory, START).unwrap();
    }
    while queue.discard(&mut memory).is_some() {}
    assert_eq!(memory.bytes(), 0);
    assert!(queue.is_empty());
}
