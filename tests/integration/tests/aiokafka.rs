//! aiokafka, whose encoder of record batches no other client shares, through `tests/clients/aiokafka_client.py`.

use std::time::Duration;

use integration::{Broker, Options, programs, settings};

const WAIT: Duration = Duration::from_secs(240);

#[test]
fn every_codec_comes_back_byte_for_byte() {
    pass("roundtrip", "aiokafka-roundtrip");
}

#[test]
fn an_idempotent_producer_writes_each_record_once() {
    pass("idempotent", "aiokafka-idempotent");
}

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    pass_on("roundtrip", &Options::new("aiokafka-node-roundtrip").with_one_port());
    pass_on("idempotent", &Options::new("aiokafka-node-idempotent").with_one_port());
}

fn pass(scenario: &str, name: &'static str) {
    pass_on(scenario, &Options::new(name));
}

fn pass_on(scenario: &str, options: &Options) {
    let broker = Broker::start_with(options);
    let mut command = programs::python("aiokafka_client.py");
    command.args([scenario, &broker.bootstrap(), &settings::records().to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some(format!("passed: {scenario}").as_str()), "{output}");
}
