"""psycopg2: sessions, named cursors, its COPY calls and fast helpers, dictionaries, errors, cancel."""

import datetime as dt
import decimal
import io
import select
import threading
import uuid

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras
import pytest
from psycopg2 import sql

from drivers import COLUMNS, START, at


@pytest.fixture
def opened(server):
    connection = psycopg2.connect(server.dsn())
    yield connection
    connection.close()


@pytest.fixture
def filled(opened, table):
    """100 rows of ten hosts, committed."""
    with opened, opened.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} ({COLUMNS})")
    with opened, opened.cursor() as cursor:
        rows = [(at(n), f"h{n % 10}", n) for n in range(100)]
        psycopg2.extras.execute_values(cursor, f"INSERT INTO {table} VALUES %s", rows)
    return table


def rows(connection, query, *parameters, **how):
    with connection.cursor(**how) as cursor:
        cursor.execute(query, parameters or None)
        return cursor.fetchall()


def test_commit_and_rollback(server, opened, filled):
    count = f"SELECT count(*) FROM {filled}"
    insert = f"INSERT INTO {filled} VALUES (%s, 'new', 1)"
    other = psycopg2.connect(server.dsn())
    other.autocommit = True
    opened.cursor().execute(insert, (at(0),))
    assert rows(opened, count) == [(101,)]
    assert rows(other, count) == [(100,)]
    opened.rollback()
    assert rows(opened, count) == [(100,)]
    opened.cursor().execute(insert, (at(1),))
    opened.commit()
    assert rows(other, count) == [(101,)]
    with pytest.raises(psycopg2.errors.DivisionByZero), opened:
        opened.cursor().execute(insert, (at(2),))
        opened.cursor().execute("SELECT 1 / 0")
    assert rows(opened, count) == [(101,)]
    other.close()


def test_a_block_creates_and_fills(opened, table):
    count = f"SELECT count(*) FROM {table}"

    def create_and_fill():
        cursor = opened.cursor()
        cursor.execute(f"CREATE TABLE {table} ({COLUMNS})")
        cursor.execute(f"INSERT INTO {table} VALUES (%s, 'a', 1)", (START,))
        cursor.copy_from(io.StringIO("2024-02-01\tx\t1\n"), table)
        assert rows(opened, count) == [(2,)]

    create_and_fill()
    opened.rollback()
    with pytest.raises(psycopg2.errors.UndefinedTable):
        rows(opened, count)
    opened.rollback()
    create_and_fill()
    opened.commit()
    assert rows(opened, count) == [(2,)]


def test_autocommit(server, opened, filled):
    opened.autocommit = True
    with pytest.raises(psycopg2.errors.UndefinedTable):
        rows(opened, "SELECT * FROM nothing")
    assert opened.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_IDLE
    opened.cursor().execute(f"INSERT INTO {filled} VALUES (%s, 'auto', 1)", (START,))
    opened.rollback()
    assert rows(opened, f"SELECT v FROM {filled} WHERE host = 'auto'") == [(1,)]


def test_values_become_literals_and_come_back(opened, table):
    values = {
        "i": (7, "INT"),
        "f": (0.1, "DOUBLE PRECISION"),
        "n": (decimal.Decimal("1.25"), "NUMERIC(6,2)"),
        "b": (True, "BOOLEAN"),
        "t": ("it's a \\ \n é", "TEXT"),
        "d": (dt.date(2024, 2, 29), "DATE"),
        "c": (dt.time(1, 2, 3, 4), "TIME"),
        "s": (dt.datetime(2024, 1, 1, 2, 3, 4, 5), "TIMESTAMP"),
        "l": (dt.timedelta(days=2, seconds=3), "INTERVAL"),
        "a": ([1, None, 3], "INT[]"),
        "e": ([], "TEXT[]"),
        "x": (None, "TEXT"),
    }
    columns = ", ".join(f"{name} {type}" for name, (_, type) in values.items())
    cursor = opened.cursor(cursor_factory=psycopg2.extras.RealDictCursor)
    cursor.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, {columns})")
    opened.commit()
    given = {name: value for name, (value, _) in values.items()}
    places = ", ".join(f"%({name})s" for name in values)
    cursor.execute(f"INSERT INTO {table} VALUES (%(time)s, {places})", {"time": START, **given})
    cursor.execute(f"SELECT * FROM {table}")
    assert dict(cursor.fetchone()) == {"time": START, **given}
    opened.commit()


