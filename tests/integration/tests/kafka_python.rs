//! kafka-python, a client that shares no code with librdkafka, through `tests/clients/kafka_python.py`.

use std::time::Duration;

use integration::{Broker, programs};

const WAIT: Duration = Duration::from_secs(240);
/// Fewer than for the other clients: all its work is done in Python.
const RECORDS: u64 = 20_000;

#[test]
fn every_codec_comes_back_byte_for_byte() {
    pass("roundtrip", "kafka-python-roundtrip");
}

#[test]
fn a_client_may_speak_as_to_any_release_since_0_11() {
    pass("releases", "kafka-python-releases");
}

fn pass(scenario: &str, name: &'static str) {
    let broker = Broker::start(name);
    let mut command = programs::python("kafka_python.py");
    command.args([scenario, &broker.bootstrap(), &RECORDS.to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some(format!("passed: {scenario}").as_str()), "{output}");
}
