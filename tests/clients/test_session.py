"""psycopg 3: errors, prepared statements, cancel, timeouts, transactions, sessions."""

import threading
import time

import psycopg
import pytest

from conftest import AGAINST_POSTGRES
from tables import wait_until

FOREVER = ("SELECT count(*) FROM generate_series(1, 1000000) AS x(a), generate_series(1, 1000000) AS y(b) "
           "WHERE (a + b) % 7 = 3")


@pytest.mark.parametrize("sql, sqlstate", [
    ("SELEC 1", "42601"), ("SELECT * FROM nothing", "42P01"), ("SELECT nothing", "42703"),
    ("SELECT no_such_function(1)", "42883"), ("SELECT 1/0", "22012"), ("SELECT 'x'::int", "22P02"),
    ("SELECT 2147483647 + 1", "22003"), ("CREATE TABLE x (time TIMESTAMPTZ, time TIMESTAMPTZ)", "42701"),
    ("SET TimeZone = 'Nowhere'", "22023"), ("SHOW nothing_at_all", "42704"), ("DROP TABLE nothing", "42P01")])
def test_sqlstates(connection, sql, sqlstate):
    with pytest.raises(psycopg.Error) as error:
        connection.execute(sql)
    assert error.value.sqlstate == sqlstate
    assert error.value.diag.severity == "ERROR" and error.value.diag.message_primary
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_unique_and_not_null(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT NOT NULL, PRIMARY KEY (time))")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 2)")
    with pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute(f"INSERT INTO {table} VALUES ('2024-01-02', NULL)")
    assert connection.execute(f"SELECT v FROM {table}").fetchall() == [(1,)]


def test_statements_prepared_on_the_server(connection, table):
    connection.prepare_threshold = 0
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, k INT NOT NULL, v TEXT, PRIMARY KEY (k, time))")
    for n in range(50):
        connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)", (f"2024-01-01 00:00:{n:02d}+00", n % 5, f"v{n}"), prepare=True)
    for n in range(50):
        rows = connection.execute(f"SELECT v FROM {table} WHERE k = %s ORDER BY time LIMIT 1", (n % 7,), prepare=True).fetchall()
        assert rows == ([(f"v{n % 7}",)] if n % 7 < 5 else [])
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (50,)


def test_prepared_statements_follow_changes_of_the_table(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
    query = f"SELECT v FROM {table}"
    assert connection.execute(query, prepare=True).fetchall() == [(1,)]
    connection.execute(f"ALTER TABLE {table} ADD COLUMN w INT DEFAULT 5")
    assert connection.execute(query, prepare=True).fetchall() == [(1,)]
    connection.execute(f"INSERT INTO {table} (time, v) VALUES ('2024-01-02', 2)")
    assert sorted(connection.execute(query, prepare=True).fetchall()) == [(1,), (2,)]


def test_pipeline(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    with connection.pipeline():
        for n in range(100):
            connection.execute(f"INSERT INTO {table} VALUES (%s, %s)", (f"2024-01-01 00:{n // 60:02d}:{n % 60:02d}+00", n))
        cursor = connection.execute(f"SELECT count(*), sum(v) FROM {table}")
    assert cursor.fetchone() == (100, 4950)


def test_pipeline_skips_what_follows_an_error(connection):
    with pytest.raises(psycopg.Error):
        with connection.pipeline():
            connection.execute("SELECT 1/0")
            connection.execute("SELECT 1")
    assert connection.execute("SELECT 2").fetchone() == (2,)


def test_executemany(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)",
                           [(f"2024-01-01 00:{n // 60:02d}:{n % 60:02d}+00", n) for n in range(500)])
        assert cursor.rowcount == 500
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (500,)


def test_cancel(connection):
    failure = []

    def run():
        try:
            connection.execute(FOREVER)
        except psycopg.Error as error:
            failure.append(error.sqlstate)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    connection.cancel_safe(timeout=10)
    thread.join(20)
    assert failure == ["57014"]
    assert time.monotonic() - began < 5
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_statement_timeout_covers_execution(connection):
    connection.execute("SET statement_timeout = '300ms'")
    began = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(FOREVER)
    assert time.monotonic() - began < 5
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.execute("SET statement_timeout = 0")


def test_a_block_left_open_is_ended_and_gives_its_keys_back(server, connection):
    connection.execute(
        "CREATE TABLE left_open (time timestamptz PRIMARY KEY, v integer) WITH (collision = 'first')"
    )
    row = "INSERT INTO left_open VALUES ('2024-01-01', 1)"
    with psycopg.connect(server.dsn(), autocommit=True) as holder:
        holder.execute("SET idle_in_transaction_session_timeout = '400ms'")
        time.sleep(0.6)
        assert holder.execute("SELECT 1").fetchone() == (1,)
        holder.execute("BEGIN")
        holder.execute(row)
        # Waits for the end of the holder's transaction, and finds the key free.
        connection.execute(row.replace(", 1)", ", 2)"))
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout) as ended:
            holder.execute("SELECT 1")
        assert "idle-in-transaction" in str(ended.value)
    assert connection.execute("SELECT v FROM left_open").fetchall() == [(2,)]
    connection.execute("DROP TABLE left_open")


