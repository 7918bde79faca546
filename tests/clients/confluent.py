"""Holds confluent-kafka (librdkafka) against a broker: confluent.py SCENARIO BOOTSTRAP [RECORDS].

Scenarios:
  roundtrip    every codec, keys, headers and timestamps over 8 partitions, read back by assignment
  idempotent   the same with an idempotent producer and concurrent requests
  offsets      watermarks, ListOffsets by time and by name
  recreate     a deleted topic is gone, and comes back empty
  configs      settings of topics and brokers are told; those of topics change by name and as a whole

Exits with 0 when every check passed, else with a message that says which one didn't.
"""

import sys
import time
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from content import CODECS, Checker, Record, fail, maker, records_per_codec

PARTITIONS = 8
WAIT_SECONDS = 60


def now_ms():
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


class Broker:
    """Where the broker is, and the calls that every scenario makes."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic, partitions=PARTITIONS):
        """Creates a topic."""
        self._settle(self.admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=30), "create")

    def delete(self, topic):
        """Deletes a topic."""
        self._settle(self.admin.delete_topics([topic], operation_timeout=30), "delete")

    def _settle(self, futures, what):
        for topic, future in futures.items():
            try:
                future.result(WAIT_SECONDS)
            except KafkaException as error:
                fail(f"cannot {what} {topic}: {error}")

    def produce(self, topic, records, **settings):
        """Sends (partition, record) pairs and waits until all are acknowledged."""
        failures = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 5, **settings})

        def delivered(error, message):
            if error is not None:
                failures.append(f"partition {message.partition()}: {error}")

        for partition, one in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        value=one.value,
                        key=one.key,
                        partition=partition,
                        headers=one.headers,
                        timestamp=one.timestamp_ms,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        left = producer.flush(WAIT_SECONDS)
        if left:
            fail(f"{left} records were not acknowledged in {WAIT_SECONDS} s ({settings})")
        if failures:
            fail(f"{len(failures)} records failed, the first: {failures[0]} ({settings})")

    def consumer(self):
        """A consumer that reads by assignment and joins no group."""
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "confluent",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 100,
            }
        )

    def read_all(self, topic, partitions, take):
        """Gives take(partition, offset, record) every record there is."""
        consumer = self.consumer()
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        unfinished = set(range(partitions))
        deadline = time.monotonic() + WAIT_SECONDS
        while unfinished:
            if time.monotonic() > deadline:
                fail(f"{topic}: partitions {sorted(unfinished)} were not read to their end in {WAIT_SECONDS} s")
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    take(message.partition(), message.offset(), as_record(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                else:
                    fail(f"{topic}: reading failed: {message.error()}")
        consumer.close()


def as_record(message):
    """The parts that are compared."""
    return Record(message.key(), message.value(), message.headers(), message.timestamp()[1])


def roundtrip(broker, total, **settings):
    """Produces with each codec and reads back the same."""
    topic = f"confluent-{uuid4()}"
    broker.create(topic)
    share = records_per_codec(total, PARTITIONS)
    make = maker(now_ms() - 3_600_000)
    for turn, codec in enumerate(CODECS):
        records = (
            (partition, make(partition, sequence))
            for sequence in range(turn * share, (turn + 1) * share)
            for partition in range(PARTITIONS)
        )
        broker.produce(topic, records, **{"compression.codec": codec}, **settings)
    checker = Checker(PARTITIONS, share * len(CODECS), make)
    broker.read_all(topic, PARTITIONS, checker.take)
    checker.finish()


def idempotent(broker, total):
    """The same, with producer ids and sequences."""
    roundtrip(broker, total, **{"enable.idempotence": True, "max.in.flight.requests.per.connection": 5})


def offsets(broker, total):
    """Asks for offsets in every way the client has."""
    topic = f"confluent-offsets-{uuid4()}"
    broker.create(topic, 2)
    first_timestamp_ms = now_ms() - 3_600_000
    count = max(total // 10, 100)
    make = maker(first_timestamp_ms)
    broker.produce(topic, ((0, make(0, sequence)) for sequence in range(count)), **{"compression.codec": "lz4"})
    consumer = broker.consumer()
    check_watermarks(consumer, topic, count)
    check_times(consumer, topic, count, first_timestamp_ms)
    consumer.close()
    check_specifications(broker.admin, topic, count, first_timestamp_ms)


def check_watermarks(consumer, topic, count):
    """The ends of a full partition and of an empty one."""
    for partition, expected in [(0, (0, count)), (1, (0, 0))]:
        got = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_SECONDS)
        if got != expected:
            fail(f"watermarks of partition {partition}: {got}, expected {expected}")


def check_times(consumer, topic, count, first_timestamp_ms):
    """The first record at or after a time, also in the middle of a batch; the end where there is none."""
    end = -1
    cases = [(0, 0), (1, 1), (count // 2, count // 2), (count - 1, count - 1), (count, end), (-5_000, 0)]
    for past, expected in cases:
        asked = TopicPartition(topic, 0, first_timestamp_ms + past)
        got = consumer.offsets_for_times([asked], timeout=WAIT_SECONDS)[0]
        if got.error is not None or got.offset != expected:
            fail(f"offset of the first time {past:+} ms: {got.offset} ({got.error}), expected {expected}")


def check_specifications(admin, topic, count, first_timestamp_ms):
    """The administrator's way to ask."""
    partition = TopicPartition(topic, 0)
    cases = [
        ("earliest", OffsetSpec.earliest(), 0),
        ("latest", OffsetSpec.latest(), count),
        ("max timestamp", OffsetSpec.max_timestamp(), count - 1),
        ("for timestamp", OffsetSpec.for_timestamp(first_timestamp_ms + 7), 7),
    ]
    for level in [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED]:
        for name, specification, expected in cases:
            futures = admin.list_offsets({partition: specification}, isolation_level=level)
            got = futures[partition].result(WAIT_SECONDS).offset
            if got != expected:
                fail(f"{name} offset at {level}: {got}, expected {expected}")


