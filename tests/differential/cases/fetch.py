"""Fetch: what is read, and what isn't."""

import uuid

from batches import batch
from sides import TIMEOUT_MS, fetch
from tables import APIS

UNKNOWN_ID = uuid.UUID(int=0x1234)
TOPIC = "f-three"


def prepare(side):
    """Three batches of two records in partition 0, one in partition 1."""
    topic_id = side.create(TOPIC, 2)
    side.produce(TOPIC, *(batch(side.base_ms + 10 * at, 2) for at in range(3)))
    side.produce(TOPIC, batch(side.base_ms, 2), partition=1)
    return topic_id


def one(offset=0, partition=0, **more):
    """A partition's part of a request."""
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}


def reading(side):
    """Offsets, epochs, sizes and levels, each in every version."""
    topic_id = prepare(side)
    epoch = side.epoch(TOPIC)
    partitions = {
        "from the start": [one()],
        "from the middle of a batch": [one(3)],
        "from the end": [one(6)],
        "beyond the end": [one(7)],
        "offset -1": [one(-1)],
        "offset -2": [one(-2)],
        "largest offset": [one(2**63 - 1)],
        "partition 9": [one(0, 9)],
        "partition -1": [one(0, -1)],
        "two partitions": [one(), one(0, 1)],
        "two partitions, the other way round": [one(0, 1), one()],
        "partition twice": [one(), one()],
        "1 byte a partition": [one(partition_max_bytes=1), one(0, 1, partition_max_bytes=1)],
        "0 bytes a partition": [one(partition_max_bytes=0)],
        "negative bytes a partition": [one(partition_max_bytes=-1)],
        "a batch and a half": [one(partition_max_bytes=140)],
        "no partitions": [],
        "log start offset 5": [one(log_start_offset=5)],
        "leader's epoch": [one(current_leader_epoch=epoch)],
        "later epoch": [one(current_leader_epoch=epoch + 1)],
        "epoch -2": [one(current_leader_epoch=-2)],
        "fetched in the leader's epoch": [one(3, last_fetched_epoch=epoch, current_leader_epoch=epoch)],
        "fetched in a later epoch": [one(3, last_fetched_epoch=epoch + 1, current_leader_epoch=epoch)],
    }
    if epoch > 0:
        partitions["earlier epoch"] = [one(current_leader_epoch=epoch - 1)]
    for name, asked in partitions.items():
        side.ask_all(f"Fetch: {name}", "Fetch", fetch(TOPIC, asked, topic_id))
    for name, more in options().items():
        side.ask_all(f"Fetch: {name}", "Fetch", fetch(TOPIC, [one(), one(0, 1)], topic_id, **more))
    for version in (14, APIS["Fetch"].last):
        state = {"replica_id": 5, "replica_state": {"replica_id": 5, "replica_epoch": -1}}
        side.ask("Fetch: as replica 5", "Fetch", version, fetch(TOPIC, [one()], topic_id, **state))


def options():
    """What holds for a request as a whole."""
    return {
        "1 byte": {"max_bytes": 1},
        "0 bytes": {"max_bytes": 0},
        "negative bytes": {"max_bytes": -1},
        "committed only": {"isolation_level": 1},
        "level 2": {"isolation_level": 2},
        "level -1": {"isolation_level": -1},
        "replica -2": {"replica_id": -2, "replica_state": {"replica_id": -2, "replica_epoch": -1}},
        "rack": {"rack_id": "there"},
        "min bytes negative": {"min_bytes": -1},
        "wait negative": {"max_wait_ms": -1},
        "min bytes in time": {"min_bytes": 1 << 20, "max_wait_ms": 100},
        "another cluster's id": {"cluster_id": "another"},
        "no topics": {"topics": []},
        "forgotten without a session": {
            "forgotten_topics_data": [{"topic": TOPIC, "topic_id": UNKNOWN_ID, "partitions": [0]}]
        },
    }


def whence(side):
    """Topics that aren't there."""
    for name in ("f-nowhere", "", "bad name"):
        side.ask_all(f"Fetch: topic {name!r}", "Fetch", fetch(name, [one()], UNKNOWN_ID))
    side.ask_all("Fetch: zero id", "Fetch", fetch("f-nowhere", [one()]), versions=[13, APIS["Fetch"].last])
    topic_id = side.create("f-empty")
    side.ask_all("Fetch: empty topic", "Fetch", fetch("f-empty", [one()], topic_id))
    side.ask_all("Fetch: empty topic, offset 1", "Fetch", fetch("f-empty", [one(1)], topic_id))


def deleted(side):
    """Records before the start of the log."""
    side.create("f-deleted")
    side.produce("f-deleted", *(batch(side.base_ms, 2) for _ in range(3)))
    partitions = [{"partition_index": 0, "offset": 3}]
    topics = [{"name": "f-deleted", "partitions": partitions}]
    side.quiet("DeleteRecords", 2, {"topics": topics, "timeout_ms": TIMEOUT_MS})
    for offset in (0, 2, 3, 4):
        side.ask_all(f"Fetch: deleted below 3, offset {offset}", "Fetch", fetch("f-deleted", [one(offset)]), versions=[4, 11, 12])


def sessions(side):
    """Sessions, right and wrong. Each label is one step; the session is the one that was last given."""
    for version in (7, 12, APIS["Fetch"].last):
        topic_id = side.create(f"f-session-v{version}", 2)
        topic = f"f-session-v{version}"
        side.produce(topic, batch(side.base_ms, 2))
        held = {"id": 0}

        def step(name, epoch, partitions, session=None, forget=()):
            values = fetch(topic, partitions, topic_id, session_epoch=epoch)
            values["session_id"] = held["id"] if session is None else session
            if not partitions:
                values["topics"] = []
            values["forgotten_topics_data"] = [
                {"topic": topic, "topic_id": topic_id, "partitions": list(forget)}
            ] if forget else []
            answer = side.ask(f"Fetch: session, {name}", "Fetch", version, values)
            if answer and answer["session_id"]:
                held["id"] = answer["session_id"]

        step("none", -1, [one()], 0)
        step("unknown", 1, [], 99)
        step("unknown, with partitions", 1, [one()], 99)
        step("unknown, closed", -1, [], 99)
        step("unknown, opened again", 0, [one()], 99)
        step("epoch without id", 1, [one()], 0)
        step("epoch -2", -2, [one()], 0)
        step("opened", 0, [one(), one(0, 1)], 0)
        step("nothing new but what wasn't read", 1, [])
        step("further", 2, [one(2)])
        step("nothing new", 3, [])
        step("wrong epoch", 9, [])
        step("epoch again", 3, [])
        step("partition unknown", 4, [one(0, 9)])
        step("partition still unknown", 5, [])
        step("forgotten", 6, [], forget=[0, 9])
        step("what is left", 7, [])
        step("forgotten, never known", 8, [], forget=[7])
        side.produce(topic, batch(side.base_ms, 2), partition=1)
        step("something new", 9, [])
        step("closed, read once more", -1, [one()])
        step("after it was closed", 10, [])
        step("opened with nothing", 0, [], 0)


CASES = [reading, whence, deleted, sessions]
