"""A server with 2 GB of memory, and clients that request more (CL-10)."""

import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import psycopg
import pytest

from groups import MemoryGroup
from servers import Stratalog
from wire import Wire

pytestmark = pytest.mark.ours

LIMIT = 2 << 30

HOSTILE = [
    "SELECT length(replace(repeat('a',1000000),'a',repeat('b',10000)))",
    "SELECT length(" + " || ".join(["repeat('x',100000000)"] * 30) + ")",
    "SELECT length(repeat('x', 1000000000))",
    "SELECT repeat('x', 100000000)",
    "SELECT length(lpad('x', 1000000000, 'ab'))",
    "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 10000), 'g'))",
    "SELECT length(translate(repeat('a', 90000000), 'a', 'é'))",
    "SELECT length(format('%1000000000s', 'x'))",
    "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM generate_series(1, 5000)",
    "SELECT length(string_agg(g::text, repeat('x', 1000000))) FROM generate_series(1, 5000) g",
    "SELECT array_length(array_agg(repeat('x', 1000000) || g), 1) FROM generate_series(1, 5000) g",
    "SELECT length(jsonb_agg(repeat('x', 1000000) || g)::text) FROM generate_series(1, 5000) g",
    "SELECT length(to_jsonb(repeat(chr(1), 60000000))::text)",
    "SELECT array_length(array_fill(1, array[30000000]), 1)",
    "SELECT array_length(string_to_array(repeat('a,', 40000000), ','), 1)",
    "SELECT count(*) FROM regexp_split_to_table(repeat('a,', 40000000), ',')",
    "SELECT length(encode(convert_to(repeat('x', 90000000), 'UTF8'), 'hex'))",
    "WITH RECURSIVE r(s) AS (SELECT 'x'::text UNION ALL SELECT s || s FROM r WHERE length(s) < 1000000000)"
    " SELECT max(length(s)) FROM r",
    "SELECT count(*) FROM (SELECT repeat('x', 1000000) || g AS s FROM generate_series(1, 5000) g ORDER BY s) q",
    "SELECT count(DISTINCT repeat('x', 1000000) || g) FROM generate_series(1, 5000) g",
    "SELECT count(*) FROM (SELECT repeat('x', 100000) || a AS s FROM generate_series(1, 9000) a) x"
    " JOIN (SELECT repeat('x', 100000) || b AS t FROM generate_series(1, 9000) b) y ON s = t",
    "SELECT sum(length(s)) FROM (SELECT repeat('x', 1000000) AS s FROM generate_series(1, 5000)) q",
    "SELECT repeat('x', 1000000) FROM generate_series(1, 300)",
    "SELECT max(length(s)) FROM (SELECT repeat('x', 100000) || g AS s, sum(g) OVER () AS n"
    " FROM generate_series(1, 50000) g) q",
    "SELECT count(*) OVER () FROM generate_series(1, 300000000) LIMIT 1",
    "SELECT count(*) FROM (SELECT count(*) OVER () FROM generate_series(1, 300000000)) q",
    "SELECT sum(n) FROM (SELECT row_number() OVER () AS n FROM generate_series(1, 20000000)) q",
    "SELECT length(" + " || ".join(["repeat('x', 100000000)"] * 3) + ")",
    "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM generate_series(1, 2000)",
    "SELECT count(*) FROM generate_series(1, 20000000) a JOIN generate_series(1, 20000000) b ON a = b",
    "SELECT array_agg(g) FROM generate_series(1, 1000000000) g",
]

