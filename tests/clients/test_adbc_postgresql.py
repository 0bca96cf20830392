"""adbc-driver-postgresql: Arrow in and out, parameters, metadata, transactions."""

import datetime as dt

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import polars
import pyarrow as pa
import pytest

from drivers import START, uri

UTC = dt.timezone.utc


@pytest.fixture
def opened(server):
    with adbc_driver_postgresql.dbapi.connect(uri(server)) as connection:
        yield connection


@pytest.fixture
def auto(server):
    with adbc_driver_postgresql.dbapi.connect(uri(server), autocommit=True) as connection:
        yield connection


def batch(rows=500, host="a"):
    return pa.table(
        {
            "time": pa.array([START + dt.timedelta(seconds=n) for n in range(rows)], pa.timestamp("us", "UTC")),
            "host": [host] * rows,
            "n": pa.array(range(rows), pa.int32()),
            "big": pa.array([None if n % 3 else n * 2**33 for n in range(rows)], pa.int64()),
            "f": [n / 8 for n in range(rows)],
            "flag": [n % 2 == 0 for n in range(rows)],
            "raw": [bytes([n % 256, 0]) for n in range(rows)],
            "day": pa.array([dt.date(2024, 2, 29)] * rows, pa.date32()),
            "r": pa.array([0.5] * rows, pa.float32()),
            "s": pa.array([-1] * rows, pa.int16()),
            "ts": pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 5)] * rows, pa.timestamp("us")),
            "tags": pa.array([["x", None, "y,z"]] * rows, pa.list_(pa.string())),
        }
    )


