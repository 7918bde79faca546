"""Topics that lose their oldest records under load: sizes and ages within their bounds, and no step in the latencies."""

import re
import statistics
import struct
import time
from pathlib import Path

import histogram
from broker import Broker, Repeated
from load import Client, bench, fetch, report
from verdict import Verdict

# The broker looks after retention for the first time half a minute after its start.
FIRST_LOOK_SECONDS = 30
# The counters of deletions are a fifth of a second old, and are looked at as often.
LOOK_SECONDS = 0.2
OUT_OF_RANGE = 1
# Fewer intervals of a kind say nothing of it.
INTERVALS_MIN = 5
ODD = ("repeated", "corrupt", "out_of_order")


def options(add):
    """Those that it alone has."""
    add("--rate", type=int, default=5_000, help="records of 1 KiB a second, of each topic")
    add("--partitions", type=int, default=4, help="of each topic")
    add("--segment-bytes", type=int, default=32 << 20)
    add("--retention-bytes", type=int, default=128 << 20, help="of the one topic")
    add("--retention-ms", type=int, default=60_000, help="of the other")
    add("--check-ms", type=int, default=2_000, help="how often the broker looks after retention")
    add("--every", type=float, default=3, help="seconds from look to look at sizes and ages")
    add("--step-max", type=float, default=1.5, help="p99.9 of seconds with a deletion against those without, medians")
    add("--out", default="target/pressure-retention", help="where the heat maps go")


class Deletions(Repeated):
    """When segments were deleted, by the broker's counters, in `with`."""

    def __init__(self, broker):
        super().__init__(LOOK_SECONDS, self._look)
        self._broker = broker
        self.times = []
        self.count = 0

    def _look(self):
        try:
            count = sum(shard["store"]["segments_deleted"] for shard in self._broker.stats())
        except (OSError, ValueError):
            return  # It is just being written.
        if count > self.count:
            self.count = count
            self.times.append(time.time())

    def within(self, start, seconds):
        """Whether one may have been between: it was seen up to two looks later."""
        return any(start <= seen and seen - 2 * LOOK_SECONDS < start + seconds for seen in self.times)


def begin(options, broker, out, known):
    """A load, and the topic it has made for itself."""
    words = ["--rate", options.rate, "--partitions", options.partitions, "--duration", f"{options.seconds}s"]
    load = bench(options, broker, *words, "--out", out)
    while True:
        new = [topic["name"] for topic in broker.topic("list") if topic["name"] not in known]
        if new:
            return load, new[0]
        if load.poll() is not None:
            report(load)
            raise SystemExit("a load ended before it began")
        time.sleep(0.05)


def age(topic, partition):
    """Seconds since the first record of a partition was written; `None` where there is none."""
    client = Client(partition["endpoint"])
    try:
        offset = partition["earliest_offset"]
        answer = client.ask("Fetch", 11, fetch(topic, {partition["partition"]: offset}, partition_bytes=1))
    finally:
        client.close()
    found = answer["responses"][0]["partitions"][0]
    if found["error_code"] not in (0, OUT_OF_RANGE):
        raise SystemExit(f"the first record of {topic} can't be read: {found}")
    # Out of range: it has been deleted since it was asked for.
    if len(found["records"] or b"") < 43:
        return None
    (first_ms,) = struct.unpack(">q", found["records"][27:35])
    return time.time() - first_ms / 1000


def run(options):
    verdict = Verdict()
    out = Path(options.out)
    settings = {"log.segment.bytes": options.segment_bytes, "log.retention.check.interval.ms": options.check_ms}
    with Broker(options, settings=settings) as broker, Deletions(broker) as deletions:
        by_size, sized = begin(options, broker, out / "size", ())
        by_time, timed = begin(options, broker, out / "time", (sized,))
        broker.topic("alter", sized, "--config", f"retention.bytes={options.retention_bytes}")
        broker.topic("alter", timed, "--config", f"retention.ms={options.retention_ms}")
        sizes, ages = look(options, broker, (by_size, by_time), sized, timed)
        loads = {"size": report(by_size), "time": report(by_time)}
        bounds(options, verdict, sizes, ages)
        verdict.figure("segments deleted", deletions.count)
        for name, told in loads.items():
            load = told["phases"][0]["load"]
            kept(verdict, name, load)
            heat(options, verdict, name, next((out / name).glob("*.hlog")), deletions)
        verdict.bound("orderly stop, s", broker.stop(), 10.0)
        verdict.warnings(broker)
    return verdict.end()


