"""What a hostile role tries: to reach files and other roles' rows, to keep rights that it lost, to count what it may not
read."""

import contextlib
import os
import re
import socket
import subprocess
import time

import psycopg
import pytest

from logins import Http, basic, token, user
from servers import Stratalog

pytestmark = pytest.mark.ours

SECRET = "the-secret-of-root"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A server with the superuser `root`, the role `eve` without rights, and secrets of root."""
    data = tmp_path_factory.mktemp("attacks") / "data"
    passwords = {name: user(data, name, *flags) for name, *flags in (("root", "--superuser"), ("eve",))}
    with Stratalog(data) as server:
        place = {"server": server, "passwords": passwords, "data": data}
        with login(place, "root") as root:
            for sql in (
                "CREATE TABLE vault (time timestamptz NOT NULL, owner text, secret text, v int, PRIMARY KEY (owner, time))",
                f"INSERT INTO vault SELECT now() - n * interval '1 minute', CASE WHEN n % 10 = 0 THEN 'eve' ELSE 'root' END,"
                f" '{SECRET}', n FROM generate_series(1, 1000) n",
                "CALL stratalog.flush('vault')",
            ):
                root.execute(sql)
        yield place


@contextlib.contextmanager
def login(place, name, **more):
    server = place["server"]
    options = {"autocommit": True, **more}
    with psycopg.connect(server.dsn(user=name, password=place["passwords"][name]), **options) as connection:
        yield connection


@pytest.fixture
def root(place):
    with login(place, "root") as connection:
        yield connection


@pytest.fixture
def granted(root):
    """Gives eve rights, and takes all of them back."""
    def give(*statements):
        for sql in statements:
            root.execute(sql)
    yield give
    for sql in (
        "ALTER TABLE vault DISABLE ROW LEVEL SECURITY", "DROP POLICY IF EXISTS own ON vault", "REVOKE ALL ON vault FROM eve",
        "REVOKE SELECT (owner, time, v, secret) ON vault FROM eve", "REVOKE CREATE ON SCHEMA public FROM eve",
    ):
        root.execute(sql)


def attempt(connection, sql):
    """The SQLSTATE and all texts of the refusal, or the rows."""
    try:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        diag = error.diag
        return diag.sqlstate, " ".join(filter(None, (diag.message_primary, diag.message_detail, diag.message_hint)))


@pytest.mark.parametrize("sql", [
    "COPY vault TO '/tmp/stolen'", "COPY vault FROM '/etc/passwd'", "COPY vault TO PROGRAM 'id'", "COPY vault FROM PROGRAM 'id'",
    "COPY (SELECT 1) TO '/tmp/stolen'", "SELECT pg_read_file('/etc/passwd')", "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/')", "SELECT pg_stat_file('/etc/passwd')", "SELECT lo_import('/etc/passwd')", "LOAD '/tmp/x.so'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/tmp/x.so', 'f'", "CREATE EXTENSION file_fdw", "DO $$ BEGIN END $$",
    "SELECT * FROM '/etc/passwd'", "SELECT * FROM '/etc/passwd.csv'", "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/tmp/x.parquet')",
    "CREATE EXTERNAL TABLE t (x text) STORED AS CSV LOCATION '/etc/passwd'",
    "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'http://169.254.169.254/latest'",
    "CREATE TABLE t (x text) LOCATION '/etc/passwd'", "COPY (SELECT 1) TO 'x.parquet' STORED AS PARQUET",
    "CREATE SERVER s FOREIGN DATA WRAPPER file_fdw", "IMPORT FOREIGN SCHEMA x FROM SERVER s INTO y",
    "CALL stratalog.backup('file:///tmp/stolen')", "CALL stratalog.backup('s3://169.254.169.254/x')",
])
def test_no_statement_reaches_a_file_or_an_address(place, sql):
    for name in ("eve", "root"):
        with login(place, name) as connection:
            outcome = attempt(connection, sql)
            assert isinstance(outcome, tuple), f"{name}: {outcome}"
            assert "root:x:" not in outcome[1] and outcome[0] != "XX000", outcome


def test_a_hidden_table_does_not_exist_anywhere(place):
    with login(place, "eve") as eve:
        for sql in (
            "SELECT * FROM vault", "EXPLAIN SELECT * FROM vault", "EXPLAIN ANALYZE SELECT * FROM vault", "DELETE FROM vault",
            "INSERT INTO vault VALUES (now(), 'x', 'y', 1)", "TRUNCATE vault", "DROP TABLE vault", "ALTER TABLE vault ADD COLUMN x int",
            "ACQUIRE TABLE vault", "LOCK TABLE vault", "COPY vault TO STDOUT", "CREATE INDEX ON vault USING bloom (v)",
            "COMMENT ON TABLE vault IS 'x'", "GRANT SELECT ON vault TO eve", "CALL stratalog.flush('vault')",
            "CALL stratalog.compact('vault')", "SELECT 'vault'::regclass", "SELECT pg_total_relation_size('vault')",
            "CREATE POLICY p ON vault USING (true)", "TRIM vault BEFORE GSN 1", "DECLARE c CURSOR FOR SUBSCRIBE vault",
            "SELECT has_table_privilege('vault', 'SELECT')",
        ):
            unknown = attempt(eve, sql.replace("vault", "nowhere"))
            known = attempt(eve, sql)
            # The same words as for a table that does not exist.
            if isinstance(known, tuple):
                known = known[0], known[1].replace("vault", "nowhere")
            assert known == unknown, sql
            assert known == [(None,)] or known[0] in ("42P01", "25P01"), (sql, known)
        for relation, column in (
            ("pg_class", "relname"), ("pg_tables", "tablename"), ("information_schema.tables", "table_name"),
            ("information_schema.columns", "table_name"), ("pg_stat_user_tables", "relname"), ("stratalog.chronicles", "name"),
            ("stratalog.pieces", "name"), ("stratalog.tails", "name"), ("stratalog.watermarks", "name"), ("stratalog.moves", "name"),
            ("stratalog.acquisitions", "name"), ("stratalog.columns", "table_name"),
        ):
            outcome = attempt(eve, f"SELECT count(*) FROM {relation} WHERE {column} = 'vault'")
            assert outcome == [(0,)] or outcome[0] in ("42501", "42P01", "42703"), (relation, outcome)
    with pytest.raises(psycopg.errors.UndefinedTable):
        with login(place, "eve") as eve:
            eve.execute("SELECT vaul FROM vaul")  # No hint names the hidden table.
    with login(place, "eve") as eve:
        assert "vault" not in attempt(eve, "SELECT * FROM vaul")[1]


def test_what_a_role_may_not_count(place, granted):
    """A role with one column, or with a policy, learns neither counts, times nor sizes of all rows."""
    counts = {
        "SELECT reltuples FROM pg_class WHERE relname = 'vault'": (-1.0,),
        "SELECT relpages FROM pg_class WHERE relname = 'vault'": (0,),
        "SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'vault'": (None,),
        "SELECT pg_total_relation_size('vault')": (None,),
        "SELECT rows, bytes, series, first_time, last_time FROM stratalog.chronicles WHERE name = 'vault'": (None,) * 5,
        "SELECT count(*) FROM stratalog.pieces WHERE name = 'vault'": (0,),
        "SELECT count(*) FROM stratalog.tails WHERE name = 'vault'": (0,),
        "SELECT count(*) FROM stratalog.watermarks WHERE name = 'vault'": (0,),
    }
    with login(place, "eve") as eve, login(place, "root") as root:
        for rights in (
            ["GRANT SELECT (v) ON vault TO eve"],
            ["GRANT SELECT ON vault TO eve", "ALTER TABLE vault ENABLE ROW LEVEL SECURITY",
             "CREATE POLICY own ON vault FOR SELECT USING (owner = current_user)"],
        ):
            granted(*rights)
            for sql, hidden in counts.items():
                assert attempt(eve, sql) == [hidden], sql
        # A group that reads everything is below the policy, too; a group that writes everything reads nothing.
        for group in ("pg_read_all_data", "pg_write_all_data"):
            granted(f"GRANT {group} TO eve")
            for sql, hidden in counts.items():
                assert attempt(eve, sql) == [hidden], (group, sql)
            granted(f"REVOKE {group} FROM eve")
        assert attempt(eve, "SELECT pg_tablespace_size('pg_default')") == [(None,)]
        granted("DROP POLICY own ON vault", "ALTER TABLE vault DISABLE ROW LEVEL SECURITY")
        for sql, hidden in counts.items():
            assert attempt(eve, sql) == attempt(root, sql) != [hidden], sql


@pytest.mark.parametrize("sql, expected", [
    ("SELECT count(*) FROM vault", 100),
    ("SELECT count(*) FROM vault WHERE owner = 'root'", 0),
    ("SELECT count(DISTINCT owner) FROM vault", 1),
    ("SELECT max(v) FROM vault", 1000),
    ("SELECT min(v) FROM vault", 10),
    ("SELECT sum(v) FROM vault", sum(range(10, 1001, 10))),
    ("SELECT count(*) FROM vault WHERE v = 7", 0),
    ("SELECT count(*) FROM (SELECT DISTINCT ON (owner) * FROM vault ORDER BY owner, time DESC) s", 1),
    ("SELECT v FROM vault ORDER BY time DESC LIMIT 1", 10),
    ("SELECT v FROM vault ORDER BY time LIMIT 1", 1000),
    ("SELECT last_value(v) OVER (ORDER BY time) FROM vault ORDER BY time DESC LIMIT 1", 10),
    ("SELECT count(*) FROM vault TABLESAMPLE SYSTEM (100)", 100),
    ("SELECT count(*) FROM vault a JOIN vault b ON a.v = b.v + 1", 0),
    ("SELECT count(*) FROM vault WHERE owner = 'root' OR 1 / (v - v) = 1", 0),
    ("SELECT count(*) FROM vault AS OF SEALED", None),
])
def test_a_policy_is_below_every_aggregate(place, granted, sql, expected):
    granted("GRANT SELECT ON vault TO eve", "ALTER TABLE vault ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON vault FOR SELECT USING (owner = current_user)")
    with login(place, "eve") as eve:
        outcome = attempt(eve, sql)
        if isinstance(outcome, tuple):
            # A refusal is right too, but not one that shows a value of a hidden row.
            assert outcome[0] in ("0A000", "22012", "42601", "55000") and SECRET not in outcome[1], outcome
        elif expected is not None:
            assert outcome == [(expected,)], outcome


def test_errors_show_no_value_of_a_hidden_row(place, granted):
    granted("GRANT SELECT ON vault TO eve", "ALTER TABLE vault ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON vault FOR SELECT USING (v < 0)")
    with login(place, "eve") as eve:
        for sql in ("SELECT secret::int FROM vault", "SELECT * FROM vault WHERE secret::int = 1", "SELECT 1 / (v - v) FROM vault",
                    "SELECT * FROM vault ORDER BY secret::date"):
            assert attempt(eve, sql) == [], sql
        plan = "\n".join(line for line, in eve.execute("EXPLAIN ANALYZE SELECT * FROM vault").fetchall())
        assert SECRET not in plan and "1000" not in plan, plan


def test_a_revoke_ends_cursors_portals_prepared_statements_and_copies(place, granted):
    granted("GRANT SELECT, INSERT ON vault TO eve")
    with login(place, "eve", autocommit=False) as eve, login(place, "eve", autocommit=False) as portal, login(place, "eve") as other:
        eve.execute("DECLARE c CURSOR FOR SELECT v FROM vault")
        assert len(eve.execute("FETCH 3 FROM c").fetchall()) == 3
        named = portal.cursor("p")
        named.execute("SELECT v FROM vault")
        named.itersize = 3
        assert next(named)
        other.execute("PREPARE q AS SELECT count(*) FROM vault")
        other.execute("EXECUTE q")
        many = "SELECT owner FROM vault WHERE v > %s"
        other.execute(many, (0,), prepare=True)
        granted("REVOKE SELECT ON vault FROM eve")
        with pytest.raises(psycopg.Error) as error:
            eve.execute("FETCH 3 FROM c")
        assert error.value.sqlstate in ("42501", "42P01")
        with pytest.raises(psycopg.Error) as error:
            list(named)
        assert error.value.sqlstate in ("42501", "42P01")
        assert attempt(other, "EXECUTE q")[0] == "42501"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute(many, (0,), prepare=True)


def test_a_revoke_ends_a_running_copy(place, granted):
    granted("GRANT INSERT ON vault TO eve")
    with login(place, "eve") as eve, login(place, "root") as root:
        before = root.execute("SELECT count(*) FROM vault").fetchone()
        with pytest.raises(psycopg.errors.UndefinedTable):
            with eve.cursor().copy("COPY vault FROM STDIN") as copy:
                for row in range(20_000):
                    copy.write(f"2030-01-01 00:00:00.{row:06}\teve\tx\t1\n")
                time.sleep(1)
                granted("REVOKE INSERT ON vault FROM eve")
                for row in range(400_000):
                    copy.write(f"2031-01-01 00:00:00.{row:06}\teve\tx\t1\n")
        assert root.execute("SELECT count(*) FROM vault").fetchone() == before


@pytest.mark.parametrize("begin, sql", [
    (b"BEGIN", b"SELECT v FROM vault"),
    (b"BEGIN; DECLARE c SCROLL CURSOR FOR SELECT v FROM vault", b"FETCH 900 FROM c"),
    (b"BEGIN", b"SUBSCRIBE vault FROM GSN 0"),
])
def test_a_portal_loses_its_right_between_two_parts_of_a_batch(place, granted, begin, sql):
    """The rows of a suspended portal are already in the server's buffer."""
    granted("GRANT SELECT, SUBSCRIBE ON vault TO eve")
    with login(place, "eve") as eve:
        pq = eve.pgconn
        socket_of = socket.socket(fileno=os.dup(pq.socket))
        socket_of.setblocking(True)

        def message(kind, body):
            return kind + (len(body) + 4).to_bytes(4, "big") + body

        execute = message(b"E", b"\0" + (2).to_bytes(4, "big"))
        socket_of.sendall(
            message(b"Q", begin + b"\0"))
        answers = b""
        while not answers.endswith(b"Z\0\0\0\5T"):
            answers += socket_of.recv(65536)
        socket_of.sendall(message(b"P", b"\0" + sql + b"\0\0\0") + message(b"B", b"\0\0\0\0\0\0\0\0") + execute + message(b"H", b""))
        answers = b""
        while not answers.endswith(b"s\0\0\0\4"):
            answers += socket_of.recv(65536)
        granted("REVOKE SELECT, SUBSCRIBE ON vault FROM eve")
        socket_of.sendall(execute + message(b"S", b""))
        answers = b""
        while not re.search(rb"Z\x00\x00\x00\x05[ETI]$", answers):
            answers += socket_of.recv(65536)
        assert b"C42501\0" in answers or b"C42P01\0" in answers, answers
        assert not answers.startswith(b"D"), answers
        socket_of.close()


