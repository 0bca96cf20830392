"""psycopg 3: cursors of every kind, async, pipelines, notices, transactions, type information."""

import asyncio
import datetime as dt
import decimal
import uuid

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg.types import TypeInfo
from psycopg.types.json import Jsonb

from drivers import COLUMNS, START, at, filled  # noqa: F401, a fixture


@pytest.fixture
def block(server):
    """A connection without autocommit."""
    with psycopg.connect(server.dsn()) as opened:
        yield opened
        opened.rollback()


def test_named_cursor(block, filled):
    with block.cursor("named", row_factory=dict_row) as cursor:
        cursor.itersize = 64
        cursor.execute(f"SELECT host, v FROM {filled} WHERE v >= %s ORDER BY v", (100,))
        assert cursor.fetchone() == {"host": "h0", "v": 100}
        assert [row["v"] for row in cursor.fetchmany(3)] == [101, 102, 103]
        assert [row["v"] for row in cursor] == list(range(104, 1000))
        assert cursor.fetchone() is None
        assert [column.name for column in cursor.description] == ["host", "v"]


def test_named_cursors_interleave_and_keep_their_snapshot(block, connection, filled):
    up, down = block.cursor("up"), block.cursor("down")
    up.execute(f"SELECT v FROM {filled} ORDER BY v")
    down.execute(f"SELECT v FROM {filled} ORDER BY v DESC")
    connection.execute(f"INSERT INTO {filled} VALUES ('2025-01-01', 'late', 5000)")
    assert [(up.fetchone(), down.fetchone()) for _ in range(3)] == [((n,), (999 - n,)) for n in range(3)]
    assert len(up.fetchall()) == 997
    up.close()
    assert down.fetchone() == (996,)


def test_named_cursor_scrolls(block, filled):
    with block.cursor("scrolling", scrollable=True) as cursor:
        cursor.execute(f"SELECT v FROM {filled} ORDER BY v")
        cursor.scroll(10)
        assert cursor.fetchone() == (10,)
        cursor.scroll(500, mode="absolute")
        assert cursor.fetchone() == (500,)
        cursor.scroll(-100)
        assert cursor.fetchone() == (401,)
        cursor.scroll(0, mode="absolute")
        assert len(cursor.fetchall()) == 1000


def test_named_cursor_held_beyond_its_block(block, filled):
    with block.cursor("held", withhold=True) as cursor:
        cursor.execute(f"SELECT v FROM {filled} ORDER BY v")
        assert cursor.fetchone() == (0,)
        block.commit()
        assert [row[0] for row in cursor.fetchall()] == list(range(1, 1000))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_named_cursor_in_both_formats(block, binary):
    with block.cursor("formats", binary=binary) as cursor:
        cursor.execute("SELECT n, n::text, n::numeric / 4, n::double precision, ARRAY[n, NULL] FROM generate_series(1, 5) g(n)")
        assert cursor.fetchall() == [(n, str(n), decimal.Decimal(n) / 4, float(n), [n, None]) for n in range(1, 6)]


def test_named_cursor_of_a_bad_query_aborts_the_block(block):
    with pytest.raises(psycopg.errors.UndefinedTable), block.cursor("bad") as cursor:
        cursor.execute("SELECT * FROM nothing")
    assert block.info.transaction_status == TransactionStatus.INERROR
    block.rollback()
    with pytest.raises(psycopg.errors.InvalidCursorName):
        block.execute("FETCH 1 FROM bad")


def test_client_cursor_sends_simple_queries(server, connection, table):
    connection.execute(
        f"CREATE TABLE {table} (time TIMESTAMPTZ, i INT, d NUMERIC(6,2), b BYTEA, u UUID, j JSONB, a TEXT[], t TEXT)"
    )
    row = (
        START,
        7,
        decimal.Decimal("1.25"),
        b"\x00\\'",
        uuid.UUID(int=9),
        {"k": ["it's"]},
        ["a'b", None, 'c"d'],
        "back\\slash '",
    )
    with psycopg.connect(server.dsn(), autocommit=True, cursor_factory=psycopg.ClientCursor) as client:
        values = [Jsonb(value) if isinstance(value, dict) else value for value in row]
        client.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", values)
        assert client.execute(f"SELECT * FROM {table} WHERE i = %s", (7,)).fetchone() == row
        cursor = client.execute("SELECT %s; SELECT %s + 1", ("one", 1))
        assert cursor.fetchone() == ("one",)
        assert cursor.nextset() and cursor.fetchone() == (2,)


