"""Helpers for tests of tiers on a server's tables."""

import time

import psycopg
import pytest

from servers import ObjectStore

KEYED = "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v BIGINT, PRIMARY KEY (host, time))"


def moment(nanoseconds):
    """A time as an SQL literal, with all nine digits."""
    seconds, part = divmod(nanoseconds, 10**9)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{part:09}+00"


def copy(connection, table, columns, rows):
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as into:
        for row in rows:
            into.write_row(row)


def one(connection, query, *parameters):
    return connection.execute(query, parameters).fetchone()[0]


def connect(server):
    return psycopg.connect(server.dsn(), autocommit=True)


def tiers(connection, table="t"):
    return dict(connection.execute(f"SELECT _tier, count(*) FROM {table} GROUP BY _tier").fetchall())


def refused(connection, query):
    """SQLSTATE and message of a statement that must fail."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(query).fetchall()
    return caught.value.sqlstate, str(caught.value)


def wait_until(connection, query, expected, seconds=20):
    deadline = time.monotonic() + seconds
    while (found := connection.execute(query).fetchall()) != expected:
        assert time.monotonic() < deadline, (query, found)
        time.sleep(0.1)


def object_store(directory):
    """An S3 server with the bucket `lake` below a directory."""
    try:
        return ObjectStore(directory / "buckets", "lake")
    except RuntimeError as reason:
        pytest.skip(str(reason))
