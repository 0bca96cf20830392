"""The standing hunt.

    tests/hunt/run [--minutes N] [--seed N] [--parts sql,parameters,duckdb,lines,hostile] [--report FILE] [--accepted]

`sql`         random statements beside PostgreSQL, in several zones, before and after the rows have moved to tablets and stories
`parameters`  the same with literals sent as parameters, in text and in binary
`duckdb`      aggregates and windows over random tables beside DuckDB
`lines`       random line protocol beside the crate influxdb-line-protocol
`hostile`     statements that ask for much memory or time, in a cgroup of 2 GB where one can be made

Each finding is shrunk and written once for each likely cause. The exit status is 1 if there are findings.
"""

import argparse
import itertools
import os
import pathlib
import random
import sys
import tempfile
import time

import psycopg
from psycopg import pq

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from servers import Postgres, Stratalog  # noqa: E402

from . import answers, duck, hostile, lines, parameters, queries  # noqa: E402
from .shrink import shrink  # noqa: E402

PARTS = ["sql", "parameters", "duckdb", "lines", "hostile"]
# The tiers of the rows during the queries.
PLACES = ["journal", "tablet", "story"]


class Report:
    """Findings, grouped by cause."""

    def __init__(self, path, accepted=False):
        self.path, self.accepted, self.causes, self.statements = path, accepted, {}, 0

    def add(self, kind, text, ours, theirs, signature):
        times = self.causes.get(signature, (0,))[0]
        self.causes[signature] = (times + 1, kind, text)
        if times:
            return
        words = f"--- {kind}\n{text}\n  stratalog: {ours}\n  expected:  {theirs}\n"
        print(words, flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(words + "\n")


class Side:
    """A server and a connection, with automatic reconnects."""

    def __init__(self, dsn):
        self.dsn, self.zone, self.connection = dsn, "UTC", None
        self.connect()

    def connect(self):
        self.connection = psycopg.connect(self.dsn, autocommit=True, connect_timeout=30)
        self.wire = self.connection.pgconn
        self.run(f"SET timezone = '{self.zone}'")
        self.run("SET statement_timeout = '20s'")

    def run(self, sql, arguments=None):
        if self.wire.status != pq.ConnStatus.OK:
            self.connect()
        if arguments is None:
            return answers.Answer(self.wire.exec_(sql.encode()))
        values, kinds, formats = zip(*arguments) if arguments else ((), (), ())
        return answers.Answer(self.wire.exec_params(sql.encode(), values, kinds, formats))

    def set_zone(self, zone):
        self.zone = zone
        self.run(f"SET timezone = '{zone}'")


def fill(side, generator, count):
    side.run("DROP TABLE IF EXISTS h")
    made = side.run(f"CREATE TABLE h ({queries.TABLE})")
    assert made.state is None, made.shown()
    stored = side.run(f"INSERT INTO h VALUES {', '.join(queries.rows(generator, count))}")
    assert stored.state is None, stored.shown()


def move(ours, place):
    """Moves the rows down to a tier."""
    if place != "journal":
        done = ours.run(f"CALL stratalog.{'flush' if place == 'tablet' else 'compact'}('h')")
        assert done.state is None, done.shown()


def compared(ours, theirs, query, report, arguments=parameters.none):
    """Runs a statement on both sides; shrinks and reports a difference."""
    def ask(one):
        sql, sent = arguments(one)
        return sql, sent, ours.run(sql, sent), theirs.run(sql, sent)

    report.statements += 1
    sql, sent, mine, right = ask(query)
    kind = answers.difference(mine, right, query.ordered, sql)
    if kind is None or kind == "accepted" and not report.accepted:
        return
    if kind == "lost":
        report.add(kind, sql, mine.shown(), right.shown(), (kind, sql[:60]))
        return

    def still(one):
        sql, _, mine, right = ask(one)
        return answers.difference(mine, right, one.ordered, sql) == kind

    small = shrink(query, still)
    sql, sent, mine, right = ask(small)
    shown = f"{sql};  -- zone {ours.zone}" + (f", parameters {sent}" if sent else "")
    report.add(kind, shown, mine.shown(), right.shown(), answers.signature(kind, small.sql(), mine))


def sql(servers, seed, deadline, report, arguments=parameters.none, places=PLACES):
    ours, theirs = Side(servers[0].dsn()), Side(servers[1].dsn())
    for turn in itertools.count():
        generator = random.Random(f"{seed}-{turn}")
        count = generator.choice([3, 20, 60])
        fill(ours, random.Random(f"{seed}-{turn}-rows"), count)
        fill(theirs, random.Random(f"{seed}-{turn}-rows"), count)
        zone = generator.choice(queries.ZONES)
        for side in (ours, theirs):
            side.set_zone(zone)
        for place in places:
            move(ours, place)
            for _ in range(150):
                compared(ours, theirs, generator.choice(queries.SHAPES)(generator), report, arguments)
                if time.monotonic() > deadline:
                    return


def main():
    words = argparse.ArgumentParser(prog="tests/hunt/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES", "30")))
    words.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    words.add_argument("--parts", default=",".join(PARTS))
    words.add_argument("--report", help="a file that gets each finding, too")
    words.add_argument("--accepted", action="store_true", help="report statements that PostgreSQL refuses, too")
    chosen = words.parse_args()
    parts = chosen.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        words.error(f"unknown parts: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    report = Report(chosen.report, chosen.accepted)
    print(f"hunt: seed {chosen.seed}, {chosen.minutes} minutes, parts {', '.join(parts)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="stratalog-hunt-") as folder:
        for part in parts:
            deadline = time.monotonic() + 60 * chosen.minutes / len(parts)
            before = report.statements
            if part == "lines":
                lines.hunt(chosen.seed, deadline, report)
            elif part == "hostile":
                hostile.hunt(pathlib.Path(folder), chosen.seed, deadline, report)
            elif part == "duckdb":
                with Stratalog(pathlib.Path(folder) / part) as server:
                    duck.hunt(Side(server.dsn()), chosen.seed, deadline, report)
            else:
                with Stratalog(pathlib.Path(folder) / part) as ours, Postgres(settings={"fsync": "off"}) as theirs:
                    sql((ours, theirs), chosen.seed, deadline, report, parameters.taken if part == "parameters" else parameters.none)
            print(f"hunt: {part}: {report.statements - before} statements", flush=True)
    print(f"hunt: {report.statements} statements, {len(report.causes)} findings")
    return 1 if report.causes else 0
