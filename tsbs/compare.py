"""TSBS's data and queries, for us and for the databases that the registries have, in turns."""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

import report
import texts
import tsbs
from datasets import Dataset
from measures import machine
from peers import PEERS, Stratalog
from peers.contender import Missing
from servers import stratalog_binary
from turns import Contest

START = datetime.datetime(2016, 1, 1)
# Name of a use case, TSBS's name, and true if tags have a separate table.
USE_CASES = {"cpu-only": ("cpu-only", False), "cpu-only-tags": ("cpu-only", True), "iot": ("iot", True)}


def say(*words):
    print(*words, flush=True)


class Comparison:
    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, directory
        self.missing, self.peers = {}, []
        self.results = {"sets": [], "missing": self.missing, "load": [os.getloadavg()[0]],
                        "parameters": {name: value for name, value in vars(arguments).items() if name != "directory"}}

    def install(self):
        cache = pathlib.Path(os.environ.get("STRATALOG_CACHE") or
                             pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "stratalog")
        cache.mkdir(parents=True, exist_ok=True)
        for name in self.arguments.peers:
            try:
                PEERS[name].install(cache)
                self.peers.append(PEERS[name])
            except Missing as why:
                self.missing[PEERS[name].name] = str(why)
                say(f"{PEERS[name].name} is missing: {why}")

    def run(self):
        self.install()
        for name in self.arguments.use_cases:
            one = OneUseCase(self, name)
            try:
                self.results["sets"].append(one.run())
            finally:
                one.close()
        self.results["load"].append(os.getloadavg()[0])

    def tools(self, use_case, times=1):
        end = START + datetime.timedelta(hours=self.arguments.hours * times)
        return tsbs.Tools(self.arguments.scale, f"{START:%Y-%m-%dT%H:%M:%SZ}", f"{end:%Y-%m-%dT%H:%M:%SZ}",
                          self.arguments.seed, use_case)


class OneUseCase:
    def __init__(self, comparison, name):
        self.comparison, self.arguments, self.name = comparison, comparison.arguments, name
        self.use_case, self.tagged = USE_CASES[name]
        self.directory = comparison.directory / name
        self.contenders, self.long, self.started = [], [], []
        self.failures = {}

    def dataset(self, times, folder):
        tools = self.comparison.tools(self.use_case, times)
        dataset = Dataset(self.use_case, self.tagged, tools, self.arguments.interval, self.directory / folder)
        dataset.texts = texts.Texts(self.comparison.tools(self.use_case), self.tagged, dataset.directory)
        began = time.monotonic()
        dataset.generate()
        say(f"  {dataset.rows:,} rows generated in {time.monotonic() - began:.0f} s")
        return dataset

    def run(self):
        say(f"{self.name}: scale {self.arguments.scale}, {self.arguments.hours} hours, {self.arguments.interval}")
        dataset = self.dataset(1, "data")
        peers = [peer for peer in self.comparison.peers if peer.runs(self.use_case, self.tagged)]
        found = {"name": self.name, "rows": dataset.rows, "fingerprint": dataset.fingerprint(), "contenders": [], "types": [],
                 "left_out": [], "failures": self.failures}
        wanted = [Stratalog(dataset, self.directory / "stratalog")]
        if self.arguments.fresh:
            wanted.append(Stratalog(dataset, self.directory / "fresh", label="a tenth fresh", fresh=True))
        wanted += [peer(dataset, self.directory / peer.__name__.lower()) for peer in peers]
        self.contenders = [contender for contender in wanted if self.load(contender, dataset, found)]
        dataset.remove()
        if self.arguments.span > 1 and self.name == "cpu-only":
            longer = self.dataset(self.arguments.span, "long-data")
            longer.texts = dataset.texts
            wanted = [kind(longer, self.directory / f"long-{kind.__name__.lower()}", label=f"{kind.name}, {self.arguments.span}× the span")
                      for kind in [Stratalog, *[peer for peer in peers if peer.name.lower() in self.arguments.span_peers]]]
            self.long = [contender for contender in wanted if self.load(contender, longer, found)]
            longer.remove()
        for contender in self.contenders + self.long:
            # Contenders that are not restarted continue to run.
            if contender not in self.started:
                contender.start()
                self.started.append(contender)
        # A pause, so that the background work after the start of all servers is finished before the first query.
        time.sleep(self.arguments.pause)
        end = START + datetime.timedelta(hours=self.arguments.hours)
        contest = Contest(self.contenders, dataset.texts, end, self.arguments.queries, self.arguments.checks, self.arguments.clients)
        for query_type in tsbs.IOT_QUERY_TYPES if self.use_case == "iot" else tsbs.QUERY_TYPES:
            if self.arguments.types and query_type not in self.arguments.types:
                continue
            beside = self.long if query_type in texts.FIXED_RANGE else []
            figures = contest.run(query_type, beside)
            if figures is None:
                found["left_out"].append(query_type)
                say(f"  {query_type:24} needs more hours, or a larger scale")
                continue
            found["types"].append(figures)
            say(report.line(figures))
        return found

    def load(self, contender, dataset, found):
        """Loads a contender while no other contender runs; returns true on success."""
        try:
            if contender.wants_lines:
                dataset.generate_lines()
            contender.start()
            self.started.append(contender)
            began = time.monotonic()
            contender.load()
            took = time.monotonic() - began
            contender.settle()
            settled = time.monotonic() - began - took
            contender.restart()
            size = contender.stored_bytes()
        except Exception as error:
            self.failures[contender.label] = str(error)[:1000]
            say(f"  {contender.label} failed: {error}")
            return False
        about = {"label": contender.label, "name": contender.name, "version": contender.version(), "way": contender.way,
                 "rows": dataset.rows, "rows_per_second": dataset.rows / took, "settled_seconds": settled, "bytes": size,
                 "notes": contender.notes}
        found["contenders"].append(about)
        say(f"  {contender.label:34} {dataset.rows / took:>10,.0f} rows/s {size / 1e6:>9,.1f} MB, settled in {settled:.1f} s "
            + "; ".join(contender.notes))
        if not getattr(contender, "fresh", False):
            contender.stop()
            self.started.remove(contender)
        return True

    def close(self):
        for contender in self.started:
            try:
                contender.stop()
            except Exception as error:
                say(f"  {contender.label} does not stop: {error}")
        shutil.rmtree(self.directory, ignore_errors=True)


