"""The costs and benefits of the tiers: ingest while events move, bytes per row, scans, opening, replay.

TSBS's cpu-only rows: a day of `--tier-scale` hosts at ten seconds, repeated with other dates.
"""

import datetime
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

import psycopg

import tsbs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from measures import drop_caches, percentile, resident_bytes, timed  # noqa: E402
from servers import Stratalog  # noqa: E402

FIRST_DAY = datetime.date(2016, 1, 1)
# Rows of a COPY statement, as in TSBS's own loader.
BATCH_ROWS = 10_000
MIB = 1 << 20
# Memory limits of the server during ingest.
BUDGETS = {"memory-bytes-max": 1024 * MIB, "query-memory-bytes-max": 512 * MIB, "backlog-bytes-max": 256 * MIB}
# Allowance for other memory of the process: code, stacks, allocator overhead, buffers of the wire and of the journal.
BESIDE = 256 * MIB
HOUR_OF_A_HOST = "SELECT max(usage_user) FROM cpu WHERE hostname = 'host_7' AND time < '2016-01-01 01:00:00+00'"
# Minimal rows of a story within a slice of time, if the slice has as many.
STORY_ROWS = 262_144
STORY_SCAN = "SELECT sum(usage_user) FROM cpu"


class Day:
    """A day of rows as batches of COPY text, in memory: can be sent again with any other date."""

    def __init__(self, scale):
        tools = tsbs.Tools(scale, f"{FIRST_DAY}T00:00:00Z", f"{FIRST_DAY + datetime.timedelta(days=1)}T00:00:00Z")
        self.batches, lines = [], []
        self.rows = 0
        for line in tools.generate_rows():
            lines.append(line)
            self.rows += 1
            if len(lines) == BATCH_ROWS:
                self.batches.append(b"".join(lines))
                lines.clear()
        self.batches.append(b"".join(lines))

    def on(self, day):
        """The batches of day number `day`."""
        date = str(FIRST_DAY + datetime.timedelta(days=day)).encode()
        own = str(FIRST_DAY).encode() + b" "
        for batch in self.batches:
            yield batch.replace(own, date + b" ") if day else batch


class Feed:
    """Rows sent by two connections for some seconds, with measurements meanwhile."""

    CONNECTIONS = 2

    def __init__(self, server, day):
        self.server, self.day = server, day
        self.latencies, self.rates = [], []
        self.resident, self.journal, self.queries = [], [], []
        self.rows = [0] * self.CONNECTIONS
        self.ended, self.failures = [], []

    def run(self, seconds):
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(tsbs.table())
        batches, began = self.batches(), time.monotonic()
        senders = [threading.Thread(target=self.send, args=(number, batches, began + seconds), daemon=True)
                   for number in range(self.CONNECTIONS)]
        for thread in senders:
            thread.start()
        self.watch(senders, began)
        self.seconds = max(self.ended) - began
        if self.failures:
            raise self.failures[0]
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            stored = connection.execute("SELECT count(*) FROM cpu").fetchone()[0]
        if stored != sum(self.rows):
            raise RuntimeError(f"{stored} rows stored of {sum(self.rows)}")
        return self

    def batches(self):
        """Sends day after day, each batch to one of the connections."""
        taking = threading.Lock()
        each = (batch for number in range(10_000) for batch in self.day.on(number))

        def take():
            with taking:
                return next(each)
        return take

    def send(self, number, take, until):
        try:
            with psycopg.connect(self.server.dsn(), autocommit=True) as connection, connection.cursor() as cursor:
                while time.monotonic() < until:
                    batch = take()
                    sent = time.monotonic()
                    with cursor.copy("COPY cpu FROM STDIN") as copy:
                        copy.write(batch)
                    self.latencies.append((time.monotonic() - sent) * 1000)
                    self.rows[number] += batch.count(b"\n")
        except Exception as error:
            self.failures.append(error)
        self.ended.append(time.monotonic())

    def watch(self, senders, began):
        """Records memory, journal, and the latency of a small query, twice a second."""
        mark = (began, 0)
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            while any(thread.is_alive() for thread in senders):
                time.sleep(0.5)
                self.resident.append(resident_bytes(self.server.process.pid))
                asked = time.monotonic()
                connection.execute(HOUR_OF_A_HOST).fetchone()
                self.queries.append((time.monotonic() - asked) * 1000)
                self.journal.append(connection.execute("SELECT sum(stored_bytes)::int8 FROM stratalog.journal").fetchone()[0])
                now, rows = time.monotonic(), sum(self.rows)
                if now - mark[0] >= 10:
                    self.rates.append((rows - mark[1]) / (now - mark[0]))
                    mark = (now, rows)

    @property
    def rate(self):
        return sum(self.rows) / self.seconds


