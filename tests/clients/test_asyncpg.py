"""asyncpg: inferred parameter types, prepared statements, cursors, COPY, transactions, type information, pools."""

import asyncio
import datetime as dt
import decimal
import functools
import io
import json
import math
import uuid

import asyncpg
import pytest

from drivers import START, address, at, uri

D = decimal.Decimal


def connected(test):
    """Runs an async test with a connection; `table` does not exist yet."""

    @functools.wraps(test)
    def run(server, table):
        async def body():
            opened = await asyncpg.connect(**address(server), timeout=20)
            try:
                await asyncio.wait_for(test(opened, table), 60)
            finally:
                await opened.close(timeout=5)

        asyncio.run(body())

    del run.__wrapped__
    return run


async def filled(opened, table, rows=100):
    await opened.execute(
        f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT, d DOUBLE PRECISION, "
        "PRIMARY KEY (host, time))"
    )
    await opened.executemany(
        f"INSERT INTO {table} VALUES ($1, $2, $3, $4)", [(at(n), f"h{n % 10}", n, n / 2) for n in range(rows)]
    )


@connected
async def test_fetch_forms(opened, table):
    await filled(opened, table)
    rows = await opened.fetch(f"SELECT host, v FROM {table} WHERE v < $1 ORDER BY v", 3)
    assert [dict(row) for row in rows] == [{"host": f"h{n}", "v": n} for n in range(3)]
    row = await opened.fetchrow(f"SELECT * FROM {table} WHERE host = $1 AND time = $2", "h5", at(5))
    assert tuple(row) == (at(5), "h5", 5, 2.5)
    assert await opened.fetchrow(f"SELECT * FROM {table} WHERE host = $1", "nobody") is None
    assert await opened.fetchval(f"SELECT max(v) AS m, min(v) FROM {table}", column=1) == 0
    assert await opened.execute(f"INSERT INTO {table} VALUES ($1, 'a', 1, NULL)", START) == "INSERT 0 1"
    assert await opened.execute("SELECT 1; SELECT 2") == "SELECT 1"


INFERRED = [
    ("SELECT $1 + 1", ["int4"], (41,), 42),
    ("SELECT $1::int8 + $2", ["int8", "int8"], (40, 2), 42),
    ("SELECT $1 || 'x'", ["text"], ("a",), "ax"),
    ("SELECT $1", ["text"], ("plain",), "plain"),
    ("SELECT $1::timestamptz - $2::interval", ["timestamptz", "interval"], (at(60), dt.timedelta(minutes=1)), START),
    ("SELECT count(*) FROM {t} WHERE host = ANY($1)", ["text[]"], (["h1", "h2"],), 20),
    ("SELECT count(*) FROM {t} WHERE v = ANY($1)", ["int4[]"], ([1, 2],), 2),
    ("SELECT count(*) FROM {t} WHERE time BETWEEN $1 AND $2", ["timestamptz", "timestamptz"], (at(0), at(9)), 10),
    ("SELECT count(*) FROM {t} WHERE host IN ($1, $2)", ["text", "text"], ("h1", "h2"), 20),
    ("SELECT count(*) FROM {t} WHERE host LIKE $1", ["text"], ("h%",), 100),
    ("SELECT v FROM {t} ORDER BY v LIMIT $1 OFFSET $2", ["int8", "int8"], (1, 7), 7),
    ("SELECT v FROM (SELECT v FROM {t} ORDER BY v LIMIT $1 OFFSET $2) s", ["int8", "int8"], (1, 7), 7),
    ("SELECT v FROM {t} ORDER BY v OFFSET ($1) FETCH FIRST $2 ROWS ONLY", ["int8", "int8"], (7, 1), 7),
    ("SELECT coalesce($1, v) FROM {t} WHERE v = 3", ["int4"], (None,), 3),
    ("SELECT CASE WHEN d > $1 THEN $2 ELSE host END FROM {t} WHERE v = 50", ["float8", "text"], (1.5, "big"), "big"),
    ("SELECT date_trunc($1, time) FROM {t} WHERE v = 61", ["text"], ("minute",), at(60)),
    ("SELECT sum(v) FROM {t} WHERE d < $1", ["float8"], (1.0,), 1),
    ("SELECT v * $1 FROM {t} WHERE v = 3", ["int4"], (2,), 6),
    ("SELECT d * $1 FROM {t} WHERE v = 3", ["float8"], (2.0,), 3.0),
    ("SELECT count(*) FROM {t} GROUP BY host HAVING count(*) > $1 LIMIT 1", ["int8"], (5,), 10),
    ("SELECT $1::jsonb ->> 'a'", ["jsonb"], ('{"a": "b"}',), "b"),
    ("SELECT NOT $1", ["bool"], (True,), False),
    ("SELECT $1 AND true", ["bool"], (True,), True),
    ("SELECT round($1::numeric, $2)", ["numeric", "int4"], (D("1.256"), 2), D("1.26")),
    ("SELECT upper($1)", ["text"], ("x",), "X"),
    ("SELECT array_length($1::int[], $2)", ["int4[]", "int4"], ([1, 2], 1), 2),
    ("SELECT n FROM generate_series(1, $1) g(n) OFFSET 2", ["int4"], (3,), 3),
    ("SELECT count(*) FROM {t} WHERE (host, v) = ($1, $2)", ["text", "int4"], ("h1", 1), 1),
    ("WITH w AS (SELECT $1::int AS x) SELECT v FROM {t}, w WHERE v = x", ["int4"], (8,), 8),
    ("SELECT count(*) FROM {t} WHERE v = (SELECT max(v) FROM {t} WHERE host = $1)", ["text"], ("h9",), 1),
    ("SELECT n FROM unnest($1::text[], $2::int[]) AS u(t, n) WHERE t = 'b'", ["text[]", "int4[]"], (["a", "b"], [1, 2]), 2),
    ("SELECT '{{\"a\": 1}}'::jsonb || $1", ["jsonb"], ('{"b": 2}',), '{"a": 1, "b": 2}'),
    ("SELECT '{{\"a\": 1}}'::jsonb @> $1", ["jsonb"], ("{}",), True),
    ("SELECT '{{\"a\": [7]}}'::jsonb #>> $1", ["text[]"], (["a", "0"],), "7"),
    ("SELECT '\\x01'::bytea || $1", ["bytea"], (b"\x02",), b"\x01\x02"),
    ("SELECT date '2024-01-03' - $1", ["date"], (dt.date(2024, 1, 1),), 2),
    ("SELECT $1 = ANY(ARRAY[2, 9007199254740993]::bigint[])", ["int8"], (9007199254740992,), False),
    ("SELECT count(*) FROM {t} WHERE time + $1 > now()", ["interval"], (dt.timedelta(days=1),), 0),
]


