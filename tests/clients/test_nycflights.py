"""A real data set, loaded with \\copy and with `stratalog import`; analytical queries compared with PostgreSQL."""

import decimal
import subprocess

import psycopg
import pytest

from conftest import AGAINST_POSTGRES
from flights import QUERIES, ROWS, TABLES, write_csv
from servers import stratalog_binary
from test_psql import psql


@pytest.fixture(scope="module")
def files(scratch):
    return write_csv(scratch)


@pytest.fixture(scope="module")
def oracle(postgres, files):
    load(postgres, files, "postgres")
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        yield connection


def load(server, files, name):
    for table, columns in TABLES.items():
        psql_on(server, name, f"CREATE TABLE {table} ({columns})")
        done = psql_on(server, name, f"\\copy {table} FROM '{files[table]}' WITH (FORMAT csv, HEADER)")
        assert done == f"COPY {ROWS[table]}\n"


def psql_on(server, name, command):
    done = subprocess.run(["psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", name, "-d", name,
                           "-v", "ON_ERROR_STOP=1", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copied(server, files):
    if not AGAINST_POSTGRES:
        load(server, files, "stratalog")
    else:
        load(server, files, "postgres")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def same(left, right):
    """Equal, with numbers compared to nine digits: sums and averages may add in another order."""
    if isinstance(left, (float, decimal.Decimal)) or isinstance(right, (float, decimal.Decimal)):
        if left is None or right is None:
            return left is right
        left, right = float(left), float(right)
        return left == right or abs(left - right) <= 1e-9 * max(abs(left), abs(right))
    return left == right


def assert_same(found, expected):
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        assert len(mine) == len(theirs) and all(map(same, mine, theirs)), (mine, theirs)


@pytest.mark.parametrize("name", QUERIES)
def test_query(copied, oracle, name):
    assert_same(copied.execute(QUERIES[name]).fetchall(), oracle.execute(QUERIES[name]).fetchall())


@pytest.mark.parametrize("name", list(QUERIES)[:3])
def test_query_with_binary_results(copied, oracle, name):
    assert_same(copied.execute(QUERIES[name], binary=True).fetchall(), oracle.execute(QUERIES[name]).fetchall())


def test_every_row(copied, oracle):
    for table in TABLES:
        order = "ORDER BY " + ", ".join(str(n + 1) for n in range(len(TABLES[table].split(","))))
        query = f"SELECT * FROM {table} {order}"
        assert_same(copied.execute(query).fetchall(), oracle.execute(query).fetchall())


@pytest.mark.ours
def test_import(server, files, copied):
    program = [str(stratalog_binary()), "import", "--port", str(server.port)]
    for table in TABLES:
        done = subprocess.run([*program, "--table", f"imported_{table}", "--create", "--time", "time_hour", str(files[table])],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        types = dict(copied.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s",
                                    (f"imported_{table}",)).fetchall())
        assert types["time_hour"].startswith("timestamp")
        assert types["origin"] == "text"
        names = ", ".join(definition.split()[0] for definition in TABLES[table].split(","))
        order = ", ".join(str(n + 1) for n in range(len(TABLES[table].split(","))))
        query = "SELECT {} FROM {} ORDER BY {}"
        assert_same(copied.execute(query.format(names, f"imported_{table}", order)).fetchall(),
                    copied.execute(query.format(names, table, order)).fetchall())


@pytest.mark.ours
def test_import_again_stores_nothing_twice(server, files, copied):
    program = [str(stratalog_binary()), "import", "--port", str(server.port), "--table", "resumed", "--create",
               "--time", "time_hour", "--producer", "weather-2013", "--batch-rows", "5000"]
    # An interrupted import: the first half of the file.
    lines = files["weather"].read_text().splitlines(keepends=True)
    half = files["weather"].with_name("half.csv")
    half.write_text("".join(lines[:15_001]))
    for path, rows in ((half, 15_000), (files["weather"], ROWS["weather"]), (files["weather"], ROWS["weather"])):
        done = subprocess.run([*program, str(path)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert copied.execute("SELECT count(*) FROM resumed").fetchone() == (rows,)


@pytest.mark.ours
def test_import_from_a_pipe_into_an_existing_table(server, files, copied):
    copied.execute(f"CREATE TABLE piped ({TABLES['weather']})")
    with open(files["weather"], "rb") as data:
        done = subprocess.run([str(stratalog_binary()), "import", "--port", str(server.port), "--table", "piped",
                               "--format", "csv", "-"], stdin=data, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert copied.execute("SELECT count(*) FROM piped").fetchone() == (ROWS["weather"],)


@pytest.mark.ours
def test_import_of_a_bad_line_says_where(server, files, tmp_path):
    path = tmp_path / "bad.csv"
    lines = files["weather"].read_text().splitlines(keepends=True)[:100]
    lines[50] = lines[50].replace("EWR,2013", "EWR,twenty")
    path.write_text("".join(lines))
    psql(server, "-c", f"CREATE TABLE bad_import ({TABLES['weather']})")
    done = subprocess.run([str(stratalog_binary()), "import", "--port", str(server.port), "--table", "bad_import", str(path)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "51" in done.stderr and "year" in done.stderr, done.stderr
    assert psql(server, "-At", "-c", "SELECT count(*) FROM bad_import").stdout == "0\n"
