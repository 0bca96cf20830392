"""The machine's clock jumps under a running server: what it gives out as the time never goes back, nothing is
lost, and the server goes on (F23, CL-8)."""

import datetime
import pathlib
import time

import psycopg
import pytest

from servers import Stratalog

pytestmark = pytest.mark.ours

LIBRARIES = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
SECOND, HOUR, YEARS = 1, 3600, 10 * 8766 * 3600
# A jump that is longer is not followed before it is accepted: clock_jump_ms_max.
FOLLOWED = 300


class MovedClock:
    """A server whose wall clock, and only that, is off by what a file says."""

    def __init__(self, directory, *flags):
        assert LIBRARIES, "libfaketime is not installed: run scripts/setup test"
        self.offset = directory.with_name(directory.name + ".offset")
        self.move(0)
        environment = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }
        self.server = Stratalog(directory, *flags, environment=environment)
        self.server.start()

    def move(self, seconds):
        new = self.offset.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self.offset)

    def connect(self):
        return psycopg.connect(self.server.dsn(), autocommit=True)


def one(connection, sql):
    return connection.execute(sql).fetchone()[0]


def micros(connection):
    """What the server gives out: microseconds since 1970."""
    return one(connection, "SELECT (extract(epoch FROM time) * 1000000)::bigint FROM stratalog.clock")


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fill(connection, rows):
    """Rows by the server's clock, one statement each: their times are given in this order."""
    for _ in range(rows):
        connection.execute("INSERT INTO events (n) SELECT count(*) FROM events")


def check(connection, rows):
    got = connection.execute("SELECT n, time FROM events ORDER BY n").fetchall()
    assert [n for n, _ in got] == list(range(rows))
    times = [at for _, at in got]
    assert times == sorted(times)


@pytest.mark.parametrize("jump", [SECOND, -SECOND, HOUR, -HOUR, YEARS, -YEARS])
def test_f23_a_jump_under_a_running_server(directory, jump):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        connection.execute("CREATE TABLE events (n BIGINT)")
        fill(connection, 5)
        before, began = micros(connection), time.monotonic()
        moved.move(jump)
        fill(connection, 5)
        after, passed = micros(connection), (time.monotonic() - began) * 1e6
        assert after > before
        if 0 < jump <= FOLLOWED:
            assert after - before >= jump * 1e6
        else:
            # At the rate of the monotonic clock, or half of it.
            assert after - before <= passed + 500_000
            assert after - before >= passed / 2 - 500_000
        held, alarms = connection.execute("SELECT held_ns, alarms FROM stratalog.clock").fetchone()
        assert (held > 0) == (jump > FOLLOWED)
        assert (len(alarms) > 0) == (abs(jump) > FOLLOWED), alarms
        check(connection, 10)
    # Neither a crash nor a stop takes time back, or forgets what is held.
    for end in (moved.server.kill, moved.server.stop):
        end()
        moved.server.start()
        with moved.connect() as connection:
            again = micros(connection)
            assert again >= after
            after = again
            held = one(connection, "SELECT held_ns FROM stratalog.clock")
            assert (held > 0) == (jump > FOLLOWED)
            fill(connection, 1)
    with moved.connect() as connection:
        check(connection, 12)
    assert moved.server.stop() == 0


def test_f23_a_jump_is_accepted(directory):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="has not jumped"):
            connection.execute("CALL stratalog.accept_clock_jump()")
        connection.execute("CREATE TABLE events (n BIGINT)")
        fill(connection, 3)
        before, epoch = micros(connection), one(connection, "SELECT epoch FROM stratalog.clock")
        moved.move(HOUR)
        until(lambda: one(connection, "SELECT held_ns > 0 FROM stratalog.clock"))
        assert micros(connection) - before < 60 * 10**6
        accepted, epoch_then = connection.execute("CALL stratalog.accept_clock_jump()").fetchone()
        assert abs(accepted / 1e9 - HOUR) < 10
        assert epoch_then > epoch
        assert micros(connection) - before >= HOUR * 10**6
        assert one(connection, "SELECT alarms FROM stratalog.clock") == []
        fill(connection, 3)
        check(connection, 6)
    moved.server.stop()


def test_f23_a_jump_is_set_right(directory):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        before = one(connection, "SELECT time FROM stratalog.clock")
        moved.move(YEARS)
        until(lambda: one(connection, "SELECT held_ns > 0 FROM stratalog.clock"))
        moved.move(0)
        until(lambda: one(connection, "SELECT held_ns = 0 AND alarms = '{}' FROM stratalog.clock"))
        assert one(connection, "SELECT time FROM stratalog.clock") - before < datetime.timedelta(minutes=1)
        assert one(connection, "SELECT jumps_held FROM stratalog.clock") == 1
    moved.server.stop()


def test_f23_every_jump_is_followed_where_that_is_wanted(directory):
    moved = MovedClock(directory, "--clock-jump-ms-max", "0")
    with moved.connect() as connection:
        before = micros(connection)
        moved.move(HOUR)
        until(lambda: micros(connection) - before >= HOUR * 10**6)
        assert one(connection, "SELECT held_ns FROM stratalog.clock") == 0
    moved.server.stop()
