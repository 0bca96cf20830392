"""psycopg 3: COPY IN and OUT, and every error in the data."""

import datetime as dt
import os
import socket

import psycopg
import pytest

COLUMNS = "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v DOUBLE PRECISION, n INT, PRIMARY KEY (host, time)"


@pytest.fixture
def target(connection, table):
    connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'there', 1, 1)")
    return table


def count(connection, table):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def copy_in(connection, sql, *chunks):
    with connection.cursor() as cursor:
        with cursor.copy(sql) as copy:
            for chunk in chunks:
                copy.write(chunk)
        return cursor.rowcount


def test_rows_in_and_out(connection, target):
    rows = [(dt.datetime(2024, 2, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=n), f"h{n % 3}", n / 4, n or None)
            for n in range(5000)]
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {target} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount == 5000
        with cursor.copy(f"COPY (SELECT * FROM {target} WHERE host <> 'there' ORDER BY time) TO STDOUT") as copy:
            copy.set_types(["timestamptz", "text", "float8", "int4"])
            assert list(copy.rows()) == rows


def test_chunks_cut_anywhere(connection, target):
    data = b"".join(f"2024-02-01 00:00:{n:02d}+00\th\\t{n}\t{n}.5\t\\N\n".encode() for n in range(60))
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert copy_in(connection, f"COPY {target} FROM STDIN", *pieces) == 60
    rows = connection.execute(f"SELECT host, v, n FROM {target} WHERE time > '2024-01-31' ORDER BY time").fetchall()
    assert rows == [(f"h\t{n}", n + 0.5, None) for n in range(60)]


def test_csv_forms(connection, target):
    data = ('time,host,v,n\r\n2024-02-01,"with ""quote"", comma\nand line",1.5,\r\n'
            '2024-02-02,"",,7\r\n')
    assert copy_in(connection, f"COPY {target} FROM STDIN WITH (FORMAT csv, HEADER true)", data) == 2
    rows = connection.execute(f"SELECT host, v, n FROM {target} WHERE time > '2024-01-31' ORDER BY time").fetchall()
    assert rows == [('with "quote", comma\nand line', 1.5, None), ("", None, 7)]
    with connection.cursor().copy(f"COPY (SELECT host, n FROM {target} ORDER BY time) TO STDOUT (FORMAT csv, HEADER)") as copy:
        out = b"".join(bytes(chunk) for chunk in copy).decode()
    assert out == 'host,n\nthere,1\n"with ""quote"", comma\nand line",\n"",7\n'


def test_some_columns_and_defaults(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, a INT DEFAULT 5, b TEXT DEFAULT 'x')")
    copy_in(connection, f"COPY {table} (b, time) FROM STDIN", "y\t2024-01-01\n\\N\t2024-01-02\n")
    assert connection.execute(f"SELECT a, b FROM {table} ORDER BY time").fetchall() == [(5, "y"), (5, None)]


def test_last_line_without_its_end_and_end_marker(connection, target):
    assert copy_in(connection, f"COPY {target} FROM STDIN", "2024-02-01\th\t1\t1") == 1
    assert copy_in(connection, f"COPY {target} FROM STDIN", "2024-02-02\th\t1\t1\n\\.\n") == 1


