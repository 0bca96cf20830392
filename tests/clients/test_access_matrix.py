"""Every door × every state of a login × every kind of statement and call: who gets in, and who may do what.

The matrix is complete by construction: each statement of docs/sql/statements.md and each procedure that the server
names needs an entry in KINDS.
"""

import base64
import json
import pathlib
import re
import socket
import time
import urllib.error
import urllib.request

import psycopg
import pytest

from servers import ROOT, Stratalog

pytestmark = pytest.mark.ours

PASSWORD = "correct horse"
# The identities of a login. `poor` and `right` log in; the others must not.
REFUSED = ["nobody", "wrong", "unknown", "expired", "revoked", "no_login"]

# The SQLSTATEs that refuse a statement: no privilege, or an object that does not exist for the role.
DENIED = {"42501", "42P01", "3F000", "42704"}
LOGIN = "login refused"


class Kind:
    """A kind of statement. `right` runs the statement after `before`, `poor` is denied unless `free`."""

    def __init__(self, name, sql, before=(), free=False, doors=("pg", "flight", "http")):
        self.name, self.sql, self.before, self.free, self.doors = name, sql, before, free, doors


TABLE = "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v INT, PRIMARY KEY (host, time))"
ROWS = "INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2)"
FILLED = (TABLE, ROWS)

