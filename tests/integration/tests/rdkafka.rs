//! The `rdkafka` crate, which brings its own librdkafka, newer than kcat's.

use std::time::Duration;

use futures_lite::future::block_on;
use integration::clock::unix_ms;
use integration::rdkafka_load::{Load, assert_holds};
use integration::{Broker, Codec, Content, Options, Shape, content, settings};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

const TOPIC: &str = "rdkafka";
const PARTITIONS: i32 = 8;
const WAIT: Duration = Duration::from_secs(60);

#[test]
fn every_codec_comes_back_byte_for_byte() {
    round_trip("rdkafka-codecs", &[]);
}

#[test]
fn an_idempotent_producer_writes_each_record_once() {
    round_trip("rdkafka-idempotent", &[("enable.idempotence", "true")]);
}

#[test]
fn the_leaders_acknowledgement_is_enough_for_a_client_that_asks_for_no_more() {
    round_trip("rdkafka-acks-1", &[("acks", "1")]);
}

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    let one_port = |name| Options::new(name).with_one_port();
    round_trip_on(&one_port("rdkafka-node-codecs"), &[]);
    round_trip_on(&one_port("rdkafka-node-idempotent"), &[("enable.idempotence", "true")]);
    round_trip_on(&one_port("rdkafka-node-acks-1"), &[("acks", "1")]);
}

fn round_trip(name: &'static str, producer_settings: &[(&str, &str)]) {
    round_trip_on(&Options::new(name), producer_settings);
}

fn round_trip_on(options: &Options, producer_settings: &[(&str, &str)]) {
    let broker = Broker::start_with(options);
    create_topic(&broker.bootstrap());
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    let share = content::records_per_codec(settings::records(), PARTITIONS);
    for (turn, codec) in (0..).zip(Codec::ALL) {
        let settings = [producer_settings, &[("compression.codec", codec.name())]].concat();
        let load = Load::new(&broker.bootstrap(), TOPIC, content, &settings);
        for sequence in turn * share..(turn + 1) * share {
            (0..PARTITIONS).for_each(|partition| load.send(partition, sequence));
        }
        for acknowledged in load.finish(WAIT) {
            assert_eq!(u64::try_from(acknowledged.offset), Ok(acknowledged.sequence), "{acknowledged:?}");
        }
    }
    let counts = [share * 5; 8];
    assert_holds(&broker.bootstrap(), TOPIC, content, &counts, WAIT);
}

/// With the client's own request.
fn create_topic(bootstrap: &str) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .expect("librdkafka takes the settings");
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    let options = AdminOptions::new().request_timeout(Some(WAIT)).operation_timeout(Some(WAIT));
    let outcome = block_on(admin.create_topics(&[topic], &options)).expect("the broker answers");
    assert_eq!(outcome, [Ok(TOPIC.to_owned())]);
}
