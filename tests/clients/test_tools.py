"""Queries of Grafana, Superset, Metabase, DBeaver, DataGrip and pgAdmin: the answers equal PostgreSQL's.

tools/NAME.sql has a tool's queries on connecting and on browsing, reworded: the same catalogs, columns, functions
and forms. `{cpu}` is the oid of the table, which tools take from earlier answers.
"""

import pathlib
import re

import psycopg
import pytest

from conftest import AGAINST_POSTGRES
from servers import Postgres, Stratalog

QUESTIONS = {
    f"{file.stem}-{place}": text
    for file in sorted((pathlib.Path(__file__).parent / "tools").glob("*.sql"))
    for place, text in enumerate(file.read_text().rstrip("\n").split("\n;\n"), 1)
}

TABLES = """
CREATE TABLE tools_cpu (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, region TEXT, usage DOUBLE PRECISION DEFAULT 1.5,
    n NUMERIC(8,2), marks INTEGER[], ok BOOLEAN DEFAULT false, j JSONB, PRIMARY KEY (host, time));
CREATE TABLE tools_log (time TIMESTAMPTZ NOT NULL, n BIGINT, message TEXT DEFAULT 'nothing');
COMMENT ON TABLE tools_cpu IS 'load of hosts';
COMMENT ON COLUMN tools_cpu.usage IS 'percent';
INSERT INTO tools_cpu VALUES
    ('2024-01-01 00:00:00+00', 'a', 'eu', 1, 2.5, '{1,2}', true, '{"k": 1}'),
    ('2024-01-01 00:00:10+00', 'b', NULL, NULL, NULL, NULL, NULL, NULL),
    ('2024-01-01 00:01:00.5+00', 'a', 'us', 99.5, -1, '{}', false, '[]');
INSERT INTO tools_log VALUES ('2024-01-01', 1, 'x'), ('2024-01-02', 2, NULL);
"""

# Columns that always differ, with the reason.
OWN_NUMBER = "each server numbers its objects"
SIZES = "files and their statistics are each server's own"
NOT_COMPARED = {
    **dict.fromkeys(("oid", "conrelid", "indrelid", "indexrelid", "conindid", "attrelid", "adrelid", "did", "con_id",
                     "table_id", "index_id", "opclass", "object_id", "reltype", "relfilenode", "id", "pid"), OWN_NUMBER),
    **dict.fromkeys(("relpages", "reltuples", "relallvisible", "reltoastrelid", "index_bytes", "scans", "rows",
                     "Live tuples"), SIZES),
    **dict.fromkeys(("relfrozenxid", "relminmxid", "datfrozenxid", "datminmxid", "state_number"),
                    "numbers of transactions"),
    **dict.fromkeys(("relam", "am_id"), "the access method is chronicle, not heap"),
    **dict.fromkeys(("nspowner", "nspacl", "datacl", "acl", "owner", "grantor", "rolpassword", "rolreplication",
                     "is_replication"), "each server has privileges of its own"),
    **dict.fromkeys(("datcollate", "datctype"), "text is ordered by its bytes"),
    **dict.fromkeys(("category", "short_desc", "extra_desc", "source", "context"), "our settings, in our words"),
    "version": "of the program", "transaction_isolation": "a block reads one snapshot", "QUERY PLAN": "our own plans",
}

# Queries for lists of built-in objects: Stratalog's list may be a subset of PostgreSQL's.
PART = ("pg_catalog.pg_collation c", "pg_catalog.pg_am m", "pg_catalog.pg_type t\nLEFT OUTER JOIN pg_catalog.pg_type e")
# Schemas that exist only in one of the two.
OWN_SCHEMAS = {"stratalog", "pg_toast"}
# Predefined roles, and privileges, that exist only in one of the two.
OWN_ROLES = re.compile("stratalog_")
OWN_PRIVILEGES = {"ACQUIRE", "SUBSCRIBE", "TRIM", "OWNERSHIP", "TRUNCATE", "UPDATE", "REFERENCES", "TRIGGER"}
# Index methods specific to Stratalog.
OWN_METHODS = {"bloom", "inverted"}


