"""Stories in an object store: S3, provided by versitygw."""

import random
import time

import psycopg
import pytest

import story_files
from servers import Stratalog
from tables import KEYED, connect, copy, moment, object_store, one, refused, tiers, wait_until

pytestmark = pytest.mark.ours

START_NS = 1_704_067_200 * 10**9  # 2024-01-01
MINUTE_NS = 60 * 10**9
HOSTS = ["alpha", "beta", "Gamma", "δέλτα", "eps'ilon", "zeta \"z\"", ""]


def append(connection, first, last):
    """Appends events newer than all others, a minute apart."""
    connection.execute("INSERT INTO t SELECT '2025-01-01'::timestamptz + n * INTERVAL '1 minute', 'new', n "
                       f"FROM generate_series({first}, {last}) AS n")


def test_stories_in_an_object_store(directory, tmp_path):
    store = object_store(tmp_path)
    everything_sql = "SELECT count(*), sum(v), min(time)::text, max(time)::text FROM t"
    old = moment(START_NS + 1_000 * MINUTE_NS)
    with store, Stratalog(directory, "--story-url", "s3://lake/some/prefix", environment=store.environment()) as server:
        with connect(server) as connection:
            connection.execute(KEYED)
            connection.execute("CREATE TABLE other (time TIMESTAMPTZ NOT NULL, v BIGINT)")
            rows = ([moment(START_NS + n * MINUTE_NS), HOSTS[n % 7], n] for n in range(10_000))
            copy(connection, "t", ["time", "host", "v"], rows)
            expected = connection.execute(everything_sql).fetchall()
            connection.execute("CALL stratalog.compact('t')")
            assert tiers(connection) == {"story": 10_000}
            assert connection.execute(everything_sql).fetchall() == expected
            (file,) = connection.execute("SELECT file FROM stratalog.pieces WHERE name = 't' AND tier = 'story'").fetchone()
        (path,) = (store.directory / "lake" / "some" / "prefix").glob("*/*.parquet")
        assert file.endswith("/".join(path.parts[-2:]))
        assert story_files.files(server.data_dir / "stories") == []
        assert story_files.pyarrow_reads([path]).num_rows == 10_000

        server.kill()
        server.start()
        with connect(server) as connection:
            assert connection.execute(everything_sql).fetchall() == expected
            assert tiers(connection) == {"story": 10_000}
            # Newer events, in tablets and in the journal.
            append(connection, 1, 100)
            connection.execute("CALL stratalog.flush('t')")
            append(connection, 101, 200)
            assert tiers(connection) == {"story": 10_000, "tablet": 100, "journal": 100}

        store.kill()
        newer = "SELECT count(*), sum(v) FROM t WHERE time >= '2025-01-01'"
        with connect(server) as connection:
            # Operations without the store continue immediately.
            start = time.monotonic()
            append(connection, 201, 300)
            connection.execute("INSERT INTO other VALUES (now(), 1)")
            assert connection.execute(newer).fetchall() == [(300, 45_150)]
            assert one(connection, "SELECT count(*) FROM other") == 1
            connection.execute("CALL stratalog.flush('t')")
            append(connection, 301, 400)
            assert connection.execute(newer).fetchall() == [(400, 80_200)]
            assert time.monotonic() - start < 10
            state, message = refused(connection, f"SELECT sum(v) FROM t WHERE time < '{old}'")
            assert state in ("08006", "58030"), (state, message)
            assert path.name in message, message
            state, message = refused(connection, "CALL stratalog.compact('t')")
            assert state in ("08006", "58030"), (state, message)
            assert ".parquet" in message, message
            assert one(connection, "SELECT count(*) FROM stratalog.moves WHERE state = 'failed' AND error <> ''") >= 1
            # The connection and all other data are unaffected.
            assert connection.execute(newer).fetchall() == [(400, 80_200)]

        store.start()
        with connect(server) as connection:
            assert one(connection, f"SELECT sum(v) FROM t WHERE time < '{old}'") == 999 * 1_000 // 2
            assert one(connection, "SELECT count(*) FROM t") == 10_400
            connection.execute("CALL stratalog.compact('t')")
            assert tiers(connection) == {"story": 10_400}
            assert connection.execute(newer).fetchall() == [(400, 80_200)]
            named = {file for (file,) in connection.execute("SELECT file FROM stratalog.pieces WHERE tier = 'story'")}
        server.kill()
        server.start()
        with connect(server) as connection:
            assert tiers(connection) == {"story": 10_400}
            assert connection.execute(f"{everything_sql} WHERE time < '2025-01-01'").fetchall() == expected
        # Files without a reference in any version are deleted: remains of a failed move, and merged files.
        kept = {"/".join(path.parts[-2:]) for path in (store.directory / "lake").glob("some/prefix/*/*.parquet")}
        assert kept == {"/".join(file.split("/")[-2:]) for file in named}


