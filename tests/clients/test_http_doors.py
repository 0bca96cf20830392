"""HTTP and line protocol with clients that send wrong requests, too many requests, or nothing."""

import concurrent.futures
import gzip
import json
import random
import socket
import threading
import time
import urllib.parse

import psycopg
import pytest

from servers import Stratalog
from test_http import ask, eventually, tcp, write

pytestmark = pytest.mark.ours


@pytest.fixture
def postgres(server):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def raw(port, data, seconds=10):
    """The whole answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), seconds) as line:
        line.settimeout(seconds)
        line.sendall(data)
        answer = b""
        try:
            while piece := line.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def request(server, head, body=b"", method="GET", path="/api/sql?q=SELECT+1"):
    head = "".join(f"{name}: {value}\r\n" for name, value in head)
    text = f"{method} {path} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = raw(server.http_port, text.encode() + body)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode().lower(), body.decode()


def test_hosts(server):
    port = server.http_port
    for host in ["127.0.0.1", f"127.0.0.1:{port}", "localhost", "LocalHost:1", "[::1]:8086", "a.localhost"]:
        assert request(server, [("Host", host)])[0] == 200, host
    for host in ["evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example"]:
        status, head, body = request(server, [("Host", host)])
        assert status == 403 and "http_hosts" in body and "nosniff" in head, host
    assert request(server, [("Host", "localhost"), ("Host", "evil.example")])[0] == 400
    assert request(server, [("Host", "user@localhost")])[0] == 400
    assert request(server, [("Host", "localhost")], path="http://evil.example/api/sql?q=SELECT+1")[0] == 403
    # HTTP/1.0 has no Host header.
    assert b"200 OK" in raw(port, b"GET /ping?verbose=true HTTP/1.0\r\n\r\n")


def test_origins(server):
    own = ("Host", f"localhost:{server.http_port}")
    allowed = [[], [("Origin", f"http://localhost:{server.http_port}")], [("Sec-Fetch-Site", "none")], [("Sec-Fetch-Site", "same-origin")]]
    refused = [[("Origin", "http://evil.example")], [("Origin", "null")], [("Origin", "http://localhost")], [("Sec-Fetch-Site", "same-site")],
               [("Sec-Fetch-Site", "cross-site")], [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "none")]]
    for head in allowed:
        assert request(server, [own, *head])[0] == 200, head
    for head in refused:
        for method, path in [("GET", "/api/sql?q=SELECT+1"), ("POST", "/api/sql?q=SELECT+1"), ("POST", "/write"), ("GET", "/health"),
                             ("GET", "/api/v1/subscribe?table=t"), ("OPTIONS", "/api/sql"), ("POST", "/v1/logs")]:
            status, _, body = request(server, [own, *head], b"", method, path)
            assert status == 403 and "http_origins" in body, (head, method, path, status)


def test_a_browsers_write_has_a_form_of_its_own(server, table):
    own = [("Host", f"localhost:{server.http_port}"), ("Origin", f"http://localhost:{server.http_port}")]
    line = f"{table} v=1 1\n".encode()
    for kind in ["text/plain", "application/x-www-form-urlencoded; charset=utf-8", "multipart/form-data", "TEXT/plain"]:
        assert request(server, [*own, ("Content-Type", kind)], line, "POST", "/write")[0] == 415, kind
    assert request(server, own, line, "POST", "/write")[0] == 415
    assert request(server, [*own, ("Content-Type", "application/octet-stream")], line, "POST", "/write")[0] == 204
    assert request(server, [*own, ("X-Requested-With", "x")], line, "POST", "/write")[0] == 204
    # Clients other than browsers are unaffected.
    for kind in ["text/plain", "application/x-www-form-urlencoded"]:
        assert request(server, [own[0], ("Content-Type", kind)], line, "POST", "/write")[0] == 204


WRITES = ["CREATE TABLE nope (time timestamptz)", "DROP TABLE TABLE_", "INSERT INTO TABLE_ VALUES (now(), 1)", "DELETE FROM TABLE_",
          "TRUNCATE TABLE_", "CALL stratalog.flush('TABLE_')", "CALL stratalog.backup('/tmp/x')", "BEGIN READ WRITE", "ALTER TABLE TABLE_ ADD x int",
          "SET default_transaction_read_only = off", "ACQUIRE TABLE TABLE_",
          "WITH x AS (SELECT 1) INSERT INTO TABLE_ SELECT now(), 1", "COMMENT ON TABLE TABLE_ IS 'x'", "CREATE SCHEMA nope"]


@pytest.mark.parametrize("path", ["/api/sql?q=", "/api/v3/query_sql?db=public&q=", "/exec?query="])
def test_get_only_reads(server, postgres, table, path):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, v int)")
    for statement in WRITES:
        text = statement.replace("TABLE_", table)
        status, _, body = ask(server, path + urllib.parse.quote(text))
        assert status == 400 and b"read" in body, (statement, status, body)
        if "exec" not in path:
            assert json.loads(body)["sqlstate"] == "25006", (statement, body)
    # Only queries can be explained, with any method.
    explained = f"EXPLAIN ANALYZE INSERT INTO {table} VALUES (now(), 1)"
    for method in ("GET", "POST"):
        status, _, body = ask(server, path + urllib.parse.quote(explained), b"" if method == "POST" else None, method)
        assert status == 501 and b"EXPLAIN" in body, (method, status, body)
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert ask(server, path + urllib.parse.quote(f"SELECT count(*) FROM {table}"))[0] == 200
    assert ask(server, path + urllib.parse.quote(f"INSERT INTO {table} VALUES (now(), 1)"), b"", "POST")[0] == 200
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_get_makes_and_drops_no_database(server, postgres, table):
    postgres.execute(f"CREATE SCHEMA s_{table}")
    for statement in (f"DROP+DATABASE+s_{table}", f"CREATE+DATABASE+t_{table}", f"create%20database%20t_{table};"):
        status, _, body = ask(server, f"/query?q={statement}")
        assert status == 400 and "read-only transaction" in json.loads(body)["error"] and b"POST" in body, (statement, body)
    assert postgres.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE %s", (f"%\\_{table}",)).fetchall() == [(f"s_{table}",)]


@pytest.mark.parametrize("first", [b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\r\n", b"GET /v=1 HTTP/1.0\r\n\r\n",
                                   b'POST /v="x HTTP/1.1\r\nHost: localhost\r\n\r\n" 1\n'])
def test_requests_of_http_at_other_doors(server, postgres, table, first):
    lines = f"{table} v=1 1\n{table} v=2 2\n".encode()
    for port in (server.ilp_port, server.port, server.flight_port):
        for cut in (len(first), 3):
            with socket.create_connection(("127.0.0.1", port), 10) as line:
                line.settimeout(30)
                line.sendall(first[:cut])
                time.sleep(0.05)
                try:
                    line.sendall(first[cut:] + lines)
                    while line.recv(1000):
                        pass
                except (ConnectionResetError, BrokenPipeError):
                    pass
    time.sleep(0.2)
    found = postgres.execute("SELECT table_name FROM information_schema.tables WHERE table_name IN (%s, 'GET', 'POST')", (table,)).fetchall()
    assert found == []


def test_nothing_behind_a_refused_line_is_stored_over_tcp(server, postgres, table):
    for kind, bad in enumerate(["oops", f"{table} v=oops 5", f'{table} v="x" 5', f"{table} t=1704067200000000t 5", f"{table} v==\x10abcdefgh 5"]):
        name = f"{table}_{kind}"
        good = f"{name} v=1i 1\n{name} v=2i 2\n"
        assert tcp(server, (good + bad.replace(table, name) + f"\n{name} v=3i 3\n{name} v=4i 4\n").encode()) == b""
        assert postgres.execute(f"SELECT v FROM {name} ORDER BY time").fetchall() == [(1,), (2,)], bad
    assert "protocol_version=1" in server.output() and "type timestamp are not offered" in server.output()


def test_a_line_that_its_table_refuses_is_refused_alone(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, host text, v int, PRIMARY KEY (host, time))")
    postgres.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'a', 1)")
    at = 1704067200000000000
    lines = f"{table}_x v=1 1\n{table},host=a v=2i {at}\n{table},host=b v=3i {at}\n{table},host=b v=4i {at}\n{table},host=a v=5i {at + 1000}\n{table}_x v=2 2\n"
    status, _, body = write(server, lines)
    told = json.loads(body)
    assert status == 400 and [error["line_number"] for error in told["data"]] == [2, 4], told
    assert all("same key and time" in error["error_message"] for error in told["data"])
    assert postgres.execute(f"SELECT host, v FROM {table} ORDER BY host, v").fetchall() == [("a", 1), ("a", 5), ("b", 3)]
    assert postgres.execute(f"SELECT count(*) FROM {table}_x").fetchone() == (2,)
    # All lines collide, and each API version reports the collision in its own format.
    for path, key in (("/write", "error"), ("/api/v2/write?bucket=public", "message")):
        status, _, body = write(server, f"{table},host=a v=9i {at}\n{table},host=b v=9i {at}\n", path)
        assert status == 400 and "line 1" in json.loads(body)[key] and "dropped=2" in json.loads(body)[key], body
    status, _, body = write(server, f"{table},host=c v=9i 5\n{table},host=b v=9i {at}\n", "/api/v3/write_lp?db=public&precision=ns&accept_partial=false")
    assert status == 409 and postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (3,)


def test_lines_out_of_range_are_refused_alone(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, v int) WITH (time_source = 'client')")
    # Starts the session of requests: events from before its start are refused.
    assert write(server, f"{table}_before v=1 1\n")[0] == 204
    now = time.time_ns()
    good = "".join(f"{table} v={n}i {now + n * 1000}\n" for n in range(200))
    bad = f"{table} v=9i 1000\n{table} v=9i {now + 10 ** 15}\n"
    status, _, body = write(server, bad + good + bad)
    told = json.loads(body)
    assert status == 400 and [error["line_number"] for error in told["data"]] == [1, 2, 203, 204], told
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (200,)
    postgres.execute(f"CREATE TABLE {table}_s (time timestamptz, v int) WITH (time_source = 'server')")
    status, _, body = write(server, f"{table}_s v=1i 1\n{table}_y v=1i 1\n")
    assert status == 400 and json.loads(body)["data"][0]["line_number"] == 1
    assert postgres.execute(f"SELECT count(*) FROM {table}_y").fetchone() == (1,)


def memory_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def test_lines_that_pad_rows_are_refused_before_they_fill_the_memory(tmp_path):
    with Stratalog(tmp_path / "data") as server:
        before = memory_bytes(server)
        # 150,000 rows of 1,500 columns are 1.8 GB.
        sparse = "".join(f"m_d f{n % 1500}=1\n" for n in range(150_000))
        status, _, body = write(server, sparse)
        assert status in (400, 413), body
        assert "line " in body.decode() and "several requests" in body.decode()
        tags = "".join(f"m_t,t{n % 1500}=x v=1\n" for n in range(150_000))
        status, _, body = write(server, tags)
        assert status in (400, 413) and "line " in body.decode(), body[:300]
        many = "".join(f"m{n % 300} f{n % 777}=1\n" for n in range(100_000))
        assert write(server, many)[0] in (204, 400, 413, 429)
        tcp(server, "".join(f"m_tcp f{n % 1500}=1 {n}\n" for n in range(20_000)).encode())
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(lambda _: write(server, sparse)[0], range(8)))
        assert set(statuses) <= {400, 413, 429, 503}, statuses
        assert ask(server, "/health")[0] == 200 and server.alive()
        assert memory_bytes(server) - before < 2_100 << 20
        # A request with little padding is stored as before.
        assert write(server, "".join(f"m_e f{n % 20}=1 {n}\n" for n in range(20_000)))[0] == 204


def test_long_bodies_leave_others_alone(tmp_path):
    with Stratalog(tmp_path / "data") as server:
        text = "".join(f"load,host=h{n % 1000} a={n},b={n}i,c=\"{n}\" {n}\n" for n in range(400_000)).encode()
        body = gzip.compress(text, 6)
        done = threading.Event()

        def send(_):
            while not done.is_set():
                write(server, body, Content_Encoding="gzip")

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for n in range(4):
                pool.submit(send, n)
            slowest = {"/health": 0, "/metrics": 0, "sql": 0}
            until = time.monotonic() + 12
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                while time.monotonic() < until:
                    for path in ("/health", "/metrics", "sql"):
                        begun = time.monotonic()
                        if path == "sql":
                            connection.execute("SELECT 1")
                        else:
                            assert ask(server, path)[0] == 200
                        slowest[path] = max(slowest[path], time.monotonic() - begun)
                    time.sleep(0.02)
            done.set()
        assert max(slowest.values()) < 3, slowest


def test_silent_connections_keep_nobody_out(tmp_path):
    with Stratalog(tmp_path / "data", "--connections-max", "20") as server:
        ports = (server.http_port, server.ilp_port, server.flight_port, server.port)
        silent = [socket.create_connection(("127.0.0.1", port), 10) for port in ports for _ in range(120)]
        # Some connections have begun a request and then stay silent.
        for line in silent[:120:3]:
            line.sendall(b"GET /he")
        # Of the Flight connections, most have begun HTTP/2 and then make no call.
        for line in silent[240:340]:
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        begun = time.monotonic()
        for _ in range(30):
            assert ask(server, "/health")[0] == 200
        assert write(server, "t v=1i 1\n")[0] == 204
        assert tcp(server, b"t v=2i 2\n") == b""
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            eventually(connection, "SELECT count(*) FROM t", (2,))
        import adbc_driver_flightsql.dbapi as flight
        with flight.connect(server.flight_uri()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchall() == [(2,)]
        assert time.monotonic() - begun < 15
        for line in silent:
            line.close()


def test_half_lines_leave_when_others_come(tmp_path):
    """A connection that is silent for half a minute is closed if another client needs its place; its lines are
    stored."""
    with Stratalog(tmp_path / "data", "--connections-max", "10") as server:
        half = [socket.create_connection(("127.0.0.1", server.ilp_port), 10) for _ in range(10)]
        for number, line in enumerate(half):
            line.sendall(f"h n={number}i {number + 1}\nh x=".encode())
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            eventually(connection, "SELECT count(*) FROM h", (10,))
            # Bytes of an unfinished line do not keep the connection's place.
            for _ in range(32):
                time.sleep(1)
                for line in half[:3] + half[4:]:
                    line.sendall(b"1")
            half[3].sendall(b"7i 3000\n")
            eventually(connection, "SELECT count(*) FROM h", (11,))
            for number in range(8):
                assert tcp(server, f"t v={number}i {number + 1}\n".encode()) == b""
            eventually(connection, "SELECT count(*) FROM t", (8,))
            half[3].sendall(b"h x=8i 4000\n")
            eventually(connection, "SELECT count(*) FROM h", (12,))
        for line in half:
            line.close()


def test_bodies_without_progress_leave_when_others_come(tmp_path):
    """A request whose body has stopped for a second gives up its place to another request; a body that keeps coming
    stays."""
    with Stratalog(tmp_path / "data", "--connections-max", "10") as server:
        body = b"steady v=1i 1\n#" + b"-" * 25 + b"\n"

        def begin(length):
            line = socket.create_connection(("127.0.0.1", server.http_port), 30)
            line.sendall(b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length)
            return line

        steady, stopped = begin(len(body)), [begin(1000) for _ in range(9)]
        for line in stopped:
            line.sendall(b"a")
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            for at in range(len(body)):
                steady.sendall(body[at:at + 1])
                time.sleep(0.1)
                if at == 20:
                    # All at the same time: each request needs a place of its own.
                    asked = [pool.submit(ask, server, "/api/sql?q=SELECT+pg_sleep(0.5)") for _ in range(9)]
            answers = [request.result() for request in asked]
        assert [status for status, _, _ in answers] == [200] * 9, answers
        for line in stopped:
            assert line.recv(65536).startswith(b"HTTP/1.1 429 ")
        assert steady.recv(65536).startswith(b"HTTP/1.1 204 ")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT v FROM steady").fetchall() == [(1,)]
        for line in [steady, *stopped]:
            line.close()


def test_fields_of_concurrent_requests_make_one_row(server, postgres, table):
    tables = [f"{table}_{number}" for number in range(3)]
    postgres.execute(f"CREATE TABLE {table}_0 (host text, time timestamptz(9), f0 bigint, PRIMARY KEY (host, time)) WITH (collision = 'merge')")
    failed = []

    def send(field):
        chosen = random.Random(field)
        lines = [f"{name},host=h{number % 7} f{field}={number}i {number}" for name in tables for number in range(300)]
        chosen.shuffle(lines)
        for start in range(0, len(lines), 100):
            status, _, body = write(server, "\n".join(lines[start:start + 100]))
            if status != 204:
                failed.append((status, body))

    threads = [threading.Thread(target=send, args=[field]) for field in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    fields = ", ".join(f"count(f{field}), sum(f{field})" for field in range(8))
    for name in tables:
        for _ in range(2):
            assert postgres.execute(f"SELECT count(*), {fields} FROM {name}").fetchone() == (300, *(300, 44850) * 8)
            postgres.execute(f"CALL stratalog.flush('{name}')")


def test_a_row_that_merges_to_more_than_the_log_takes_is_refused_alone(server, postgres, table):
    large = "x" * 1_000_000
    for field in range(16):
        assert write(server, f'{table},host=a f{field}="{large}" 1000')[0] == 204
    lines = f'{table}_other,host=b q=1i 1000\n{table},host=a f16="{large}" 1000\n{table},host=c q=2i 1000\n'
    status, _, body = write(server, lines)
    assert status == 400 and b"larger than the maximum" in body and b'"line_number":2' in body.replace(b" ", b""), (status, body[:500])
    assert postgres.execute(f"SELECT q FROM {table}_other").fetchall() == [(1,)]
    assert postgres.execute(f"SELECT host, q, length(f15) FROM {table} ORDER BY 1").fetchall() == [("a", None, 1_000_000), ("c", 2, None)]


def test_a_delete_that_waits_for_a_merge_can_be_stopped(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, x int, y int, PRIMARY KEY (time)) WITH (collision = 'merge')")
    postgres.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1, NULL), ('2024-01-02', 1, NULL)")
    with psycopg.connect(server.dsn()) as block:
        block.execute(f"INSERT INTO {table} VALUES ('2024-01-01', NULL, 2)")
        postgres.execute("SET statement_timeout = '300ms'")
        gsn = postgres.execute(f"SELECT max(_gsn) FROM {table}").fetchone()[0]
        for statement in (f"DELETE FROM {table}", f"DELETE FROM {table} WHERE time < '2024-01-02'", f"TRUNCATE {table}",
                          f"TRIM {table} BEFORE GSN {gsn}", f"INSERT INTO {table} VALUES ('2024-01-01', 3, NULL)"):
            with pytest.raises(psycopg.errors.QueryCanceled):
                postgres.execute(statement)
        postgres.execute(f"INSERT INTO {table} VALUES ('2024-01-02', NULL, 5)")
        block.commit()
    assert postgres.execute(f"SELECT x, y FROM {table} ORDER BY time").fetchall() == [(1, 2), (1, 5)]
    assert postgres.execute(f"DELETE FROM {table}").rowcount == 2


def test_lines_that_wait_for_a_block_hold_up_no_other_lines(server, postgres, table):
    """Thirty large requests wait for a key of an open block; lines of another table are stored at once."""
    note = "x" * 100
    lines = "".join(f'{table},host=h{number} note="{note}" 1000\n' for number in range(200))
    assert write(server, lines)[0] == 204
    with psycopg.connect(server.dsn()) as block, concurrent.futures.ThreadPoolExecutor(31) as pool:
        block.execute(f"INSERT INTO {table} (host, time, note) VALUES ('h0', '1970-01-01 00:00:00.000001Z', 'block')")
        waiting = [pool.submit(write, server, lines.replace(note, f"note {number}" + "y" * 100)) for number in range(30)]
        time.sleep(1)
        assert not any(request.done() for request in waiting)
        other = pool.submit(write, server, lines.replace(f"{table},", f"{table}_other,"))
        answered = concurrent.futures.wait([other], 10).done
        block.commit()
        assert answered and other.result()[0] == 204
        assert [request.result(60)[0] for request in waiting] == [204] * 30
    assert postgres.execute(f"SELECT count(*), count(DISTINCT note) FROM {table}").fetchone()[0] == 200


def test_get_ends_no_session(server, postgres):
    number = postgres.execute("SELECT pg_backend_pid()").fetchone()[0]
    for call in ("pg_terminate_backend", "pg_cancel_backend"):
        status, _, body = ask(server, f"/api/sql?q=SELECT+{call}({number})")
        assert status == 400 and json.loads(body)["sqlstate"] == "25006" and b"POST" in body, (status, body)
    assert postgres.execute("SELECT 1").fetchone() == (1,)


def test_health_has_a_place_when_all_others_are_taken(tmp_path):
    with Stratalog(tmp_path / "data", "--connections-max", "10") as server:
        slow = [socket.create_connection(("127.0.0.1", server.http_port), 10) for _ in range(40)]

        def send(data):
            # Bodies with progress keep their places; the requests beyond the limit have ended.
            for line in slow:
                try:
                    line.sendall(data)
                except (ConnectionResetError, BrokenPipeError):
                    pass

        send(b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nt v=")
        time.sleep(0.5)
        for path in ("/health", "/metrics", "/ping"):
            assert ask(server, path)[0] in (200, 204)
        send(b"1")
        time.sleep(0.1)
        status, headers, body = ask(server, "/api/sql?q=SELECT+1")
        assert status == 429 and headers["Retry-After"] and json.loads(body)["sqlstate"] == "53300"
        for line in slow:
            line.close()
        deadline = time.monotonic() + 10
        while ask(server, "/api/sql?q=SELECT+1")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_lines_of_one_request_with_one_time_are_one_row(server, postgres, table):
    lines = (f"{table},host=a x=1i 1\n{table},host=b x=2i 1\n{table},host=a y=3i 1\n{table},host=a x=4i 2\n{table},host=a y=5i,x=6i 1\n"
             f"{table} y=7i 1\n{table} x=8i 1\n")
    assert write(server, lines)[0] == 204
    # The times differ by nanoseconds, which an epoch in microseconds cannot express.
    rows = (f"SELECT host, x, y, CASE time WHEN '1970-01-01 00:00:00.000000001Z' THEN 1 WHEN '1970-01-01 00:00:00.000000002Z' THEN 2 END"
            f" FROM {table} ORDER BY 1, 4")
    assert postgres.execute(rows).fetchall() == [("", 8, 7, 1), ("a", 6, 5, 1), ("a", 4, None, 2), ("b", 2, None, 1)]
    # Another request replaces the field, and the other fields stay.
    assert write(server, f"{table},host=a x=9i 1\n")[0] == 204
    assert postgres.execute(rows).fetchall()[1] == ("a", 9, 5, 1)
    assert postgres.execute(f"SELECT collision FROM stratalog.chronicles WHERE name = '{table}'").fetchone() == ("merge",)
    # In a table with another rule, another request replaces the row.
    postgres.execute(f"CREATE TABLE {table}_last (host text, time timestamptz(9), x int, y int, PRIMARY KEY (host, time))"
                     " WITH (collision = 'last')")
    assert write(server, f"{table}_last,host=a x=1i 1\n{table}_last,host=a y=2i 1\n")[0] == 204
    assert postgres.execute(f"SELECT x, y FROM {table}_last").fetchall() == [(1, 2)]
    assert write(server, f"{table}_last,host=a x=3i 1\n")[0] == 204
    assert postgres.execute(f"SELECT x, y FROM {table}_last").fetchall() == [(3, None)]
    # Over TCP the lines of one connection merge, too.
    assert tcp(server, f"{table},host=c x=1i 5\n{table},host=c y=2i 5\n".encode()) == b""
    eventually(postgres, f"SELECT x, y FROM {table} WHERE host = 'c'", (1, 2))
    # Tables that keep every row also keep every line.
    postgres.execute(f"CREATE TABLE {table}_all (time timestamptz, x int, y int) WITH (collision = 'all')")
    assert write(server, f"{table}_all x=1i 1\n{table}_all y=2i 1\n")[0] == 204
    assert postgres.execute(f"SELECT count(*) FROM {table}_all").fetchone() == (2,)
