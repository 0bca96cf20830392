"""pg_dump, unmodified: rows leave and come back, to PostgreSQL and to us."""

import contextlib
import re
import subprocess

import pytest

from conftest import AGAINST_POSTGRES
from test_psql import psql
from test_psql_describe import AS_POSTGRES

COLUMNS = ("time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, usage DOUBLE PRECISION DEFAULT 1.5, n NUMERIC(8,2), "
           "marks INTEGER[], ok BOOLEAN DEFAULT false, j JSONB, b BYTEA, i INTERVAL")
KEYED, PLAIN = f"{COLUMNS}, PRIMARY KEY (host, time)", COLUMNS
ROWS = (r"""('2024-01-01 00:00:00+00', 'a', 'NaN', 2.5, '{1,NULL}', true, '{"k": "it''s"}', '\x00ff', '1 mon 2 days'), """
        r"""('2024-01-01 00:00:10.123456+00', E'tab\tnew\nline \\ back', NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")


def pg_dump(side, *arguments, login=()):
    name = "postgres" if AGAINST_POSTGRES else "stratalog"
    command = ["pg_dump", "-h", "127.0.0.1", "-p", str(side.port), "-U", name, "-d", name, *login, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def made(side, table, columns, rows=None, login=()):
    psql(side, *login, "-c", f"CREATE TABLE {table} ({columns})")
    if rows:
        psql(side, *login, "-c", f"INSERT INTO {table} VALUES {rows}")
    try:
        yield
    finally:
        psql(side, *login, "-c", f"DROP TABLE {table}")


def contents(side, table, login=()):
    return psql(side, *login, "-At", "-c", f"SELECT * FROM {table} ORDER BY time").stdout


@pytest.mark.parametrize("form", ["--data-only", "--data-only --inserts",
                                  "--data-only --column-inserts --rows-per-insert=2"])
def test_rows_come_back_from_a_dump(server, postgres, table, form):
    with made(server, table, KEYED, ROWS):
        dump = pg_dump(server, *form.split(), "-t", table)
        before = contents(server, table)
    with made(server, table, KEYED):
        psql(server, stdin=dump)
        assert contents(server, table) == before
    with made(postgres, table, KEYED, login=AS_POSTGRES):
        psql(postgres, *AS_POSTGRES, stdin=dump)
        assert contents(postgres, table, AS_POSTGRES) == before


def test_a_whole_dump_has_every_row(server, table):
    with made(server, table, PLAIN, ROWS):
        dump = pg_dump(server, "--no-blobs")
    copied = dump.partition(f"COPY public.{table} (")[2].partition("\n\\.\n")[0]
    assert len(copied.splitlines()) == 3
    assert "stratalog." not in dump


def test_definitions_are_those_that_postgresql_writes(server, postgres, table):
    with made(server, table, KEYED), made(postgres, table, KEYED, login=AS_POSTGRES):
        form = ("--schema-only", "--no-owner", "--no-table-access-method", "-t", table)
        ours, oracle = pg_dump(server, *form), pg_dump(postgres, *form, login=AS_POSTGRES)
    definitions = re.compile(r"^(?:CREATE|ALTER) TABLE.*?;$", re.MULTILINE | re.DOTALL)
    assert definitions.findall(ours) == definitions.findall(oracle)


def test_a_dump_of_postgresql_is_restored(server, postgres, table):
    with made(postgres, table, PLAIN, ROWS, login=AS_POSTGRES):
        dump = pg_dump(postgres, "--no-owner", "-t", table, login=AS_POSTGRES)
        before = contents(postgres, table, AS_POSTGRES)
    psql(server, stdin=dump)
    assert contents(server, table) == before
    psql(server, "-c", f"DROP TABLE {table}")


@pytest.mark.ours
def test_a_key_that_a_dump_adds_afterwards_is_refused(server, postgres, table):
    with made(postgres, table, KEYED, ROWS, login=AS_POSTGRES):
        dump = pg_dump(postgres, "--no-owner", "-t", table, login=AS_POSTGRES)
    done = psql(server, "-v", "ON_ERROR_STOP=0", "-v", "VERBOSITY=verbose", stdin=dump)
    assert re.findall(r"ERROR:  (\w+)", done.stderr) == ["0A000"] and "keys are fixed" in done.stderr
    assert len(contents(server, table).splitlines()) == 3
    psql(server, "-c", f"DROP TABLE {table}")
