//! A Produce request read in place says what the same request read as a structure says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use net_wire::messages::ProduceRequest;
use net_wire::{Message, ProduceView, Reader, TopicRef};

fuzz_target!(|data: &[u8]| {
    let [version, body @ ..] = data else { return };
    let version = 3 + i16::from(*version) % 11;
    let view = ProduceView::decode(&mut Reader::new(body), version);
    match (view, ProduceRequest::decode(&mut Reader::new(body), version)) {
        (Ok(view), Ok(request)) => assert_same(&view, &request),
        (view, request) => assert_eq!(view.is_ok(), request.is_ok()),
    }
});

fn assert_same(view: &ProduceView<'_>, request: &ProduceRequest<'_>) {
    assert_eq!(view.topics().len(), request.topic_data.len());
    for (topic, expected) in view.topics().zip(&request.topic_data) {
        match topic.topic {
            TopicRef::Name(name) => assert_eq!(name, expected.name),
            TopicRef::Id(id) => assert_eq!(id, expected.topic_id),
        }
        assert_eq!(topic.partitions().len(), expected.partition_data.len());
        for (partition, expected) in topic.partitions().zip(&expected.partition_data) {
            assert_eq!((partition.index, partition.records), (expected.index, expected.records));
        }
    }
}
