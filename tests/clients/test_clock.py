"""The machine's clock jumps under a running server: the server's time never goes back, no data is lost, and the
server continues (F23, CL-8)."""

import datetime
import os
import pathlib
import subprocess
import time

import psycopg
import pytest
import requests

from servers import Stratalog, stratalog_binary

pytestmark = pytest.mark.ours

LIBRARIES = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
SECOND, HOUR, YEARS = 1, 3600, 10 * 8766 * 3600
DAY = 24 * HOUR
# Longer jumps are only followed after they are accepted: clock_jump_ms_max.
FOLLOWED = 300


class MovedClock:
    """A server whose wall clock alone is shifted by the offset in a file."""

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

    def restart(self, seconds, end="kill"):
        """Stops the server, moves the clock, and starts the server again."""
        getattr(self.server, end)()
        self.move(seconds)
        self.server.start()

    def command(self, *words):
        """Runs `stratalog` with the moved clock; returns its exit status and output."""
        done = subprocess.run(
            [str(stratalog_binary()), *words, "--data-dir", str(self.server.data_dir)],
            capture_output=True, text=True, timeout=60, env={**os.environ, **self.server.environment},
        )
        return done.returncode, done.stdout + done.stderr

    def move(self, seconds):
        new = self.offset.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self.offset)

    def connect(self):
        return psycopg.connect(self.server.dsn(), autocommit=True)


def one(connection, sql):
    return connection.execute(sql).fetchone()[0]


def micros(connection):
    """The server's time: microseconds since 1970."""
    return one(connection, "SELECT (extract(epoch FROM time) * 1000000)::bigint FROM stratalog.clock")


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fill(connection, rows):
    """Inserts rows with the server's clock, a statement each: their times ascend in this order."""
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
    # Neither a crash nor a stop moves time back or loses the held time.
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


def alarms(connection):
    return one(connection, "SELECT alarms FROM stratalog.clock")


def test_f23_a_start_ten_days_ahead_deletes_nothing(directory):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        connection.execute("CREATE TABLE events (n BIGINT) WITH (retention = '1d')")
        fill(connection, 5)
        began = micros(connection)
    moved.restart(10 * DAY)
    with moved.connect() as connection:
        assert micros(connection) - began >= 9 * DAY * 10**6
        assert one(connection, "SELECT unconfirmed_ns / 1000000000 FROM stratalog.clock") >= 10 * DAY - 60
        assert "accept_clock_jump" in alarms(connection)[0]
        checks = requests.get(f"http://127.0.0.1:{moved.server.http_port}/health", timeout=10).json()["checks"]
        assert "accept_clock_jump" in checks[0]["message"]
        # The grapher checks retention every second.
        time.sleep(4)
        check(connection, 5)
    # The clock is correct again: retention uses it, while the server's time is still ahead.
    moved.restart(0)
    with moved.connect() as connection:
        assert micros(connection) - began >= 9 * DAY * 10**6
        assert one(connection, "SELECT unconfirmed_ns FROM stratalog.clock") == 0
        assert "stratalog clock --correct" in alarms(connection)[0]
        time.sleep(3)
        check(connection, 5)
        fill(connection, 1)
    # No correction while a server runs.
    status, said = moved.command("clock", "--correct")
    assert (status, "in use" in said) == (4, True), said
    moved.server.stop()
    status, said = moved.command("clock", "--correct")
    assert status == 0 and "time continues at" in said and "DELETE FROM" in said, said
    moved.server.start()
    with moved.connect() as connection:
        assert abs(micros(connection) - time.time() * 1e6) < 60 * 10**6
        assert alarms(connection) == []
        ahead = connection.execute("SELECT name FROM stratalog.chronicles WHERE last_time > now()").fetchall()
        assert ahead == [("events",)]
        connection.execute("DELETE FROM events WHERE time > now()")
        check(connection, 5)
        fill(connection, 1)
    moved.server.stop()
    status, said = moved.command("clock", "--correct")
    assert status != 0 and "no correction is needed" in said, said


