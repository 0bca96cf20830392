"""SQLAlchemy 2 (1.4 in test_sqlalchemy_14.py): reflection, Core, ORM, sessions, with each driver."""

import asyncio
import decimal
import importlib.util
import uuid

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import NullPool

from drivers import START, address, at

VERSION = tuple(int(part) for part in sa.__version__.split(".")[:2])
DRIVERS = ["psycopg2"] if VERSION < (2, 0) else ["psycopg2", "psycopg", "pg8000"]


def url(server, driver):
    words = address(server)
    words["username"] = words.pop("user")
    return sa.engine.URL.create(f"postgresql+{driver}", **words)


@pytest.fixture(params=DRIVERS)
def engine(request, server):
    engine = sa.create_engine(url(server, request.param), future=True)
    yield engine
    engine.dispose()


@pytest.fixture
def filled(connection, table):
    connection.execute(f"""CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n INT DEFAULT 5,
                           f DOUBLE PRECISION, d NUMERIC(8,2),
                           b BOOLEAN, u UUID, j JSONB, a INT[], raw BYTEA, day DATE, s SMALLINT, big BIGINT, r REAL,
                           i INTERVAL, ts TIMESTAMP, clock TIME,
                           PRIMARY KEY (host, time))""")
    connection.execute(f"COMMENT ON TABLE {table} IS 'what hosts said'")
    connection.execute(f"COMMENT ON COLUMN {table}.n IS 'how many'")
    connection.execute(
        f"INSERT INTO {table} (time, host, n) SELECT timestamptz '2024-01-01 00:00:00+00' "
        "+ n * interval '1 second', 'h' || n % 10, n FROM generate_series(0, 99) g(n)"
    )
    return table


def test_inspector(engine, filled):
    inspector = sa.inspect(engine)
    assert inspector.default_schema_name == "public"
    assert {"public", "information_schema"} <= set(inspector.get_schema_names())
    assert filled in inspector.get_table_names() and filled in inspector.get_table_names(schema="public")
    assert inspector.get_view_names() == [] and inspector.get_sequence_names() == []
    if VERSION >= (1, 4):
        assert inspector.has_table(filled) and not inspector.has_table("nothing")
    assert inspector.get_pk_constraint(filled)["constrained_columns"] == ["host", "time"]
    assert inspector.get_pk_constraint(filled)["name"] == f"{filled}_pkey"
    assert inspector.get_indexes(filled) == [] and inspector.get_foreign_keys(filled) == []
    assert inspector.get_unique_constraints(filled) == [] and inspector.get_check_constraints(filled) == []
    assert inspector.get_table_comment(filled) == {"text": "what hosts said"}
    assert inspector.dialect.server_version_info >= (15,)
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("nothing")


COLUMN_TYPES = {
    "host": sa.TEXT,
    "n": sa.INTEGER,
    "f": postgresql.DOUBLE_PRECISION,
    "b": sa.BOOLEAN,
    "u": postgresql.UUID,
    "j": postgresql.JSONB,
    "a": postgresql.ARRAY,
    "raw": postgresql.BYTEA,
    "day": sa.DATE,
    "s": sa.SMALLINT,
    "big": sa.BIGINT,
    "r": sa.REAL,
    "i": postgresql.INTERVAL,
    "clock": postgresql.TIME,
}


def test_columns(engine, filled):
    columns = {column["name"]: column for column in sa.inspect(engine).get_columns(filled)}
    assert list(columns)[:4] == ["time", "host", "n", "f"]
    for name, type in COLUMN_TYPES.items():
        assert isinstance(columns[name]["type"], type), (name, columns[name]["type"])
    assert columns["time"]["type"].timezone and not columns["ts"]["type"].timezone
    assert (columns["d"]["type"].precision, columns["d"]["type"].scale) == (8, 2)
    assert isinstance(columns["a"]["type"].item_type, sa.INTEGER)
    assert [columns[name]["nullable"] for name in ("time", "host", "n")] == [False, False, True]
    assert (columns["n"]["default"], columns["f"]["default"]) == ("5", None)
    assert (columns["n"]["comment"], columns["f"]["comment"]) == ("how many", None)


def test_reflection_of_a_database_of_their_own(engine, filled):
    metadata = sa.MetaData()
    metadata.reflect(engine, only=lambda name, _: name == filled)
    assert list(metadata.tables) == [filled]
    reflected = sa.Table(filled, sa.MetaData(), autoload_with=engine)
    assert [column.name for column in reflected.primary_key] == ["host", "time"]
    assert reflected.comment == "what hosts said" and reflected.c.n.server_default.arg.text == "5"
    with engine.connect() as connection:
        query = sa.select(reflected.c.n).where(reflected.c.host == "h1", reflected.c.time < at(30)).order_by(reflected.c.time)
        assert connection.execute(query).scalars().all() == [1, 11, 21]


