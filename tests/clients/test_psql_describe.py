"""psql's describing commands and helpers, compared with PostgreSQL's answers for an equal table."""

import contextlib
import csv
import io
import signal
import subprocess

import pytest

from conftest import AGAINST_POSTGRES
from test_psql import psql

COLUMNS = ("time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, region TEXT, usage DOUBLE PRECISION DEFAULT 1.5, "
           "n NUMERIC(8,2), marks INTEGER[], ok BOOLEAN DEFAULT false, j JSONB, b BYTEA, u UUID, d DATE, "
           "i INTERVAL, s SMALLINT NOT NULL DEFAULT 7, PRIMARY KEY (host, time)")
ROWS = ("('2024-01-01 00:00:00+00', 'a', 'eu', 1, 2.5, '{1,2}', true, '{\"k\": 1}', '\\x00', "
        "'00000000-0000-0000-0000-000000000001', '2024-01-01', '1 day', 1), "
        "('2024-01-01 00:00:10+00', 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2)")
AS_POSTGRES = ("-U", "postgres", "-d", "postgres")


@contextlib.contextmanager
def table_on_both(server, postgres, table):
    """Creates the table on both servers and runs psql on both: Stratalog's output, PostgreSQL's output."""
    sides = ((server, ()), (postgres, AS_POSTGRES))

    def both(*arguments, **more):
        filled = [argument.replace("@", table) for argument in arguments]
        return [psql(side, *login, *filled, **more) for side, login in sides]

    both("-c", f"CREATE TABLE @ ({COLUMNS})", "-c", "COMMENT ON TABLE @ IS 'load of hosts'",
         "-c", "COMMENT ON COLUMN @.usage IS 'percent'", "-c", f"INSERT INTO @ VALUES {ROWS}")
    yield both
    both("-c", "DROP TABLE @")


@pytest.fixture(scope="module")
def described(server, postgres):
    with table_on_both(server, postgres, "describe_me") as both:
        yield both


@pytest.fixture
def written(server, postgres, table):
    """As `described`, for a test that changes the table."""
    with table_on_both(server, postgres, f"write_{table}") as both:
        yield both


def both_scripts(described, tmp_path, script):
    path = tmp_path / "script.sql"
    path.write_text(script.replace("@", "describe_me"))
    done = described("-f", str(path), "-v", "ON_ERROR_STOP=0", check=False)
    return [(side.stdout, side.stderr) for side in done]


def listed(done, *left_out):
    """The rows of a list as dictionaries, without columns that always differ."""
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    return [{key: value for key, value in row.items() if key not in left_out} for row in rows]


@pytest.mark.parametrize("command", [
    "d @", "d public.@", 'd "@"', "d @*", "d (@|nothing)", "d @_pkey", "d+ @_pkey", "d @.nothing.x.y", "d nothing_*",
    "d+ nothing", "dd @", "dt nothing", "di nothing*", "dv", "dm", "ds", "dE", "det", "dO", "dP", "dRp", "dRs", "dX",
    "dy", "drds", "ddp", "des", "deu", "dew", "dD", "sf nothing", "sv nothing", "sv @", "dn nothing", "du nothing",
    "dt a.b.c.d", "dT nothing", "dx nothing", "lo_list",
])
def test_the_description_is_that_of_postgresql(described, command):
    ours, oracle = described("-c", f"\\{command}", check=False)
    assert (ours.stdout, ours.stderr, ours.returncode) == (oracle.stdout, oracle.stderr, oracle.returncode)


def test_the_long_description_differs_in_the_access_method_alone(described):
    ours, oracle = ([line for line in done.stdout.splitlines() if not line.startswith("Access method")]
                    for done in described("-c", "\\d+ @"))
    assert ours == oracle


@pytest.mark.parametrize("command", [
    "dt @", "dt public.@", "dt+ @", "dt *.@", "dtvmsE @", "dti+ @*", "di @*", "di+ @*", "dp @", "z public.@", "d @",
    "dT integer", "dT *.numeric", "dT+ timestamptz", "dconfig TimeZone", "dconfig standard_conforming_strings",
    "dn public", "db pg_default", "dA btree", "df now", "df *.pi", "da count", "dO C",
    "dc *.nothing",
])
def test_lists_have_the_rows_of_postgresql(described, command):
    ours, oracle = (listed(done, "Owner", "Size", "Access method", "Description", "Access privileges")
                    for done in described("--csv", "-c", f"\\{command}"))
    assert ours == oracle


