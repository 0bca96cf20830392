"""`stratalog export`: import and other tools can read its files."""

import csv
import io
import json
import signal
import subprocess
import time

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import story_files
from servers import Stratalog, stratalog_binary
from tables import connect, copy, one
from test_stories import COLUMNS, everything

pytestmark = pytest.mark.ours

ROWS = 3_000
ALL = {"time": "timestamptz", "host": "text", "n": "bigint", **COLUMNS}
# Parquet lacks these types: export writes text.
TEXTS = [name for name, sql_type in COLUMNS.items() if sql_type.startswith("interval")]
ODD = ["", '"', "a,b", "a\nb", "a\r\nb", "\\N", "\\.", "NULL", "null", "\t", " x ", "é", "'", "--", "{}"]


def command(*flags, connect):
    return [str(stratalog_binary()), *flags, *connect]


def run(*flags, connect, **more):
    return subprocess.run(command(*flags, connect=connect), capture_output=True, timeout=120, **more)


def good(*flags, connect, **more):
    done = run(*flags, connect=connect, **more)
    assert done.returncode == 0, (flags, done.stderr.decode())
    return done.stdout.decode()


def create(connection, table):
    types = ", ".join(f"{name} {sql_type}" for name, sql_type in COLUMNS.items())
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n BIGINT, {types}, "
                       "PRIMARY KEY (host, time)) WITH (collision = 'last')")


@pytest.fixture(scope="module")
def filled(scratch):
    """A server with a table of all types in all tiers, its connection parameters, and its answers."""
    with Stratalog(scratch / "exported") as server, connect(server) as connection:
        create(connection, "t")
        connection.execute("CREATE TABLE odd (time TIMESTAMPTZ NOT NULL, s TEXT, s2 TEXT)")
        rows = list(everything(range(ROWS)))
        for move, part in [("compact", rows[:1000]), ("flush", rows[1000:2000]), (None, rows[2000:])]:
            copy(connection, "t", ALL, part)
            if move:
                connection.execute(f"CALL stratalog.{move}('t')")
        pairs = [(a, b) for a in [None, *ODD] for b in [None, *ODD]]
        copy(connection, "odd", ["time", "s", "s2"], [[f"2024-01-01 00:{n // 60:02}:{n % 60:02}", a, b] for n, (a, b) in enumerate(pairs)])
        yield server, ["-p", str(server.port)], story_files.server_answers(connection, "t", ALL)