def test_reflection_of_everything(engine, filled):
    metadata = sa.MetaData()
    metadata.reflect(engine, views=True)
    assert filled in metadata.tables


def core(name):
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("v", sa.Float),
        sa.Column("d", sa.Numeric(8, 2)),
        sa.Column("b", sa.Boolean),
        sa.Column("j", postgresql.JSONB),
        sa.Column("tags", postgresql.ARRAY(sa.Text)),
        sa.Column("u", postgresql.UUID(as_uuid=True)),
        sa.Column("raw", sa.LargeBinary),
        sa.PrimaryKeyConstraint("host", "time"),
        comment="by Core",
    )


def test_core(engine, table):
    made = core(table)
    made.metadata.create_all(engine)
    made.metadata.create_all(engine)
    row = {
        "time": START,
        "host": "a",
        "v": 0.5,
        "d": decimal.Decimal("1.25"),
        "b": True,
        "j": {"k": [1]},
        "tags": ["x", "y,z"],
        "u": uuid.UUID(int=4),
        "raw": b"\x00\xff",
    }
    with engine.begin() as connection:
        connection.execute(made.insert(), row)
        connection.execute(made.insert(), [{"time": at(n), "host": "many", "v": n} for n in range(500)])
        connection.execute(made.insert().values([{"time": at(n), "host": "values", "v": n} for n in range(3)]))
    with engine.connect() as connection:
        assert dict(connection.execute(sa.select(made).where(made.c.host == "a")).mappings().one()) == row
        totals = sa.select(made.c.host, sa.func.count(), sa.func.sum(made.c.v)).group_by(made.c.host).order_by(made.c.host)
        assert [tuple(total) for total in connection.execute(totals)] == [
            ("a", 1, 0.5),
            ("many", 500, 124750.0),
            ("values", 3, 3.0),
        ]
        assert connection.execute(sa.select(sa.func.count()).where(made.c.host.in_(["a", "values"]))).scalar() == 4
        assert connection.execute(sa.select(made.c.j["k"][0].as_string()).where(made.c.host == "a")).scalar() == "1"
        minute = sa.func.date_trunc("minute", made.c.time).label("minute")
        assert (
            len(connection.execute(sa.select(minute, sa.func.max(made.c.v)).group_by("minute").order_by("minute")).all()) == 9
        )
        assert connection.execute(
            sa.select(made.c.v).where(made.c.host == "many").order_by(made.c.v).limit(2).offset(3)
        ).scalars().all() == [3, 4]
    insert = postgresql.insert(made).on_conflict_do_nothing()
    with engine.begin() as connection:
        connection.execute(insert, [{"time": START, "host": host} for host in ("a", "new")])
        assert connection.execute(sa.select(sa.func.count()).select_from(made)).scalar() == 505
    made.drop(engine)
    assert not sa.inspect(engine).has_table(table)


def test_inserts_that_return(engine, table):
    made = core(table)
    made.create(engine)
    with engine.begin() as connection:
        result = connection.execute(made.insert().returning(made.c.time, made.c.host), [{"time": START, "host": "a"}])
        assert [tuple(row) for row in result] == [(START, "a")]
        assert connection.execute(made.insert(), {"time": at(1), "host": "b"}).inserted_primary_key == ("b", at(1))


def mapped(name):
    base = orm.declarative_base()

    class Reading(base):
        __tablename__ = name
        host = sa.Column(sa.String, primary_key=True)
        time = sa.Column(sa.DateTime(timezone=True), primary_key=True)
        v = sa.Column(sa.Float)
        note = sa.Column(sa.Text, server_default="none")

    return Reading


def test_orm(engine, table):
    Reading = mapped(table)
    Reading.metadata.create_all(engine)
    with orm.Session(engine, future=True) as session:
        session.add(Reading(host="a", time=START, v=1.5))
        session.add_all(Reading(host="b", time=at(n), v=n) for n in range(200))
        session.commit()
        found = session.get(Reading, ("a", START))
        assert (found.v, found.note) == (1.5, "none")
        assert session.query(Reading).filter(Reading.host == "b", Reading.v >= 198).order_by(Reading.v).all()[0].time == at(198)
        assert session.execute(sa.select(sa.func.count()).select_from(Reading)).scalar() == 201
        session.add(Reading(host="gone", time=START))
        session.flush()
        session.rollback()
        assert session.get(Reading, ("gone", START)) is None
    with orm.Session(engine, future=True) as session, pytest.raises(sa.exc.IntegrityError):
        session.add(Reading(host="a", time=START))
        session.commit()


