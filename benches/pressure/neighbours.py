"""Busy partitions beside many idle ones."""

from broker import Broker
from load import FIGURES, Client, batch, customer, led_by, produce
from verdict import Verdict

TOPIC = "idle"
# So many partitions a produce.
AT_ONCE = 500


def fill(broker, count):
    """Makes the idle partitions and writes one record to each."""
    broker.topic("create", TOPIC, "--partitions", str(count))
    one = batch()
    for address, partitions in led_by(broker, TOPIC).items():
        client = Client(address)
        indexes = [partition["partition"] for partition in partitions]
        for start in range(0, len(indexes), AT_ONCE):
            answer = client.ask("Produce", 9, produce(TOPIC, indexes[start : start + AT_ONCE], one))
            codes = {each["error_code"] for each in answer["responses"][0]["partition_responses"]}
            if codes != {0}:
                raise SystemExit(f"the broker doesn't take a record for each idle partition: error codes {codes}")
        client.close()


def run(options):
    verdict = Verdict()
    with Broker(options) as beside, Broker(options) as without:
        before = beside.resident()
        fill(beside, options.partitions)
        verdict.figure("memory an idle partition, KiB", (beside.resident() - before) / 1024 / options.partitions)
        rounds = {beside: [], without: []}
        for turn in range(options.rounds):
            # Whoever comes first may find the host as the other left it.
            for broker in (beside, without) if turn % 2 else (without, beside):
                rounds[broker].append(customer(options, broker))
        figures = FIGURES | {"end to end p99 ms": False}
        verdict.sides(figures, rounds[beside], rounds[without], options.ratio_max)
        beside.kill()
        verdict.bound("start after kill -9, s", beside.start(), options.killed_max)
        verdict.figure("memory an idle partition then, KiB", (beside.resident() - before) / 1024 / options.partitions)
        verdict.bound("orderly stop beside them, s", beside.stop(), 10.0)
        verdict.bound("start after it, s", beside.start(), options.stopped_max)
    return verdict.end()