@pytest.mark.parametrize("catalog", ["pg_class", "pg_attribute", "pg_type", "pg_index", "pg_constraint", "pg_namespace",
                                     "pg_database", "pg_stat_activity", "pg_settings", "pg_tables"])
def test_catalogs_have_the_columns_of_postgresql(described, catalog):
    ours, oracle = described("-c", f"\\d pg_catalog.{catalog}")
    names_and_types = [[[cell.strip() for cell in line.split("|")[:2]] for line in done.stdout.splitlines() if "|" in line]
                       for done in (ours, oracle)]
    assert names_and_types[0] == names_and_types[1]


@pytest.mark.parametrize("letters", (
    "d da dA db dc dC dd dD ddp dE det des deu dew df dfa dfn dfp dft dfw dF dFd dFp dFt dg di dl dL dm dn do dO dp dP dPi "
    "dPt drds dRp dRs ds dt dT du dv dx dX dy l z dAc dAf dAo dAp dconfig"
).split())
def test_no_form_of_a_command_fails(server, described, letters):
    patterns = ["", " @", " public.@*", ' "@"'] + ([] if letters in ("d", "dx") else [" *.*"])
    if letters in ("l", "db", "dn", "du", "dg", "dL", "dA", "dx", "dX", "dy", "dew", "des", "deu", "dRp", "dRs", "drds",
                   "dconfig", "dPi", "dl"):
        patterns = ["", " *", " @*"]
    arguments = []
    for suffix in ("", "+", "S", "S+"):
        for pattern in patterns:
            arguments += ["-c", f"\\{letters}{suffix}{pattern}".replace("@", "describe_me")]
    done = psql(server, *arguments, "-o", "/dev/null", "-v", "ON_ERROR_STOP=0", check=False)
    assert "ERROR" not in done.stderr


def test_what_is_not_in_the_path_is_not_listed(described):
    ours, _ = described("--csv", "-c", "\\d")
    assert {row["Schema"] for row in listed(ours)} == {"public"}
    ours, oracle = described("-At", "-c", "SELECT current_schema(), current_schemas(true)")
    assert ours.stdout == oracle.stdout


def test_gdesc_names_and_types(described, tmp_path):
    ours, oracle = both_scripts(described, tmp_path, "\n".join((
        "SELECT * FROM @ \\gdesc",
        "SELECT count(*), 1 AS one, 1.5::float8 AS half, 'x' AS x, now(), NULL AS n, ARRAY[1] AS a \\gdesc",
        "SELECT oid, relname, relkind, 'pg_class'::regclass, current_user FROM pg_class \\gdesc",
        "SELECT \\gdesc",
    )))
    assert ours == oracle


SCRIPT = r"""
SELECT count(*) AS n, max(usage) AS most FROM @ \gset its_
\echo :its_n :its_most
SELECT 'SELECT ' || g || ' AS made' FROM generate_series(1, 2) AS s(g) \gexec
SELECT host, usage FROM @ ORDER BY 1 \g (format=csv tuples_only=on)
SELECT 1 AS a, NULL AS b \gx
SELECT host, n, sum(usage) FROM @ GROUP BY 1, 2 ORDER BY 1 \crosstabview host n
SELECT 1 \; SELECT 2 \; SELECT 3;
\set name 'it''s'
SELECT :'name' AS quoted;
\if true
SELECT 'taken' AS branch;
\else
SELECT 'not taken' AS branch;
\endif
\set AUTOCOMMIT off
INSERT INTO @ (time, host) VALUES ('2024-02-01', 'c');
ROLLBACK;
SELECT count(*) FROM @;
COMMIT;
\set AUTOCOMMIT on
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO @ (time, host) VALUES ('2024-02-01', 'c');
SELECT 1 / 0;
SELECT count(*) FROM @;
ROLLBACK;
PREPARE twice(int) AS SELECT $1 * 2 AS twice;
EXECUTE twice(21);
DEALLOCATE twice;
TABLE @;
"""


def test_a_script_prints_what_it_does_with_postgresql(described, tmp_path):
    ours, oracle = both_scripts(described, tmp_path, SCRIPT)
    assert ours == oracle


