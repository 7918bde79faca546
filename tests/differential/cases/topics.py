"""Metadata, CreateTopics, DeleteTopics, DescribeCluster and InitProducerId."""

import uuid

from batches import batch
from sides import TIMEOUT_MS
from tables import APIS

UNKNOWN_ID = uuid.UUID(int=0x1234)
NAMES = {
    "empty": "", "dot": ".", "two dots": "..", "space": "a b", "slash": "a/b", "not ASCII": "tür",
    "249 letters": "n" * 249, "250 letters": "n" * 250, "all that may be": "t-Az09._-",
}


def creation(side):
    """Topics as they may be and as they may not, each in every version and then looked at."""
    plain = {"num_partitions": 2, "replication_factor": 1}
    manual = {"num_partitions": -1, "replication_factor": -1}

    def assigned(*replicas):
        return [{"partition_index": at, "broker_ids": list(ids)} for at, ids in replicas]

    def configs(*pairs):
        return {**plain, "configs": [{"name": name, "value": value} for name, value in pairs]}

    topics = {
        "plain": plain,
        "defaults": {"num_partitions": -1, "replication_factor": -1},
        "0 partitions": {**plain, "num_partitions": 0},
        "-2 partitions": {**plain, "num_partitions": -2},
        "factor 0": {**plain, "replication_factor": 0},
        "factor -2": {**plain, "replication_factor": -2},
        "factor 2": {**plain, "replication_factor": 2},
        "assigned": {**manual, "assignments": assigned((0, [1000]), (1, [1000]))},
        "assigned and counted": {**plain, "assignments": assigned((0, [1000]), (1, [1000]))},
        "assigned and counted wrong": {**plain, "num_partitions": 3, "assignments": assigned((0, [1000]))},
        "assigned with a gap": {**manual, "assignments": assigned((0, [1000]), (2, [1000]))},
        "assigned not from 0": {**manual, "assignments": assigned((1, [1000]))},
        "assigned twice": {**manual, "assignments": assigned((0, [1000]), (0, [1000]))},
        "assigned to nobody": {**manual, "assignments": assigned((0, []))},
        "assigned to a stranger": {**manual, "assignments": assigned((0, [7]))},
        "assigned to one twice": {**manual, "assignments": assigned((0, [1000, 1000]))},
        "configured": configs(("retention.ms", "60000"), ("cleanup.policy", "delete")),
        "configured: unknown": configs(("no.such.thing", "1")),
        "configured: no number": configs(("retention.ms", "soon")),
        "configured: out of range": configs(("retention.ms", "-2")),
        "configured: null": configs(("retention.ms", None)),
        "configured: twice": configs(("retention.ms", "1"), ("retention.ms", "2")),
        "configured: no name": configs(("", "1")),
        "configured: segments too small": configs(("segment.bytes", "13")),
        "configured: policy unknown": configs(("cleanup.policy", "burn")),
        "configured: min.insync.replicas 2": configs(("min.insync.replicas", "2")),
    }

    def named(name, version, body):
        return {"name": f"c-{name}-v{version}".replace(" ", "-").replace(":", ""), **body}

    for name, body in topics.items():
        for only in (True, False):
            label = f"CreateTopics: {name}" + (", validated only" if only else "")
            side.ask_all(label, "CreateTopics", lambda version, body=body, name=name, only=only: {
                "topics": [named(name, version, body)], "timeout_ms": TIMEOUT_MS, "validate_only": only
            })
        looked = {"topics": [{"name": named(name, 7, body)["name"]}], "allow_auto_topic_creation": False}
        side.settle("Metadata", 12, looked, lambda got: not got["topics"][0]["error_code"])
        side.ask(f"CreateTopics: {name}: what is there", "Metadata", 12, looked)


