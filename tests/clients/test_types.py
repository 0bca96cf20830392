"""psycopg 3: parameters and results of every type, as text and as binary."""

import datetime as dt
import decimal
import uuid

import psycopg
import pytest
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Float4, Float8, Int2, Int4, Int8

UTC = dt.timezone.utc
D = decimal.Decimal

VALUES = {
    "boolean": [True, False],
    "smallint": [0, 1, -1, 32767, -32768],
    "integer": [0, 2147483647, -2147483648],
    "bigint": [0, 9223372036854775807, -9223372036854775808],
    "real": [0.0, 1.5, -2.25, float("inf"), float("-inf")],
    "double precision": [0.0, 0.1, -1e300, 5e-324, float("inf"), float("-inf")],
    "numeric(12,3)": [D("0.000"), D("123456789.125"), D("-0.001"), D("999999999.999")],
    "numeric(38,0)": [D("9" * 38), D("-" + "9" * 38)],
    "text": ["", "plain", "quote ' \" \\", "tab\tline\nend", "naïve Ω 日本 🚀", "x" * 100_000],
    "bytea": [b"", b"\x00\xff\\", bytes(range(256)), b"y" * 100_000],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 34, 56, 789012), dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
                  dt.datetime(1700, 1, 1), dt.datetime(2261, 12, 31)],
    "timestamptz": [dt.datetime(2024, 2, 29, 12, 34, 56, 789012, UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
    "timestamp(0)": [dt.datetime(2024, 2, 29, 12, 34, 56)],
    "timestamptz(3)": [dt.datetime(2024, 2, 29, 12, 34, 56, 789000, UTC)],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)],
    "time": [dt.time(0, 0), dt.time(12, 34, 56, 789012), dt.time(23, 59, 59, 999999)],
    "interval": [dt.timedelta(0), dt.timedelta(days=3, hours=4, microseconds=5), dt.timedelta(days=-1, seconds=-1)],
    "uuid": [uuid.UUID(int=0), uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")],
    "jsonb": [{"a": [1, 2.5, None, True], "b": {"c": "ü"}}, [], "text", 12, None],
    "integer[]": [[], [1, None, -3]],
    "bigint[]": [[1, 9223372036854775807]],
    "text[]": [["a", "b,c", 'q"', None, "", "NULL", "sp ace", "back\\slash"]],
    "double precision[]": [[0.5, -1e300]],
    "boolean[]": [[True, False, None]],
    "timestamptz[]": [[dt.datetime(2024, 1, 1, tzinfo=UTC), None]],
    "uuid[]": [[uuid.UUID(int=1)]],
    "date[]": [[dt.date(2024, 1, 1)]],
    "numeric(8,2)[]": [[D("1.25"), None]],
}

WRAPPERS = {"smallint": Int2, "integer": Int4, "bigint": Int8, "real": Float4, "double precision": Float8}


def wrapped(sql_type, value):
    if sql_type == "jsonb":
        return Jsonb(value)
    return WRAPPERS.get(sql_type, lambda x: x)(value)


@pytest.mark.parametrize("binary_results", [False, True], ids=["text results", "binary results"])
@pytest.mark.parametrize("format", ["t", "b"], ids=["text parameters", "binary parameters"])
@pytest.mark.parametrize("sql_type", VALUES)
def test_round_trip_through_a_table(connection, table, sql_type, format, binary_results):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, n INT, v {sql_type})")
    values = VALUES[sql_type]
    for n, value in enumerate(values):
        connection.execute(
            f"INSERT INTO {table} VALUES (%{format}, %{format}, %{format})",
            (dt.datetime(2024, 1, 1, 0, 0, n, tzinfo=UTC), n, wrapped(sql_type, value)),
        )
    rows = connection.execute(f"SELECT v FROM {table} ORDER BY n", binary=binary_results).fetchall()
    assert [row[0] for row in rows] == values
    rows = connection.execute(f"SELECT time, n FROM {table} ORDER BY n", binary=binary_results).fetchall()
    assert rows == [(dt.datetime(2024, 1, 1, 0, 0, n, tzinfo=UTC), n) for n in range(len(values))]