@pytest.mark.parametrize("query, types, arguments, answer", INFERRED, ids=[case[0] for case in INFERRED])
def test_parameter_types_as_postgresql_infers_them(server, shared, query, types, arguments, answer):
    async def body():
        opened = await asyncpg.connect(**address(server), timeout=20)
        statement = await opened.prepare(query.format(t=shared))
        assert [parameter.name for parameter in statement.get_parameters()] == types
        assert await statement.fetchval(*arguments) == answer
        await opened.close()

    asyncio.run(body())


@pytest.fixture(scope="module")
def shared(server):
    async def body():
        opened = await asyncpg.connect(**address(server), timeout=20)
        await filled(opened, "asyncpg_shared")
        await opened.close()

    asyncio.run(body())
    return "asyncpg_shared"


@connected
async def test_prepared_statements(opened, table):
    await filled(opened, table)
    statement = await opened.prepare(f"SELECT host, v, time FROM {table} WHERE v >= $1 ORDER BY v")
    assert [(column.name, column.type.name) for column in statement.get_attributes()] == [
        ("host", "text"),
        ("v", "int4"),
        ("time", "timestamptz"),
    ]
    for n in (0, 50, 99):
        assert await statement.fetchval(n, column=1) == n
    assert len(await statement.fetch(90)) == 10
    assert statement.get_statusmsg() == "SELECT 10"
    assert await statement.fetchrow(1000) is None
    insert = await opened.prepare(f"INSERT INTO {table} VALUES ($1, $2, $3, $4)")
    await insert.executemany([(at(n), "many", n, None) for n in range(1000)])
    assert await opened.fetchval(f"SELECT count(*) FROM {table} WHERE host = 'many'") == 1000


