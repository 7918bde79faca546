//! kafkajs, through `tests/clients/javascript/kafkajs.mjs`. It reads only in groups, so it writes, and librdkafka reads.

use std::time::Duration;

use integration::clock::unix_ms;
use integration::content::Record;
use integration::rdkafka_load::read_each;
use integration::{Broker, Content, Options, Shape, content, programs, settings};

const TOPIC: &str = "kafkajs";
const PARTITIONS: i32 = 8;
const WAIT: Duration = Duration::from_secs(240);

#[test]
fn every_codec_comes_to_another_client_byte_for_byte() {
    pass_on(&Options::new("kafkajs"));
}

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    pass_on(&Options::new("kafkajs-node").with_one_port());
}

fn pass_on(options: &Options) {
    let broker = Broker::start_with(options);
    let content = Content { shape: Shape::Binary, first_timestamp_ms: unix_ms() - 3_600_000 };
    let share = content::records_per_codec(settings::records(), PARTITIONS);
    produce(&broker.bootstrap(), content.first_timestamp_ms);

    let mut read = [0; 8];
    read_each(&broker.bootstrap(), TOPIC, PARTITIONS, WAIT, |partition, offset, record| {
        let sequence = &mut read[usize::try_from(partition).expect("partitions are numbered from 0")];
        assert_eq!(u64::try_from(offset), Ok(*sequence), "partition {partition} has a gap or a repetition");
        assert_eq!(record, written(content.record(partition, *sequence)), "partition {partition}");
        *sequence += 1;
    });
    assert_eq!(read, [share * 5; 8], "records by partition");
}

fn produce(bootstrap: &str, first_timestamp_ms: i64) {
    let mut command = programs::javascript("kafkajs.mjs");
    let records = settings::records().to_string();
    command.args([bootstrap, TOPIC, &records, &first_timestamp_ms.to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some("passed: produce"), "{output}");
}

/// A record as this client writes it: without headers that have no value.
fn written(mut record: Record) -> Record {
    record.headers.retain(|(_, value)| value.is_some());
    record
}