KINDS = [
    Kind("SELECT", "SELECT count(*) FROM t", FILLED),
    Kind("SELECT of a column", "SELECT host FROM t WHERE v = 1", FILLED),
    Kind("SELECT in a subquery", "SELECT (SELECT max(v) FROM t)", FILLED),
    Kind("SELECT in WITH", "WITH w AS (SELECT v FROM t) SELECT 1 FROM w", FILLED),
    Kind("SELECT of the newest rows", "SELECT DISTINCT ON (host) host, v FROM t ORDER BY host, time DESC", FILLED),
    Kind("SELECT by key", "SELECT v FROM t WHERE host = 'a' AND time = '2024-01-01'", FILLED),
    Kind("TABLE", "TABLE t", FILLED),
    Kind("As-of joins", "SELECT a.v, b.v FROM t a, LATERAL (SELECT v FROM t b WHERE b.host = a.host AND b.time <= a.time"
         " ORDER BY b.time DESC LIMIT 1) b", FILLED),
    Kind("SELECT without a table", "SELECT 1", free=True),
    Kind("VALUES", "VALUES (1), (2)", free=True),
    Kind("SHOW", "SHOW search_path", free=True),
    Kind("EXPLAIN", "EXPLAIN SELECT v FROM t", FILLED),
    Kind("EXPLAIN ANALYZE", "EXPLAIN ANALYZE SELECT v FROM t", FILLED),
    Kind("INSERT", "INSERT INTO t VALUES ('2024-01-03', 'c', 3)", FILLED),
    Kind("INSERT SELECT", "INSERT INTO t SELECT time + interval '1 year', host, v FROM t", FILLED),
    Kind("INSERT RETURNING", "INSERT INTO t VALUES ('2024-01-03', 'c', 3) RETURNING v", FILLED),
    Kind("COPY TO", "COPY t TO STDOUT", FILLED, doors=("pg",)),
    Kind("COPY FROM", "COPY t FROM STDIN", FILLED, doors=("pg",)),
    Kind("DELETE", "DELETE FROM t WHERE time < '2024-01-02'", FILLED),
    Kind("TRIM", "TRIM t BEFORE GSN 1", FILLED),
    Kind("TRUNCATE", "TRUNCATE t", FILLED),
    Kind("SUBSCRIBE", "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE t; ROLLBACK", FILLED, doors=("pg",)),
    Kind("DECLARE, FETCH, MOVE, CLOSE", "BEGIN; DECLARE c CURSOR FOR SELECT v FROM t; FETCH c; CLOSE c; COMMIT", FILLED,
         doors=("pg",)),
    Kind("PREPARE, EXECUTE, DEALLOCATE", "PREPARE p AS SELECT v FROM t; EXECUTE p; DEALLOCATE p", FILLED, doors=("pg",)),
    Kind("Transactions", "BEGIN; COMMIT", free=True, doors=("pg",)),
    Kind("SET, SHOW, RESET, DISCARD", "SET statement_timeout = '10s'; RESET ALL; DISCARD ALL", free=True, doors=("pg",)),
    Kind("ACQUIRE", "ACQUIRE TABLE t; RELEASE TABLE t", FILLED, doors=("pg",)),
    Kind("LOCK", "BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; COMMIT", FILLED, doors=("pg",)),
    Kind("CREATE TABLE", "CREATE TABLE u (time TIMESTAMPTZ NOT NULL)"),
    Kind("CREATE SCHEMA", "CREATE SCHEMA s"),
    Kind("CREATE DATABASE", "CREATE DATABASE d"),
    Kind("CREATE INDEX, DROP INDEX", "CREATE INDEX i ON t USING bloom (v)", FILLED),
    Kind("DROP INDEX", "DROP INDEX i", (*FILLED, "CREATE INDEX i ON t USING bloom (v)")),
    Kind("ALTER TABLE ADD COLUMN", "ALTER TABLE t ADD COLUMN w INT", FILLED),
    Kind("ALTER TABLE SET", "ALTER TABLE t SET (retention = '1000d')", FILLED),
    Kind("ALTER TABLE RENAME", "ALTER TABLE t RENAME TO u", FILLED),
    Kind("ALTER TABLE ROW LEVEL SECURITY", "ALTER TABLE t ENABLE ROW LEVEL SECURITY", FILLED),
    Kind("ALTER TABLE OWNER", "ALTER TABLE t OWNER TO \"right\"", FILLED),
    Kind("CREATE POLICY", "CREATE POLICY p ON t USING (v > 1)", FILLED),
    Kind("DROP POLICY", "DROP POLICY p ON t", (*FILLED, "CREATE POLICY p ON t USING (v > 1)")),
    Kind("COMMENT", "COMMENT ON TABLE t IS 'x'", FILLED),
    Kind("DROP TABLE", "DROP TABLE t", FILLED),
    Kind("DROP SCHEMA", "DROP SCHEMA s CASCADE", ("CREATE SCHEMA s",)),
    Kind("DROP DATABASE", "DROP DATABASE d", ("CREATE DATABASE d",)),
    Kind("GRANT", "GRANT SELECT ON t TO pg_monitor", FILLED),
    Kind("REVOKE", "REVOKE SELECT ON t FROM pg_monitor", FILLED),
    Kind("CREATE ROLE", "CREATE ROLE other"),
    Kind("ALTER ROLE", "ALTER ROLE poor CONNECTION LIMIT 7"),
    Kind("GRANT ROLE", "GRANT pg_monitor TO unused"),
    Kind("DROP ROLE", "DROP ROLE other", ("CREATE ROLE other",)),
    Kind("ALTER DEFAULT PRIVILEGES", "ALTER DEFAULT PRIVILEGES FOR ROLE \"right\" GRANT SELECT ON TABLES TO PUBLIC"),
    Kind("SET ROLE", "SET ROLE \"right\"; RESET ROLE", doors=("pg",)),
    Kind("CALL flush", "CALL stratalog.flush('t')", FILLED),
    Kind("CALL compact", "CALL stratalog.compact('t')", FILLED),
    Kind("CALL check", "CALL stratalog.check()"),
    Kind("CALL accept_clock_jump", "CALL stratalog.accept_clock_jump()"),
    Kind("CALL backup", "CALL stratalog.backup('{backup}')"),
    Kind("CALL create_token", "CALL stratalog.create_token('n', 'unused', 'read', NULL)"),
    Kind("CALL revoke_token", "CALL stratalog.revoke_token('n', 'unused')",
         ("CALL stratalog.create_token('n', 'unused', 'read', NULL)",)),
    Kind("CALL reload", "CALL stratalog.reload()"),
    Kind("the audit log", "SELECT count(*) FROM stratalog.audit"),
]

