"""The ADBC driver of Flight SQL, through the driver manager's API, pandas, Polars and DuckDB."""

import datetime
import decimal
import itertools
import math
import threading
import time
import uuid

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import duckdb
import pandas
import polars
import psycopg
import pyarrow
import pytest
from adbc_driver_flightsql import ConnectionOptions, DatabaseOptions

pytestmark = pytest.mark.ours

UTC = datetime.timezone.utc
numbers = itertools.count()


@pytest.fixture()
def names():
    """Generates unused table names."""
    return lambda: f"flight{next(numbers)}"


@pytest.fixture()
def connection(server):
    with flightsql.connect(server.flight_uri(), autocommit=True) as connection:
        yield connection


@pytest.fixture()
def table(connection, names):
    """Creates a table with a few rows; returns its name."""
    name = names()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (time timestamptz, host text, v double precision, PRIMARY KEY (host, time))")
        cursor.execute(f"INSERT INTO {name} SELECT timestamptz '2024-01-01' + n * interval '1 s', 'h' || n % 3, n / 2.0 "
                       "FROM generate_series(0, 99) AS s(n)")
        assert cursor.rowcount in (-1, 100)
    return name


def fetched(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def test_rows_come_with_their_types(connection):
    sql = """SELECT true AS b, 1::int2 AS i2, 2::int4 AS i4, 3::int8 AS i8, 1.5::float4 AS f4, 2.5::float8 AS f8,
        12.340::numeric(10,3) AS n, 'text' AS t, '\\x00ff'::bytea AS y, timestamptz '2024-02-29 12:00:00.123456789+00' AS tz,
        timestamp '2024-02-29 12:00:00' AS ts, date '2024-02-29' AS d, ARRAY['a', NULL] AS l, NULL::text AS nothing"""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        table = cursor.fetch_arrow_table()
    assert table.schema.field("tz").type == pyarrow.timestamp("ns", "UTC")
    assert table.schema.field("t").type == pyarrow.string()
    assert table.column("tz")[0].value == 1709208000123456789
    row = {name: table.column(name)[0].as_py() for name in table.column_names if name != "tz"}
    assert row == {
        "b": True, "i2": 1, "i4": 2, "i8": 3, "f4": 1.5, "f8": 2.5, "n": decimal.Decimal("12.340"), "t": "text",
        "y": b"\x00\xff", "ts": datetime.datetime(2024, 2, 29, 12), "d": datetime.date(2024, 2, 29), "l": ["a", None],
        "nothing": None,
    }


def test_statements_read_write_and_define(connection, table):
    assert fetched(connection, f"SELECT count(*), sum(v) FROM {table}") == [(100, 2475.0)]
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} VALUES ('2025-01-01', 'new', 1)")
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN note text")
    assert fetched(connection, f"SELECT v, note FROM {table} WHERE host = 'new'") == [(1.0, None)]
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {table}")
    with pytest.raises(adbc_driver_manager.Error, match="does not exist"):
        fetched(connection, f"SELECT * FROM {table}")


def test_errors_have_their_words_and_state(connection):
    for sql, says in (("SELEC 1", "syntax"), ("SELECT nope", "nope"), ("SELECT 1/0", "division by zero"), ("SELECT 1; SELECT 2", "one statement at a time")):
        with pytest.raises(adbc_driver_manager.Error, match=says):
            fetched(connection, sql)
    # The connection stays usable.
    assert fetched(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("marks", ["$1 $2", "? ?"])
def test_parameters_of_one_row_and_of_many(connection, table, marks):
    first, second = marks.split()
    sql = f"SELECT count(*) FROM {table} WHERE host = {first} AND v > {second}"
    assert fetched(connection, sql, ("h1", 10.0)) == [(26,)]
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} (time, host, v) VALUES ({first}, 'many', {second})",
                           [(datetime.datetime(2025, 1, 1, 0, 0, second, tzinfo=UTC), float(second)) for second in range(50)])
    assert fetched(connection, f"SELECT count(*), sum(v) FROM {table} WHERE host = 'many'") == [(50, 1225.0)]
    # A batch is atomic: the key of the last row exists already.
    with connection.cursor() as cursor, pytest.raises(adbc_driver_manager.Error, match="duplicate key"):
        cursor.executemany(f"INSERT INTO {table} (time, host, v) VALUES ({first}, 'none', {second})",
                           [(datetime.datetime(2026, 1, 1, tzinfo=UTC), 1.0)] * 2)
    assert fetched(connection, f"SELECT count(*) FROM {table} WHERE host = 'none'") == [(0,)]


