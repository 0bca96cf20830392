"""The throughput of a chronicle, compared with the journal alone, the bare disk, and readers of the same files."""

import json
import os
import shutil
import statistics
import subprocess
import time

import psycopg

from disk import BareWrites
from measures import built, line_of
from tiers import find

from .load import Load, words
from .ours import Stratalog

EVENT_BYTES = 4096
# The time until a server has allocated all its memory for events.
FIRST_SECONDS = 15
# Event size of the history for catching up.
SMALL_BYTES = 100
# Without limits on writing: all events to be read stay in memory until they are moved.
IN_MEMORY = ["--memory-bytes-max", "60%", "--backlog-bytes-max", "0", "--journal-bytes-high", "1TiB"]


class Targets:
    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, directory
        self.figures = []
        self.server = None

    def note(self, what, value, unit, target=None, met=None, **more):
        """Records a figure and prints it."""
        self.figures.append({"what": what, "value": value, "unit": unit, "target": target, "met": met, **more})
        print(line_of(self.figures[-1]), flush=True)

    def run(self):
        print(f"Recording events of {EVENT_BYTES} bytes", flush=True)
        self.start("recorded")
        self.record_many()
        self.record_one()
        self.live()
        self.end()
        print(f"Reading: {self.arguments.events} events of {EVENT_BYTES} bytes, {self.arguments.small_events} of {SMALL_BYTES}", flush=True)
        self.start("read", *IN_MEMORY)
        self.newest()
        self.replay()
        self.catch_up()
        self.end()

    def start(self, name, *flags):
        self.server = Stratalog(self.directory / name, *flags)
        self.server.start()

    def end(self):
        if self.server:
            server, self.server = self.server, None
            server.stop()
            shutil.rmtree(server.server.data_dir, ignore_errors=True)

    def close(self):
        if self.server:
            self.server.server.kill()

    # Recording

    def record_many(self):
        load = Load(EVENT_BYTES, self.arguments.clients, 128, self.arguments.warm_up, self.arguments.seconds)
        program = built("limit", "bench", "-p", "stratalog-journal", "--bench", "limit", "--no-run")
        # The first allocation of memory for events costs more than all other work on them.
        beginning = Load(EVENT_BYTES, self.arguments.clients, 128, 0, FIRST_SECONDS)
        first = self.server.load(beginning, durability="disk", tail=0)["append_per_second"]
        self.note(f"record, {load.clients} clients, disk, first {FIRST_SECONDS} seconds of a server", first, "/s")
        os.sync()
        for durability in ("disk", "relaxed"):
            mine, limits, latencies = [], [], []
            for _ in range(self.arguments.rounds):
                limits.append(self.limit(program, load, durability))
                os.sync()
                found = self.server.load(load, durability=durability, tail=0)
                mine.append(found["append_per_second"])
                latencies.append(found["append_p50_ms"])
                os.sync()
            rate, limit = statistics.median(mine), statistics.median(limits)
            share = 100 * statistics.median(own / most for own, most in zip(mine, limits))
            self.note(f"record, {load.clients} clients, {durability}", rate, "/s", rounds=mine)
            self.note("  the journal by itself", limit, "/s", rounds=limits)
            self.note("  of the journal's own", share, "%", ">= 85", share >= 85)
            self.note("  acknowledged after, p50", statistics.median(latencies), "ms")

    def limit(self, program, load, durability):
        given = {"durability": durability, "size": load.size, "clients": load.clients, "window": load.window, "seconds": load.seconds}
        done = subprocess.run([program, *words(given)], capture_output=True, text=True,
                              env={**os.environ, "STRATALOG_BENCH_DIR": str(self.directory)})
        if done.returncode != 0:
            raise RuntimeError(f"the journal by itself: {done.stderr[-1000:]}")
        return json.loads(done.stdout.splitlines()[-1])["append_per_second"]

    def record_one(self):
        """One event at a time, in turns with the bare disk. The best of many short rounds counts, because other
        processes share the disk."""
        load = Load(EVENT_BYTES, 1, 1, 1, max(1, self.arguments.seconds // 2))
        found = {name: [] for name in ("disk", "relaxed", "appended", "overwritten", "asked", "answered")}
        with BareWrites(self.directory, EVENT_BYTES) as bare:
            for _ in range(self.arguments.rounds * 3):
                found["appended"].append(bare.append(1))
                found["disk"].append(self.server.load(load, durability="disk", tail=0)["append_p50_ms"])
                found["overwritten"].append(bare.overwrite(1))
                found["asked"].append(self.echo("disk"))
                found["relaxed"].append(self.server.load(load, durability="relaxed", tail=0)["append_p50_ms"])
                found["answered"].append(self.echo("relaxed"))
        best = {name: min(values) for name, values in found.items()}
        times = best["disk"] / best["overwritten"]
        self.note("record, 1 client, disk, p50 of best round", best["disk"], "ms", rounds=found["disk"])
        self.note("  appended to a file + fdatasync", best["appended"], "ms", rounds=found["appended"])
        self.note("  over written blocks + fdatasync", best["overwritten"], "ms", rounds=found["overwritten"])
        self.note("  times a bare write", times, "x", "<= 1.5", times <= 1.5)
        self.note("  in times of a bare append", best["disk"] / best["appended"], "x")
        self.note("  over a socket, written blocks + fdatasync, no log", best["asked"], "ms", rounds=found["asked"])
        self.note("  times that", best["disk"] / best["asked"], "x")
        self.note("record, 1 client, relaxed, p50 of best round", best["relaxed"], "ms", "<= 0.1", best["relaxed"] <= 0.1,
                  rounds=found["relaxed"])
        self.note("  an answer over a socket, no log", best["answered"], "ms", rounds=found["answered"])
        self.note("  times that", best["relaxed"] / best["answered"], "x")

    def echo(self, durability):
        """The latency of a socket with a plain file behind it, or with nothing."""
        return self.server.work("echo", size=EVENT_BYTES, seconds=1, durability=durability, directory=self.directory)["echo_p50_ms"]

    def live(self):
        found = self.server.work("live", subscribers=self.arguments.subscribers, seconds=self.arguments.live_seconds,
                                 interval_ms=self.arguments.interval_ms)
        what = f"live, {found['subscribers']} subscribers"
        late = found["after_durable_p99_ms"]
        self.note(f"{what}, after durable, p99", late, "ms", "<= 10", late <= 10, found=found)
        self.note("  p50", found["after_durable_p50_ms"], "ms")
        self.note("  since recording began, p99", found["after_begun_p99_ms"], "ms")

    # Reading

    def rounds(self, what, **more):
        return [self.server.work(what, **more) for _ in range(self.arguments.rounds)]

    def newest(self):
        self.server.work("fill", chronicle="events", events=self.arguments.events, size=EVENT_BYTES)
        for count, target in ((1000, 100_000), (1, None)):
            found = self.rounds("playback", chronicle="events", count=count, clients=self.arguments.clients,
                                seconds=self.arguments.seconds)
            rates = [each["events_per_second"] for each in found]
            rate = statistics.median(rates)
            self.note(f"playback of {count} from memory, {self.arguments.clients} clients", rate, "/s", target and f">= {target}",
                      rate >= target if target else None, rounds=rates)
            self.note("  a call, p50", statistics.median(each["call_p50_ms"] for each in found), "ms")

    def replay(self):
        files = self.stories("events", self.arguments.events)
        peers = {"pyarrow": pyarrow_scan, "DuckDB": duckdb_scan}
        self.note("stories", sum(file.stat().st_size for file in files) / 1e9, "GB", files=len(files))
        mine, theirs = [], {name: [] for name in peers}
        megabytes = self.arguments.events * EVENT_BYTES / 1e6
        for _ in range(self.arguments.rounds):
            found = self.server.work("replay", chronicle="events", events=self.arguments.events)
            mine.append(found["bytes_per_second"] / 1e6)
            for name, scan in peers.items():
                began = time.monotonic()
                events = scan(files)
                theirs[name].append(megabytes / (time.monotonic() - began))
                if events != self.arguments.events:
                    raise RuntimeError(f"{name} finds {events} events")
        rate, best = statistics.median(mine), 0
        self.note("replay of stories", rate, "MB/s", rounds=mine)
        inside = [megabytes / self.replay_inside() for _ in range(self.arguments.rounds)]
        self.note("  in the server, nothing handed over", statistics.median(inside), "MB/s", rounds=inside)
        for name, rates in theirs.items():
            best = max(best, statistics.median(rates))
            self.note(f"  {name}, same files, in process", statistics.median(rates), "MB/s", rounds=rates)
        self.note("  of the faster scan", 100 * rate / best, "%", ">= 80", rate >= 0.8 * best)
        self.note("  in the server, of the faster scan", 100 * statistics.median(inside) / best, "%")

    def replay_inside(self):
        """Seconds that the server takes to replay all events in order, for a client that receives only their sum."""
        sql = """SELECT count(*), sum(length(payload)), max(behind) FROM (
                     SELECT payload, _tick - lag(_tick) OVER (ORDER BY _tick, _seq) AS behind FROM replay('events', '[,)'))"""
        with psycopg.connect(self.server.server.dsn(), autocommit=True) as connection:
            began = time.monotonic()
            events, octets, _ = connection.execute(sql).fetchone()
            taken = time.monotonic() - began
        if (events, octets) != (self.arguments.events, self.arguments.events * EVENT_BYTES):
            raise RuntimeError(f"a replay has {events} events of {octets} bytes")
        return taken

    def catch_up(self):
        events = self.arguments.small_events
        self.server.work("fill", chronicle="small", events=events, size=SMALL_BYTES)
        for place, target in (("memory", 1_000_000), ("stories", None)):
            if place == "stories":
                self.stories("small", events)
            rates = [each["events_per_second"] for each in self.rounds("catch-up", chronicle="small", events=events)]
            rate = statistics.median(rates)
            self.note(f"subscribe, catching up from {place}", rate, "/s", target and f">= {target}", rate >= target if target else None,
                      rounds=rates)

    def stories(self, chronicle, events):
        """Moves all events to stories; returns the files."""
        with psycopg.connect(self.server.server.dsn(), autocommit=True) as connection:
            connection.execute(f"CALL stratalog.compact('{chronicle}')")
            pieces = connection.execute("SELECT file, rows FROM stratalog.pieces WHERE name = %s AND tier = 'story'", [chronicle]).fetchall()
        if sum(rows for _, rows in pieces) != events:
            raise RuntimeError(f"of {events} events of {chronicle}, these are in stories: {pieces}")
        return [find(self.server.server.data_dir, file) for file, _ in pieces]


def pyarrow_scan(files):
    """Every column of every row as Arrow; the number of rows."""
    import pyarrow.parquet

    return sum(batch.num_rows for file in files for batch in pyarrow.parquet.ParquetFile(file).iter_batches())


def duckdb_scan(files):
    """Reads every time and every payload, and returns only their sums."""
    import duckdb

    with duckdb.connect() as connection:
        sql = "SELECT count(*), max(time) IS NOT NULL, sum(octet_length(payload)) FROM read_parquet(?)"
        return connection.execute(sql, [[str(file) for file in files]]).fetchone()[0]
