//! aiokafka, whose encoder of record batches no other client shares, through `tests/clients/aiokafka_client.py`.

use std::time::Duration;

use integration::{Broker, programs, settings};

const WAIT: Duration = Duration::from_secs(240);

#[test]
fn every_codec_comes_back_byte_for_byte() {
    pass("roundtrip", "aiokafka-roundtrip");
}

#[test]
fn an_idempotent_producer_writes_each_record_once() {
    pass("idempotent", "aiokafka-idempotent");
}

fn pass(scenario: &str, name: &'static str) {
    let broker = Broker::start(name);
    let mut command = programs::python("aiokafka_client.py");
    command.args([scenario, &broker.bootstrap(), &settings::records().to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some(format!("passed: {scenario}").as_str()), "{output}");
}
