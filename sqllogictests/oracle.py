#!/usr/bin/env python3
"""Runs cases/*.slt against PostgreSQL 15, to verify or to regenerate their expected results.

Stratalog follows PostgreSQL except where its documentation says otherwise. Therefore PostgreSQL's
answer is the expected result of every record that PostgreSQL can run. Records with an intended
difference carry `skipif postgres`; their results are written by hand.

    oracle.py --dsn "host=127.0.0.1 port=5432 user=postgres" [--write] [FILE ...]

Each file runs in a fresh database. `--write` fills in column types (`query ?`) and results.
"""

import argparse
import pathlib
import re
import sys

import psycopg

HERE = pathlib.Path(__file__).resolve().parent

# A function missing in PostgreSQL: TimescaleDB's and Stratalog's `time_bucket`, with its Monday origin.
PRELUDE = """
CREATE FUNCTION time_bucket(width interval, at timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE AS $$ SELECT date_bin(width, at, timestamptz '2000-01-03 00:00:00+00') $$;
CREATE FUNCTION time_bucket(width interval, at timestamp) RETURNS timestamp
  LANGUAGE sql IMMUTABLE AS $$ SELECT date_bin(width, at, timestamp '2000-01-03 00:00:00') $$;
CREATE FUNCTION time_bucket(width interval, at timestamptz, origin timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE AS $$ SELECT date_bin(width, at, origin) $$;
"""

LETTERS = {
    16: "B",
    20: "I", 21: "I", 23: "I",
    700: "R", 701: "R", 1700: "R",
    1082: "D",
    1114: "P", 1184: "P",
}

# `WITH (granularity = …, collision = …)` at the end of CREATE TABLE is specific to Stratalog.
OPTIONS = re.compile(r"\)\s*WITH\s*\([^()]*\)\s*;?\s*$", re.IGNORECASE | re.DOTALL)


class Record:
    """A record: the lines before its SQL, its SQL, and the expected result."""

    def __init__(self, line, prefix, header, sql, expected):
        self.line = line
        self.prefix = prefix
        self.header = header
        self.sql = sql
        self.expected = expected

    def skipped(self):
        skip = any(text.split()[:2] == ["skipif", "postgres"] for text in self.prefix)
        only = [text.split()[1] for text in self.prefix if text.startswith("onlyif ")]
        return skip or bool(only) and "postgres" not in only


def parse(text):
    """Splits a file into records and the lines between them."""
    lines = text.split("\n")
    out, prefix, at = [], [], 0
    while at < len(lines):
        line = lines[at]
        word = line.split(" ", 1)[0]
        if word in ("statement", "query"):
            start, sql, expected = at + 1, [], None
            at += 1
            while at < len(lines) and lines[at] != "" and lines[at] != "----":
                sql.append(lines[at])
                at += 1
            if at < len(lines) and lines[at] == "----":
                expected = []
                at += 1
                while at < len(lines) and lines[at] != "":
                    expected.append(lines[at])
                    at += 1
            out.append(Record(start, prefix, line, "\n".join(sql), expected))
            prefix = []
        elif word in ("skipif", "onlyif", "connection"):
            prefix.append(line)
            at += 1
        else:
            out.append(line)
            at += 1
    return out


def render(items):
    """The text of the file from its items."""
    lines = []
    for item in items:
        if isinstance(item, str):
            lines.append(item)
            continue
        lines.extend(item.prefix)
        lines.append(item.header)
        lines.extend(item.sql.split("\n"))
        if item.expected is not None:
            lines.append("----")
            lines.extend(item.expected)
    return "\n".join(lines)


def value(raw):
    """A cell as the runner renders it."""
    if raw is None:
        return "NULL"
    text = raw.decode("utf-8")
    return "(empty)" if text == "" else text.replace("\n", "\\n")


def normalized(line):
    return " ".join(line.split())


def execute(connection, sql):
    """(error code, error text, letters, rows, affected)"""
    result = connection.pgconn.exec_(OPTIONS.sub(")", sql).encode())
    status = psycopg.pq.ExecStatus(result.status)
    if status == psycopg.pq.ExecStatus.TUPLES_OK:
        letters = "".join(LETTERS.get(result.ftype(i), "T") for i in range(result.nfields))
        rows = [
            [value(result.get_value(r, c)) for c in range(result.nfields)]
            for r in range(result.ntuples)
        ]
        return None, None, letters, rows, result.ntuples
    if status in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.EMPTY_QUERY):
        return None, None, "", [], result.command_tuples or 0
    code = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"XX000").decode()
    return code, result.error_message.decode().strip(), "", [], 0


def check(record, connection, write):
    """The problem of a record as text, or None; with `write`, rewrites the record."""
    code, message, letters, rows, affected = execute(connection, record.sql)
    words = record.header.split()
    if words[0] == "statement":
        if words[1] == "error":
            wanted = record.header.split("(")[-1].rstrip(")")
            if code is None:
                return f"no error, but {wanted} is expected"
            return None if wanted == code else f"{code}, not {wanted}: {message}"
        if code is not None:
            return f"{code}: {message}"
        if words[1] == "count" and int(words[2]) != affected:
            return f"{affected} rows, not {words[2]}"
        return None
    if code is not None:
        return f"{code}: {message}"
    if "rowsort" in words:
        rows.sort()
    lines = [" ".join(row) for row in rows]
    if write:
        words[1] = letters
        record.header = " ".join(words)
        record.expected = lines
        return None
    if words[1] != letters:
        return f"types {letters}, not {words[1]}"
    found, wanted = [normalized(line) for line in lines], [normalized(x) for x in record.expected or []]
    if found != wanted:
        return "got\n    " + "\n    ".join(found) + "\n  not\n    " + "\n    ".join(wanted)
    return None


def run(path, dsn, write):
    """(records, skipped, problems) of a file."""
    name = "slt_" + re.sub(r"\W", "_", path.stem)
    with psycopg.connect(dsn, autocommit=True, dbname="postgres") as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        admin.execute(f'CREATE DATABASE "{name}"')
    connections = {}

    def connection_of(record):
        label = next((text.split()[1] for text in record.prefix if text.startswith("connection")), "")
        if label not in connections:
            connections[label] = psycopg.connect(dsn, autocommit=True, dbname=name)
            connections[label].execute("SET client_min_messages = error")
        return connections[label]

    items = parse(path.read_text(encoding="utf-8"))
    records = [item for item in items if isinstance(item, Record)]
    problems, skipped = [], 0
    try:
        with psycopg.connect(dsn, autocommit=True, dbname=name) as first:
            first.pgconn.exec_(PRELUDE.encode())
        for record in records:
            if record.skipped():
                skipped += 1
                continue
            problem = check(record, connection_of(record), write)
            if problem:
                problems.append(f"{path.name}:{record.line}: {problem}\n  {record.sql}")
    finally:
        for connection in connections.values():
            connection.close()
    if write:
        path.write_text(render(items), encoding="utf-8")
    with psycopg.connect(dsn, autocommit=True, dbname="postgres") as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    return len(records), skipped, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    files = arguments.files or sorted((HERE / "cases").glob("*.slt"))
    total = skipped = 0
    problems = []
    for path in files:
        count, left_out, found = run(path, arguments.dsn, arguments.write)
        total, skipped, problems = total + count, skipped + left_out, problems + found
    for problem in problems:
        print(problem)
    print(
        f"{len(files)} files, {total} records: {total - skipped - len(problems)} agree with "
        f"PostgreSQL, {skipped} are ours alone, {len(problems)} differ"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
