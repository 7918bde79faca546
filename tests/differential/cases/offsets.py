"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where records are, and where they end."""

import gzip

from batches import batch, record
from sides import TIMEOUT_MS

TOPIC = "o-six"


def prepare(side):
    """Six records in three batches, 10 ms from batch to batch, the second the youngest."""
    side.create(TOPIC, 2)
    for past in (0, 20, 10):
        side.produce(TOPIC, batch(side.base_ms + past, 2))


def listing(partition=0, timestamp=-1, topic=TOPIC, **more):
    """A request for one offset."""
    asked = {"partition_index": partition, "timestamp": timestamp}
    if "epoch" in more:
        asked["current_leader_epoch"] = more.pop("epoch")
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [asked]}], "timeout_ms": TIMEOUT_MS, **more}


def times(side):
    """Every special time and others, in every version."""
    prepare(side)
    base = side.base_ms
    past = {"before all": base - 1, "the first": base, "of a second record": base + 1, "between": base + 15,
            "the youngest": base + 21, "after all": base + 22, "zero": 0}
    for partition, held in [(0, "records"), (1, "nothing")]:
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100, -(2**63)):
            side.ask_all(f"ListOffsets: {timestamp}, {held}", "ListOffsets", listing(partition, timestamp))
        for name, timestamp in past.items():
            side.ask_all(f"ListOffsets: time {name}, {held}", "ListOffsets", listing(partition, timestamp))
    epoch = side.epoch(TOPIC)
    others = {
        "unknown topic": listing(topic="o-nowhere"),
        "topic without a name": listing(topic=""),
        "partition 9": listing(9),
        "partition -1": listing(-1),
        "leader's epoch": listing(epoch=epoch),
        "later epoch": listing(epoch=epoch + 1),
        "committed only": listing(isolation_level=1),
        "level 2": listing(isolation_level=2),
        "replica -2": listing(replica_id=-2),
        "replica 5": listing(replica_id=5),
        "replica 1000": listing(replica_id=1000),
        "no topics": {"replica_id": -1, "topics": []},
        "no timeout": listing(timestamp=base, timeout_ms=0),
        "partition twice": {
            "replica_id": -1,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": at} for at in (-1, -2)]}],
        },
    }
    for name, values in others.items():
        side.ask_all(f"ListOffsets: {name}", "ListOffsets", values)


def alike(side):
    """Records of the same time: which of them is the first, and which the youngest."""
    base = side.base_ms

    def same_time(timestamp, count, **more):
        records = b"".join(record(at) for at in range(count))
        return batch(timestamp, count, records=records, max_timestamp_ms=timestamp, **more)

    squeezed = gzip.compress(record(0) + record(1, 9) + record(2, 9) + record(3, 2), mtime=0)
    logs = {
        "in a batch": [same_time(base, 3)],
        "in two batches": [same_time(base, 3), same_time(base, 2)],
        "and older ones": [same_time(base, 3), same_time(base, 2), same_time(base - 5, 2)],
        "after older ones": [same_time(base - 5, 2), same_time(base, 3), same_time(base, 2)],
        "compressed": [batch(base, 4, attributes=1, records=squeezed, max_timestamp_ms=base + 9)],
    }
    for name, sent in logs.items():
        topic = f"o-{name.replace(' ', '-')}"
        side.create(topic)
        side.produce(topic, *sent)
        for timestamp in (-3, base, base + 1):
            label = f"ListOffsets: alike {name}, {'greatest' if timestamp < 0 else timestamp - base}"
            side.ask(label, "ListOffsets", 7, listing(0, timestamp, topic))


def epochs(side):
    """Ends of epochs that are, will be and never were."""
    side.create("o-epochs")
    side.produce("o-epochs", batch(side.base_ms, 3))
    side.create("o-epochs-empty")
    epoch = side.epoch("o-epochs")
    for topic in ("o-epochs", "o-epochs-empty", "o-nowhere"):
        for name, asked in [("its own", epoch), ("a later", epoch + 1), ("-1", -1), ("-2", -2)]:
            partition = {"partition": 0, "leader_epoch": asked}
            values = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition]}]}
            side.ask_all(f"OffsetForLeaderEpoch: {name}, {topic}", "OffsetForLeaderEpoch", values)
    for name, current in [("the leader's", epoch), ("a later", epoch + 1), ("-2", -2)]:
        partition = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
        values = {"replica_id": -1, "topics": [{"topic": "o-epochs", "partitions": [partition]}]}
        side.ask_all(f"OffsetForLeaderEpoch: {name} as current", "OffsetForLeaderEpoch", values)
    partitions = [{"partition": at, "leader_epoch": epoch} for at in (9, -1)]
    values = {"replica_id": -1, "topics": [{"topic": "o-epochs", "partitions": partitions}]}
    side.ask_all("OffsetForLeaderEpoch: unknown partitions", "OffsetForLeaderEpoch", values)
    for replica in (-2, 5):
        partition = {"partition": 0, "leader_epoch": epoch}
        values = {"replica_id": replica, "topics": [{"topic": "o-epochs", "partitions": [partition]}]}
        side.ask_all(f"OffsetForLeaderEpoch: replica {replica}", "OffsetForLeaderEpoch", values)


def deletions(side):
    """The oldest records go, as far as there are any."""
    for version in range(3):
        topic = f"o-deleted-v{version}"
        side.create(topic)
        side.produce(topic, *(batch(side.base_ms, 2) for _ in range(3)))

        def delete(name, *asked, where=topic, timeout=TIMEOUT_MS):
            partitions = [{"partition_index": partition, "offset": offset} for partition, offset in asked]
            values = {"topics": [{"name": where, "partitions": partitions}], "timeout_ms": timeout}
            side.ask(f"DeleteRecords: {name}", "DeleteRecords", version, values)

        delete("none", (0, 0))
        delete("one", (0, 1))
        delete("again", (0, 1))
        delete("back", (0, 0))
        delete("beyond the end", (0, 7))
        delete("-2", (0, -2))
        delete("unknown partition", (9, 0))
        delete("partition -1", (-1, 0))
        delete("unknown topic", (0, 0), where="o-nowhere")
        delete("bad name", (0, 0), where="bad name")
        delete("no partitions")
        delete("partition twice", (0, 2), (0, 3))
        delete("no timeout", (0, 4), timeout=0)
        delete("all", (0, -1))
        delete("all again", (0, -1))
        for name, timestamp in [("start", -2), ("end", -1)]:
            asked = {"partition_index": 0, "timestamp": timestamp}
            values = {"replica_id": -1, "topics": [{"name": topic, "partitions": [asked]}]}
            side.ask(f"DeleteRecords v{version}: {name}", "ListOffsets", 7, values)


CASES = [times, alike, epochs, deletions]