def without_json_nulls(column):
    """NDJSON has a single null for SQL NULL and JSON null: it is read as SQL NULL."""
    bare = lambda value: None if value == "null" else [bare(item) for item in value] if isinstance(value, list) else value
    return pa.chunked_array([pa.array([bare(value) for value in column.to_pylist()], column.type)])


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_import_makes_the_same_rows(filled, tmp_path, form):
    server, to, answered = filled
    file = tmp_path / f"t.{form}"
    said = good("export", str(file), "-t", "t", connect=to)
    assert said.startswith(f"{ROWS} rows of t into {file}, {file.stat().st_size} bytes, in "), said
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    table = f"back_{form}"
    with connect(server) as connection:
        create(connection, table)
        good("import", str(file), "-t", table, connect=to)
        back = story_files.server_answers(connection, table, ALL)
        for name in ALL:
            expected = answered[name]
            if form == "ndjson" and ALL[name].startswith("jsonb"):
                expected = without_json_nulls(expected)
            assert back[name].combine_chunks().equals(expected.combine_chunks()), (name, ALL[name])
        connection.execute(f"CREATE TABLE odd_{form} (time TIMESTAMPTZ NOT NULL, s TEXT, s2 TEXT)")
        odd = tmp_path / f"odd.{form}"
        good("export", str(odd), "--table", "public.odd", connect=to)
        good("import", str(odd), "-t", f"odd_{form}", connect=to)
        of = "SELECT time, s, s2 FROM {} ORDER BY time"
        assert (connection.execute(of.format(f"odd_{form}")).fetchall()
                == connection.execute(of.format("odd")).fetchall())


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_new_table_keeps_all_digits_and_the_order_of_the_columns(filled, tmp_path, form):
    server, to, _ = filled
    file = tmp_path / f"long.{form}"
    columns = ["z", "time", "n", "whole", "d", "b"]
    with connect(server) as connection:
        connection.execute(f"CREATE TABLE long_{form} (z TEXT, time TIMESTAMPTZ NOT NULL, n NUMERIC(38,10), whole NUMERIC(38,0), "
                           "d DOUBLE PRECISION, b BIGINT)")
        copy(connection, f"long_{form}", columns, [
            ["x", "2024-01-01", "1234567890123456789.0123456789", "12345678901234567890123456789012345678", "0.1", 2**53 + 1],
            ["y", "2024-01-02", "-0.5", "-1", "1e300", 1],
            ["z", "2024-01-03", "9007199254740993", None, "0.30000000000000004", None],
        ])
        good("export", str(file), "-t", f"long_{form}", connect=to)
        good("import", str(file), "-t", f"long_again_{form}", "--create", connect=to)
        of = "SELECT * FROM {} ORDER BY time"
        back = connection.execute(of.format(f"long_again_{form}"))
        assert [column.name for column in back.description] == columns
        found, expected = back.fetchall(), connection.execute(of.format(f"long_{form}")).fetchall()
        assert found == expected
        assert [list(map(type, row)) for row in found] == [list(map(type, row)) for row in expected]


def test_csv_options_are_those_of_import(filled, tmp_path):
    server, to, _ = filled
    for name, flags in [("tabs", ["--delimiter", "tab", "--null", "\\N"]), ("bare", ["--no-header", "--null", "null"])]:
        file = tmp_path / f"{name}.csv"
        good("export", str(file), "-t", "odd", *flags, connect=to)
        with connect(server) as connection:
            connection.execute(f"CREATE TABLE {name} (time TIMESTAMPTZ NOT NULL, s TEXT, s2 TEXT)")
            good("import", str(file), "-t", name, *flags, connect=to)
            of = "SELECT time, s, s2 FROM {} ORDER BY time"
            assert connection.execute(of.format(name)).fetchall() == connection.execute(of.format("odd")).fetchall()
    for flags in [["--null", ","], ["--delimiter", '"'], ["--null", "a\nb"]]:
        assert run("export", str(tmp_path / "no.csv"), "-t", "odd", *flags, connect=to).returncode == 1
    assert not (tmp_path / "no.csv").exists()


@pytest.mark.parametrize("tool", ["pyarrow", "duckdb", "polars"])
def test_tools_read_parquet(filled, tmp_path, tool):
    _, to, answered = filled
    file = tmp_path / "t.parquet"
    good("export", str(file), "--query", f"SELECT _seq, {', '.join(ALL)} FROM t", connect=to)
    read = story_files.TOOLS[tool]([file])
    columns = {name: sql_type for name, sql_type in ALL.items() if name not in TEXTS}
    found = story_files.differences(read, answered, columns)
    assert not found, "\n".join(found)
    metadata = pq.read_metadata(file)
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_rows_come_in_the_order_of_time_and_to_standard_output(filled):
    _, to, _ = filled
    text = good("export", "-", "--format", "csv", "-t", "t", connect=to)
    numbers = [int(row["n"]) for row in csv.DictReader(io.StringIO(text))]
    assert numbers == list(range(ROWS))
    lines = good("export", "-", "--format", "ndjson", "--query", "SELECT n, 1.10 AS x FROM t WHERE n < 2 ORDER BY n", connect=to)
    assert lines.splitlines() == ['{"n":0,"x":1.10}', '{"n":1,"x":1.10}']
    assert json.loads(lines.splitlines()[0])["x"] == 1.1
    done = run("export", "-", "--format", "parquet", "-t", "t", connect=to)
    assert done.returncode == 0 and pq.read_table(io.BytesIO(done.stdout)).num_rows == ROWS


