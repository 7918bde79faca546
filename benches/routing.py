#!/usr/bin/env python3
"""What one port for all shards costs: the same open load through `routing = "shard"` and `"node"`, in turn, in one run.

Prints, of each way to route, the medians over the rounds: latencies of produces and end to end, and the broker's processor
time a record, reading it included. The load comes from `ringlog bench` at a fixed rate, so that both carry the same.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """User and system time of a process since its start."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def address(ready):
    """Where the broker listens, from what it says when it is ready."""
    return ready["endpoints"][0]["address"]


def figures(report, seconds):
    """What one round comes to."""
    load = report["phases"][0]["load"]
    if load["verdict"]["lost"] or not load["is_drained"]:
        sys.exit(f"the load was not carried: {load['verdict']}")
    milliseconds = lambda latency, part: load[latency][part] / 1e6
    return {
        "produce p50 ms": milliseconds("produce_latency", "p50"),
        "produce p99 ms": milliseconds("produce_latency", "p99"),
        "end to end p99 ms": milliseconds("end_to_end_latency", "p99"),
        "processor us/record": seconds * 1e6 / load["verdict"]["acknowledged"],
    }


def measure(options, routing):
    """One round."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        serve = [options.ringlog, "serve", "--listen", "127.0.0.1:0", "--json", "--cpus", options.cpus]
        serve += ["--data-dir", f"{folder}/data", "--routing", routing]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as broker:
            try:
                ready = json.loads(broker.stdout.readline())
                before = processor_seconds(broker.pid)
                load = [options.ringlog, "bench", "--bootstrap", address(ready), "--json", "--warmup", "1s"]
                load += ["--rate", str(options.rate), "--duration", f"{options.seconds}s", "--acks", options.acks]
                run = subprocess.run(load, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
                if run.returncode != 0:
                    sys.exit(f"{' '.join(load)}: exit code {run.returncode}\n{run.stderr}")
                return figures(json.loads(run.stdout), processor_seconds(broker.pid) - before)
            finally:
                broker.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ringlog", help="the binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of load in each round")
    parser.add_argument("--rate", type=int, default=20_000, help="records a second, of 1 KiB")
    parser.add_argument("--acks", default="all")
    parser.add_argument("--cpus", default="0,1", help="the shards' CPUs")
    parser.add_argument("--scratch", default="target", help="a folder on a drive with direct I/O")
    options = parser.parse_args()
    rounds = {"shard": [], "node": []}
    for _ in range(options.rounds):
        for routing, measured in rounds.items():
            measured.append(measure(options, routing))
    print(f"{'':22}{'shard':>10}{'node':>10}{'node/shard':>12}")
    for figure in rounds["shard"][0]:
        shard, node = (statistics.median(round[figure] for round in rounds[routing]) for routing in rounds)
        print(f"{figure:22}{shard:10.2f}{node:10.2f}{node / shard:12.2f}")


if __name__ == "__main__":
    main()
