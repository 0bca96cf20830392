"""Attacks of a web page on a server on the same machine, through the browser: all fail, unless a setting allows
them."""

import json

import psycopg
import pytest

import browsers
from logins import token, user
from servers import Stratalog

pytestmark = pytest.mark.ours

# Every kind of request that a page can make, against every route with side effects.
ATTACK = """
const base = "http://HOST:HTTP";
const drop = "DROP TABLE victim";
const q = encodeURIComponent(drop);
const made = {};
made.image = await image(`${base}/api/sql?q=${q}`);
made.image_exec = await image(`${base}/exec?query=${q}`);
made.image_query = await image(`${base}/query?q=` + encodeURIComponent("DROP DATABASE precious"));
made.image_create = await image(`${base}/query?q=` + encodeURIComponent("CREATE DATABASE intruder"));
made.text = await attempt(() => fetch(`${base}/api/sql`, {method: "POST", mode: "no-cors", body: drop}));
made.bare = await attempt(() => fetch(`${base}/api/sql`, {method: "POST", mode: "no-cors", body: new Blob([drop])}));
made.hidden = await attempt(() => fetch(`${base}/api/sql`, {method: "POST", mode: "no-cors", body: drop, referrerPolicy: "no-referrer"}));
made.json = await attempt(() => fetch(`${base}/api/sql`, {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({sql: drop})}));
made.read = await attempt(() => fetch(`${base}/api/sql?q=SELECT+1`));
for (const path of ["/write", "/api/v2/write?bucket=public", "/api/v3/write_lp?db=public"])
  made[path] = await attempt(() => fetch(base + path, {method: "POST", mode: "no-cors", body: "intruder v=1 1\\n"}));
made.beacon = navigator.sendBeacon(`${base}/write`, "intruder v=2 2\\n");
made.otlp = await attempt(() => fetch(`${base}/v1/logs`, {method: "POST", mode: "no-cors", body: "{}"}));
made.form = await form(`${base}/query`, {q: "DROP DATABASE precious"});
made.form_text = await form(`${base}/api/sql`, {"DROP TABLE victim --": ""}, "text/plain");
made.form_get = await form(`${base}/api/sql?q=${q}`, {a: "b"});
for (const port of [ILP, POSTGRES, FLIGHT]) {
  const lines = "intruder v=3 3\\nintruder v=4 4\\n";
  made["port" + port] = await attempt(() => fetch(`http://HOST:${port}/v=1`, {method: "POST", mode: "no-cors", body: lines}));
  made["get" + port] = await attempt(() => fetch(`http://HOST:${port}/`, {mode: "no-cors"}));
}
await report(made);
"""


def prepare(connection):
    connection.execute("CREATE TABLE victim (time timestamptz, v int)")
    connection.execute("INSERT INTO victim VALUES (now(), 1)")
    connection.execute("CREATE SCHEMA precious")
    connection.execute("CREATE TABLE precious.t (time timestamptz, v int)")


def untouched(connection):
    assert connection.execute("SELECT count(*) FROM victim").fetchone() == (1,)
    tables = connection.execute("SELECT table_schema, table_name FROM information_schema.tables "
                                "WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'stratalog') ORDER BY 1, 2").fetchall()
    assert tables == [("precious", "t"), ("public", "victim")]
    assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'intruder'").fetchone() == (0,)


def attack(server, host):
    ports = {"HOST": host, "HTTP": server.http_port, "ILP": server.ilp_port, "POSTGRES": server.port, "FLIGHT": server.flight_port}
    script = ATTACK
    for name in ("HOST", "HTTP", "ILP", "POSTGRES", "FLIGHT"):
        script = script.replace(name, str(ports[name]))
    return script


@pytest.mark.parametrize("page, target", [
    ("attacker.example", "127.0.0.1"), ("attacker.example", "localhost"), ("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"),
    # DNS rebinding: the page's own name resolves to this machine, so the browser treats the server as the page's
    # origin.
    ("attacker.example", "attacker.example"),
])
def test_a_page_changes_nothing(tmp_path, page, target):
    with Stratalog(tmp_path / "data") as server, browsers.Site() as site:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            prepare(connection)
            made = browsers.reported(site, attack(server, target), page)
            assert "failed" not in made, made
            # Nothing is readable, and nothing loads.
            assert made["read"].keys() == {"error"} and made["json"].keys() == {"error"}, made
            assert made["image"] == made["image_exec"] == "error"
            untouched(connection)
        assert server.alive()