def test_a_start_without_the_store_or_its_password(directory, tmp_path):
    store = object_store(tmp_path)
    flags = ("--story-url", "s3://lake")
    with store:
        guessed = {**store.environment(), "AWS_SECRET_ACCESS_KEY": "guessed-wrong"}
        status, said = Stratalog(directory, *flags, environment=guessed).start_failing()
        assert status != 0 and "s3://lake" in said and "403" in said
        assert "guessed-wrong" not in said
    with store, Stratalog(directory, *flags, environment=store.environment()) as server, connect(server) as connection:
        for table in ("cold", "hot"):
            connection.execute(f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, n INT)")
            connection.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 1)")
        connection.execute("CALL stratalog.compact('cold')")
    # Data outside of the store is readable without the store.
    server = Stratalog(directory, *flags, environment=store.environment())
    server.start(90)
    with connect(server) as connection:
        assert one(connection, "SELECT n FROM hot") == 1
        with pytest.raises(psycopg.errors.ConnectionFailure):
            connection.execute("SELECT n FROM cold")
        connection.execute("INSERT INTO cold VALUES ('2024-01-02', 2)")
        with store:
            assert connection.execute("SELECT n FROM cold ORDER BY n").fetchall() == [(1,), (2,)]
            connection.execute("CALL stratalog.compact('cold')")
            assert tiers(connection, "cold") == {"story": 2}
    assert "unreachable" in server.output()
    server.stop()


def test_a_prefix_belongs_to_one_directory(directory, tmp_path):
    store = object_store(tmp_path)
    flags = ("--story-url", "s3://lake/mine")
    with store:
        with Stratalog(directory, *flags, environment=store.environment()) as server, connect(server) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n INT)")
            connection.execute("INSERT INTO t VALUES ('2024-01-01', 1)")
            connection.execute("CALL stratalog.compact('t')")
        other = Stratalog(tmp_path / "other", *flags, environment=store.environment())
        status, said = other.start_failing(120)
        assert status != 0 and "belong to another data directory" in said and "s3://lake/mine/owner" in said
        with Stratalog(directory, *flags, environment=store.environment()) as server, connect(server) as connection:
            assert one(connection, "SELECT n FROM t") == 1
        # Deleting the owner file hands the folder over to another server.
        (store.directory / "lake" / "mine" / "owner").unlink()
        with Stratalog(tmp_path / "other", *flags, environment=store.environment()) as server:
            assert server.alive()


def test_events_move_into_an_object_store_by_themselves(directory, tmp_path):
    store = object_store(tmp_path)
    with store, Stratalog(directory, "--story-url", "s3://lake", environment=store.environment()) as server:
        with connect(server) as connection:
            connection.execute(f"{KEYED} WITH (story_rows_max = '1000')")
            copy(connection, "t", ["time", "host", "v"], ([moment(START_NS + n * MINUTE_NS), "h", n] for n in range(5_000)))
            connection.execute("CALL stratalog.flush('t')")
            wait_until(connection, "SELECT DISTINCT tier, sum(rows) FROM stratalog.pieces GROUP BY tier", [("story", 5_000)])
            assert connection.execute("SELECT count(*), sum(v) FROM t").fetchall() == [(5_000, 4_999 * 2_500)]


def test_wide_events_are_read_from_an_object_store_a_few_at_a_time(directory, tmp_path):
    store, chance, count = object_store(tmp_path), random.Random(11), 1_200
    payloads = [b"%06d:" % number + chance.randbytes(32 << 10) for number in range(count)]
    heads = [payload[:7] for payload in payloads]
    with store, Stratalog(directory, "--story-url", "s3://lake/wide", environment=store.environment()) as server:
        with connect(server) as connection:
            connection.execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, payload BYTEA)")
            copy(connection, "t", ["time", "payload"],
                 ([moment(START_NS + number * MINUTE_NS), payload] for number, payload in enumerate(payloads)))
            connection.execute("CALL stratalog.compact('t')")
            assert tiers(connection) == {"story": count}
        # After the kill, the server's memory is empty.
        server.kill()
        server.start()
        with connect(server) as connection:
            def read(sql):
                return [bytes(row[0]) for row in connection.execute(sql, binary=True)]

            for few in (1, 7, 900, 5_000):
                assert read(f"SELECT payload FROM t ORDER BY time DESC LIMIT {few}") == payloads[::-1][:few]
                assert read(f"SELECT payload FROM t ORDER BY time LIMIT {few}") == payloads[:few]
                assert read(f"SELECT substr(payload, 1, 7) FROM replay('t') LIMIT {few}") == heads[:few]
            since = moment(START_NS + (count - 3) * MINUTE_NS)
            assert read(f"SELECT payload FROM t WHERE time >= '{since}' ORDER BY time") == payloads[-3:]
            assert read("SELECT payload FROM t WHERE time = (SELECT max(time) FROM t)") == payloads[-1:]
