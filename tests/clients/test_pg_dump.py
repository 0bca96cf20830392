"""Unmodified pg_dump: dumps rows and restores them, to PostgreSQL and to Stratalog."""

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


# A table for each option and for each kind of key: name, columns, options, rows.
DUMPED = [
    ("plain", PLAIN, "", ROWS),
    ("keyed", KEYED, "", ROWS),
    ("coarse", "time TIMESTAMPTZ NOT NULL, v INT", "granularity = '1s'", "('2024-01-01 00:00:01.7+00', 1)"),
    ("based", "time TIMESTAMPTZ NOT NULL, v INT, PRIMARY KEY (time)",
     "base = '1700000000000000000ns', granularity = '1ms'", "('2024-01-01 00:00:01.7+00', 1)"),
    ("newest", "v INT, host TEXT, time TIMESTAMPTZ, PRIMARY KEY (host, time)",
     "collision = 'last', durability = 'relaxed'", "(1, 'a', '2024-01-01 00:00+00'), (2, 'a', '2024-01-01 00:00+00')"),
    ("moved", "host TEXT, time TIMESTAMPTZ, v INT, PRIMARY KEY (host, time)", "collision = 'next', granularity = '1ms'",
     "('a', '2024-01-01 00:00+00', 1), ('a', '2024-01-01 00:00+00', 2)"),
    ("kept", "host TEXT, time TIMESTAMPTZ, v INT, PRIMARY KEY (host, time)", "collision = 'all'",
     "('a', '2024-01-01 00:00+00', 1), ('a', '2024-01-01 00:00+00', 2)"),
    ("strict", "time TIMESTAMPTZ NOT NULL, host TEXT, PRIMARY KEY (host, time)", "late = 'reject'",
     "('2024-01-02 00:00+00', 'a'), ('2024-01-01 00:00+00', 'b')"),
    ("strict_plain", "time TIMESTAMPTZ NOT NULL, host TEXT", "late = 'reject', retention = '36500d'",
     "('2024-01-02 00:00+00', 'a'), ('2024-01-01 00:00+00', 'b')"),
    ("tiers", "time TIMESTAMPTZ NOT NULL, host TEXT, PRIMARY KEY (host, time)",
     "story_rows_max = 1000, story_bytes_max = '1MiB', story_age_max = '15min', pin_for = '1h'",
     "('2024-01-02 00:00+00', 'a')"),
    ("times", "seen TIMESTAMPTZ NOT NULL, gone TIMESTAMP, time TIMESTAMPTZ NOT NULL, host TEXT, PRIMARY KEY (host, time)",
     "granularity = '1h'", "('2024-01-01 00:01:02.5+00', NULL, '2024-01-01 03:04+00', 'a')"),
    ("nullable", "gone TIMESTAMPTZ, time TIMESTAMPTZ NOT NULL, v INT", "granularity = '1h'",
     "(NULL, '2024-01-01 03:04+00', 1), ('2024-01-01 00:01:02.5+00', '2024-01-01 04:04+00', 2)"),
    ("flags", "time TIMESTAMP NOT NULL, flag BOOLEAN, day DATE, id UUID, n BIGINT, PRIMARY KEY (flag, day, id, n, time)", "",
     "('2024-01-01', true, '2024-01-02', '00000000-0000-0000-0000-000000000001', 7)"),
    ("served", "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT", "time_source = 'server', acceptance_window = '1ms'",
     "(DEFAULT, 'a', 1)"),
    ("served_keyed", "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT, PRIMARY KEY (host, time)",
     "time_source = 'server', acceptance_window = '1ms'", "(DEFAULT, 'a', 1)"),
    ("sent", "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL", "time_source = 'client', acceptance_window = '1s'",
     "(now(), 'a')"),
    ("sent_keyed", "time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, PRIMARY KEY (host, time)",
     "time_source = 'client', acceptance_window = '1s', collision = 'next'", "(now(), 'a')"),
    ('"Quoted ""name"', '"a b" TEXT, "time" TIMESTAMPTZ, "select" INT, PRIMARY KEY ("a b", "time")', "",
     "('x', '2024-01-01 00:00+00', 1)"),
]


def without_tokens(dump):
    """Removes the random word with which each dump restricts psql."""
    return [line for line in dump.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]


@pytest.fixture
def dumped(server, table):
    """A database with all of these tables; its name."""
    psql(server, "-c", f"CREATE DATABASE {table}")
    login = ("-d", table)
    for name, columns, options, rows in DUMPED:
        psql(server, *login, "-c", f"CREATE TABLE {name} ({columns})" + (f" WITH ({options})" if options else ""))
        psql(server, *login, "-c", f"INSERT INTO {name} VALUES {rows}")
    psql(server, *login, stdin="""
        COMMENT ON TABLE keyed IS 'it''s a table';
        COMMENT ON COLUMN keyed.usage IS 'of a column';
        CREATE INDEX keyed_n ON plain USING bloom (host);
        CREATE INDEX tiers_v ON newest USING bloom (v);
        ALTER TABLE moved SET (granularity = '1s');
        CREATE SCHEMA elsewhere;
        CREATE TABLE elsewhere.keyed (time TIMESTAMPTZ, host TEXT, PRIMARY KEY (host, time));
        INSERT INTO elsewhere.keyed VALUES ('2024-01-01 00:00+00', 'e');
    """)
    return table


