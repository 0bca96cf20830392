"""Random queries get the same answers as in PostgreSQL, before and after the server is killed.

CLIENT_TESTS_SEED chooses the seed, CLIENT_TESTS_QUERIES the number of queries.
"""

import decimal
import os

import psycopg
import pytest

from conftest import AGAINST_POSTGRES
from random_queries import DDL, ZONES, Generator
from servers import Stratalog

QUERIES = int(os.environ.get("CLIENT_TESTS_QUERIES", "250"))
SEED = int(os.environ.get("CLIENT_TESTS_SEED", os.getpid()))


def fill(connection, statements):
    for table, columns in DDL.items():
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE {table} ({columns})")
    for statement in statements:
        connection.execute(statement)


def plain(value):
    """Rounds numbers to nine digits: sums and averages may add in another order."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return value
    return f"{float(value):.9g}"


def answer(connection, query):
    """The rows, in order if the query orders them; or the error."""
    try:
        rows = connection.execute(query).fetchall()
    except psycopg.Error as error:
        return f"{error.sqlstate}: {error}"
    rows = [tuple(plain(value) for value in row) for row in rows]
    return rows if query.rpartition(")")[2].count("ORDER BY") else sorted(rows, key=repr)


def compare(ours, theirs, queries, zone):
    differing = []
    for connection in (ours, theirs):
        connection.execute(f"SET TimeZone = '{zone}'")
    for query in queries:
        wanted = answer(theirs, query)
        # A query that fails in PostgreSQL may succeed in Stratalog: the order of evaluation is open.
        if isinstance(wanted, list) and answer(ours, query) != wanted:
            differing.append(f"{query}\n  ours: {str(answer(ours, query))[:300]}\n  theirs: {str(wanted)[:300]}")
    assert not differing, f"seed {SEED}, {len(differing)} differ, among them\n" + "\n".join(differing[:5])


@pytest.mark.skipif(AGAINST_POSTGRES, reason="compares with PostgreSQL")
def test_random_queries_answer_as_postgresql(scratch, postgres):
    generator = Generator(SEED)
    statements = list(generator.inserts())
    shapes = [generator.of_one_table, generator.of_a_join, generator.of_expressions]
    queries = [shape() for shape in shapes for _ in range(QUERIES)]
    zone = generator.random.choice(ZONES)
    directory = scratch / "random"
    with psycopg.connect(postgres.dsn(), autocommit=True) as theirs:
        fill(theirs, statements)
        with Stratalog(directory) as server:
            with psycopg.connect(server.dsn(), autocommit=True) as ours:
                fill(ours, statements)
                compare(ours, theirs, queries, zone)
            server.kill()
        with Stratalog(directory) as server, psycopg.connect(server.dsn(), autocommit=True) as ours:
            compare(ours, theirs, queries[:: 10], zone)
        for table in DDL:
            theirs.execute(f"DROP TABLE {table}")
