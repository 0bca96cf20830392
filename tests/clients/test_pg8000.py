"""pg8000: its DB-API and its native interface; text parameters, no binary."""

import datetime as dt
import decimal
import io
import uuid

import pg8000.dbapi
import pg8000.native
import pytest

from drivers import COLUMNS, START, address, at


@pytest.fixture
def opened(server):
    connection = pg8000.dbapi.connect(**address(server), ssl_context=False)
    yield connection
    connection.close()


@pytest.fixture
def native(server):
    with pg8000.native.Connection(**address(server), ssl_context=False) as connection:
        yield connection


@pytest.fixture
def filled(native, table):
    """100 rows of ten hosts."""
    native.run(f"CREATE TABLE {table} ({COLUMNS})")
    native.run(
        f"INSERT INTO {table} SELECT CAST(:start AS timestamptz) + n * interval '1 second', 'h' || n % 10, n "
        "FROM generate_series(0, 99) AS g(n)",
        start=START,
    )
    return table


def sqlstate(error):
    return error.value.args[0]["C"]


def test_dbapi_reads_and_writes(opened, filled):
    cursor = opened.cursor()
    cursor.execute(f"INSERT INTO {filled} VALUES (%s, %s, %s)", (START, "new", None))
    assert cursor.rowcount == 1
    cursor.execute(f"SELECT host, v, time FROM {filled} WHERE time = %s AND host >= %s ORDER BY host", (START, "h"))
    assert [column[:2] for column in cursor.description] == [("host", 25), ("v", 23), ("time", 1184)]
    assert cursor.fetchone() == ["h0", 0, START]
    assert cursor.fetchall() == (["new", None, START],)
    opened.rollback()
    cursor.execute(f"SELECT v FROM {filled} ORDER BY v")
    assert cursor.fetchmany(2) == ([0], [1])
    assert sum(row[0] for row in cursor) == 4950 - 1
    opened.commit()


def test_dbapi_executemany_and_autocommit(opened, filled):
    opened.autocommit = True
    cursor = opened.cursor()
    cursor.executemany(f"INSERT INTO {filled} VALUES (%s, 'many', %s)", [(at(n), n) for n in range(50)])
    opened.rollback()
    cursor.execute(f"SELECT count(*) FROM {filled} WHERE host = 'many'")
    assert cursor.fetchone() == [50]


@pytest.mark.parametrize(
    "style, query, arguments",
    [
        ("qmark", "SELECT ? + 1", (2,)),
        ("numeric", "SELECT :1 + 1", (2,)),
        ("named", "SELECT :n + 1", {"n": 2}),
        ("format", "SELECT %s + 1", (2,)),
        ("pyformat", "SELECT %(n)s + 1", {"n": 2}),
    ],
)
def test_dbapi_styles_of_parameters(opened, monkeypatch, style, query, arguments):
    monkeypatch.setattr(pg8000.dbapi, "paramstyle", style)
    cursor = opened.cursor()
    cursor.execute(query, arguments)
    assert cursor.fetchone() == [3]


def test_dbapi_copy(opened, filled):
    cursor = opened.cursor()
    cursor.execute(f"COPY {filled} FROM STDIN WITH (FORMAT csv)", stream=io.BytesIO(b"2024-02-01,x,1\n2024-02-02,y,\n"))
    assert cursor.rowcount == 2
    out = io.BytesIO()
    cursor.execute(f"COPY (SELECT host, v FROM {filled} WHERE time > '2024-01-31' ORDER BY time) TO STDOUT", stream=out)
    assert out.getvalue() == b"x\t1\ny\t\\N\n"
    opened.commit()


def test_dbapi_errors_and_blocks(opened, filled):
    cursor = opened.cursor()
    with pytest.raises(pg8000.dbapi.DatabaseError) as error:
        cursor.execute("SELECT * FROM nothing")
    assert sqlstate(error) == "42P01"
    with pytest.raises(pg8000.dbapi.DatabaseError) as error:
        cursor.execute("SELECT 1")
    assert sqlstate(error) == "25P02"
    opened.rollback()
    with pytest.raises(pg8000.dbapi.DatabaseError) as error:
        cursor.execute(f"INSERT INTO {filled} VALUES (%s, 'h0', 0)", (START,))
    assert sqlstate(error) == "23505"
    opened.rollback()
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == [1]


@pytest.mark.ours
def test_dbapi_two_phases_are_refused(opened):
    with pytest.raises(pg8000.dbapi.DatabaseError) as error:
        opened.tpc_begin(opened.xid(1, "global", "branch"))
        opened.tpc_prepare()
    assert sqlstate(error) == "0A000"


