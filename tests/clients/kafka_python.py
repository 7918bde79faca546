"""Holds kafka-python, a client without any C, against a broker: kafka_python.py SCENARIO BOOTSTRAP [RECORDS].

Scenarios:
  roundtrip    every codec, keys, headers and timestamps over 8 partitions, read back by assignment
  releases     a few records as a client speaks to each release of brokers, so that old versions are spoken too

Exits with 0 when every check passed, else with a message that says which one didn't.
"""

import sys
import time
from uuid import uuid4

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

from content import CODECS, Checker, Record, fail, record, records_per_codec

PARTITIONS = 8
WAIT_SECONDS = 60

# Releases whose table of versions differs in the requests that a broker without groups serves.
RELEASES = [(0, 11), (1, 0), (2, 0), (2, 1), (2, 3), (2, 4), (2, 8), (3, 0), (3, 5), (3, 7), (3, 9), (4, 0), (4, 1)]
# The first release whose brokers know zstd.
ZSTD_RELEASE = (2, 1)


def maker(first_timestamp_ms):
    """The rule for a topic, but for headers without a value: this client sends none."""

    def make(partition, sequence):
        one = record(partition, sequence, first_timestamp_ms)
        return one._replace(headers=[header for header in one.headers if header[1] is not None])

    return make


def create(bootstrap, topic, partitions):
    """Creates a topic."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    except KafkaError as error:
        fail(f"cannot create {topic}: {error!r}")
    finally:
        admin.close()


def produce(bootstrap, topic, records, codec, **settings):
    """Sends (partition, record) pairs and waits until all are acknowledged."""
    compression = None if codec == "none" else codec
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, compression_type=compression, **settings
    )
    sent = [
        producer.send(
            topic,
            value=one.value,
            key=one.key,
            headers=one.headers,
            partition=partition,
            timestamp_ms=one.timestamp_ms,
        )
        for partition, one in records
    ]
    try:
        producer.flush(WAIT_SECONDS)
        for future in sent:
            future.get(timeout=WAIT_SECONDS)
    except KafkaError as error:
        fail(f"a record of {topic} was not acknowledged: {error!r} ({codec}, {settings})")
    producer.close()


def read_all(bootstrap, topic, partitions, take, **settings):
    """Gives take(partition, offset, record) every record there is."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, fetch_max_wait_ms=100, **settings
    )
    assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
    consumer.assign(assigned)
    consumer.seek_to_beginning(*assigned)
    ends = consumer.end_offsets(assigned)
    deadline = time.monotonic() + WAIT_SECONDS
    while any(consumer.position(partition) < ends[partition] for partition in assigned):
        if time.monotonic() > deadline:
            fail(f"{topic} was not read to its end in {WAIT_SECONDS} s ({settings})")
        for partition, messages in consumer.poll(timeout_ms=200, max_records=5000).items():
            for message in messages:
                take(partition.partition, message.offset, as_record(message))
    consumer.close()


def as_record(message):
    """The parts that are compared."""
    return Record(message.key, message.value, [tuple(header) for header in message.headers], message.timestamp)


def roundtrip(bootstrap, total):
    """Produces with each codec and reads back the same."""
    topic = f"kafka-python-{uuid4()}"
    create(bootstrap, topic, PARTITIONS)
    share = records_per_codec(total, PARTITIONS)
    make = maker(int(time.time() * 1000) - 3_600_000)
    for turn, codec in enumerate(CODECS):
        records = (
            (partition, make(partition, sequence))
            for sequence in range(turn * share, (turn + 1) * share)
            for partition in range(PARTITIONS)
        )
        produce(bootstrap, topic, records, codec)
    checker = Checker(PARTITIONS, share * len(CODECS), make)
    read_all(bootstrap, topic, PARTITIONS, checker.take)
    checker.finish()


def releases(bootstrap, total):
    """Speaks as to each release."""
    count = max(total // 1000, 10)
    for release in RELEASES:
        topic = f"kafka-python-{'.'.join(map(str, release))}-{uuid4()}"
        create(bootstrap, topic, 2)
        make = maker(int(time.time() * 1000) - 3_600_000)
        codecs = [codec for codec in CODECS if codec != "zstd" or release >= ZSTD_RELEASE]
        for turn, codec in enumerate(codecs):
            sequences = range(turn * count, (turn + 1) * count)
            records = [(p, make(p, s)) for s in sequences for p in range(2)]
            produce(bootstrap, topic, records, codec, api_version=release)
        checker = Checker(2, count * len(codecs), make)
        read_all(bootstrap, topic, 2, checker.take, api_version=release)
        checker.finish()
        print(f"passed: as to a broker of {'.'.join(map(str, release))}")


SCENARIOS = {scenario.__name__: scenario for scenario in [roundtrip, releases]}


def main():
    """Runs the scenario that the arguments name."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SCENARIOS:
        sys.exit(__doc__)
    records = int(sys.argv[3]) if len(sys.argv) == 4 else 20_000
    SCENARIOS[sys.argv[1]](sys.argv[2], records)
    print(f"passed: {sys.argv[1]}")


if __name__ == "__main__":
    main()
