"""The log by position, with psycopg and an HTTP client: SUBSCRIBE, TRIM, AFTER GSN, read_record."""

import json
import threading
import urllib.error
import urllib.parse
import urllib.request

import psycopg
import pytest

from servers import Stratalog

pytestmark = pytest.mark.ours


@pytest.fixture
def events(connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1), ('2024-01-02', 2)")
    yield table
    connection.execute(f"DROP TABLE {table}")


def insert(connection, table, v):
    sql = f"INSERT INTO {table} VALUES ('2024-01-03', %s) RETURNING _gsn"
    return connection.execute(sql, (v,)).fetchone()[0]


def test_a_copy_is_a_feed(server, connection, events):
    with psycopg.connect(server.dsn(), autocommit=True) as reader:
        with reader.cursor().copy(f"COPY (SUBSCRIBE {events}) TO STDOUT") as copy:
            rows = copy.rows()
            assert [next(rows)[3] for _ in range(2)] == ["1", "2"]
            for v in range(3, 10):
                gsn = insert(connection, events, v)
                row = next(rows)
                assert (int(row[0]), row[1], row[3]) == (gsn, None, str(v))
            threading.Timer(0.1, reader.cancel).start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                next(rows)
        assert reader.execute("SELECT 1").fetchone() == (1,)


def test_a_cursor_goes_on_where_another_ended(server, connection, events):
    seen = []
    for v in range(3, 8):
        with psycopg.connect(server.dsn()) as reader:
            reader.execute("SET subscribe_wait = '100ms'")
            behind = seen[-1][0] if seen else 0
            reader.execute(f"DECLARE c CURSOR FOR SUBSCRIBE {events} FROM GSN {behind + 1}")
            while rows := reader.execute("FETCH 100 FROM c").fetchall():
                seen += rows
        insert(connection, events, v)
    assert [row[3] for row in seen] == list(range(1, 7))
    assert [row[0] for row in seen] == sorted(row[0] for row in seen)


def test_rows_are_streamed(server, connection, events):
    with psycopg.connect(server.dsn(), autocommit=True) as reader:
        rows = reader.cursor().stream(f"SUBSCRIBE {events} WHERE v > %s", (1,))
        assert next(rows)[3] == 2
        insert(connection, events, 0)
        insert(connection, events, 3)
        assert next(rows)[3] == 3
        reader.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            next(rows)


def test_what_was_trimmed_is_told(connection, events):
    gsn = insert(connection, events, 3)
    assert connection.execute(f"TRIM {events} BEFORE GSN {gsn}").statusmessage == "TRIM 2"
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(f"SELECT * FROM read_record({gsn - 1}, '{events}')")
    assert refused.value.sqlstate == "72000"
    assert connection.execute(f"SELECT v FROM read_record(%s, '{events}')", (gsn,)).fetchone() == (3,)
    connection.execute(f"DECLARE gaps CURSOR WITH HOLD FOR SUBSCRIBE {events} FROM GSN {gsn - 1}")
    rows = connection.execute("FETCH ALL FROM gaps").fetchall()
    connection.execute("CLOSE gaps")
    assert [row[:2] for row in rows] == [(gsn - 1, f"gsn [{gsn - 1}, {gsn}) deleted"), (gsn, None)]


def test_a_writer_comes_after_what_it_was_told_of(server, connection, events):
    gsn = connection.execute("SELECT head_of_log()").fetchone()[0] + 1
    with psycopg.connect(server.dsn(), autocommit=True) as later:
        got = []
        sql = f"INSERT INTO {events} VALUES ('2024-01-04', 9) AFTER GSN {gsn} RETURNING _gsn"
        waiting = threading.Thread(target=lambda: got.extend(later.execute(sql).fetchone()))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert insert(connection, events, 8) >= gsn
        waiting.join(10)
    assert got and got[0] > gsn


def told(answer):
    """The fields of the next server-sent event; comments are skipped."""
    fields = {}
    for line in answer:
        line = line.decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if line:
            name, value = line.split(": ", 1)
            fields[name] = value
        elif fields:
            return fields
    return None


def follow(server, last=None, **parameters):
    url = f"http://127.0.0.1:{server.http_port}/api/v1/subscribe?{urllib.parse.urlencode(parameters)}"
    request = urllib.request.Request(url, headers={"Last-Event-ID": str(last)} if last else {})
    return urllib.request.urlopen(request, timeout=20)


