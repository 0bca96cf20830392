"""Logins by password: refusals that tell nothing, channel binding against a proxy, limits of failed logins."""

import socket
import ssl
import statistics
import struct
import threading
import time

import psycopg
import pytest

from certificates import Authority, install
from servers import Stratalog

pytestmark = pytest.mark.ours

PASSWORD = "a-long-password"
SSL_REQUEST = struct.pack("!ii", 8, 80877103)


def dsn(server, user, password, **more):
    return server.dsn(user=user, password=password, dbname="stratalog", **more)


@pytest.fixture(scope="module")
def server(scratch):
    """A server with users and without a limit of failed logins."""
    with Stratalog(scratch / "scram", "--failed-logins-per-minute-max", "0") as started:
        with psycopg.connect(started.dsn(), autocommit=True) as founder:
            founder.execute(f"CREATE USER ann SUPERUSER PASSWORD '{PASSWORD}'")
            founder.execute(f"CREATE ROLE nologin PASSWORD '{PASSWORD}'")
            founder.execute("CREATE USER nopassword")
            founder.execute(f"CREATE USER expired PASSWORD '{PASSWORD}' VALID UNTIL '2020-01-01'")
            founder.execute(f"CREATE USER slow PASSWORD '{PASSWORD}'")
            founder.execute("ALTER ROLE slow SET statement_timeout = '77s'")
            founder.execute("ALTER ROLE slow SET search_path = 'stratalog'")
        yield started


def test_a_password_opens_and_the_role_has_its_settings(server):
    with psycopg.connect(dsn(server, "slow", PASSWORD)) as connection:
        shown = [connection.execute(f"SHOW {name}").fetchone()[0]
                 for name in ("session_authorization", "is_superuser", "search_path", "stratalog.authentication")]
        assert shown == ["slow", "off", "stratalog", "password"]
        assert connection.info.parameter_status("is_superuser") == "off"
        assert connection.info.parameter_status("session_authorization") == "slow"
        assert connection.execute("SHOW statement_timeout").fetchone()[0] in ("77s", "77000ms")
    with psycopg.connect(dsn(server, "slow", PASSWORD, options="'-c search_path=public'")) as connection:
        assert connection.execute("SHOW search_path").fetchone() == ("public",)
    with psycopg.connect(dsn(server, "ann", PASSWORD)) as connection:
        assert connection.info.parameter_status("is_superuser") == "on"


