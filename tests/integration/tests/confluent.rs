//! confluent-kafka for Python, through `tests/clients/confluent.py`.

use std::time::Duration;

use integration::{Broker, Options, programs, settings};

const WAIT: Duration = Duration::from_secs(240);

#[test]
fn every_codec_comes_back_byte_for_byte() {
    pass("roundtrip", "confluent-roundtrip");
}

#[test]
fn an_idempotent_producer_writes_each_record_once() {
    pass("idempotent", "confluent-idempotent");
}

#[test]
fn offsets_are_found_by_end_and_by_time() {
    pass("offsets", "confluent-offsets");
}

#[test]
fn a_deleted_topic_comes_back_empty() {
    pass("recreate", "confluent-recreate");
}

#[test]
fn settings_are_told_and_changed() {
    pass("configs", "confluent-configs");
}

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    for (scenario, name) in [
        ("roundtrip", "confluent-node-roundtrip"),
        ("idempotent", "confluent-node-idempotent"),
        ("offsets", "confluent-node-offsets"),
        ("recreate", "confluent-node-recreate"),
        ("configs", "confluent-node-configs"),
    ] {
        pass_on(scenario, &Options::new(name).with_one_port());
    }
}

fn pass(scenario: &str, name: &'static str) {
    pass_on(scenario, &Options::new(name));
}

fn pass_on(scenario: &str, options: &Options) {
    let broker = Broker::start_with(options);
    let mut command = programs::python("confluent.py");
    command.args([scenario, &broker.bootstrap(), &settings::records().to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some(format!("passed: {scenario}").as_str()), "{output}");
}
