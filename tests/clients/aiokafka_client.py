"""Holds aiokafka, which brings an encoder of record batches of its own, against a broker:
aiokafka_client.py SCENARIO BOOTSTRAP [RECORDS].

Scenarios:
  roundtrip    every codec, keys, headers and timestamps over 8 partitions, read back by assignment
  idempotent   the same with an idempotent producer

Exits with 0 when every check passed, else with a message that says which one didn't.
"""

import asyncio
import sys
import time
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from content import CODECS, Checker, Record, fail, maker, records_per_codec

PARTITIONS = 8
WAIT_SECONDS = 60
# Records handed over before the first of them is waited for.
HANDED_OVER_MAX = 20_000


async def create(bootstrap, topic, partitions):
    """Creates a topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()
    # This client raises nothing for a topic that wasn't created.
    for name, code, *_ in response.topic_errors:
        if code:
            fail(f"cannot create {name}: error {code}")


async def produce(bootstrap, topic, records, codec, **settings):
    """Sends (partition, record) pairs and waits until all are acknowledged."""
    compression = None if codec == "none" else codec
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, compression_type=compression, **settings
    )
    await producer.start()
    sent = []
    try:
        for partition, one in records:
            sent.append(
                await producer.send(
                    topic,
                    value=one.value,
                    key=one.key,
                    headers=one.headers,
                    partition=partition,
                    timestamp_ms=one.timestamp_ms,
                )
            )
            if len(sent) == HANDED_OVER_MAX:
                await settle(sent)
        await settle(sent)
    except (KafkaError, asyncio.TimeoutError) as error:
        fail(f"a record of {topic} was not acknowledged: {error!r} ({codec}, {settings})")
    finally:
        await producer.stop()


async def settle(sent):
    """Waits until these records are acknowledged."""
    await asyncio.wait_for(asyncio.gather(*sent), WAIT_SECONDS)
    sent.clear()


async def read_all(bootstrap, topic, partitions, take):
    """Gives take(partition, offset, record) every record there is."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, fetch_max_wait_ms=100
    )
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        unfinished = await consumer.end_offsets(assigned)
        deadline = time.monotonic() + WAIT_SECONDS
        while unfinished:
            if time.monotonic() > deadline:
                fail(f"{topic} was not read to its end in {WAIT_SECONDS} s: {unfinished}")
            for partition, messages in (await consumer.getmany(timeout_ms=200, max_records=5000)).items():
                for message in messages:
                    take(partition.partition, message.offset, as_record(message))
            for partition in [each for each in unfinished if await consumer.position(each) >= unfinished[each]]:
                del unfinished[partition]
    finally:
        await consumer.stop()


def as_record(message):
    """The parts that are compared."""
    return Record(message.key, message.value, list(message.headers), message.timestamp)


async def roundtrip(bootstrap, total, **settings):
    """Produces with each codec and reads back the same."""
    topic = f"aiokafka-{uuid4()}"
    await create(bootstrap, topic, PARTITIONS)
    share = records_per_codec(total, PARTITIONS)
    make = maker(int(time.time() * 1000) - 3_600_000)
    for turn, codec in enumerate(CODECS):
        records = (
            (partition, make(partition, sequence))
            for sequence in range(turn * share, (turn + 1) * share)
            for partition in range(PARTITIONS)
        )
        await produce(bootstrap, topic, records, codec, **settings)
    checker = Checker(PARTITIONS, share * len(CODECS), make)
    await read_all(bootstrap, topic, PARTITIONS, checker.take)
    checker.finish()


async def idempotent(bootstrap, total):
    """The same, with producer ids and sequences."""
    await roundtrip(bootstrap, total, enable_idempotence=True)


SCENARIOS = {scenario.__name__: scenario for scenario in [roundtrip, idempotent]}


def main():
    """Runs the scenario that the arguments name."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SCENARIOS:
        sys.exit(__doc__)
    records = int(sys.argv[3]) if len(sys.argv) == 4 else 100_000
    asyncio.run(SCENARIOS[sys.argv[1]](sys.argv[2], records))
    print(f"passed: {sys.argv[1]}")


if __name__ == "__main__":
    main()
