"""The cost of the wire: rows out, point reads, single-row INSERTs, connections. PostgreSQL takes turns with
Stratalog."""

import pathlib
import resource
import statistics
import struct
import sys
import time

import psycopg

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from measures import resident_bytes, timed  # noqa: E402
from wire import Wire, packet, query  # noqa: E402

ROWS, HOSTS = 428_000, 100
METRICS = 10
COLUMNS = ", ".join(f"v{n} DOUBLE PRECISION" for n in range(METRICS))
TABLE = f"CREATE TABLE wide (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, {COLUMNS}, PRIMARY KEY (host, time))"
# Every host has a row per second; values have a few digits, like measurements.
FILL = ("INSERT INTO wide SELECT timestamptz '2024-01-01 00:00:00+00' + (n / {hosts}) * interval '1 second', "
        "'host_' || (n % {hosts}), {values} FROM generate_series(0, {rows} - 1) AS series(n)").format(
            hosts=HOSTS, rows=ROWS,
            values=", ".join(f"((n * {7 + metric} + {metric}) % 10000)::float8 / 100" for metric in range(METRICS)))
EVERYTHING = "SELECT * FROM wide"
IDLE = 5_000
# After this time a connection has released its unneeded memory.
QUIET_SECONDS = 8


class WireBench:
    """Both servers with the same rows."""

    def __init__(self, bench):
        self.bench = bench

    def run(self):
        # Each idle connection also needs a socket in this process.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * IDLE)), hard))
        self.ours, self.theirs = self.bench.ours, self.bench.postgres
        self.bench.start()
        for server in (self.ours, self.theirs):
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute(TABLE)
                connection.execute(FILL)
                if server is self.theirs:
                    connection.execute("VACUUM ANALYZE wide")
        self.rows_out()
        self.point_reads()
        self.inserts()
        self.connections()

    def user(self, server):
        return "stratalog" if server is self.ours else "postgres"

    def connect(self, server):
        wire = Wire(server.port, 600).startup(self.user(server), self.user(server))
        wire.ready()
        return wire

    def rows_out(self):
        print(f"{ROWS} rows of {METRICS + 2} columns out")
        for form, message in (("text", query(EVERYTHING)), ("binary", binary(EVERYTHING))):
            mine, theirs, firsts = [], [], []
            for _ in range(2 * self.bench.arguments.rounds):
                first, took = self.read_all(self.ours, message)
                mine.append(took)
                firsts.append(first)
                theirs.append(self.read_all(self.theirs, message)[1])
            ratio = statistics.median(mine) / statistics.median(theirs)
            self.bench.note(f"rows out, {form}", statistics.median(mine), "ms", rounds=mine)
            self.bench.note("  PostgreSQL", statistics.median(theirs), "ms", rounds=theirs)
            self.bench.note(f"rows out, {form}, times PostgreSQL's", ratio, "x", "<= 0.7", ratio <= 0.7)
            first = statistics.median(firsts)
            self.bench.note(f"rows out, {form}, first row", first, "ms", "<= 20", first <= 20)

    def read_all(self, server, message):
        """(milliseconds to the first bytes, milliseconds to the end) of an answer, which is read and discarded."""
        with self.connect(server) as wire:
            buffer, tail, first = bytearray(1 << 20), b"", None
            began = time.perf_counter()
            wire.send(message)
            while not tail.endswith(b"Z\0\0\0\5I"):
                count = wire.socket.recv_into(buffer)
                if not count:
                    raise RuntimeError("the server hung up")
                first = first or time.perf_counter() - began
                tail = (tail + buffer[max(0, count - 16):count])[-16:]
            return first * 1000, (time.perf_counter() - began) * 1000

    def point_reads(self):
        print("One row by key and tick, 8 connections, prepared")
        seconds = ROWS // HOSTS
        script = (f"\\set host random(0, {HOSTS - 1})\n\\set second random(0, {seconds - 1})\n"
                  "SELECT v0, v1, v2 FROM wide WHERE host = 'host_' || :host AND "
                  "time = timestamptz '2024-01-01 00:00:00+00' + :second::int * interval '1 second';\n")
        self.rates("point reads, 8 connections", script, 0.8)

    def inserts(self):
        print("INSERT of single rows, 8 connections, prepared, disk durability")
        for server in (self.ours, self.theirs):
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("CREATE TABLE readings (time TIMESTAMPTZ NOT NULL, host INT NOT NULL, "
                                   "region TEXT, usage DOUBLE PRECISION)")
        script = "INSERT INTO readings VALUES (now(), :client_id, 'eu-central-1', 42.5);\n"
        self.rates("INSERT, 8 connections", script, 1.5)

    def rates(self, what, script, target):
        mine, theirs = [], []
        for _ in range(self.bench.arguments.rounds):
            for server, rates in ((self.ours, mine), (self.theirs, theirs)):
                rates.append(self.bench.pgbench(server, self.user(server), script, 8, self.bench.arguments.seconds)[0])
        rate, peer = statistics.median(mine), statistics.median(theirs)
        self.bench.note(what, rate, "/s", rounds=mine)
        self.bench.note("  PostgreSQL", peer, "/s", rounds=theirs)
        self.bench.note(f"{what}, times PostgreSQL's", rate / peer, "x", f">= {target}", rate >= target * peer)

    def connections(self):
        print("Connections")
        for server, limits in ((self.ours, ("<= 3", 3)), (self.theirs, None)):
            def once():
                with self.connect(server) as wire:
                    wire.send(query("SELECT 1"))
                    wire.ready()
            took = statistics.median(timed(once) * 1000 for _ in range(200))
            what = "connect and first query" if server is self.ours else "  PostgreSQL"
            self.bench.note(what, took, "ms", *((limits[0], took <= limits[1]) if limits else ()))
        before = resident_bytes(self.ours.process.pid)
        idle = [self.connect(self.ours) for _ in range(IDLE)]
        time.sleep(QUIET_SECONDS)
        each = (resident_bytes(self.ours.process.pid) - before) / len(idle) / 1024
        for wire in idle:
            wire.close()
        self.bench.note(f"memory of an idle connection, of {IDLE}", each, "KB", "<= 64", each <= 64)


def binary(sql):
    """The messages of the extended protocol that request all columns in binary."""
    return b"".join([
        packet(b"P", b"\0" + sql.encode() + b"\0" + struct.pack("!H", 0)),
        packet(b"B", b"\0\0" + struct.pack("!HHHH", 0, 0, 1, 1)),
        packet(b"E", b"\0" + struct.pack("!I", 0)),
        packet(b"S"),
    ])