def names(side):
    """Names that may be given, and others."""
    body = {"num_partitions": 1, "replication_factor": 1}

    def create(*names_given, **more):
        return {"topics": [{"name": name, **body} for name in names_given], "timeout_ms": TIMEOUT_MS, **more}

    for name, given in NAMES.items():
        side.ask(f"CreateTopics: name, {name}", "CreateTopics", 7, create(given))
        looked = {"topics": [{"name": given}], "allow_auto_topic_creation": False}
        side.settle("Metadata", 12, looked, lambda got: not got["topics"][0]["error_code"])
        side.ask(f"Metadata: name, {name}", "Metadata", 12, looked)
        side.ask(f"DeleteTopics: name, {name}", "DeleteTopics", 5, {"topic_names": [given], "timeout_ms": TIMEOUT_MS})
    side.create("c.collides")
    last = APIS["CreateTopics"].versions
    side.ask_all("CreateTopics: a name that collides", "CreateTopics", create("c_collides"), last)
    side.ask_all("CreateTopics: a name that is taken", "CreateTopics", create("c.collides"), last)
    side.ask_all("CreateTopics: taken, validated only", "CreateTopics", create("c.collides", validate_only=True), last)
    side.ask_all("CreateTopics: twice in a request", "CreateTopics", create("c-twice", "c-twice", "c-once", validate_only=True), last)
    side.ask_all("CreateTopics: nothing", "CreateTopics", create(), last)
    side.ask_all("CreateTopics: one right, one wrong", "CreateTopics", lambda version: create(f"c-right-v{version}", "a b"), last)
    for name in ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state"):
        side.ask(f"CreateTopics: {name}", "CreateTopics", 7, create(name, validate_only=True))
    for timeout in (0, -1):
        label = f"CreateTopics: timeout {timeout}"
        side.ask_all(label, "CreateTopics", lambda version, t=timeout: create(f"c-timeout{t}-v{version}", timeout_ms=t), last)


def deletion(side):
    """Topics that are deleted, and those that can't be."""
    for version in APIS["DeleteTopics"].versions:
        topic_id = side.create(f"d-topic-v{version}")
        if version < 6:
            for name, given in [("unknown", ["d-nowhere"]), ("none", []), ("twice", [f"d-topic-v{version}"] * 2),
                                ("right", [f"d-topic-v{version}"]), ("gone", [f"d-topic-v{version}"])]:
                values = {"topic_names": given, "timeout_ms": TIMEOUT_MS}
                side.ask(f"DeleteTopics: {name}", "DeleteTopics", version, values)
            continue
        zero = uuid.UUID(int=0)
        other = side.create("d-by-name")
        for name, given in {
            "unknown": [("d-nowhere", zero)],
            "unknown id": [(None, UNKNOWN_ID)],
            "neither": [(None, zero)],
            "both": [(f"d-topic-v{version}", topic_id)],
            "name and another id": [("d-by-name", UNKNOWN_ID)],
            "twice": [(f"d-topic-v{version}", zero)] * 2,
            "by name and by id": [("d-by-name", zero), (None, other)],
            "by id twice": [(None, topic_id)] * 2,
            "by id": [(None, topic_id)],
            "by id, gone": [(None, topic_id)],
            "by name": [("d-by-name", zero)],
            "none": [],
        }.items():
            topics = [{"name": topic, "topic_id": topic_id_given} for topic, topic_id_given in given]
            side.ask(f"DeleteTopics: ids, {name}", "DeleteTopics", version, {"topics": topics, "timeout_ms": TIMEOUT_MS})


