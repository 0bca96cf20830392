"""Measures the speed targets on this machine, with PostgreSQL 15 and the bare disk beside us.

Only ratios of one run mean anything: machines differ, and so do hours of the day. Every
figure is the median of several rounds in which the contenders take turns.
"""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import psycopg

import tsbs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from disk import BareWrites  # noqa: E402
from measures import built, drop_caches, line_of, machine, percentile, write_results  # noqa: E402
from servers import Postgres, Stratalog, running, stratalog_binary  # noqa: E402
from tiers import TierBench  # noqa: E402
from doors import DoorBench  # noqa: E402
from events import EventBench  # noqa: E402
from lines import LineBench  # noqa: E402
from series import SeriesBench  # noqa: E402
from wires import IDLE, WireBench  # noqa: E402

PARTS = ["rows", "tiers", "wire", "lines", "doors", "events", "series"]

MEMORY = pathlib.Path("/dev/shm") if pathlib.Path("/dev/shm").is_dir() else pathlib.Path("/tmp")


class Bench:
    """The servers, the prepared data, and the results."""

    def __init__(self, arguments, directory):
        self.arguments = arguments
        self.directory = directory
        self.figures = []
        self.ours = Stratalog(directory / "stratalog", "--connections-max", str(2 * IDLE))
        self.postgres = Postgres(settings={"shared_buffers": "1GB", "max_wal_size": "8GB"})
        self.data = MEMORY / f"stratalog-bench-{os.getpid()}.copy"
        self.rows = 0
        self.tiers = TierBench(self)
        self.wires = WireBench(self)
        self.lines = LineBench(self)
        self.doors = DoorBench(self)
        self.events = EventBench(self)
        self.series = SeriesBench(self)
        self.load = [os.getloadavg()[0]]

    def note(self, what, value, unit, target=None, met=None, **more):
        """Records a figure and prints it."""
        figure = {"what": what, "value": value, "unit": unit, "target": target, "met": met, **more}
        self.figures.append(figure)
        print(line_of(figure), flush=True)

    def start(self):
        """Starts both servers unless they are running."""
        for server in (self.ours, self.postgres):
            if server not in running:
                server.start()

    def choose_data(self):
        seconds = max(1, self.arguments.rows // self.arguments.scale) * 10
        end = datetime.datetime(2016, 1, 1) + datetime.timedelta(seconds=seconds)
        self.tools = tsbs.Tools(self.arguments.scale, "2016-01-01T00:00:00Z", end.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def prepare(self):
        self.choose_data()
        with open(self.data, "wb", buffering=1 << 20) as out:
            for line in self.tools.generate_rows():
                out.write(line)
                self.rows += 1
        print(f"  {self.rows} rows, {self.data.stat().st_size >> 20} MB of COPY text", flush=True)

    # COPY

    def copy(self, server, name, ours):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(tsbs.table(name, ours))
        user = "stratalog" if ours else "postgres"
        began = time.monotonic()
        run_psql(server, user, f"\\copy {name} FROM '{self.data}'")
        took = time.monotonic() - began
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            stored = connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        if stored != self.rows:
            raise RuntimeError(f"{stored} rows stored of {self.rows}")
        return self.rows / took

    def bench_copy(self):
        print("COPY of TSBS cpu rows, 21 columns, one connection")
        mine, theirs = [], []
        for _ in range(self.arguments.rounds):
            mine.append(self.copy(self.ours, "cpu", True))
            theirs.append(self.copy(self.postgres, "cpu", False))
        rate, peer = statistics.median(mine), statistics.median(theirs)
        self.note("COPY", rate, "rows/s", ">= 400000", rate >= 400_000, rounds=mine)
        self.note("  PostgreSQL", peer, "rows/s", rounds=theirs)
        self.note("COPY in times of PostgreSQL", rate / peer, "x", ">= 2", rate / peer >= 2)

    # Single rows

    def journal(self):
        with psycopg.connect(self.ours.dsn(), autocommit=True) as connection:
            cursor = connection.execute("SELECT * FROM stratalog.journal")
            names = [column.name for column in cursor.description]
            rows = cursor.fetchall()
        return {name: sum(row[at] for row in rows if isinstance(row[at], int)) for at, name in enumerate(names)}

    def pgbench(self, server, user, script, clients, seconds, mode="prepared"):
        """(transactions per second, sorted latencies in ms)"""
        path = self.directory / "script.sql"
        path.write_text(script)
        prefix = self.directory / "pgbench_log"
        for old in self.directory.glob("pgbench_log*"):
            old.unlink()
        done = subprocess.run(
            ["pgbench", "-h", "127.0.0.1", "-p", str(server.port), "-U", user, "-n", "-M", mode,
             "-c", str(clients), "-j", str(min(clients, 2)), "-T", str(round(seconds)), "-f", path,
             "-l", "--log-prefix", prefix, user],
            capture_output=True, text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"pgbench: {done.stderr}{done.stdout}")
        failed = re.search(r"number of failed transactions: (\d+)", done.stdout)
        if failed and int(failed[1]):
            raise RuntimeError(f"pgbench: {done.stdout}")
        rate = float(re.search(r"tps = ([0-9.]+)", done.stdout)[1])
        latencies = sorted(
            int(line.split()[2]) / 1000
            for path in self.directory.glob("pgbench_log*") for line in path.read_text().splitlines()
        )
        return rate, latencies

    def bench_inserts(self):
        print("INSERT of single rows, disk durability")
        table = "(time TIMESTAMPTZ NOT NULL, host INT NOT NULL, region TEXT, usage DOUBLE PRECISION)"
        for server in (self.ours, self.postgres):
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute(f"CREATE TABLE events {table}")
        insert = "INSERT INTO events VALUES (now(), :client_id, 'eu-central-1', 42.5);\n"
        seconds = self.arguments.seconds
        before, rates, peers = self.journal(), [], []
        for _ in range(self.arguments.rounds):
            rates.append(self.pgbench(self.ours, "stratalog", insert, 64, seconds)[0])
            peers.append(self.pgbench(self.postgres, "postgres", insert, 64, seconds)[0])
        after = self.journal()
        with psycopg.connect(self.ours.dsn(), autocommit=True) as connection:
            events = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        syncs = after["syncs"] - before["syncs"]
        rate, peer = statistics.median(rates), statistics.median(peers)
        self.note("INSERT, 64 connections", rate, "rows/s", ">= 8000", rate >= 8000, rounds=rates)
        self.note("  PostgreSQL", peer, "rows/s", rounds=peers)
        self.note("  times PostgreSQL", rate / peer, "x")
        self.note("INSERT, 64 connections, events per fdatasync", events / max(syncs, 1), "events", ">= 10",
                  events / max(syncs, 1) >= 10)

        appended, overwritten, one, one_peer = [], [], [], []
        with BareWrites(self.directory) as bare:
            for _ in range(self.arguments.rounds * 3):
                appended.append(bare.append(seconds / 6))
                one.append(statistics.median(self.pgbench(self.ours, "stratalog", insert, 1, 1)[1]))
                overwritten.append(bare.overwrite(seconds / 6))
                one_peer.append(statistics.median(self.pgbench(self.postgres, "postgres", insert, 1, 1)[1]))
        # Other processes can only increase these times, sometimes by a scheduler tick, forty times the disk's own time:
        # the least disturbed round is the most accurate.
        latency, disk, again, peer = (min(x) for x in (one, appended, overwritten, one_peer))
        self.note("INSERT, 1 connection, median of best round", latency, "ms", rounds=one)
        self.note("  4 KB appended to a file + fdatasync", disk, "ms", rounds=appended)
        self.note("  4 KB over written blocks + fdatasync", again, "ms", rounds=overwritten)
        self.note("INSERT, 1 connection, times a bare write", latency / again, "x", "<= 1.3",
                  latency / again <= 1.3)
        self.note("  in times of a bare append", latency / disk, "x")
        self.note("  PostgreSQL", peer, "ms", rounds=one_peer)
        self.note("  PostgreSQL in times of a bare write", peer / again, "x")

    # The journal alone

    def bench_journal(self):
        print("The journal by itself (criterion bench of storage/journal)")
        program = built("journal", "bench", "-p", "stratalog-journal", "--bench", "journal", "--no-run")
        said = ""
        for _ in range(self.arguments.rounds):
            # The filter excludes criterion's own samples; the section "in turns" always runs.
            done = subprocess.run([program, "--bench", "in turns only"], capture_output=True, text=True,
                                  env={**os.environ, "STRATALOG_BENCH_DIR": str(self.directory)})
            if done.returncode != 0:
                raise RuntimeError(f"{done.stdout}{done.stderr}")
            said += done.stdout

        def median(pattern):
            return statistics.median(float(found) for found in re.findall(pattern, said))

        share = median(r"relaxed, 8 threads: .* MB/s: (\d+) %")
        self.note("journal, 4 KB, 8 threads, relaxed", median(r"relaxed, 8 threads: (\d+) MB/s"), "MB/s")
        self.note("  1 MB written one after the other", median(r"sequential writes: (\d+)"), "MB/s")
        self.note("journal, 4 KB, part of 1 MB writes", share, "%", ">= 70", share >= 70)
        self.note("journal, replay", median(r"replay: (\d+) MB/s"), "MB/s")
        self.note("journal, 4 KB, synced, median", median(r"journal (\d+) µs") / 1000, "ms")
        self.note("  in times of a bare append and fdatasync", median(r"µs: ([0-9.]+) ×"), "x")

    # Reading

    def bench_point_queries(self):
        print("One row by key and tick")
        steps = max(1, self.rows // self.arguments.scale) - 1
        script = (f"\\set host random(0, {self.arguments.scale - 1})\n\\set step random(0, {steps - 1})\n"
                  "SELECT usage_user FROM cpu WHERE hostname = 'host_' || :host AND "
                  "time = timestamptz '2016-01-01 00:00:00+00' + :step::int * interval '10 seconds';\n")
        literal = [
            "SELECT usage_user FROM cpu WHERE hostname = 'host_{}' AND time = '{}';".format(
                n * 7919 % self.arguments.scale,
                (datetime.datetime(2016, 1, 1) + datetime.timedelta(seconds=n * 104729 % steps * 10)).strftime("%Y-%m-%d %H:%M:%S+00"),
            )
            for n in range(4000)
        ]
        over_wire = self.wire_latencies(self.ours, literal)
        self.note("point query, wire, median", statistics.median(over_wire), "ms", "<= 1.5",
                  statistics.median(over_wire) <= 1.5, p99=percentile(over_wire, 99))
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute("CREATE INDEX ON cpu (hostname, time DESC)")
            connection.execute("ANALYZE cpu")
        peer = self.wire_latencies(self.postgres, literal)
        self.note("  PostgreSQL, indexed, median", statistics.median(peer), "ms")
        _, prepared = self.pgbench(self.ours, "stratalog", script, 1, self.arguments.seconds)
        self.note("point query, wire, prepared, median", statistics.median(prepared), "ms")
        return literal

    def wire_latencies(self, server, statements):
        found = []
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for statement in statements:
                text = statement.encode()
                began = time.perf_counter()
                result = connection.pgconn.exec_(text)
                found.append((time.perf_counter() - began) * 1000)
                if result.ntuples != 1:
                    raise RuntimeError(f"{result.ntuples} rows: {statement} {result.error_message}")
        return found[len(found) // 10 :]

    def bench_recovery(self, literal):
        print("Recovery after kill -9")
        size = self.journal()["stored_bytes"]
        with psycopg.connect(self.ours.dsn(), autocommit=True) as connection:
            counts = connection.execute("SELECT (SELECT count(*) FROM cpu), (SELECT count(*) FROM events)").fetchone()
        found = []
        for _ in range(self.arguments.rounds):
            self.ours.kill()
            subprocess.run(["sync"])
            cold = drop_caches()
            began = time.monotonic()
            self.ours.start(600)
            found.append(time.monotonic() - began)
            with psycopg.connect(self.ours.dsn(), autocommit=True) as connection:
                again = connection.execute("SELECT (SELECT count(*) FROM cpu), (SELECT count(*) FROM events)").fetchone()
            if again != counts:
                raise RuntimeError(f"{again} rows after recovery, {counts} before")
        per_gb = statistics.median(found) / (size / 1e9)
        self.note("journal recovered", size / 1e9, "GB", cold_cache=cold)
        self.note("recovery", per_gb, "s/GB", "<= 3", per_gb <= 3, rounds=found)

        self.ours.stop()
        each = self.in_process(literal)
        median = statistics.median(each)
        self.note("point query in process, median", median, "ms", "<= 1", median <= 1, p99=percentile(each, 99))
        self.ours.start(600)

    def in_process(self, statements):
        """Milliseconds of each statement, as reported by `stratalog sql`."""
        path = self.directory / "statements.sql"
        path.write_text("\n".join(["\\timing on", *statements]))
        command = [str(stratalog_binary()), "sql", "--data-dir", str(self.ours.data_dir), "-f", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        times = [float(ms) for ms in re.findall(r"Time: ([0-9.]+) ms", done.stdout + done.stderr)]
        if len(times) != len(statements):
            raise RuntimeError(f"{len(times)} times of {len(statements)} statements")
        return times[len(times) // 10:]

    def bench_tsbs(self):
        print("TSBS queries, unmodified tool, one worker, median")
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute(tsbs.TIME_BUCKET_FOR_POSTGRES)
        for query_type in tsbs.QUERY_TYPES:
            path = self.directory / f"{query_type}.queries"
            try:
                self.tools.generate_queries(query_type, self.arguments.queries, path)
            except subprocess.CalledProcessError:
                print(f"  {query_type}: needs more hours of data than this run has")
                continue
            mine = median_of(self.tools.run_queries(path, self.ours.port, "stratalog", "stratalog", False))
            peer = median_of(self.tools.run_queries(path, self.postgres.port, "postgres", "postgres", False))
            self.note(f"TSBS {query_type}", mine, "ms", postgres_ms=peer)
            self.note(f"  PostgreSQL, indexed", peer, "ms")

    def run(self):
        if "tiers" in self.arguments.parts:
            self.tiers.run()
        if "wire" in self.arguments.parts:
            self.wires.run()
        if "lines" in self.arguments.parts:
            self.lines.run()
        if "doors" in self.arguments.parts:
            self.doors.run()
        if "events" in self.arguments.parts:
            self.events.run()
        if "series" in self.arguments.parts:
            self.series.run()
        if "rows" in self.arguments.parts:
            self.run_rows()
        self.load.append(os.getloadavg()[0])

    def run_rows(self):
        self.prepare()
        self.start()
        self.bench_copy()
        self.bench_inserts()
        self.bench_journal()
        literal = self.bench_point_queries()
        if self.arguments.queries:
            self.bench_tsbs()
        self.bench_recovery(literal)

    def close(self):
        self.data.unlink(missing_ok=True)
        self.tiers.close()
        self.events.close()
        self.ours.stop()
        self.postgres.stop()


def run_psql(server, user, command):
    done = subprocess.run(["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(server.port), "-U", user, "-d", user,
                           "-v", "ON_ERROR_STOP=1", "-c", command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)


def median_of(report):
    return float(re.search(r"all queries\s*:\s*min:.*?med:\s*([0-9.]+)ms", report, re.DOTALL)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=200, help="hosts")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of one round of INSERTs")
    parser.add_argument("--queries", type=int, default=20, help="per TSBS query type; 0 for none")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--tier-scale", type=int, default=1000, help="hosts of the day that goes through the tiers")
    parser.add_argument("--ingest-seconds", type=float, default=600, help="of ingest while events move; 0 for none")
    parser.add_argument("--alone-seconds", type=float, default=15, help="of ingest while nothing moves")
    parser.add_argument("--stories", type=int, default=1000, help="to be opened; 0 for none")
    parser.add_argument("--events", type=int, default=65_536, help="of 4 KB, for the kernel of ranges")
    parser.add_argument("--series", type=int, default=1_000_000, help="hosts of three rows each")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/var/tmp"),
                        help="on the disk to measure")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-bench-", dir=arguments.directory))
    # PostgreSQL runs under another user if this process runs as root, and writes to the same disk.
    directory.chmod(0o711)
    details = machine(directory)
    print(f"{details['cpu']}, {details['cores']} cores, {details['memory_gb']} GB, {details['file_system']}")
    bench = Bench(arguments, directory)
    bench.postgres.directory = directory / "postgres"
    try:
        bench.run()
        write_results(bench, details)
    finally:
        bench.close()
        shutil.rmtree(directory, ignore_errors=True)
    judged = [figure for figure in bench.figures if figure["met"] is not None]
    print(f"\n{'Targets':48} {'figure':>9} {'':7}{'target':>9}")
    for figure in judged:
        print(line_of(figure))
    missed = [figure["what"].strip() for figure in bench.figures if figure["met"] is False]
    print(f"{len(judged) - len(missed)} of {len(judged)} targets met")
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
