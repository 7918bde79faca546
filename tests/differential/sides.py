"""One broker's side of a run: asks, and keeps what was answered, in words that don't depend on who answered."""

import re
import struct
import time
import uuid

import batches
import tables
from brokers import ANSWER_SECONDS, Connection

# How long a change may take to be seen by whoever asks for it.
SEEN_SECONDS = 10
# So long nothing has to come for silence to be the answer.
SILENCE_SECONDS = 0.7
TIMEOUT_MS = 10_000
# So long a case waits for what may never come, at most, and so often an end is the same when it is the last.
SETTLE_SECONDS = 0.5
SAME_ENDS = 3
# So long a case waits for an answer: a broker on a busy machine may take seconds.
CASE_SECONDS = 10
# So long one that Kafka leaves without an answer (README.md says why).
UNANSWERED = {"Produce: null": 2, "AlterConfigs: resource twice": 2}


class Side:
    """Asks one broker. What is seen is kept by label and version."""

    def __init__(self, broker, base_ms):
        self.broker = broker
        self.base_ms = base_ms
        self.seen = {}
        # More fields whose values don't count, for as long as a case says so.
        self.loose = {}
        self._connection = None
        self._correlation_id = 0

    def ask(self, label, name, version, values, more=b"", wait=None):
        """Asks and keeps the answer; answers it too, or None where there is none."""
        wait = wait or UNANSWERED.get(label, CASE_SECONDS)
        answer, told = self._exchange(name, version, values, more, wait)
        self.keep(label, version, told)
        return answer

    def ask_all(self, label, name, values, versions=None):
        """Asks in every version; `values` may be a function of the version."""
        for version in versions or tables.APIS[name].versions:
            self.ask(label, name, version, values(version) if callable(values) else values)

    def quiet(self, name, version, values):
        """Asks for what belongs to no case. The answer must come."""
        answer, told = self._exchange(name, version, values, b"", ANSWER_SECONDS)
        if answer is None:
            raise SystemExit(f"FAILED: {self.broker.name} didn't answer {name} v{version} {values}: {told}")
        return answer

    def keep(self, label, version, told):
        """Keeps something seen."""
        if (label, version) in self.seen:
            raise SystemExit(f"FAILED: two cases are called {label} v{version}")
        self.seen[label, version] = told

    def _exchange(self, name, version, values, more, wait):
        api = tables.APIS[name]
        self._correlation_id += 1
        answered = self.raw(tables.request(api, version, values, self._correlation_id, more), wait)
        if isinstance(answered, str):
            return None, answered
        if struct.unpack(">i", answered[:4])[0] != self._correlation_id:
            self.hang_up()
            return None, "an answer to another request"
        answer = tables.response(api, version, answered)
        return answer, self.words(answer)

    def raw(self, frame, wait=ANSWER_SECONDS, sized=True):
        """Sends bytes and answers the next frame, or in a word why there is none."""
        try:
            if self._connection is None:
                self._connection = Connection(self.broker.address)
            if sized:
                self._connection.send(frame)
            else:
                self._connection.send_raw(frame)
            return self._connection.receive(wait)
        except TimeoutError:
            self.hang_up()
            return "silent"
        except OSError:
            self.hang_up()
            return "closed"

    def hang_up(self):
        """Closes the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def is_alive(self):
        """Whether the broker still answers on the connection that is open."""
        if self._connection is None:
            return False
        head = tables.header(18, 0, False, 77)
        return not isinstance(self.raw(head, SILENCE_SECONDS), str)

    def until(self, name, version, values, is_right):
        """Asks until the answer is right."""
        deadline = time.monotonic() + SEEN_SECONDS
        while not is_right(answer := self.quiet(name, version, values)):
            if time.monotonic() > deadline:
                raise SystemExit(f"FAILED: {self.broker.name} never came to answer {name} as it should: {answer}")
            time.sleep(0.02)
        return answer

    # What cases begin with.

    def create(self, name, partitions=1, **configs):
        """Creates a topic that can be written to, and answers its id."""
        told = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": told}
        created = self.quiet("CreateTopics", 7, {"topics": [topic], "timeout_ms": TIMEOUT_MS})["topics"][0]
        if created["error_code"]:
            raise SystemExit(f"FAILED: {self.broker.name} doesn't create {name}: {created}")
        asked = [{"partition_index": at, "timestamp": -1} for at in range(partitions)]
        topics = {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}
        self.until("ListOffsets", 7, topics, lambda got: not any(
            each["error_code"] for each in got["topics"][0]["partitions"]
        ))
        return created["topic_id"]

    def produce(self, name, *all_batches, partition=0):
        """Appends batches, one by one."""
        for one in all_batches:
            answer = self.quiet("Produce", 9, produce(name, one, partition=partition))
            outcome = answer["responses"][0]["partition_responses"][0]
            if outcome["error_code"]:
                raise SystemExit(f"FAILED: {self.broker.name} doesn't take a batch for {name}: {outcome}")

    def producer_id(self):
        """A producer's id of its own, once the broker has any to give."""
        values = {"transactional_id": None, "transaction_timeout_ms": 1000}
        return self.until("InitProducerId", 4, values, lambda got: not got["error_code"])["producer_id"]

    def epoch(self, name, partition=0):
        """The epoch of a partition's leader."""
        told = self.quiet("Metadata", 9, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
        return {each["partition_index"]: each for each in told["topics"][0]["partitions"]}[partition]["leader_epoch"]

    def settle(self, name, version, values, is_settled):
        """Asks until the answer is as it will stay, or for a while: what is asked may rightly not be there."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not is_settled(self.quiet(name, version, values)) and time.monotonic() < deadline:
            time.sleep(0.02)

    def keep_log(self, label, name, partition=0):
        """Keeps all that is in a partition, once what is written is committed."""
        asked = {"replica_id": -1, "topics": [{"name": name, "partitions": [{"partition_index": partition, "timestamp": -1}]}]}
        ends = []

        def stays(answer):
            ends.append(answer["topics"][0]["partitions"][0]["offset"])
            return len(ends) > SAME_ENDS and len(set(ends[-SAME_ENDS:])) == 1

        self.settle("ListOffsets", 7, asked, stays)
        values = fetch(name, [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 24}])
        partition = self.words(self.quiet("Fetch", 12, values))["responses"][0]["partitions"][0]
        self.keep(f"{label}: log", 12, {"ends at": partition["high_watermark"], "records": partition["records"]})

    def keep_config(self, label, name, keys, kind=2):
        """Keeps the values of settings."""
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        self.ask(f"{label}: settings", "DescribeConfigs", 4, {"resources": [resource]})

    def words(self, value, name=""):
        """An answer without what may differ: ports, ids, texts for people."""
        if isinstance(value, dict):
            return {key: self.words(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return keyed([self.words(each, name) for each in value])
        if isinstance(value, uuid.UUID):
            return "an id" if value.int else "no id"
        if name == "records" and isinstance(value, bytes):
            return batches.describe(value, self.base_ms)
        if name in WORDS and value not in (-1, None, "") and (value or name == "producer_id"):
            return WORDS[name]
        if name in self.loose and value != -1:
            return self.loose[name]
        if isinstance(value, str):
            return re.sub(r"-v\d+\b", "-v*", value)
        if isinstance(value, int) and value > 10**12 and value < 2**60:
            return f"base+{value - self.base_ms}" if abs(value - self.base_ms) < 10**9 else "another time"
        return value


# Fields whose value is the broker's own.
WORDS = {
    "port": "a port",
    "cluster_id": "a cluster",
    "error_message": "a text",
    "batch_index_error_message": "a text",
    "documentation": "a text",
    "producer_id": "a producer",
    "session_id": "a session",
    "log_dir": "a folder",
    "total_bytes": "some bytes",
    "usable_bytes": "some bytes",
    "log_append_time_ms": "a time",
    "finalized_features_epoch": "an epoch",
}
KEYS = ["name", "topic", "api_key", "resource_name", "topic_name", "partition_index", "partition", "index"]


def keyed(values):
    """A list as a dictionary where its elements have names that differ: their order says nothing then."""
    for key in KEYS:
        if len(values) > 1 and all(isinstance(each, dict) and each.get(key) is not None for each in values):
            names = [each[key] for each in values]
            if len(set(names)) == len(names):
                return {f"<{each[key]}>": each for each in values}
    return values


def produce(name, one, topic_id=None, partition=0, **more):
    """A produce request with one batch."""
    data = [{"index": partition, "records": one}]
    topic = {"name": name, "topic_id": topic_id or uuid.UUID(int=0), "partition_data": data}
    return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [topic], **more}


def fetch(name, partitions, topic_id=None, **more):
    """A fetch of one topic that waits for nothing."""
    topic = {"topic": name, "topic_id": topic_id or uuid.UUID(int=0), "partitions": partitions}
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": [topic], **more}