@pytest.mark.parametrize("binary_results", [False, True], ids=["text results", "binary results"])
@pytest.mark.parametrize("format", ["t", "b"], ids=["text parameters", "binary parameters"])
@pytest.mark.parametrize("sql_type", VALUES)
def test_parameter_and_cast(connection, sql_type, format, binary_results):
    for value in VALUES[sql_type]:
        row = connection.execute(
            f"SELECT %{format}::{sql_type}", (wrapped(sql_type, value),), binary=binary_results
        ).fetchone()
        assert row == (value,)


@pytest.mark.parametrize("binary_results", [False, True], ids=["text results", "binary results"])
@pytest.mark.parametrize("format", ["t", "b"], ids=["text parameters", "binary parameters"])
def test_null_of_every_type(connection, table, format, binary_results):
    types = list(VALUES)
    columns = ", ".join(f"c{n} {sql_type}" for n, sql_type in enumerate(types))
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, {columns})")
    places = ", ".join([f"%{format}"] * len(types))
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', {places})", [None] * len(types))
    names = ", ".join(f"c{n}" for n in range(len(types)))
    row = connection.execute(f"SELECT {names} FROM {table}", binary=binary_results).fetchone()
    assert row == (None,) * len(types)
    for sql_type in types:
        row = connection.execute(f"SELECT %{format}::{sql_type}, %{format}::{sql_type} IS NULL",
                                 (None, None), binary=binary_results).fetchone()
        assert row == (None, True)


def test_nan(connection):
    for binary in (False, True):
        row = connection.execute("SELECT 'NaN'::double precision, 'NaN'::real", binary=binary).fetchone()
        assert all(value != value for value in row)


@pytest.mark.parametrize("sql_type, oid", [
    ("boolean", 16), ("bytea", 17), ("bigint", 20), ("smallint", 21), ("integer", 23), ("text", 25),
    ("real", 700), ("double precision", 701), ("date", 1082), ("time", 1083), ("timestamp", 1114),
    ("timestamptz", 1184), ("interval", 1186), ("numeric(8,2)", 1700), ("uuid", 2950), ("jsonb", 3802),
    ("integer[]", 1007), ("text[]", 1009), ("bigint[]", 1016), ("double precision[]", 1022),
    ("timestamptz[]", 1185), ("uuid[]", 2951), ("boolean[]", 1000)])
def test_type_of_a_result_column(connection, table, sql_type, oid):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v {sql_type})")
    cursor = connection.execute(f"SELECT v FROM {table}")
    assert cursor.description[0].name == "v"
    assert cursor.description[0].type_code == oid


def test_untyped_parameters_take_the_column_type(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, i INT, d DOUBLE PRECISION, u UUID)")
    connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s)",
                       ("2024-01-01", "7", "1.5", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))
    row = connection.execute(f"SELECT i + %s, d FROM {table} WHERE time >= %s AND i = %s",
                             (1, "2024-01-01 00:00:00+00", "7")).fetchone()
    assert row == (8, 1.5)
    assert connection.execute("SELECT %s + %s", (2, 3)).fetchone() == (5,)
    assert connection.execute(f"SELECT count(*) FROM {table} WHERE i = ANY(%s)", ([6, 7],)).fetchone() == (1,)
    assert connection.execute(f"SELECT count(*) FROM {table} WHERE i <> ALL(%s)", ([6, 7],)).fetchone() == (0,)
    assert connection.execute(f"SELECT i FROM {table} LIMIT %s OFFSET %s", (1, 0)).fetchone() == (7,)
    assert connection.execute("SELECT %s", ("text",)).fetchone() == ("text",)


