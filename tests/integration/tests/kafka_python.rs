//! kafka-python, a client that shares no code with librdkafka, through `tests/clients/kafka_python.py`.

use std::time::Duration;

use integration::{Broker, Options, programs};

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

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    pass_on("roundtrip", &Options::new("kafka-python-node-roundtrip").with_one_port());
    pass_on("releases", &Options::new("kafka-python-node-releases").with_one_port());
}

fn pass(scenario: &str, name: &'static str) {
    pass_on(scenario, &Options::new(name));
}

fn pass_on(scenario: &str, options: &Options) {
    let broker = Broker::start_with(options);
    let mut command = programs::python("kafka_python.py");
    command.args([scenario, &broker.bootstrap(), &RECORDS.to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some(format!("passed: {scenario}").as_str()), "{output}");
}