REFUSED = {
    "wrong": ("ann", "wrong"),
    "unknown": ("nobody", PASSWORD),
    "nologin": ("nologin", PASSWORD),
    "nopassword": ("nopassword", PASSWORD),
    "expired": ("expired", PASSWORD),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_do_not_differ(server, case):
    user, password = REFUSED[case]
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(dsn(server, user, password))
    assert f'FATAL:  password authentication failed for user "{user}"' in str(refused.value)
    assert "DETAIL" not in str(refused.value) and "HINT" not in str(refused.value)


def first_message(server, user):
    """The server's first message of SCRAM for a user: iterations, salt, and the mechanisms."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
        login = b"user\0" + user.encode() + b"\0database\0stratalog\0\0"
        plain.sendall(struct.pack("!ii", len(login) + 8, 3 << 16) + login)
        mechanisms = message(plain)
        first = b"n,,n=,r=nonce"
        initial = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
        plain.sendall(b"p" + struct.pack("!i", len(initial) + 4) + initial)
        _, body = message(plain)
        parts = dict(part.split("=", 1) for part in body[4:].decode().split(","))
        return parts["i"], parts["s"], mechanisms


def message(plain):
    kind = plain.recv(1, socket.MSG_WAITALL)
    (length,) = struct.unpack("!i", plain.recv(4, socket.MSG_WAITALL))
    return kind, plain.recv(length - 4, socket.MSG_WAITALL)


def test_unknown_users_have_stable_salts(server):
    known, unknown, other = (first_message(server, user) for user in ("ann", "nobody", "somebody"))
    assert unknown == first_message(server, "nobody") and known == first_message(server, "ann")
    assert (known[0], known[2], len(known[1])) == (unknown[0], unknown[2], len(unknown[1]))
    assert unknown[1] not in (known[1], other[1])
    server.stop()
    server.start()
    assert unknown == first_message(server, "nobody"), "the salt changes at a restart"


def test_the_time_tells_nothing(server):
    """A generous bound: the medians of 60 refused logins each, in turns."""
    took = {case: [] for case in REFUSED}
    for _ in range(60):
        for case, (user, password) in REFUSED.items():
            began = time.perf_counter()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(dsn(server, user, password))
            took[case].append(time.perf_counter() - began)
    medians = {case: statistics.median(times) for case, times in took.items()}
    assert max(medians.values()) < 1.5 * min(medians.values()) + 0.002, medians


def refusal(server, *packets):
    """The SQLSTATE of the server's answer to a login that begins with `packets`."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
        login = b"user\0ann\0database\0stratalog\0\0"
        plain.sendall(struct.pack("!ii", len(login) + 8, 3 << 16) + login)
        assert message(plain)[0] == b"R"
        for packet in packets:
            plain.sendall(packet)
        kind, body = message(plain)
        assert kind == b"E", (kind, body)
        fields = dict((part[:1], part[1:]) for part in body.split(b"\0") if part)
        return fields[b"C"].decode()


def sasl(mechanism, first):
    body = mechanism + b"\0" + struct.pack("!i", len(first)) + first
    return b"p" + struct.pack("!i", len(body) + 4) + body


def test_malformed_logins_are_refused(server):
    assert refusal(server, b"p" + struct.pack("!i", 1 << 30)) == "08P01"
    assert refusal(server, b"p" + struct.pack("!i", 3)) == "08P01"
    assert refusal(server, b"Q" + struct.pack("!i", 13) + b"SELECT 1\0") == "08P01"
    assert refusal(server, sasl(b"PLAIN", b"x")) == "08P01"
    assert refusal(server, sasl(b"SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=x")) == "08P01"
    assert refusal(server, sasl(b"SCRAM-SHA-256", b"n,,n=,r=" + b"x" * 1100)) == "08P01"
    # A password in the clear.
    assert refusal(server, b"p" + struct.pack("!i", 4 + len(PASSWORD) + 1) + PASSWORD.encode() + b"\0") == "08P01"
    # A start-up packet above 10,000 bytes ends without an answer, as in PostgreSQL.
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
        plain.sendall(struct.pack("!ii", 10_001, 3 << 16))
        try:
            assert plain.recv(1) == b""
        except ConnectionResetError:
            pass


class Proxy:
    """Stands between client and server with a certificate of its own, and hides -PLUS from the client."""

    def __init__(self, server, pair):
        self.server = server
        self.inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.inside.load_cert_chain(*pair)
        self.outside = ssl.create_default_context()
        self.outside.check_hostname, self.outside.verify_mode = False, ssl.CERT_NONE
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            client.recv(8, socket.MSG_WAITALL)
            client.sendall(b"S")
            client = self.inside.wrap_socket(client, server_side=True)
            upstream = socket.create_connection(("127.0.0.1", self.server.port), 10)
            upstream.sendall(SSL_REQUEST)
            upstream.recv(1)
            upstream = self.outside.wrap_socket(upstream)
            threading.Thread(target=self._pump, args=(client, upstream, False), daemon=True).start()
            self._pump(upstream, client, True)
        except OSError:
            client.close()

    def _pump(self, source, sink, hides):
        try:
            while data := source.recv(65536):
                if hides and b"SCRAM-SHA-256-PLUS\0" in data:
                    body = struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"
                    data = b"R" + struct.pack("!i", len(body) + 4) + body
                if not hides:
                    self.seen += data
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for one in (source, sink):
                try:
                    one.close()
                except OSError:
                    pass


def test_a_proxy_that_hides_plus_is_noticed(scratch):
    authority = Authority(scratch / "ca-proxy")
    files = install(authority.issue("server", "localhost"), scratch / "tls-proxy")
    flags = ("--tls-cert-file", str(files[0]), "--tls-key-file", str(files[1]))
    with Stratalog(scratch / "behind-proxy", *flags) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as founder:
            founder.execute(f"CREATE USER ann PASSWORD '{PASSWORD}'")
        proxy = Proxy(server, Authority(scratch / "ca-attacker").issue("attacker", "localhost"))
        where = {"host": "127.0.0.1", "port": proxy.port, "user": "ann", "password": PASSWORD, "dbname": "stratalog",
                 "sslmode": "require", "connect_timeout": 10}
        # The server notices: a client that can bind says so (the flag `y`).
        with pytest.raises(psycopg.OperationalError, match="channel binding negotiation error"):
            psycopg.connect(**where, channel_binding="prefer")
        # The client notices.
        with pytest.raises(psycopg.OperationalError, match="channel binding"):
            psycopg.connect(**where, channel_binding="require")
        assert PASSWORD.encode() not in proxy.seen


def test_failed_logins_do_not_starve_others(scratch):
    """10,000 failed logins of one address: the server checks few, and another address logs in at once."""
    with Stratalog(scratch / "guessed", "--failed-logins-per-minute-max", "20") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as founder:
            founder.execute(f"CREATE USER ann PASSWORD '{PASSWORD}'")
        login = b"user\0ann\0database\0stratalog\0\0"
        login = struct.pack("!ii", len(login) + 8, 3 << 16) + login
        for _ in range(25):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(dsn(server, "ann", "wrong"))
        with pytest.raises(psycopg.OperationalError, match="too many failed logins"):
            psycopg.connect(dsn(server, "ann", PASSWORD))
        slowest = 0
        for number in range(10_000):
            with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
                plain.sendall(login)
                kind, _ = message(plain)
            if number % 1000 == 0:
                assert kind in (b"E", b"R")
                began = time.monotonic()
                friend = socket.create_connection(("127.0.0.1", server.port), 10, ("127.0.0.3", 0))
                friend.sendall(login)
                assert message(friend)[0] == b"R", "another address may log in"
                friend.close()
                slowest = max(slowest, time.monotonic() - began)
        assert slowest < 2 and server.alive()


def test_connections_of_an_address_are_limited(scratch):
    with Stratalog(scratch / "crowded", "--connections-per-address-max", "5") as server:
        held = [psycopg.connect(server.dsn()) for _ in range(5)]
        with pytest.raises(psycopg.OperationalError, match="too many connections from one address"):
            psycopg.connect(server.dsn())
        held.pop().close()
        deadline = time.monotonic() + 10
        while True:
            try:
                psycopg.connect(server.dsn()).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
        for one in held:
            one.close()


def test_other_sessions_without_a_login_end(scratch):
    with Stratalog(scratch / "first", ) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as founder, psycopg.connect(server.dsn(), autocommit=True) as other:
            assert founder.execute("SHOW stratalog.authentication").fetchone() == ("trust",)
            with founder.transaction():
                founder.execute(f"CREATE USER ann SUPERUSER PASSWORD '{PASSWORD}'")
            assert founder.execute("SHOW stratalog.authentication").fetchone() == ("password",)
            with pytest.raises(psycopg.Error) as refused:
                other.execute("SELECT 1")
            assert refused.value.sqlstate == "28000"
        assert "every client of this machine is a superuser" in server.output()
