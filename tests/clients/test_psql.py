"""psql, unmodified."""

import subprocess

import pytest

from conftest import AGAINST_POSTGRES


def psql(server, *arguments, stdin=None, check=True):
    database = "postgres" if AGAINST_POSTGRES else "stratalog"
    command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", database, "-d", database,
               "-v", "ON_ERROR_STOP=1", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    if check:
        assert done.returncode == 0, done.stderr + done.stdout
    return done


@pytest.fixture
def filled(server, table):
    psql(server, "-c", f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, "
                       f"v DOUBLE PRECISION DEFAULT 1.5, n NUMERIC(8,2), PRIMARY KEY (host, time))")
    psql(server, "-c", f"INSERT INTO {table} VALUES ('2024-01-01 00:00:00+00', 'a', 1, 2.5), "
                       f"('2024-01-01 00:00:10+00', E'tab\\there', NULL, NULL), "
                       f"('2024-01-01 00:00:20+00', 'comma, \"quote\"', 'NaN', -1)")
    return table


def test_select_and_tags(server, filled):
    done = psql(server, "-At", "-c", f"SELECT host, v FROM {filled} WHERE host = 'a'")
    assert done.stdout == "a|1\n"
    done = psql(server, "-c", f"INSERT INTO {filled} (time, host) VALUES (now(), 'tagged')")
    assert done.stdout == "INSERT 0 1\n"
    done = psql(server, "-c", f"SELECT count(*) FROM {filled}")
    assert done.stdout.split() == ["count", "-------", "4", "(1", "row)"]
    done = psql(server, "-c", f"DELETE FROM {filled} WHERE time < '2024-01-01 00:00:10+00'")
    assert done.stdout == "DELETE 1\n"


def test_several_statements_and_a_file(server, table, tmp_path):
    script = tmp_path / "script.sql"
    script.write_text(
        f"-- a comment\nCREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, v INT);\n"
        f"INSERT INTO {table} VALUES ('2024-01-01', 1),\n  ('2024-01-02', 2);\n"
        f"SELECT sum(v)\n  FROM {table};\n\\echo done\n"
    )
    done = psql(server, "-At", "-q", "-f", str(script))
    assert done.stdout == "3\ndone\n"
    done = psql(server, "-At", "-c", "SELECT 1; SELECT 2")
    assert done.stdout == "1\n2\n"


def test_errors_end_with_a_status(server):
    done = psql(server, "-c", "SELECT * FROM no_such_table", check=False)
    assert done.returncode == 1
    assert "no_such_table" in done.stderr and done.stderr.startswith("ERROR:")
    done = psql(server, "-v", "VERBOSITY=sqlstate", "-c", "SELEC 1", check=False)
    assert "42601" in done.stderr


def test_backslash_l(server):
    done = psql(server, "-At", "-c", "\\l")
    assert any(line.split("|")[0] == ("postgres" if AGAINST_POSTGRES else "stratalog")
               for line in done.stdout.splitlines())


def test_backslash_dn(server):
    done = psql(server, "-At", "-c", "\\dn")
    assert [line.split("|")[0] for line in done.stdout.splitlines()].count("public") == 1


def test_backslash_dt(server, filled):
    done = psql(server, "-At", "-c", "\\dt")
    rows = [line.split("|") for line in done.stdout.splitlines()]
    assert ["public", filled, "table"] in [row[:3] for row in rows]
    done = psql(server, "-At", "-c", f"\\dt {filled}")
    assert len(done.stdout.splitlines()) == 1
    done = psql(server, "-c", "\\dt no_such_*", check=False)
    assert "Did not find any relation" in done.stderr


def test_backslash_d(server, filled):
    done = psql(server, "-At", "-c", "\\d")
    assert f"public|{filled}|table" in done.stdout
    done = psql(server, "-c", f"\\d {filled}")
    assert f'Table "public.{filled}"' in done.stdout
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if "|" in line]
    columns = {row[0]: row[1:] for row in rows[1:]}
    assert columns["host"][0] == "text" and columns["host"][2] == "not null"
    assert columns["time"][0].startswith("timestamp") and "with time zone" in columns["time"][0]
    assert columns["v"][0] == "double precision" and columns["v"][3] == "1.5"
    assert columns["n"][0] == "numeric(8,2)"
    assert "PRIMARY KEY" in done.stdout
    psql(server, "-c", f"\\d+ {filled}")