def look(options, broker, loads, sized, timed):
    """Sizes and ages of every partition, now and then, from when the bounds have had time to be in force."""
    sizes, ages = [], []
    settled = time.monotonic() + FIRST_LOOK_SECONDS + 2 * options.check_ms / 1000
    while all(load.poll() is None for load in loads):
        time.sleep(options.every)
        if time.monotonic() < settled or any(load.poll() is not None for load in loads):
            continue
        names = {topic["name"] for topic in broker.topic("list")}
        if not names >= {sized, timed}:
            break  # The loads have ended, and taken their topics along.
        sizes += [partition["log_bytes"] for partition in broker.topic("describe", sized)["partitions"]]
        found = [age(timed, partition) for partition in broker.topic("describe", timed)["partitions"]]
        ages += [each for each in found if each is not None]
    return sizes, ages


def bounds(options, verdict, sizes, ages):
    """One segment beyond the bound, and what comes between two looks of the broker."""
    pace = options.rate * 1100 / options.partitions  # Bytes a second of a partition, heads of records included.
    check = options.check_ms / 1000
    mib = 1 << 20
    most = options.retention_bytes + options.segment_bytes + pace * (check + 1)
    verdict.figure("looks at a partition's size, at its age", "", (len(sizes), len(ages)))
    verdict.bound("looks without an answer", int(not sizes) + int(not ages), 0)
    verdict.bound("largest partition, MiB", max(sizes, default=0) / mib, most / mib)
    oldest = options.retention_ms / 1000 + options.segment_bytes / pace + check + 2
    verdict.bound("oldest first record, s", max(ages, default=0.0), oldest)


def kept(verdict, name, load):
    """What was read while it was there, and what is gone otherwise than by retention."""
    unread = load["produce_latency"]["count"] - load["end_to_end_latency"]["count"]
    verdict.bound(f"acknowledged, not read in time ({name})", unread, 0)
    # When all is over it reads everything again: what is missing then must lie before where its partition begins.
    gone = [re.search(r"begins at offset (\d+) now.*from offset (\d+) on", gap) for gap in load["gaps"]]
    deleted = sum(int(gap[1]) - int(gap[2]) for gap in gone if gap)
    verdict.bound(f"missing, and not by retention ({name})", load["verdict"]["lost"] - deleted, 0)
    verdict.bound(f"repeated, corrupt or out of order ({name})", sum(load["verdict"][key] for key in ODD), 0)


def heat(options, verdict, name, log, deletions):
    """Seconds with a deletion beside those without, and the heat map."""
    intervals = histogram.read(log, "produce")
    hot, calm = [], []
    for interval in intervals:
        (hot if deletions.within(interval.start, interval.seconds) else calm).append(interval)
    path = Path(options.out) / f"{name}.svg"
    path.write_text(histogram.heat_map(intervals, deletions.times, f"produce latency, topic with a {name} bound"))
    verdict.figure(f"seconds with and without a deletion ({name})", "", (len(hot), len(calm), str(path)))
    if min(len(hot), len(calm)) < INTERVALS_MIN:
        verdict.bound(f"too few seconds of one kind for a verdict ({name})", 1, 0)
        return
    whole = [histogram.quantile(histogram.merged(part), 0.999) / 1e6 for part in (hot, calm)]
    verdict.figure(f"p99.9 of all of them, ms ({name})", "", tuple(round(each, 2) for each in whole))
    each = [statistics.median(histogram.quantile(one.counts, 0.999) for one in part) / 1e6 for part in (hot, calm)]
    verdict.figure(f"median of their p99.9, ms ({name})", "", tuple(round(one, 2) for one in each))
    verdict.bound(f"with a deletion / without ({name})", each[0] / each[1], options.step_max)
