#!/usr/bin/env python3
"""Puts a broker under pressure, one scenario a subcommand, and says which bounds hold: exit code 1 if one is broken.

Each starts and stops brokers of its own, on the CPUs that `--cpus` names, and keeps everything else off these. Times are
those of a busy or an idle host: what counts are ratios within one run, memory, errors and losses.
"""

import argparse
import sys

import crowds
import frames
import neighbours
import overload
import retention
import tails
from broker import keep_off


def scenario(commands, name, run, about, **defaults):
    """One subcommand with the options that all have, and those that have a default here."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    add = commands.add_parser(name, help=about, description=about, formatter_class=shown).add_argument
    add("ringlog", help="the binary")
    cpus = defaults.get("cpus", "0,0")
    add("--cpus", default=cpus, help="the shards' CPUs; one named twice runs two shards")
    add("--scratch", default="target", help="a folder on a drive with direct I/O")
    commands.choices[name].set_defaults(run=run)
    if "seconds" in defaults:
        of = defaults.get("of", "of the customer in each round")
        add("--seconds", type=int, default=defaults["seconds"], help=of)
    if "rounds" in defaults:
        add("--rounds", type=int, default=defaults["rounds"], help="each beside and without, in turn")
    if "ratio" in defaults:
        add("--rate", type=int, default=1_000, help="the customer's records of 1 KiB a second")
        add("--ratio-max", type=float, default=defaults["ratio"], help="the customer's p99 beside / without")
    return add


def main():
    parser = argparse.ArgumentParser(prog="pressure", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="SCENARIO")

    about = "ten times what a shard carries"
    add = scenario(commands, "overload", overload.run, about, cpus="0", seconds=60, of="of load")
    add("--times", type=float, default=10, help="what it carries")
    add("--measure", type=int, default=5, help="seconds in which that is found out")
    add("--recovery-max", type=float, default=5, help="seconds until lone produces are as they were")
    add("--loaders", type=int, default=1, help="processes of clients that wait")
    add("--producers", type=int, default=8, help="of each")
    add("--flooders", type=int, default=200, help="connections that send without waiting for answers")
    add("--record-bytes", type=int, default=1024)
    add("--batch-bytes", type=int, default=16_384)

    about = "connections that ask for versions and then for nothing"
    add = scenario(commands, "idle", crowds.idle, about, seconds=5, rounds=5, ratio=3)
    add("--connections", type=int, default=10_000)
    add("--quiet", type=int, default=5, help="seconds in which nobody asks for anything")
    add("--bytes-max", type=int, default=16_384, help="of memory a connection")

    about = "connections that come, ask twice and leave"
    add = scenario(commands, "churn", crowds.churn, about, seconds=20, rounds=3, ratio=3)
    add("--connections", type=int, default=1_000, help="a second")
    add("--workers", type=int, default=8, help="processes that make them")

    about = "consumers that ask and never read"
    add = scenario(commands, "deaf", crowds.deaf, about, seconds=10, ratio=3)
    add("--connections", type=int, default=300)
    add("--bursts", type=int, default=10, help="how often they come and go")
    add("--routing", default="shard,node", help="one or both")

    about = "consumers that ask for the newest records and never read"
    add = scenario(commands, "tails", tails.run, about, seconds=14, of="of the customer", rounds=2)
    add("--rate", type=int, default=1_000, help="the customer's records of 1 KiB a second")
    add("--connections", type=int, default=300)
    add("--routing", default="shard,node", help="one or both")
    add("--longest-max", type=float, default=2_000, help="milliseconds from produce to consume, at the most")

    about = "8 busy partitions beside idle ones with a record each"
    add = scenario(commands, "neighbours", neighbours.run, about, seconds=10, rounds=5, ratio=1.5)
    add("--partitions", type=int, default=10_000, help="idle ones")
    add("--killed-max", type=float, default=5, help="seconds of a start after `kill -9`")
    add("--stopped-max", type=float, default=2, help="seconds of a start after an orderly stop")

    about = "topics that lose their oldest records under load"
    retention.options(scenario(commands, "retention", retention.run, about, seconds=600, of="of load"))

    about = "random and mutated frames"
    frames.options(scenario(commands, "frames", frames.run, about, seconds=10, ratio=3))

    options = parser.parse_args()
    keep_off(options.cpus)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
