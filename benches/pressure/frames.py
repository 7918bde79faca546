"""Random and mutated frames from an attacker that may use a part of a processor."""

import multiprocessing
import os
import random
import socket
import struct
import time

from broker import MIB, Broker, Watch
from crowds import settles
from load import FIGURES, REPOSITORY, Client, customer, sized, tables
from verdict import Verdict

TOPIC = "victim"
# What these make lasts, so that memory would be no measure. tests/integration/tests/hostile has them, as questions only.
MAKERS = {"CreateTopics", "CreatePartitions"}
# A client that waits longer for the end of its connection has found a fault.
END_SECONDS = 30
# The attacker's processor time is looked at after so many connections.
BETWEEN_LOOKS = 20
# The broker reads none after the first that it refuses, so few at once.
AT_ONCE = 2
# What counts and lengths rarely are: ends of ranges, and the longest numbers of variable length.
EXTREMES = [b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80\0\0\0", b"\0\xff\xff\xff", b"\x7f\xff", b"\xff\xff", b"\0"]
EXTREMES += [b"\xff" * 4 + b"\x0f", b"\xff" * 9 + b"\x01"]
# Sizes that no frame has, and some that one may have but not this.
SIZES = [-(2**31), -1, 0, 1, 7, 65_536, 104_857_600, 104_857_601, 2**31 - 1]


def options(add):
    """Those that it alone has."""
    add("--frames", type=int, default=5_000_000, help="random or mutated, and known to be read by the broker")
    add("--share", type=float, default=0.25, help="of a processor that the attackers may use together")
    add("--attackers", type=int, default=4, help="so that none waits for a processor while it waits for the broker")
    add("--rounds", type=int, default=5, help="of the undisturbed customer; beside the attacker it goes on to the end")
    add("--growth-mib", type=int, default=256, help="the broker may hold so much more than before")
    add("--seed", type=int, default=1)


def catalogue(topic, topic_id):
    """Frames of real clients, and one of defaults of each version, made to name a topic that there is."""
    found = []
    for path in sorted((REPOSITORY / "tests/vectors").glob("*/*.request")):
        data = path.read_bytes()
        key, version = struct.unpack(">hh", data[4:8])
        api = next(api for api in tables.APIS.values() if api.key == key)
        decoder = tables.Decoder(api, version, data[12:])
        decoder.take(max(0, struct.unpack(">h", decoder.take(2))[0]) + (version >= api.flexible))
        found.append((api, version, renamed(decoder.message(f"{api.name}Request"), topic, topic_id)))
    found += [(api, version, {}) for api in tables.APIS.values() for version in api.versions]
    return [sized(tables.request(api, version, values, 0)) for api, version, values in found if api.name not in MAKERS]


def renamed(value, topic, topic_id):
    """The same message about another topic."""
    if isinstance(value, list):
        return [renamed(each, topic, topic_id) for each in value]
    if not isinstance(value, dict):
        return value
    new = {key: renamed(each, topic, topic_id) for key, each in value.items() if key != "odd"}
    for key in ("name", "topic"):
        if isinstance(new.get(key), str) and not new[key].startswith(("retention", "segment")):
            new[key] = topic
    if "topic_id" in new:
        new["topic_id"] = topic_id
    return new


def mutated(chance, frames):
    """One frame, with its size before it."""
    frame = bytearray(chance.choice(frames))
    kind = chance.randrange(8)
    at = chance.randrange(4, len(frame))
    if kind == 0:  # Some bytes are others.
        for _ in range(chance.randint(1, 4)):
            frame[chance.randrange(4, len(frame))] = chance.randrange(256)
    elif kind == 1:  # A count or length is extreme.
        extreme = chance.choice(EXTREMES)
        frame[at : at + len(extreme)] = extreme[: len(frame) - at]
    elif kind == 2:  # The end is missing, and the size says so.
        del frame[at:]
    elif kind == 3:  # More follows.
        frame += chance.randbytes(chance.randint(1, 256))
    elif kind == 4:  # Half of one and half of another.
        other = chance.choice(frames)
        frame[at:] = other[chance.randrange(4, len(other)) :]
    elif kind == 5:  # Another API or version.
        frame[chance.randrange(4, 8)] = chance.randrange(256)
    elif kind == 6:  # The size is wrong.
        return bytearray(struct.pack(">i", chance.choice(SIZES))) + frame[4:]
    else:
        frame = bytearray(4) + chance.randbytes(chance.randint(1, 1024))
    return bytearray(struct.pack(">i", len(frame) - 4)) + frame[4:]


class Attack:
    """One attacker."""

    def __init__(self, options, number, addresses, frames):
        self._chance = random.Random(options.seed * 1_000 + number)
        self._number = number
        self._addresses = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in addresses)]
        self._frames = frames
        self._share = options.share / options.attackers
        self.read = self.connections = self.answers = 0

    def run(self, wanted, told):
        """Goes on until so many frames were read; keeps to its share of a processor."""
        start, used = time.monotonic(), time.process_time()
        while self.read < wanted:
            for _ in range(BETWEEN_LOOKS):
                self._connect()
            told[:] = [self.read, self.connections, self.answers]
            ahead = (time.process_time() - used) / self._share - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)

    def _connect(self):
        chance = self._chance
        count = chance.randint(1, AT_ONCE)
        frames = [mutated(chance, self._frames) for _ in range(count)]
        for number, frame in enumerate(frames):
            if len(frame) >= 12:
                frame[8:12] = struct.pack(">i", number)  # The answer begins with it.
        self.connections += 1
        source = (f"127.{1 + self._number}.{1 + self.connections % 200}.{1 + self.connections // 200 % 200}", 0)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            sock.settimeout(END_SECONDS)
            sock.bind(source)
            sock.connect(chance.choice(self._addresses))
            # Ends in a reset, which leaves no port behind; one in eight at once, as a client that dies.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                sock.sendall(b"".join(frames))
                if not chance.randrange(8):
                    return
                sock.shutdown(socket.SHUT_WR)
                answered = _answered(sock)
            except TimeoutError:
                raise
            except OSError:  # It was ended at once, in one of the ways there are.
                answered = []
            self.answers += len(answered)
            # Read for certain: those that were answered, and the next one, at which the broker closed or had no more.
            self.read += min(count, len(answered) + 1)