def test_raw_cursor_takes_dollars(connection, filled):
    with psycopg.RawCursor(connection) as cursor:
        cursor.execute(f"SELECT count(*) FROM {filled} WHERE v % $2 = 0 AND host = $1", ("h0", 20))
        assert cursor.fetchone() == (50,)


def test_composed_sql(connection, table):
    name = sql.Identifier(f'{table} of "Möbel"')
    connection.execute(sql.SQL("CREATE TABLE {} (time TIMESTAMPTZ, {} INT)").format(name, sql.Identifier("A b")))
    connection.execute(sql.SQL("INSERT INTO {} VALUES ({}, {})").format(name, sql.Literal(START), 4))
    query = sql.SQL("SELECT {} FROM {}").format(sql.Identifier("A b"), name)
    assert connection.execute(query).fetchall() == [(4,)]
    connection.execute(sql.SQL("DROP TABLE {}").format(name))


@pytest.mark.parametrize("size", [1, 300])
def test_stream_in_chunks(connection, filled, size):
    rows = connection.cursor().stream(f"SELECT v FROM {filled} ORDER BY v", size=size)
    assert [row[0] for row in rows] == list(range(1000))


def test_notices(connection, table):
    told = []
    connection.add_notice_handler(
        lambda diagnostic: told.append((diagnostic.severity_nonlocalized, diagnostic.sqlstate, diagnostic.message_primary))
    )
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({COLUMNS})")
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    connection.execute("BEGIN")
    connection.execute("ROLLBACK")
    assert told == [
        ("NOTICE", "00000", f'table "{table}" does not exist, skipping'),
        ("NOTICE", "42P07", f'relation "{table}" already exists, skipping'),
        ("WARNING", "25P01", "there is no transaction in progress"),
        ("WARNING", "25001", "there is already a transaction in progress"),
    ]


def test_transaction_blocks(server, connection, filled):
    count = f"SELECT count(*) FROM {filled}"
    insert = f"INSERT INTO {filled} VALUES (%s, 'new', 1)"
    with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute(insert, (at(1),))
        connection.execute("SELECT 1 / 0")
    with connection.transaction(force_rollback=True):
        connection.execute(insert, (at(2),))
        assert connection.execute(count).fetchone() == (1001,)
    assert connection.execute(count).fetchone() == (1000,)
    with connection.transaction("outer"):
        connection.execute(insert, (at(3),))
        with connection.transaction("inner") as inner:
            connection.execute(insert, (at(4),))
            raise psycopg.Rollback(inner)
        with psycopg.connect(server.dsn()) as other:
            assert other.execute(count).fetchone() == (1000,)
    assert connection.execute(f"SELECT time FROM {filled} WHERE host = 'new'").fetchall() == [(at(3),)]


def test_status_of_the_block_is_told(block):
    assert block.info.transaction_status == TransactionStatus.IDLE
    block.execute("SELECT 1")
    assert block.info.transaction_status == TransactionStatus.INTRANS
    with pytest.raises(psycopg.errors.SyntaxError):
        block.execute("SELEC")
    assert block.info.transaction_status == TransactionStatus.INERROR
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        block.execute("SELECT 1")
    block.rollback()
    assert block.info.transaction_status == TransactionStatus.IDLE


def test_isolation_of_blocks(block, connection, filled):
    count = f"SELECT count(*) FROM {filled}"
    block.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    assert block.execute(count).fetchone() == (1000,)
    connection.execute(f"INSERT INTO {filled} VALUES ('2025-01-01', 'a', 1)")
    assert block.execute(count).fetchone() == (1000,)
    assert block.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)
    block.commit()
    block.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    assert block.execute(count).fetchone() == (1001,)
    connection.execute(f"INSERT INTO {filled} VALUES ('2025-01-02', 'a', 1)")
    assert block.execute(count).fetchone() == (1002,)
    assert block.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


def test_read_only_blocks(block, filled):
    block.read_only = True
    assert block.execute(f"SELECT count(*) FROM {filled}").fetchone() == (1000,)
    assert block.execute("SHOW transaction_read_only").fetchone() == ("on",)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        block.execute(f"INSERT INTO {filled} VALUES ('2025-01-01', 'a', 1)")


@pytest.mark.ours
def test_serializable_is_refused(block):
    block.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="(?i)serializable"):
        block.execute("SELECT 1")


def test_pipeline_with_syncs(connection, filled):
    with connection.pipeline() as pipeline:
        first = connection.execute(f"SELECT count(*) FROM {filled} WHERE host = %s", ("h1",))
        pipeline.sync()
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / %s", (0,)).fetchone()
        pipeline.sync()
        last = connection.execute("SELECT 3")
        assert (first.fetchone(), last.fetchone()) == ((100,), (3,))


