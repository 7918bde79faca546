"""Asks Ringlog and Apache Kafka the same and tells what differs:

    run.py [--only THEME] [--scratch FOLDER] RINGLOG LIBRARIES

RINGLOG is the program; LIBRARIES is the folder of Kafka's, as tests/clients/install.sh leaves it. Ringlog is asked with one
shard and with two behind one port, or in the one way to route that RINGLOG_ROUTING names. Differences that README.md has a
reason for pass, others fail, and so do reasons that nothing needs any more.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import brokers
import comparison
from cases import CASES
from sides import Side

README = Path(__file__).with_name("README.md")
HOUR_MS = 3_600_000


def main():
    """Runs every case on both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ringlog")
    parser.add_argument("libraries")
    parser.add_argument("--only", help="the cases of this theme alone; reasons that nothing needs pass then")
    parser.add_argument("--scratch", help="where the brokers keep their data, on a file system that Ringlog takes")
    arguments = parser.parse_args()
    base_ms = int(time.time() * 1000) // 1000 * 1000 - HOUR_MS // 2
    with tempfile.TemporaryDirectory(prefix="differential-", dir=arguments.scratch) as folder:
        started = []
        try:
            started.append(brokers.start_kafka(arguments.libraries, Path(folder) / "kafka"))
            for routing in brokers.routings("shard", "node"):
                data = Path(folder) / f"ringlog-{routing}"
                started.append(brokers.start_ringlog(arguments.ringlog, data, routing=routing))
            seen = [run(broker, base_ms, arguments.only) for broker in started]
        finally:
            for broker in started:
                broker.stop()
    report(seen[0], zip(started[1:], seen[1:]), arguments.only)


def run(broker, base_ms, only):
    """Every case on one side, each on a connection of its own."""
    side = Side(broker, base_ms)
    for theme, case in CASES:
        if only in (None, theme, case.__name__):
            begun = time.monotonic()
            case(side)
            side.hang_up()
            print(f"{broker.name}: {theme}.{case.__name__} {time.monotonic() - begun:.1f} s", file=sys.stderr)
            if broker.process.poll() is not None:
                broker.fail(f"ended during {case.__name__}")
    return side.seen


def report(kafka, others, only):
    """Prints what differs and isn't expected, and fails if there is any."""
    expectations = comparison.read_expectations(README.read_text()) if README.exists() else []
    failed = False
    for broker, seen in others:
        differences = comparison.compare(kafka, seen)
        new = comparison.unexpected(differences, expectations)
        for one in new:
            print(f"{broker.name}:", one.row(), "versions", spans(one.versions))
        told = f"{len(seen)} answers compared, {len(differences)} differences, {len(new)} of them without a reason"
        print(f"{broker.name}: {told}")
        failed = failed or bool(new)
    for row in () if only else (row for row in expectations if not row.used):
        print(f"nothing needs the reason of `{row.case}` | `{row.place}` | `{row.kafka}` | `{row.ringlog}`")
        failed = True
    if failed:
        sys.exit(1)
    print("1 passed, 0 failed")


def spans(versions):
    """Versions as a few words."""
    return f"{min(versions)} to {max(versions)}" if len(versions) > 1 else str(versions[0])


if __name__ == "__main__":
    main()
