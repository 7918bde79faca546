"""Runs Kafka's own tools against Ringlog and against Apache Kafka, and compares what they print and how they end:

    kafka_tools.py RINGLOG LIBRARIES [--scratch FOLDER]

RINGLOG is the program; LIBRARIES is the folder of Kafka's, as install.sh leaves it. Exits with 0 when every step says the
same on both sides, but for what must differ: RULES says what, and why.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "differential"))

import brokers  # noqa: E402

WAIT_SECONDS = 120
LINES = [f"{at:05} {'abcdefghij' * (at % 150)}" for at in range(4_000)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE = "org.apache.kafka.tools.DeleteRecordsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE = "org.apache.kafka.tools.VerifiableProducer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP = "org.apache.kafka.tools.DumpLogSegments"

# What is replaced before outputs are compared.
RULES = [
    (r"\S*WARN\S* .*|SLF4J.*|.*StatusLogger.*", "", "warnings of Java's libraries"),
    (r"TopicId: \S+", "TopicId: one", "each side's own"),
    (r"127\.0\.0\.1:\d+", "broker", "each side's own"),
    (r"min\.insync\.replicas=1,?", "", "Kafka 4.3 writes its default into a new cluster's metadata, and so tells it"),
    (r"synonyms=\{[^}]*\}", "synonyms", "Ringlog names the broker's setting that a default comes from too"),
    (r'"logDir":"[^"]*"', '"logDir":"one"', "each side's own"),
    (r"[\d,.]+ (records/sec|MB/sec|ms \w+ latency|ms (50|95|99|99\.9)th)", r"some \1", "speed"),
    (r"\(?[\d.]+ MB/sec\)?", "some MB/sec", "speed"),
    (r'"(timestamp|time_in_ms|avg_throughput|target_throughput)":-?[\d.]+', r'"\1":0', "times"),
    (r'"offset":\d+', '"offset":0', "partitions are chosen by load"),
    (r'"partition":\d+', '"partition":0', "as above"),
    (r"(Create|LogAppend)Time: ?\d+", r"\1Time: some", "times"),
    (r"java\.util\.concurrent\.\w+: ", "", "how the tool nests an error"),
    (r"\(?org\.apache\.kafka\.\S+Exception\)?:? ?.*", "an exception", "texts for people; the step's name says which error"),
    (r"\n\s+at .*|\nCaused by.*|\n\s*\.\.\. \d+ more", "", "stack traces"),
    (r"\[[\d-]+ [\d:,]+\] ", "", "times of log lines"),
    (r"Error while executing .*", "an error", "texts for people"),
]


@dataclass
class Step:
    """A call of a tool; `same` says in which way its output is compared: as lines, or as lines in any order."""

    name: str
    tool: str
    arguments: list
    stdin: str = ""
    any_order: bool = False
    bootstrap: bool = True


def steps(folder):
    """The calls, in order."""
    records = folder / "records.json"
    records.write_text('{"partitions": [{"topic": "tools", "partition": 0, "offset": 5}], "version": 1}')
    beyond = folder / "beyond.json"
    beyond.write_text('{"partitions": [{"topic": "tools", "partition": 0, "offset": 100000}], "version": 1}')
    keyed = "".join(f"key{at}\tvalue {at}\n" for at in range(100))
    topic = ["--topic", "tools"]
    entity = ["--entity-type", "topics", "--entity-name", "tools"]
    produce = [*topic, "--producer-property", "acks=all"]
    return [
        Step("topics: create", TOPICS, ["--create", *topic, "--partitions", "3", "--replication-factor", "1",
                                        "--config", "retention.ms=3600000"]),
        Step("topics: create what there is", TOPICS, ["--create", *topic]),
        Step("topics: create if there isn't", TOPICS, ["--create", "--if-not-exists", *topic]),
        Step("topics: create by default", TOPICS, ["--create", "--topic", "tools-default"]),
        Step("topics: create assigned", TOPICS, ["--create", "--topic", "tools-assigned", "--replica-assignment", "1000,1000"]),
        Step("topics: create with a wrong setting", TOPICS, ["--create", "--topic", "wrong", "--config", "retention.ms=soon"]),
        Step("topics: create with too many replicas", TOPICS, ["--create", "--topic", "wrong", "--replication-factor", "3"]),
        Step("topics: list", TOPICS, ["--list"], any_order=True),
        Step("topics: describe", TOPICS, ["--describe", *topic]),
        Step("topics: describe all", TOPICS, ["--describe"], any_order=True),
        Step("topics: describe what there isn't", TOPICS, ["--describe", "--topic", "nowhere"]),
        Step("topics: overridden", TOPICS, ["--describe", "--topics-with-overrides"], any_order=True),
        Step("topics: alter", TOPICS, ["--alter", *topic, "--partitions", "5"]),
        Step("topics: alter to fewer", TOPICS, ["--alter", *topic, "--partitions", "2"]),
        Step("topics: describe again", TOPICS, ["--describe", *topic]),
        Step("configs: describe", CONFIGS, ["--describe", *entity]),
        Step("configs: alter", CONFIGS, ["--alter", *entity, "--add-config", "retention.ms=7200000,segment.ms=600000"]),
        Step("configs: delete", CONFIGS, ["--alter", *entity, "--delete-config", "retention.ms"]),
        Step("configs: alter wrong", CONFIGS, ["--alter", *entity, "--add-config", "retention.ms=soon"]),
        Step("configs: describe again", CONFIGS, ["--describe", *entity]),
        Step("configs: client metrics", CONFIGS, ["--describe", "--entity-type", "client-metrics"]),
        Step("console: produce", PRODUCER, [*produce, "--property", "parse.key=true"], stdin=keyed),
        Step("console: consume", CONSUMER, [*topic, "--partition", "0", "--offset", "earliest", "--timeout-ms", "4000",
                                            "--property", "print.key=true", "--property", "print.offset=true"]),
        Step("offsets: latest", OFFSETS, [*topic]),
        Step("offsets: earliest", OFFSETS, [*topic, "--time", "earliest"]),
        Step("offsets: greatest time", OFFSETS, ["--topic", "tools-assigned", "--time", "max-timestamp"]),
        Step("records: delete", DELETE, ["--offset-json-file", str(records)]),
        Step("records: delete beyond", DELETE, ["--offset-json-file", str(beyond)]),
        Step("offsets: earliest again", OFFSETS, [*topic, "--time", "earliest"]),
        Step("log dirs", LOG_DIRS, ["--describe", "--topic-list", "tools"]),
        Step("performance", PERFORMANCE, ["--topic", "tools-default", "--num-records", "5000", "--record-size", "100",
                                          "--throughput", "-1", "--bootstrap-server", "BOOTSTRAP"], bootstrap=False),
        Step("verifiable", VERIFIABLE, ["--topic", "tools-default", "--max-messages", "200", "--acks", "-1"], any_order=True),
        Step("topics: create for segments", TOPICS, ["--create", "--topic", "segments", "--partitions", "1",
                                                     "--config", "segment.bytes=1048576"]),
        Step("console: fill segments", PRODUCER, ["--topic", "segments", "--producer-property", "acks=all"],
             stdin="".join(f"{line}\n" for line in LINES)),
        Step("topics: delete", TOPICS, ["--delete", "--topic", "tools-assigned"]),
        Step("topics: delete what there isn't", TOPICS, ["--delete", "--topic", "nowhere"]),
        Step("topics: list in the end", TOPICS, ["--list"], any_order=True),
    ]


def call(libraries, broker, step):
    """Runs a tool against a broker; answers how it ended and what it printed, in comparable words."""
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    arguments = [bootstrap if each == "BOOTSTRAP" else each for each in step.arguments]
    arguments = ["--bootstrap-server", bootstrap, *arguments] if step.bootstrap else arguments
    done = subprocess.run(
        brokers.java(libraries, step.tool, *arguments, heap="256m"), input=step.stdin, capture_output=True, text=True,
        timeout=WAIT_SECONDS, check=False,
    )
    lines = comparable(f"{done.stdout}\n{done.stderr}")
    return done.returncode, sorted(lines) if step.any_order else lines


def comparable(text):
    """An output without what must differ."""
    for pattern, instead, _ in RULES:
        text = re.sub(pattern, instead, text)
    text = re.sub(r"Configs: (\S+)", lambda told: f"Configs: {','.join(sorted(told[1].split(',')))}", text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def dumped(libraries, files):
    """What Kafka's tool reads in segments: each record's offset and payload."""
    arguments = ["--print-data-log", "--deep-iteration", "--files", ",".join(map(str, files))]
    done = subprocess.run(
        brokers.java(libraries, DUMP, *arguments), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    if done.returncode or "isvalid: false" in done.stdout or "isvalid: true" not in done.stdout:
        raise SystemExit(f"FAILED: the segments can't be read\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return re.findall(r"^\| offset: (\d+) .*payload: (.*)$", done.stdout, re.M)


def check_segments(libraries, folder):
    """Sealed segments of both sides hold the lines that were sent, from the first on."""
    right = [(str(at), line) for at, line in enumerate(LINES)]
    ringlog = {}
    for path in (folder / "ringlog/data/topics").glob("*/0/*.log"):
        ringlog.setdefault(path.parent, []).append(path)
    # The topic that has several; its last segment isn't sealed.
    sealed = sorted(max(ringlog.values(), key=len))[:-1]
    kafka = sorted((folder / "kafka/data/segments-0").glob("*.log"))[:-1]
    for name, files in [("Ringlog", sealed), ("Kafka", kafka)]:
        if not files:
            raise SystemExit(f"FAILED: {name} has sealed no segment")
        got = dumped(libraries, files)
        if not got or got != right[: len(got)]:
            raise SystemExit(f"FAILED: {name}'s segments hold something else than was sent: {got[:3]} ..")
        print(f"same: {len(files)} sealed segments of {name}, {len(got)} records")


def main():
    """Runs every step on both sides at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ringlog")
    parser.add_argument("libraries")
    parser.add_argument("--scratch", help="where the brokers keep their data, on a file system that Ringlog takes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-tools-", dir=arguments.scratch) as scratch:
        folder = Path(scratch)
        started = []
        try:
            started.append(brokers.start_kafka(arguments.libraries, folder / "kafka"))
            started.append(brokers.start_ringlog(arguments.ringlog, folder / "ringlog", settings=brokers.SETTINGS))
            different = run_all(arguments.libraries, started, steps(folder))
        finally:
            for broker in started:
                broker.stop()
        check_segments(arguments.libraries, folder)
    print(f"{different} steps differ")
    if different:
        sys.exit(1)
    print("1 passed, 0 failed")


def run_all(libraries, sides, all_steps):
    """Runs the steps; answers how many differ."""
    different = 0
    with ThreadPoolExecutor(len(sides)) as pool:
        for step in all_steps:
            begun = time.monotonic()
            kafka, ringlog = pool.map(lambda broker, step=step: call(libraries, broker, step), sides)
            took = time.monotonic() - begun
            if kafka == ringlog:
                print(f"same: {step.name} ({took:.1f} s)", flush=True)
                continue
            different += 1
            print(f"different: {step.name}\n  Kafka ended with {kafka[0]}:", *kafka[1], sep="\n    ")
            print(f"  Ringlog ended with {ringlog[0]}:", *ringlog[1], sep="\n    ", flush=True)
    return different


if __name__ == "__main__":
    main()
