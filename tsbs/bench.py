"""Measures the speed targets on this machine, with PostgreSQL 15 and the bare disk beside us.

Only ratios of one run mean anything: machines differ, and so do hours of the day. Every
figure is the median of several rounds in which the contenders take turns.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
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
from servers import ROOT, Postgres, Stratalog, stratalog_binary  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MEMORY = pathlib.Path("/dev/shm") if pathlib.Path("/dev/shm").is_dir() else pathlib.Path("/tmp")


class Bench:
    """The servers, the prepared data, and what was found."""

    def __init__(self, arguments, directory):
        self.arguments = arguments
        self.directory = directory
        self.figures = []
        self.ours = Stratalog(directory / "stratalog")
        self.postgres = Postgres(settings={"shared_buffers": "1GB", "max_wal_size": "8GB"})
        self.data = MEMORY / f"stratalog-bench-{os.getpid()}.copy"
        self.rows = 0

    def note(self, what, value, unit, target=None, met=None, **more):
        """Keeps a figure and prints it."""
        self.figures.append({"what": what, "value": value, "unit": unit, "target": target, "met": met, **more})
        verdict = "" if met is None else ("   ok" if met else "   MISSED")
        print(f"  {what:58} {shown(value):>12} {unit:8} {target or '':>14}{verdict}", flush=True)

    def prepare(self):
        seconds = max(1, self.arguments.rows // self.arguments.scale) * 10
        end = datetime.datetime(2016, 1, 1) + datetime.timedelta(seconds=seconds)
        self.tools = tsbs.Tools(self.arguments.scale, "2016-01-01T00:00:00Z", end.strftime("%Y-%m-%dT%H:%M:%SZ"))
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
        self.note("COPY, PostgreSQL", peer, "rows/s", rounds=theirs)
        self.note("COPY, times PostgreSQL", rate / peer, "x", ">= 2", rate / peer >= 2)

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
        before, rates, peers, latencies = self.journal(), [], [], []
        for _ in range(self.arguments.rounds):
            rate, _ = self.pgbench(self.ours, "stratalog", insert, 64, seconds)
            rates.append(rate)
        after = self.journal()
        for _ in range(self.arguments.rounds):
            peers.append(self.pgbench(self.postgres, "postgres", insert, 64, seconds)[0])
        with psycopg.connect(self.ours.dsn(), autocommit=True) as connection:
            events = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        syncs = after["syncs"] - before["syncs"]
        rate, peer = statistics.median(rates), statistics.median(peers)
        self.note("INSERT, 64 connections", rate, "rows/s", ">= 8000", rate >= 8000, rounds=rates)
        self.note("INSERT, 64 connections, PostgreSQL", peer, "rows/s", rounds=peers)
        self.note("INSERT, 64 connections, times PostgreSQL", rate / peer, "x")
        self.note("INSERT, 64 connections, events per fdatasync", events / max(syncs, 1), "events", ">= 10", events / max(syncs, 1) >= 10)

        bare, one, one_peer = [], [], []
        for _ in range(self.arguments.rounds):
            bare.append(statistics.median(bare_writes(self.directory, seconds / 2)))
            one.append(statistics.median(self.pgbench(self.ours, "stratalog", insert, 1, seconds)[1]))
            one_peer.append(statistics.median(self.pgbench(self.postgres, "postgres", insert, 1, seconds)[1]))
        latency, disk, peer = (statistics.median(x) for x in (one, bare, one_peer))
        self.note("INSERT, one connection, median", latency, "ms", rounds=one)
        self.note("write of 4 KB + fdatasync, median", disk, "ms", rounds=bare)
        self.note("INSERT, one connection, times the bare write", latency / disk, "x", "<= 1.3", latency / disk <= 1.3)
        self.note("INSERT, one connection, PostgreSQL, median", peer, "ms", rounds=one_peer)

    # Reading

    def bench_point_queries(self):
        print("One row by key and tick")
        steps = max(1, self.rows // self.arguments.scale) - 1
        script = (f"\\set host random(0, {self.arguments.scale - 1})\n\\set step random(0, {steps - 1})\n"
                  "SELECT usage_user FROM cpu WHERE hostname = 'host_' || :host AND "
                  "time = timestamptz '2016-01-01 00:00:00+00' + :step * interval '10 seconds';\n")
        literal = [
            "SELECT usage_user FROM cpu WHERE hostname = 'host_{}' AND time = '{}';".format(
                n * 7919 % self.arguments.scale,
                (datetime.datetime(2016, 1, 1) + datetime.timedelta(seconds=n * 104729 % steps * 10)).strftime("%Y-%m-%d %H:%M:%S+00"),
            )
            for n in range(4000)
        ]
        over_wire = self.wire_latencies(self.ours, literal)
        self.note("point query over the wire, median", statistics.median(over_wire), "ms", "<= 1.5",
                  statistics.median(over_wire) <= 1.5, p99=percentile(over_wire, 99))
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute("CREATE INDEX ON cpu (hostname, time DESC)")
            connection.execute("ANALYZE cpu")
        peer = self.wire_latencies(self.postgres, literal)
        self.note("point query over the wire, PostgreSQL, indexed, median", statistics.median(peer), "ms")
        _, prepared = self.pgbench(self.ours, "stratalog", script, 1, self.arguments.seconds)
        self.note("point query over the wire, prepared, median", statistics.median(prepared), "ms")
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
        size = sum(path.stat().st_blocks * 512 for path in (self.ours.data_dir / "journal").rglob("*") if path.is_file())
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

        # In process: the whole of many statements less the whole of one, so that opening does not count.
        self.ours.stop()
        one, many = (self.in_process(literal[:1]), self.in_process(literal))
        each = (many - one) / (len(literal) - 1) * 1000
        self.note("point query in process, mean", each, "ms", "<= 1", each <= 1)
        self.ours.start(600)

    def in_process(self, statements):
        path = self.directory / "statements.sql"
        path.write_text("\n".join(statements))
        command = [str(stratalog_binary()), "sql", "--data-dir", str(self.ours.data_dir), "-f", str(path)]
        began = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return time.monotonic() - began

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
            self.note(f"TSBS {query_type}, PostgreSQL, indexed", peer, "ms")

    def run(self):
        self.prepare()
        self.ours.start()
        self.postgres.start()
        self.bench_copy()
        self.bench_inserts()
        literal = self.bench_point_queries()
        if self.arguments.queries:
            self.bench_tsbs()
        self.bench_recovery(literal)

    def close(self):
        self.data.unlink(missing_ok=True)
        self.ours.stop()
        self.postgres.stop()


def run_psql(server, user, command):
    done = subprocess.run(["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(server.port), "-U", user, "-d", user,
                           "-v", "ON_ERROR_STOP=1", "-c", command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)


def bare_writes(directory, seconds):
    """Latencies in ms of writing 4 KB to a preallocated file and fdatasync, one after the other."""
    path = directory / "bare"
    block, found = b"\x55" * 4096, []
    size = 64 << 20
    with open(path, "wb", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(b"\0" * (1 << 20))
        os.fsync(file.fileno())
        offset, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            os.pwrite(file.fileno(), block, offset)
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - began) * 1000)
            offset = (offset + 4096) % size
    path.unlink()
    return found


def drop_caches():
    """Whether the page cache could be emptied."""
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return True
    except OSError:
        return False


def median_of(report):
    return float(re.search(r"all queries\s*:\s*min:.*?med:\s*([0-9.]+)ms", report, re.DOTALL)[1])


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def machine(directory):
    """What the figures depend on."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    file_system = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True).stdout.strip()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e6, 1),
        "kernel": platform.release(),
        "file_system": file_system,
        "postgres": subprocess.run([Postgres.programs() / "postgres", "--version"], capture_output=True, text=True).stdout.strip(),
        "commit": commit,
        "at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def write_results(bench, details):
    RESULTS.mkdir(exist_ok=True)
    name = details["at"].replace(" UTC", "").replace(" ", "-").replace(":", "")
    document = {"machine": details, "rows": bench.rows, "scale": bench.arguments.scale, "figures": bench.figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    lines = [f"# {details['at']}", ""]
    lines += [f"{key}: {value}  " for key, value in details.items() if key != "at"]
    lines += [f"data: {bench.rows} rows of TSBS cpu-only, scale {bench.arguments.scale}  ", "",
              "| what | value | target | |", "|---|---:|---:|---|"]
    for figure in bench.figures:
        verdict = {None: "", True: "met", False: "**missed**"}[figure["met"]]
        lines.append(f"| {figure['what']} | {shown(figure['value'])} {figure['unit']} | {figure['target'] or ''} | {verdict} |")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    print(f"written to tsbs/results/{name}.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=200, help="hosts")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of one round of INSERTs")
    parser.add_argument("--queries", type=int, default=20, help="per TSBS query type; 0 for none")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/var/tmp"),
                        help="on the disk to measure")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-bench-", dir=arguments.directory))
    # PostgreSQL runs as a user of its own when we are root, and writes to the same disk.
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
    missed = [figure["what"] for figure in bench.figures if figure["met"] is False]
    print(f"{sum(figure['met'] is True for figure in bench.figures)} targets met, {len(missed)} missed: {', '.join(missed)}"
          if missed else "all targets met")
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
