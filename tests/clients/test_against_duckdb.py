"""Aggregates answered by storage, compared with DuckDB's aggregates over the same rows, in every tier.

Storage computes them from cells, from runs of rows and from events in memory; `AGGREGATES_OFF` makes the same query
read rows. STRATALOG_SEEDS=N..M chooses other random tables.
"""

import datetime
import decimal
import os
import random

import duckdb
import psycopg
import pyarrow
import pytest

pytestmark = pytest.mark.ours

BEGIN = datetime.datetime(2024, 3, 30, 20, tzinfo=datetime.timezone.utc)
STEPS = 14
QUERIES = 36
COLUMNS = {"d": "double precision", "i": "integer", "b": "bigint", "s": "smallint", "r": "real"}
KINDS = [pyarrow.timestamp("us", "UTC"), pyarrow.string(), pyarrow.int32(), pyarrow.float64(), pyarrow.int32(), pyarrow.int64(), pyarrow.int16(), pyarrow.float32()]
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"]


def seeds():
    first, _, end = os.environ.get("STRATALOG_SEEDS", "0..6").partition("..")
    return range(int(first), int(end))


def value(chosen, of):
    whole = chosen.randint(-4000, 4000)
    case = chosen.random()
    if case < 0.06:
        return None
    if of == "double precision":
        # Sums of eighths are exact in any order.
        return float(chosen.choice(["nan", "inf", "-inf"])) if case < 0.062 else whole / 8
    if of == "bigint" and case < 0.1:
        return chosen.choice([2**62, -(2**62), 2**63 - 1])
    return whole / 4 if of == "real" else whole