class TierBench:
    """Uses the results and the folder of a `Bench`."""

    def __init__(self, bench):
        self.note, self.arguments = bench.note, bench.arguments
        self.directory = bench.directory / "tiers"
        self.servers = []

    def server(self, name, *flags, **settings):
        words = [word for key, value in settings.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        server = Stratalog(self.directory / name, *flags, *words)
        self.servers.append(server)
        return server.start(600)

    def remove(self, server):
        server.stop(seconds=600)
        self.servers.remove(server)
        shutil.rmtree(server.data_dir)

    def run(self):
        self.directory.mkdir()
        day = self.day = Day(self.arguments.tier_scale)
        print(f"Tiers: {day.rows} rows of TSBS cpu-only, one day of {self.arguments.tier_scale} hosts", flush=True)
        if self.arguments.ingest_seconds:
            self.bench_ingest(day)
        self.bench_sizes_and_scans(day)
        if self.arguments.stories:
            self.bench_opening()

    def close(self):
        for server in list(self.servers):
            server.kill()

    # Ingest

    def journal_only(self, day):
        """Rows per second without moves: everything stays in memory."""
        server = self.server("alone", memory_bytes_max="60%", journal_bytes_high="1TiB")
        feed = Feed(server, day).run(self.arguments.alone_seconds)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            moves = connection.execute("SELECT count(*) FROM stratalog.moves").fetchone()[0]
        if moves:
            raise RuntimeError("events moved: fewer seconds fit into memory here")
        self.remove(server)
        return feed.rate

    def bench_ingest(self, day):
        print(f"COPY of {BATCH_ROWS} rows each, two connections, {self.arguments.ingest_seconds:.0f} s, events moving")
        before = self.journal_only(day)
        server = self.server("fed", **{name.replace("-", "_"): size for name, size in BUDGETS.items()})
        feed = Feed(server, day).run(self.arguments.ingest_seconds)
        moved = self.moved(server)
        self.remove(server)
        alone = [before, self.journal_only(day)]
        share = 100 * feed.rate / statistics.mean(alone)
        longest, resident = max(feed.latencies), max(feed.resident)
        allowed = (sum(BUDGETS.values()) + BESIDE) * 1.1
        self.note("ingest, events moving", feed.rate, "rows/s", ten_seconds=feed.rates)
        self.note("  nothing moving", statistics.mean(alone), "rows/s", rounds=alone)
        self.note("ingest, events moving, of nothing moving", share, "%", ">= 85", share >= 85)
        self.note("  longest COPY of 10,000 rows", longest, "ms", "<= 500", longest <= 500)
        self.note("  COPY of 10,000 rows, p99", percentile(feed.latencies, 99), "ms")
        self.note("  resident memory, most", resident / MIB, "MiB", f"<= {allowed / MIB:.0f}", resident <= allowed)
        self.note("  journal, most", max(feed.journal) / MIB, "MiB")
        self.note("  query of an hour of a host, p50", percentile(feed.queries, 50), "ms")
        self.note("  query of an hour of a host, p99", percentile(feed.queries, 99), "ms")
        for tier, (rows, size) in sorted(moved.items()):
            self.note(f"  in tier {tier} at the end", rows, "rows", bytes=size)

    def moved(self, server):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            failed = connection.execute("SELECT error FROM stratalog.moves WHERE state = 'failed'").fetchall()
            if failed:
                raise RuntimeError(f"moves failed: {failed}")
            rows = connection.execute("SELECT tier, sum(rows)::int8, sum(bytes)::int8 FROM stratalog.pieces GROUP BY tier")
            return {tier: (rows, size) for tier, rows, size in rows.fetchall()}

    # Bytes and scans

    def bench_sizes_and_scans(self, day):
        print("One day in tablets, then in stories")
        server = self.server("day", memory_bytes_max="60%", backlog_bytes_max=0)
        tsbs.copy_into(server.dsn(), [tsbs.table()], (line for batch in day.on(0) for line in batch.splitlines(True)))
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            answer = connection.execute(STORY_SCAN).fetchone()[0]
            journal = self.scan(server, answer)
            took = timed(lambda: connection.execute("CALL stratalog.flush('cpu')"))
            self.note("flush of the day", day.rows / took, "rows/s")
            tablets = self.bytes_per_row(connection, "tablet", day.rows)
            self.note("bytes per row in tablets", tablets, "bytes", "<= 30", tablets <= 30)
            tablet = self.scan(server, answer)
            self.bench_rebuild(server, answer)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            took = timed(lambda: connection.execute("CALL stratalog.compact('cpu')"))
            self.note("stories of the day", day.rows / took, "rows/s")
            stories = self.bytes_per_row(connection, "story", day.rows)
            self.note("bytes per row in stories", stories, "bytes", "<= 7.5", stories <= 7.5)
            files = [row[0] for row in connection.execute("SELECT file FROM stratalog.pieces WHERE tier = 'story'")]
        story = self.scan(server, answer)
        peer = datafusion_scan([find(server.data_dir, name) for name in files], answer, self.arguments.rounds)
        share, of_tablets = 100 * peer / story, 100 * peer / tablet
        self.note("sum of a column, stories", story, "ms")
        self.note("  DataFusion, same files", peer, "ms")
        self.note("  tablets", tablet, "ms")
        self.note("  journal", journal, "ms")
        self.note("scan of stories, speed of DataFusion's", share, "%", ">= 90", share >= 90)
        self.note("scan of tablets, speed of DataFusion's", of_tablets, "%", ">= 50", of_tablets >= 50)
        self.bench_replay(server, day.rows, stories)
        self.remove(server)

    @staticmethod
    def bytes_per_row(connection, tier, rows):
        stored, size = connection.execute(
            "SELECT sum(rows)::int8, sum(bytes)::int8 FROM stratalog.pieces WHERE tier = %s", [tier]).fetchone()
        if stored != rows:
            raise RuntimeError(f"{stored} rows of {rows} are in tier {tier}")
        return size / rows

    def scan(self, server, answer):
        """The best of several runs: milliseconds of the sum of a column."""
        found = []
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for _ in range(self.arguments.rounds * 3):
                began = time.monotonic()
                total = connection.execute(STORY_SCAN).fetchone()[0]
                found.append((time.monotonic() - began) * 1000)
                if not tsbs.same(total, answer):
                    raise RuntimeError(f"the sum is {total}, and was {answer}")
        return min(found)

    def bench_rebuild(self, server, answer):
        """A start without the index of tablets."""
        size = sum(path.stat().st_size for path in server.data_dir.rglob("*.tablet"))
        server.stop(seconds=600)
        found = {}
        for what in ("with", "without"):
            if what == "without":
                shutil.rmtree(server.data_dir / "index")
            drop_caches()
            began = time.monotonic()
            server.start(600)
            self.scan_once(server, answer)
            found[what] = time.monotonic() - began
            if what == "with":
                server.stop(seconds=600)
        # A difference within the noise counts as 5 % of the time without the index.
        speed = size / 1e6 / max(found["without"] - found["with"], found["without"] / 20)
        self.note("index of tablets rebuilt, at least", speed, "MB/s", ">= 100", speed >= 100, seconds=found)

    def scan_once(self, server, answer):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            total = connection.execute(STORY_SCAN).fetchone()[0]
        if not tsbs.same(total, answer):
            raise RuntimeError(f"the sum is {total}, and was {answer}")

    # Replay

    def bench_replay(self, server, rows, bytes_per_row):
        """Ranges of time with a given number of megabytes of stories, all columns. The total is approximately the
        amount of text that a client receives for the events."""
        event_bytes = sum(len(batch) for batch in self.day.batches) / rows
        per_second = rows / 86400
        columns = ", ".join([f"count({tag})" for tag in tsbs.TAGS] + [f"sum({metric})" for metric in tsbs.METRICS])
        speeds = {}
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for megabytes in (1, 2, 4, 8, 16, 32):
                seconds = max(10, round(megabytes * 1e6 / bytes_per_row / per_second / 10) * 10)
                found = []
                for turn in range(12):
                    start = (turn * 7919 % max(1, 8640 - seconds // 10)) * 10
                    low = datetime.datetime(2016, 1, 1) + datetime.timedelta(seconds=start)
                    high = low + datetime.timedelta(seconds=seconds)
                    began = time.monotonic()
                    connection.execute(f"SELECT {columns} FROM cpu WHERE time >= '{low}+00' AND time < '{high}+00'").fetchone()
                    found.append(seconds * per_second * event_bytes / 1e6 / (time.monotonic() - began))
                speeds[megabytes] = statistics.median(found)
                self.note(f"replay of {megabytes} MB of stories, as events", speeds[megabytes], "MB/s", rounds=found)
        share = 100 * speeds[4] / max(speeds.values())
        self.note("replay of 4 MB, of the fastest", share, "%", ">= 80", share >= 80)

    # Opening

    def bench_opening(self):
        count = self.arguments.stories
        print(f"Opening {count} stories of about 10 MB")
        server = self.server("many", memory_bytes_max="40%", story_rows_max=STORY_ROWS)
        columns = [f"m{at} DOUBLE PRECISION" for at in range(5)]
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLE noise (time TIMESTAMPTZ NOT NULL, {', '.join(columns)})")
            for part in range(count // 50):
                values = ", ".join("random()" for _ in columns)
                connection.execute(
                    f"INSERT INTO noise SELECT timestamptz '2020-01-01 00:00:00+00' + (n + {part * 50 * STORY_ROWS}) * interval '1 second', "
                    f"{values} FROM generate_series(1, {50 * STORY_ROWS}) AS series(n)")
                connection.execute("CALL stratalog.compact('noise')")
            stories, size = connection.execute(
                "SELECT count(*), sum(bytes)::int8 FROM stratalog.pieces WHERE tier = 'story'").fetchone()
            last = connection.execute("SELECT max(time) FROM noise").fetchone()[0]
            newest = f"SELECT avg(m1) FROM noise WHERE time > timestamptz '{last}' - interval '1 hour'"
            answer = connection.execute(newest).fetchone()[0]
        found = []
        for _ in range(self.arguments.rounds):
            server.kill()
            subprocess.run(["sync"])
            cold = drop_caches()
            began = time.monotonic()
            server.start(600)
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                again = connection.execute(newest).fetchone()[0]
            found.append(time.monotonic() - began)
            if not tsbs.same(again, answer):
                raise RuntimeError(f"the answer is {again}, and was {answer}")
        self.note("stories opened", stories, "files", bytes=size, cold_cache=cold)
        self.note("  of", size / 1e9, "GB")
        took = statistics.median(found)
        self.note("start to first answer", took, "s", "<= 2", took <= 2, rounds=found)
        self.remove(server)


def find(folder, name):
    """The file that `stratalog.pieces` names."""
    path = folder / name
    return path if path.exists() else next(folder.rglob(pathlib.Path(name).name))


def datafusion_scan(files, answer, rounds):
    """Best of several: milliseconds of the same sum by DataFusion itself."""
    import datafusion

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(os.cpu_count()))
    links = files[0].parent / "same-files"
    links.mkdir()
    try:
        for file in files:
            os.link(file, links / file.name)
        context.register_parquet("cpu", str(links))
        found = []
        for _ in range(rounds * 3):
            began = time.monotonic()
            total = context.sql(STORY_SCAN).collect()[0][0][0].as_py()
            found.append((time.monotonic() - began) * 1000)
            if not tsbs.same(total, answer):
                raise RuntimeError(f"DataFusion's sum is {total}, ours {answer}")
        return min(found)
    finally:
        shutil.rmtree(links)
