"""A database in this process, controlled by JSON lines: asks.py ENGINE FOLDER."""

import datetime
import decimal
import json
import os
import sys
import threading
import time

EPOCH = datetime.datetime(1970, 1, 1)


class DuckDb:
    def __init__(self, folder):
        import duckdb

        self.version = duckdb.__version__
        self.connection = duckdb.connect(folder)
        self.connection.execute("SET preserve_insertion_order = true")

    def open(self):
        return self.connection.cursor()

    def execute(self, text):
        self.connection.execute(text)

    def read(self, cursor, text):
        return cursor.sql(text).to_arrow_table()

    def answer(self, text):
        table = self.read(self.open(), text)
        columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
        return table.column_names, list(zip(*columns))


class ChDb:
    def __init__(self, folder):
        from chdb import session

        import chdb

        self.version = chdb.engine_version
        self.session = session.Session(folder)
        self.asking = threading.Lock()

    def open(self):
        return self.session

    def execute(self, text):
        self.session.query(text)

    def read(self, connection, text):
        return connection.query(text, "ArrowStream")

    def answer(self, text):
        # In the Arrow format the times would be plain numbers.
        found = json.loads(self.session.query(text, "JSONCompact").bytes())
        times = [column["type"].startswith("DateTime") for column in found["meta"]]
        rows = [[plain(datetime.datetime.fromisoformat(value)) if is_time else value for value, is_time in zip(row, times)]
                for row in found["data"]]
        return [column["name"] for column in found["meta"]], rows


def plain(value):
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode()
    return value


def run(engine, texts, clients, seconds, again):
    found, failures, taking, numbers = [], [], threading.Lock(), iter(range(1 << 60))
    connections = [engine.open() for _ in range(clients)]
    began = time.perf_counter()

    def loop(connection):
        first = True
        try:
            while not failures:
                with taking:
                    at = next(numbers)
                if not again and at >= len(texts):
                    return
                if not first and time.perf_counter() - began > seconds:
                    return
                first, asked = False, time.perf_counter()
                engine.read(connection, texts[at % len(texts)])
                found.append((time.perf_counter() - asked) * 1000)
        except Exception as error:
            failures.append(error)

    if clients == 1:
        loop(connections[0])
    else:
        threads = [threading.Thread(target=loop, args=[connection]) for connection in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return {"ms": found, "seconds": time.perf_counter() - began}


def do(engine, message):
    what = message["do"]
    if what == "version":
        return {"version": engine.version}
    if what == "execute":
        for statement in message["statements"]:
            engine.execute(statement)
        return {}
    if what == "answer":
        names, rows = engine.answer(message["text"])
        return {"names": names, "rows": rows}
    return run(engine, message["texts"], message["clients"], message["seconds"], message["again"])


def main():
    # Output of the engines themselves must not mix with the answer lines.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = {"duckdb": DuckDb, "chdb": ChDb}[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        try:
            found = do(engine, json.loads(line))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:2000]}
        out.write(json.dumps(found) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