# Run one at a time: eight of these statements together take more memory than the server frees in time.
ALONE = [
    # The elements of an array share a text until a function copies them.
    "SELECT array_fill(repeat('x', 1000000), array[5000]) IS NULL",
    *(f"SELECT {call.format('array_fill(repeat($$x$$, 1000000), array[3000])')}" for call in (
        "length({}::text)", "length(array_to_string({}, ','))", "cardinality(array_distinct({}))",
        "cardinality(array_cat({0}, {0}))", "cardinality(array_prepend('y', {}))", "{0} = {0}", "{0} @> {0}",
        "{} && array['y']", "to_jsonb({}) IS NULL", "length(array_to_json({})::text)",
        "jsonb_set('{{}}', {}, '1') IS NULL", "'{{}}'::jsonb #> {}")),
    "SELECT array_length(array_resize(array['x'], 3000, repeat('x', 1000000)), 1)",
    "SELECT length(format(repeat('%1$s', 100000), repeat('x', 100000)))",
    "SELECT length(regexp_replace(repeat('x', 100000), '(x*)', repeat('\\1', 100000)))",
    "SELECT max(length(a)) FROM (SELECT string_agg(repeat('x', 1000000), ',') OVER (ORDER BY g) a"
    " FROM generate_series(1, 300) g) q",
    "SELECT max(length(a)) FROM (SELECT string_agg(repeat('x', 100000), ',') OVER (ORDER BY g) a"
    " FROM generate_series(1, 2000) g) q",
    "SELECT max(cardinality(a)) FROM (SELECT array_agg(repeat('x', 1000000)) OVER (ORDER BY g) a"
    " FROM generate_series(1, 300) g) q",
    "SELECT max(length(a)) FROM (SELECT max(repeat('x', 1000000) || g) OVER (ORDER BY g ROWS 3 PRECEDING) a"
    " FROM generate_series(1, 3000) g) q",
    "SELECT nth_value(repeat('x', 1000000), 2) OVER (ORDER BY g) IS NULL FROM generate_series(1, 3000) g LIMIT 1",
    "SELECT count(*) FROM (SELECT unnest(array_fill(1, array[100000])) FROM generate_series(1, 3000)) q",
    "SELECT count(*) FROM (SELECT g, unnest(string_to_array(repeat('a,', 100000), ',')) FROM generate_series(1, 1000) g) q",
    "SELECT count(DISTINCT g) FROM generate_series(1, 100000000) g",
    "SELECT count(*) FROM (SELECT g FROM generate_series(1, 100000000) g GROUP BY g) q",
    "SELECT array_length(array_agg(a), 1) FROM (SELECT array_fill(1, array[10000]) a FROM generate_series(1, 100000)) q",
]


@pytest.fixture(scope="module")
def group():
    made = MemoryGroup(LIMIT)
    if made.reason:
        pytest.skip(made.reason)
    yield made
    made.close()


@pytest.fixture
def small(scratch, group):
    with Stratalog(scratch / f"small-{time.monotonic_ns()}", wrapper=group.wrapper()) as server:
        yield server
        assert server.alive(), server.output()[-4000:]
    assert group.killed() == 0


class Watch:
    """Asks `SELECT 1` continuously, and records the longest wait."""

    def __init__(self, server):
        self.server, self.longest, self.failed, self.ends = server, 0.0, None, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
                while not self.ends.is_set():
                    started = time.monotonic()
                    assert connection.execute("SELECT 1").fetchone() == (1,)
                    self.longest = max(self.longest, time.monotonic() - started)
                    time.sleep(0.05)
        except Exception as error:
            self.failed = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        assert self.failed is None, repr(self.failed)
        assert self.longest < 5, f"SELECT 1 took {self.longest:.1f} s"