def table_of(connection, query, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        return cursor.fetch_arrow_table()


def rows_of(connection, query, *parameters):
    return [tuple(row.values()) for row in table_of(connection, query, *parameters).to_pylist()]


@pytest.fixture
def filled(connection, table):
    connection.execute(f"""CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n INT, big BIGINT,
                           f DOUBLE PRECISION, flag BOOLEAN, raw BYTEA, day DATE, r REAL,
                           s SMALLINT, ts TIMESTAMP, tags TEXT[], d NUMERIC(8,2), u UUID, j JSONB,
                           i INTERVAL, clock TIME, PRIMARY KEY (host, time))""")
    return table


def test_results_are_arrow(opened):
    found = table_of(
        opened,
        "SELECT n::int AS n, n / 4.0::float8 AS f, 't' || n AS t, "
        "timestamptz '2024-01-01 00:00:00+00' + n * interval '1 s' AS time, n % 2 = 0 AS b FROM generate_series(1, 10000) g(n)",
    )
    assert [str(field.type) for field in found.schema] == ["int32", "double", "string", "timestamp[us, tz=UTC]", "bool"]
    assert found.num_rows == 10000 and found["n"].to_pylist() == list(range(1, 10001))
    assert found.slice(9999).to_pylist() == [
        {"n": 10000, "f": 2500.0, "t": "t10000", "time": START + dt.timedelta(seconds=10000), "b": True}
    ]
    assert table_of(opened, "SELECT 1 AS one WHERE false").num_rows == 0


def test_every_type_out(opened, connection, filled):
    connection.execute(
        f"INSERT INTO {filled} VALUES (%s, 'a', 1, 2, 0.5, true, %s, '2024-02-29', 1.5, 3, '2024-01-01', "
        "%s, 1.25, %s, %s, '1 day 2 s', '01:02:03')",
        (START, b"\x00\xff", ["x", None], "00000000-0000-0000-0000-000000000007", '{"a": 1}'),
    )
    (found,) = table_of(opened, f"SELECT * FROM {filled}").to_pylist()
    assert {name: found[name] for name in ("time", "host", "n", "big", "f", "flag", "raw", "day", "r", "s", "ts", "tags")} == {
        "time": START,
        "host": "a",
        "n": 1,
        "big": 2,
        "f": 0.5,
        "flag": True,
        "raw": b"\x00\xff",
        "day": dt.date(2024, 2, 29),
        "r": 1.5,
        "s": 3,
        "ts": dt.datetime(2024, 1, 1),
        "tags": ["x", None],
    }
    assert (found["d"], found["clock"], found["j"]) == ("1.25", dt.time(1, 2, 3), '{"a": 1}')
    interval = found["i"]
    assert (interval.months, interval.days, interval.nanoseconds) == (0, 1, 2 * 10**9)


def test_ingest_appends(opened, filled):
    with opened.cursor() as cursor:
        assert cursor.adbc_ingest(filled, batch(), mode="append") in (500, -1)
        assert cursor.adbc_ingest(filled, batch(host="b").to_batches(max_chunksize=100)[0], mode="append") in (100, -1)
    opened.commit()
    found = table_of(
        opened, f"SELECT time, host, n, big, f, flag, raw, day, r, s, ts, tags FROM {filled} WHERE host = 'a' ORDER BY time"
    )
    assert found.to_pylist() == batch().to_pylist()
    with opened.cursor() as cursor:
        with pytest.raises(adbc_driver_manager.IntegrityError):
            cursor.adbc_ingest(filled, batch(rows=1), mode="append")
    opened.rollback()
    assert rows_of(opened, f"SELECT count(*) FROM {filled}") == [(600,)]


@pytest.mark.parametrize("autocommit", [True, False])
def test_ingest_creates(server, table, autocommit):
    with adbc_driver_postgresql.dbapi.connect(uri(server), autocommit=autocommit) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(table, batch(), mode="create")
        if not autocommit:
            connection.commit()
        with pytest.raises(adbc_driver_manager.Error):
            cursor.adbc_ingest(table, batch(), mode="create")
        if not autocommit:
            connection.rollback()
        cursor.adbc_ingest(table, batch(host="b"), mode="create_append")
        cursor.adbc_ingest(table, batch(host="c"), mode="append", db_schema_name="public")
        if not autocommit:
            connection.commit()
        assert rows_of(connection, f"SELECT host, count(*), min(time) FROM {table} GROUP BY host ORDER BY host") == [
            (host, 500, START) for host in "abc"
        ]


def test_ingest_replaces(auto, table):
    with auto.cursor() as cursor:
        cursor.adbc_ingest(table, batch(), mode="create")
        cursor.adbc_ingest(table, batch(rows=5), mode="replace")
    assert rows_of(auto, f"SELECT count(*) FROM {table}") == [(5,)]


def test_parameters(opened, filled):
    with opened.cursor() as cursor:
        cursor.execute(f"INSERT INTO {filled} (time, host, n, f) VALUES ($1, $2, $3, $4)", (START, "a", 1, 0.5))
        rows = [(START + dt.timedelta(seconds=n), "many", n, None) for n in range(100)]
        cursor.executemany(f"INSERT INTO {filled} (time, host, n, f) VALUES ($1, $2, $3, $4)", rows)
        cursor.executemany(
            f"INSERT INTO {filled} (time, host, n) VALUES ($1, $2, $3)", batch(50, "arrow").select(["time", "host", "n"])
        )
        cursor.execute(
            f"SELECT n FROM {filled} WHERE host = $1 AND time < $2 AND n > $3 ORDER BY n",
            ("many", START + dt.timedelta(seconds=5), 2),
        )
        assert cursor.fetchall() == [(3,), (4,)]
        cursor.execute("SELECT $1 + 1, $2 || 'x'", (41, "a"))
        assert cursor.fetchone() == (42, "ax")
    opened.commit()
    assert rows_of(opened, f"SELECT count(*) FROM {filled}") == [(151,)]


def test_schemas_before_execution(opened, filled):
    schema = opened.adbc_get_table_schema(filled)
    assert schema.names[:3] == ["time", "host", "n"] and schema.field("time").type == pa.timestamp("us", "UTC")
    assert schema.field("tags").type == pa.list_(pa.string())
    with opened.cursor() as cursor:
        described = cursor.adbc_execute_schema(f"SELECT n, f, host FROM {filled}")
        assert [str(field.type) for field in described] == ["int32", "double", "string"]
        assert cursor.adbc_prepare(f"SELECT n FROM {filled} WHERE host = $1 AND time > $2").types == [
            pa.string(),
            pa.timestamp("us", "UTC"),
        ]
    with pytest.raises(adbc_driver_manager.Error):
        opened.adbc_get_table_schema("nothing")


def test_objects(opened, filled):
    info = opened.adbc_get_info()
    assert info["vendor_name"] and info["driver_name"]
    assert "table" in opened.adbc_get_table_types()
    objects = opened.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter=filled).read_all().to_pylist()
    (catalog,) = [catalog for catalog in objects if catalog["catalog_db_schemas"]]
    (schema,) = catalog["catalog_db_schemas"]
    (found,) = schema["db_schema_tables"]
    assert (schema["db_schema_name"], found["table_name"], found["table_type"]) == ("public", filled, "table")
    assert [column["column_name"] for column in found["table_columns"]][:3] == ["time", "host", "n"]
    (key,) = found["table_constraints"]
    assert (key["constraint_type"], sorted(key["constraint_column_names"])) == ("PRIMARY KEY", ["host", "time"])
    (catalog,) = [c for c in opened.adbc_get_objects(depth="db_schemas").read_all().to_pylist() if c["catalog_db_schemas"]]
    assert "public" in [schema["db_schema_name"] for schema in catalog["catalog_db_schemas"]]
    assert filled in {
        t["table_name"]
        for c in opened.adbc_get_objects(depth="tables", table_types_filter=["table"]).read_all().to_pylist()
        for s in c["catalog_db_schemas"] or []
        for t in s["db_schema_tables"] or []
    }


def test_transactions(opened, auto, filled):
    insert = f"INSERT INTO {filled} (time, host) VALUES ('2024-01-01', 'a')"
    with opened.cursor() as cursor:
        cursor.execute(insert)
        assert rows_of(auto, f"SELECT count(*) FROM {filled}") == [(0,)]
        opened.rollback()
        cursor.execute(insert)
        opened.commit()
    assert rows_of(auto, f"SELECT host FROM {filled}") == [("a",)]


def test_errors(auto):
    with auto.cursor() as cursor:
        for query, sqlstate in (("SELEC", "42601"), ("SELECT * FROM nothing", "42P01"), ("SELECT 1 / 0", "22012")):
            with pytest.raises(adbc_driver_manager.Error) as error:
                cursor.execute(query)
                cursor.fetchall()
            assert error.value.sqlstate == sqlstate
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_polars_reads_and_writes(server, connection, filled):
    frame = polars.from_arrow(batch().drop_columns(["raw", "tags"]))
    frame.write_database(filled, uri(server), engine="adbc", if_table_exists="append")
    found = polars.read_database_uri(f"SELECT n, f, flag FROM {filled} ORDER BY n", uri(server), engine="adbc")
    assert found.equals(frame.select("n", "f", "flag"))