VALUES = {
    "bool": [True, None, False],
    "int2": [-32768, 32767],
    "int4": [2**31 - 1],
    "int8": [-(2**63)],
    "float4": [1.5, math.inf],
    "float8": [0.1, -math.inf],
    "numeric": [D("0"), D("-123456.789000"), D("1E+20")],
    "text": ["", "日本 '\\"],
    "varchar": ["v"],
    "bytea": [b"", b"\x00\xff"],
    "date": [dt.date(1, 1, 1), dt.date(2024, 2, 29)],
    "time": [dt.time(23, 59, 59, 999999)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 1)],
    "timestamptz": [at(0.000001)],
    "interval": [dt.timedelta(days=-3, microseconds=7)],
    "uuid": [uuid.UUID(int=3)],
    "jsonb": ['{"a": [1, null]}'],
    "json": ['{"a":  1}'],
    "int4[]": [[], [1, None, 2]],
    "text[]": [["a,b", 'c"', None, "NULL", ""]],
    "float8[]": [[0.5]],
    "timestamptz[]": [[START]],
    "uuid[]": [[uuid.UUID(int=1)]],
    "int4[][]": [[[1, 2], [3, 4]]],
}


@connected
async def test_values_of_every_type_in_binary(opened, table):
    for name, values in VALUES.items():
        for value in values:
            found = await opened.fetchval(f"SELECT $1::{name}", value)
            assert found == value, (name, value, found)


@connected
async def test_cursors(opened, table):
    await filled(opened, table)
    query = f"SELECT v FROM {table} WHERE v >= $1 ORDER BY v"
    async with opened.transaction():
        assert [row["v"] async for row in opened.cursor(query, 10, prefetch=7)] == list(range(10, 100))
        cursor = await opened.cursor(query, 0)
        assert await cursor.fetchrow() == (0,)
        assert await cursor.forward(9) == 9
        assert [row["v"] for row in await cursor.fetch(3)] == [10, 11, 12]
        assert await cursor.forward(1000) == 87
        assert await cursor.fetchrow() is None
        statement = await opened.prepare(query)
        assert len([row async for row in statement.cursor(95)]) == 5
    with pytest.raises(asyncpg.NoActiveSQLTransactionError):
        await opened.cursor(query, 0)


@connected
async def test_copy_of_records(opened, table):
    await filled(opened, table, 0)
    records = [(at(n), f"h{n}", n if n % 3 else None, n / 8) for n in range(2000)]
    assert await opened.copy_records_to_table(table, records=records) == "COPY 2000"
    assert [tuple(row) for row in await opened.fetch(f"SELECT * FROM {table} ORDER BY time")] == records
    assert (
        await opened.copy_records_to_table(table, schema_name="public", columns=["host", "time"], records=[("x", START)])
        == "COPY 1"
    )
    assert await opened.fetchrow(f"SELECT v, d FROM {table} WHERE host = 'x'") == (None, None)
    with pytest.raises(asyncpg.UniqueViolationError):
        await opened.copy_records_to_table(table, columns=["host", "time"], records=[("y", START), ("x", START)])
    assert await opened.fetchval(f"SELECT count(*) FROM {table}") == 2001


@connected
async def test_copy_from_query_and_tables(opened, table):
    await filled(opened, table)
    out = io.BytesIO()
    assert (
        await opened.copy_from_query(
            f"SELECT host, v FROM {table} WHERE v < $1 ORDER BY v", 2, output=out, format="csv", header=True
        )
        == "COPY 2"
    )
    assert out.getvalue() == b"host,v\nh0,0\nh1,1\n"
    for format in ("text", "binary"):
        out = io.BytesIO()
        assert await opened.copy_from_table(table, output=out, format=format, columns=["time", "host", "v", "d"]) == "COPY 100"
        copy = f"{table}_{format}"
        await filled(opened, copy, 0)
        out.seek(0)
        assert await opened.copy_to_table(copy, source=out, format=format) == "COPY 100"
        assert await opened.fetch(f"SELECT * FROM {copy} EXCEPT SELECT * FROM {table}") == []


@connected
async def test_transactions(opened, table):
    await filled(opened, table)
    count = f"SELECT count(*) FROM {table}"
    insert = f"INSERT INTO {table} VALUES ($1, $2, 1, 1)"
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with opened.transaction():
            await opened.execute(insert, START, "lost")
            await opened.fetchval("SELECT 1 / $1", 0)
    async with opened.transaction():
        await opened.execute(insert, START, "kept")
        with pytest.raises(asyncpg.UniqueViolationError):
            async with opened.transaction():
                await opened.execute(insert, START, "inner")
                await opened.execute(insert, START, "kept")
        assert await opened.fetchval(count) == 101
    assert await opened.fetch(f"SELECT host FROM {table} WHERE d = 1 AND v = 1") == [("kept",)]
    block = opened.transaction()
    await block.start()
    await opened.execute(insert, START, "back")
    await block.rollback()
    assert await opened.fetchval(count) == 101