def test_parameters_take_the_types_that_they_have(connection):
    assert fetched(connection, "SELECT $1 + 1", (41,)) == [(42,)]
    assert fetched(connection, "SELECT $1", (7,)) == [(7,)]
    assert fetched(connection, "SELECT $1::timestamptz > '2020-01-01'", ("2024-01-01",)) == [(True,)]
    assert fetched(connection, "SELECT $1::int IS NULL", (None,)) == [(True,)]
    with connection.cursor() as cursor:
        batch = pyarrow.record_batch([pyarrow.array([1, 2, 3])], names=["n"])
        cursor.adbc_prepare("SELECT $1::bigint * 10 AS n")
        cursor.execute("SELECT $1::bigint * 10 AS n", batch)
        assert cursor.fetch_arrow_table().column("n").to_pylist() == [10, 20, 30]


def test_a_statement_tells_its_columns_before_it_runs(connection, table):
    with connection.cursor() as cursor:
        schema = cursor.adbc_execute_schema(f"SELECT host, v FROM {table}")
        assert schema.names == ["host", "v"]
        parameters = cursor.adbc_prepare(f"SELECT * FROM {table} WHERE v > $1")
        assert parameters.types == [pyarrow.float64()]


def test_transactions(server, table):
    with flightsql.connect(server.flight_uri()) as one, flightsql.connect(server.flight_uri(), autocommit=True) as other:
        count = f"SELECT count(*) FROM {table}"
        with one.cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} VALUES ('2025-01-01', 'mine', 1)")
        assert fetched(one, count) == [(101,)]
        assert fetched(other, count) == [(100,)]
        one.commit()
        assert fetched(other, count) == [(101,)]
        with one.cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} VALUES ('2025-01-02', 'mine', 1)")
        one.rollback()
        assert fetched(other, count) == [(101,)]


def test_ingestion_makes_appends_and_refuses(connection, names):
    name = names()
    data = pyarrow.table({
        "time": pyarrow.array([datetime.datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)], pyarrow.timestamp("us", "UTC")),
        "host": pyarrow.array(["a", "b", None]).dictionary_encode(),
        "v": pyarrow.array([1.5, None, math.pi]),
        "n": pyarrow.array([decimal.Decimal("1.25"), None, decimal.Decimal("3.50")], pyarrow.decimal128(10, 2)),
    })
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest(name, data, mode="create") in (3, -1)
        with pytest.raises(adbc_driver_manager.Error, match="already exists"):
            cursor.adbc_ingest(name, data, mode="create")
        assert cursor.adbc_ingest(name, data, mode="append") in (3, -1)
        assert cursor.adbc_ingest(name, data.slice(0, 1), mode="create_append") in (1, -1)
        with pytest.raises(adbc_driver_manager.Error, match="cannot be replaced"):
            cursor.adbc_ingest(name, data, mode="replace")
        with pytest.raises(adbc_driver_manager.Error, match="emporary"):
            cursor.adbc_ingest(name, data, mode="create", temporary=True)
        with pytest.raises(adbc_driver_manager.Error, match="does not exist"):
            cursor.adbc_ingest(names(), data, mode="append")
        wrong = pyarrow.table({"time": data.column("time"), "nope": data.column("v")})
        with pytest.raises(adbc_driver_manager.Error, match="nope"):
            cursor.adbc_ingest(name, wrong, mode="append")
        cursor.execute(f"SELECT host, v, n FROM {name} ORDER BY time, _seq")
        rows = cursor.fetchall()
    assert rows == [("a", 1.5, decimal.Decimal("1.25"))] * 3 + [("b", None, None)] * 2 + [(None, math.pi, decimal.Decimal("3.50"))] * 2


def test_a_failed_ingestion_leaves_no_table(connection, names):
    name = names()
    data = pyarrow.table({"time": pyarrow.array([datetime.datetime(2024, 1, 1), None], pyarrow.timestamp("us"))})
    with connection.cursor() as cursor, pytest.raises(adbc_driver_manager.Error, match="null value"):
        cursor.adbc_ingest(name, data, mode="create")
    with pytest.raises(adbc_driver_manager.Error, match="does not exist"):
        fetched(connection, f"SELECT * FROM {name}")


def test_metadata(connection, table):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Stratalog" and info["vendor_version"]
    assert "TABLE" in connection.adbc_get_table_types()
    schema = connection.adbc_get_table_schema(table)
    assert schema.names == ["time", "host", "v"]
    found = connection.adbc_get_objects(depth="all", table_name_filter=table).read_all().to_pylist()
    ours = [catalog for catalog in found if catalog["catalog_name"] == "stratalog"]
    public = [schema for schema in ours[0]["catalog_db_schemas"] if schema["db_schema_name"] == "public"]
    assert [t["table_name"] for t in public[0]["db_schema_tables"]] == [table]
    assert [c["column_name"] for c in public[0]["db_schema_tables"][0]["table_columns"]] == ["time", "host", "v"]
    with pytest.raises(adbc_driver_manager.Error):
        connection.adbc_get_table_schema("no_such_table")


