"""Frames: the first exchange, and bytes that are no requests."""

import struct

from sides import SILENCE_SECONDS
from tables import APIS, Raw, header, request, uvarint


def api_versions(side):
    """The first exchange, in versions that there are and that there aren't."""
    software = {"client_software_name": "differential", "client_software_version": "1.0"}
    side.ask_all("ApiVersions: right", "ApiVersions", software)
    for name in ("", "-", "a b", "a_b", "a-", "ü"):
        side.ask_all(f"ApiVersions: software {name!r}", "ApiVersions", {**software, "client_software_name": name}, [3, 4])
        side.ask_all(f"ApiVersions: software's version {name!r}", "ApiVersions", {**software, "client_software_version": name}, [3, 4])
    for version in (5, 6, 99, 32767, -1, -32768):
        for name, body in [("nothing", b""), ("a body", b"\0" + uvarint(2) + b"a" + uvarint(2) + b"1" + b"\0")]:
            frame = header(18, version, version >= 3, 5) + body
            side.keep(f"ApiVersions: version {version}, {name}", 0, unversioned(side.raw(frame, SILENCE_SECONDS)))
            side.hang_up()


def unversioned(answered):
    """An answer whose version isn't known, as its own words."""
    return answered if isinstance(answered, str) else answered.hex()


SAMPLES = {
    "Produce": {"acks": -1, "timeout_ms": 100, "topic_data": [{"name": "x", "partition_data": [{"index": 0, "records": b""}]}]},
    "Fetch": {"topics": [{"topic": "x", "partitions": [{"partition": 0}]}]},
    "ListOffsets": {"replica_id": -1, "topics": [{"name": "x", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    "Metadata": {"topics": [{"name": "frames-nowhere"}], "allow_auto_topic_creation": False},
    "ApiVersions": {"client_software_name": "a", "client_software_version": "1"},
    "CreateTopics": {"topics": [{"name": "a b", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 100},
    "DeleteTopics": {"topics": [{"name": "frames-nowhere"}], "topic_names": ["frames-nowhere"], "timeout_ms": 100},
    "DeleteRecords": {"topics": [{"name": "x", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 100},
    "InitProducerId": {"transactional_id": None},
    "OffsetForLeaderEpoch": {"topics": [{"topic": "x", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    "DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "x", "configuration_keys": None}]},
    "AlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "x", "configs": []}]},
    "IncrementalAlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "x", "configs": []}]},
    "DescribeCluster": {},
    "CreatePartitions": {"topics": [{"name": "frames-nowhere", "count": 2}], "timeout_ms": 100},
    "DescribeLogDirs": {"topics": []},
    "ListConfigResources": {"resource_types": [16]},
    "DescribeTopicPartitions": {"topics": [{"name": "frames-nowhere"}]},
}
# Produce before 3 is advertised and refused.
OUTSIDE = {name: [api.first - 1, api.last + 1] for name, api in APIS.items() if name != "ApiVersions"}
# The field of each request that is a list, and null nowhere.
LISTS = {
    "Produce": "topic_data", "Fetch": "topics", "ListOffsets": "topics", "CreateTopics": "topics", "DeleteRecords": "topics",
    "OffsetForLeaderEpoch": "topics", "DescribeConfigs": "resources", "AlterConfigs": "resources",
    "IncrementalAlterConfigs": "resources", "CreatePartitions": "topics", "DescribeTopicPartitions": "topics",
}


def mutilated(side):
    """Each API's request in each version: cut, lengthened, with tags nobody knows, with counts that lie."""
    for name, api in APIS.items():
        for version in api.versions:
            sample = request(api, version, SAMPLES[name], 5)
            flexible = version >= api.flexible
            cut = {"cut by a byte": sample[:-1], "without a body": header(api.key, version, flexible, 5)}
            if flexible:
                cut["with an unknown tag"] = sample[:-1] + uvarint(1) + uvarint(9000) + uvarint(3) + b"abc"
                cut["with a tag longer than the frame"] = sample[:-1] + uvarint(1) + uvarint(9000) + uvarint(99) + b"abc"
            cut["with bytes behind it"] = sample + b"\0\1\2"
            if name in LISTS:
                for what, count in [("null", -1), ("count -2", -2), ("a huge count", 2**31 - 2)]:
                    if flexible and count == -2:
                        continue
                    told = uvarint(count + 1) if flexible else struct.pack(">i", count)
                    values = {**SAMPLES[name], LISTS[name]: Raw(told)}
                    cut[f"with {what} for its list"] = request(api, version, values, 5)
            for what, frame in cut.items():
                answered = side.raw(frame, SILENCE_SECONDS)
                told = answered if isinstance(answered, str) else "answered"
                side.keep(f"Frame: {name} {what}", version, told)
        for version in OUTSIDE.get(name, []):
            frame = header(api.key, version, version >= api.flexible, 5) + b"\0" * 40
            side.keep(f"Frame: {name} outside its versions", version, unversioned(side.raw(frame, SILENCE_SECONDS)))


def raw(side):
    """Bytes that don't even begin as a request."""
    versions = header(18, 0, False, 5)
    frames = {
        "unknown key": header(999, 0, False, 5), "negative key": header(-1, 0, False, 5), "removed key": header(4, 0, False, 5),
        "key alone": struct.pack(">h", 18), "no bytes": b"", "one byte": b"\0",
        "client's name longer than the frame": versions[:8] + struct.pack(">h", 99),
        "client's name of negative length": versions[:8] + struct.pack(">h", -2),
        "client's name null": versions[:8] + struct.pack(">h", -1),
        "client's name not UTF-8": versions[:8] + struct.pack(">h", 2) + b"\xff\xfe",
    }
    for name, frame in frames.items():
        answered = side.raw(frame, SILENCE_SECONDS)
        side.keep(f"Raw: {name}", 0, answered if isinstance(answered, str) else "answered")
        side.hang_up()
    for name, size in [("-1", -1), ("the least", -(2**31)), ("the largest", 2**31 - 1), ("above the limit", 101 << 20)]:
        told = side.raw(struct.pack(">i", size), SILENCE_SECONDS, sized=False)
        side.keep(f"Raw: size {name}", 0, told if isinstance(told, str) else "answered")
        side.hang_up()
    side.raw(struct.pack(">i", len(versions)) + versions[:4], 0.05, sized=False)
    side.hang_up()
    side.keep("Raw: after half a frame", 0, "answered" if not isinstance(side.raw(versions), str) else "silent")


def in_order(side):
    """Answers come in the order of the questions, whatever they cost."""
    api = APIS["Metadata"]
    frames = [request(api, 12, {"topics": []}, at) for at in range(20)]
    sent = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    first = side.raw(sent, sized=False)
    told = [first] + [side._connection.receive() for _ in frames[1:]]
    side.keep("Frame: many at once", 12, [struct.unpack(">i", each[:4])[0] for each in told])


CASES = [api_versions, mutilated, raw, in_order]
