"""Tokens by SQL, over the doors of programs: scope, expiry, revocation, and what may be seen of them."""

import time

import psycopg
import pytest

from logins import Http, basic, issuer, token, user
from servers import Stratalog

pytestmark = pytest.mark.ours


def test_tokens_by_sql(tmp_path):
    data = tmp_path / "data"
    root, ann = user(data, "root", "--superuser"), user(data, "ann")
    with Stratalog(data) as server:
        http = Http(server)
        with psycopg.connect(server.dsn(user="root", password=root), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (time timestamptz, v int)")
            made = connection.execute("CALL stratalog.create_token('all', scope => 'all', expires => '1h')").fetchone()
            read = connection.execute("CALL stratalog.create_token('read', NULL, 'read', NULL)").fetchone()[0]
            assert made[0].startswith("slt_") and made[1] is not None
            seen = connection.execute("SELECT name, role, scope, is_expired FROM stratalog.tokens ORDER BY name").fetchall()
            assert seen == [("all", "root", "all", False), ("read", "root", "read", False)]
            bearer = "Bearer " + made[0]
            assert http.sql("SELECT current_user AS me", bearer) == (200, [{"me": "root"}])
            assert http.sql("INSERT INTO t VALUES (now(), 1)", bearer)[0] == 200
            assert http.sql("SELECT count(*) AS n FROM t", "Token " + read) == (200, [{"n": 1}])
            # With a password's place, as InfluxDB 1's clients do.
            assert http.sql("SELECT 1 AS n", basic("root", read)) == (200, [{"n": 1}])
            assert http.sql("SELECT 1 AS n", basic("ann", read))[0] == 401
            assert connection.execute("SELECT last_used IS NOT NULL FROM stratalog.tokens WHERE name = 'read'").fetchone() == (True,)
            # A revoked token ends at once.
            connection.execute("CALL stratalog.revoke_token('all')")
            status, told = http.sql("SELECT 1", bearer)
            assert status == 401 and told["sqlstate"] == "28000" and made[0] not in str(told)
            for statement, sqlstate in [
                ("CALL stratalog.revoke_token('all')", "42704"),
                ("CALL stratalog.create_token('x', scope => 'some')", "22023"),
                ("CALL stratalog.create_token('x', expires => 'soon')", "22023"),
                ("CALL stratalog.create_token('x', expires => '2001-01-01')", "22023"),
                ("CALL stratalog.create_token('x', nothing => 'y')", "42601"),
                ("CALL stratalog.create_token(NULL)", "22004"),
                ("CALL stratalog.create_token('read')", "42710"),
            ]:
                with pytest.raises(psycopg.Error) as error:
                    connection.execute(statement)
                assert error.value.sqlstate == sqlstate, (statement, error.value)
        with psycopg.connect(server.dsn(user="ann", password=ann), autocommit=True) as connection:
            assert connection.execute("SELECT * FROM stratalog.tokens").fetchall() == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CALL stratalog.create_token('x', 'root')")
            assert connection.execute("CALL stratalog.create_token('own')").fetchone()[0].startswith("slt_")
            assert connection.execute("SELECT name FROM stratalog.tokens").fetchall() == [("own",)]


def test_a_token_has_its_scope_and_its_end(tmp_path):
    data = tmp_path / "data"
    root = user(data, "root", "--superuser")
    read = token(data, "read", "root", "--scope", "read")
    write = token(data, "write", "root", "--scope", "write")
    short = token(data, "short", "root", "--expires", "6s")
    with Stratalog(data) as server:
        http = Http(server)
        as_root = basic("root", root)
        assert http.ask("/write", "cpu,host=a v=1 1\n", "Token " + write)[0] == 204
        assert http.sql("SELECT v FROM cpu", "Bearer " + read) == (200, [{"v": 1.0}])
        for authorization, statement in (("Bearer " + write, "SELECT v FROM cpu"), ("Bearer " + read, "DROP TABLE cpu"),
                                         ("Bearer " + write, "DROP ROLE root"), ("Bearer " + read, "CREATE ROLE x")):
            status, told = http.sql(statement, authorization)
            assert (status, told.get("sqlstate")) == (403, "42501"), (statement, told)
        assert http.ask("/write", "cpu,host=a v=2 2\n", "Token " + read)[0] == 403
        assert http.ask("/write", "other v=2 2\n", "Token " + read)[0] == 403
        assert http.sql("SELECT count(*) AS n FROM cpu", as_root) == (200, [{"n": 1}])
        deadline = time.monotonic() + 30
        while http.sql("SELECT 1", "Bearer " + short)[0] != 401:
            assert time.monotonic() < deadline
            time.sleep(0.3)


def test_no_text_with_a_secret_is_shown(tmp_path):
    with Stratalog(tmp_path / "data") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'geheim-1'")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.dsn())
        with psycopg.connect(server.dsn(user="ann", password="geheim-1"), autocommit=True) as connection:
            with pytest.raises(psycopg.errors.SyntaxError) as error:
                connection.execute("ALTER ROLE ann PASSWORD 'geheim-2' 'x'")
            # The client itself adds a line of its statement to the text of the exception.
            diag = error.value.diag
            assert not any("geheim" in (part or "") for part in (diag.message_primary, diag.message_detail, diag.message_hint))
            connection.execute("ALTER ROLE ann PASSWORD 'geheim-3'")
            with psycopg.connect(server.dsn(user="ann", password="geheim-3"), autocommit=True) as other:
                shown = other.execute("SELECT query FROM pg_stat_activity").fetchall()
                assert any("***" in str(query) for query in shown) and "geheim" not in str(shown), shown
        assert "geheim" not in server.output()


def test_json_web_tokens(tmp_path):
    data = tmp_path / "data"
    user(data, "ann")
    with issuer(tmp_path) as made, Stratalog(data, *made.flags()) as server:
        http = Http(server)

        def me(text):
            status, told = http.sql("SELECT current_user AS me", "Bearer " + text)
            return told[0]["me"] if status == 200 else (status, told["sqlstate"])

        refused = (401, "28000")
        assert me(made.token("ann")) == "ann"
        assert me(made.token("ann", aud=["other", "stratalog"])) == "ann"
        assert me(made.token("ann", seconds=-50)) == "ann", "within the leeway"
        assert made.requests == 1
        for text in (made.token("nobody"), made.token("pg_monitor"), made.token("ann", seconds=-70), made.token("ann", aud="other"),
                     made.token("ann", iss="https://evil.example"), made.token("ann", nbf=4_000_000_000),
                     made.token("ann", header={"alg": "none"}), made.token("ann", header={"alg": "HS256"}),
                     made.token("ann")[:-8] + "AAAAAAAA", made.token("ann").rsplit(".", 1)[0] + "."):
            assert me(text) == refused
        # An unknown key is looked up, but not for each request.
        made.rotate()
        for _ in range(5):
            assert me(made.token("ann")) == refused, "the keys were read less than a minute ago"
        assert made.requests == 1
