//! Idempotent producers: what came before is answered again, what is missing is noticed.

use net_wire::ErrorCode;
use net_wire::messages::ProduceRequest;

use crate::batches::sequenced;
use crate::calls::{PRODUCE, Produce, Topic, produce, read_all};
use crate::client::Client;
use crate::node::{config, on_node};

/// The outcome of a batch with one record.
async fn outcome(
    client: &mut Client,
    topic: &Topic,
    (producer, epoch, sequence): (i64, i16, i32),
) -> Result<i64, ErrorCode> {
    let records = sequenced(producer, epoch, sequence, 1);
    let produced = Produce::new(topic, 0, &records).call(client).await;
    if produced.error.is_none() { Ok(produced.base_offset) } else { Err(produced.error) }
}

#[test]
fn the_last_five_batches_are_answered_again_with_their_offsets() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let producer = node.producer_id(0).await;
        for number in 0..7_i32 {
            let base = produce(&mut client, &topic, 0, &sequenced(producer, 0, number * 3, 3)).await;
            assert_eq!(base, i64::from(number) * 3);
        }
        for number in 2..7_i32 {
            let again = produce(&mut client, &topic, 0, &sequenced(producer, 0, number * 3, 3)).await;
            assert_eq!(again, i64::from(number) * 3);
        }
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 21, "nothing was appended twice");
    });
}

#[test]
fn a_duplicate_older_than_the_last_five_is_out_of_order() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for sequence in 0..6 {
            assert_eq!(outcome(&mut client, &topic, (7, 0, sequence)).await, Ok(i64::from(sequence)));
        }
        assert_eq!(
            outcome(&mut client, &topic, (7, 0, 0)).await,
            Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        );
        assert_eq!(outcome(&mut client, &topic, (7, 0, 6)).await, Ok(6));
    });
}

#[test]
fn a_gap_is_out_of_order_and_leaves_no_trace() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        assert_eq!(outcome(&mut client, &topic, (7, 0, 0)).await, Ok(0));
        for sequence in [2, 100, i32::MAX] {
            let refused = outcome(&mut client, &topic, (7, 0, sequence)).await;
            assert_eq!(refused, Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER), "sequence {sequence}");
        }
        assert_eq!(outcome(&mut client, &topic, (7, 0, 1)).await, Ok(1));
    });
}

#[test]
fn an_older_epoch_is_fenced_and_a_newer_one_begins_at_sequence_0() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        assert_eq!(outcome(&mut client, &topic, (7, 3, 0)).await, Ok(0));
        assert_eq!(outcome(&mut client, &topic, (7, 2, 1)).await, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
        assert_eq!(
            outcome(&mut client, &topic, (7, 4, 1)).await,
            Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        );
        assert_eq!(outcome(&mut client, &topic, (7, 4, 0)).await, Ok(1));
        assert_eq!(outcome(&mut client, &topic, (7, 3, 1)).await, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    });
}

#[test]
fn sequences_wrap_around_to_0() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        // A producer that isn't known may begin anywhere: the broker may have forgotten it.
        assert_eq!(produce(&mut client, &topic, 0, &sequenced(7, 0, i32::MAX - 1, 1)).await, 0);
        assert_eq!(produce(&mut client, &topic, 0, &sequenced(7, 0, i32::MAX, 3)).await, 1);
        assert_eq!(outcome(&mut client, &topic, (7, 0, 2)).await, Ok(4));
        assert_eq!(produce(&mut client, &topic, 0, &sequenced(7, 0, i32::MAX, 3)).await, 1, "a duplicate");
    });
}

#[test]
fn producers_and_partitions_are_counted_apart() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        for producer in 0..4 {
            assert_eq!(outcome(&mut client, &topic, (producer, 0, 0)).await, Ok(producer));
        }
        assert_eq!(produce(&mut client, &topic, 1, &sequenced(0, 0, 0, 1)).await, 0);
        assert_eq!(outcome(&mut client, &topic, (0, 0, 1)).await, Ok(4));
    });
}

#[test]
fn a_duplicate_sent_right_behind_its_original_gets_the_same_answer() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for round in 0..10 {
            let records = sequenced(7, 0, round, 1);
            let produce = Produce::new(&topic, 0, &records);
            let twice =
                [client.frame(PRODUCE, &produce.request()), client.frame(PRODUCE, &produce.request())];
            client.send_bytes(twice.concat()).await;
            for _ in 0..2 {
                let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
                let outcome = produce.outcome(&answer);
                assert_eq!((outcome.error, outcome.base_offset), (ErrorCode::NONE, i64::from(round)));
            }
        }
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 10);
    });
}
