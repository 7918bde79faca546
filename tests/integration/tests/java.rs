//! The Java client, newest and 3.9, through `tests/clients/java/RoundTrip.java`.

use std::time::Duration;

use integration::programs::JavaLibraries;
use integration::{Broker, Options, programs, settings};

const WAIT: Duration = Duration::from_secs(240);

#[test]
fn the_newest_reads_what_it_wrote_with_every_codec() {
    pass(JavaLibraries::Kafka43, "roundtrip", "java-4.3-roundtrip");
}

#[test]
fn the_newest_needs_no_producer_id() {
    pass(JavaLibraries::Kafka43, "plain", "java-4.3-plain");
}

#[test]
fn that_of_3_9_reads_what_it_wrote_with_every_codec() {
    pass(JavaLibraries::Clients39, "roundtrip", "java-3.9-roundtrip");
}

#[test]
fn a_client_of_one_port_for_all_shards_sees_no_difference() {
    for (libraries, name) in
        [(JavaLibraries::Kafka43, "java-4.3-node"), (JavaLibraries::Clients39, "java-3.9-node")]
    {
        pass_on(libraries, "roundtrip", &Options::new(name).with_one_port());
    }
}

fn pass(libraries: JavaLibraries, scenario: &str, name: &'static str) {
    pass_on(libraries, scenario, &Options::new(name));
}

fn pass_on(libraries: JavaLibraries, scenario: &str, options: &Options) {
    let broker = Broker::start_with(options);
    let mut command = programs::java(libraries, "RoundTrip.java");
    command.args([scenario, &broker.bootstrap(), &settings::records().to_string()]);
    let output = programs::run(command, b"", WAIT);
    assert_eq!(output.lines().last(), Some(format!("passed: {scenario}").as_str()), "{output}");
}
