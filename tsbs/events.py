"""ChronoLog's own time-series kernel: min, max and avg of ranges of 4 MB of events of 4 KB, in each tier.

Compared with PostgreSQL with an index on the time, in turns over the same ranges. Also measures the growth
of an aggregate's cost with its range, for events in stories.
"""

import datetime
import os
import pathlib
import random
import shutil
import statistics
import sys
import time

import psycopg

import tsbs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from measures import timed  # noqa: E402
from servers import Stratalog, running  # noqa: E402

EVENT_BYTES = 4096
RANGE_EVENTS = 4 * (1 << 20) // EVENT_BYTES
FIRST = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
# The interval between events.
STEP = datetime.timedelta(milliseconds=10)
# Events of a COPY statement.
BATCH = 1024
TABLE = "CREATE TABLE events (time TIMESTAMPTZ NOT NULL PRIMARY KEY, value DOUBLE PRECISION, payload BYTEA)"
KERNEL = "SELECT min(value), max(value), avg(value) FROM events WHERE time >= %s AND time < %s"
FIND = "SELECT time, value, payload FROM events WHERE time >= %s AND time < %s"


class EventBench:
    """Uses the results, the folder and the PostgreSQL of a `Bench`."""

    def __init__(self, bench):
        self.bench, self.note, self.arguments = bench, bench.note, bench.arguments
        self.server = None

    def run(self):
        events = self.arguments.events // BATCH * BATCH
        print(f"{events} events of {EVENT_BYTES} bytes; ranges of {RANGE_EVENTS}", flush=True)
        self.random, self.events = random.Random(1), events
        directory = self.bench.directory / "events"
        # Everything stays in memory until it is moved explicitly.
        self.server = Stratalog(directory, "--memory-bytes-max", "60%", "--backlog-bytes-max", "0",
                                "--journal-bytes-high", "1TiB")
        self.server.start(600)
        if self.bench.postgres not in running:
            self.bench.postgres.start()
        with psycopg.connect(self.server.dsn(), autocommit=True) as ours, \
                psycopg.connect(self.bench.postgres.dsn(), autocommit=True) as peer:
            self.load({"Stratalog": ours, "  PostgreSQL": peer})
            for tier, call in (("journal", None), ("tablet", "flush"), ("story", "compact")):
                if call:
                    ours.execute(f"CALL stratalog.{call}('events')")
                self.turns(tier, ours, peer)
            self.growth(ours, peer)
        self.server.stop(seconds=600)
        shutil.rmtree(directory)

    def close(self):
        if self.server:
            self.server.kill()

    def load(self, connections):
        """Loads the same events into each contender, in turns."""
        for connection in connections.values():
            connection.execute("DROP TABLE IF EXISTS events")
            connection.execute(TABLE)
        took = dict.fromkeys(connections, 0.0)
        for first in range(0, self.events, BATCH):
            rows = [f"{FIRST + STEP * n}\t{self.random.gauss(50, 20)!r}\t\\\\x{os.urandom(EVENT_BYTES).hex()}\n"
                    for n in range(first, first + BATCH)]
            batch = "".join(rows).encode()
            for name, connection in connections.items():
                took[name] += timed(lambda: copy(connection, batch))
        for name, seconds in took.items():
            self.note(f"{name}, events of 4 KB by COPY", self.events * EVENT_BYTES / 1e6 / seconds, "MB/s")

    def range(self, events):
        """A range of `events` events with a random start."""
        first = self.random.randrange(self.events - events + 1)
        return FIRST + STEP * first, FIRST + STEP * (first + events)

    def turns(self, tier, ours, peer):
        for name, query, count in (("min, max, avg of 4 MB", KERNEL, 200), ("4 MB of events read", FIND, 20)):
            mine, theirs = [], []
            for turn in range(count + 10):
                ends = self.range(RANGE_EVENTS)
                times, answers = [], []
                for connection in (ours, peer):
                    began = time.monotonic()
                    answers.append(connection.execute(query, ends, binary=True).fetchall())
                    times.append((time.monotonic() - began) * 1000)
                same(*answers)
                # The first queries include planning and file reads, so they are not counted.
                if turn >= 10:
                    mine.append(times[0])
                    theirs.append(times[1])
            own, other = statistics.median(mine), statistics.median(theirs)
            self.note(f"{name}, tier {tier}", own, "ms")
            self.note("  PostgreSQL", other, "ms")
            self.note("  times as fast", other / own, "x")

    def growth(self, ours, peer):
        events = RANGE_EVENTS
        while events <= self.events:
            mine, theirs = [], []
            for _ in range(50):
                ends = self.range(events)
                answers = []
                for connection, times in ((ours, mine), (peer, theirs)):
                    began = time.monotonic()
                    answers.append(connection.execute(KERNEL, ends, binary=True).fetchall())
                    times.append((time.monotonic() - began) * 1000)
                same(*answers)
            self.note(f"min, max, avg of {events} events in stories", statistics.median(mine), "ms")
            self.note("  PostgreSQL", statistics.median(theirs), "ms")
            events *= 4


def copy(connection, batch):
    with connection.cursor() as cursor, cursor.copy("COPY events FROM STDIN") as rows:
        rows.write(batch)


def same(*answers):
    mine, theirs = ([list(row) for row in sorted(rows)] for rows in answers)
    if not tsbs.same(mine, theirs):
        raise RuntimeError(f"answers differ: {mine[:1]} {theirs[:1]}")
