"""Many clients that want little: idle ones, ones that come and go, ones that ask and never read."""

import multiprocessing
import os
import resource
import statistics
import time

from broker import MIB, Broker, Watch
from load import FIGURES, Client, bench, customer, fetch, frame, led_by, report
from verdict import Verdict

API_VERSIONS = ("ApiVersions", 0, {})
SETTLE_SECONDS = 3


def raise_descriptors():
    """As many as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def settles(read, within):
    """The value of `read` once it is at most `within`, or after 10 s."""
    deadline = time.monotonic() + 10
    while (value := read()) > within and time.monotonic() < deadline:
        time.sleep(0.1)
    return value


# Idle connections.


def gather(broker, count):
    """Connections that have asked for versions, dealt over the addresses."""
    clients = []
    for at in range(count):
        # One source address has ports for fewer.
        client = Client(broker.addresses[at % len(broker.addresses)], source=f"127.0.0.{2 + at // 5000}")
        client.ask(*API_VERSIONS)
        clients.append(client)
    return clients


def idle_processors(broker, seconds):
    """Processors in use while nobody asks for anything."""
    before = broker.processor_seconds()
    time.sleep(seconds)
    return (broker.processor_seconds() - before) / seconds


def idle(options):
    verdict = Verdict()
    raise_descriptors()
    with Broker(options) as broker:
        customer(options, broker, 2)  # What is made once is made now.
        beside, without, grown, busy, quiet = [], [], [], [], []
        for _ in range(options.rounds):
            without.append(customer(options, broker))
            quiet.append(idle_processors(broker, options.quiet))
            before = broker.resident()
            clients = gather(broker, options.connections)
            grown.append((broker.resident() - before) / options.connections)
            busy.append(idle_processors(broker, options.quiet))
            beside.append(customer(options, broker))
            held = sum(shard["connections"] for shard in broker.stats())
            if held < options.connections:
                raise SystemExit(f"only {held} of {options.connections} connections are left:\n{broker.said()[-2000:]}")
            for client in clients:
                client.close(resets=True)
            settles(broker.descriptors, 100)
        clients = gather(broker, options.connections)
        verdict.bound("memory a connection, the first time, bytes", int(grown[0]), options.bytes_max)
        verdict.figure("memory a connection, each time, bytes", "", [int(each) for each in grown])
        verdict.figure("processors while all are quiet, without", statistics.median(quiet))
        verdict.bound("processors while all are quiet, with", statistics.median(busy), statistics.median(quiet) + 0.05)
        verdict.sides(FIGURES, beside, without, options.ratio_max)
        verdict.bound("orderly stop with all of them there, s", broker.stop(), 10.0)
        verdict.warnings(broker)
        for client in clients:
            client.close()
    return verdict.end()


# Clients that come and go.


def come_and_go(addresses, rate, offset, stop, done):
    """One of several that connect, ask twice and leave, `rate` times a second, as far as the broker lets them."""
    os.nice(10)  # The customer's processor comes first: its latency is measured.
    start, count, failed, longest = time.monotonic(), 0, 0, 0.0
    while not stop.is_set():
        due = start + count / rate
        time.sleep(max(0.0, due - time.monotonic()))
        begun = time.monotonic()
        try:
            client = Client(addresses[count % len(addresses)], source=f"127.0.{1 + offset}.{2 + count % 200}")
            client.ask(*API_VERSIONS)
            client.ask("Metadata", 4, {"topics": None})
            client.close(resets=count % 2 == 1)
        except OSError:
            failed += 1
        longest = max(longest, time.monotonic() - begun)
        count += 1
    done.put((count, failed, longest, time.monotonic() - start))


def churn(options):
    verdict = Verdict()
    with Broker(options) as broker:
        customer(options, broker, 2)
        # The time that is asked for, in rounds, each with its like without the crowd.
        beside, without, counts = [], [], []
        before, descriptors = broker.resident(), broker.descriptors()
        with Watch(broker) as watch:
            for _ in range(options.rounds):
                without.append(customer(options, broker))
                counts += among(options, broker, beside)
        rate = sum(count / seconds for count, _, _, seconds in counts) / options.rounds
        verdict.figure("connections", sum(count for count, *_ in counts))
        verdict.figure("connections/s", rate, f"(of {options.connections})")
        verdict.bound("too few connections/s for a verdict", max(0.0, options.connections * 0.9 - rate), 0)
        verdict.bound("failed connections", sum(failed for _, failed, *_ in counts), 0)
        verdict.figure("the longest of them, ms", max(longest for _, _, longest, _ in counts) * 1e3)
        verdict.sides(FIGURES, beside, without, options.ratio_max)
        verdict.bound("descriptors more than before", settles(broker.descriptors, descriptors) - descriptors, 16)
        verdict.figure("memory before, MiB", before / MIB)
        verdict.figure("most memory, MiB", watch.peak / MIB)
        verdict.bound("memory after, MiB", broker.resident() / MIB, before / MIB + 64)
        verdict.bound("orderly stop, s", broker.stop(), 10.0)
        verdict.warnings(broker)
    return verdict.end()


def among(options, broker, beside):
    """One round beside those who come and go."""
    stop, done = multiprocessing.Event(), multiprocessing.Queue()
    rate = options.connections / options.workers
    workers = [
        multiprocessing.Process(target=come_and_go, args=(broker.addresses, rate, at, stop, done))
        for at in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    try:
        beside.append(customer(options, broker))
    finally:
        stop.set()
    counts = [done.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    return counts


# Clients that ask and never read.


def deafen(broker, topic, count):
    """Connections with small windows that ask for everything, several times, half of them for what is newest."""
    led = led_by(broker, topic)
    addresses = list(led)
    clients = []
    for at in range(count):
        partitions = led[addresses[at % len(addresses)]]
        key = "earliest_offset" if at % 2 else "latest_offset"
        back = 0 if at % 2 else 4_000
        offsets = {each["partition"]: max(0, each[key] - back) for each in partitions}
        wanted = fetch(topic, offsets, partition_bytes=8 << 20)
        clients.append(ask_and_read_not(addresses[at % len(addresses)], wanted))
    return clients


def ask_and_read_not(address, wanted):
    """A connection with a small window, and five fetches."""
    client = Client(address, receive_bytes=4096)
    client.socket.setblocking(False)
    try:
        client.socket.send(b"".join(frame("Fetch", 11, wanted, each) for each in range(1, 6)))
    except OSError:
        pass  # A broker that takes no more has its reasons.
    return client


def deaf(options):
    verdict = Verdict()
    raise_descriptors()
    for routing in options.routing.split(","):
        print(f"-- routing = {routing!r}", flush=True)
        with Broker(options, routing=routing) as broker:
            deaf_to(options, broker, verdict)
    return verdict.end()


def deaf_to(options, broker, verdict):
    """The bursts, in one routing."""
    customer(options, broker, 2)
    resting = broker.resident()
    beside, without, after = [], [], []
    with Watch(broker) as watch:
        for _ in range(options.bursts):
            without.append(customer(options, broker))
            clients = listen_not(options, broker)
            beside.append(customer(options, broker))
            for client in clients:
                client.close(resets=True)
            settles(lambda: sum(shard["reply_bytes"] for shard in broker.stats()), 0)
            time.sleep(SETTLE_SECONDS)
            after.append(broker.resident() / MIB)
    verdict.figure("memory before, MiB", resting / MIB)
    verdict.bound("most memory, MiB", watch.peak / MIB, resting / MIB + broker.table_mib)
    verdict.figure("memory after each burst, MiB", "", [round(each) for each in after])
    # The first bursts find out how much the allocator keeps; a leak would go on.
    verdict.bound("growth from the burst in the middle to the last, MiB", after[-1] - after[len(after) // 2], 32)
    verdict.sides(FIGURES, beside, without, options.ratio_max)
    clients = listen_not(options, broker)
    time.sleep(1)
    verdict.bound("orderly stop with all of them there, s", broker.stop(), 10.0)
    verdict.warnings(broker)
    for client in clients:
        client.close()


def listen_not(options, broker):
    """A topic with records in memory and in files, and those who ask for them."""
    words = ["--rate", 50_000, "--duration", "2s", "--warmup", "0s", "--keep"]
    topic = report(bench(options, broker, *words))["phases"][0]["load"]["topic"]
    return deafen(broker, topic, options.connections)