def test_a_file_that_exists_stays_unless_told_otherwise(filled, tmp_path):
    _, to, _ = filled
    file = tmp_path / "t.csv"
    file.write_text("precious")
    done = run("export", str(file), "-t", "t", connect=to)
    assert done.returncode == 1 and b"--force" in done.stderr, done.stderr
    assert file.read_text() == "precious"
    failing = "SELECT 1 / (n - 2500) FROM t ORDER BY n"
    done = run("export", str(file), "--force", "--query", failing, connect=to)
    assert done.returncode == 1 and b"22012" in done.stderr, done.stderr
    assert file.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    good("export", str(file), "--force", "-t", "t", connect=to)
    assert len(file.read_text()) > 10_000


def test_what_is_refused_leaves_no_file(filled, tmp_path):
    _, to, _ = filled
    file = str(tmp_path / "x.csv")
    for flags, said in [
        ([file, "-t", "nowhere"], b"42P01"),
        ([file, "--query", "SELEC"], b"SELECT"),
        ([file, "--query", "DELETE FROM t"], b"SELECT"),
        ([file, "--query", "SELECT 1; SELECT 2"], b"ERROR"),
        ([str(tmp_path / "x.xls"), "-t", "t"], b"--format"),
        ([str(tmp_path / "no" / "x.csv"), "-t", "t"], b"cannot create"),
    ]:
        done = run("export", *flags, connect=to)
        assert done.returncode == 1 and said in done.stderr, (flags, done.stderr)
    assert run("export", file, connect=to).returncode == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_export_leaves_nothing(filled, tmp_path, how):
    server, to, _ = filled
    file = tmp_path / "big.csv"
    endless = "SELECT a.n, b.n, c.n FROM t a, t b, t c"
    process = subprocess.Popen(command("export", str(file), "--query", endless, connect=to), stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    assert not file.exists()
    process.send_signal(how)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1 and b"57014" in said, said
    assert not list(tmp_path.iterdir())
    with connect(server) as connection:
        running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stratalog export'"
        while one(connection, running):
            assert time.monotonic() < deadline + 30
            time.sleep(0.05)


def test_a_directory_is_exported_without_a_server(scratch, tmp_path):
    data = scratch / "in-process"
    with Stratalog(data) as server, connect(server) as connection:
        create(connection, "t")
        copy(connection, "t", ALL, everything(range(500)))
        wire = [tmp_path / f"wire.{form}" for form in ("csv", "ndjson", "parquet")]
        for file in wire:
            good("export", str(file), "-t", "t", connect=["-p", str(server.port)])
    for file in wire:
        local = file.with_stem("local")
        good("export", str(local), "-t", "t", connect=["--data-dir", str(data)])
        if file.suffix == ".parquet":
            one_way, other = pq.read_table(file), pq.read_table(local)
            assert one_way.schema.equals(other.schema) and str(one_way.slice(0, 50)) == str(other.slice(0, 50))
        else:
            assert file.read_bytes() == local.read_bytes()


def test_a_server_that_goes_away_leaves_nothing(scratch, tmp_path):
    with Stratalog(scratch / "gone") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n BIGINT)")
            copy(connection, "t", ["time", "n"], [["2024-01-01", n] for n in range(2000)])
        file = tmp_path / "t.parquet"
        endless = "SELECT a.n, b.n AS m FROM t a, t b, t c"
        process = subprocess.Popen(command("export", str(file), "--query", endless, connect=["-p", str(server.port)]),
                                   stderr=subprocess.PIPE)
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
            time.sleep(0.02)
        server.kill()
        _, said = process.communicate(timeout=30)
        assert process.returncode == 1 and said, said
        assert not list(tmp_path.iterdir())
