"""COPY's options in every valid and invalid form: errors and data equal PostgreSQL's."""

import psycopg
import pytest

# Text columns first: a wrong delimiter then causes an error about the delimiter, not about a value.
COLUMNS = "a text, b text, time timestamptz NOT NULL"

# The options behind STDIN and STDOUT.
OPTIONS = """
(FORMAT csv)
(FORMAT CSV, HEADER)
(FORMAT csv, HEADER on, DELIMITER ';', NULL 'none', QUOTE '''', ESCAPE E'\\\\')
(FORMAT csv, HEADER match)
(FORMAT csv, HEADER 'MATCH')
(HEADER)
(HEADER 1)
(HEADER 2)
(HEADER perhaps)
(HEADER (a))
(FORMAT nosuch)
(FORMAT "CSV")
(FORMAT csv, FORMAT text)
(DELIMITER ',')
(DELIMITER ',,')
(DELIMITER '')
(DELIMITER 'é')
(DELIMITER 'a')
(DELIMITER '.')
(DELIMITER E'\\n')
(DELIMITER ',', NULL 'a,b')
(FORMAT csv, NULL 'a"b')
(NULL E'a\\nb')
(QUOTE '''')
(ESCAPE 'x')
(FORMAT csv, QUOTE ',')
(FORMAT csv, QUOTE 'ab')
(FORMAT csv, DELIMITER 'x', QUOTE 'x')
(FORMAT csv, FORCE_QUOTE (a, b))
(FORMAT csv, FORCE_QUOTE *)
(FORMAT csv, FORCE_QUOTE (nosuch))
(FORMAT csv, FORCE_QUOTE a)
(FORMAT csv, FORCE_QUOTE)
(FORCE_QUOTE *)
(FORMAT csv, FORCE_NOT_NULL (a))
(FORMAT csv, FORCE_NOT_NULL (a), FORCE_NULL (b))
(FORCE_NOT_NULL (a))
(FORMAT csv, FORCE_NULL (a, b))
(FORMAT csv, FORCE_NULL (nosuch))
(FORCE_NULL (a))
(ENCODING 'UTF8')
(ENCODING utf8)
(ENCODING 'sql_ascii')
(ENCODING 'latin1')
(ENCODING 'ISO-8859-1')
(FORMAT csv, ENCODING 'LATIN1')
(ENCODING 'nosuch')
(ENCODING 5)
(FREEZE off)
(SPEED 9)
(FORMAT binary, DELIMITER ',')
(FORMAT binary, NULL '')
(FORMAT binary, HEADER)
(FORMAT binary, HEADER off)
(FORMAT binary, QUOTE '"')
()
(FORMAT)
(FORMAT csv,)
(FORMAT csv
FORMAT csv
WITH
CSV
WITH CSV HEADER
CSV HEADER DELIMITER AS ';' NULL AS 'none' QUOTE AS '|' ESCAPE AS '|'
DELIMITER ';'
USING DELIMITERS ';'
DELIMITERS ';' WITH NULL 'none'
NULL 'none'
HEADER
CSV HEADER HEADER
CSV FORCE QUOTE a, b
CSV FORCE QUOTE *
CSV FORCE NOT NULL a
CSV FORCE NULL a, b
CSV FORCE a
FORCE QUOTE a
ENCODING 'UTF8'
ENCODING 'LATIN1'
CSV NOSUCH
CSV 5
BINARY CSV
""".strip().splitlines()

DATA = {
    "comma": '"",,2024-01-01\n"x ""y""",none,2024-01-02\n',
    "tab": "\\N\tcaf\u00e9\t2024-01-01\nnone\t\\x41\\\\b\t2024-01-02\n",
    "header": "a,b,time\n,\"\",2024-01-01\n",
}


@pytest.fixture(scope="module")
def pair(server, postgres):
    with psycopg.connect(server.dsn(), autocommit=True) as ours, psycopg.connect(postgres.dsn(), autocommit=True) as oracle:
        for each in (ours, oracle):
            each.execute("SET TIME ZONE 'UTC'")
            each.execute(f"CREATE TABLE copied ({COLUMNS})")
        yield ours, oracle
        for each in (ours, oracle):
            each.execute("DROP TABLE copied")


def said(connection, sql, data=None):
    """The result of a COPY, or its error."""
    try:
        with connection.cursor() as cursor:
            with cursor.copy(sql) as copy:
                if data is None:
                    return b"".join(bytes(part) for part in copy)
                copy.write(data.encode())
            return cursor.rowcount
    except psycopg.Error as error:
        connection.rollback()
        # The text of a syntax error depends on the parser.
        return error.sqlstate, None if error.sqlstate == "42601" else error.diag.message_primary


@pytest.mark.parametrize("options", OPTIONS)
def test_options_of_what_goes_out(pair, options):
    query = "SELECT * FROM (VALUES ('a', NULL), ('b,;|\"c', 'none'), ('', 'd\u00e9')) AS v(a, b)"
    sql = f"COPY ({query}) TO STDOUT {options}"
    assert said(pair[0], sql) == said(pair[1], sql)


@pytest.mark.parametrize("options", [options for options in OPTIONS if "FORCE_" not in options or "*" not in options])
def test_options_of_what_comes_in(pair, options):
    for name, data in DATA.items():
        results = []
        for each in pair:
            told = said(each, f"COPY copied FROM STDIN {options}", data)
            results.append((told, each.execute("SELECT time::text, a, b FROM copied ORDER BY time, a").fetchall()))
            each.execute("DELETE FROM copied")
        assert results[0] == results[1], name


def test_data_in_latin1_comes_in_and_goes_out(pair):
    for each in pair:
        with each.cursor().copy("COPY copied FROM STDIN (ENCODING 'latin1')") as copy:
            copy.write(b"caf\xe9\t\xfcber\t2024-01-01\n")
        assert each.execute("SELECT a, b FROM copied").fetchall() == [("caf\u00e9", "\u00fcber")]
        with each.cursor().copy("COPY copied (a, b) TO STDOUT (ENCODING 'latin1', FORMAT csv)") as copy:
            assert b"".join(bytes(part) for part in copy) == b"caf\xe9,\xfcber\n"
        each.execute("DELETE FROM copied")
    # A character missing in the encoding.
    sql = "COPY (SELECT '5 \u20ac' AS a) TO STDOUT (ENCODING 'latin1')"
    assert said(pair[0], sql) == said(pair[1], sql)


@pytest.mark.parametrize("row", ["x\ty\t\\N", "x\ty", "long " * 30 + "\ty\t2024-01-01\tz"])
def test_rows_that_a_copy_refuses(pair, row):
    details = []
    for each in pair:
        with pytest.raises(psycopg.Error) as error, each.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write(row + "\n")
        each.rollback()
        diag = error.value.diag
        details.append((diag.sqlstate, diag.message_primary, diag.message_detail, diag.context))
    assert details[0] == details[1]
    for insert in ["('a', NULL, NULL)", "('a', 'b', '2024-01-01'), (repeat('x', 70), 'b', NULL)"]:
        details = []
        for each in pair:
            with pytest.raises(psycopg.errors.NotNullViolation) as error:
                each.execute(f"INSERT INTO copied VALUES {insert}")
            details.append(error.value.diag.message_detail)
        assert details[0] == details[1]