def test_bytea_uuid_and_json(opened, table):
    psycopg2.extras.register_uuid(conn_or_curs=opened)
    cursor = opened.cursor()
    cursor.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, b BYTEA, u UUID, j JSONB)")
    opened.commit()
    one = uuid.UUID(int=77)
    cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s)", (START, b"\x00\xff'", one, psycopg2.extras.Json({"a": [1]})))
    cursor.execute(f"SELECT b, u, j FROM {table}")
    raw, *others = cursor.fetchone()
    assert (bytes(raw), others) == (b"\x00\xff'", [one, {"a": [1]}])
    opened.commit()


def test_cursor_attributes(opened, filled):
    with opened.cursor() as cursor:
        cursor.execute(f"SELECT host, v, time FROM {filled} ORDER BY v")
        assert [(column.name, column.type_code) for column in cursor.description] == [("host", 25), ("v", 23), ("time", 1184)]
        assert cursor.rowcount == 100 and cursor.statusmessage == "SELECT 100"
        cursor.scroll(10)
        assert cursor.fetchone()[1] == 10
        cursor.execute(f"INSERT INTO {filled} VALUES (%s, 'a', 1), (%s, 'b', 2)", (START, START))
        assert (cursor.rowcount, cursor.statusmessage) == (2, "INSERT 0 2")


def test_named_cursor(opened, filled):
    with opened.cursor("named") as cursor:
        cursor.itersize = 7
        cursor.execute(f"SELECT v FROM {filled} ORDER BY v")
        assert [row[0] for row in cursor] == list(range(100))
    with opened.cursor("other", scrollable=True) as cursor:
        cursor.execute(f"SELECT v FROM {filled} WHERE v < %s ORDER BY v", (50,))
        assert cursor.fetchmany(2) == [(0,), (1,)]
        cursor.scroll(10)
        assert cursor.fetchone() == (12,)
        cursor.scroll(0, mode="absolute")
        assert len(cursor.fetchall()) == 50


def test_named_cursor_with_hold(opened, filled):
    with opened.cursor("held", withhold=True) as cursor:
        cursor.execute(f"SELECT v FROM {filled} ORDER BY v")
        opened.commit()
        assert cursor.fetchmany(3) == [(0,), (1,), (2,)]
    with pytest.raises(psycopg2.ProgrammingError):
        opened.autocommit = True
        opened.cursor("outside of a block").execute("SELECT 1")


def test_copy_from_and_copy_to(opened, filled):
    data = "2024-02-01\tx\t1\n2024-02-02\ty\t\\N\n"
    with opened.cursor() as cursor:
        cursor.copy_from(io.StringIO(data), filled)
        cursor.copy_from(
            io.StringIO("y;2024-02-03;none\n"), filled, sep=";", null="none", columns=("host", "time", "v"), size=16
        )
        out = io.StringIO()
        cursor.copy_to(out, filled, sep=",", null="-", columns=("host", "v"))
        assert {"x,1", "y,-", "h3,93"} <= set(out.getvalue().splitlines())
    opened.commit()
    assert rows(opened, f"SELECT count(*) FROM {filled}") == [(103,)]


def test_copy_expert(opened, filled):
    with opened.cursor() as cursor:
        out = io.BytesIO()
        cursor.copy_expert(
            f"COPY (SELECT host, v FROM {filled} WHERE v < 2 ORDER BY v) TO STDOUT WITH (FORMAT csv, HEADER)", out
        )
        assert out.getvalue() == b"host,v\nh0,0\nh1,1\n"
        cursor.copy_expert(f"COPY {filled} (time, host) FROM STDIN WITH CSV", io.StringIO('2024-02-01,"a, b"\n'))
        assert cursor.rowcount == 1
        opened.commit()
        with pytest.raises(psycopg2.errors.InvalidTextRepresentation):
            cursor.copy_expert(f"COPY {filled} FROM STDIN", io.StringIO("2024-03-01\tz\tmany\n"))
    opened.rollback()
    assert rows(opened, f"SELECT host FROM {filled} WHERE time > '2024-01-31'") == [("a, b",)]


