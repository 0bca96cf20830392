"""pandas over SQLAlchemy: to_sql, read_sql, read_sql_table, in parts."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

from test_sqlalchemy import url

START = pd.Timestamp("2024-01-01", tz="UTC")


@pytest.fixture(params=["psycopg2", "psycopg"])
def engine(request, server):
    engine = sa.create_engine(url(server, request.param))
    yield engine
    engine.dispose()


@pytest.fixture
def frame():
    n = np.arange(500)
    return pd.DataFrame(
        {
            "time": START + pd.to_timedelta(n, unit="s"),
            "host": [f"h{k % 10}" for k in n],
            "n": n,
            "f": np.where(n % 7 == 0, np.nan, n / 4),
            "flag": n % 2 == 0,
            "note": [None if k % 3 else f"it's {k}" for k in n],
        }
    )


def assert_same(found, frame):
    found = found.sort_values("n").reset_index(drop=True)
    found["time"] = found["time"].astype(frame["time"].dtype)
    found["note"] = found["note"].astype(frame["note"].dtype)
    found["host"] = found["host"].astype(frame["host"].dtype)
    pd.testing.assert_frame_equal(found, frame)


@pytest.mark.parametrize("how", [{}, {"method": "multi", "chunksize": 100}, {"chunksize": 77}], ids=["rows", "multi", "chunks"])
def test_a_frame_creates_its_table(engine, table, frame, how):
    assert frame.to_sql(table, engine, index=False, **how) is not None
    assert_same(pd.read_sql_table(table, engine), frame)
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql(table, engine, index=False, if_exists="fail")
    later = frame.assign(time=frame["time"] + pd.Timedelta(days=1), n=frame["n"] + 500)
    later.to_sql(table, engine, index=False, if_exists="append", **how)
    assert pd.read_sql(f"SELECT count(*) AS c FROM {table}", engine)["c"].tolist() == [1000]


def test_the_index_is_the_time(connection, engine, table, frame):
    connection.execute(
        f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT, n INT, f DOUBLE PRECISION, flag BOOLEAN, note TEXT)"
    )
    frame.set_index("time").to_sql(table, engine, if_exists="append")
    found = pd.read_sql_table(table, engine, index_col="time", parse_dates=["time"])
    assert found.index.min() == START and len(found) == 500
    found = pd.read_sql(f"SELECT * FROM {table} WHERE n < 3 ORDER BY n", engine, index_col="time")
    assert found["n"].tolist() == [0, 1, 2]


@pytest.mark.ours
def test_an_index_of_its_own(engine, table, frame):
    """pandas' default, index=True, sends CREATE INDEX."""
    frame.set_index("time").to_sql(table, engine)
    assert pd.read_sql(sa.text(f"SELECT count(*) AS n FROM {table}"), engine).n[0] == len(frame)


def test_rows_are_appended_to_a_keyed_table(connection, engine, table, frame):
    connection.execute(
        f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n BIGINT, f DOUBLE PRECISION, flag BOOLEAN, "
        "note TEXT, PRIMARY KEY (host, time))"
    )
    frame.to_sql(table, engine, index=False, if_exists="append")
    assert_same(pd.read_sql(sa.text(f"SELECT * FROM {table} WHERE n >= :n"), engine, params={"n": 0}), frame)
    with pytest.raises(pd.errors.DatabaseError, match="duplicate key"):
        frame.to_sql(table, engine, index=False, if_exists="append")
    assert pd.read_sql_table(table, engine, columns=["host", "n"]).shape == (500, 2)


def test_reading_in_parts(engine, table, frame):
    frame.to_sql(table, engine, index=False)
    parts = list(pd.read_sql(f"SELECT * FROM {table} ORDER BY n", engine, chunksize=150))
    assert [len(part) for part in parts] == [150, 150, 150, 50]
    assert_same(pd.concat(parts), frame)
    with engine.connect().execution_options(stream_results=True) as streaming:
        parts = list(pd.read_sql(sa.text(f"SELECT n FROM {table} ORDER BY n"), streaming, chunksize=200))
        assert pd.concat(parts)["n"].tolist() == list(range(500))
    assert sum(len(part) for part in pd.read_sql_table(table, engine, chunksize=300)) == 500


def test_a_table_is_replaced(engine, table, frame):
    frame.to_sql(table, engine, index=False)
    frame.head(3).to_sql(table, engine, index=False, if_exists="replace")
    assert len(pd.read_sql_table(table, engine)) == 3


def test_times_without_a_zone(engine, table):
    frame = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=3, freq="h"), "v": [1, 2, 3]})
    frame.to_sql(table, engine, index=False)
    found = pd.read_sql_table(table, engine)
    assert found["time"].tolist() == frame["time"].tolist()


@pytest.mark.ours
def test_a_frame_without_time_is_given_one(engine, table):
    """CREATE TABLE without a time column adds a time column, filled by the clock."""
    before = dt.datetime.now(dt.timezone.utc)
    pd.DataFrame({"v": [1, 2, 3]}).to_sql(table, engine, index=False)
    found = pd.read_sql(f"SELECT time, v FROM {table} ORDER BY v", engine)
    assert found["v"].tolist() == [1, 2, 3] and (found["time"] > before - dt.timedelta(minutes=1)).all()
