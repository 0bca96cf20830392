"""The log: what a chronicle takes and gives, and how it does beside Kafka and BookKeeper on the same disk."""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

from measures import line_of, machine
from peers.contender import Missing

from logs import PEERS, Stratalog, page  # noqa: E402
from logs.sides import Sides  # noqa: E402
from logs.targets import Targets  # noqa: E402

PARTS = ["peers", "targets"]


def say(*words):
    print(*words, flush=True)


def beside(arguments, directory, document):
    """Measures Stratalog and the available peers side by side."""
    logs = [Stratalog(directory / "stratalog")]
    for name in arguments.peers:
        try:
            logs.append(PEERS[name](directory / name, arguments.kafka_partitions))
        except Missing as why:
            document["missing"][PEERS[name].name] = str(why)
            say(f"{PEERS[name].name} is missing: {why}")
    document["logs"] = [{"name": log.name, "version": log.version(), "way": log.way} for log in logs]
    say("Side by side: appended /s, acknowledged p50 and p99 ms; read at the tail /s, p50 and p99 ms")
    sides = Sides(arguments, logs)
    document["rounds"], document["failures"] = sides.rounds, sides.failures
    sides.run()
    return sides


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 4096, 1 << 20], help="bytes of a record, 20 or more")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="seconds before anything counts")
    parser.add_argument("--seconds", type=int, default=5, help="of one turn")
    parser.add_argument("--kafka-partitions", type=int, default=4, help="that several clients share")
    parser.add_argument("--events", type=int, default=262_144, help="of 4 KB, to be played back and replayed")
    parser.add_argument("--small-events", type=int, default=4_000_000, help="of 100 B, to be caught up with")
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--live-seconds", type=int, default=20)
    parser.add_argument("--interval-ms", type=int, default=100, help="between two events for the subscribers")
    parser.add_argument("--keep", type=int, default=1, help="writes results/; 0 for not")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/var/tmp"), help="on the disk to measure")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed, or somebody is ahead")
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-log-", dir=arguments.directory))
    details = machine(directory)
    say(f"{details['cpu']}, {details['cores']} cores, {details['memory_gb']} GB, {details['file_system']}")
    given = {name: value for name, value in vars(arguments).items() if name != "directory"}
    document = {"machine": details, "parameters": given, "load": [os.getloadavg()[0]], "missing": {}, "failures": {},
                "logs": [], "rounds": [], "targets": []}
    sides, targets = None, Targets(arguments, directory)
    document["targets"] = targets.figures
    try:
        if "peers" in arguments.parts:
            sides = beside(arguments, directory, document)
        if "targets" in arguments.parts:
            targets.run()
    finally:
        targets.close()
        shutil.rmtree(directory, ignore_errors=True)
    document["load"].append(os.getloadavg()[0])
    if arguments.keep:
        page.write(document, sides, details)
    return verdict(arguments, sides, targets.figures, document)


def verdict(arguments, sides, figures, document):
    judged = [figure for figure in figures if figure["met"] is not None]
    for figure in judged:
        say(line_of(figure))
    missed = [figure for figure in judged if not figure["met"]]
    behind = sides.behind() if sides else []
    say(f"{len(judged) - len(missed)} of {len(judged)} targets met; others are ahead in {len(behind)} figures")
    if document["failures"]:
        return 1
    return 1 if arguments.strict and (missed or behind) else 0


if __name__ == "__main__":
    sys.exit(main())
