"""Acquisitions (F8-F11) with psycopg: several connections, a broken connection, a restart, lines over HTTP."""

import datetime
import json
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from servers import Stratalog
from test_http import write
from test_subscribe import follow, told

pytestmark = pytest.mark.ours

HOLDER = """
import sys, psycopg
connection = psycopg.connect(sys.argv[1], autocommit=True)
connection.execute(sys.argv[2])
print("acquired" if len(sys.argv) < 4 else "waits", flush=True)
if len(sys.argv) > 3:
    connection.execute(sys.argv[3])
sys.stdin.read()
"""


@pytest.fixture
def made(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1), ('2024-01-02', 2), ('2024-01-03', 3)")
    return table


@pytest.fixture
def other(server):
    with psycopg.connect(server.dsn(), autocommit=True) as opened:
        yield opened


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def held_by_another_process(server, *statements):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, server.dsn(), *statements],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() in ("acquired", "waits")
    return process


def test_f8_exclusive_locks_writers_out(connection, other, made):
    connection.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE FOR INTERVAL '1 hour'")
    with pytest.raises(psycopg.errors.LockNotAvailable) as error:
        other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
    told = error.value.diag
    assert f"session {connection.info.backend_pid} has acquired the chronicle EXCLUSIVE until" in told.message_primary
    assert told.table_name == made and told.message_detail and told.message_hint
    with pytest.raises(psycopg.errors.LockNotAvailable):
        with other.cursor().copy(f"COPY {made} FROM STDIN") as copy:
            copy.write_row(("2024-01-04", 4))
    assert other.execute(f"SELECT count(*) FROM {made}").fetchone() == (3,)
    connection.execute(f"RELEASE CHRONICLE {made}")
    other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")


def test_f8_a_wait_ends_with_the_transaction_that_has_written(server, connection, other, made):
    other.autocommit = False
    other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
    waiting = threading.Thread(target=connection.execute, args=(f"ACQUIRE CHRONICLE {made} EXCLUSIVE",))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    other.commit()
    waiting.join(20)
    assert not waiting.is_alive()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute(f"INSERT INTO {made} VALUES ('2024-01-05', 5)")


def test_f8_a_wait_can_be_cancelled(connection, other, made):
    other.execute(f"ACQUIRE CHRONICLE {made}")
    threading.Timer(0.3, connection.cancel).start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE")
    connection.execute("SET lock_timeout = '50ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        connection.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE")


def test_f2_a_connection_that_is_killed_releases(server, connection, made):
    holder = held_by_another_process(server, f"ACQUIRE CHRONICLE {made} EXCLUSIVE")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        connection.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
    holder.send_signal(signal.SIGKILL)
    holder.wait(20)
    connection.execute("SET lock_timeout = '20s'")
    connection.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE")
    connection.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")


def test_f2_a_connection_that_is_killed_waits_no_longer(server, connection, other, made):
    connection.execute(f"ACQUIRE CHRONICLE {made}")
    waiting = held_by_another_process(server, "SELECT 1", f"ACQUIRE CHRONICLE {made} EXCLUSIVE")

    def locked_out():
        try:
            other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
        except psycopg.errors.LockNotAvailable:
            return True
        return False

    eventually(locked_out)
    waiting.send_signal(signal.SIGKILL)
    waiting.wait(20)
    eventually(lambda: not locked_out())


def test_f9_a_part_is_all_that_is_seen(connection, other, made):
    first, end = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "2024-01-03 00:00+00"
    query = f"SELECT count(*), min(v), max(v) FROM {made}"
    for _ in range(3):
        assert connection.execute(query, prepare=True).fetchone() == (3, 1, 3)
    connection.execute(f"ACQUIRE CHRONICLE {made} RANGE FROM %s TO %s FOR %s", (first, end, datetime.timedelta(hours=1)))
    for _ in range(3):
        assert connection.execute(query, prepare=True).fetchone() == (1, 2, 2)
    assert connection.execute(f"SELECT v FROM {made}").fetchall() == [(2,)]
    assert other.execute(f"SELECT v FROM {made} ORDER BY v").fetchall() == [(1,), (2,), (3,)]
    with connection.cursor().copy(f"COPY {made} (v) TO STDOUT") as copy:
        assert [row for row in copy.rows()] == [("2",)]
    with pytest.raises(psycopg.errors.WithCheckOptionViolation):
        connection.execute(f"INSERT INTO {made} VALUES (%s, 4)", (end,))
    connection.execute(f"RELEASE CHRONICLE {made}")
    assert connection.execute(query, prepare=True).fetchone() == (3, 1, 3)


def test_f10_a_lease_ends(connection, other, made):
    connection.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE FOR INTERVAL '300 ms'")
    began = time.monotonic()
    other.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE")
    assert 0.2 < time.monotonic() - began < 10
    with pytest.raises(psycopg.DatabaseError, match="the lease on chronicle") as lost:
        connection.execute(f"SELECT v FROM {made}")
    assert lost.value.sqlstate == "SL003"
    connection.execute(f"RELEASE CHRONICLE {made}")
    assert connection.execute(f"SELECT count(*) FROM {made}").fetchone() == (3,)