class Table:
    """The same rows in Stratalog and DuckDB."""

    def __init__(self, ours, duck, chosen):
        self.ours, self.duck, self.chosen = ours, duck, chosen
        self.until = 0
        # Frequently reporting series have long runs, and therefore cells.
        self.hosts = [f"h{number}" for number in range(chosen.choice([2, 5, 40]))]
        self.step = chosen.choice([1, 10, 30])
        columns = ", ".join(f"{name} {of}" for name, of in COLUMNS.items())
        key = chosen.choice(["PRIMARY KEY (host, time)", "PRIMARY KEY (host, zone, time)", "PRIMARY KEY (zone, host, time)"])
        ours.execute(
            f"CREATE TABLE m (time timestamptz NOT NULL, host text NOT NULL, zone int NOT NULL, {columns}, {key}) "
            f"WITH (collision = 'all', granularity = '{chosen.choice(['1ns', '1ms', '1s'])}')"
        )
        duck.execute("CREATE OR REPLACE TABLE m (time timestamptz, host text, zone int, d double, i int, b bigint, s smallint, r float)")

    def change(self):
        case = self.chosen.random()
        if case < 0.15:
            self.ours.execute("CALL stratalog.flush('m')")
        elif case < 0.35:
            self.ours.execute("CALL stratalog.compact('m')")
        elif case < 0.42 and self.until > 0:
            # Deletes events at the beginning or at the end.
            part = self.chosen.randint(0, self.until // 8)
            before = self.chosen.random() < 0.5
            self.delete(f"time < '{self.time(part)}'" if before else f"time >= '{self.time(self.until - part)}'")
        else:
            self.insert()

    def time(self, seconds):
        return (BEGIN + datetime.timedelta(seconds=seconds)).isoformat()

    def delete(self, condition):
        for database in (self.ours, self.duck):
            database.execute(f"DELETE FROM m WHERE {condition}")

    def insert(self):
        chosen, rows = self.chosen, []
        ticks = chosen.randint(50, 1500)
        late = chosen.random() < 0.3
        start = chosen.randint(0, self.until) if late else self.until
        for tick in range(min(ticks, 12_000 // len(self.hosts))):
            for number, host in enumerate(self.hosts):
                if chosen.random() < 0.97:
                    at = self.time(start + tick * self.step)
                    rows.append([at, host, number % 3, *(value(chosen, of) for of in COLUMNS.values())])
        if not late:
            self.until = start + ticks * self.step
        with self.ours.cursor().copy("COPY m FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        values = [list(column) for column in zip(*rows)]
        values[0] = [datetime.datetime.fromisoformat(at) for at in values[0]]
        arrays = [pyarrow.array(column, kind) for column, kind in zip(values, KINDS)]
        more = pyarrow.table(arrays, names=["time", "host", "zone", *COLUMNS])
        self.duck.register("more", more)
        self.duck.execute("INSERT INTO m SELECT * FROM more")
        self.duck.unregister("more")


def query(chosen, table):
    """A query in both dialects: grouping, aggregates, condition."""
    groups, theirs = [], []
    for key in ("host", "zone"):
        if chosen.random() < 0.35:
            groups.append(key)
            theirs.append(key)
    case = chosen.random()
    if case < 0.45:
        width = chosen.choice(["7 seconds", "1 minute", "10 minutes", "30 minutes", "1 hour", "90 minutes", "6 hours", "1 day"])
        groups.append(f"time_bucket('{width}', time)")
        theirs.append(f"epoch(time_bucket(INTERVAL '{width}', time AT TIME ZONE 'UTC'))")
    elif case < 0.75:
        unit = chosen.choice(["minute", "hour", "day", "week", "month"])
        groups.append(f"date_trunc('{unit}', time)")
        theirs.append(f"epoch(date_trunc('{unit}', time))")
    wanted = [("count(*)", "count(*)")]
    for _ in range(chosen.randint(1, 4)):
        name = chosen.choice(list(COLUMNS))
        function = chosen.choice(["count", "min", "max", "sum", "avg"])
        # Sums of bigints may exceed the range of bigint, and means computed from rows use doubles.
        if function in ("sum", "avg") and name in ("r", "b"):
            function = "max"
        if function == "avg":
            ours = f"avg({name})::double precision"
            their = f"sum({name})::double / count({name})" if name != "d" else "avg(d)"
            wanted.append((ours, their))
        else:
            wanted.append((f"{function}({name})", f"{function}({name})"))
    if chosen.random() < 0.3:
        wanted += [(f"{end}(time)", f"epoch({end}(time))") for end in ("min", "max")]
    conditions = []
    for way in (">=", "<"):
        if chosen.random() < 0.5:
            at = chosen.randint(0, table.until + 100)
            if chosen.random() < 0.5:
                at -= at % 3600
            conditions.append(f"time {way} '{table.time(at)}'")
    if chosen.random() < 0.4:
        hosts = ", ".join(f"'{host}'" for host in chosen.sample(table.hosts, chosen.randint(1, len(table.hosts))))
        conditions.append(f"host IN ({hosts})")
    if chosen.random() < 0.2:
        conditions.append(f"zone = {chosen.randint(0, 3)}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    by = f" GROUP BY {', '.join(str(at + 1) for at in range(len(groups)))}" if groups else ""
    ours = f"SELECT {', '.join(groups + [ours for ours, _ in wanted])} FROM m{where}{by}"
    duck = f"SELECT {', '.join(theirs + [their for _, their in wanted])} FROM m{where}{by}"
    return ours, duck, len(groups)


def plain(cell):
    match cell:
        case decimal.Decimal():
            return int(cell)
        case datetime.datetime():
            return plain(cell.timestamp())
        case float():
            # A mean of whole numbers is numeric in Stratalog, and a double in DuckDB.
            return f"{cell + 0.0:.12g}"
    return cell


def rows_of(fetched, groups):
    rows = [tuple(plain(cell) for cell in row) for row in fetched]
    return sorted(rows, key=lambda row: [(cell is None, str(type(cell)), cell) for cell in row[:groups]])


def over_rows(sql):
    """The same query over a table under a condition that no scan evaluates, so that storage cannot answer it."""
    return sql.replace(" FROM m", " FROM (SELECT * FROM m WHERE coalesce(i, 0) + random() < 1e9) m", 1)


@pytest.mark.parametrize("seed", seeds())
def test_aggregates_are_those_of_duckdb(server, seed):
    chosen = random.Random(seed)
    compared = cells = told = 0
    with psycopg.connect(server.dsn(), autocommit=True) as ours, duckdb.connect() as duck:
        ours.execute("DROP TABLE IF EXISTS m")
        table = Table(ours, duck, chosen)
        for step in range(STEPS):
            table.change()
            zone = chosen.choice(ZONES)
            ours.execute(f"SET TimeZone = '{zone}'")
            duck.execute(f"SET TimeZone = '{zone}'")
            for _ in range(QUERIES):
                sql, theirs, groups = query(chosen, table)
                found = rows_of(ours.execute(sql).fetchall(), groups)
                expected = rows_of(duck.execute(theirs).fetchall(), groups)
                assert found == expected, f"seed {seed}, step {step}, {zone}: {sql}"
                compared += 1
                if chosen.random() < 0.2:
                    assert rows_of(ours.execute(over_rows(sql)).fetchall(), groups) == found, f"seed {seed}, step {step}: {over_rows(sql)}"
                    plan = "\n".join(line for (line,) in ours.execute(f"EXPLAIN ANALYZE {sql}"))
                    told += "ChronicleAggregate" in plan
                    _, _, rest = plan.partition("story_cells_used=")
                    cells += int(rest.split(",")[0].split("]")[0]) if rest else 0
        ours.execute("DROP TABLE m")
    assert compared == STEPS * QUERIES and told > 0
    print(f"seed {seed}: {compared} queries, {told} told, {cells} cells")
