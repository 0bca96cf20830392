"""Common helpers of the tests of Python drivers."""

import datetime as dt

import pytest
from psycopg.conninfo import conninfo_to_dict

START = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
COLUMNS = "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT, PRIMARY KEY (host, time)"


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


@pytest.fixture
def filled(connection, table):
    """1000 rows of ten hosts."""
    connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for n in range(1000):
            copy.write_row((at(n), f"h{n % 10}", n))
    return table


def address(server):
    """host, port, user and database of a server."""
    words = conninfo_to_dict(server.dsn())
    return {"host": words["host"], "port": int(words["port"]), "user": words["user"], "database": words["dbname"]}


def uri(server):
    return "postgresql://{user}@{host}:{port}/{database}".format(**address(server))
