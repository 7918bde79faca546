"""The two brokers, as processes in folders of their own, and a connection to one."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 20
ANSWER_SECONDS = 10
# Both call themselves by it, so that answers need no translation.
BROKER_ID = 1000
MESSAGE_BYTES_MAX = 65_536
# What both are configured with, where the defaults would make a case long or large.
SETTINGS = {
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "num.partitions": 2,
}
# Kafka has no such setting: it looks into every batch.
STRICT = {"records.validation": '"all"'}


class Broker:
    """A process, where it listens, and what it logs."""

    def __init__(self, name, command, folder, environment=None):
        self.name = name
        self.log = Path(folder) / "log.txt"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, **(environment or {})},
            )
        self.address = None

    def stop(self):
        """Ends it in order, or by force when it takes too long."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def fail(self, why):
        """Ends the program with what the broker logged."""
        self.stop()
        raise SystemExit(f"FAILED: {self.name} {why}; its log ends in\n{self.log.read_text()[-3000:]}")


def routings(*otherwise):
    """The ways to reach partitions that are asked for: RINGLOG_ROUTING's, or else these."""
    told = os.environ.get("RINGLOG_ROUTING")
    return [told] if told else list(otherwise)


def start_ringlog(binary, folder, advertise=None, settings=None, routing=None):
    """Ringlog as one broker, which a Kafka is: one shard, or two behind one port (`node`)."""
    routing = routing or routings("shard")[0]
    folder = Path(folder)
    folder.mkdir(parents=True)
    lines = "".join(f'"{name}" = {value}\n' for name, value in ({**SETTINGS, **STRICT} if settings is None else settings).items())
    (folder / "ringlog.toml").write_text(f"[kafka]\n{lines}")
    data = ["--data-dir", str(folder / "data"), "--config", str(folder / "ringlog.toml")]
    subprocess.run([binary, "format", *data], check=True, capture_output=True)
    cpus = "0,1" if routing == "node" else "0"
    command = [binary, "serve", "--json", "--listen", "127.0.0.1:0", "--routing", routing, "--cpus", cpus, *data]
    if advertise:
        command += ["--advertise", advertise]
    broker = Broker(f"Ringlog ({routing})", command, folder)
    line = broker.process.stdout.readline()
    if not line:
        broker.fail("ended before it was ready")
    broker.ready = json.loads(line)
    host, port = broker.ready["listeners"][0]["bound"][0].rsplit(":", 1)
    broker.address = (host, int(port))
    return broker


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def java(libraries, main, *arguments, heap="512m"):
    """A call of a class of Kafka's."""
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", main, *arguments]


def start_kafka(libraries, folder, advertise=None):
    """Apache Kafka, broker and controller in one process."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    port, controller = free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": BROKER_ID,
        "controller.quorum.voters": f"{BROKER_ID}@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{advertise or f'127.0.0.1:{port}'}",
        "log.dirs": folder / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "log.initial.task.delay.ms": 1_000_000,
        **SETTINGS,
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    storage = java(libraries, "kafka.tools.StorageTool", "format", "-t", "DifferentialTestCluster", "-c", str(file))
    formatted = subprocess.run(storage, capture_output=True, text=True, check=False)
    if formatted.returncode:
        raise SystemExit(f"FAILED: Kafka's folder can't be formatted\n{formatted.stdout}{formatted.stderr}")
    broker = Broker("Kafka", java(libraries, "kafka.Kafka", str(file)), folder)
    broker.address = ("127.0.0.1", port)
    deadline = time.monotonic() + START_SECONDS
    while not answers(broker.address):
        if time.monotonic() > deadline or broker.process.poll() is not None:
            broker.fail("doesn't serve")
        time.sleep(0.2)
    return broker


def answers(address):
    """Whether somebody tells there which versions are served."""
    try:
        connection = Connection(address)
        connection.send(struct.pack(">hhih", 18, 0, 1, -1))
        return bool(connection.receive())
    except OSError:
        return False


def remove(folder):
    """Removes what the brokers left."""
    shutil.rmtree(folder, ignore_errors=True)


class Connection:
    """A socket, and whole frames."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame):
        """A frame, its size first."""
        self.send_raw(struct.pack(">i", len(frame)) + frame)

    def send_raw(self, data):
        """Bytes as they are."""
        self.socket.sendall(data)

    def receive(self, wait=ANSWER_SECONDS):
        """The next frame without its size; `ConnectionError` when there will be none, `TimeoutError` when none comes."""
        self.socket.settimeout(wait)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count):
        data = bytearray()
        while len(data) < count:
            got = self.socket.recv(count - len(data))
            if not got:
                raise ConnectionError("closed")
            data += got
        return bytes(data)

    def close(self):
        """Closes it."""
        self.socket.close()
