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
from broker import keep_off


def scenario(commands, name, run, about, **defaults):
    """One subcommand with the options that all have."""
    parser = commands.add_parser(name, help=about, description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("ringlog", help="the binary")
    parser.add_argument("--cpus", default=defaults.get("cpus", "0,0"), help="the shards' CPUs; one named twice runs two shards")
    parser.add_argument("--scratch", default="target", help="a folder on a drive with direct I/O")
    parser.set_defaults(run=run)
    if "seconds" in defaults:
        parser.add_argument("--seconds", type=int, default=defaults["seconds"], help=defaults.get("of", "of the customer in each round"))
    if "rounds" in defaults:
        parser.add_argument("--rounds", type=int, default=defaults["rounds"], help="each beside and without, in turn")
    if "ratio" in defaults:
        parser.add_argument("--rate", type=int, default=defaults.get("rate", 1_000), help="the customer's records a second")
        parser.add_argument("--ratio-max", type=float, default=defaults["ratio"], help="the customer's p99 beside against without")
    return parser


def main():
    parser = argparse.ArgumentParser(prog="pressure", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="SCENARIO")

    add = scenario(commands, "overload", overload.run, "ten times what a shard carries", cpus="0", seconds=60, of="of load")
    add.add_argument("--times", type=float, default=10, help="what it carries")
    add.add_argument("--measure", type=int, default=5, help="seconds in which that is found out")
    add.add_argument("--recovery-max", type=float, default=5, help="seconds from the flood's end until a lone produce is undisturbed")
    add.add_argument("--loaders", type=int, default=1, help="processes of clients that wait")
    add.add_argument("--producers", type=int, default=8, help="of each")
    add.add_argument("--flooders", type=int, default=200, help="connections that send without waiting for answers")
    add.add_argument("--record-bytes", type=int, default=1024)
    add.add_argument("--batch-bytes", type=int, default=16_384)

    add = scenario(commands, "idle", crowds.idle, "connections that ask for versions and then for nothing", seconds=10, rounds=3, ratio=3)
    add.add_argument("--connections", type=int, default=10_000)
    add.add_argument("--quiet", type=int, default=5, help="seconds in which nobody asks for anything")
    add.add_argument("--bytes-max", type=int, default=16_384, help="of memory a connection")

    add = scenario(commands, "churn", crowds.churn, "connections that come, ask twice and leave", seconds=20, rounds=3, ratio=3)
    add.add_argument("--connections", type=int, default=1_000, help="a second")
    add.add_argument("--workers", type=int, default=4, help="processes that make them")

    add = scenario(commands, "deaf", crowds.deaf, "consumers that ask and never read", seconds=10, ratio=3)
    add.add_argument("--connections", type=int, default=300)
    add.add_argument("--bursts", type=int, default=5, help="how often they come and go")
    add.add_argument("--routing", default="shard,node", help="one or both")

    add = scenario(commands, "neighbours", neighbours.run, "8 busy partitions beside idle ones with a record each", seconds=10, rounds=5, ratio=1.5)
    add.add_argument("--partitions", type=int, default=10_000, help="idle ones")

    retention.add_options(scenario(commands, "retention", retention.run, "topics that lose their oldest records under load", seconds=600, of="of load"))
    frames.add_options(scenario(commands, "frames", frames.run, "random and mutated frames", seconds=10, ratio=3))

    options = parser.parse_args()
    keep_off(options.cpus)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