def test_copy_in_binary(opened, filled):
    with opened.cursor() as cursor:
        data = io.BytesIO()
        cursor.copy_expert(f"COPY {filled} TO STDOUT (FORMAT binary)", data)
        data.seek(0)
        cursor.execute(f"CREATE TABLE {filled}_again ({COLUMNS})")
        opened.commit()
        cursor.copy_expert(f"COPY {filled}_again FROM STDIN (FORMAT binary)", data)
        assert cursor.rowcount == 100


def test_execute_values_and_batch(opened, table):
    cursor = opened.cursor()
    cursor.execute(f"CREATE TABLE {table} ({COLUMNS})")
    opened.commit()
    rows_in = [(at(n), f"h{n % 3}", n) for n in range(250)]
    psycopg2.extras.execute_values(cursor, f"INSERT INTO {table} (time, host, v) VALUES %s", rows_in, page_size=100)
    psycopg2.extras.execute_values(
        cursor, f"INSERT INTO {table} VALUES %s", [{"n": n} for n in range(5)], template="('2024-02-01', 'd' || %(n)s, %(n)s)"
    )
    psycopg2.extras.execute_batch(
        cursor, f"INSERT INTO {table} VALUES (%s, %s, %s)", [(at(n), "batch", n) for n in range(50)], page_size=20
    )
    cursor.executemany(f"INSERT INTO {table} VALUES (%s, 'many', %s)", [(at(n), n) for n in range(5)])
    opened.commit()
    cursor.execute(f"SELECT count(*), sum(v) FROM {table}")
    assert cursor.fetchone() == (310, 250 * 249 // 2 + 10 + 50 * 49 // 2 + 10)
    cursor.execute(f"SELECT v FROM {table} WHERE (host, v) IN %s ORDER BY v", ((("h1", 1), ("h2", 2)),))
    assert cursor.fetchall() == [(1,), (2,)]


def test_set_session(opened, filled):
    opened.set_session(isolation_level="REPEATABLE READ", readonly=True)
    assert rows(opened, "SHOW transaction_isolation") == [("repeatable read",)]
    with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
        opened.cursor().execute(f"INSERT INTO {filled} VALUES (%s, 'a', 1)", (START,))
    opened.rollback()
    opened.set_session(isolation_level=psycopg2.extensions.ISOLATION_LEVEL_READ_COMMITTED, readonly=False)
    assert rows(opened, "SHOW transaction_isolation") == [("read committed",)]
    opened.rollback()
    opened.set_session(isolation_level="DEFAULT", readonly="DEFAULT", deferrable="DEFAULT")
    opened.cursor().execute(f"INSERT INTO {filled} VALUES (%s, 'a', 1)", (START,))
    opened.commit()
    opened.set_session(readonly=True, autocommit=True)
    assert rows(opened, "SHOW default_transaction_read_only") == [("on",)]
    with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
        opened.cursor().execute(f"INSERT INTO {filled} VALUES (%s, 'b', 1)", (START,))


@pytest.mark.ours
def test_serializable_is_refused(opened):
    opened.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_SERIALIZABLE)
    with pytest.raises(psycopg2.errors.FeatureNotSupported, match="(?i)serializable"):
        rows(opened, "SELECT 1")


def test_information_about_the_connection(server, opened):
    assert opened.server_version // 10000 >= 15 and opened.protocol_version == 3
    assert (opened.info.host, opened.info.port, opened.encoding) == ("127.0.0.1", server.port, "UTF8")
    assert opened.get_parameter_status("standard_conforming_strings") == "on"
    assert rows(opened, "SELECT pg_backend_pid()") == [(opened.info.backend_pid,)]
    assert rows(opened, "SELECT current_database(), current_user, current_schema()") == [
        (opened.info.dbname, opened.info.user, "public")
    ]
    opened.rollback()
    opened.set_client_encoding("UTF8")
    assert rows(opened, "SELECT %s", "é") == [("é",)]
    opened.cursor().execute("SET TimeZone = 'Asia/Tokyo'")
    opened.reset()
    assert rows(opened, "SHOW TimeZone") != [("Asia/Tokyo",)]


