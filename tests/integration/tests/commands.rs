//! `ringlog produce` and `ringlog consume` beside kcat, which is laid beside them word for word.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use integration::{Broker, binary, programs, topics};

const TOPIC: &str = "commands";
const WAIT: Duration = Duration::from_secs(60);

fn ringlog(broker: &Broker, words: &[&str], input: &[u8]) -> String {
    let mut command = Command::new(binary::path());
    command.args(words).args(["--bootstrap", &broker.bootstrap()]);
    programs::run(command, input, WAIT)
}

/// Records with and without keys, values and headers.
fn fill(broker: &Broker, topic: &str) {
    let lines = concat!(
        r#"{"key":"k1","value":"value one","partition":0,"timestamp":1000,"headers":[{"key":"a","value":"1"},{"key":"b","value":null}]}"#,
        "\n",
        r#"{"key":null,"value":"","partition":0,"timestamp":2000,"headers":[{"key":"empty","value":""}]}"#,
        "\n",
        r#"{"key":"","value":null,"partition":0,"timestamp":3000}"#,
        "\n",
        r#"{"key":{"base64":"AP8="},"value":{"base64":"//4AAQ=="},"partition":0,"timestamp":4000}"#,
        "\n",
        r#"{"key":"k2","value":"tab\tline\n%s","partition":1,"timestamp":2500,"headers":[{"key":"","value":{"base64":"/w=="}}]}"#,
        "\n",
    );
    let told = ringlog(broker, &["produce", topic, "--json-lines", "--json"], lines.as_bytes());
    assert!(told.contains(r#""records":5"#), "{told}");
}

/// The output as it is, since not all of it is text.
fn bytes(mut command: Command) -> Vec<u8> {
    let output = command.output().expect("the program can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_format_prints_what_kcat_prints() {
    let broker = Broker::start("commands-format");
    topics::create(broker.address(0), TOPIC, 2);
    fill(&broker, TOPIC);
    for format in [
        "%t [%p] at %o: %k=%s\\n",
        "%o %K %S|%T|%h\\n",
        "%R%s",
        "%%s 100%%\\t\\x41\\x0a",
        "%k\\r\\q\\\\n\\65%s",
        "no parts of it\\n",
    ] {
        for partition in ["0", "1"] {
            let mut kcat = programs::kcat();
            kcat.args([
                "-C",
                "-b",
                &broker.bootstrap(),
                "-t",
                TOPIC,
                "-p",
                partition,
                "-o",
                "beginning",
                "-e",
                "-q",
            ]);
            kcat.args(["-f", format]);
            let mut ours = Command::new(binary::path());
            ours.args(["consume", TOPIC, "--bootstrap", &broker.bootstrap(), "--partition", partition]);
            ours.args(["--from", "earliest", "--until-end", "--format", format]);
            let (ours, kcat) = (bytes(ours), bytes(kcat));
            assert_eq!(ours, kcat, "{format}: {}", String::from_utf8_lossy(&ours));
            assert!(!ours.is_empty());
        }
    }
}

#[test]
fn what_consume_prints_produce_reads() {
    let broker = Broker::start("commands-json");
    topics::create(broker.address(0), TOPIC, 2);
    topics::create(broker.address(0), "copy", 2);
    fill(&broker, TOPIC);
    let consume =
        |topic| ringlog(&broker, &["consume", topic, "--from", "earliest", "--until-end", "--json"], b"");
    let printed = consume(TOPIC);
    ringlog(&broker, &["produce", "copy", "--json-lines", "--json"], printed.as_bytes());
    let (lines, copied): (BTreeSet<_>, BTreeSet<_>) = {
        let copy = consume("copy");
        (printed.lines().map(str::to_owned).collect(), copy.lines().map(str::to_owned).collect())
    };
    assert_eq!(lines.len(), 5);
    assert_eq!(copied, lines);
}

#[test]
fn reading_begins_and_ends_at_times_and_counts_from_the_end() {
    let broker = Broker::start("commands-places");
    topics::create(broker.address(0), TOPIC, 2);
    fill(&broker, TOPIC);
    let places = |words: &[&str]| {
        let words = [&["consume", TOPIC, "--format", "%p/%o\\n"], words].concat();
        let mut places: Vec<_> = ringlog(&broker, &words, b"").lines().map(str::to_owned).collect();
        places.sort();
        places
    };
    assert_eq!(places(&["--from", "-1", "--until-end"]), ["0/3", "1/0"]);
    assert_eq!(places(&["--from", "-99", "--until-end", "--partition", "1", "--partition", "0"]).len(), 5);
    assert_eq!(places(&["--from", "@2000", "--until-end"]), ["0/1", "0/2", "0/3", "1/0"]);
    assert_eq!(places(&["--from", "@1970-01-01T00:00:02.001Z", "--until", "@4000"]), ["0/2", "1/0"]);
    assert_eq!(places(&["--from", "@5000", "--until-end"]), [""; 0]);
    assert_eq!(places(&["--from", "earliest", "--until", "2", "--partition", "0"]), ["0/0", "0/1"]);
    assert_eq!(places(&["--from", "1", "--until", "3", "--partition", "0"]), ["0/1", "0/2"]);
}

#[test]
fn keys_headers_times_and_tombstones_are_kcats_to_read() {
    let broker = Broker::start("commands-produce");
    topics::create(broker.address(0), TOPIC, 1);
    let common = ["produce", TOPIC, "--partition", "0", "--json"];
    let produce = |words: &[&str], input: &[u8]| ringlog(&broker, &[&common[..], words].concat(), input);
    produce(&["--key", "k", "--header", "a=1", "--header", "b=x=y", "--timestamp", "7"], b"one\n");
    produce(&["--key-separator", ":", "--null-value=", "--timestamp", "8"], b"k:\n");
    produce(&["--delimiter", "\\0", "--timestamp", "9"], b"two\nlines\0");
    let file = broker.data_folder().with_file_name("file");
    std::fs::write(&file, "whole\nfile\n").expect("a file can be written in the test's folder");
    produce(&["--file", file.to_str().expect("the folder's name is text"), "--timestamp", "10"], b"");
    let mut kcat = programs::kcat();
    kcat.args(["-C", "-b", &broker.bootstrap(), "-t", TOPIC, "-o", "beginning", "-e", "-q"]);
    kcat.args(["-f", "%T %K:%k %S:%s %h|"]);
    let read = String::from_utf8(bytes(kcat)).expect("all of it is text");
    assert_eq!(read, "7 1:k 3:one a=1,b=x=y|8 1:k -1: |9 -1: 9:two\nlines |10 -1: 11:whole\nfile\n |");
}
