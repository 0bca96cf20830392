"""The speed of the other protocols: Arrow Flight in and out, ADBC compared with the wire, and many connections."""

import asyncio
import json
import statistics
import threading
import time

import psycopg
import pyarrow
import pyarrow.flight

import tsbs
from measures import percentile

ROWS, BATCH_ROWS = 2_000_000, 10_000
CONNECTIONS, SECONDS = 1_000, 20
# Batches sent ahead of their acknowledgements.
AHEAD = 32


class DoorBench:
    """Each protocol alone, on a server without other clients."""

    def __init__(self, bench):
        self.bench = bench

    def run(self):
        bench = self.bench
        bench.start()
        self.url = f"grpc://127.0.0.1:{bench.ours.flight_port}"
        with psycopg.connect(bench.ours.dsn(), autocommit=True) as connection:
            self.put(connection)
            self.get()
            self.adbc(connection)
        asyncio.run(self.connections())

    def batches(self, rows):
        """TSBS's rows, one series after another, with dictionaries, as agents send them."""
        scale = self.bench.arguments.scale
        schema = pyarrow.schema(
            [("time", pyarrow.timestamp("ns", "UTC")), ("hostname", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))]
            + [(tag, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())) for tag in tsbs.TAGS[1:]]
            + [(metric, pyarrow.float64()) for metric in tsbs.METRICS])
        hosts = pyarrow.array([f"host_{host}" for host in range(scale)])
        tags = [pyarrow.array([f"{tag}_{number}" for number in range(8)]) for tag in tsbs.TAGS[1:]]
        for start in range(0, rows, BATCH_ROWS):
            numbers = range(start, start + BATCH_ROWS)
            host = pyarrow.array([number % scale for number in numbers], pyarrow.int32())
            times = pyarrow.array([1_451_606_400_000_000_000 + number // scale * 10_000_000_000 for number in numbers])
            eighth = pyarrow.array([number % scale % 8 for number in numbers], pyarrow.int32())
            columns = [times.cast(schema.field("time").type), pyarrow.DictionaryArray.from_arrays(host, hosts)]
            columns += [pyarrow.DictionaryArray.from_arrays(eighth, values) for values in tags]
            columns += [pyarrow.array([float(number * (7 + at) % 101) for number in numbers]) for at in range(len(tsbs.METRICS))]
            yield pyarrow.record_batch(columns, schema=schema)

    def put(self, connection):
        batches = list(self.batches(ROWS))
        for durability, target in (("relaxed", 2.5e6), ("disk", 1.5e6)):
            rates = []
            for _ in range(self.bench.arguments.rounds):
                connection.execute("DROP TABLE IF EXISTS doors")
                connection.execute(tsbs.table("doors"))
                began = time.monotonic()
                self.send(batches, durability)
                rates.append(ROWS / (time.monotonic() - began))
                stored = connection.execute("SELECT count(*) FROM doors").fetchone()[0]
                if stored != ROWS:
                    raise RuntimeError(f"{stored} rows, {ROWS} expected")
            rate = statistics.median(rates)
            self.bench.note(f"Flight DoPut, {durability}", rate, "rows/s", f">= {target:.0f}", rate >= target, rounds=rates)

    def send(self, batches, durability):
        """One call; the acknowledgements are read while batches are sent."""
        wish = json.dumps({"durability": durability}).encode()
        with pyarrow.flight.connect(self.url) as client:
            writer, answers = client.do_put(pyarrow.flight.FlightDescriptor.for_path("doors"), batches[0].schema)
            room = threading.Semaphore(AHEAD)

            def read():
                for _ in batches:
                    told = json.loads(answers.read().to_pybytes())
                    if told["rows"] != BATCH_ROWS or told["durability"] != durability:
                        raise RuntimeError(f"{told}")
                    room.release()

            reading = threading.Thread(target=read)
            reading.start()
            with writer:
                for batch in batches:
                    room.acquire()
                    writer.write_with_metadata(batch, wish)
                writer.done_writing()
                reading.join()

    def get(self):
        """Reads ten columns of all rows from memory."""
        columns = ", ".join(["time", *tsbs.METRICS[:9]])
        rates = []
        with pyarrow.flight.connect(self.url) as client:
            ticket = {"database": "stratalog", "sql_query": f"SELECT {columns} FROM doors", "query_type": "sql"}
            for _ in range(self.bench.arguments.rounds * 3):
                began, size = time.monotonic(), 0
                for chunk in client.do_get(pyarrow.flight.Ticket(json.dumps(ticket).encode())):
                    size += chunk.data.nbytes
                rates.append(size / (time.monotonic() - began) / 1e9)
        rate = statistics.median(rates)
        self.bench.note("Flight DoGet, 10 columns from memory", rate, "GB/s", ">= 1", rate >= 1, rounds=rates)

    def adbc(self, connection):
        """Reads many whole rows through ADBC, and over the PostgreSQL protocol."""
        from adbc_driver_flightsql import dbapi

        sql = "SELECT * FROM doors WHERE usage_user > 78"
        arrow, wire = [], []
        with dbapi.connect(self.url) as flight, flight.cursor() as cursor:
            for _ in range(self.bench.arguments.rounds * 2):
                began = time.monotonic()
                cursor.execute(sql)
                rows = cursor.fetch_arrow_table().num_rows
                arrow.append(time.monotonic() - began)
                began = time.monotonic()
                result = connection.pgconn.exec_params(sql.encode(), [], result_format=1)
                wire.append(time.monotonic() - began)
                if result.ntuples != rows:
                    raise RuntimeError(f"{result.ntuples} rows over the wire, {rows} through ADBC: {result.error_message}")
        share = statistics.median(arrow) / statistics.median(wire)
        self.bench.note(f"ADBC, {rows} rows of 21 columns, times the wire", share, "x", "<= 0.25", share <= 0.25)
        self.bench.note("  ADBC", statistics.median(arrow) * 1000, "ms", rounds=arrow)
        self.bench.note("  wire of PostgreSQL, binary, libpq", statistics.median(wire) * 1000, "ms", rounds=wire)

    async def connections(self):
        """Each connection sends a line per second over HTTP and waits for the durable acknowledgement."""
        port, found = self.bench.ours.http_port, []
        head = "POST /write?db=many HTTP/1.1\r\nHost: stratalog\r\nContent-Length: {}\r\n\r\n{}"

        async def one(number):
            await asyncio.sleep(number / CONNECTIONS)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            begin = time.monotonic()
            for second in range(SECONDS):
                await asyncio.sleep(max(0, begin + second - time.monotonic()))
                line = f"m,client=c{number} value={second}"
                sent = time.perf_counter()
                writer.write(head.format(len(line), line).encode())
                answer = await reader.readuntil(b"\r\n\r\n")
                if not answer.startswith(b"HTTP/1.1 204"):
                    raise RuntimeError(answer.decode())
                found.append((time.perf_counter() - sent) * 1000)
            writer.close()

        await asyncio.gather(*(one(number) for number in range(CONNECTIONS)))
        p99 = percentile(found, 99)
        self.bench.note("1,000 connections, a line a second, p99", p99, "ms", "<= 20", p99 <= 20)
        self.bench.note("  median", statistics.median(found), "ms")