@pytest.mark.ours
@pytest.mark.parametrize("way", ["psql", "psql --single-transaction", "pg_restore", "pg_restore -1", "pg_restore -j 3"])
def test_a_full_dump_is_restored_whole(server, dumped, way, tmp_path):
    login, restored = ("-d", dumped), f"{dumped}_again"
    dump = pg_dump(server, login=login)
    psql(server, "-c", f"CREATE DATABASE {restored}")
    if way.startswith("psql"):
        psql(server, "-d", restored, *way.split()[1:], stdin=dump)
    else:
        pg_dump(server, "-Fc", "-f", str(tmp_path / "dump"), login=login)
        command = [*way.split(), "-h", "127.0.0.1", "-p", str(server.port), "-U", "stratalog", "-d", restored]
        done = subprocess.run([*command, str(tmp_path / "dump")], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    assert without_tokens(pg_dump(server, login=("-d", restored))) == without_tokens(dump)
    shown = ("SELECT schema, name, key_columns, tick_column, collision, time_source, late, durability, granularity "
             "FROM stratalog.chronicles ORDER BY schema, name")
    assert (psql(server, "-d", restored, "-At", "-c", shown).stdout == psql(server, *login, "-At", "-c", shown).stdout)
    described = psql(server, "-d", restored, "-c", "\\d keyed").stdout
    assert '"keyed_pkey" PRIMARY KEY' in described
    # The restored tables keep their rules.
    for name, sqlstate in [("keyed", "23505"), ("served", "428C9"), ("served_keyed", "428C9"), ("sent", "SL001")]:
        rows = ROWS if name == "keyed" else "('2024-01-01 00:00+00', 'a')"
        done = psql(server, "-d", restored, "-v", "VERBOSITY=sqlstate", "-c", f"INSERT INTO {name} VALUES {rows}", check=False)
        assert sqlstate in done.stderr, (name, done.stderr)


@pytest.mark.ours
def test_times_of_the_server_are_restored_into_a_new_table_alone(server, table):
    psql(server, "-c", f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT) WITH (time_source = 'server')")
    copy = f"COPY {table} FROM stdin;\n2020-01-01 00:00:00+00\t1\n2019-01-01 00:00:00+00\t2\n\\.\n"
    sealed = f"SELECT sealed_tick IS NULL FROM stratalog.tails WHERE name = '{table}'"
    assert psql(server, "-At", "-c", sealed).stdout in ("t\n", "")
    psql(server, stdin=copy)
    assert contents(server, table) == "2019-01-01 00:00:00+00|2\n2020-01-01 00:00:00+00|1\n"
    assert psql(server, "-At", "-c", sealed).stdout == "f\n"
    done = psql(server, "-v", "VERBOSITY=verbose", stdin=copy, check=False)
    assert "428C9" in done.stderr and "a table without earlier rows" in done.stderr
    # A table whose rows were deleted does not count as new.
    psql(server, "-c", f"DELETE FROM {table}")
    assert "428C9" in psql(server, "-v", "VERBOSITY=verbose", stdin=copy, check=False).stderr
    psql(server, stdin=f"COPY {table} (v) FROM stdin;\n3\n\\.\n")
    psql(server, "-c", f"DROP TABLE {table}")


@pytest.mark.ours
def test_a_live_table_keeps_its_window_when_rows_are_copied(server, table):
    psql(server, "-c", f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT) WITH (time_source = 'client')")
    psql(server, stdin=f"COPY {table} FROM stdin;\n2020-01-01 00:00:00+00\t1\n\\.\n")
    done = psql(server, "-v", "VERBOSITY=verbose", stdin=f"COPY {table} FROM stdin;\n2020-01-02 00:00:00+00\t1\n\\.\n", check=False)
    assert "SL001" in done.stderr
    psql(server, "-c", f"DROP TABLE {table}")


@pytest.mark.parametrize("restore", [(), ("--single-transaction",)])
def test_a_key_that_a_dump_adds_afterwards_is_added(server, postgres, table, restore):
    form = ("--no-owner", "--no-table-access-method", "-t", table)
    with made(postgres, table, KEYED, ROWS, login=AS_POSTGRES):
        psql(postgres, *AS_POSTGRES, "-c", f"COMMENT ON TABLE {table} IS 'of PostgreSQL'")
        dump = pg_dump(postgres, *form, login=AS_POSTGRES)
        before = contents(postgres, table, AS_POSTGRES)
    psql(server, *restore, stdin=dump)
    assert contents(server, table) == before
    # The servers' version comments and the initial settings of a dump may differ.
    told = re.compile(r"^(--.*|SET .*|SELECT pg_catalog.set_config.*|)$")
    said = [[line for line in without_tokens(text) if not told.match(line)] for text in (pg_dump(server, *form), dump)]
    assert said[0] == said[1]
    psql(server, "-c", f"DROP TABLE {table}")


def test_rows_that_a_key_does_not_allow_are_told_of(server, table):
    psql(server, "-c", f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT)")
    psql(server, "-c", f"INSERT INTO {table} VALUES ('2024-01-01 00:00+00', 'a'), ('2024-01-01 00:00+00', 'a')")
    add = ("-v", "VERBOSITY=verbose", "-c", f"ALTER TABLE {table} ADD PRIMARY KEY (host, time)")
    told = psql(server, *add, check=False).stderr
    assert f'ERROR:  23505: could not create unique index "{table}_pkey"' in told
    assert "=(a, 2024-01-01 00:00:00+00) is duplicated." in told
    assert len(contents(server, table).splitlines()) == 2
    psql(server, "-c", f"DROP TABLE {table}")