def test_cancel_with_a_wrong_secret_does_nothing(server, connection):
    import socket
    import struct
    pid = connection.info.backend_pid
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(struct.pack("!IIII", 16, 80877102, pid, 12345))
        raw.settimeout(5)
        assert raw.recv(1) == b""
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_sessions_do_not_share_settings(server, connection):
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        assert other.execute("SHOW TimeZone").fetchone() != ("Asia/Tokyo",)
    assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"


def test_startup_parameters(server):
    with psycopg.connect(server.dsn(application_name="tests"), options="-c TimeZone=Asia/Tokyo -c statement_timeout=5000",
                         autocommit=True) as opened:
        assert opened.execute("SHOW application_name").fetchone() == ("tests",)
        assert opened.execute("SHOW TimeZone").fetchone() == ("Asia/Tokyo",)
        assert opened.execute("SHOW statement_timeout").fetchone() == ("5s",)
        for name in ("server_version", "client_encoding", "DateStyle", "integer_datetimes", "standard_conforming_strings"):
            assert opened.info.parameter_status(name)


def test_unknown_database(server):
    with pytest.raises(psycopg.OperationalError) as error:
        psycopg.connect(server.dsn(dbname="no_such_database"))
    assert "no_such_database" in str(error.value)


def test_transaction_around_reads_and_one_write(server, table):
    with psycopg.connect(server.dsn()) as opened:
        opened.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
        opened.commit()
        opened.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
        opened.commit()
        assert opened.execute(f"SELECT v FROM {table}").fetchall() == [(1,)]
        opened.rollback()
        with pytest.raises(psycopg.Error):
            opened.execute("SELECT * FROM nothing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            opened.execute("SELECT 1")
        opened.rollback()
        assert opened.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.ours
def test_what_a_block_does_not_keep_is_refused(server, table):
    with psycopg.connect(server.dsn()) as opened:
        opened.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
        opened.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
        opened.execute(f"ALTER TABLE {table} ADD COLUMN w INT DEFAULT 3")
        assert opened.execute(f"SELECT v, w FROM {table}").fetchall() == [(1, 3)]
        opened.rollback()
        with pytest.raises(psycopg.errors.UndefinedTable):
            opened.execute(f"SELECT * FROM {table}")
        opened.rollback()
        opened.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
        opened.commit()
        opened.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
        for sql, error in ((f"SELECT _gsn FROM {table}", psycopg.errors.FeatureNotSupported),
                           (f"DROP TABLE {table}", psycopg.errors.FeatureNotSupported)):
            with pytest.raises(error):
                opened.execute(sql)
            opened.rollback()
            opened.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
        opened.rollback()
        assert opened.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.ours
def test_nested_transactions_and_pipelines(server, table):
    with psycopg.connect(server.dsn(), autocommit=True) as opened:
        opened.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
        insert = f"INSERT INTO {table} VALUES ('2024-01-01', %s)"
        with opened.transaction():
            opened.execute(insert, (1,))
            with pytest.raises(psycopg.errors.DivisionByZero), opened.transaction():
                opened.execute(insert, (2,))
                assert opened.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
                opened.execute("SELECT 1 / 0")
            with opened.transaction():
                opened.execute(insert, (3,))
            with opened.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
                copy.write_row(("2024-01-02", 4))
        values = f"SELECT array_agg(v ORDER BY v) FROM {table}"
        assert opened.execute(values).fetchone() == ([1, 3, 4],)
        with pytest.raises(psycopg.errors.DivisionByZero), opened.pipeline():
            opened.execute(insert, (5,))
            opened.execute("SELECT 1 / 0")
        with opened.pipeline():
            opened.execute(insert, (6,))
            opened.execute(insert, (7,))
        assert opened.execute(values).fetchone() == ([1, 3, 4, 6, 7],)


@pytest.mark.ours
def test_bad_definitions_and_overflow(connection, table):
    for options, sqlstate in (("no_such_option = 1", "22023"), ("granularity = '3 parsecs'", "22023"),
                              ("collision = 'sometimes'", "22023"), ("durability = 'hope'", "22023"),
                              ("retention = 'for ever'", "22023"), ("tiering = 'auto'", "0A000")):
        with pytest.raises(psycopg.Error) as error:
            connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL) WITH ({options})")
        assert error.value.sqlstate == sqlstate, (options, str(error.value))
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    for time in ("2500-01-01", "0001-01-01"):
        with pytest.raises(psycopg.Error) as error:
            connection.execute(f"INSERT INTO {table} VALUES (%s, 1)", (time,))
        assert error.value.sqlstate == "22008", (time, str(error.value))
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_names_of_computed_columns(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, k TEXT, v INT)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'a', 5), ('2024-01-03', 'b', 2)")
    for sql, rows in (
        ("SELECT k, max(v) FROM {} GROUP BY k ORDER BY max", [("b", 2), ("a", 5)]),
        ("SELECT k, count FROM (SELECT k, count(*) FROM {} GROUP BY k) s ORDER BY count DESC", [("a", 2), ("b", 1)]),
        ("WITH w AS (SELECT v, row_number() OVER (ORDER BY v) FROM {}) SELECT v FROM w WHERE row_number = 2", [(2,)]),
        ("SELECT DISTINCT ON (k) k, upper(k), -v AS v FROM {} ORDER BY k, upper, v", [("a", "A", -5), ("b", "B", -2)]),
    ):
        assert connection.execute(sql.format(table)).fetchall() == rows, sql


