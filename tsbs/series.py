"""Many series: TSBS's rows of a large number of hosts, three rows of each, in turns with QuestDB."""

import os
import pathlib
import statistics
import time

import psycopg

import lines
import tsbs
from measures import resident_bytes
from servers import free_port

LAST = ("SELECT count(*), sum(usage_user) FROM (SELECT DISTINCT ON (hostname) hostname, usage_user FROM cpu "
        "ORDER BY hostname, time DESC) AS last")
LAST_QUESTDB = "SELECT count(), sum(usage_user) FROM (cpu LATEST ON timestamp PARTITION BY hostname)"


class SeriesBench:
    """Loading, queries of single series, and queries of the last row of all series."""

    def __init__(self, bench):
        self.bench = bench

    def run(self):
        bench, series = self.bench, self.bench.arguments.series
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "stratalog"
        jar = lines.questdb_jar(cache)
        tools = tsbs.Tools(series, "2016-01-01T00:00:00Z", "2016-01-01T00:00:30Z")
        path = bench.directory / "lines"
        count = lines.generate(tools, path)
        print(f"{series} series of {count // series} rows, {path.stat().st_size >> 20} MB of lines, 2 workers, disk durability")
        hosts = [f"host_{n * 7919 % series}" for n in range(50)]
        peer = lines.QuestDb(bench.directory / "questdb", free_port(), free_port(), free_port()).start(jar)
        began = time.monotonic()
        lines.load_tcp(tools, path, peer.http_port, peer.ilp_port)
        peer.settled(count)
        theirs = {"loading": count / (time.monotonic() - began)}
        told = self.ask(theirs, lambda sql: peer.ask(sql), hosts, "timestamp", LAST_QUESTDB)
        peer.stop()

        bench.start()
        before = resident_bytes(bench.ours.process.pid)
        with psycopg.connect(bench.ours.dsn(), autocommit=True) as connection:
            began = time.monotonic()
            lines.load_tcp(tools, path, bench.ours.http_port, bench.ours.ilp_port)
            if lines.settled(connection, "cpu", count) != count:
                raise RuntimeError("rows are missing")
            ours = {"loading": count / (time.monotonic() - began)}
            grown = resident_bytes(bench.ours.process.pid) - before
            answers = []
            for tier in ("in memory", "in tablets", "in stories"):
                found = self.ask(ours, lambda sql: connection.execute(sql).fetchall(), hosts, "time", LAST, tier)
                answers.append(found)
                if tier != "in stories":
                    connection.execute("CALL stratalog.flush('cpu')" if tier == "in memory" else "CALL stratalog.compact('cpu')")
        path.unlink()
        if any(answer != told for answer in answers):
            raise RuntimeError(f"answers differ: {answers}, QuestDB {told}")
        bench.note("loading by TCP", ours["loading"], "rows/s")
        bench.note("  times QuestDB's", ours["loading"] / theirs["loading"], "x", ">= 2", ours["loading"] >= 2 * theirs["loading"])
        bench.note("resident, each series", grown / series / 1024, "KiB", "<= 1", grown <= 1024 * series)
        for what, peers in theirs.items():
            if what == "loading":
                continue
            for tier in ("in memory", "in tablets", "in stories"):
                mine = ours[f"{what}, {tier}"]
                bench.note(f"{what}, {tier}", mine, "ms", "<= QuestDB's", mine <= peers)
            bench.note("  QuestDB", peers, "ms")

    @staticmethod
    def ask(kept, ask, hosts, tick, last, tier=None):
        """Records medians in ms, with the first answer separate; returns all answers."""
        told = []

        def timed(what, statements):
            times = []
            for sql in statements:
                began = time.perf_counter()
                rows = ask(sql)
                times.append((time.perf_counter() - began) * 1000)
                told.append([tuple(float(value) for value in row) for row in rows])
            where = f", {tier}" if tier else ""
            kept[f"{what}, first{where}"] = times[0]
            kept[f"{what}{where}"] = statistics.median(times[1:])

        timed("maximum of a series", [f"SELECT max(usage_user) FROM cpu WHERE hostname = '{host}'" for host in hosts])
        timed("ten seconds of a series", [
            f"SELECT max(usage_user) FROM cpu WHERE hostname = '{host}' AND {tick} >= '2016-01-01T00:00:10Z' "
            f"AND {tick} < '2016-01-01T00:00:20Z'" for host in hosts])
        timed("last rows of all", [last] * 5)
        return told