def test_f23_a_start_far_ahead_is_confirmed(directory):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        connection.execute("CREATE TABLE events (n BIGINT) WITH (retention = '1d')")
        fill(connection, 5)
    for by_command in (False, True):
        moved.restart(10 * DAY if not by_command else 20 * DAY, end="stop")
        if by_command:
            with moved.connect() as connection:
                assert len(alarms(connection)) == 1
            moved.server.stop()
            status, said = moved.command("clock")
            assert status == 0 and "ahead of confirmed time   864000 s" in said, said
            status, said = moved.command("clock", "--accept")
            assert status == 0 and "is confirmed" in said, said
            moved.server.start()
        with moved.connect() as connection:
            if not by_command:
                connection.execute("CALL stratalog.accept_clock_jump()")
            assert alarms(connection) == []
            # Now the events are too old.
            until(lambda: one(connection, "SELECT count(*) FROM events") == 0)
            fill(connection, 2)
    moved.server.stop()


@pytest.mark.parametrize("seconds", [-60 * 8766 * HOUR, 8000 * 8766 * HOUR])
def test_f23_http_outside_of_the_years_of_its_dates(directory, seconds):
    moved = MovedClock(directory)
    url = f"http://127.0.0.1:{moved.server.http_port}/health"
    assert requests.get(url, timeout=10).status_code == 200
    moved.move(seconds)
    # Each thread of the server has its own date, and keeps the date when the clock goes back.
    answered = []
    for _ in range(50):
        try:
            answered.append(requests.get(url, timeout=10).status_code)
        except requests.ConnectionError:
            assert "1970 to 9999" in moved.server.output()
    assert set(answered) <= {200} and (seconds < 0 or not answered)
    moved.move(0)
    assert requests.get(url, timeout=10).status_code == 200
    assert "panicked" not in moved.server.output()
    moved.server.stop()


@pytest.mark.parametrize("year", [2126, 2250])
def test_f23_a_start_in_another_century_recovers(directory, year):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        connection.execute("CREATE TABLE events (n BIGINT) WITH (retention = '1d')")
        fill(connection, 5)
        before = micros(connection)
    moved.restart((year - 2026) * 8766 * HOUR)
    with moved.connect() as connection:
        assert micros(connection) - before < 120 * 10**6
        assert one(connection, "SELECT held_ns > 0 FROM stratalog.clock")
        fill(connection, 5)
    moved.restart(0)
    with moved.connect() as connection:
        assert alarms(connection) == []
        assert abs(micros(connection) - time.time() * 1e6) < 120 * 10**6
        check_count = one(connection, "SELECT count(*) FROM events")
        assert check_count == 10
    moved.server.stop()


@pytest.mark.parametrize("seconds, what", [(-60 * 8766 * HOUR, "before 1970"), (250 * 8766 * HOUR, "after the year 2260")])
def test_f23_a_start_outside_of_time_is_refused(directory, seconds, what):
    moved = MovedClock(directory)
    with moved.connect() as connection:
        connection.execute("CREATE TABLE events (n BIGINT)")
        fill(connection, 5)
    # A running server survives too. Plans record their start time, which must not lie before 1970.
    moved.move(seconds)
    with moved.connect() as connection:
        if seconds < 0:
            for sql in ("INSERT INTO events (n) VALUES (6)", "INSERT INTO events (n) SELECT count(*) FROM events", "SELECT now()",
                        "SELECT count(*) FROM events", "SELECT clock_timestamp()", "TABLE stratalog.clock"):
                with pytest.raises(psycopg.errors.DatetimeFieldOverflow, match="before 1970"):
                    connection.execute(sql)
            moved.move(0)
        fill(connection, 1)
    moved.move(seconds)
    moved.server.kill()
    status, said = moved.server.start_failing()
    assert status == 1 and what in said and "correct the machine's clock" in said, said
    assert "panicked" not in said
    moved.move(0)
    moved.server.start()
    with moved.connect() as connection:
        assert one(connection, "SELECT count(*) FROM events") == 6
    moved.server.stop()