GOOD = "2024-02-01\ta\t1\t1\n"
BAD = {
    "too few columns": (GOOD + "2024-02-02\ta\t1\n", "22P04", 2, None),
    "too many columns": (GOOD + GOOD.replace("a", "b") + "2024-02-02\ta\t1\t1\t1\n", "22P04", 3, None),
    "bad integer": (GOOD + "2024-02-02\ta\t1\t1x\n", "22P02", 2, "n"),
    "integer out of range": (GOOD + "2024-02-02\ta\t1\t9999999999\n", "22003", 2, "n"),
    "bad float": (GOOD + "2024-02-02\ta\tone\t1\n", "22P02", 2, "v"),
    "bad time": ("then\ta\t1\t1\n", "22007", 1, "time"),
    "time out of range": (GOOD + "2024-02-31\ta\t1\t1\n", "22008", 2, "time"),
    "null in a not null column": (GOOD + "2024-02-02\t\\N\t1\t1\n", "23502", 2, None),
    "null tick": (GOOD + "\\N\ta\t1\t1\n", "23502", 2, None),
    "key that exists": (GOOD + "2024-01-01\tthere\t1\t1\n", "23505", None, None),
    "key twice": (GOOD + GOOD, "23505", None, None),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_stores_nothing_and_says_where(connection, target, name):
    data, sqlstate, line, column = BAD[name]
    with pytest.raises(psycopg.Error) as error:
        copy_in(connection, f"COPY {target} FROM STDIN", data)
    assert error.value.sqlstate == sqlstate, str(error.value)
    context = (error.value.diag.context or "") + str(error.value)
    if line is not None:
        assert f"line {line}" in context
    if column is not None:
        assert f"column {column}" in context
    assert count(connection, target) == 1


def test_bad_row_after_many_good_ones(connection, target):
    good = b"".join(b"2024-03-01 %02d:%02d:%02d+00\tm\t1.5\t%d\n" % (n // 3600, n // 60 % 60, n % 60, n) for n in range(80_000))
    with pytest.raises(psycopg.Error) as error:
        copy_in(connection, f"COPY {target} FROM STDIN", good, b"2024-03-02\tm\tbad\t1\n")
    assert error.value.sqlstate == "22P02"
    assert "line 80001" in error.value.diag.context
    assert count(connection, target) == 1
    # The keys of the refused rows are free.
    assert copy_in(connection, f"COPY {target} FROM STDIN", good) == 80_000


def test_bad_encodings(connection, target):
    for raw in (b"2024-02-01\t\xff\xfe\t1\t1\n", b"2024-02-01\ta\xc3\t1\t1\n", b"2024-02-01\ta\x00b\t1\t1\n"):
        with pytest.raises(psycopg.Error) as error:
            copy_in(connection, f"COPY {target} FROM STDIN", GOOD, raw)
        assert error.value.sqlstate == "22021"
        assert "line 2" in error.value.diag.context
    assert count(connection, target) == 1


def test_bad_csv(connection, target):
    for data, sqlstate in (('2024-02-01,"open,1,1\n', "22P04"), ("2024-02-01,a,1\n", "22P04"),
                           ("2024-02-01,a,1,1,1\n", "22P04")):
        with pytest.raises(psycopg.Error) as error:
            copy_in(connection, f"COPY {target} FROM STDIN (FORMAT csv)", data)
        assert error.value.sqlstate == sqlstate
    assert count(connection, target) == 1


@pytest.mark.ours
def test_tick_overflow(connection, target):
    with pytest.raises(psycopg.Error) as error:
        copy_in(connection, f"COPY {target} FROM STDIN", GOOD, "9999-01-01 00:00:00+00\ta\t1\t1\n")
    assert error.value.sqlstate == "22008"
    assert count(connection, target) == 1


def test_options_that_do_not_exist(connection, target):
    for options, sqlstates in (("FORMAT nothing", {"22023"}), ("COLOUR red", {"42601", "22023"}),
                               ("DELIMITER 'ab'", {"0A000", "42601"}), ("FORMAT csv, QUOTE 'xx'", {"0A000", "42601"})):
        with pytest.raises(psycopg.Error) as error:
            copy_in(connection, f"COPY {target} FROM STDIN ({options})", GOOD)
        assert error.value.sqlstate in sqlstates, (options, str(error.value))
    with pytest.raises(psycopg.Error) as error:
        copy_in(connection, "COPY nothing FROM STDIN", GOOD)
    assert error.value.sqlstate == "42P01"
    with pytest.raises(psycopg.Error) as error:
        copy_in(connection, f"COPY {target} (time, nothing) FROM STDIN", GOOD)
    assert error.value.sqlstate == "42703"


def test_client_gives_up(connection, target):
    class GiveUp(Exception):
        pass

    with pytest.raises(GiveUp):
        with connection.cursor().copy(f"COPY {target} FROM STDIN") as copy:
            copy.write(GOOD)
            raise GiveUp
    assert count(connection, target) == 1
    assert copy_in(connection, f"COPY {target} FROM STDIN", GOOD) == 1


def test_client_gone_mid_copy(server, connection, target):
    other = psycopg.connect(server.dsn(), autocommit=True)
    other.pgconn.exec_(f"COPY {target} FROM STDIN".encode())
    other.pgconn.put_copy_data(b"".join(b"2024-04-01 00:%02d:%02d+00\tg\t1\t1\n" % (n // 60, n % 60) for n in range(3000)))
    other.pgconn.flush()
    raw = socket.socket(fileno=os.dup(other.pgconn.socket))
    raw.shutdown(socket.SHUT_RDWR)
    raw.close()
    other.close()
    for _ in range(50):
        assert count(connection, target) == 1
    assert copy_in(connection, f"COPY {target} FROM STDIN", "2024-04-01 00:00:00+00\tg\t1\t1\n") == 1


def test_query_inside_copy_is_a_protocol_matter(connection, target):
    connection.pgconn.exec_(f"COPY {target} FROM STDIN".encode())
    connection.pgconn.put_copy_end(b"changed my mind")
    result = connection.pgconn.get_result()
    assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57014"
    while connection.pgconn.get_result() is not None:
        pass
    assert count(connection, target) == 1