def test_pipeline_inside_a_transaction(connection, filled):
    with connection.pipeline(), connection.transaction():
        connection.cursor().executemany(f"INSERT INTO {filled} VALUES (%s, 'p', %s)", [(at(n), n) for n in range(200)])
        with connection.transaction():
            cursor = connection.execute(f"SELECT count(*) FROM {filled} WHERE host = 'p'")
        assert cursor.fetchone() == (200,)


def test_prepared_statements_tell_their_types(connection, filled):
    connection.pgconn.prepare(
        b"told", f"SELECT v, time FROM {filled} WHERE host = $1 AND v > $2 AND time < $3 LIMIT $4".encode()
    )
    told = connection.pgconn.describe_prepared(b"told")
    assert [told.param_type(n) for n in range(told.nparams)] == [25, 23, 1184, 20]
    assert [(told.fname(n), told.ftype(n)) for n in range(told.nfields)] == [(b"v", 23), (b"time", 1184)]


def test_numeric_parameters_keep_their_digits_wherever_they_stand(connection, table):
    digits = decimal.Decimal("123456789012345678.123456789")
    connection.execute(f"CREATE TABLE {table} (time timestamptz NOT NULL, n numeric(38,9))")
    time = "2024-01-01T00:00:{:02}Z"
    connection.execute(f"INSERT INTO {table} SELECT '{time.format(1)}'::timestamptz, abs(%s)", (digits,))
    connection.execute(f"INSERT INTO {table} VALUES ('{time.format(2)}', abs(%s))", (digits,))
    connection.execute(f"INSERT INTO {table} VALUES ('{time.format(3)}', %s)", (digits,))
    connection.execute(f"INSERT INTO {table} VALUES ('{time.format(4)}', coalesce(%s, 1) + 0)", (digits,))
    assert connection.execute(f"SELECT n FROM {table} ORDER BY time").fetchall() == [(digits,)] * 4
    plan = "\n".join(line for line, in connection.execute(f"EXPLAIN SELECT n FROM {table} WHERE n < abs(%s)", (digits,)))
    assert "e17" not in plan.lower() and "double" not in plan.lower(), plan


def test_parameters_are_digits_of_rounded_numerics(connection, table):
    connection.execute(f"CREATE TABLE {table} (time timestamptz NOT NULL, n numeric(20,4), v float8)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01T00:00:59.5Z', 2.5678, 2.5678)")
    expected = decimal.Decimal("2.57")
    for rounded in [
        "round(2.5678::numeric, %s)",
        "round(n, %s)",
        "round(n + 0, %s)",
        "round(avg(n), %s)",
        "round(sum(v)::numeric, %s)",
        "trunc(n + 0.005, %s)",
    ]:
        for digits in ["2", 2]:
            for binary in [False, True]:
                cursor = connection.cursor(binary=binary)
                found = cursor.execute(f"SELECT {rounded} FROM {table} GROUP BY n, v", (digits,), prepare=True)
                assert found.fetchone() == (expected,), (rounded, digits, binary)
    found = connection.execute("SELECT round(%s::numeric, %s)", ("2.5678", "2"), prepare=True)
    assert found.fetchone() == (expected,)
    found = connection.execute(f"SELECT count(*) FROM {table} WHERE round(n * 2, %s) = %s", ("1", "5.1"), prepare=True)
    assert found.fetchone() == (1,)
    connection.execute("PREPARE rounded AS SELECT round(2.5678::numeric, $1)")
    assert connection.execute("EXECUTE rounded(2)").fetchone() == (expected,)


def test_one_parameter_at_places_of_different_digits(connection, table):
    connection.execute(f"CREATE TABLE {table} (time timestamptz NOT NULL, coarse timestamptz(0), i int, b bigint)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01T00:00:59.5Z', '2024-01-01T00:00:59Z', 2, 2)")
    cursor = psycopg.RawCursor(connection)
    bucket = "to_timestamp(floor(extract(epoch from time) / $1) * $1)"
    cursor.execute(f"SELECT {bucket}::text FROM {table}", ("60",), prepare=True)
    assert cursor.fetchone() == ("2024-01-01 00:00:00+00",)
    cursor.execute(f"SELECT count(*) FROM {table} WHERE i = $1 AND b = $1", ("2",), prepare=True)
    assert cursor.fetchone() == (1,)
    later = "time >= $1 AND coarse >= $1"
    cursor.execute(f"SELECT count(*) FROM {table} WHERE {later}", ("2024-01-01 00:00:58.75Z",), prepare=True)
    assert cursor.fetchone() == (1,)