def refused(server, sql, allowed=("53200", "54000", "53100", "57014")):
    """Runs a statement that may be refused; returns its SQLSTATE, or None."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SET statement_timeout = '20s'")
        try:
            connection.execute(sql, prepare=False)
        except psycopg.Error as error:
            assert error.sqlstate in allowed, f"{sql[:100]}: {error.sqlstate} {error}"
            return error.sqlstate


def test_one_statement_at_a_time(small, group):
    with Watch(small):
        for sql in HOSTILE + ALONE:
            state = refused(small, sql)
            print(f"{state} {group.peak() >> 20} MiB {sql[:90]}")
            assert small.alive(), sql


def test_many_statements_at_once(small, group):
    failed = []

    def client(number):
        try:
            for at in range(len(HOSTILE)):
                refused(small, HOSTILE[(number * 5 + at) % len(HOSTILE)])
        except Exception as error:
            failed.append(error)

    with Watch(small):
        clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
    print(f"{group.peak() >> 20} MiB")
    assert not failed, failed


def framed(kind, body):
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def test_prepared_statements_of_many_clients(small, group):
    text = b"SELECT '" + b"x" * 1_000_000 + b"'"
    wires = [Wire(small.port, seconds=60).startup() for _ in range(40)]
    states = set()
    with Watch(small):
        for wire in wires:
            wire.ready()
            for name in range(20):
                wire.send(framed(b"P", b"s%d\0" % name + text + b"\0\0\0"), framed(b"S", b""))
                for kind, body in wire.ready():
                    if kind == b"E":
                        states.add(body.split(b"\0C", 1)[1][:5])
    print(f"{group.peak() >> 20} MiB, {states}")
    assert states <= {b"53200", b"54000"} and states
    for wire in wires:
        wire.socket.close()


def test_half_messages_and_rows_of_many_clients(small, group):
    with psycopg.connect(small.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (time TIMESTAMPTZ PRIMARY KEY, s TEXT)")
    wires = []
    with Watch(small):
        for number in range(60):
            wire = Wire(small.port, seconds=60).startup()
            wire.ready()
            wires.append(wire)
            if number % 2:
                # The last byte of the message never comes.
                half = framed(b"Q", b"SELECT '" + b"x" * 40_000_000)
                send = half[:-1]
            else:
                # The row never ends.
                wire.send(framed(b"Q", b"COPY t FROM STDIN\0"))
                wire.message()
                send = framed(b"d", b"2024-01-01\t" + b"x" * 15_000_000)
            thread = threading.Thread(target=quietly, args=(wire, send), daemon=True)
            thread.start()
        time.sleep(15)
    print(f"{group.peak() >> 20} MiB")
    for wire in wires:
        wire.socket.close()


def quietly(wire, data):
    """Sends to a server that may close the connection or not read."""
    try:
        wire.send(data)
    except OSError:
        pass


def test_results_that_nobody_reads(small, group):
    wires = [Wire(small.port, seconds=60).startup() for _ in range(40)]
    with Watch(small):
        for wire in wires:
            wire.ready()
            wire.send(framed(b"Q", b"SELECT repeat('x', 50000000) FROM generate_series(1, 10)\0"))
        time.sleep(10)
    print(f"{group.peak() >> 20} MiB")
    for wire in wires:
        wire.socket.close()


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_answers_over_http_that_nobody_reads(small, group, form):
    statements = ["SELECT repeat('x', 1000) FROM generate_series(1, 100000)", "SELECT g FROM generate_series(1, 100000000) g"]
    sockets = []
    with Watch(small):
        for number in range(120):
            one = socket.create_connection(("127.0.0.1", small.http_port), 30)
            query = urllib.parse.urlencode({"q": statements[number % 2], "format": form})
            one.sendall(f"GET /api/sql?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            sockets.append(one)
        for _ in range(5):
            begun = time.monotonic()
            with urllib.request.urlopen(f"http://127.0.0.1:{small.http_port}/health", timeout=20) as answer:
                assert answer.status == 200
            assert time.monotonic() - begun < 10
            time.sleep(1)
    print(f"{group.peak() >> 20} MiB")
    for one in sockets:
        one.close()


def test_answers_of_flight_that_nobody_reads(small, group):
    flight = pytest.importorskip("adbc_driver_flightsql.dbapi")
    held = []

    def begin():
        try:
            connection = flight.connect(small.flight_uri())
            held.append(connection)
            cursor = connection.cursor()
            held.append(cursor)
            cursor.execute("SELECT repeat('x', 1000000) AS s FROM generate_series(1, 2000)")
            held.append(cursor.fetch_record_batch().read_next_batch().num_rows)
        except Exception as error:
            # A refusal is a valid answer.
            held.append(error)

    with Watch(small):
        threads = [threading.Thread(target=begin, daemon=True) for _ in range(60)]
        for thread in threads:
            thread.start()
        time.sleep(15)
    print(f"{group.peak() >> 20} MiB")
    assert small.alive()
    for thread in threads:
        thread.join(timeout=10)
    # Close statements before their connections: otherwise the driver's finalizers raise errors later.
    for one in reversed(held):
        if hasattr(one, "close"):
            one.close()


def test_parameters_of_a_large_request(small, group):
    body = b'{"sql": "SELECT 1", "params": [' + b"1," * 20_000_000 + b"1]}"
    request = urllib.request.Request(f"http://127.0.0.1:{small.http_port}/api/sql", body,
                                     {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=60)
    assert refusal.value.code in (400, 413) and b"at most 65535 parameters" in refusal.value.read()
    nested = b'{"sql": "SELECT length($1)", "params": [[' + b"1," * 10_000_000 + b"1]]}"
    request = urllib.request.Request(f"http://127.0.0.1:{small.http_port}/api/sql", nested,
                                     {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=60).read()
    except urllib.error.HTTPError as error:
        assert error.code in (400, 413, 503), error.read()
    print(f"{group.peak() >> 20} MiB")


def test_messages_of_flight_without_a_login(small, group):
    """Raw HTTP/2 calls would be long: the client library sends a large message in each call instead."""
    flight = pytest.importorskip("pyarrow.flight")

    def call():
        client = flight.connect(small.flight_uri())
        try:
            client.get_flight_info(flight.FlightDescriptor.for_command(b"x" * 60_000_000))
        except Exception:
            pass

    with Watch(small):
        calls = [threading.Thread(target=call, daemon=True) for _ in range(40)]
        for thread in calls:
            thread.start()
        for thread in calls:
            thread.join(60)
    print(f"{group.peak() >> 20} MiB")