def test_a_rebound_name_is_refused_as_a_page_too(tmp_path):
    with Stratalog(tmp_path / "data") as server:
        page = browsers.shown(f"http://rebound.example:{server.http_port}/api/sql?q=SELECT+42+AS+answer")
        assert "not a known name of this server" in page and "http_hosts" in page and "answer" not in page
        page = browsers.shown(f"http://localhost:{server.http_port}/api/sql?q=SELECT+42+AS+answer")
        assert '[{"answer":42}]' in page
        page = browsers.shown(f"http://localhost:{server.http_port}/api/sql?q=CREATE+TABLE+t+(time+timestamptz)")
        assert "25006" in page


ALLOWED = """
const base = "http://127.0.0.1:HTTP";
const made = {};
const json = {"Content-Type": "application/json"};
const post = (sql) => attempt(() => fetch(`${base}/api/sql`, {method: "POST", headers: json, body: JSON.stringify({sql})}));
made.create = await post("CREATE TABLE t (time timestamptz, v int)");
made.insert = await post("INSERT INTO t VALUES ('2024-01-01', 7)");
made.select = await attempt(() => fetch(`${base}/api/sql?q=` + encodeURIComponent("SELECT v FROM t")));
made.drop = await attempt(() => fetch(`${base}/api/sql?q=` + encodeURIComponent("DROP TABLE t")));
made.plain = await attempt(() => fetch(`${base}/api/sql`, {method: "POST", body: "DROP TABLE t"}));
made.image = await image(`${base}/api/sql?q=SELECT+1`);
await report(made);
"""


def test_a_page_whose_origin_is_listed_may_use_the_server(tmp_path):
    with browsers.Site() as site:
        with Stratalog(tmp_path / "data", "--http-origins", f"http://127.0.0.1:{site.port}") as server:
            made = browsers.reported(site, ALLOWED.replace("HTTP", str(server.http_port)))
            assert made["create"]["status"] == made["insert"]["status"] == 200, made
            assert json.loads(made["select"]["text"]) == [{"v": 7}]
            assert made["drop"]["status"] == 400 and "25006" in made["drop"]["text"]
            # A form can send such a request: an intended request must have the right content type.
            assert made["plain"]["status"] == 415
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                assert connection.execute("SELECT v FROM t").fetchall() == [(7,)]


LOGGED_IN = """
const opened = window.open("http://root:PASSWORD@127.0.0.1:HTTP/api/sql?q=SELECT+1");
await new Promise((done) => setTimeout(done, 3000));
"""


def test_stored_credentials_of_a_browser_do_not_let_a_page_act(tmp_path):
    data = tmp_path / "data"
    password = user(data, "root", "--superuser")
    with Stratalog(data) as server, browsers.Site() as site:
        with psycopg.connect(server.dsn(user="root", password=password), autocommit=True) as connection:
            prepare(connection)
            # The browser has asked for, and stores, the credentials of the server.
            page = browsers.shown(f"http://root:{password}@127.0.0.1:{server.http_port}/api/sql?q=SELECT+current_user+AS+me")
            assert '[{"me":"root"}]' in page
            page = browsers.shown(f"http://127.0.0.1:{server.http_port}/api/sql?q=SELECT+42+AS+answer")
            assert "answer" not in page
            for host in ("attacker.example", "localhost"):
                login = LOGGED_IN.replace("PASSWORD", password).replace("HTTP", str(server.http_port))
                made = browsers.reported(site, login + attack(server, "127.0.0.1"), host)
                assert made["read"].keys() == {"error"} and made["json"].keys() == {"error"}, made
                untouched(connection)
            # DNS rebinding is refused before any login.
            page = browsers.shown(f"http://root:{password}@rebound.example:{server.http_port}/api/sql?q=SELECT+42+AS+answer")
            assert "not a known name of this server" in page and "answer" not in page
        assert server.alive()


def test_a_listed_page_logs_in_with_a_token_but_not_with_stored_credentials(tmp_path):
    data = tmp_path / "data"
    password = user(data, "root", "--superuser")
    text = token(data, "page", "root")
    script = LOGGED_IN + """
const base = "http://127.0.0.1:HTTP";
const made = {};
const q = `${base}/api/sql?q=SELECT+7+AS+v`;
made.none = await attempt(() => fetch(q));
made.stored = await attempt(() => fetch(q, {credentials: "include"}));
made.token = await attempt(() => fetch(q, {headers: {Authorization: "Bearer TOKEN"}}));
await report(made);
"""
    with browsers.Site() as site:
        with Stratalog(data, "--http-origins", f"http://127.0.0.1:{site.port}") as server:
            for name, value in (("PASSWORD", password), ("HTTP", str(server.http_port)), ("TOKEN", text)):
                script = script.replace(name, value)
            made = browsers.reported(site, script)
            assert json.loads(made["token"]["text"]) == [{"v": 7}], made
            assert made["none"].get("status") == 401, made
            # No CORS header allows credentials, so the page reads nothing.
            assert made["stored"].keys() == {"error"}, made
