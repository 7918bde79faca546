"""Clients that ask for the newest records of a busy node, which are in memory, and read no answer."""

import time

from broker import Broker
from crowds import ask_and_read_not, raise_descriptors
from load import bench, fetch, led_by, report
from verdict import Verdict

# How many of a partition's newest records each asks for: what a shard keeps of each partition has more.
NEWEST = 900
# When they come, and when it is looked what they hold: seconds since the customer's first.
COME_AFTER = 3
LOOK_AFTER = 1


def run(options):
    verdict = Verdict()
    raise_descriptors()
    for routing in options.routing.split(","):
        print(f"-- routing = {routing!r}", flush=True)
        for _ in range(options.rounds):
            with Broker(options, routing=routing) as broker:
                once(options, broker, verdict)
    return verdict.end()


def once(options, broker, verdict):
    """They come in the middle of a customer's time."""
    words = ["--rate", 50_000, "--duration", "2s", "--warmup", "0s", "--keep"]
    topic = report(bench(options, broker, *words))["phases"][0]["load"]["topic"]
    words = ["--rate", options.rate, "--duration", f"{options.seconds}s", "--warmup", "1s"]
    customer = bench(options, broker, *words, "--producers", 1, "--consumers", 1)
    time.sleep(COME_AFTER)
    clients = ask_for_the_newest(broker, topic, options.connections)
    time.sleep(LOOK_AFTER)
    held = [shard["reply_bytes"] for shard in broker.stats()]
    load = report(customer)["phases"][0]["load"]
    verdict.figure("replies' memory held then, MiB", "", [each >> 20 for each in held])
    verdict.bound("too little is held for a verdict, shards", sum(each < 100 << 20 for each in held), 0)
    for part in ("p50", "p99"):
        verdict.figure(f"end to end {part}, ms", load["end_to_end_latency"][part] / 1e6)
    verdict.bound("the longest end to end, ms", load["end_to_end_latency"]["max"] / 1e6, options.longest_max)
    for name in ("lost", "repeated", "corrupt"):
        verdict.bound(f"{name}, records", load["verdict"][name], 0)
    for client in clients:
        client.close(resets=True)


def ask_for_the_newest(broker, topic, count):
    """So many connections, dealt over the addresses."""
    led = led_by(broker, topic)
    addresses = list(led)
    clients = []
    for at in range(count):
        address = addresses[at % len(addresses)]
        offsets = {each["partition"]: max(0, each["latest_offset"] - NEWEST) for each in led[address]}
        wanted = fetch(topic, offsets, partition_bytes=8 << 20)
        clients.append(ask_and_read_not(address, wanted))
    return clients