@pytest.mark.parametrize("command", (
    "d da dA db dc dC dd dD ddp dE det des deu dew df dF dFd dFp dFt dg di dl dL dm dn do dO dp "
    "drds dRp dRs ds dS dt dT du dv dx dX dy l z dP dAc dAf dAo dAp d+ dt+ di+ dn+ l+ dT+ df+ da+ "
    "du+ dv+ db+ dconfig"
).split())
def test_every_describing_command(server, filled, command):
    assert "ERROR" not in psql(server, "-c", f"\\{command}").stderr


def test_conninfo_and_settings(server):
    assert "port" in psql(server, "-c", "\\conninfo").stdout
    done = psql(server, "-At", "-c", "SET TimeZone = 'Asia/Tokyo'", "-c", "SHOW TimeZone",
                "-c", "SELECT timestamptz '2024-01-01 00:00:00+00'")
    assert done.stdout.splitlines() == ["SET", "Asia/Tokyo", "2024-01-01 09:00:00+09"]
    assert psql(server, "-At", "-c", "\\encoding").stdout == "UTF8\n"


@pytest.mark.parametrize("options", ["", "WITH (FORMAT csv)", "WITH (FORMAT csv, HEADER)",
                                     "WITH (FORMAT csv, DELIMITER ';', NULL 'none')",
                                     "WITH (DELIMITER '|')", "CSV HEADER"])
def test_copy_out_and_in(server, filled, tmp_path, options):
    path, again = tmp_path / "out", tmp_path / "again"
    done = psql(server, "-c", f"\\copy {filled} TO '{path}' {options}")
    assert done.stdout == "COPY 3\n"
    copy = filled + "_" + str(abs(hash(options)))
    psql(server, "-c", f"CREATE TABLE {copy} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, "
                       f"v DOUBLE PRECISION DEFAULT 1.5, n NUMERIC(8,2), PRIMARY KEY (host, time))")
    done = psql(server, "-c", f"\\copy {copy} FROM '{path}' {options}")
    assert done.stdout == "COPY 3\n"
    psql(server, "-c", f"\\copy (SELECT * FROM {copy} ORDER BY time) TO '{again}' {options}")
    assert sorted(again.read_text().splitlines()) == sorted(path.read_text().splitlines())


def test_copy_columns_from_stdin(server, filled):
    done = psql(server, "-c", f"\\copy {filled} (host, time) FROM STDIN WITH (FORMAT csv)",
                stdin="x,2024-02-01\ny,2024-02-02\n")
    assert done.stdout == "COPY 2\n"
    done = psql(server, "-At", "-c", f"SELECT host, v, n FROM {filled} WHERE time > '2024-01-31' ORDER BY 1")
    assert done.stdout == "x|1.5|\ny|1.5|\n"


def test_bad_copy_names_line_and_column(server, filled):
    done = psql(server, "-c", f"\\copy {filled} FROM STDIN", check=False,
                stdin="2024-02-01\tx\t1\t1\n2024-02-02\ty\tmany\t1\n")
    assert done.returncode == 1
    assert "line 2" in done.stderr and "column v" in done.stderr
    done = psql(server, "-At", "-c", f"SELECT count(*) FROM {filled}")
    assert done.stdout == "3\n"


def test_crosstab_of_wide_output(server):
    done = psql(server, "-x", "-c", "SELECT 1 AS one, 'two' AS two, NULL AS three")
    assert "one" in done.stdout and "RECORD 1" in done.stdout


@pytest.mark.ours
def test_backslash_dt_in_the_system_schema(server):
    assert "journal" in psql(server, "-At", "-c", "\\dtv stratalog.*").stdout
