"""Produce: batches, right and wrong."""

import gzip
import uuid

from batches import batch, record
from brokers import MESSAGE_BYTES_MAX
from sides import TIMEOUT_MS, produce
from tables import APIS

DAY_MS = 86_400_000
UNKNOWN_ID = uuid.UUID(int=0x1234)


def single(base):
    """Batches that are sent alone, each in every version, by what they are called."""
    garbage = b"\xff\x00garbage that no codec knows\x80"
    one = batch(base)
    return {
        "right": one,
        "three records": batch(base, 3),
        "bad checksum": batch(base, crc_error=1),
        "magic 0": batch(base, magic=0),
        "magic 1": batch(base, magic=1),
        "magic 3": batch(base, magic=3),
        "no bytes": b"",
        "null": None,
        "five bytes": b"\0" * 5,
        "head alone, too short": one[:30],
        "cut short": one[:-1],
        "byte behind it": one + b"\0",
        "length too small": batch(base, length_error=-1),
        "length too large": batch(base, length_error=1),
        "length negative": batch(base, length_error=-1000),
        "two batches": one + one,
        "control batch": batch(base, attributes=0x20),
        "transactional": batch(base, attributes=0x10),
        "transactional, producer": batch(base, attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0),
        "delete horizon": batch(base, attributes=0x40),
        "unused attribute": batch(base, attributes=0x80),
        "log append time": batch(base, attributes=0x08),
        "base offset 5": batch(base, base_offset=5),
        "base offset -1": batch(base, base_offset=-1),
        "epoch 9": batch(base, epoch=9),
        "last offset delta too small": batch(base, 2, last_offset_delta=0),
        "last offset delta too large": batch(base, 2, last_offset_delta=2),
        "last offset delta negative": batch(base, 1, last_offset_delta=-1),
        "count too small": batch(base, 2, record_count=1, last_offset_delta=0),
        "count too large": batch(base, 2, record_count=3, last_offset_delta=2),
        "no records": batch(base, 0, records=b"", record_count=0, last_offset_delta=0),
        "no records, delta -1": batch(base, 0),
        "count negative": batch(base, 1, record_count=-1),
        "offset deltas from 1": batch(base, 1, records=record(1)),
        "offset deltas twice the same": batch(base, 2, records=record(0) + record(0)),
        "record with bytes left": batch(base, 1, records=record(0, more=b"\0\0")),
        "bytes behind the records": batch(base, 1, records=record(0) + b"\0\0"),
        "record of garbage": batch(base, 1, records=garbage),
        "no timestamp": batch(-1, 1),
        "timestamp -2": batch(-2, 1),
        "timestamp 0": batch(0, 1),
        "a day ahead": batch(base + DAY_MS, 1),
        "a century ahead": batch(base + 36_525 * DAY_MS, 1),
        "max timestamp wrong": batch(base, 2, max_timestamp_ms=base + 5000),
        "null key, null value": batch(base, 1, key=None, value=None),
        "too large": batch(base, 1, value=b"x" * MESSAGE_BYTES_MAX),
        "gzip": batch(base, 2, attributes=1, records=gzip.compress(record(0) + record(1, 1), mtime=0)),
        "gzip, count too large": batch(base, 3, attributes=1, records=gzip.compress(record(0) + record(1, 1), mtime=0)),
        "gzip, cut": batch(base, 1, attributes=1, records=gzip.compress(record(0), mtime=0)[:-9]),
        "gzip of nothing": batch(base, 1, attributes=1, records=b""),
        **{f"{name} of garbage": batch(base, 1, attributes=at, records=garbage)
           for at, name in [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")]},
        **{f"codec {at}": batch(base, 1, attributes=at) for at in (5, 6, 7)},
        "producer without sequence": batch(base, 1, producer_id=7, producer_epoch=0),
        "producer without epoch": batch(base, 1, producer_id=7, base_sequence=0),
        "sequence without producer": batch(base, 1, producer_epoch=0, base_sequence=0),
    }


def batches_alone(side):
    """Each batch to a topic of its own, then all that the topic holds."""
    for name, one in single(side.base_ms).items():
        topic = "p-" + "".join(letter if letter.isalnum() else "-" for letter in name)
        topic_id = side.create(topic)
        # The log, below, tells the offsets.
        side.loose = {"base_offset": "an offset"}
        # Kafka leaves a null unanswered, which takes its time.
        versions = [3, 13] if one is None else None
        side.ask_all(f"Produce: {name}", "Produce", produce(topic, one, topic_id), versions)
        side.loose = {}
        side.keep_log(f"Produce: {name}", topic)


def acks(side):
    """Every way to be answered, and others."""
    topic_id = side.create("p-acks")
    one = batch(side.base_ms)
    for wanted in (-1, 1, 2, -2, 100):
        side.ask_all(f"Produce: acks {wanted}", "Produce", produce("p-acks", one, topic_id, acks=wanted))
    for timeout in (0, -1):
        values = produce("p-acks", one, topic_id, timeout_ms=timeout, acks=1)
        side.ask_all(f"Produce: timeout {timeout}", "Produce", values)
    # What isn't flushed isn't told yet; a record that waits for it takes the others along.
    side.produce("p-acks", one)
    side.keep_log("Produce: acks", "p-acks")


def no_answer(side):
    """With acks 0 nothing comes, unless the connection is closed over an error."""
    topic_id = side.create("p-acks-0")
    asked = {
        "right": produce("p-acks-0", batch(side.base_ms), topic_id, acks=0),
        "bad checksum": produce("p-acks-0", batch(side.base_ms, crc_error=1), topic_id, acks=0),
        "unknown partition": produce("p-acks-0", batch(side.base_ms), topic_id, partition=9, acks=0),
        "unknown topic": produce("p-nowhere", batch(side.base_ms), UNKNOWN_ID, acks=0),
    }
    for name, values in asked.items():
        for version in (3, APIS["Produce"].last):
            side.ask(f"Produce: acks 0, {name}", "Produce", version, values, wait=0.5)
    side.produce("p-acks-0", batch(side.base_ms))
    side.keep_log("Produce: acks 0", "p-acks-0")


def whereto(side):
    """Topics and partitions that aren't there, or are there twice."""
    topic_id = side.create("p-where", 2)
    one = batch(side.base_ms)
    # The log, below, tells the offsets.
    side.loose = {"base_offset": "an offset"}
    for partition in (-1, 2, 2**31 - 1):
        values = produce("p-where", one, topic_id, partition=partition)
        side.ask_all(f"Produce: partition {partition}", "Produce", values)
    for name in ("p-nowhere", "", "bad name", "p" * 250):
        label = f"Produce: topic {name[:10]!r}"
        side.ask_all(label, "Produce", produce(name, one, UNKNOWN_ID))
    side.ask_all("Produce: zero id", "Produce", produce("p-where", one), versions=[13])
    data = {"name": "p-where", "topic_id": topic_id}
    pair = [{"index": 0, "records": one}, {"index": 1, "records": batch(side.base_ms, crc_error=1)}]
    mixed = {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [{**data, "partition_data": pair}]}
    side.ask_all("Produce: one right, one wrong", "Produce", mixed)
    twice = {**mixed, "topic_data": [{**data, "partition_data": pair[:1] * 2}]}
    side.ask_all("Produce: partition twice", "Produce", twice)
    again = {**mixed, "topic_data": [{**data, "partition_data": pair[:1]}] * 2}
    side.ask_all("Produce: topic twice", "Produce", again)
    side.ask_all("Produce: no topics", "Produce", {**mixed, "topic_data": []})
    side.ask_all("Produce: no partitions", "Produce", {**mixed, "topic_data": [{**data, "partition_data": []}]})
    side.loose = {}
    side.keep_log("Produce: whereto", "p-where")


def transactional_id(side):
    """Outside a transaction, a transactional id is none of a batch's business."""
    topic_id = side.create("p-transactional-id")
    side.loose = {"base_offset": "an offset"}
    for name in ("", "some"):
        values = produce("p-transactional-id", batch(side.base_ms), topic_id, transactional_id=name)
        side.ask_all(f"Produce: transactional id {name!r}", "Produce", values)
    side.loose = {}


def sequences(side):
    """What an idempotent producer may send, and may not."""
    topic_id = side.create("p-sequences")
    side.create("p-late")
    producer_id = side.producer_id()

    def send(label, epoch, sequence, count=2, topic="p-sequences", own_id=producer_id):
        one = batch(side.base_ms, count, producer_id=own_id, producer_epoch=epoch, base_sequence=sequence)
        version = APIS["Produce"].last if topic == "p-sequences" else 12
        side.ask(f"Produce: sequence, {label}", "Produce", version, produce(topic, one, topic_id))

    send("first", 0, 0)
    send("next", 0, 2)
    send("duplicate", 0, 2)
    send("duplicate of the first", 0, 0)
    send("gap", 0, 8)
    send("overlap", 0, 3)
    send("shorter duplicate", 0, 2, count=1)
    for at in range(6):
        send(f"one of six: {at}", 0, 4 + 2 * at)
    send("duplicate long ago", 0, 2)
    send("new epoch in the middle", 1, 5)
    send("new epoch from 0", 1, 0)
    send("old epoch", 0, 16)
    send("epoch skipped", 7, 0)
    send("sequence -1", 7, -1)
    send("unknown producer in the middle", 0, 5, own_id=producer_id + 500)
    send("unknown producer from 0", 0, 0, own_id=producer_id + 501)
    send("id never given out", 0, 0, own_id=2**40)
    send("first of another partition, not 0", 0, 4, topic="p-late")
    send("end of the numbers", 8, 0)
    send("near the end of the numbers", 9, 2**31 - 2, topic="p-late", own_id=producer_id + 600)
    send("round the end of the numbers", 9, 0, topic="p-late", own_id=producer_id + 600)
    side.keep_log("Produce: sequence", "p-sequences")
    side.keep_log("Produce: sequence, late", "p-late")


def topic_settings(side):
    """Topics whose settings make a batch right or wrong."""
    base = side.base_ms
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    topics = {
        "append-time": ({"message_timestamp_type": "LogAppendTime"}, [batch(base, 2), batch(base, 2, attributes=8), batch(-1)]),
        "bounds": (bounds, [batch(base), batch(base + DAY_MS), batch(-1)]),
        "small": ({"max_message_bytes": "100"}, [batch(base), batch(base, 3), batch(base, 1, value=b"x" * 200)]),
        "compacted": ({"cleanup_policy": "compact"}, [batch(base), batch(base, 1, key=None)]),
        "gzip": ({"compression_type": "gzip"}, [batch(base)]),
        "zstd": ({"compression_type": "zstd"}, [batch(base)]),
        "uncompressed": (
            {"compression_type": "uncompressed"},
            [batch(base, 2, attributes=1, records=gzip.compress(record(0) + record(1, 1), mtime=0))],
        ),
    }
    for name, (configs, sent) in topics.items():
        told = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": f"p-with-{name}", "num_partitions": 1, "replication_factor": 1, "configs": told}
        created = side.ask(f"Produce: settings, {name}: created", "CreateTopics", 7, {"topics": [topic], "timeout_ms": TIMEOUT_MS})
        if created["topics"][0]["error_code"]:
            continue
        asked = {"replica_id": -1, "topics": [{"name": f"p-with-{name}", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
        side.until("ListOffsets", 7, asked, lambda got: not got["topics"][0]["partitions"][0]["error_code"])
        for at, one in enumerate(sent):
            side.ask(f"Produce: settings, {name} {at}", "Produce", 9, produce(f"p-with-{name}", one))
        side.keep_log(f"Produce: settings, {name}", f"p-with-{name}")


CASES = [batches_alone, acks, no_answer, whereto, transactional_id, sequences, topic_settings]
