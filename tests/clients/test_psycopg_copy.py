"""psycopg 3: COPY of every type, in text, CSV and binary."""

import datetime as dt
import decimal
import uuid

import psycopg
import pytest
from psycopg.types.json import Jsonb

from drivers import COLUMNS, at, filled  # noqa: F401, a fixture


COPY_TYPES = [
    "timestamptz",
    "text",
    "float8",
    "int4",
    "numeric",
    "bytea",
    "bool",
    "uuid",
    "jsonb",
    "date",
    "interval",
    "int4[]",
    "text[]",
]
COPY_ROWS = [
    (
        at(0),
        "plain",
        0.1,
        1,
        decimal.Decimal("-12.50"),
        b"\x00\xff",
        True,
        uuid.UUID(int=5),
        {"a": 1},
        dt.date(2024, 2, 29),
        dt.timedelta(days=1, seconds=5),
        [1, None],
        ["x", 'y,"z"', None],
    ),
    (at(1), "", None, None, None, None, None, None, None, None, None, None, None),
    (
        at(2),
        "tab\there\n\\N",
        float("inf"),
        -(2**31),
        decimal.Decimal("9999.99"),
        b"",
        False,
        uuid.UUID(int=0),
        [],
        dt.date(1, 1, 1),
        dt.timedelta(0),
        [],
        [],
    ),
]


def copied_table(connection, name):
    names = ["time", *(f"c{n}" for n in range(1, len(COPY_TYPES)))]
    types = ["timestamptz NOT NULL", *COPY_TYPES[1:]]
    types[COPY_TYPES.index("numeric")] = "numeric(6,2)"
    columns = ", ".join(f"{name} {type}" for name, type in zip(names, types))
    connection.execute(f"CREATE TABLE {name} ({columns})")


@pytest.mark.parametrize("format", ["text", "csv", "binary"])
def test_copy_of_every_type(connection, table, format):
    copied_table(connection, table)
    with connection.cursor() as cursor:
        if format == "csv":
            source = f"{table}_source"
            copied_table(connection, source)
            rows_in(cursor, source, "text")
            with cursor.copy(f"COPY {source} TO STDOUT (FORMAT csv)") as copy:
                data = b"".join(bytes(chunk) for chunk in copy)
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
                copy.write(data)
        else:
            rows_in(cursor, table, format)
        assert cursor.rowcount == len(COPY_ROWS)
        rows = cursor.execute(f"SELECT * FROM {table} ORDER BY time").fetchall()
        assert rows == COPY_ROWS
        out = "text" if format == "csv" else format
        with cursor.copy(f"COPY (SELECT * FROM {table} ORDER BY time) TO STDOUT (FORMAT {out})") as copy:
            copy.set_types(COPY_TYPES)
            assert list(copy.rows()) == COPY_ROWS


def rows_in(cursor, table, format):
    with cursor.copy(f"COPY {table} FROM STDIN (FORMAT {format})") as copy:
        copy.set_types(COPY_TYPES)
        for row in COPY_ROWS:
            copy.write_row(
                [Jsonb(value) if type == "jsonb" and value is not None else value for type, value in zip(COPY_TYPES, row)]
            )


def test_copy_from_one_connection_to_another(server, connection, filled):
    connection.execute(f"CREATE TABLE {filled}_again ({COLUMNS})")
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        source = connection.cursor().copy(f"COPY {filled} (time, host, v) TO STDOUT (FORMAT binary)")
        with source as out, other.cursor().copy(f"COPY {filled}_again FROM STDIN (FORMAT binary)") as into:
            for chunk in out:
                into.write(chunk)
        assert other.execute(f"SELECT * FROM {filled}_again EXCEPT SELECT * FROM {filled}").fetchall() == []
        assert other.execute(f"SELECT count(*) FROM {filled}_again").fetchone() == (1000,)


@pytest.mark.ours
def test_copy_to_binary_refuses_nanoseconds(connection, table):
    def copied(source, format="binary"):
        with connection.cursor().copy(f"COPY {source} TO STDOUT (FORMAT {format})") as copy:
            return b"".join(bytes(chunk) for chunk in copy)

    connection.execute(f"""CREATE TABLE {table} (time timestamptz NOT NULL, i interval, l timestamp[], PRIMARY KEY (time))
        WITH (collision = 'last')""")
    connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', '1 day', '{{2024-01-01}}')")
    assert len(copied(table)) > 24
    for row, column in [
        ("('2024-01-01', '1 ns', NULL)", "i"),
        ("('2024-01-01', '1 s', '{2024-01-01 00:00:00.000000001}')", "l"),
    ]:
        connection.execute(f"INSERT INTO {table} VALUES {row}")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=f'column "{column}" has a value with nanoseconds'):
            copied(table)
    for n in range(3):
        connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01 00:00:00.00000000{n}+00', '1 day')")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match='column "time" has a value with nanoseconds'):
        copied(table)
    for format in ("text", "csv"):
        lines = copied(f"(SELECT time FROM {table} ORDER BY time)", format).decode().splitlines()
        assert lines == [
            "2024-01-01 00:00:00+00",
            "2024-01-01 00:00:00.000000001+00",
            "2024-01-01 00:00:00.000000002+00",
        ]
    # Results of queries are cut to microseconds.
    assert len(copied(f"(SELECT time, i FROM {table})")) > 3 * 24
    found = connection.cursor(binary=True).execute(f"SELECT time FROM {table}").fetchall()
    assert found == [(at(0),)] * 3


@pytest.mark.parametrize(
    "data, sqlstate",
    [
        (b"not a signature....", "22P04"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\x00\x07", "22P04"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\x00\x03\x00\x00\x00\x0c" + bytes(12), "22P03"),
        (b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\x00\x03\x00\x00\x00\xff", "22P04"),
    ],
    ids=["signature", "columns", "length", "cut"],
)
def test_bad_binary_copy_stores_nothing(connection, filled, data, sqlstate):
    with pytest.raises(psycopg.Error) as error, connection.cursor().copy(f"COPY {filled} FROM STDIN (FORMAT binary)") as copy:
        copy.write(data)
    assert error.value.sqlstate == sqlstate, error.value
    assert connection.execute(f"SELECT count(*) FROM {filled}").fetchone() == (1000,)