def names(kinds):
    def parse(text):
        found = [name for name in text.replace(",", " ").split() if name != "none"]
        unknown = [name for name in found if name not in kinds]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(kinds)}")
        return found
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=100, help="hosts, or trucks")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--interval", default="10s")
    parser.add_argument("--queries", type=int, default=20, help="of each type")
    parser.add_argument("--checks", type=int, default=3, help="queries of each type whose answers are compared")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)}; none for none")
    parser.add_argument("--use-cases", type=names(USE_CASES), default=list(USE_CASES), help=f"of {', '.join(USE_CASES)}")
    parser.add_argument("--types", type=lambda text: text.replace(",", " ").split(), default=[], help="only these query types")
    parser.add_argument("--span", type=int, default=10, help="the same queries on so many times the span; 0 for not")
    parser.add_argument("--span-peers", type=names(PEERS), default=["questdb"], help="who takes part in that besides us")
    parser.add_argument("--clients", type=int, default=8, help="at once, against one; 0 for not")
    parser.add_argument("--fresh", type=int, default=1, help="also with a tenth of the rows not yet in stories; 0 for not")
    parser.add_argument("--pause", type=int, default=10, help="seconds between the last start and the first query")
    parser.add_argument("--seed", type=int, default=123)
    parser.add_argument("--keep", type=int, default=1, help="writes results/; 0 for not")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/var/tmp"), help="on the disk to measure")
    # Also in the syntax of make: SPAN_PEERS=questdb.
    words = [re.sub(r"^[A-Z_]+(?==)", lambda name: f"--{name[0].lower().replace('_', '-')}", word) for word in sys.argv[1:]]
    arguments = parser.parse_args(words)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-tsbs-", dir=arguments.directory))
    # PostgreSQL runs under another user if this process runs as root, and works below this directory.
    directory.chmod(0o755)
    stratalog_binary()
    details = machine(directory)
    say(f"{details['cpu']}, {details['cores']} cores, {details['memory_gb']} GB, {details['file_system']}")
    comparison = Comparison(arguments, directory)
    began = time.monotonic()
    try:
        comparison.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    comparison.results["seconds"] = time.monotonic() - began
    return report.finish(comparison.results, details, bool(arguments.keep))


if __name__ == "__main__":
    sys.exit(main())
