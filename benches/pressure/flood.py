"""Producers that never wait: ready frames, sent as fast as the broker takes them, and answers that are only counted."""

import collections
import multiprocessing
import selectors
import struct
import time

import load
from load import batches, tables

TOPIC = "flood"
VERSION = 3
# How many bytes of whole frames are handed to the system at a time, at most, where one has fewer.
AT_ONCE_BYTES = 1 << 20


class Flood:
    """The flood, in a process of its own, in `with`. Answers are counted by error code."""

    def __init__(self, options, broker):
        settings = ["--config", f"retention.bytes={256 << 20}", "--config", f"segment.bytes={64 << 20}"]
        broker.topic("create", TOPIC, "--partitions", "8", *settings)
        led = [(address, each["partition"]) for address, found in load.led_by(broker, TOPIC).items() for each in found]
        self._told = multiprocessing.Queue()
        self._stop = multiprocessing.Event()
        self._process = multiprocessing.Process(target=_run, args=(options, led, self._stop, self._told))
        self.found = None

    def __enter__(self):
        self._process.start()
        return self

    def __exit__(self, *_):
        """All connections are gone at once."""
        self._stop.set()
        self.ended_at = time.monotonic()
        self.found = self._told.get(timeout=60)
        self._process.join()


def request(options, partition):
    """One frame with one batch."""
    count = max(1, options.batch_bytes // options.record_bytes)
    batch = batches.batch(int(time.time() * 1000), count=count, value=b"x" * options.record_bytes)
    values = load.produce(TOPIC, [partition], batch)
    return load.sized(tables.request(tables.APIS["Produce"], VERSION, values, 0))


class _Connection:
    """One of the flood's."""

    def __init__(self, address, frame_bytes, frames):
        self.client = load.Client(address)
        self.client.socket.setblocking(False)
        self.frame_bytes = frame_bytes
        self._frames = frames
        self._sent = 0
        self._received = bytearray()

    @property
    def frames_sent(self):
        return self._sent // self.frame_bytes

    def send(self):
        at = self._sent % len(self._frames)
        self._sent += self.client.socket.send(self._frames[at:])

    def receive(self, codes):
        """Counts whole answers."""
        more = self.client.socket.recv(1 << 16)
        if not more:
            raise ConnectionError("closed by the broker")
        self._received += more
        # Size, correlation id, one topic, its name, one partition and its index stand before the code; the time is last.
        size, code_at = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 2 + 8 + 8 + 4, 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
        while len(self._received) >= size:
            (code,) = struct.unpack_from(">h", self._received, code_at)
            (throttle,) = struct.unpack_from(">i", self._received, size - 4)
            codes[code] += 1
            codes["throttled"] += throttle > 0
            del self._received[:size]


def _run(options, led, stop, told):
    ready = {partition: request(options, partition) for _, partition in led}
    # All connections share them.
    frames = {partition: memoryview(one * max(1, AT_ONCE_BYTES // len(one))) for partition, one in ready.items()}
    codes, sent = collections.Counter(), 0
    with selectors.DefaultSelector() as selector:
        for at in range(options.flooders):
            address, partition = led[at % len(led)]
            one = _Connection(address, len(ready[partition]), frames[partition])
            selector.register(one.client.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, one)
        while not stop.is_set():
            for key, events in selector.select(0.1):
                try:
                    if events & selectors.EVENT_READ:
                        key.data.receive(codes)
                    if events & selectors.EVENT_WRITE:
                        key.data.send()
                except BlockingIOError:
                    pass
                except OSError as error:
                    codes[f"connection: {error}"] += 1
                    sent += key.data.frames_sent
                    selector.unregister(key.fileobj)
        for key in list(selector.get_map().values()):
            sent += key.data.frames_sent
            key.data.client.close(resets=True)
    told.put((sent, dict(codes)))
