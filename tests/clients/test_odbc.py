"""psqlodbc through pyodbc and unixODBC: metadata, parameters, batches, cursors, transactions."""

import datetime as dt
import decimal
import uuid

import pyodbc
import pytest

from drivers import address

START = dt.datetime(2024, 1, 1)
COLUMNS = "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT, f DOUBLE PRECISION, n NUMERIC(8,2), PRIMARY KEY (host, time)"


def connect(server, **more):
    words = address(server)
    options = {
        "DRIVER": "{PostgreSQL Unicode}",
        "SERVER": words["host"],
        "PORT": words["port"],
        "UID": words["user"],
        "DATABASE": words["database"],
        "SSLmode": "disable",
        "BoolsAsChar": 0,
        **more,
    }
    return pyodbc.connect(";".join(f"{key}={value}" for key, value in options.items()), autocommit=True, timeout=20)


@pytest.fixture(
    params=[{}, {"UseServerSidePrepare": 0}, {"UseDeclareFetch": 1, "Fetch": 10}],
    ids=["prepared", "literals", "declare and fetch"],
)
def opened(request, server):
    connection = connect(server, **request.param)
    yield connection
    connection.close()


@pytest.fixture
def plain(server):
    connection = connect(server)
    yield connection
    connection.close()


@pytest.fixture
def filled(connection, table):
    connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
    connection.execute(f"COMMENT ON TABLE {table} IS 'by hosts'")
    connection.execute(
        f"INSERT INTO {table} SELECT timestamptz '2024-01-01 00:00:00+00' + n * interval '1 second',"
        "'h' || n % 10, n, n / 4.0, n FROM generate_series(0, 99) g(n)"
    )
    return table


def sqlstate(error):
    return error.value.args[0]


def test_facts_about_the_server(plain):
    assert plain.getinfo(pyodbc.SQL_DBMS_NAME) == "PostgreSQL"
    assert int(plain.getinfo(pyodbc.SQL_DBMS_VER).split(".")[0]) >= 15
    assert plain.getinfo(pyodbc.SQL_IDENTIFIER_QUOTE_CHAR) == '"'


def test_tables(plain, filled):
    (row,) = plain.cursor().tables(table=filled).fetchall()
    assert (row.table_schem, row.table_name, row.table_type) == ("public", filled, "TABLE")
    names = [row.table_name for row in plain.cursor().tables(schema="public", tableType="TABLE").fetchall()]
    assert filled in names
    assert plain.cursor().tables(table="no_such_table").fetchall() == []
    assert "public" in [row.table_schem for row in plain.cursor().tables(catalog="", schema="%", table="").fetchall()]


def test_columns(plain, filled):
    rows = plain.cursor().columns(table=filled, schema="public").fetchall()
    assert [(row.column_name, row.type_name, row.nullable, row.ordinal_position) for row in rows] == [
        ("time", "timestamptz", 0, 1),
        ("host", "text", 0, 2),
        ("v", "int4", 1, 3),
        ("f", "float8", 1, 4),
        ("n", "numeric", 1, 5),
    ]
    assert (rows[4].column_size, rows[4].decimal_digits) == (8, 2)
    (row,) = plain.cursor().columns(table=filled, column="v").fetchall()
    assert row.data_type == pyodbc.SQL_INTEGER


def test_keys_and_statistics(plain, filled):
    rows = plain.cursor().primaryKeys(table=filled, schema="public").fetchall()
    assert [(row.column_name, row.key_seq, row.pk_name) for row in rows] == [
        ("host", 1, f"{filled}_pkey"),
        ("time", 2, f"{filled}_pkey"),
    ]
    unique = [row for row in plain.cursor().statistics(filled, unique=True).fetchall() if row.index_name]
    assert [(row.column_name, row.non_unique) for row in unique] == [("host", 0), ("time", 0)]
    assert plain.cursor().foreignKeys(table=filled).fetchall() == []
    assert plain.cursor().procedures(procedure="no_such_procedure").fetchall() == []
    names = {row.type_name for row in plain.cursor().getTypeInfo().fetchall()}
    assert {"int4", "float8", "text", "timestamptz"} <= names


def test_reading(opened, filled):
    cursor = opened.cursor()
    cursor.execute(f"SELECT host, v, f, n, time FROM {filled} WHERE v >= ? AND host <> ? ORDER BY v", 50, "h0")
    assert [column[0] for column in cursor.description] == ["host", "v", "f", "n", "time"]
    assert [column[1] for column in cursor.description] == [str, int, float, decimal.Decimal, dt.datetime]
    assert tuple(cursor.fetchone()) == ("h1", 51, 12.75, decimal.Decimal("51.00"), START + dt.timedelta(seconds=51))
    assert [row.v for row in cursor.fetchmany(3)] == [52, 53, 54]
    assert len(cursor.fetchall()) == 41
    assert opened.cursor().execute(f"SELECT count(*) FROM {filled}").fetchval() == 100