def growth(side):
    """Partitions that are added, and those that aren't."""
    for version in APIS["CreatePartitions"].versions:
        topic = f"g-topic-v{version}"
        side.create(topic, 2)

        def grow(name, count, assignments=None, only=False, where=topic, more=()):
            told = None if assignments is None else [{"broker_ids": each} for each in assignments]
            one = {"name": where, "count": count, "assignments": told}
            values = {"topics": [one, *more], "timeout_ms": TIMEOUT_MS, "validate_only": only}
            side.ask(f"CreatePartitions: {name}", "CreatePartitions", version, values)

        grow("as many", 2)
        grow("fewer", 1)
        grow("0", 0)
        grow("-1", -1)
        grow("validated only", 3, only=True)
        grow("assigned too few", 4, [[1000]])
        grow("assigned too many", 3, [[1000], [1000]])
        grow("assigned to a stranger", 3, [[7]])
        grow("assigned to nobody", 3, [[]])
        grow("assigned to one twice", 3, [[1000, 1000]])
        grow("assigned none", 3, [])
        grow("unknown topic", 3, where="g-nowhere")
        grow("bad name", 3, where="a b")
        grow("no name", 3, where="")
        grow("twice", 3, more=[{"name": topic, "count": 4}])
        grow("one more", 3)
        grow("assigned", 5, [[1000], [1000]])
        values = {"topics": [], "timeout_ms": TIMEOUT_MS}
        side.ask("CreatePartitions: nothing", "CreatePartitions", version, values)
        looked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        side.settle("Metadata", 12, looked, lambda got: len(got["topics"][0]["partitions"]) == 5)
        side.ask(f"CreatePartitions v{version}: what is there", "Metadata", 12, looked)


def log_dirs(side):
    """What the folders of logs hold."""
    side.create("l-topic", 2)
    side.produce("l-topic", batch(side.base_ms, 2))
    for name, asked in {
        "a topic": [("l-topic", [0, 1])], "one partition": [("l-topic", [1])], "unknown partition": [("l-topic", [9])],
        "unknown topic": [("l-nowhere", [0])], "no partitions": [("l-topic", [])], "none": [],
        "twice": [("l-topic", [0]), ("l-topic", [1])], "partition twice": [("l-topic", [0, 0])],
    }.items():
        topics = [{"topic": topic, "partitions": partitions} for topic, partitions in asked]
        side.ask_all(f"DescribeLogDirs: {name}", "DescribeLogDirs", {"topics": topics})


def pages(side):
    """Topics a page at a time."""
    for name, partitions in [("pages-a", 3), ("pages-b", 2), ("pages-c", 1)]:
        side.create(name, partitions)
    names = ["pages-b", "pages-a", "pages-c"]

    def ask(label, topics, limit=2_000, cursor=None):
        told = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        values = {"topics": [{"name": name} for name in topics], "response_partition_limit": limit, "cursor": told}
        side.ask(f"DescribeTopicPartitions: {label}", "DescribeTopicPartitions", 0, values)

    ask("three topics", names)
    ask("twice", ["pages-a", "pages-a"])
    ask("unknown", ["pages-a", "pages-nowhere"])
    ask("bad name", ["a b"])
    ask("no name", [""])
    for limit in (1, 3, 4, 6, 0, -1):
        ask(f"at most {limit}", names, limit)
    for cursor in (("pages-a", 1), ("pages-a", 3), ("pages-a", 9), ("pages-aa", 0), ("pages-b", 0), ("pages-z", 0),
                   ("pages-a", -1), ("", 0)):
        ask(f"from {cursor}", names, 2_000, cursor)
    ask("from a cursor, at most 2", names, 2, ("pages-a", 2))
    ask("all, from a cursor, at most 4", [], 4, ("pages-a", 1))


def resources(side):
    """What has settings."""
    for name in ("r-one", "r-two"):
        side.create(name)
    for kinds in ([], [2], [4], [8], [16], [32], [2, 4], [4, 4], [0], [99], [-1], [2, 99]):
        side.ask(f"ListConfigResources: {kinds}", "ListConfigResources", 1, {"resource_types": kinds})
    side.ask("ListConfigResources: in the first version", "ListConfigResources", 0, {})


