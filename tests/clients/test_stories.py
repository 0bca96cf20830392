"""Stories, the Parquet files of the cold tier: readable by other tools, with the same answers before and after every
move, and retention."""

import contextlib
import decimal
import json
import random
import re
import threading
import time
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import story_files
from servers import Stratalog
from tables import KEYED, connect, copy, moment, one, tiers, wait_until

pytestmark = pytest.mark.ours

HOUR_NS = 3600 * 10**9
START_NS = 1_704_067_200 * 10**9  # 2024-01-01
STEP_NS = 5 * 10**9 + 7  # odd nanoseconds, that a microsecond does not hold
ROWS = 50_000
HOSTS = ["alpha", "beta", "Gamma", "δέλτα", "eps'ilon", "zeta \"z\"", ""]

# Some values of every type in COPY's format; each column is NULL in one row of nine.
TYPES = {
    "boolean": ["true", "false"],
    "smallint": ["0", "-1", "32767", "-32768"],
    "integer": ["0", "2147483647", "-2147483648", "17"],
    "bigint": ["0", "9223372036854775807", "-9223372036854775808"],
    "real": ["0", "-0", "0.1", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38"],
    "double precision": ["0", "-0", "0.1", "NaN", "Infinity", "-Infinity", "5e-324", "-1e300"],
    "numeric(7,2)": ["0.00", "99999.99", "-0.01"],
    "numeric(16,4)": ["0.0001", "-999999999999.9999"],
    "numeric(38,10)": ["0.0000000001", "9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10],
    "text": ["", "plain", "naïve Ω 日本 🚀", "x" * 300, "NULL"],
    "bytea": ["\\x", "\\x00ff5c", "\\x" + "ab" * 200],
    "timestamp": ["1700-01-01 00:00:00", "2024-02-29 12:34:56.123456789", "2262-04-11 23:47:16.854775807"],
    "timestamptz": ["1969-12-31 23:59:59.999999999+00", "1677-09-21 00:12:43.145224193+00"],
    "timestamp(0)": ["0001-01-01 00:00:00", "2024-02-29 12:34:56", "9999-12-31 23:59:59"],
    "timestamptz(0)": ["1969-12-31 23:59:59+00", "2024-02-29 12:34:56+00"],
    "timestamp(3)": ["2024-02-29 12:34:56.789", "1969-12-31 23:59:59.999"],
    "timestamptz(3)": ["2024-02-29 12:34:56.789+00", "1500-01-01 00:00:00.001+00"],
    "timestamp(6)": ["2024-02-29 12:34:56.789012", "1969-12-31 23:59:59.999999"],
    "timestamptz(6)": ["2024-02-29 12:34:56.789012+00", "3000-01-01 00:00:00.000001+00"],
    "timestamptz(9)": ["2024-02-29 12:34:56.789012345+00"],
    "date": ["2024-02-29", "0001-01-01", "9999-12-31", "1969-12-31"],
    "time": ["00:00:00", "12:34:56.789012", "23:59:59.999999"],
    "interval": ["0", "1 year 2 mons 3 days 04:05:06.789", "-1 mons +2 days -00:00:00.000001", "100 days"],
    "uuid": [str(uuid.UUID(int=0)), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", str(uuid.UUID(int=2**128 - 1))],
    "jsonb": ['{"b": [1, 2.5, null, true], "a": {"c": "ü"}}', "[]", '"text"', "12", "null"],
}
# Arrays of every type: empty, with a NULL, with values that need no escape.
ARRAYS = {f"{of}[]": ["{}", "{NULL}", "{" + ",".join(f'"{value}"' for value in values[:3]) + ",NULL}"]
          for of, values in TYPES.items() if of not in ("bytea", "jsonb")}
ARRAYS |= {"bytea[]": ["{}", r'{"\\x00ff",NULL,"\\x"}']}
VALUES = TYPES | ARRAYS
COLUMNS = {f"c{n}": sql_type for n, sql_type in enumerate(VALUES)}


# ---------------------------------------------------------------- other tools

def everything(numbers):
    """Rows with values of all types for these numbers."""
    for n in numbers:
        values = [None if (n + place) % 9 == 0 else some[(n * 31 + place) % len(some)]
                  for place, some in enumerate(VALUES.values())]
        yield [moment(START_NS + n * STEP_NS), HOSTS[n % len(HOSTS)], n, *values]


@pytest.fixture(scope="module")
def of_all_types(scratch):
    """A server with a table that has been through all operations on tables, and its final columns."""
    chance = random.Random(8)
    with Stratalog(scratch / "alltypes") as server, connect(server) as connection:
        types = ", ".join(f"{name} {sql_type}" for name, sql_type in COLUMNS.items())
        connection.execute(f"CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n BIGINT, {types}, "
                           "PRIMARY KEY (host, time)) WITH (collision = 'last')")
        columns = ["time", "host", "n", *COLUMNS]
        numbers = list(range(ROWS))
        late = set(chance.sample(numbers, ROWS // 20))
        copy(connection, "t", columns, everything(n for n in numbers[: ROWS // 2] if n not in late))
        connection.execute("CALL stratalog.flush('t')")
        connection.execute("ALTER TABLE t ADD COLUMN added INTEGER DEFAULT 42")
        connection.execute("ALTER TABLE t RENAME COLUMN c2 TO renamed")
        columns = [{"c2": "renamed"}.get(name, name) for name in columns] + ["added"]
        newer = everything(n for n in numbers[ROWS // 2 :] if n not in late)
        copy(connection, "t", columns, ([*row, row[2] % 5 or None] for row in newer))
        connection.execute("CALL stratalog.flush('t')")
        # Late events, and events that replace other events.
        shuffled = sorted(late) + chance.sample(numbers, 500)
        chance.shuffle(shuffled)
        copy(connection, "t", columns, ([*row, -1] for row in everything(shuffled)))
        assert one(connection, "SELECT count(*) FROM t") == ROWS
        deleted = 5_000
        connection.execute(f"DELETE FROM t WHERE time < '{moment(START_NS + deleted * STEP_NS)}'")
        assert one(connection, "SELECT count(*) FROM t") == ROWS - deleted
        of = {"time": "timestamptz", "host": "text", "n": "bigint"}
        of |= {{"c2": "renamed"}.get(name, name): sql_type for name, sql_type in COLUMNS.items()} | {"added": "integer"}
        before = story_files.server_answers(connection, "t", of)
        connection.execute("CALL stratalog.compact('t')")
        after = story_files.server_answers(connection, "t", of)
        assert after.equals(before)
        yield server, of, after


def test_only_stories_are_left(of_all_types):
    server, _, answered = of_all_types
    with connect(server) as connection:
        assert connection.execute("SELECT DISTINCT _tier FROM t").fetchall() == [("story",)]
        pieces = connection.execute("SELECT file, rows, bytes FROM stratalog.pieces WHERE name = 't'").fetchall()
    folder = server.data_dir / "stories"
    paths = story_files.files(folder)
    assert sum(rows for _, rows, _ in pieces) == answered.num_rows
    assert sorted(path.stat().st_size for path in paths) == sorted(size for _, _, size in pieces)
    for file, _, _ in pieces:
        assert any(str(path).endswith(file.split("/", 1)[-1]) for path in paths), file


def test_time_is_a_timestamp_and_types_are_parquets_own(of_all_types):
    server, columns, _ = of_all_types
    for path in story_files.files(server.data_dir / "stories"):
        file = pq.ParquetFile(path)
        assert str(file.schema_arrow.field("time").type) == "timestamp[ns, tz=UTC]"
        assert file.schema_arrow.names[-3:] == ["_tick", "_seq", "_gsn"]
        names = [column["name"] for column in json.loads(file.metadata.metadata[b"stratalog.columns"])]
        assert names == file.schema_arrow.names[:-3]
        assert b"ARROW:schema" not in file.metadata.metadata


@pytest.mark.parametrize("tool", story_files.TOOLS)
def test_a_tool_reads_what_the_server_answers(of_all_types, tool):
    server, columns, answered = of_all_types
    paths = story_files.files(server.data_dir / "stories")
    read = story_files.TOOLS[tool](paths)
    found = story_files.differences(read, as_stored(answered, paths), columns)
    assert not found, "\n".join(found)


def as_stored(answered, paths):
    """Fills in a column that was added after a story: the story lacks the column, and the server answers its
    DEFAULT. The function checks the DEFAULT and replaces it with NULL, the value for a reader of several stories."""
    older = [path for path in paths if "added" not in pq.read_schema(path).names]
    assert older and len(older) < len(paths)
    stored = {seq for path in older for seq in pq.read_table(path, columns=["_seq"])["_seq"].to_pylist()}
    values = []
    for seq, value in zip(answered["_seq"].to_pylist(), answered["added"].to_pylist(), strict=True):
        assert seq not in stored or value == 42
        values.append(None if seq in stored else value)
    place = answered.column_names.index("added")
    return answered.set_column(place, "added", pa.array(values, answered["added"].type))


def test_a_rename_touches_no_file(of_all_types):
    server, columns, answered = of_all_types
    paths = story_files.files(server.data_dir / "stories")
    ids = {path: field_ids(path) for path in paths}
    with connect(server) as connection:
        connection.execute("ALTER TABLE t RENAME COLUMN c0 TO yes")
        of = {{"c0": "yes"}.get(name, name): sql_type for name, sql_type in columns.items()}
        again = story_files.server_answers(connection, "t", of)
        connection.execute("ALTER TABLE t RENAME COLUMN yes TO c0")
    assert again.rename_columns(answered.column_names).equals(answered)
    assert ids == {path: field_ids(path) for path in story_files.files(server.data_dir / "stories")}
    assert len({found["n"] for found in ids.values()}) == 1


def field_ids(path):
    """The column ids of a story, by name."""
    return {field.name: field.metadata[b"PARQUET:field_id"] for field in pq.read_schema(path)}


# ---------------------------------------------------------------- the same answers

UNITS = [str(uuid.UUID(int=n * 7)) for n in range(5)]
MINUTE_NS = 60 * 10**9
MIDDLE = moment(START_NS + 10_000 * MINUTE_NS)
QUERIES = [
    "SELECT count(*), count(v), min(time)::text, max(time)::text FROM t",
    "SELECT sum(v), avg(v), min(v), max(v), sum(amount), count(DISTINCT note) FROM t",
    "SELECT host, unit, count(*), sum(v), max(note) FROM t GROUP BY host, unit ORDER BY host, unit",
    "SELECT time_bucket(INTERVAL '6 hours', time)::text AS six, count(*), sum(amount) FROM t GROUP BY six ORDER BY six",
    "SELECT time::text, host, v, note FROM t ORDER BY time DESC LIMIT 25",
    "SELECT time::text, host, v, note FROM t ORDER BY time LIMIT 25",
    f"SELECT time::text, v FROM t WHERE time >= '{MIDDLE}' ORDER BY time LIMIT 10",
    f"SELECT count(*), sum(v) FROM t WHERE time < '{MIDDLE}' AND host = 'beta'",
    f"SELECT time::text, v, amount, note FROM t WHERE host = 'δέλτα' AND unit = '{UNITS[3]}' ORDER BY time DESC LIMIT 7",
    f"SELECT v, amount FROM t WHERE host = 'alpha' AND unit = '{UNITS[0]}' AND time = '{moment(START_NS + 140 * MINUTE_NS)}'",
    "SELECT count(*) FROM t WHERE host = 'nobody'",
    "SELECT count(*), sum(v) FROM t WHERE v % 1000 = 7 AND note IS NOT NULL",
    "SELECT _seq, _tick, v FROM t WHERE v BETWEEN 5000 AND 5020 ORDER BY _seq",
    "SELECT DISTINCT ON (host) host, time::text, v FROM t ORDER BY host, time DESC",
    "SELECT extract(dow FROM time) AS day, count(*) FROM t GROUP BY day ORDER BY day",
]


def answers(connection):
    return {query: connection.execute(query).fetchall() for query in QUERIES}


@contextlib.contextmanager
def asking_all_the_time(server, expected):
    """Queries in the background, and fails if an answer changes."""
    stop, wrong, asked = threading.Event(), [], []

    def ask():
        with connect(server) as connection:
            while not stop.is_set():
                for query in QUERIES:
                    found = connection.execute(query).fetchall()
                    asked.append(query)
                    if found != expected[query]:
                        wrong.append((query, found[:5], expected[query][:5]))
                        return

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(120)
    assert not thread.is_alive() and not wrong, wrong
    assert asked


def test_the_same_answers_in_every_tier(directory):
    chance = random.Random(20)
    numbers = list(range(20_000))
    late = chance.sample(numbers, 1_000)
    rows = {n: [moment(START_NS + n * MINUTE_NS), HOSTS[n % len(HOSTS)], UNITS[n // len(HOSTS) % len(UNITS)],
                n if n % 11 else None, f"{n * 37 % 100_000}.{n % 100:02}", f"note {n % 501}" if n % 3 else None] for n in numbers}
    columns = ["time", "host", "unit", "v", "amount", "note"]
    server = Stratalog(directory).start()
    with connect(server) as connection:
        connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, unit UUID NOT NULL, v BIGINT, "
                           "amount NUMERIC(12,2), note TEXT, PRIMARY KEY (host, unit, time)) WITH (collision = 'last')")
        copy(connection, "t", columns, (row for n, row in rows.items() if n not in set(late)))
        copy(connection, "t", columns, ([*rows[n][:3], -1, 0, "replaced"] for n in late[:500]))
        copy(connection, "t", columns, (rows[n] for n in late))
        expected = answers(connection)
        assert tiers(connection) == {"journal": len(rows)}
    total = sum(row[3] or 0 for row in rows.values())
    assert expected[QUERIES[0]][0][:2] == (len(rows), sum(row[3] is not None for row in rows.values()))
    assert expected[QUERIES[1]][0][0] == total
    assert [row[1] for row in expected[QUERIES[4]]] == [HOSTS[n % len(HOSTS)] for n in reversed(numbers[-25:])]
    assert expected[QUERIES[9]] == [(140, decimal.Decimal(rows[140][4]))]

    for tier, call in [("journal", None), ("tablet", "CALL stratalog.flush('t')"), ("story", "CALL stratalog.compact('t')")]:
        if call:
            with asking_all_the_time(server, expected), connect(server) as connection:
                connection.execute(call)
        for restarted in (False, True):
            if restarted:
                server.kill()
                server.start()
            with connect(server) as connection:
                assert tiers(connection) == {tier: len(rows)}
                assert answers(connection) == expected, (tier, restarted)
                plan = "\n".join(line for (line,) in connection.execute("EXPLAIN ANALYZE SELECT sum(v) FROM t"))
                # For stories, cells provide the sums of the rows.
                read = r"story_cells_used=[1-9]" if tier == "story" else rf"{tier}_parts_read=[1-9].*\b{tier}_rows_read=20\."
                assert re.search(rf"\b{read}", plan), plan
                for other in {"journal", "tablet", "story"} - {tier}:
                    assert f"{other}_rows_read" not in plan, plan

    # Some rows in every tier: stories, tablets, the journal; the answers equal the answers of a single tier.
    with connect(server) as connection:
        connection.execute("DELETE FROM t")
        third = len(numbers) // 3
        for part, call in [(numbers[:third], "compact"), (numbers[third : 2 * third], "flush"), (numbers[2 * third :], None)]:
            copy(connection, "t", columns, (rows[n] for n in part))
            if call:
                connection.execute(f"CALL stratalog.{call}('t')")
        assert tiers(connection) == {"story": third, "tablet": third, "journal": len(rows) - 2 * third}
        found = answers(connection)
        for query in QUERIES:
            # The rows came in another order.
            if "_seq" not in query:
                assert found[query] == expected[query], query
    server.stop()


# ---------------------------------------------------------------- retention

def test_retention(directory):
    with Stratalog(directory) as server, connect(server) as connection:
        connection.execute(KEYED)
        insert = ("INSERT INTO t SELECT now() - INTERVAL '{}' - n * INTERVAL '1 second', 'h' || (n % 5), n "
                  "FROM generate_series(1, 1000) AS n")
        connection.execute(insert.format("5 days"))
        connection.execute("CALL stratalog.compact('t')")
        connection.execute(insert.format("3 days"))
        connection.execute("CALL stratalog.flush('t')")
        connection.execute(insert.format("2 days"))
        connection.execute(insert.format("1 hour"))
        connection.execute(insert.format("1 minute"))
        assert tiers(connection) == {"story": 1_000, "tablet": 1_000, "journal": 3_000}
        assert len(story_files.files(server.data_dir / "stories")) == 1

        connection.execute("ALTER TABLE t SET (retention = '1d')")
        wait_until(connection, "SELECT count(*), sum(v) FROM t", [(2_000, 1_001_000)])
        wait_until(connection, "SELECT count(*) FROM stratalog.pieces WHERE name = 't' AND tier <> 'journal'", [(0,)])
        deadline = time.monotonic() + 20
        while story_files.files(server.data_dir / "stories"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert one(connection, "SELECT min(time) > now() - INTERVAL '25 hours' FROM t")
        assert one(connection, "SELECT count(*) FROM t WHERE time > now() - INTERVAL '30 minutes'") == 1_000

        # Old and new rows in one story: the old rows go, and the file stays for the new rows.
        connection.execute("ALTER TABLE t SET (retention = 'off')")
        connection.execute(insert.format("4 days"))
        connection.execute("CALL stratalog.compact('t')")
        assert tiers(connection) == {"story": 3_000}
        connection.execute("ALTER TABLE t SET (retention = '1d')")
        wait_until(connection, "SELECT count(*), sum(v) FROM t", [(2_000, 1_001_000)])
        assert tiers(connection) == {"story": 2_000}
        server.kill()
        server.start()
    with server, connect(server) as connection:
        assert connection.execute("SELECT count(*), sum(v) FROM t").fetchall() == [(2_000, 1_001_000)]
