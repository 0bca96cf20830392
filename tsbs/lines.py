"""Line protocol from TSBS's unmodified loaders: into Stratalog, compared with QuestDB."""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import psycopg

import tsbs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from servers import dying_with_us, free_port  # noqa: E402

SUMS = "SELECT count(*), " + ", ".join(f"sum({metric})" for metric in tsbs.METRICS) + " FROM {}"


def generate(tools, path, kind="influx", interval="10s"):
    """Writes TSBS's data as line protocol; returns the number of lines."""
    common = [flag if not flag.startswith("--format") else f"--format={kind}" for flag in tools.common]
    with open(path, "wb") as out:
        subprocess.run([tools.bin / "tsbs_generate_data", *common, f"--timestamp-end={tools.end}", f"--log-interval={interval}"],
                       check=True, stdout=out, stderr=subprocess.DEVNULL)
    with open(path, "rb") as lines:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(1 << 20), b""))


def load_tcp(tools, path, http_port, ilp_port, workers=2):
    """Rows per second, as reported by the QuestDB loader."""
    return loaded([tools.bin / "tsbs_load_questdb", f"--file={path}", f"--workers={workers}", "--reporting-period=0s",
                   f"--url=http://127.0.0.1:{http_port}/", f"--ilp-bind-to=127.0.0.1:{ilp_port}"])


def load_http(tools, path, http_port, database="benchmark", workers=2, gzip=False):
    """Rows per second, as reported by the InfluxDB loader."""
    return loaded([tools.bin / "tsbs_load_influx", "--do-create-db=false", f"--file={path}", f"--workers={workers}", "--reporting-period=0s",
                   f"--urls=http://127.0.0.1:{http_port}", f"--db-name={database}", f"--gzip={str(gzip).lower()}"])


def loaded(command):
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"loaded (\d+) rows in [0-9.]+sec .*mean rate ([0-9.]+) rows/sec", done.stdout)
    if done.returncode != 0 or not found:
        raise RuntimeError(f"{command[0]}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return float(found[2])


def wanted(path):
    """Count and sums of the lines in the file."""
    count, sums = 0, [0] * len(tsbs.METRICS)
    number = re.compile(rb"=(\d+)i")
    with open(path, "rb") as lines:
        for line in lines:
            count += 1
            for at, value in enumerate(number.findall(line.split(b" ")[1])):
                sums[at] += int(value)
    return (count, *sums)


def settled(connection, table, count, seconds=120):
    """Waits until a table has all rows, because TCP has no acknowledgement."""
    deadline = time.monotonic() + seconds
    while True:
        stored = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if stored >= count or time.monotonic() > deadline:
            return stored
        time.sleep(0.05)


def smoke(tools, server, directory):
    """Runs both loaders against a server; returns the problems."""
    path = directory / "lines"
    count = generate(tools, path, interval="60s")
    problems, expected = [], wanted(path)
    load_tcp(tools, path, server.http_port, server.ilp_port)
    load_http(tools, path, server.http_port)
    load_http(tools, path, server.http_port, "zipped", gzip=True)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for table in ("public.cpu", "benchmark.cpu", "zipped.cpu"):
            settled(connection, table, count)
            found = tuple(int(value) for value in connection.execute(SUMS.format(table)).fetchone())
            if found != expected:
                problems.append(f"{table}: {found}, wanted {expected}")
    return problems, count


class QuestDb:
    """A QuestDB from Maven, on free ports."""

    def __init__(self, directory, http_port, ilp_port, pg_port):
        self.directory, self.http_port, self.ilp_port = pathlib.Path(directory), http_port, ilp_port
        self.environment = {"QDB_HTTP_BIND_TO": f"127.0.0.1:{http_port}", "QDB_LINE_TCP_NET_BIND_TO": f"127.0.0.1:{ilp_port}",
                            "QDB_PG_NET_BIND_TO": f"127.0.0.1:{pg_port}", "QDB_HTTP_MIN_ENABLED": "false",
                            "QDB_TELEMETRY_ENABLED": "false"}

    def start(self, jar):
        (self.directory / "db").mkdir(parents=True, exist_ok=True)
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            [*dying_with_us("TERM"), "java", "-p", jar, "-m", "io.questdb/io.questdb.ServerMain", "-d", self.directory / "db"],
            stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, **self.environment})
        # A JVM on busy cores starts slowly.
        deadline = time.monotonic() + 300
        while True:
            try:
                return self.ask("SELECT 1") and self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def ask(self, sql):
        url = f"http://127.0.0.1:{self.http_port}/exec?query={urllib.parse.quote(sql)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)["dataset"]

    def settled(self, count, seconds=300):
        deadline = time.monotonic() + seconds
        while self.ask("SELECT count() FROM cpu")[0][0] < count:
            if time.monotonic() > deadline:
                raise RuntimeError("QuestDB does not have all rows")
            time.sleep(0.05)

    def stop(self, keep=False):
        self.process.terminate()
        self.process.wait(60)
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)


def questdb_jar(cache):
    """The jar of QuestDB, from Maven."""
    place = cache / "questdb-9.3.4"
    jar = place / "questdb-9.3.4.jar"
    if not jar.exists():
        subprocess.run(["mvn", "--batch-mode", "-q", f"-Dmaven.repo.local={cache / 'maven'}", "dependency:copy",
                        "-Dartifact=org.questdb:questdb:9.3.4", f"-DoutputDirectory={place}"], check=True)
    return jar


class LineBench:
    """Loading by line protocol, in turns with QuestDB."""

    def __init__(self, bench):
        self.bench = bench

    def run(self):
        bench = self.bench
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "stratalog"
        jar = questdb_jar(cache)
        bench.choose_data()
        path = bench.directory / "lines"
        count = generate(bench.tools, path)
        print(f"TSBS's loaders: {count} lines, {path.stat().st_size >> 20} MB, 2 workers, disk durability")
        tcp, http, peers = [], [], []
        bench.start()
        for turn in range(bench.arguments.rounds):
            with psycopg.connect(bench.ours.dsn(), autocommit=True) as connection:
                connection.execute("DROP TABLE IF EXISTS cpu")
                began = time.monotonic()
                load_tcp(bench.tools, path, bench.ours.http_port, bench.ours.ilp_port)
                if settled(connection, "cpu", count) != count:
                    raise RuntimeError("rows are missing")
                tcp.append(count / (time.monotonic() - began))
                connection.execute("DROP TABLE cpu")
                http.append(load_http(bench.tools, path, bench.ours.http_port))
                if settled(connection, "benchmark.cpu", count) != count:
                    raise RuntimeError("rows are missing")
                connection.execute("DROP SCHEMA benchmark CASCADE")
            peer = QuestDb(bench.directory / f"questdb{turn}", free_port(), free_port(), free_port()).start(jar)
            began = time.monotonic()
            load_tcp(bench.tools, path, peer.http_port, peer.ilp_port)
            peer.settled(count)
            peers.append(count / (time.monotonic() - began))
            peer.stop()
        rate = statistics.median(peers)
        for what, rates in (("line protocol over TCP", tcp), ("line protocol over HTTP", http)):
            mine = statistics.median(rates)
            bench.note(what, mine, "rows/s", rounds=rates)
            bench.note(f"{what}, times QuestDB's", mine / rate, "x", ">= 2", mine >= 2 * rate)
        bench.note("  QuestDB over TCP", rate, "rows/s", rounds=peers)