def metadata(side):
    """What is told of topics that are there, and that aren't."""
    topic_id = side.create("m-topic", 2)
    quiet = {"allow_auto_topic_creation": False}
    by_name = {
        "a topic": ["m-topic"],
        "unknown": ["m-nowhere"],
        "known and unknown": ["m-topic", "m-nowhere"],
        "twice": ["m-topic", "m-topic"],
        "bad names": ["a b", ".", "..", "n" * 250],
        "no name": [""],
    }
    for name, given in by_name.items():
        def values(version, given=given):
            return {"topics": [{"name": each} for each in given], **(quiet if version >= 4 else {})}
        # Before version 4 an unknown topic is created, which is looked at below.
        versions = range(4, 14) if "nknown" in name else None
        side.ask_all(f"Metadata: {name}", "Metadata", values, versions)
    side.ask_all("Metadata: nothing", "Metadata", {"topics": []}, range(1, 14))
    zero = uuid.UUID(int=0)
    by_id = {
        "id": (None, topic_id), "unknown id": (None, UNKNOWN_ID), "neither": (None, zero), "both": ("m-topic", topic_id),
        "both, another id": ("m-topic", UNKNOWN_ID), "both, unknown name": ("m-nowhere", topic_id),
    }
    for name, (topic, given) in by_id.items():
        values = {"topics": [{"name": topic, "topic_id": given}], **quiet}
        side.ask_all(f"Metadata: by id, {name}", "Metadata", values, range(10, 14))
    for flag in ("include_topic_authorized_operations", "include_cluster_authorized_operations"):
        versions = range(8, 11) if "cluster" in flag else range(8, 14)
        side.ask_all(f"Metadata: {flag}", "Metadata", {"topics": [{"name": "m-topic"}], **quiet, flag: True}, versions)


def automatic(side):
    """Topics that are created because somebody asks for them."""
    for version in APIS["Metadata"].versions:
        values = {"topics": [{"name": f"m-automatic-v{version}"}]}
        if version >= 4:
            values["allow_auto_topic_creation"] = True

        def is_there(got):
            return got["topics"][0]["error_code"] == 0 and all(
                each["leader_id"] >= 0 for each in got["topics"][0]["partitions"]
            )

        side.until("Metadata", version, values, is_there)
        side.ask("Metadata: created by asking", "Metadata", version, values)
    side.ask("Metadata: not created for a bad name", "Metadata", 12, {"topics": [{"name": "a b"}], "allow_auto_topic_creation": True})
    for name in ("m-collides.x", "m-collides_x"):
        values = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        if "." in name:
            side.until("Metadata", 12, values, lambda got: got["topics"][0]["error_code"] == 0)
        else:
            side.ask("Metadata: not created for a name that collides", "Metadata", 12, values)


def cluster(side):
    """The brokers, and whom else one may ask for."""
    for endpoint in (1, 2, 0, 3, -1):
        versions = range(1, 3) if endpoint != 1 else None
        for asked in (False, True):
            values = {"endpoint_type": endpoint, "include_cluster_authorized_operations": asked}
            label = f"DescribeCluster: endpoints {endpoint}" + (", operations" if asked else "")
            side.ask_all(label, "DescribeCluster", values, versions)
    side.ask_all("DescribeCluster: fenced", "DescribeCluster", {"include_fenced_brokers": True}, [2])


def producer_ids(side):
    """Ids for producers without transactions."""
    last = APIS["InitProducerId"].versions
    plain = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    own = side.producer_id()
    side.ask_all("InitProducerId: plain", "InitProducerId", plain, last)
    for timeout in (0, -1, 2**31 - 1):
        side.ask_all(f"InitProducerId: timeout {timeout}", "InitProducerId", {**plain, "transaction_timeout_ms": timeout}, last)
    side.ask_all("InitProducerId: transactional id without letters", "InitProducerId", {**plain, "transactional_id": ""}, last)
    for name, producer, epoch in [("its own", own, 0), ("unknown", 2**40, 3), ("id alone", 5, -1), ("epoch alone", -1, 5)]:
        values = {**plain, "producer_id": producer, "producer_epoch": epoch}
        side.ask_all(f"InitProducerId: again, {name}", "InitProducerId", values, range(3, 6))


# What lists all there is comes first.
CASES = [resources, creation, names, deletion, growth, log_dirs, pages, metadata, automatic, cluster, producer_ids]
