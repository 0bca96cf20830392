"""The interface of every contender. Each contender keeps its data below a separate folder."""

import json
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "clients"))

# After this time no further query of a type begins in a turn.
TURN_SECONDS = 20.0


class Missing(Exception):
    """The peer is not available here; with the reason."""


class Contender:
    name = ""
    # The transport of the answers.
    way = ""
    # True if it loads line protocol.
    wants_lines = False
    # True if its answers must equal Stratalog's.
    comparable = True
    # True if it runs the queries of a use case, with tags in a separate table or not.
    @classmethod
    def runs(cls, use_case, tagged):
        raise NotImplementedError

    @classmethod
    def install(cls, cache):
        """Installs missing parts; raises Missing."""

    def __init__(self, dataset, directory, label=None):
        self.dataset, self.directory = dataset, pathlib.Path(directory)
        self.label = label or self.name
        self.notes = []

    def version(self):
        raise NotImplementedError

    def start(self):
        raise NotImplementedError

    def load(self):
        """Loads the rows as fast as possible without changes to any program."""
        raise NotImplementedError

    def settle(self):
        """Runs the maintenance that its manual advises between loading and reading; not part of the loading rate."""

    def restart(self):
        self.stop()
        self.start()

    def text(self, query_type, ours):
        """Its text of a Stratalog query; None if it has none."""
        raise NotImplementedError

    def answer(self, text):
        """(names of columns, rows) with plain values: see `answers`."""
        raise NotImplementedError

    def run(self, texts, clients=1, seconds=TURN_SECONDS, again=False):
        """Milliseconds of each query, until the last byte arrives: {"ms": [...], "seconds": ...}."""
        raise NotImplementedError

    def stored_bytes(self):
        return sum(path.lstat().st_blocks * 512 for path in self.directory.rglob("*") if path.is_file())

    def stop(self):
        raise NotImplementedError

    # For contenders that are servers.

    def ready(self, ask, seconds=300):
        """Repeats `ask` until `self.process` answers."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return ask()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def ask_by_client(self, flags, texts, clients, seconds, again):
        command = [self.dataset.tools.client(), "run", *flags, f"--clients={clients}", f"--seconds={seconds}"]
        done = subprocess.run([*command, *(["--again"] if again else [])], input="\n".join(json.dumps(text) for text in texts),
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{self.label}: {done.stderr}")
        found = json.loads(done.stdout)
        if found.get("error"):
            raise RuntimeError(f"{self.label}: {found['error']}")
        return found


class CpuOnly(Contender):
    """A contender for which TSBS has only texts of cpu-only without a separate tags table."""

    @classmethod
    def runs(cls, use_case, tagged):
        return use_case == "cpu-only" and not tagged


def in_threads(count, work, jobs):
    """Does all jobs, `count` at a time."""
    taking, each, failures = threading.Lock(), iter(jobs), []

    def loop():
        try:
            while not failures:
                with taking:
                    job = next(each, None)
                if job is None:
                    return
                work(job)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=loop, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
