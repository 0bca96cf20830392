"""Aggregates and windows over random tables, compared with DuckDB: only expressions with the same meaning in both."""

import random
import time

import duckdb

from . import answers

AGGREGATES = ["count(*)", "count(a)", "sum(a)", "min(a)", "max(b)", "min(b)", "count(DISTINCT a)", "bool_or(a > 3)",
              "sum(a) FILTER (WHERE b > 0)", "max(s)", "min(t)", "max(t)", "bit_or(a)"]
KEYS = ["s", "a % 3", "date_trunc('hour', t)", "date_trunc('day', t)", "a > 2", "upper(s)", "coalesce(a, 0)"]
FRAMES = ["ROWS BETWEEN {} PRECEDING AND {} FOLLOWING", "ROWS BETWEEN {} PRECEDING AND CURRENT ROW",
          "RANGE BETWEEN INTERVAL '{} hours' PRECEDING AND INTERVAL '{} hours' FOLLOWING"]


def statements(generator):
    pick, below = generator.choice, generator.randrange
    conditions = ["true", f"a > {below(6)}", "s IN ('x', 'y')", f"t >= TIMESTAMP '2024-01-0{below(1, 9)}'", "b IS NOT NULL", "a BETWEEN 2 AND 5"]
    where = f"{pick(conditions)} {pick(['AND', 'OR'])} {pick(conditions)}"
    if generator.random() < 0.5:
        keys = ", ".join(generator.sample(KEYS, below(1, 3)))
        shown = ", ".join(generator.sample(AGGREGATES, 3))
        grouping = pick([keys, f"ROLLUP ({keys})", f"CUBE ({keys})"])
        return f"SELECT {keys}, {shown} FROM w WHERE {where} GROUP BY {grouping}"
    frame = pick(FRAMES).format(below(4), below(4))
    function = pick([one for one in AGGREGATES if "DISTINCT" not in one and "FILTER" not in one])
    # Rows with equal times need a further sort key, unless a RANGE frame treats them as peers.
    order = "t" if frame.startswith("RANGE") else "t, k"
    return (f"SELECT k, {function} OVER (PARTITION BY {pick(['s', 'a % 2', 'true'])} ORDER BY {order} {frame}) "
            f"FROM w WHERE {where}")


def fill(ours, theirs, generator, count):
    columns = "t timestamp {}, k int {}, a int, b double precision, s text"
    run_ours(ours, "DROP TABLE IF EXISTS w")
    theirs.execute("DROP TABLE IF EXISTS w")
    run_ours(ours, f"CREATE TABLE w ({columns.format('NOT NULL', 'NOT NULL')}, PRIMARY KEY (k, t))")
    theirs.execute(f"CREATE TABLE w ({columns.format('', '')})")
    rows = []
    for key in range(count):
        values = [generator.choice([str(generator.randrange(8)), "NULL"]), generator.choice([str(generator.randrange(-40, 40) / 4), "NULL"]),
                  generator.choice(["'x'", "'y'", "'z'", "NULL"])]
        rows.append(f"(TIMESTAMP '2024-01-01' + INTERVAL '{generator.randrange(20000)} minutes', {key}, {', '.join(values)})")
    filled = f"INSERT INTO w VALUES {', '.join(rows)}"
    run_ours(ours, filled)
    theirs.execute(filled)


def run_ours(ours, sql):
    """Runs a statement that must succeed: a table without its rows would make every answer wrong."""
    done = ours.run(sql)
    assert done.state is None, done.shown()


def text(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    return str(value)


def hunt(ours, seed, deadline, report):
    theirs = duckdb.connect()
    turn = 0
    while time.monotonic() < deadline:
        generator = random.Random(f"{seed}-duck-{turn}")
        turn += 1
        fill(ours, theirs, generator, generator.choice([10, 300, 2000]))
        for place in ("flush", "compact"):
            for _ in range(100):
                sql = statements(generator)
                report.statements += 1
                mine = ours.run(sql)
                rows = [tuple(map(text, row)) for row in theirs.execute(sql).fetchall()]
                expected = type("Expected", (), {"state": None, "rows": rows})
                if (kind := answers.difference(mine, expected, False)) is not None:
                    report.add(kind, f"{sql};  -- seed {seed}, turn {turn - 1}", mine.shown(), f"{len(rows)} rows: {rows}"[:240],
                               answers.signature(kind, sql, mine))
                if time.monotonic() > deadline:
                    return
            run_ours(ours, f"CALL stratalog.{place}('w')")