VALUES = [
    ("integer", 2**31 - 1),
    ("bigint", -(2**62)),
    ("smallint", -5),
    ("double precision", 0.1),
    ("text", "it's \\ 日本 ☃"),
    ("boolean", True),
    ("bytea", b"\x00\xff'"),
    ("date", dt.date(2024, 2, 29)),
    ("time", dt.time(12, 34, 56)),
    ("timestamp", dt.datetime(2024, 1, 2, 3, 4, 5, 678000)),
    ("numeric(12,3)", decimal.Decimal("-123.456")),
    ("uuid", uuid.UUID(int=9)),
    ("real", 1.5),
]


def test_values_of_every_type(opened, table):
    columns = ", ".join(f"c{n} {type}" for n, (type, _) in enumerate(VALUES))
    cursor = opened.cursor()
    cursor.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, {columns})")
    places = ", ".join("?" * len(VALUES))
    cursor.execute(f"INSERT INTO {table} VALUES ('2024-01-01', {places})", [value for _, value in VALUES])
    cursor.execute(f"INSERT INTO {table} (time) VALUES (?)", START + dt.timedelta(days=1))
    row, empty = cursor.execute(f"SELECT * FROM {table} ORDER BY time").fetchall()
    for found, (type, value) in zip(row[1:], VALUES):
        assert found == (str(value) if type == "uuid" else value), (type, found)
    assert list(empty[1:]) == [None] * len(VALUES)


def test_many_rows(opened, table):
    cursor = opened.cursor()
    cursor.execute(f"CREATE TABLE {table} ({COLUMNS})")
    rows = [(START + dt.timedelta(seconds=n), f"h{n % 3}", n, n / 2, None) for n in range(200)]
    insert = f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)"
    cursor.executemany(insert, rows)
    cursor.fast_executemany = True
    cursor.executemany(insert, [(time, "fast", v, f, decimal.Decimal("1.50")) for time, _, v, f, _ in rows])
    assert tuple(cursor.execute(f"SELECT count(*), sum(v), sum(n) FROM {table}").fetchone()) == (
        400,
        2 * 19900,
        decimal.Decimal("300.00"),
    )
    assert cursor.execute(f"INSERT INTO {table} (time, host) VALUES (?, 'x'), (?, 'y')", START, START).rowcount == 2


def test_transactions(server, plain, filled):
    writer = connect(server)
    writer.autocommit = False
    count = f"SELECT count(*) FROM {filled}"
    insert = f"INSERT INTO {filled} (time, host, v) VALUES (?, 'new', 1)"
    writer.execute(insert, START)
    assert plain.execute(count).fetchval() == 100
    writer.rollback()
    assert writer.execute(count).fetchval() == 100
    writer.execute(insert, START)
    writer.commit()
    assert plain.execute(count).fetchval() == 101
    with pytest.raises(pyodbc.Error):
        writer.execute("SELECT 1 / 0").fetchall()
    writer.rollback()
    assert writer.execute("SELECT 1").fetchval() == 1
    writer.close()


@pytest.mark.parametrize(
    "level", [pyodbc.SQL_TXN_READ_COMMITTED, pyodbc.SQL_TXN_REPEATABLE_READ], ids=["read committed", "repeatable read"]
)
def test_isolation_levels(plain, level):
    plain.set_attr(pyodbc.SQL_ATTR_TXN_ISOLATION, level)
    plain.autocommit = False
    expected = "read committed" if level == pyodbc.SQL_TXN_READ_COMMITTED else "repeatable read"
    assert plain.execute("SHOW transaction_isolation").fetchval() == expected


@pytest.mark.parametrize(
    "query, state",
    [
        ("SELEC", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT nothing", "42703"),
        ("SELECT 1 / 0", "22012"),
        ("INSERT INTO {table} (time, host) VALUES ('2024-01-01 00:00:00+00', 'h0')", "23505"),
    ],
)
def test_errors(opened, filled, query, state):
    with pytest.raises(pyodbc.Error) as error:
        opened.execute(query.format(table=filled)).fetchall()
    assert sqlstate(error) in (state, {"42P01": "42S02", "42703": "42S22"}.get(state)), error.value
    assert opened.execute("SELECT 1").fetchval() == 1


def test_several_results_and_types_of_results(plain):
    cursor = plain.execute("SELECT 1; SELECT 'two', 2.5")
    assert cursor.fetchval() == 1
    assert cursor.nextset() and tuple(cursor.fetchone()) == ("two", decimal.Decimal("2.5"))
    assert not cursor.nextset()
