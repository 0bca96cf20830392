"""Prints each row of a table in the order of commits, stored rows first.

python examples/follow.py [http://host:port [rows]]

A program that keeps the last position continues after it: the position of each row is its id.
"""

import json
import sys
import urllib.request

server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8086"
rows = int(sys.argv[2]) if len(sys.argv) > 2 else None


def sql(statement):
    with urllib.request.urlopen(f"{server}/api/sql", data=statement.encode()) as answer:
        return json.load(answer)


def follow(table, after=None):
    """Yields (position, row) without end; `after` is the last position that the caller has seen."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    request = urllib.request.Request(f"{server}/api/v1/subscribe?table={table}", headers=headers)
    with urllib.request.urlopen(request) as events:
        position = after
        for line in events:
            name, _, value = line.decode().rstrip("\n").partition(":")
            if name == "id":
                position = int(value)
            elif name == "data":
                yield position, json.loads(value)


sql("CREATE TABLE IF NOT EXISTS orders (time timestamptz NOT NULL, item text, amount int)")
sql("INSERT INTO orders VALUES (now(), 'pen', 3), (now(), 'ink', 1)")
for count, (position, row) in enumerate(follow("orders"), 1):
    print(position, row, flush=True)
    if count == rows:
        break