def _answered(sock):
    """The answers until the broker closes."""
    data = bytearray()
    while more := sock.recv(1 << 16):
        data += more
    numbers, at = [], 0
    while at + 8 <= len(data):
        size, number = struct.unpack(">ii", data[at : at + 8])
        numbers.append(number)
        at += 4 + size
    return numbers


def attack(options, number, addresses, frames, told):
    """The process of an attacker. The customer's processor comes first: its latency is measured."""
    os.nice(10)
    Attack(options, number, addresses, frames).run(options.frames // options.attackers, told)


def run(options):
    verdict = Verdict()
    # What an attacker makes by mere questions for topics that there aren't lasts too.
    with Broker(options, settings={"auto.create.topics.enable": False}) as broker:
        broker.topic("create", TOPIC, "--partitions", "4")
        frames = catalogue(TOPIC, topic_id(broker))
        customer(options, broker, 2)
        without = [customer(options, broker) for _ in range(options.rounds)]
        before, descriptors = broker.resident(), broker.descriptors()
        start = time.monotonic()
        with Watch(broker) as watch:
            beside, told, failed = under_attack(options, broker, frames)
        verdict.bound("attackers who found a connection that isn't ended, or none", failed, 0)
        for name, count in zip(("frames known to be read", "connections of attackers", "answers to them"), told):
            verdict.figure(name, count)
        verdict.figure("seconds", time.monotonic() - start)
        if not broker.is_running():
            raise SystemExit(f"the broker has ended:\n{broker.said()[-4000:]}")
        verdict.figure("memory before, MiB", before / MIB)
        verdict.bound("most memory, MiB", watch.peak / MIB, before / MIB + options.growth_mib)
        verdict.sides(FIGURES, beside, without, options.ratio_max)
        verdict.bound("descriptors more than before", settles(broker.descriptors, descriptors) - descriptors, 16)
        verdict.bound("orderly stop, s", broker.stop(), 10.0)
        verdict.bound("panics in its log", broker.said().count("panicked"), 0)
        verdict.warnings(broker)
    return verdict.end()


def under_attack(options, broker, frames):
    """The customer's rounds until the attackers are done; what these did, and how many of them failed."""
    told = [multiprocessing.Array("q", 3) for _ in range(options.attackers)]
    attackers = [
        multiprocessing.Process(target=attack, args=(options, number, broker.addresses, frames, own))
        for number, own in enumerate(told)
    ]
    for attacker in attackers:
        attacker.start()
    beside = []
    try:
        while any(attacker.is_alive() for attacker in attackers):
            served = customer(options, broker)
            # A round at whose end an attacker has gone was disturbed for a part of it only.
            if all(attacker.is_alive() for attacker in attackers) or not beside:
                beside.append(served)
    finally:
        for attacker in attackers:
            attacker.kill()
            attacker.join()
    failed = sum(attacker.exitcode != 0 for attacker in attackers)
    return beside, [sum(counts) for counts in zip(*told)], failed


def topic_id(broker):
    """The victim's id, as clients say it."""
    client = Client(broker.addresses[0])
    answer = client.ask("Metadata", 12, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False})
    client.close()
    return answer["topics"][0]["topic_id"]