@pytest.mark.parametrize("settings", ["format csv", "format html", "format aligned", "format wrapped", "format unaligned",
                                      "format asciidoc", "format latex", "format troff-ms", "expanded on", "expanded auto",
                                      "null none", "border 2", "tuples_only on", "numericlocale on", "footer off"])
def test_formats(described, settings):
    ours, oracle = described("-P", settings.replace(" ", "="), "-c", "SELECT * FROM @ ORDER BY time",
                             "-c", "SELECT 1234567.5 AS n, 7 AS i, true AS t, NULL AS none, E'two\\nlines' AS text")
    assert ours.stdout == oracle.stdout


def test_results_in_pieces(described):
    ours, oracle = described("-v", "FETCH_COUNT=2", "-c", "SELECT g FROM generate_series(1, 7) AS s(g)",
                             "-c", "SELECT host FROM @ ORDER BY 1")
    assert ours.stdout == oracle.stdout


def test_results_to_files_and_programs(described, tmp_path):
    file, piped = tmp_path / "file", tmp_path / "piped"
    ours, _ = described("-At", stdin=f"SELECT 'x' \\g {file}\nSELECT 'y' \\g |cat >{piped}\n\\o {file}\nSELECT 'z';\n")
    assert (ours.stdout, file.read_text(), piped.read_text()) == ("", "z\n", "y\n")


def test_copy_to_and_from_programs_and_queries(written, tmp_path):
    file = tmp_path / "file"
    ours, oracle = written("-c", "\\copy @ (time, host) FROM PROGRAM 'printf \"2024-03-01\\tp\\n\"'",
                             "-c", "\\copy (SELECT time, usage FROM @ ORDER BY time) TO STDOUT WITH (FORMAT csv, HEADER)",
                             "-c", f"\\copy @ TO PROGRAM 'cat >{file}'", "-c", "\\copy @ (host) TO PSTDOUT")
    assert ours.stdout == oracle.stdout
    assert len(file.read_text().splitlines()) == 3


def test_copy_in_binary(written, tmp_path):
    file = tmp_path / "file"
    ours, _ = written("-c", f"\\copy @ (time, host, usage) TO '{file}' WITH (FORMAT binary)",
                        "-c", "DELETE FROM @ WHERE time < '2025-01-01'",
                        "-c", f"\\copy @ (time, host, usage) FROM '{file}' WITH (FORMAT binary)")
    assert ours.stdout.splitlines() == ["COPY 2", "DELETE 2", "COPY 2"]


def test_watch_runs_again_and_again(server):
    name = "postgres" if AGAINST_POSTGRES else "stratalog"
    command = ["psql", "-X", "-At", "-h", "127.0.0.1", "-p", str(server.port), "-U", name, "-d", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        running.stdin.write("SELECT 'again' \\watch 0.01\n")
        running.stdin.flush()
        seen = 0
        while seen < 3:
            seen += running.stdout.readline() == "again\n"
        running.send_signal(signal.SIGINT)
        running.stdin.close()
        running.stdout.read()
        assert running.wait(30) is not None


def test_timing_connection_and_the_last_error(server):
    done = psql(server, "-c", "\\timing on", "-c", "SELECT 1", "-c", "\\conninfo")
    assert "Time: " in done.stdout and f'port "{server.port}"' in done.stdout
    done = psql(server, "-v", "ON_ERROR_STOP=0", stdin="SELECT * FROM no_such_table;\n\\errverbose\n", check=False)
    assert "42P01" in done.stderr


@pytest.mark.parametrize("wrong", ["SELECT * FROM nothing", "SELECT nothing FROM @", "SELECT nothing(1)",
                                   "SELECT 1 +", "SELECT 'a'::nothing", "SELECT host FROM @ GROUP BY region"])
def test_errors_point_at_their_place(described, wrong):
    ours, oracle = ([line for line in done.stderr.splitlines() if line.startswith("LINE") or line.strip() == "^"]
                    for done in described("-c", wrong, check=False))
    assert ours == oracle


@pytest.mark.ours
@pytest.mark.parametrize("command", ["lo_import /dev/null", "lo_export 1 /dev/null", "lo_unlink 1"])
def test_large_objects_are_refused(server, command):
    done = psql(server, "-c", f"\\{command}", check=False)
    assert done.returncode != 0 and "lo_" in done.stderr