def recreate(broker, total):
    """Deletes a topic with records and makes one of the same name."""
    topic = f"confluent-recreate-{uuid4()}"
    count = max(total // 100, 10)
    for turn in range(3):
        broker.create(topic)
        make = maker(now_ms() - 3_600_000 + turn)
        records = [(p, make(p, s)) for s in range(count) for p in range(PARTITIONS)]
        broker.produce(topic, records)
        checker = Checker(PARTITIONS, count, make)
        broker.read_all(topic, PARTITIONS, checker.take)
        checker.finish()
        broker.delete(topic)
        if topic in broker.admin.list_topics(timeout=WAIT_SECONDS).topics:
            fail(f"{topic} is still listed after it was deleted")


def described(broker, kind, name):
    """The settings of a resource."""
    resource = ConfigResource(kind, name)
    return broker.admin.describe_configs([resource])[resource].result(WAIT_SECONDS)


def expect(entry, value, source):
    """Compares a setting with what it must be."""
    if (entry.value, entry.source) != (value, source.value):
        fail(f"{entry.name}: {entry.value} from {entry.source}, expected {value} from {source}")


def configs(broker, _total):
    """Asks for settings and changes them in both ways there are."""
    topic = f"confluent-configs-{uuid4()}"
    broker.create(topic)
    own, default = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG
    expect(described(broker, ResourceType.TOPIC, topic)["retention.ms"], "604800000", default)

    def change(name, value, operation):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        return broker.admin.incremental_alter_configs([resource])[resource]

    change("retention.ms", "60000", AlterConfigOpType.SET).result(WAIT_SECONDS)
    change("cleanup.policy", "delete", AlterConfigOpType.APPEND).result(WAIT_SECONDS)
    settings = described(broker, ResourceType.TOPIC, topic)
    expect(settings["retention.ms"], "60000", own)
    expect(settings["cleanup.policy"], "delete", own)
    replaced = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "70000"})
    broker.admin.alter_configs([replaced])[replaced].result(WAIT_SECONDS)
    settings = described(broker, ResourceType.TOPIC, topic)
    expect(settings["segment.ms"], "70000", own)
    expect(settings["retention.ms"], "604800000", default)
    change("segment.ms", None, AlterConfigOpType.DELETE).result(WAIT_SECONDS)
    expect(described(broker, ResourceType.TOPIC, topic)["segment.ms"], "604800000", default)
    try:
        change("retention.ms", "soon", AlterConfigOpType.SET).result(WAIT_SECONDS)
        fail("a wrong value was taken")
    except KafkaException as error:
        if error.args[0].code() != KafkaError.INVALID_CONFIG or "soon" not in error.args[0].str():
            fail(f"a wrong value was refused so: {error}")
    for broker_id in broker.admin.list_topics(timeout=WAIT_SECONDS).brokers:
        settings = described(broker, ResourceType.BROKER, str(broker_id))
        expect(settings["num.partitions"], "1", default)
        if not settings["num.partitions"].is_read_only:
            fail("a setting of the broker seems changeable")


SCENARIOS = {scenario.__name__: scenario for scenario in [roundtrip, idempotent, offsets, recreate, configs]}


def main():
    """Runs the scenario that the arguments name."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SCENARIOS:
        sys.exit(__doc__)
    records = int(sys.argv[3]) if len(sys.argv) == 4 else 100_000
    SCENARIOS[sys.argv[1]](Broker(sys.argv[2]), records)
    print(f"passed: {sys.argv[1]}")


if __name__ == "__main__":
    main()
