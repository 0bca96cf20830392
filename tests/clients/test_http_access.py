"""Logins and TLS on HTTP, Flight SQL and line protocol, by the clients of these protocols."""

import base64
import socket
import ssl
import subprocess
import time

import adbc_driver_flightsql.dbapi as flight_sql
import psycopg
import pyarrow.flight as flight
import pytest
from adbc_driver_flightsql import DatabaseOptions
from influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client_3 import InfluxDBClient3
from questdb.ingress import IngressError, Sender, TimestampNanos

from logins import Http, basic, certificate, issuer, secured, token, user
from servers import Stratalog
from test_acquire import eventually
from test_telemetry import series, snappy

pytestmark = pytest.mark.ours

ROUTES = [
    ("GET", "/metrics"), ("GET", "/version"), ("GET", "/api/sql?q=SELECT+1"), ("POST", "/api/sql"), ("GET", "/exec?query=SELECT+1"),
    ("GET", "/query?q=SHOW+DATABASES"), ("POST", "/query"), ("POST", "/write"), ("POST", "/api/v2/write"),
    ("POST", "/api/v3/write_lp"), ("POST", "/api/v1/write"), ("POST", "/v1/metrics"), ("POST", "/v1/logs"),
    ("GET", "/api/v3/query_sql?q=SELECT+1"), ("GET", "/api/v1/subscribe?table=t"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A server with TLS, a superuser, a writer, a reader, and a table of the superuser."""
    data = tmp_path_factory.mktemp("access") / "data"
    ca = certificate(data)
    with issuer(data.parent) as made:
        place = {
            "data": data, "ca": ca, "issuer": made,
            "root": user(data, "root", "--superuser"), "ann": user(data, "ann"), "monitor": user(data, "monitor", "--member-of", "pg_monitor"),
        }
        place["token"] = token(data, "all", "root")
        place["ann_token"] = token(data, "all", "ann")
        with secured(data, *made.flags()) as server:
            place["server"] = server
            place["http"] = Http(server, ca)
            with psycopg.connect(server.dsn(user="root", password=place["root"]), autocommit=True) as connection:
                connection.execute("CREATE TABLE secret (time timestamptz, v int)")
                connection.execute("INSERT INTO secret VALUES ('2024-01-01', 42)")
            yield place
            assert server.alive()
            for name in ("root", "ann", "token", "ann_token"):
                assert place[name] not in server.output(), "a secret is in the log"


def test_every_route_needs_a_login(place):
    http = place["http"]
    wrong = [None, basic("root", "wrong"), basic("nobody", "x"), "Bearer slt_" + "A" * 43, "Token x", "Bearer", "Basic !",
             "Digest x", "Bearer " + place["token"] + "x"]
    for method, path in ROUTES:
        for authorization in wrong:
            body = "x" if method == "POST" else None
            status, text, headers = http.ask(path, body, authorization)
            assert status == 401, (path, authorization, status, text)
            assert "Basic realm" in headers.get_all("WWW-Authenticate")[0]
            assert "nosniff" in headers["X-Content-Type-Options"] and "frame-ancestors" in headers["Content-Security-Policy"]
    for path in ("/health", "/ping", "/ready"):
        assert http.ask(path)[0] in (200, 204)
    assert http.ask("/no/such/route")[0] == 404


def test_rights_are_those_of_the_login(place):
    http = place["http"]
    root, ann = "Bearer " + place["token"], basic("ann", place["ann"])
    assert http.sql("SELECT current_user AS me", root) == (200, [{"me": "root"}])
    assert http.sql("SELECT current_user AS me", ann) == (200, [{"me": "ann"}])
    assert http.sql("SELECT current_user AS me", "bearer " + place["issuer"].token("ann")) == (200, [{"me": "ann"}])
    status, told = http.sql("SELECT v FROM secret", ann)
    assert (status, told["sqlstate"]) == (404, "42P01")
    assert http.ask("/metrics", authorization=ann)[0] == 403
    assert http.ask("/metrics", authorization=basic("monitor", place["monitor"]))[0] == 200
    assert http.ask("/metrics", authorization=root)[0] == 200
    # Lines create tables and columns as the login.
    status, text, _ = http.ask("/write", "secret v=1 1\n", ann)
    assert status == 403 and "permission denied" in text, text
    status, text, _ = http.ask("/write", "anns v=1 1\n", ann)
    assert status == 403 and "permission denied for schema public" in text, text
    status, text, _ = http.ask("/write?db=anns", "m v=1 1\n", ann)
    assert status == 403, text
    assert http.ask("/query", "q=CREATE+DATABASE+anns", ann, Content_Type="application/x-www-form-urlencoded")[0] == 403
    status, text, _ = http.ask("/api/v1/write", snappy(series({"__name__": "anns_metric"}, [(1, 1_704_067_200_000)])), ann,
                               Content_Type="application/x-protobuf", Content_Encoding="snappy",
                               X_Prometheus_Remote_Write_Version="0.1.0")
    assert status == 403, text
    assert http.sql("SELECT count(*) AS n FROM secret", root) == (200, [{"n": 1}])
    # Two logins do not share a session.
    assert http.ask("/write", "shared v=1 1\n", root)[0] == 204
    assert http.ask("/write", "shared v=2 2\n", ann)[0] == 403
    assert http.sql("GRANT INSERT ON shared TO ann", root)[0] == 200
    assert http.ask("/write", "shared v=2 2\n", ann)[0] == 204
    assert http.ask("/write", "shared v=3,w=1 3\n", ann)[0] == 403, "a new column needs the owner"
    assert http.sql("REVOKE INSERT ON shared FROM ann", root)[0] == 200
    assert http.ask("/write", "shared v=3 3\n", ann)[0] == 403
    assert http.sql("SELECT count(*) AS n FROM shared", root) == (200, [{"n": 2}])


def test_passwords_in_the_url_of_influxdb_1(place):
    http, query = place["http"], f"u=root&p={place['root']}"
    assert http.ask(f"/write?{query}", "by_url v=1 1\n")[0] == 204
    assert http.ask("/write?u=root&p=wrong", "by_url v=2 2\n")[0] == 401
    assert http.ask(f"/query?{query}&q=SHOW+DATABASES")[0] == 200
    assert http.ask(f"/api/sql?{query}&q=SELECT+1")[0] == 401, "only the routes of InfluxDB 1"


def test_clients_of_influxdb(place):
    url = place["http"].base
    with InfluxDBClient(url=url, token=place["token"], org="x", ssl_ca_cert=str(place["ca"])) as client:
        client.write_api(write_options=SYNCHRONOUS).write(bucket="public", record="by_influx,host=a v=1 1")
    with InfluxDBClient(url=url, token="slt_wrong", org="x", ssl_ca_cert=str(place["ca"])) as client:
        with pytest.raises(Exception, match="401"):
            client.write_api(write_options=SYNCHRONOUS).write(bucket="public", record="by_influx,host=a v=2 2")
    with InfluxDBClient3(host=url, token=place["token"], database="public", ssl_ca_cert=str(place["ca"]), auth_scheme="Token") as client:
        client.write(record="by_influx,host=b v=1 1")
    assert place["http"].sql("SELECT count(*) AS n FROM by_influx", "Bearer " + place["token"]) == (200, [{"n": 2}])


def test_clients_of_questdb(place):
    server, ca = place["server"], place["ca"]
    conf = f"https::addr=127.0.0.1:{server.http_port};tls_roots={ca};protocol_version=1;"
    with Sender.from_conf(conf + f"token={place['token']};") as sender:
        sender.row("by_questdb", symbols={"host": "a"}, columns={"v": 1}, at=TimestampNanos(1))
    with Sender.from_conf(conf + f"username=root;password={place['root']};") as sender:
        sender.row("by_questdb", symbols={"host": "a"}, columns={"v": 2}, at=TimestampNanos(2))
    with pytest.raises(IngressError, match="401"):
        with Sender.from_conf(conf + "token=wrong;retry_timeout=0;") as sender:
            sender.row("by_questdb", symbols={"host": "a"}, columns={"v": 3}, at=TimestampNanos(3))
    # TCP has no login, so lines without a client certificate are refused.
    with socket.create_connection(("127.0.0.1", server.ilp_port)) as lines:
        lines.sendall(b"by_questdb,host=a v=4i 4\n")
        lines.settimeout(30)
        assert closes(lines)
    eventually(lambda: "needs a client certificate of a role" in server.output())
    assert place["http"].sql("SELECT count(*) AS n FROM by_questdb", "Bearer " + place["token"]) == (200, [{"n": 2}])


def closes(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def flight_client(place):
    location = f"grpc+tls://127.0.0.1:{place['server'].flight_port}"
    return flight.FlightClient(location, tls_root_certs=place["ca"].read_bytes())


def options(authorization):
    return flight.FlightCallOptions(headers=[(b"authorization", authorization.encode())])


def ask(client, sql, call):
    """The first column of a query in the form of InfluxDB 3's tickets."""
    ticket = flight.Ticket(f'{{"sql_query": "{sql}", "database": "public"}}'.encode())
    return client.do_get(ticket, call).read_all().column(0).to_pylist()


def test_flight_with_basic_bearer_and_jwt(place):
    with flight_client(place) as client:
        pair = client.authenticate_basic_token("root", place["root"])
        call = flight.FlightCallOptions(headers=[pair])
        assert ask(client, "SELECT v FROM secret", call) == [42]
        for authorization, me in ((basic("ann", place["ann"]), "ann"), ("Bearer " + place["token"], "root"),
                                  ("Bearer " + place["issuer"].token("ann"), "ann")):
            assert ask(client, "SELECT current_user", options(authorization)) == [me]
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.authenticate_basic_token("root", "wrong")
        for wrong in (None, basic("root", "wrong"), "Bearer wrong", "Bearer stratalog-AAAA", "Bearer " + place["issuer"].token("root", seconds=-90)):
            call = options(wrong) if wrong else flight.FlightCallOptions()
            with pytest.raises(flight.FlightUnauthenticatedError):
                ask(client, "SELECT 1", call)
            with pytest.raises(flight.FlightUnauthenticatedError):
                list(client.list_flights(options=call))
            with pytest.raises(flight.FlightUnauthenticatedError):
                list(client.list_actions(options=call))
        # Rights: unknown tables are unknown, refused statements are refused.
        with pytest.raises(Exception, match="does not exist"):
            ask(client, "SELECT v FROM secret", options(basic("ann", place["ann"])))
        with pytest.raises(flight.FlightUnauthorizedError):
            ask(client, "CREATE ROLE intruder", options(basic("ann", place["ann"])))


def test_a_ticket_belongs_to_its_login(place):
    with flight_client(place) as client:
        root = flight.FlightCallOptions(headers=[client.authenticate_basic_token("root", place["root"])])
        ann = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", place["ann"])])
        info = client.get_flight_info(flight.FlightDescriptor.for_path("secret"), root)
        ticket = info.endpoints[0].ticket
        for other in (ann, options(basic("ann", place["ann"])), options("Bearer " + place["token"])):
            with pytest.raises(flight.FlightError):
                client.do_get(ticket, other).read_all()
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.do_get(ticket).read_all()
        assert client.do_get(ticket, root).read_all().num_rows == 1


def test_a_token_of_a_handshake_ends_with_its_password(place):
    http, root = place["http"], "Bearer " + place["token"]
    assert http.sql("CREATE ROLE carl LOGIN PASSWORD 'first'", root)[0] == 200
    with flight_client(place) as client:
        carl = flight.FlightCallOptions(headers=[client.authenticate_basic_token("carl", "first")])
        assert ask(client, "SELECT current_user", carl) == ["carl"]
        assert http.sql("ALTER ROLE carl PASSWORD 'second'", root)[0] == 200
        with pytest.raises(flight.FlightUnauthenticatedError):
            ask(client, "SELECT 1", carl)
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.authenticate_basic_token("carl", "first")
        carl = flight.FlightCallOptions(headers=[client.authenticate_basic_token("carl", "second")])
        assert ask(client, "SELECT 1", carl) == [1]
        assert http.sql("DROP ROLE carl", root)[0] == 200
        with pytest.raises(flight.FlightUnauthenticatedError):
            ask(client, "SELECT 1", carl)


def test_adbc(place):
    uri = f"grpc+tls://127.0.0.1:{place['server'].flight_port}"
    roots = {DatabaseOptions.TLS_ROOT_CERTS.value: place["ca"].read_text()}
    password = {"username": "root", "password": place["root"], **roots}
    bearer = {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer " + place["token"], **roots}
    for settings in (password, bearer):
        with flight_sql.connect(uri, db_kwargs=settings) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT v FROM secret")
            assert cursor.fetchall() == [(42,)]
    with pytest.raises(Exception, match="(?i)unauthenticated|password"):
        with flight_sql.connect(uri, db_kwargs={**password, "password": "wrong"}) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def client_certificate(directory, name):
    """An authority for clients, and a certificate with a name."""
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    ca, ca_key, key, request, cert = (directory / file for file in ("clients.crt", "clients.key", f"{name}.key", f"{name}.csr", f"{name}.crt"))
    if not ca.exists():
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", ca_key, "-out", ca, "-days", "2", "-subj", "/CN=clients")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    # Without an extension, openssl makes certificates of version 1, which TLS libraries refuse.
    extensions = directory / "extensions"
    extensions.write_text("basicConstraints = CA:FALSE\n")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", cert, "-days", "2",
            "-extfile", extensions)
    return ca, cert, key


def test_client_certificates(tmp_path):
    data = tmp_path / "data"
    ca = certificate(data)
    root = user(data, "root", "--superuser")
    user(data, "ann")
    clients, cert, key = client_certificate(tmp_path, "root")
    _, other_cert, other_key = client_certificate(tmp_path, "nobody")
    with Stratalog(data, "--tls-client-ca-file", str(clients)) as server:
        known, unknown = Http(server, ca, (cert, key)), Http(server, ca, (other_cert, other_key))
        assert known.sql("SELECT current_user AS me") == (200, [{"me": "root"}])
        # A header wins over the certificate.
        assert known.sql("SELECT 1", basic("ann", "wrong"))[0] == 401
        assert unknown.sql("SELECT 1")[0] == 401
        assert unknown.sql("SELECT current_user AS me", basic("root", root)) == (200, [{"me": "root"}])
        location = f"grpc+tls://127.0.0.1:{server.flight_port}"
        with flight.FlightClient(location, tls_root_certs=ca.read_bytes(), cert_chain=cert.read_bytes(),
                                 private_key=key.read_bytes()) as client:
            assert ask(client, "SELECT current_user", flight.FlightCallOptions()) == ["root"]
        # Line protocol over TCP.
        for certificates, rows in (((cert, key), 1), ((other_cert, other_key), 1), (None, 1)):
            context = ssl.create_default_context(cafile=str(ca))
            if certificates:
                context.load_cert_chain(*map(str, certificates))
            with socket.create_connection(("127.0.0.1", server.ilp_port)) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as lines:
                    try:
                        lines.sendall(b"by_lines v=1 %d\n" % time.time_ns())
                        lines.shutdown(socket.SHUT_WR)
                        closes(lines)
                    except (ssl.SSLError, OSError):
                        assert certificates != (cert, key)
            counted = "SELECT count(*) AS n FROM by_lines"
            eventually(lambda: known.sql(counted) == (200, [{"n": rows}]))


def test_trust_ends_with_the_first_password(tmp_path):
    with Stratalog(tmp_path / "data") as server:
        http = Http(server)
        assert http.sql("CREATE TABLE t (time timestamptz, v int)")[0] == 200
        assert http.ask("/write", "cpu v=1 1\n", "Token anything")[0] == 204
        lines = socket.create_connection(("127.0.0.1", server.ilp_port))
        lines.sendall(b"cpu v=2 2\n")
        eventually(lambda: http.sql("SELECT count(*) AS n FROM cpu") == (200, [{"n": 2}]))
        with flight.FlightClient(f"grpc://127.0.0.1:{server.flight_port}") as client:
            assert ask(client, "SELECT 1", flight.FlightCallOptions()) == [1]
            assert http.sql("CREATE ROLE root SUPERUSER LOGIN PASSWORD 'x'")[0] == 200
            with pytest.raises(flight.FlightUnauthenticatedError):
                ask(client, "SELECT 1", flight.FlightCallOptions())
        assert http.sql("SELECT 1")[0] == 401
        assert http.ask("/write", "cpu v=3 3\n")[0] == 401
        lines.sendall(b"cpu v=4 4\n")
        lines.settimeout(30)
        assert closes(lines)
        lines.close()
        assert http.sql("SELECT count(*) AS n FROM cpu", basic("root", "x")) == (200, [{"n": 2}])


def test_basic_is_base64_of_utf_8(place):
    http = place["http"]
    assert http.sql("CREATE ROLE \"zoë\" LOGIN PASSWORD 'pässwörd:mit:punkten'", "Bearer " + place["token"])[0] == 200
    text = base64.b64encode("zoë:pässwörd:mit:punkten".encode()).decode()
    assert http.sql("SELECT current_user AS me", "Basic " + text) == (200, [{"me": "zoë"}])