@connected
async def test_isolation_levels_and_read_only(opened, table):
    await filled(opened, table, 1)
    for level in ("read_committed", "repeatable_read"):
        async with opened.transaction(isolation=level, readonly=True):
            assert await opened.fetchval("SHOW transaction_isolation") == level.replace("_", " ")
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                async with opened.transaction():
                    await opened.execute(f"INSERT INTO {table} VALUES ($1, 'a', 1, 1)", START)
            assert await opened.fetchval(f"SELECT count(*) FROM {table}") == 1


@pytest.mark.ours
def test_serializable_is_refused(server):
    async def body():
        opened = await asyncpg.connect(**address(server), timeout=20)
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="(?i)serializable"):
            async with opened.transaction(isolation="serializable"):
                await opened.fetchval("SELECT 1")
        await opened.close()

    asyncio.run(body())


@connected
async def test_codecs(opened, table):
    for name in ("json", "jsonb"):
        await opened.set_type_codec(name, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        assert await opened.fetchval(f"SELECT $1::{name}", {"a": [1, None]}) == {"a": [1, None]}
    await opened.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=float, format="text")
    assert await opened.fetchval("SELECT $1::numeric / 4", 5) == 1.25
    await opened.reset_type_codec("numeric", schema="pg_catalog")
    assert await opened.fetchval("SELECT 1.25::numeric") == D("1.25")
    await opened.set_type_codec(
        "timestamptz", schema="pg_catalog", format="tuple", encoder=lambda value: (value,), decoder=lambda value: value[0]
    )
    assert await opened.fetchval("SELECT $1::timestamptz", 12) == 12


@connected
async def test_types_that_are_looked_up(opened, table):
    """The driver looks up types with unknown oids in pg_type, recursively."""
    assert await opened.fetchval("SELECT ARRAY[DATE '2024-01-01']") == [dt.date(2024, 1, 1)]
    assert await opened.fetchval("SELECT relkind FROM pg_class WHERE relname = 'pg_class'") == b"r"
    assert await opened.fetchval("SELECT ARRAY['public'::name]") == ["public"]
    assert await opened.fetchval("SELECT typname FROM pg_type WHERE oid = $1", 23) == "int4"
    assert tuple(await opened.fetchval("SELECT ROW(1, 'a'::text, NULL::float8)")) == (1, "a", None)


@connected
async def test_notices_and_errors(opened, table):
    told = []
    opened.add_log_listener(lambda _, message: told.append((message.severity, message.message)))
    await opened.execute(f"DROP TABLE IF EXISTS {table}")
    await asyncio.sleep(0)
    assert told == [("NOTICE", f'table "{table}" does not exist, skipping')]
    with pytest.raises(asyncpg.UndefinedColumnError) as error:
        await opened.fetch("SELECT nothing FROM pg_class")
    assert error.value.position == "8"
    with pytest.raises(asyncpg.exceptions.DataError):
        await opened.fetch("SELECT $1 + 1", "no number")
    with pytest.raises(asyncio.TimeoutError):
        await opened.fetch("SELECT pg_sleep(60)", timeout=0.2)
    assert await opened.fetchval("SELECT 1") == 1


def test_pool_resets_what_it_lends(server):
    async def body():
        async with asyncpg.create_pool(
            **address(server), min_size=1, max_size=1, server_settings={"application_name": "pooled"}
        ) as pool:
            async with pool.acquire() as opened:
                await opened.execute("SET TimeZone = 'Asia/Tokyo'")
                await opened.execute("BEGIN")
                await opened.fetchval("SELECT 1")
                first = opened.get_server_pid()
                await opened.execute("ROLLBACK")
            async with pool.acquire() as opened:
                assert opened.get_server_pid() == first
                assert await opened.fetchval("SHOW TimeZone") != "Asia/Tokyo"
                assert await opened.fetchval("SHOW application_name") == "pooled"
        async with asyncpg.create_pool(**address(server), min_size=0, max_size=5) as pool:
            assert await asyncio.gather(*(pool.fetchval("SELECT $1::int", n) for n in range(50))) == list(range(50))

    asyncio.run(body())


def test_dsn_and_connection_facts(server):
    async def body():
        opened = await asyncpg.connect(uri(server))
        assert opened.get_server_version().major >= 15
        settings = opened.get_settings()
        assert (settings.client_encoding, settings.standard_conforming_strings) == ("UTF8", "on")
        await opened.reload_schema_state()
        await opened.reset()
        await opened.close()
        assert opened.is_closed()

    asyncio.run(body())