def test_kept_plans_follow_the_role(place, granted, root):
    granted("GRANT SELECT ON vault TO eve", "ALTER TABLE vault ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON vault FOR SELECT USING (owner = current_user)")
    count = "SELECT count(*) FROM vault WHERE v > %s"
    assert root.execute(count, (0,), prepare=True).fetchone() == (1000,)
    root.execute("SET ROLE eve")
    for _ in range(7):
        assert root.execute(count, (0,), prepare=True).fetchone() == (100,)
    root.execute("RESET ROLE")
    assert root.execute(count, (0,), prepare=True).fetchone() == (1000,)
    root.execute("SET ROLE eve")
    for sql in ("SET ROLE root", "SET SESSION AUTHORIZATION root"):
        # The session's login is a superuser, which may change back, as in PostgreSQL.
        assert attempt(root, sql) == []
        root.execute("RESET SESSION AUTHORIZATION")
        root.execute("RESET ROLE")
    with login(place, "eve") as eve:
        assert attempt(eve, "SET ROLE root")[0] == "42501"
        assert attempt(eve, "SET SESSION AUTHORIZATION root")[0] == "42501"


def test_line_protocol_makes_no_table_without_the_right(place, granted, root):
    http = Http(place["server"])
    login_of = basic("eve", place["passwords"]["eve"])
    for path in ("/write?db=stratalog", "/api/v2/write?bucket=stratalog&org=x", "/api/v3/write_lp?db=stratalog"):
        status, text, _ = http.ask(path, "sneaked v=1i 1\n", login_of)
        assert status == 403 and SECRET not in text, (path, status, text)
        # Neither into a table of another role, nor a new column for it.
        status, text, _ = http.ask(path, "vault,owner=eve v=1i,extra=2i 1\n", login_of)
        assert status in (400, 403, 404), (path, status, text)
    assert root.execute("SELECT to_regclass('sneaked')").fetchone() == (None,)
    assert root.execute("SELECT count(*) FROM information_schema.columns WHERE column_name = 'extra'").fetchone() == (0,)
    granted("GRANT INSERT ON vault TO eve")
    status, text, _ = http.ask("/write?db=stratalog", "vault,owner=eve v=1i,extra=2i 1\n", login_of)
    assert status in (400, 403), (status, text)
    assert root.execute("SELECT count(*) FROM information_schema.columns WHERE column_name = 'extra'").fetchone() == (0,)