def test_nested_sessions(engine, table):
    Reading = mapped(table)
    Reading.metadata.create_all(engine)
    with orm.Session(engine, future=True) as session:
        session.add(Reading(host="outer", time=START))
        with pytest.raises(sa.exc.IntegrityError), session.begin_nested():
            session.execute(sa.insert(Reading), [{"host": "inner", "time": START}, {"host": "outer", "time": START}])
        with session.begin_nested():
            session.add(Reading(host="kept", time=START))
        session.commit()
        assert session.execute(sa.select(Reading.host).order_by(Reading.host)).scalars().all() == ["kept", "outer"]


@pytest.mark.ours
def test_updates_are_refused(engine, table):
    Reading = mapped(table)
    Reading.metadata.create_all(engine)
    with orm.Session(engine, future=True) as session:
        session.add(Reading(host="a", time=START, v=1))
        session.commit()
        session.get(Reading, ("a", START)).v = 2
        with pytest.raises(sa.exc.DBAPIError, match="UPDATE"):
            session.commit()
        session.rollback()


def test_isolation_levels(server, engine):
    level = "REPEATABLE READ"
    with engine.connect().execution_options(isolation_level=level) as connection:
        assert connection.get_isolation_level() == level
        assert connection.execute(sa.text("SHOW transaction_isolation")).scalar() == level.lower()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    with engine.connect().execution_options(postgresql_readonly=True) as connection:
        assert connection.execute(sa.text("SHOW transaction_read_only")).scalar() == "on"


def test_rows_in_parts(engine, filled):
    with engine.connect() as connection:
        result = connection.execution_options(stream_results=True, max_row_buffer=7).execute(
            sa.text(f"SELECT n FROM {filled} ORDER BY n")
        )
        assert [row[0] for part in result.partitions(9) for row in part] == list(range(100))


@pytest.mark.skipif(VERSION < (2, 0) or importlib.util.find_spec("asyncpg") is None, reason="SQLAlchemy 2 with asyncpg")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg_async"])
def test_async_engines(server, filled, table, driver):
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    Reading = mapped(f"{table}_{driver}")

    async def run():
        engine = create_async_engine(url(server, driver), poolclass=NullPool)
        async with engine.begin() as connection:
            await connection.run_sync(Reading.metadata.create_all)
        async with AsyncSession(engine) as session:
            session.add_all([Reading(host="a", time=at(n), v=n) for n in range(50)])
            await session.commit()
            found = (await session.execute(sa.select(Reading).where(Reading.v > 47).order_by(Reading.v))).scalars().all()
            assert [reading.time for reading in found] == [at(48), at(49)]
        async with engine.connect() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns(filled))
            assert [column["name"] for column in columns][:3] == ["time", "host", "n"]
            result = await connection.stream(sa.text(f"SELECT n FROM {filled} ORDER BY n"))
            assert [row[0] async for row in result] == list(range(100))
        await engine.dispose()

    asyncio.run(run())


@pytest.mark.ours
def test_a_migration_is_one_transaction(engine, connection, filled, table):
    notes, made = f"{table}_notes", f"{table}_made"
    connection.execute(f"CREATE TABLE {notes} (time TIMESTAMPTZ NOT NULL, name TEXT NOT NULL, PRIMARY KEY (name, time))")
    new = sa.Table(made, sa.MetaData(), sa.Column("time", sa.DateTime(timezone=True), primary_key=True), sa.Column("v", sa.Integer))

    def migrate(name, column, fails):
        with engine.begin() as block:
            block.execute(sa.text(f"INSERT INTO {filled} (time, host, n) VALUES ('2025-01-01T00:00:00Z', :host, 1)"), {"host": name})
            block.execute(sa.text(f"ALTER TABLE {filled} ADD COLUMN {column} INT DEFAULT 9"))
            new.create(block)
            block.execute(new.insert(), [{"time": at(1), "v": 1}, {"time": at(2), "v": 2}])
            block.execute(sa.text(f"INSERT INTO {notes} VALUES ('2025-01-01T00:00:00Z', :name)"), {"name": name})
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        migrate("undone", "undone", True)
    assert made not in sa.inspect(engine).get_table_names()
    migrate("0001", "later", False)
    assert [column["name"] for column in sa.inspect(engine).get_columns(filled)][-1] == "later"
    assert connection.execute(f"SELECT name FROM {notes}").fetchall() == [("0001",)]
    assert connection.execute(f"SELECT count(*), sum(later) FROM {filled}").fetchone() == (101, 909)
    assert connection.execute(f"SELECT sum(v) FROM {made}").fetchone() == (3,)


def test_system_tables_are_reflected(engine):
    inspector = sa.inspect(engine)
    assert "stratalog" in inspector.get_schema_names()
    names = set(inspector.get_table_names(schema="stratalog")) | set(inspector.get_view_names(schema="stratalog"))
    assert "journal" in names
    assert inspector.get_columns("journal", schema="stratalog")