def test_many_connections_at_once(server):
    opened = [psycopg.connect(server.dsn(), autocommit=True) for _ in range(64)]
    assert [c.execute("SELECT %s", (n,)).fetchone()[0] for n, c in enumerate(opened)] == list(range(64))
    for c in opened:
        c.close()


def test_rows_are_fetched_as_they_come(connection):
    cursor = connection.cursor()
    total = sum(1 for _ in cursor.stream("SELECT n FROM generate_series(1, 20000) AS g(n)"))
    assert total == 20000


def test_empty_statements_and_comments(connection):
    connection.execute("")
    connection.execute(";")
    connection.execute("-- nothing but a comment")
    assert connection.execute("SELECT 1;").fetchone() == (1,)


def test_error_position(connection):
    with pytest.raises(psycopg.Error) as error:
        connection.execute("SELECT 1 FROM WHERE")
    assert error.value.diag.statement_position or not AGAINST_POSTGRES


@pytest.mark.ours
def test_refused_not_pretended(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    for sql in (f"UPDATE {table} SET v = 1", f"CREATE UNIQUE INDEX ON {table} (v)",
                "LISTEN x"):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute(sql)
    for sql in (f"COPY {table} FROM '/etc/passwd'", f"COPY {table} TO PROGRAM 'cat'"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(sql)


@pytest.mark.parametrize("removes", ["TRUNCATE {}", "DELETE FROM {}"])
def test_a_message_of_several_statements_removes_all_or_nothing(connection, table, removes):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT, PRIMARY KEY (time))")
    connection.execute(f"INSERT INTO {table} VALUES ('2026-01-01', 1), ('2026-01-02', 2)")
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute(f"{removes.format(table)}; INSERT INTO {table} SELECT '2026-01-03', 1 / (SELECT 0)")
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(f"INSERT INTO {table} VALUES ('2026-01-04', 4); {removes.format(table + '_missing')}")
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
    connection.execute(f"{removes.format(table)}; INSERT INTO {table} VALUES ('2026-01-02', 5)")
    assert connection.execute(f"SELECT v FROM {table}").fetchall() == [(5,)]


def test_now_has_the_digits_that_clients_read(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL DEFAULT now(), v INT)")
    connection.execute(f"INSERT INTO {table} (v) VALUES (1)")
    connection.execute(f"INSERT INTO {table} VALUES (now(), 2)")
    assert len(connection.execute(f"SELECT time FROM {table}").fetchall()) == 2


def test_a_prepared_fetch_has_the_shape_of_the_cursor(connection):
    for query, row in (("SELECT 1", (1,)), ("SELECT 'a', 2::bigint", ("a", 2)), ("SELECT 'b'", ("b",))):
        with connection.transaction():
            connection.execute(f"DECLARE c CURSOR FOR {query}")
            assert connection.execute("FETCH ALL FROM c", prepare=True).fetchall() == [row]


@pytest.mark.ours
def test_a_fetch_that_is_cancelled_ends_its_cursor(connection):
    connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {FOREVER}")
    connection.execute("SET statement_timeout = 200")
    for _ in range(2):
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("FETCH c")
    connection.execute("CLOSE c")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_terminated_session_ends_though_its_client_does_not_read(server, connection):
    other = psycopg.connect(server.dsn(), autocommit=True)
    other.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
    number = other.info.backend_pid
    assert connection.execute("SELECT pg_terminate_backend(%s)", (number,)).fetchone() == (True,)
    wait_until(connection, f"SELECT count(*) FROM pg_stat_activity WHERE pid = {number}", [(0,)])
    other.close()


def test_a_terminated_session_is_told_so(server, connection):
    other = psycopg.connect(server.dsn(), autocommit=True)
    connection.execute("SELECT pg_terminate_backend(%s)", (other.info.backend_pid,))
    with pytest.raises(psycopg.errors.AdminShutdown):
        other.execute("SELECT 1")
    assert other.closed