def test_f8_lines_that_are_locked_out_are_told_to_come_again(server, connection, table):
    assert write(server, f"{table},host=a v=1 1704067200000000000\n")[0] == 204
    connection.execute(f"ACQUIRE CHRONICLE {table} EXCLUSIVE")
    for lines in (f"{table},host=a v=2 1704067201000000000\n", f"{table},host=a,more=b v=2,w=3 1704067201000000000\n"):
        status, headers, body = write(server, lines)
        assert status == 429 and headers["Retry-After"] and b"has acquired the chronicle EXCLUSIVE" in body, body
    connection.execute(f"RELEASE CHRONICLE {table}")
    assert write(server, f"{table},host=a v=2 1704067201000000000\n")[0] == 204
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)


def test_f104_subscribers_are_not_locked_out(server, connection, made):
    connection.execute(f"ACQUIRE CHRONICLE {made} EXCLUSIVE")
    standings = f"SELECT standing FROM stratalog.acquisitions WHERE name = '{made}' ORDER BY standing"
    with follow(server, table=made) as answer:
        assert [json.loads(told(answer)["data"])["v"] for _ in range(3)] == [1, 2, 3]
        assert connection.execute(standings).fetchall() == [("held",), ("reading",)]
        connection.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
        assert json.loads(told(answer)["data"])["v"] == 4
    # The server notices the broken connection at its next message.
    connection.execute(f"INSERT INTO {made} VALUES ('2024-01-05', 5)")
    eventually(lambda: connection.execute(standings).fetchall() == [("held",)], 60)


def test_f7_a_table_goes_when_the_last_has_released_it(connection, other, made):
    other.execute(f"ACQUIRE CHRONICLE {made}")
    with pytest.raises(psycopg.errors.ObjectInUse, match="has acquired the chronicle SHARED"):
        connection.execute(f"DROP TABLE {made}")
    connection.execute(f"DROP TABLE {made} ASYNC")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is being dropped"):
        other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
    assert other.execute(f"SELECT count(*) FROM {made}").fetchone() == (3,)
    other.execute(f"RELEASE CHRONICLE {made}")
    tables = "SELECT count(*) FROM stratalog.chronicles WHERE name = %s"
    eventually(lambda: connection.execute(tables, (made,)).fetchone() == (0,))


@pytest.mark.parametrize("conflict", ["", " ON CONFLICT DO NOTHING"])
def test_f10_nobody_waits_for_what_a_lost_lease_wrote(connection, other, table, conflict):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT, PRIMARY KEY (time)) WITH (collision = 'first')")
    connection.execute(f"ACQUIRE CHRONICLE {table} EXCLUSIVE FOR '400 ms'")
    connection.execute("BEGIN")
    connection.execute(f"INSERT INTO {table} VALUES ('2025-01-01', 1)")
    time.sleep(0.6)
    other.execute("SET statement_timeout = '10s'")
    other.execute(f"ACQUIRE CHRONICLE {table} EXCLUSIVE")
    assert other.execute(f"INSERT INTO {table} VALUES ('2025-01-01', 2){conflict}").rowcount == 1
    with pytest.raises(psycopg.DatabaseError, match="the lease on chronicle") as lost:
        connection.execute("COMMIT")
    assert lost.value.sqlstate == "SL003"
    assert other.execute(f"SELECT v FROM {table}").fetchall() == [(2,)]


def test_f8_who_waits_and_says_goodbye_is_gone(server, connection, other, made):
    connection.execute(f"ACQUIRE CHRONICLE {made}")
    waits = f"SELECT count(*) FROM stratalog.acquisitions WHERE name = '{made}' AND standing = 'waiting'"
    leaving = psycopg.connect(server.dsn(), autocommit=True)
    leaving.pgconn.send_query(f"ACQUIRE CHRONICLE {made} EXCLUSIVE".encode())
    eventually(lambda: connection.execute(waits).fetchone() == (1,))
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")
    leaving.close()
    eventually(lambda: connection.execute(waits).fetchone() == (0,))
    other.execute(f"INSERT INTO {made} VALUES ('2024-01-04', 4)")


def test_a_shutdown_does_not_wait_for_who_waits(directory):
    with Stratalog(directory) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)")
            connection.execute("ACQUIRE CHRONICLE t")
            waiting = []
            for sql in ("ACQUIRE CHRONICLE t EXCLUSIVE",
                        "INSERT INTO t VALUES ('2024-01-01', 1) AFTER GSN 1000",
                        "SELECT v FROM read_record(1000, 't')"):
                waiting.append(psycopg.connect(server.dsn(), autocommit=True))
                waiting[-1].pgconn.send_query(sql.encode())
            active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
            eventually(lambda: connection.execute(active).fetchone() == (3,))
            began = time.monotonic()
            server.stop()
            assert time.monotonic() - began < 8
            for client in waiting:
                ended = client.pgconn.get_result()
                assert ended.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57P01"
                client.close()


def test_after_a_restart_nobody_holds_anything(scratch):
    directory = scratch / "acquired"
    with Stratalog(directory) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)")
            connection.execute("ACQUIRE CHRONICLE t EXCLUSIVE")
            server.kill()
    with Stratalog(directory) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("INSERT INTO t VALUES ('2024-01-01', 1)")
            connection.execute("ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT")