VALUES = {
    "boolean": [True, False],
    "smallint": [-32768],
    "integer": [2**31 - 1],
    "bigint": [-(2**63)],
    "real": [1.5],
    "double precision": [0.1, float("-inf")],
    "numeric(20,3)": [decimal.Decimal("-12345.678")],
    "text": ["", "it's \\ 日本"],
    "bytea": [b"", b"\x00\xff\\"],
    "date": [dt.date(2024, 2, 29)],
    "time": [dt.time(12, 34, 56, 789)],
    "timestamp": [dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "timestamptz": [at(0.5)],
    "interval": [dt.timedelta(days=2, seconds=3, microseconds=4)],
    "uuid": [uuid.UUID(int=8)],
    "jsonb": [{"a": [1, None]}],
    "integer[]": [[], [1, None, 3]],
    "text[]": [["a,b", 'q"', None, "NULL", ""]],
    "double precision[]": [[0.5]],
    "boolean[]": [[True, False]],
    "timestamptz[]": [[START]],
    "uuid[]": [[uuid.UUID(int=1)]],
    "date[]": [[dt.date(2024, 1, 1)]],
}


@pytest.mark.parametrize("sql_type", VALUES)
def test_native_values_of_every_type(native, table, sql_type):
    native.run(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, n INT, v {sql_type})")
    insert = native.prepare(f"INSERT INTO {table} VALUES (:time, :n, :v)")
    values = [*VALUES[sql_type], None]
    for n, value in enumerate(values):
        insert.run(time=at(n), n=n, v=value)
    insert.close()
    assert native.run(f"SELECT v FROM {table} ORDER BY n") == [[value] for value in values]
    for value in values:
        assert native.run(f"SELECT CAST(:v AS {sql_type})", v=value) == [[value]]


def test_native_parameters_without_a_type(native, filled):
    count = f"SELECT count(*) FROM {filled} WHERE "
    assert native.run(f"{count} v = ANY(CAST(:v AS int[]))", v=[1, 2, 3]) == [[3]]
    assert native.run(f"{count} host = :h AND v > :v", h="h1", v=50) == [[5]]
    assert native.run(f"SELECT v FROM {filled} ORDER BY v LIMIT :n OFFSET :m", n=2, m=5) == [[5], [6]]
    assert native.run(f"SELECT v FROM {filled} WHERE time = :t", t=at(7)) == [[7]]
    assert native.run("SELECT :t || 'x'", t="a") == [["ax"]]
    assert native.run(f"{count} v = :v", v="9", types={"v": pg8000.native.INTEGER}) == [[1]]


def test_native_columns_rows_and_several_statements(native, filled):
    native.run(f"SELECT host AS h, v FROM {filled} LIMIT 3")
    assert [(column["name"], column["type_oid"]) for column in native.columns] == [("h", 25), ("v", 23)]
    assert native.row_count == 3
    assert native.run("SELECT 1; SELECT 'two';") == [[1], ["two"]]
    assert native.run("") is None


def test_native_columns_name_their_table(native, filled):
    ((oid,),) = native.run(f"SELECT '{filled}'::regclass::oid")
    native.run(f"SELECT v, v + 1 FROM {filled} LIMIT 1")
    assert [(column["table_oid"], column["column_attrnum"]) for column in native.columns] == [(oid, 3), (0, 0)]


def test_native_blocks_and_notices(native, filled):
    native.run("BEGIN")
    native.run(f"INSERT INTO {filled} VALUES (:t, 'new', 1)", t=START)
    native.run("SAVEPOINT a")
    with pytest.raises(pg8000.native.DatabaseError):
        native.run("SELECT 1 / 0")
    native.run("ROLLBACK TO SAVEPOINT a")
    native.run("COMMIT")
    assert native.run(f"SELECT v FROM {filled} WHERE host = 'new'") == [[1]]
    native.notices.clear()
    native.run("DROP TABLE IF EXISTS nothing_of_the_kind")
    (notice,) = native.notices
    assert notice[b"S"] == b"NOTICE" and b"nothing_of_the_kind" in notice[b"M"]
    assert native.parameter_statuses["server_encoding"] == "UTF8"


def test_native_copy(native, filled):
    native.run(f"COPY {filled} FROM STDIN", stream=["2024-02-01\tlist\t1\n", "2024-02-02\tlist\t2\n"])
    out = io.StringIO()
    native.run(f"COPY (SELECT v FROM {filled} WHERE host = 'list' ORDER BY v) TO STDOUT", stream=out)
    assert out.getvalue() == "1\n2\n"