def test_a_login_gives_a_token_and_a_wrong_token_is_refused(server):
    with flightsql.connect(server.flight_uri(), db_kwargs={"username": "ada", "password": "x"}, autocommit=True) as connection:
        assert fetched(connection, "SELECT current_user")[0][0] == "stratalog"
    token = {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer stratalog-Zm9yZ2Vk"}
    with pytest.raises(adbc_driver_manager.Error, match="token"):
        with flightsql.connect(server.flight_uri(), db_kwargs=token, autocommit=True) as connection:
            fetched(connection, "SELECT 1")


def test_session_options_have_effect(connection):
    zone = ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "timezone"
    connection.adbc_connection.set_options(**{zone: "Asia/Tokyo"})
    assert fetched(connection, "SELECT extract(hour FROM timestamptz '2024-01-01 00:00+00')::int") == [(9,)]
    assert fetched(connection, "SHOW TimeZone") == [("Asia/Tokyo",)]


def test_results_in_parts_and_compressed_are_the_same(connection, table):
    prefix = ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value
    sql = f"SELECT time, host, v FROM {table}"
    whole = sorted(fetched(connection, sql))
    for name, value in (("stratalog.endpoints", "4"), ("stratalog.compression", "lz4"), ("stratalog.compression", "zstd")):
        connection.adbc_connection.set_options(**{prefix + name: value})
        assert sorted(fetched(connection, sql)) == whole


def test_cancelling_stops_at_once(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
        threading.Timer(0.3, cursor.adbc_cancel).start()
        began = time.monotonic()
        with pytest.raises(adbc_driver_manager.Error):
            cursor.fetchall()
        assert time.monotonic() - began < 20
    assert fetched(connection, "SELECT 1") == [(1,)]


def test_pandas_polars_and_duckdb_keep_types_and_nulls(connection, names):
    name = names()
    stamps = pandas.to_datetime(["2024-01-01T00:00:00.000000001Z", "2024-01-02T00:00:00Z"], format="ISO8601").as_unit("ns")
    frame = pandas.DataFrame({"time": stamps, "host": ["a", None], "n": pandas.array([1, None], dtype="Int64"), "v": [0.1, None]})
    with connection.cursor() as cursor:
        cursor.adbc_ingest(name, pyarrow.Table.from_pandas(frame, preserve_index=False), mode="create")
    back = pandas.read_sql(f"SELECT * FROM {name} ORDER BY time", connection, dtype_backend="pyarrow")
    assert back["time"][0].value == stamps[0].value
    assert back["n"][0] == 1 and back["n"].isna()[1] and back["host"].isna()[1]
    read = polars.read_database(f"SELECT * FROM {name} ORDER BY time", connection)
    assert read["host"].to_list() == ["a", None] and read["n"].to_list() == [1, None]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name}")
        arrow = cursor.fetch_arrow_table()
    assert duckdb.sql("SELECT count(host), sum(n), min(epoch_ns(time)) FROM arrow").fetchall() == [(1, 1, stamps[0].value)]


def test_rows_are_read_where_they_were_written(connection, table, server):
    """Read-your-writes across protocols."""
    with psycopg.connect(server.dsn(), autocommit=True) as postgres:
        for n in range(20):
            with connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO {table} VALUES (timestamptz '2030-01-01' + {n} * interval '1 s', 'flight', {n})")
            assert postgres.execute(f"SELECT count(*) FROM {table} WHERE host = 'flight'").fetchone() == (n + 1,)
            postgres.execute(f"INSERT INTO {table} VALUES (timestamptz '2030-01-01' + {n} * interval '1 s', 'postgres', {n})")
            assert fetched(connection, f"SELECT count(*) FROM {table} WHERE host = 'postgres'") == [(n + 1,)]


def test_names_that_need_quotes(connection):
    name = f"odd \"name\" {uuid.uuid4().hex[:6]}"
    data = pyarrow.table({"time": pyarrow.array([datetime.datetime(2024, 1, 1)], pyarrow.timestamp("us")), "A b": ["x"]})
    with connection.cursor() as cursor:
        cursor.adbc_ingest(name, data, mode="create")
        cursor.execute('SELECT "A b" FROM "{}"'.format(name.replace('"', '""')))
        assert cursor.fetchall() == [("x",)]
    assert connection.adbc_get_table_schema(name).names == ["time", "A b"]
