"""Records frames of real clients, for tests of the codec to read:

    tap.py [--kafka] RINGLOG CLIENTS VECTORS

Starts a broker that tells clients to come to a proxy, has every client make its round trip with a few records, and keeps
of each client, API and version the first exchange and the longest small one:
VECTORS/<client>/<api>-v<version>-<n>.request and .response, whole frames with their size. With --kafka the broker is an
Apache Kafka, and what its own client and kafka-python get from it goes to VECTORS/apache-kafka. CLIENTS is where
install.sh put the clients.
"""

import argparse
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "differential"))

import brokers  # noqa: E402
import kafka_tools  # noqa: E402
import tables  # noqa: E402

RECORDS = "40"
# The first exchange may have so many bytes each way, the other so many.
FIRST_BYTES_MAX = 12_000
OTHER_BYTES_MAX = 2_000
WAIT_SECONDS = 120
NAMES = {api.key: name for name, api in tables.APIS.items()}


class Tap:
    """A proxy that keeps exchanges. One at a time has the client's name."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.upstream = None
        self.kept = {}
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """Takes connections for as long as the program runs."""
        while True:
            client, _ = self.listener.accept()
            broker = socket.create_connection(self.upstream)
            asked = {}
            for source, sink, take in [
                (client, broker, lambda frame, asked=asked: asked.__setitem__(frame[8:12], frame)),
                (broker, client, lambda frame, asked=asked: self.keep(asked.pop(frame[4:8], None), frame)),
            ]:
                threading.Thread(target=pump, args=(source, sink, take), daemon=True).start()

    def keep(self, request, response):
        """Keeps an exchange when it is one that is wanted."""
        if request is None:
            return
        key, version = struct.unpack(">hh", request[4:8])
        if key not in NAMES or version not in tables.APIS[NAMES[key]].versions:
            return
        with self.lock:
            kept = self.kept.setdefault((NAMES[key], version), [])
            if max(len(request), len(response)) <= (OTHER_BYTES_MAX if kept else FIRST_BYTES_MAX):
                kept.append((request, response))
            # The first, and the longest of the others.
            kept[1:] = sorted(kept[1:], key=lambda pair: len(pair[0]) + len(pair[1]))[-1:]

    def write(self, folder):
        """Writes what was kept, and forgets it."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with self.lock:
            for (name, version), kept in sorted(self.kept.items()):
                for number, pair in enumerate(kept, 1):
                    for suffix, frame in zip(["request", "response"], pair):
                        (folder / f"{name}-v{version}-{number}.{suffix}").write_bytes(frame)
            count = sum(map(len, self.kept.values()))
            self.kept = {}
        print(f"{folder.name}: {count} exchanges")


def pump(source, sink, take):
    """Hands bytes on, and whole frames to `take`."""
    unread = bytearray()
    try:
        while data := source.recv(1 << 16):
            unread += data
            while len(unread) >= 4 and len(unread) >= 4 + struct.unpack(">i", unread[:4])[0]:
                end = 4 + struct.unpack(">i", unread[:4])[0]
                take(bytes(unread[:end]))
                del unread[:end]
            sink.sendall(data)
    except OSError:
        pass
    for each in (source, sink):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def run(command, stdin="", **environment):
    """A client's program, which must pass."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise SystemExit(f"FAILED: {command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def clients(folder, bootstrap, scratch):
    """What each client is to do, by its name."""
    python, java = str(folder / "venv/bin/python3"), folder / "java"

    def script(name, *scenarios):
        return lambda: [run([python, str(HERE / name), each, bootstrap, RECORDS]) for each in scenarios]

    def round_trip(libraries):
        return lambda: [
            run(["java", "-cp", f"{java / libraries}/*", str(HERE / "java/RoundTrip.java"), each, bootstrap, RECORDS])
            for each in ("roundtrip", "plain")
        ]

    def kcat():
        common = ["kcat", "-b", bootstrap]
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            run([*common, "-P", "-t", "kcat", "-z", codec, "-K", ":", "-X", "acks=all"], stdin="key:value\n" * 10)
        run([*common, "-L"])
        run([*common, "-C", "-t", "kcat", "-o", "beginning", "-e", "-q"])
        run([*common, "-Q", "-t", "kcat:0:-1"])

    def kafkajs():
        first_ms = str(int(time.time() * 1000))
        program = ["node", str(HERE / "javascript/kafkajs.mjs"), bootstrap, "kafkajs", RECORDS, first_ms]
        run(program, RINGLOG_NODE=str(folder / "javascript"))

    def tools():
        host, port = bootstrap.split(":")
        broker = argparse.Namespace(address=(host, int(port)))
        for step in kafka_tools.steps(scratch):
            if "segments" not in step.name and "performance" not in step.name:
                kafka_tools.call(java / "kafka-4.3", broker, step)

    # The tools come first: what they list is short then.
    return {
        "kafka-tools": tools,
        "confluent": script("confluent.py", "roundtrip", "idempotent", "offsets", "configs"),
        "kafka-python": script("kafka_python.py", "roundtrip", "releases"),
        "aiokafka": script("aiokafka_client.py", "roundtrip", "idempotent"),
        "java-3.9": round_trip("clients-3.9"),
        "java-4.3": round_trip("kafka-4.3"),
        "kcat": kcat,
        "kafkajs": kafkajs,
    }


def main():
    """Runs every client through the tap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="record what Apache Kafka answers")
    parser.add_argument("--scratch", help="where the broker keeps its data, on a file system that Ringlog takes")
    for name in ("ringlog", "clients", "vectors"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    folder = Path(arguments.clients).resolve()
    tap = Tap()
    bootstrap = f"127.0.0.1:{tap.port}"
    with tempfile.TemporaryDirectory(prefix="ringlog-tap-", dir=arguments.scratch) as scratch:
        scratch = Path(scratch)
        if arguments.kafka:
            broker = brokers.start_kafka(folder / "java/kafka-4.3", scratch / "broker", advertise=bootstrap)
        else:
            broker = brokers.start_ringlog(arguments.ringlog, scratch / "broker", advertise=bootstrap, settings={})
        try:
            tap.upstream = broker.address
            record(tap, clients(folder, bootstrap, scratch), Path(arguments.vectors), arguments.kafka)
        finally:
            broker.stop()


def record(tap, programs, vectors, is_kafka):
    """Has each client do its work, and writes what came of it."""
    if is_kafka:
        for name in ("kafka-tools", "java-4.3", "java-3.9", "kafka-python"):
            programs[name]()
        tap.write(vectors / "apache-kafka")
        return
    for name, program in programs.items():
        program()
        tap.write(vectors / name)


if __name__ == "__main__":
    main()