def test_rows_as_dictionaries_and_tuples_with_names(opened, filled):
    query = f"SELECT host, v AS value FROM {filled} ORDER BY v LIMIT 1"
    (row,) = rows(opened, query, cursor_factory=psycopg2.extras.DictCursor)
    assert row["host"] == row[0] == "h0" and dict(row) == {"host": "h0", "value": 0}
    assert rows(opened, query, cursor_factory=psycopg2.extras.RealDictCursor) == [{"host": "h0", "value": 0}]
    (row,) = rows(opened, query, cursor_factory=psycopg2.extras.NamedTupleCursor)
    assert (row.host, row.value) == ("h0", 0)


@pytest.mark.parametrize(
    "query, error",
    [
        ("SELEC", "SyntaxError"),
        ("SELECT * FROM nothing", "UndefinedTable"),
        ("SELECT nothing", "UndefinedColumn"),
        ("SELECT nothing()", "UndefinedFunction"),
        ("SELECT 'x'::int", "InvalidTextRepresentation"),
        ("INSERT INTO {table} VALUES ('2024-01-01 00:00:00+00', 'h0', 1)", "UniqueViolation"),
        ("INSERT INTO {table} VALUES (NULL, 'h0', 1)", "NotNullViolation"),
        ("CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL)", "DuplicateTable"),
    ],
)
def test_errors_have_a_class_of_their_own(opened, filled, query, error):
    with pytest.raises(getattr(psycopg2.errors, error)) as caught:
        opened.cursor().execute(query.format(table=filled))
    assert caught.value.diag.severity == "ERROR" and caught.value.pgcode == caught.value.diag.sqlstate
    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        opened.cursor().execute("SELECT 1")


def test_names_in_errors(opened, filled):
    with pytest.raises(psycopg2.errors.NotNullViolation) as caught:
        opened.cursor().execute(f"INSERT INTO {filled} (time, v) VALUES (%s, 1)", (START,))
    told = caught.value.diag
    assert (told.schema_name, told.table_name, told.column_name) == ("public", filled, "host")
    opened.rollback()
    with pytest.raises(psycopg2.errors.UniqueViolation) as caught:
        opened.cursor().execute(f"INSERT INTO {filled} VALUES (%s, 'h0', 1)", (START,))
    assert (caught.value.diag.table_name, caught.value.diag.constraint_name) == (filled, f"{filled}_pkey")


def test_notices(opened, table):
    cursor = opened.cursor()
    cursor.execute(f"DROP TABLE IF EXISTS {table}")
    assert opened.notices == [f'NOTICE:  table "{table}" does not exist, skipping\n']


def test_cancel(opened):
    timer = threading.Timer(0.3, opened.cancel)
    timer.start()
    with pytest.raises(psycopg2.errors.QueryCanceled):
        opened.cursor().execute("SELECT pg_sleep(60)")
    timer.join()
    opened.rollback()
    assert rows(opened, "SELECT 1") == [(1,)]


def test_asynchronous_connection(server):
    connection = psycopg2.connect(server.dsn(), async_=True)

    def wait():
        while (state := connection.poll()) != psycopg2.extensions.POLL_OK:
            reading = state == psycopg2.extensions.POLL_READ
            select.select([connection] if reading else [], [] if reading else [connection], [], 20)

    wait()
    cursor = connection.cursor()
    cursor.execute("SELECT sum(n) FROM generate_series(1, %s) g(n)", (1000,))
    wait()
    assert cursor.fetchone() == (500500,)
    connection.close()


def test_composed_sql(opened, table):
    name = sql.Identifier("public", f"{table} X")
    cursor = opened.cursor()
    cursor.execute(sql.SQL("CREATE TABLE {} (time TIMESTAMPTZ NOT NULL, {} INT)").format(name, sql.Identifier('a "b"')))
    opened.commit()
    cursor.execute(sql.SQL("INSERT INTO {} VALUES ({}, {})").format(name, sql.Literal(START), sql.Placeholder()), (3,))
    cursor.execute(sql.SQL("SELECT {} FROM {}").format(sql.Identifier('a "b"'), name))
    assert cursor.fetchall() == [(3,)]
    opened.commit()
