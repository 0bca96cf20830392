"""What the tests of Python's drivers share."""

import datetime as dt

from psycopg.conninfo import conninfo_to_dict

START = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
COLUMNS = "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT, PRIMARY KEY (host, time)"


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def address(server):
    """host, port, user and database of a server."""
    words = conninfo_to_dict(server.dsn())
    return {"host": words["host"], "port": int(words["port"]), "user": words["user"], "database": words["dbname"]}


def uri(server):
    return "postgresql://{user}@{host}:{port}/{database}".format(**address(server))
