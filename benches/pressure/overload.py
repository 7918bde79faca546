"""Ten times what one shard carries."""

import collections
import statistics
import time

from broker import MIB, Broker, Repeated, Watch
from flood import Flood
from load import Client, batch, bench, led_by, produce, report, retriable_codes
from verdict import Verdict

TOPIC = "lone"
PROBE_SECONDS = 0.05
# So many probes in a row must be as fast as undisturbed ones: half a second.
CALM = 10
UNDISTURBED = 100


class Lone(Repeated):
    """A producer that has nothing to do with the load: one record every 50 ms, each timed, in `with`."""

    def __init__(self, broker):
        super().__init__(PROBE_SECONDS, self._probe)
        broker.topic("create", TOPIC)
        (self._address,) = led_by(broker, TOPIC)
        self._client = Client(self._address)
        self._values = produce(TOPIC, [0], batch())
        # When each was sent, how long it took, its error code and throttle time.
        self.seen = []

    def _probe(self):
        start = time.monotonic()
        try:
            answer = self._client.ask("Produce", 9, self._values)
            code = answer["responses"][0]["partition_responses"][0]["error_code"]
            throttle = answer["throttle_time_ms"]
        except OSError as error:
            code, throttle, self._client = f"connection: {error}", 0, Client(self._address)
        self.seen.append((start, time.monotonic() - start, code, throttle))

    def undisturbed(self):
        """The median, in seconds, while nobody else is there."""
        while len(self.seen) < UNDISTURBED:
            time.sleep(PROBE_SECONDS)
        return statistics.median(took for _, took, _, _ in self.seen)

    def between(self, start, end):
        return [took for at, took, _, _ in self.seen if start <= at < end]

    def calm_after(self, end, within, wait):
        """Seconds from `end` until produces take no longer than `within` again; infinite if they don't in time."""
        while time.monotonic() < end + wait:
            after = [(at, took) for at, took, _, _ in list(self.seen) if at >= end]
            for first in range(len(after) - CALM + 1):
                if statistics.median(took for _, took in after[first : first + CALM]) <= within:
                    return after[first][0] + after[first][1] - end
            time.sleep(PROBE_SECONDS)
        return float("inf")


def start(options, broker, rate):
    """Loaders that offer `rate` records a second together."""
    words = ["--rate", int(rate / options.loaders), "--duration", f"{options.seconds}s", "--warmup", "0s"]
    words += ["--producers", options.producers, *shape(options)]
    return [bench(options, broker, *words) for _ in range(options.loaders)]


def shape(options):
    return ["--record-bytes", options.record_bytes, "--batch-bytes", options.batch_bytes]


def appended(broker):
    return sum(shard["store"]["bytes_appended"] for shard in broker.stats())


def run(options):
    verdict = Verdict()
    with Broker(options, settings={"log.retention.check.interval.ms": 5_000}) as broker:
        resting = broker.resident()
        with Lone(broker) as lone, Watch(broker) as watch:
            undisturbed = lone.undisturbed()
            verdict.figure("a lone produce, undisturbed, median ms", undisturbed * 1e3)
            carried, beside = sustained(options, broker, lone, verdict)
            flood, reports = minute(options, broker, carried * options.times, lone, verdict)
            # The loaders go on with what they have queued, and then read all of it back.
            usual = lone.calm_after(flood.ended_at, 1.5 * max(beside, undisturbed), 60)
            loads = [each["phases"][0]["load"] for each in map(report, reports)]
            rested = lone.calm_after(time.monotonic(), 3 * undisturbed, 60)
        told(verdict, loads, lone, flood)
        verdict.figure("memory before, MiB", resting / MIB)
        verdict.bound("most memory, MiB", watch.peak / MIB, resting / MIB + broker.table_mib)
        verdict.figure("memory after, MiB", broker.resident() / MIB)
        verdict.bound("from the flood's end to lone produces as beside loaders, s", usual, options.recovery_max)
        verdict.bound("from the load's end to undisturbed lone produces, s", rested, options.recovery_max)
        verdict.bound("orderly stop, s", broker.stop(), 10.0)
        verdict.warnings(broker)
    return verdict.end()


def sustained(options, broker, lone, verdict):
    """What clients that wait have a shard carry, in records a second, and the median of lone produces beside them."""
    begun = time.monotonic()
    words = ["--duration", f"{options.measure}s", "--producers", options.producers, *shape(options)]
    load = report(bench(options, broker, *words))["phases"][0]["load"]
    carried = load["acknowledged"]["records_per_second"]
    beside = statistics.median(lone.between(begun, time.monotonic()))
    verdict.figure("carried, records/s", int(carried))
    verdict.figure("a lone produce meanwhile, median ms", beside * 1e3)
    return carried, beside


def minute(options, broker, rate, lone, verdict):
    """The load, all of whose flood is gone at its end; what the loaders have queued follows for ten seconds."""
    begun, before, used = time.monotonic(), appended(broker), broker.processor_seconds()
    with Flood(options, broker) as flood:
        loaders = start(options, broker, rate)
        time.sleep(max(0.0, begun + options.seconds - time.monotonic()))
        took = time.monotonic() - begun
        used = (broker.processor_seconds() - used) / took
        probes = sorted(lone.between(begun, time.monotonic()))
        verdict.figure("offered by clients that wait, records/s", int(rate))
        verdict.figure("appended meanwhile, MB/s", (appended(broker) - before) / took / 1e6)
        note = "" if used > 0.8 * broker.shards else "below 0.8 a shard: its CPU was others', or the drive is slower"
        verdict.figure("processors in use by the broker", used, note)
        verdict.figure("lone produces meanwhile", len(probes))
        for name, share in (("median", 0.5), ("p99", 0.99), ("longest", 1)):
            verdict.figure(f"  their {name}, ms", probes[min(len(probes) - 1, int(len(probes) * share))] * 1e3)
    return flood, loaders


def told(verdict, loads, lone, flood):
    """What clients were told, and whether it was true."""
    for name in ("acknowledged", "unknown"):
        verdict.figure(f"{name}, records", sum(load["verdict"][name] for load in loads))
    for name in ("lost", "repeated", "corrupt", "out_of_order"):
        verdict.bound(f"{name}, records", sum(load["verdict"][name] for load in loads), 0)
    verdict.figure("never sent, records", sum(load["never_sent"] for load in loads))
    failures = [load["first_failure"] for load in loads if load["failed"]]
    verdict.bound("failed for good, records", sum(load["failed"] for load in loads), 0, failures or "")
    verdict.bound("not read to the end, loads", sum(not load["is_drained"] for load in loads), 0)
    sent, flooded = flood.found
    throttled = flooded.pop("throttled", 0) + sum(throttle > 0 for _, _, _, throttle in lone.seen)
    verdict.figure("frames of the flood", sent)
    answered = sum(count for code, count in flooded.items() if isinstance(code, int))
    verdict.figure("of these not answered at its end", sent - answered)
    verdict.figure("answers to the flood, by error code", "", flooded)
    codes = collections.Counter(code for _, _, code, _ in lone.seen)
    verdict.figure("answers to the lone producer, by error code", "", dict(codes))
    retriable = retriable_codes() | {0}
    final = sum(count for code, count in [*codes.items(), *flooded.items()] if code not in retriable)
    verdict.bound("of these errors that aren't retriable", final, 0)
    verdict.figure("answers with a throttle time", throttled)
