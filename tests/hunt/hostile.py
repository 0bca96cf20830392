"""Statements with a large demand for memory or time: each fails alone, while another client still gets answers."""

import random
import time

import psycopg

from groups import MemoryGroup
from servers import Stratalog

MEMORY = 2 << 30
STATEMENTS = [
    "SELECT length(replace(repeat('a', {m}), 'a', repeat('b', {k})))",
    "SELECT length({joined})",
    "SELECT length(string_agg(repeat('x', {k}), '')) FROM generate_series(1, {m})",
    "SELECT count(*) FROM (SELECT array_agg(g) FROM generate_series(1, {m}0) g) q",
    "SELECT length(lpad('x', {m}00))",
    "SELECT length(repeat(repeat('x', {k}), {m}))",
    "SELECT max(length(repeat('x', g::int * {k}))) FROM generate_series(1, {k}) g",
    "SELECT count(*) FROM generate_series(1, {m}) a, generate_series(1, {m}) b",
    "SELECT jsonb_agg(repeat('y', {k})) FROM generate_series(1, {m})",
    "SELECT length(regexp_replace(repeat('a', {m}), 'a', repeat('c', {k}), 'g'))",
    "SELECT levenshtein(repeat('a', {k}0), repeat('b', {k}0))",
    "SELECT repeat('a', 40) ~ '(?=(a+)+b)(a+)+b'",
    "WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r) SELECT max(length(t)) FROM r",
    "SELECT count(*) FROM generate_series(1, {m}) g GROUP BY g ORDER BY repeat(g::text, 100)",
    "SELECT count(DISTINCT repeat(g::text, {k})) FROM generate_series(1, {m}) g",
    "SELECT sum(length(x)) FROM (SELECT repeat('z', {m}) x FROM generate_series(1, {k})) q",
    "SELECT array_length(string_to_array(repeat('a,', {m}0), ','), 1)",
    "SELECT count(*) FROM regexp_split_to_table(repeat('a,', {m}), ',')",
    "SELECT {deep}",
    "SELECT length(format('%s%s%s', {joined}, {joined}, {joined}))",
    "SELECT length(encode(repeat('x', {m}00)::bytea, 'hex'))",
    "INSERT INTO m SELECT now(), repeat('x', {m}) FROM generate_series(1, {k}0)",
]


def statement(generator):
    thousands = generator.choice(["1000", "10000", "50000"])
    millions = generator.choice(["100000", "1000000", "5000000"])
    joined = " || ".join([f"repeat('x', {millions}0)"] * generator.choice([3, 10, 30]))
    deep = generator.choice(["(", "NOT (", "-(", "ARRAY[", "abs("])
    depth = generator.choice([100, 5000, 100000])
    nested = deep * depth + "1" + ("]" if "[" in deep else ")") * depth
    template = generator.choice(STATEMENTS)
    return template.replace("{k}", thousands).replace("{m}", millions).replace("{joined}", joined).replace("{deep}", nested)


def hunt(folder, seed, deadline, report):
    generator = random.Random(f"{seed}-hostile")
    group = MemoryGroup(MEMORY)
    # The server derives its budgets from the group's limit at its start.
    wrapper = () if group.reason else group.wrapper()
    server = Stratalog(folder / "hostile", wrapper=wrapper)
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as made:
            made.execute("CREATE TABLE m (time timestamptz NOT NULL, x text)")
        while time.monotonic() < deadline:
            sql = statement(generator)
            report.statements += 1
            if (problem := attempt(server, sql)) is not None:
                report.add("lost", sql[:400], problem, "a result or an error, and a bystander answered", ("hostile", sql[:40]))
            if not server.alive():
                server.ended()
                server.start()
    finally:
        server.kill()
        group.close()


def attempt(server, sql):
    """Runs a statement with a timeout of 5 s; returns the problem, or None."""
    begun = time.monotonic()
    try:
        with psycopg.connect(server.dsn(), autocommit=True, connect_timeout=20) as connection:
            connection.execute("SET statement_timeout = '5s'")
            connection.execute(sql.encode())
    except psycopg.Error as error:
        if error.sqlstate is None:
            return f"connection lost: {error}"
        if error.sqlstate.startswith("XX"):
            return f"{error.sqlstate}: {error}"
    if (taken := time.monotonic() - begun) > 20:
        return f"ended after {taken:.0f} s in spite of a time-out of 5 s"
    try:
        with psycopg.connect(server.dsn(), autocommit=True, connect_timeout=20) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        return f"the server does not answer another client: {error}"
    return None