def test_server_sent_events(server, connection, events):
    with follow(server, table=events, where="v <> 2") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        first = told(answer)
        assert json.loads(first["data"])["v"] == 1
        insert(connection, events, 2)
        gsn = insert(connection, events, 3)
        third = told(answer)
        assert third["id"] == str(gsn)
        assert json.loads(third["data"]) == {"_gsn": gsn, "time": "2024-01-03 00:00:00+00", "v": 3}
    # A reconnecting browser.
    with follow(server, last=first["id"], table=events) as answer:
        assert json.loads(told(answer)["data"])["v"] == 2
    connection.execute(f"TRIM {events} BEFORE GSN {gsn}")
    with follow(server, table=events, gsn=gsn - 1) as answer:
        gap = told(answer)
        assert (gap["event"], json.loads(gap["data"])["gap"]) == ("gap", f"gsn [{gsn - 1}, {gsn}) deleted")
        assert told(answer)["id"] == str(gsn)
    for wrong in [{}, {"table": "nobody"}, {"table": events, "gsn": "x"}, {"table": events, "where": "1); SELECT (2"}]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            follow(server, **wrong)
        assert refused.value.code in (400, 404)
        refused.value.close()


def test_who_comes_again_before_the_first_event_misses_none(server, connection, events):
    with follow(server, table=events, live="true") as answer:
        begun = told(answer)
        assert begun == {"id": str(connection.execute("SELECT head_of_log()").fetchone()[0])}
    gsn = insert(connection, events, 3)
    with follow(server, last=begun["id"], table=events, live="true") as answer:
        assert told(answer)["id"] == str(gsn)
    # InfluxDB's clients name a database.
    with follow(server, table=events, db="stratalog", gsn=gsn) as answer:
        assert told(answer)["id"] == str(gsn)


def test_an_answer_has_an_end(server, events):
    for path in ("/api/sql", "/exec"):
        query = urllib.parse.urlencode({"q": f"SUBSCRIBE {events}", "query": f"SUBSCRIBE {events}"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}?{query}", timeout=20)
        assert b"SUBSCRIBE has none" in refused.value.read()
        refused.value.close()


def test_a_trim_survives_a_kill(directory):
    with Stratalog(directory) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)")
            connection.execute("INSERT INTO t SELECT now() - n * interval '1 s', n FROM generate_series(1, 1000) AS g(n)")
            connection.execute("CALL stratalog.flush('t')")
            connection.execute("INSERT INTO t SELECT now() - n * interval '1 s', n FROM generate_series(1001, 2000) AS g(n)")
            assert connection.execute("TRIM t BEFORE GSN 1501").statusmessage == "TRIM 1500"
        server.kill()
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT count(*), min(v) FROM t").fetchone() == (500, 1501)
            connection.execute("DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE t")
            rows = connection.execute("FETCH ALL FROM c").fetchall()
            assert rows[0][:2] == (1, "gsn [1, 1501) deleted")
            connection.execute("CALL stratalog.compact('t')")
            assert connection.execute("SELECT count(*), min(v) FROM t").fetchone() == (500, 1501)


def test_a_column_with_the_name_of_gaps_is_a_column(server, connection, table):
    connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, _gap TEXT, v INT)")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'hello', 1), ('2024-01-02', NULL, 2)")
    with follow(server, table=table) as answer:
        for expected in (("hello", 1), (None, 2)):
            event = told(answer)
            assert "event" not in event
            data = json.loads(event["data"])
            assert (data["_gap"], data["v"]) == expected


def test_a_shutdown_does_not_wait_for_subscribers(directory):
    with Stratalog(directory) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)")
            with follow(server, table="t") as answer, psycopg.connect(server.dsn(), autocommit=True) as reader:
                rows = reader.cursor().stream("SUBSCRIBE t")
                connection.execute("INSERT INTO t VALUES ('2024-01-01', 1)")
                assert next(rows)[3] == 1 and json.loads(told(answer)["data"])["v"] == 1
                server.stop()
                with pytest.raises(psycopg.OperationalError):
                    next(rows)
                assert told(answer)["event"] == "error"