@pytest.mark.parametrize("format", ["s", "t", "b"])
def test_lists_of_text_in_any_and_all(connection, table, format):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, h TEXT)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'x'), ('2024-01-02', 'y'), ('2024-01-03', 'it''s, \"z\"')")

    def rows(condition, *values, **how):
        return connection.execute(f"SELECT h FROM {table} WHERE {condition} ORDER BY time", values, **how).fetchall()

    for prepare in (False, True):
        assert rows(f"h = ANY(%{format})", ["x", 'it\'s, "z"'], prepare=prepare) == [("x",), ('it\'s, "z"',)]
        assert rows(f"h <> ALL(%{format})", ["x", "nothing"], prepare=prepare) == [("y",), ('it\'s, "z"',)]
        assert rows(f"h = ANY(%{format}) AND time > %s", ["x", "y"], "2024-01-01", prepare=prepare) == [("y",)]
    assert rows(f"time = ANY(%{format})", ["2024-01-01 00:00:00+00"] if format != "b" else
                [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)]) == [("x",)]
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(f"SELECT h FROM {table} WHERE h = ANY(%s) AND h <> ALL(%s)", (["x", "y"], ["y"]))
        assert cursor.fetchall() == [("x",)]
    result = connection.pgconn.prepare(b"any", f"SELECT h FROM {table} WHERE h = ANY($1)".encode())
    assert result.status == psycopg.pq.ExecStatus.COMMAND_OK
    assert connection.pgconn.describe_prepared(b"any").param_type(0) == 1009


@pytest.mark.parametrize("sql_type, bad, sqlstate", [
    ("integer", "x", "22P02"), ("smallint", "40000", "22003"), ("double precision", "1.2.3", "22P02"),
    ("boolean", "maybe", "22P02"), ("uuid", "nope", "22P02"), ("timestamptz", "then", "22007"),
    ("date", "2024-02-30", "22008"), ("jsonb", "{", "22P02"), ("integer[]", "{1,x}", "22P02"),
    ("numeric(4,2)", "100", "22003"), ("interval", "soon", "22007"), ("time", "25:00", "22008")])
def test_bad_text_parameters(connection, table, sql_type, bad, sqlstate):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v {sql_type})")
    with pytest.raises(psycopg.Error) as error:
        connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', %s)", (bad,))
    assert error.value.sqlstate == sqlstate
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_parameter_with_a_nul_byte_or_bad_utf8(connection):
    for raw in (b"a\x00b", b"\xff\xfe"):
        result = connection.pgconn.exec_params(b"SELECT $1::text", [raw], param_formats=[1])
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22021"
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_wrong_binary_length(connection):
    result = connection.pgconn.exec_params(b"SELECT $1::int", [b"\x00\x01"], param_formats=[1], param_types=[23])
    assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) in (b"22P03", b"08P01")
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.ours
def test_nanoseconds_survive_as_text(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ(9) NOT NULL, v INT)")
    connection.execute(f"INSERT INTO {table} VALUES (%s, 1)", ("2024-01-01 00:00:00.123456789+00",))
    assert connection.execute(f"SELECT time::text FROM {table}").fetchone() == ("2024-01-01 00:00:00.123456789+00",)


@pytest.mark.parametrize("format", ["s", "b", "t"])
def test_numerics_are_numbers_wherever_they_stand(connection, format):
    """Decimals, and integers beyond bigint, arrive as numeric: psycopg declares this type."""
    def one(sql, *values):
        return connection.execute(sql.replace("?", f"%{format}"), values).fetchone()[0]

    assert one("SELECT ? < ?", D(9), D(10)) is True
    assert one("SELECT ? = ?", D("1.0"), D("1.00")) is True
    assert one("SELECT greatest(?, ?)", D(9), D(10)) == 10
    assert one("SELECT max(x) FROM (VALUES (?), (?)) t(x)", D(9), D(10)) == 10
    assert one("SELECT ? + 1", D("2.5")) == D("3.5")
    assert one("SELECT ?", D("2.5")) == D("2.5")
    assert one("SELECT count(*) FROM generate_series(1, 4) g(k) WHERE k > ?", D("2.5")) == 2
    assert one("SELECT ? > 1", 2 ** 70) is True
    assert one("SELECT ?::text", D("2.5")) == "2.5"


@pytest.mark.parametrize("format", ["s", "b", "t"])
def test_numerics_go_into_columns_of_other_types(connection, table, format):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, t TEXT, n INT, x REAL)")
    connection.execute(
        f"INSERT INTO {table} VALUES ('2024-01-01', %{format}, %{format}, %{format})",
        (D("2.50"), D("2.5"), D("0.25")),
    )
    row = connection.execute(f"SELECT t, n, x FROM {table}").fetchone()
    assert row == ("2.50", 3, 0.25)