def test_parameters_that_are_conditions_and_ends_of_slices(connection):
    cursor = psycopg.RawCursor(connection)
    for condition, values, expected in [
        ("$1 IS TRUE", ("true",), True),
        ("$1 IS NOT TRUE", ("true",), False),
        ("$1 IS UNKNOWN", (None,), True),
        ("$1 OR $2", ("false", "true"), True),
        ("NOT $1", ("true",), False),
        ("(ARRAY[1,2,3])[$1:$2]", ("2", "3"), [2, 3]),
        ("date_trunc('day', $1, 'Europe/Berlin')::text", ("2024-01-01 10:00Z",), "2023-12-31 23:00:00+00"),
    ]:
        cursor.execute(f"SELECT {condition}", values, prepare=True)
        assert cursor.fetchone() == (expected,), condition
    cursor.execute("SELECT g FROM generate_series(1, 3) g INTERSECT SELECT $1", ("2",), prepare=True)
    assert cursor.fetchall() == [(2,)]


def test_deferrable_is_a_name_behind_begin(connection):
    """Several statements in a message: the mode ends with its statement."""
    connection.execute("BEGIN DEFERRABLE; SELECT 1; COMMIT")
    cursor = connection.execute("BEGIN; SELECT deferrable, 2 FROM (SELECT 1 AS deferrable) q; COMMIT")
    cursor.nextset()
    assert cursor.fetchone() == (1, 2)


def test_prepared_statements_are_given_up_and_made_again(connection):
    connection.prepared_max = 3
    for n in range(20):
        assert connection.execute(f"SELECT %s + {n % 7}", (n,), prepare=True).fetchone() == (n + n % 7,)
    (kept,) = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert kept <= 4
    connection.execute("DEALLOCATE ALL")
    assert connection.execute("SELECT %s + 0", (5,), prepare=True).fetchone() == (5,)


def test_type_information(connection):
    for name, oid, array_oid in (
        ("jsonb", 3802, 3807),
        ("timestamptz", 1184, 1185),
        ("double precision", 701, 1022),
        ("numeric", 1700, 1231),
    ):
        told = TypeInfo.fetch(connection, name)
        assert (told.oid, told.array_oid) == (oid, array_oid)
    assert TypeInfo.fetch(connection, "no_such_type") is None


def test_connection_information(connection):
    assert connection.info.server_version // 10000 >= 15
    assert connection.info.encoding == "utf-8"
    assert connection.info.timezone.utcoffset(START) == dt.timedelta(0)
    assert connection.execute("SELECT pg_backend_pid()").fetchone() == (connection.info.backend_pid,)


def test_async(server, filled):
    async def run():
        async with await psycopg.AsyncConnection.connect(server.dsn()) as opened:
            async with opened.cursor() as cursor:
                await cursor.execute(f"SELECT v FROM {filled} WHERE host = %s ORDER BY v LIMIT 3", ("h4",))
                assert [row async for row in cursor] == [(4,), (14,), (24,)]
            async with opened.cursor("named") as cursor:
                await cursor.execute(f"SELECT v FROM {filled} ORDER BY v")
                assert await cursor.fetchmany(2) == [(0,), (1,)]
            await opened.commit()
            async with opened.transaction(), opened.pipeline():
                for n in range(20):
                    await opened.execute(f"INSERT INTO {filled} VALUES (%s, 'async', %s)", (at(n), n))
            async with opened.cursor() as cursor, cursor.copy(f"COPY {filled} FROM STDIN") as copy:
                await copy.write_row((at(100), "async", 100))
            async with (
                opened.cursor() as cursor,
                cursor.copy(f"COPY (SELECT v FROM {filled} WHERE host = 'async') TO STDOUT") as copy,
            ):
                assert sorted([int(row[0]) async for row in copy.rows()]) == [*range(20), 100]
            await opened.rollback()
            cursor = await opened.execute(f"SELECT count(*) FROM {filled} WHERE host = 'async'")
            assert await cursor.fetchone() == (20,)

    asyncio.run(run())


def test_async_cancel_and_many_at_once(server):
    async def one(n):
        async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as opened:
            cursor = await opened.execute("SELECT %s", (n,))
            return (await cursor.fetchone())[0]

    async def run():
        assert await asyncio.gather(*(one(n) for n in range(20))) == list(range(20))
        async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as opened:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(opened.execute("SELECT pg_sleep(60)"), 0.3)
            cursor = await opened.execute("SELECT 1")
            assert await cursor.fetchone() == (1,)

    asyncio.run(run())