def test_passwords_and_tokens_are_in_no_file_of_the_server(place, root):
    root.execute("ALTER ROLE eve SET statement_timeout = '1min'")
    words = ["a-Password-of-the-test", place["passwords"]["root"]]
    root.execute(f"CREATE ROLE shown LOGIN PASSWORD '{words[0]}'")
    text = root.execute("CALL stratalog.create_token('shown', role => 'shown', scope => 'read')").fetchone()
    words += [value for value in text if str(value).startswith("slt_")]
    assert len(words) == 3
    root.execute("DROP ROLE shown")
    for word in words:
        found = subprocess.run(["grep", "-rlaF", "--", word, str(place["data"])], capture_output=True, text=True).stdout
        assert found == "", found
        assert word not in place["server"].output()
        rows = root.execute("SELECT count(*) FROM stratalog.audit WHERE statement LIKE %s OR detail LIKE %s", (f"%{word}%",) * 2)
        assert rows.fetchone() == (0,)


def test_ten_thousand_failed_logins(place):
    """They neither fill memory nor the log, and the owner of another role still gets in."""
    server = place["server"]
    http = Http(server)
    began = time.monotonic()
    statuses = set()
    for at in range(10_000):
        status, _, headers = http.ask("/api/sql?q=SELECT+1", None, basic("eve", f"guess {at}"))
        statuses.add(status)
    assert statuses <= {401, 429}, statuses
    assert time.monotonic() - began < 600
    with login(place, "root") as root:
        assert root.execute("SELECT 1").fetchone() == (1,)
        count, = root.execute("SELECT count(*) FROM stratalog.audit WHERE time > now() - interval '20 minutes'").fetchone()
        assert count < 10_000, f"{count} records: each guess fills the disk"
