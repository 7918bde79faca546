"""Clients: `ringlog bench` as the customer, and one that asks single questions."""

import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests/differential"))

import batches  # noqa: E402  (where it is found is said above)
import tables  # noqa: E402

ANSWER_SECONDS = 30
# Which figures of a customer a bound is on, by name. How long client and broker waited for a processor, in seconds a second,
# says how much of a ratio is the host's.
FIGURES = {"produce p50 ms": False, "produce p99 ms": True, "end to end p50 ms": False, "end to end p99 ms": True}
FIGURES |= {"client waited for a processor": False, "broker waited for a processor": False}
FIGURES |= {"processors in use by the broker": False}


def bench(options, broker, *words):
    """Starts `ringlog bench` against the broker."""
    command = [options.ringlog, "bench", "--bootstrap", ",".join(broker.addresses), "--json", *map(str, words)]
    # Files, since a pipe that nobody reads would hold it up.
    out, said = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
    process = subprocess.Popen(command, stdout=out, stderr=said)
    process.report = (out, said)
    return process


def report(process):
    """What it found, when it has ended; its exit code isn't looked at, since it says "too slow" too."""
    process.wait()
    texts = []
    for file in process.report:
        with file:
            file.seek(0)
            texts.append(file.read())
    if not texts[0].strip():
        raise SystemExit(f"{' '.join(process.args)}: exit code {process.returncode}\n{texts[1]}")
    return json.loads(texts[0])


def customer(options, broker, seconds=None):
    """One customer's latencies at a modest rate. Nothing of what was acknowledged to it may be lost."""
    words = ["--rate", options.rate, "--duration", f"{seconds or options.seconds}s", "--warmup", "1s"]
    words += ["--producers", 1, "--consumers", 1]
    start, waited, used = time.monotonic(), broker.waited_seconds(), broker.processor_seconds()
    load = report(bench(options, broker, *words))["phases"][0]["load"]
    took = time.monotonic() - start
    waited, used = (broker.waited_seconds() - waited) / took, (broker.processor_seconds() - used) / took
    verdict = load["verdict"]
    if verdict["lost"] or verdict["repeated"] or verdict["corrupt"] or load["failed"] or not load["is_drained"]:
        raise SystemExit(f"the customer wasn't served: {verdict}, failed {load['failed']}: {load['first_failure']}")
    told = {}
    for name, latency in (("produce", load["produce_latency"]), ("end to end", load["end_to_end_latency"])):
        for part in ("p50", "p99"):
            told[f"{name} {part} ms"] = latency[part] / 1e6
    told["client waited for a processor"] = load["processors"]["waiting"]
    told["broker waited for a processor"] = waited
    told["processors in use by the broker"] = used
    return told


def retriable_codes():
    """The error codes after which clients try again, as the broker's own table has them."""
    text = (REPOSITORY / "net/wire/src/error_code.rs").read_text()
    return {int(code) for code in re.findall(r"^\s+\w+ = (-?\d+), retriable;", text, re.M)}


class Client:
    """One connection that asks and waits."""

    def __init__(self, address, receive_bytes=None, source=None):
        self.socket = socket.socket()
        self.socket.settimeout(ANSWER_SECONDS)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source:
            self.socket.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT: the port is chosen by the whole pair.
            self.socket.bind((source, 0))
        host, _, port = address.rpartition(":")
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._asked = 0

    def send(self, name, version, values):
        """Asks and doesn't wait."""
        self._asked += 1
        self.socket.sendall(frame(name, version, values, self._asked))

    def receive(self):
        """The bytes of the next answer."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, name, version, values):
        """Asks, and answers the answer."""
        self.send(name, version, values)
        return tables.response(tables.APIS[name], version, self.receive())

    def exchange(self, request):
        """Sends bytes that are ready and answers the answer's."""
        self.socket.sendall(request)
        return self.receive()

    def _exactly(self, size):
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return bytes(data)

    def close(self, resets=False):
        if resets:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def frame(name, version, values, correlation_id=1):
    """A request with its size before it."""
    return sized(tables.request(tables.APIS[name], version, values, correlation_id))


def sized(body):
    """With its size before it."""
    return struct.pack(">i", len(body)) + body


def batch(value=b"x" * 100):
    """A batch of one record of now."""
    return batches.batch(int(time.time() * 1000), value=value)


def produce(topic, partitions, one):
    """A produce of a batch to each of some partitions, durable."""
    data = [{"index": partition, "records": one} for partition in partitions]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": [{"name": topic, "partition_data": data}]}


def fetch(topic, offsets, **more):
    """A fetch of some partitions from their offsets on."""
    limit = more.pop("partition_bytes", 1 << 20)
    asked = [{"partition": at, "fetch_offset": offset, "partition_max_bytes": limit} for at, offset in offsets.items()]
    topics = [{"topic": topic, "partitions": asked}]
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 50 << 20, "topics": topics, **more}


def led_by(broker, topic):
    """The partitions of each address."""
    led = {}
    for partition in broker.topic("describe", topic)["partitions"]:
        led.setdefault(partition["endpoint"], []).append(partition)
    return led