# Statements that the page describes in other words, or that do not exist.
OF_THE_PAGE = {"TRIM, SUBSCRIBE": ["TRIM", "SUBSCRIBE"], "AS OF SEALED": ["SELECT"], "CALL": ["CALL check"], "COPY": ["COPY TO", "COPY FROM"],
               "UPDATE, MERGE": []}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with an administrator, and roles in each state."""
    with Stratalog(tmp_path_factory.mktemp("matrix") / "data") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as first:
            for sql in [
                f"CREATE ROLE admin SUPERUSER LOGIN PASSWORD '{PASSWORD}'",
                f"CREATE ROLE \"right\" SUPERUSER LOGIN PASSWORD '{PASSWORD}'",
                f"CREATE ROLE poor LOGIN PASSWORD '{PASSWORD}'",
                "CREATE ROLE unused LOGIN",
                f"CREATE ROLE expired LOGIN PASSWORD '{PASSWORD}' VALID UNTIL '2020-01-01'",
                f"CREATE ROLE revoked LOGIN PASSWORD '{PASSWORD}'",
                f"CREATE ROLE no_login NOLOGIN PASSWORD '{PASSWORD}'",
            ]:
                first.execute(sql)
            server.tokens = {}
            for role in ["right", "poor", "revoked"]:
                answer = first.execute(f"CALL stratalog.create_token('matrix', '{role}', 'all', NULL)")
                server.tokens[role] = next(value for value in answer.fetchone() if str(value).startswith("slt_"))
            soon = "(now() + interval '2 seconds')::text"
            answer = first.execute(f"CALL stratalog.create_token('short', 'right', 'all', {soon})")
            server.tokens["expired"] = next(v for v in answer.fetchone() if str(v).startswith("slt_"))
            for scope in ("read", "write"):
                answer = first.execute(f"CALL stratalog.create_token('{scope}', 'right', '{scope}', NULL)")
                server.tokens[scope] = next(v for v in answer.fetchone() if str(v).startswith("slt_"))
            first.execute("DROP ROLE revoked")
        time.sleep(2.1)
        yield server


def login(state):
    """User and password of a state; None for no credentials."""
    if state == "nobody":
        return None
    user = {"wrong": "right", "unknown": "stranger"}.get(state, state)
    return user, "wrong" if state in ("wrong", "unknown") else PASSWORD


def over_pg(server, state, sql):
    given = login(state)
    user, password = given or ("right", None)
    dsn = f"host=127.0.0.1 port={server.port} dbname=stratalog user='{user}' connect_timeout=10"
    try:
        connection = psycopg.connect(dsn, password=password, autocommit=True)
    except psycopg.OperationalError:
        return LOGIN
    with connection:
        try:
            if sql.startswith("COPY") and "STDIN" in sql:
                with connection.cursor().copy(sql) as copy:
                    copy.write("2024-02-01\tz\t9\n")
            elif sql.startswith("COPY"):
                with connection.cursor().copy(sql) as copy:
                    list(copy)
            else:
                connection.execute(sql, prepare=False)
        except psycopg.Error as error:
            return error.sqlstate
    return "ok"


def basic(given):
    user, password = given
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def authorization(server, state, by_token):
    """The header of a request."""
    if by_token:
        unknown = "slt_" + "A" * 43
        return {"nobody": None, "wrong": f"Bearer {unknown}", "unknown": f"Token {unknown}", "no_login": "Bearer nonsense"
                }.get(state, f"Bearer {server.tokens.get(state, unknown)}")
    return basic(login(state)) if login(state) else None


def over_http(server, state, sql, by_token=False, path="/api/sql"):
    header = authorization(server, state, by_token)
    headers = {"Content-Type": "text/plain", **({"Authorization": header} if header else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}", sql.encode(), headers)
    try:
        urllib.request.urlopen(request, timeout=60).read()
    except urllib.error.HTTPError as error:
        if error.code == 401:
            assert error.headers["WWW-Authenticate"], "401 without a challenge"
            return LOGIN
        # Line protocol answers as InfluxDB does, without an SQLSTATE.
        text = error.read().decode()
        return json.loads(text).get("sqlstate") or {403: "42501"}.get(error.code, text)
    return "ok"


def over_flight(server, state, sql, by_token=False):
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    header = authorization(server, state, by_token)
    options = {"adbc.flight.sql.authorization_header": header} if header else {}
    try:
        with dbapi.connect(server.flight_uri(), db_kwargs=options, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                if cursor.description:
                    cursor.fetchall()
    except dbapi.Error as error:
        if "nauthenticated" in str(error) or "UNAUTHENTICATED" in str(error):
            return LOGIN
        # The driver shows gRPC's status.
        known = {"PermissionDenied": "42501", "NotFound": "42P01", "FailedPrecondition": "55000"}
        return next((state for status, state in known.items() if f"({status};" in str(error)), str(error))
    return "ok"


def clean(server):
    """Removes what an entry has made."""
    with psycopg.connect(f"host=127.0.0.1 port={server.port} dbname=stratalog user=admin password='{PASSWORD}'",
                         autocommit=True) as admin:
        for sql in ["DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS u", "DROP SCHEMA IF EXISTS s CASCADE",
                    "DROP DATABASE IF EXISTS d", "DROP ROLE IF EXISTS other", "REVOKE pg_monitor FROM unused",
                    "ALTER DEFAULT PRIVILEGES FOR ROLE \"right\" REVOKE SELECT ON TABLES FROM PUBLIC"]:
            admin.execute(sql)
        try:
            admin.execute("CALL stratalog.revoke_token('n', 'unused')")
        except psycopg.Error:
            pass


def prepare(server, kind):
    clean(server)
    with psycopg.connect(f"host=127.0.0.1 port={server.port} dbname=stratalog user=admin password='{PASSWORD}'",
                         autocommit=True) as admin:
        for sql in kind.before:
            admin.execute(sql)
    return kind.sql.format(backup=f"{server.data_dir}/backups/b{time.monotonic_ns()}") if "{backup}" in kind.sql else kind.sql


DOORS = {"pg": over_pg, "http": over_http, "flight": over_flight}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_who_may_do_what(guarded, kind):
    wrong = []
    for door in kind.doors:
        over = DOORS[door]
        for state in ("poor", "right"):
            found = over(guarded, state, prepare(guarded, kind))
            # A server without certificates has nothing to reload, and a clock that did not jump has nothing to accept.
            allowed = {"ok", "55000"} if kind.name in ("CALL reload", "CALL accept_clock_jump") else {"ok"}
            expected = allowed if state == "right" or kind.free else DENIED
            if found not in expected:
                wrong.append((door, state, found))
        if door != "pg":
            found = over(guarded, "poor", prepare(guarded, kind), by_token=True)
            if found not in (allowed if kind.free else DENIED):
                wrong.append((door, "poor by token", found))
    assert not wrong, wrong


# What a superuser's token may do within its scope; every other kind is refused.
READS = {"SELECT", "SELECT of a column", "SELECT in a subquery", "SELECT in WITH", "SELECT of the newest rows", "SELECT by key", "TABLE",
         "As-of joins", "EXPLAIN", "EXPLAIN ANALYZE", "the audit log"}
WRITES = {"INSERT", "CREATE TABLE", "CREATE SCHEMA", "ALTER TABLE ADD COLUMN"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "http" in kind.doors], ids=lambda kind: kind.name)
def test_a_token_stays_within_its_scope(guarded, kind):
    for scope, within in (("read", READS), ("write", WRITES)):
        for over in (over_http, over_flight):
            found = over(guarded, scope, prepare(guarded, kind), by_token=True)
            assert (found == "ok") == (kind.free or kind.name in within), (scope, over.__name__, found)


@pytest.mark.parametrize("state", REFUSED)
@pytest.mark.parametrize("door", ["pg", "http", "flight", "http by token", "flight by token"])
def test_who_gets_in(guarded, door, state):
    """No statement runs without a valid login: reading, writing, defining, calling."""
    kinds = [kind for kind in KINDS if kind.name in ("SELECT without a table", "INSERT", "CREATE TABLE", "CALL check")]
    over, by_token = DOORS[door.split()[0]], door.endswith("token")
    for kind in kinds:
        sql = prepare(guarded, kind)
        found = over(guarded, state, sql, by_token=True) if by_token else over(guarded, state, sql)
        assert found == LOGIN, (kind.name, found)


@pytest.mark.parametrize("state", [*REFUSED, "poor", "right"])
@pytest.mark.parametrize("path", ["/write?db=stratalog", "/api/v2/write?bucket=stratalog&org=x", "/api/v3/write_lp?db=stratalog"])
def test_line_protocol_over_http(guarded, path, state):
    clean(guarded)
    found = over_http(guarded, state, "u,host=a v=1i\n", path=path) if state != "right" else None
    if state in REFUSED:
        assert found == LOGIN
    elif state == "poor":
        assert found in DENIED, found
    else:
        assert over_http(guarded, "right", "u,host=a v=1i\n", path=path) == "ok"
    with psycopg.connect(f"host=127.0.0.1 port={guarded.port} dbname=stratalog user=admin password='{PASSWORD}'") as admin:
        exists = admin.execute("SELECT to_regclass('u') IS NOT NULL").fetchone()[0]
    assert exists == (state == "right")


def test_line_protocol_over_tcp_needs_a_certificate(guarded):
    clean(guarded)
    with socket.create_connection(("127.0.0.1", guarded.ilp_port), 10) as door:
        try:
            door.sendall(b"u,host=a v=1i\n" * 100)
            door.shutdown(socket.SHUT_WR)
            door.recv(1)
        except OSError:
            pass
    time.sleep(0.5)
    with psycopg.connect(f"host=127.0.0.1 port={guarded.port} dbname=stratalog user=admin password='{PASSWORD}'") as admin:
        assert admin.execute("SELECT to_regclass('u')").fetchone() == (None,)


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/subscribe?table=t", "/exec?query=SELECT%201", "/query?q=SHOW%20DATABASES",
                                  "/api/v3/query_sql?db=stratalog&q=SELECT%201"])
def test_reads_over_http_need_a_login(guarded, path):
    def status(header):
        request = urllib.request.Request(f"http://127.0.0.1:{guarded.http_port}{path}",
                                         headers={"Authorization": header} if header else {})
        try:
            return urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code

    for state in REFUSED:
        assert status(authorization(guarded, state, False)) == 401, state
    if path == "/metrics":
        assert status(basic(("poor", PASSWORD))) == 403
        assert status(basic(("right", PASSWORD))) == 200
    assert urllib.request.urlopen(f"http://127.0.0.1:{guarded.http_port}/health", timeout=10).status == 200


def test_the_matrix_is_complete(guarded):
    page = (pathlib.Path(ROOT) / "docs" / "sql" / "statements.md").read_text()
    names = {kind.name for kind in KINDS}
    missing = [title for title in re.findall(r"^##+ (.*)$", page, re.MULTILINE)
               if not set(OF_THE_PAGE.get(title, [title])) <= names]
    assert not missing, missing
    with psycopg.connect(f"host=127.0.0.1 port={guarded.port} dbname=stratalog user=admin password='{PASSWORD}'") as admin:
        with pytest.raises(psycopg.Error) as error:
            admin.execute("CALL stratalog.nope()")
    procedures = set(re.findall(r"stratalog\.(\w+)", error.value.diag.message_hint)) - {"nope"}
    calls = {kind.name.removeprefix("CALL ") for kind in KINDS if kind.name.startswith("CALL ")}
    assert procedures == calls