def renamed(cluster):
    """Renames PostgreSQL's first role to Stratalog's, and adds a database of this name besides `postgres`."""
    for user, statements in (
        ("postgres", ["CREATE ROLE helper SUPERUSER LOGIN"]),
        ("helper", ["ALTER ROLE postgres RENAME TO stratalog"]),
        ("stratalog", ["DROP ROLE helper", "CREATE DATABASE stratalog"]),
    ):
        with psycopg.connect(cluster.dsn(user=user, dbname="template1"), autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement)


@pytest.fixture(scope="module")
def sides(scratch):
    """A connection to the server under test and a connection to PostgreSQL, with equal tables and names."""
    with Postgres() if AGAINST_POSTGRES else Stratalog(scratch / "tools") as server, Postgres() as oracle:
        clusters = (server, oracle)
        for cluster in clusters:
            if isinstance(cluster, Postgres):
                renamed(cluster)
        both = [psycopg.connect(cluster.dsn(user="stratalog", dbname="stratalog"), autocommit=True)
                for cluster in clusters]
        for side in both:
            for statement in TABLES.strip().split(";\n"):
                side.execute(statement)
        yield both
        for side in both:
            side.close()


def ask(side, question, prepare=False):
    """The last result of a query: command tag, names and types of columns, rows."""
    cpu = side.execute("SELECT oid::bigint FROM pg_class WHERE relname = 'tools_cpu'").fetchone()[0]
    cursor = side.execute(question.replace("{cpu}", str(cpu)), prepare=prepare)
    while cursor.description is None and cursor.nextset():
        pass
    if cursor.description is None:
        return cursor.statusmessage, [], [], []
    return None, [c.name for c in cursor.description], [c.type_code for c in cursor.description], cursor.fetchall()


def compared(question, names, rows):
    """Rows without the excluded columns and schemas; sorted unless the query orders them."""
    keep = [place for place, name in enumerate(names) if name not in NOT_COMPARED]
    if re.search("pg_namespace|schemata", question):
        schemas = [place for place, name in enumerate(names) if name in ("nspname", "name", "TABLE_SCHEM")]
        rows = [row for row in rows if not OWN_SCHEMAS & {row[place] for place in schemas}]
    if "pg_roles r" in question and "rolname" in names:
        rows = [row for row in rows if not OWN_ROLES.match(row[names.index("rolname")])]
    if "privilege_type" in names:
        rows = [row for row in rows if row[names.index("privilege_type")] not in OWN_PRIVILEGES]
    if "amname" in names:
        rows = [row for row in rows if row[names.index("amname")] not in OWN_METHODS]
    rows = [[row[place] for place in keep] for row in rows]
    return rows if re.search("^order by", question, re.IGNORECASE | re.MULTILINE) else sorted(rows, key=repr)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_that_of_postgresql(sides, name):
    question = QUESTIONS[name]
    ours, oracle = (ask(side, question) for side in sides)
    assert ours[:2] == oracle[:2]
    # Extended protocol, as JDBC and psycopg's prepared statements use it.
    if ";" not in question:
        again = ask(sides[0], question, prepare=True)
        assert again[:3] == ours[:3]
    answers = [compared(question, side[1], side[3]) for side in (ours, oracle)]
    if any(part in question for part in PART):
        assert answers[0] and all(row in answers[1] for row in answers[0])
    elif not set(ours[1]) <= set(NOT_COMPARED):
        assert answers[0] == answers[1]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_columns_have_the_types_of_postgresql(sides, name):
    ours, oracle = (ask(side, QUESTIONS[name]) for side in sides)
    assert list(zip(ours[1], ours[2])) == list(zip(oracle[1], oracle[2]))
