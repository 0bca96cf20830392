"""TLS of the Postgres door with unmodified clients: versions, certificates, reload, attacks before the handshake."""

import asyncio
import os
import signal
import socket
import ssl
import struct
import subprocess
import time

import asyncpg
import pg8000.dbapi
import psycopg
import pytest

from certificates import KINDS, Authority, install
from servers import Stratalog, stratalog_binary

pytestmark = pytest.mark.ours

PASSWORD = "a-long-password"
SSL_REQUEST = struct.pack("!ii", 8, 80877103)


def first_password(server):
    """Creates the first user, over TLS if the server has it."""
    with psycopg.connect(server.dsn(), autocommit=True) as founder:
        founder.execute(f"CREATE USER ann SUPERUSER PASSWORD '{PASSWORD}'")
        # The session that set the first password goes on.
        assert founder.execute("SELECT 1").fetchone() == (1,)


def flags(files, *more):
    cert, key = files
    return ("--tls-cert-file", str(cert), "--tls-key-file", str(key), *more)


def target(server, authority, **more):
    options = {"host": "localhost", "hostaddr": "127.0.0.1", "port": server.port, "user": "ann", "password": PASSWORD,
               "dbname": "stratalog", "sslmode": "verify-full", "sslrootcert": str(authority.cert), **more}
    return psycopg.conninfo.make_conninfo(**options)


@pytest.fixture(scope="module")
def authority(scratch):
    return Authority(scratch / "authority")


@pytest.fixture(scope="module")
def secured(scratch, authority):
    """A server with TLS, certificates of clients, and the user ann."""
    files = install(authority.issue("shared", "localhost"), scratch / "shared-tls")
    more = ("--tls-client-ca-file", str(authority.cert))
    with Stratalog(scratch / "secured", *flags(files, *more)) as server:
        first_password(server)
        yield server


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("binding", ["require", "prefer", "disable"])
def test_each_kind_of_certificate(scratch, kind, binding):
    # The signature of a certificate has the kind of its authority.
    authority = Authority(scratch / f"ca-{kind}-{binding}", kind)
    files = install(authority.issue("server", "localhost", kind), scratch / f"tls-{kind}-{binding}")
    with Stratalog(scratch / f"kind-{kind}-{binding}", *flags(files)) as server:
        first_password(server)
        connect = lambda: psycopg.connect(target(server, authority, channel_binding=binding))  # noqa: E731
        if kind == "ed25519" and binding == "require":
            # Ed25519 defines no hash for the channel binding: the server does not offer -PLUS.
            with pytest.raises(psycopg.OperationalError, match="channel binding"):
                connect()
            return
        with connect() as connection:
            assert connection.execute("SELECT session_user, current_setting('is_superuser')").fetchone() == ("ann", "on")


def test_psql(secured, authority):
    done = subprocess.run(["psql", target(secured, authority), "-Atc", "SELECT 6 * 7"], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
    wrong = target(secured, authority, password="wrong")
    done = subprocess.run(["psql", "-w", wrong, "-c", "SELECT 1"], capture_output=True, text=True)
    assert 'password authentication failed for user "ann"' in done.stderr


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_versions_and_large_results(secured, authority, version):
    more = {"ssl_min_protocol_version": version, "ssl_max_protocol_version": version}
    with psycopg.connect(target(secured, authority, **more)) as connection:
        rows = connection.execute("SELECT x, repeat('y', 1000) FROM generate_series(1, 20000) AS g(x)").fetchall()
        assert (len(rows), rows[-1][0]) == (20000, 20000)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS copied (time timestamptz, text text)")
            with cursor.copy("COPY copied FROM STDIN") as copy:
                for number in range(5000):
                    copy.write_row([f"2026-01-01 00:00:00.{number:06}+00", "z" * 500])
            assert cursor.execute("SELECT count(*) FROM copied").fetchone()[0] >= 5000
        connection.rollback()


def test_the_oldest_version_is_a_setting(scratch, authority):
    files = install(authority.issue("newest", "localhost"), scratch / "tls-newest")
    with Stratalog(scratch / "newest", *flags(files, "--tls-version-min", "1.3")) as server:
        first_password(server)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(target(server, authority, ssl_max_protocol_version="TLSv1.2"))
        psycopg.connect(target(server, authority)).close()


def test_direct_tls_needs_the_name_of_the_protocol(secured, authority):
    with psycopg.connect(target(secured, authority, sslnegotiation="direct")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    context = ssl.create_default_context(cafile=authority.cert)
    for protocols in ([], ["h2"]):
        if protocols:
            context.set_alpn_protocols(protocols)
        with socket.create_connection(("127.0.0.1", secured.port), 10) as plain:
            with pytest.raises(ssl.SSLError) if protocols else pytest.raises(AssertionError):
                with context.wrap_socket(plain, server_hostname="localhost") as encrypted:
                    encrypted.sendall(struct.pack("!ii", 18, 3 << 16) + b"user\0ann\0\0")
                    answer = encrypted.recv(100)
                    assert not answer.startswith(b"E"), answer


def test_verification_by_the_client(scratch, secured, authority):
    other = Authority(scratch / "other-authority")
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        psycopg.connect(target(secured, other))
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        psycopg.connect(target(secured, authority, host="elsewhere.example"))


def test_asyncpg_and_pg8000(secured, authority):
    context = ssl.create_default_context(cafile=authority.cert)
    where = {"host": "localhost", "port": secured.port, "user": "ann", "password": PASSWORD, "database": "stratalog"}

    async def asked():
        connection = await asyncpg.connect(**where, ssl=context)
        try:
            return await connection.fetchval("SELECT 41 + 1")
        finally:
            await connection.close()

    assert asyncio.run(asked()) == 42
    # pg8000 uses channel binding if the server offers it.
    with pg8000.dbapi.connect(**where, ssl_context=context) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 41 + 1")
        assert cursor.fetchone() == [42] or cursor.fetchone() == (42,)


def test_certificates_of_clients(secured, authority, scratch):
    cert, key = authority.issue("ann", "ann", usage="clientAuth", names="email:ann@example.com")
    options = {"sslcert": str(cert), "sslkey": str(key), "password": "not needed"}
    with psycopg.connect(target(secured, authority, **options)) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("ann",)
    # A certificate of another name: the password counts.
    cert, key = authority.issue("bob", "bob", usage="clientAuth")
    options = {"sslcert": str(cert), "sslkey": str(key)}
    psycopg.connect(target(secured, authority, **options)).close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(target(secured, authority, **options, password="wrong"))
    # A certificate of another authority, and a server's certificate, end the handshake.
    strange = Authority(scratch / "strange").issue("ann", "ann", usage="clientAuth")
    server_only = authority.issue("ann-server", "ann", usage="serverAuth")
    for cert, key in (strange, server_only):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(target(secured, authority, sslcert=str(cert), sslkey=str(key)))


def test_cancel_over_tls(secured, authority):
    with psycopg.connect(target(secured, authority)) as connection:
        import threading

        threading.Timer(0.5, lambda: connection.cancel_safe(timeout=10)).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT count(*) FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y)"
                               " WHERE (a.x * b.y) % 7 = 3")


def test_bytes_before_the_handshake_do_not_count(secured):
    """CVE-2021-23214: statements that an attacker sends in the clear behind the request for TLS."""
    login = b"user\0ann\0database\0stratalog\0\0"
    login = struct.pack("!ii", len(login) + 8, 3 << 16) + login
    with socket.create_connection(("127.0.0.1", secured.port), 10) as plain:
        plain.sendall(SSL_REQUEST + login)
        received = b""
        plain.settimeout(10)
        try:
            while chunk := plain.recv(1000):
                received += chunk
        except ConnectionError:
            pass
    # 'S', then an alert of TLS at most: no message of the Postgres protocol.
    assert received[:1] == b"S" and received[1:2] in (b"", b"\x15"), received


def test_a_second_request_for_tls_inside_tls_is_refused(secured, authority):
    context = ssl.create_default_context(cafile=authority.cert)
    with socket.create_connection(("127.0.0.1", secured.port), 10) as plain:
        plain.sendall(SSL_REQUEST)
        assert plain.recv(1) == b"S"
        with context.wrap_socket(plain, server_hostname="localhost") as encrypted:
            encrypted.sendall(SSL_REQUEST)
            assert encrypted.recv(100).startswith(b"E")


def test_silent_and_huge_handshakes_end(secured, authority):
    sockets = [socket.create_connection(("127.0.0.1", secured.port), 10) for _ in range(50)]
    for number, one in enumerate(sockets):
        one.sendall(SSL_REQUEST if number % 2 else b"\x16\x03\x01\x3f\xff" + b"x" * 1000)
    psycopg.connect(target(secured, authority)).close()
    # A client hello that never ends.
    try:
        for _ in range(100):
            sockets[0].sendall(b"\x16\x03\x01\x3f\xff" + b"y" * 0x3FFF)
    except OSError:
        pass
    psycopg.connect(target(secured, authority)).close()
    for one in sockets:
        one.close()
    assert secured.alive()


def served(server):
    """The certificate that the server shows now, in DER."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
        plain.sendall(SSL_REQUEST)
        assert plain.recv(1) == b"S"
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain, server_hostname="localhost") as encrypted:
            return encrypted.getpeercert(binary_form=True)


def test_reload(scratch, authority):
    first, second, third = (authority.issue(f"reload{n}", "localhost", kind)
                            for n, kind in enumerate(["ecdsa", "rsa", "ed25519"]))
    folder = scratch / "tls-reload"
    files = install(first, folder)
    with Stratalog(scratch / "reload", *flags(files)) as server:
        first_password(server)
        bound = target(server, authority, channel_binding="require")
        with psycopg.connect(bound, autocommit=True) as running:
            before = served(server)
            install(second, folder)
            os.kill(server.process.pid, signal.SIGHUP)
            deadline = time.monotonic() + 10
            while served(server) == before:
                assert time.monotonic() < deadline, "SIGHUP has no effect"
                time.sleep(0.05)
            # The running connection goes on; new connections bind to the new certificate.
            assert running.execute("SELECT 1").fetchone() == (1,)
            psycopg.connect(bound).close()
            # A broken certificate keeps the old one, and CALL says why.
            now = served(server)
            files[0].write_text("no certificate")
            with pytest.raises(psycopg.Error, match="server.crt.*certificate") as refused:
                running.execute("CALL stratalog.reload()")
            assert refused.value.sqlstate == "F0000"
            os.kill(server.process.pid, signal.SIGHUP)
            time.sleep(0.3)
            assert served(server) == now
            assert server.output().count("not reloaded") == 2
            # The key of another certificate, and a key that others may read.
            install((third[0], first[1]), folder)
            with pytest.raises(psycopg.Error, match="server.key"):
                running.execute("CALL stratalog.reload()")
            install(third, folder)
            os.chmod(files[1], 0o644)
            with pytest.raises(psycopg.Error, match="group or world access"):
                running.execute("CALL stratalog.reload()")
            assert served(server) == now
            os.chmod(files[1], 0o600)
            (expires,) = running.execute("CALL stratalog.reload()").fetchone()
            assert time.time() < expires / 1e9 < time.time() + 31 * 86400
            assert served(server) != now
            psycopg.connect(bound).close()
            running.execute(f"CREATE USER eve PASSWORD '{PASSWORD}'")
            with psycopg.connect(target(server, authority, user="eve"), autocommit=True) as eve:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    eve.execute("CALL stratalog.reload()")


def test_a_broken_certificate_refuses_the_start(scratch, authority, directory):
    cert, key = install(authority.issue("broken", "localhost"), scratch / "tls-broken")
    os.chmod(key, 0o644)
    status, said = Stratalog(directory, *flags((cert, key))).start_failing()
    assert status != 0 and "group or world access" in said
    status, said = Stratalog(directory, "--tls-cert-file", str(cert)).start_failing()
    assert status != 0 and "need each other" in said


class OpenToAll(Stratalog):
    """A server whose HTTP listener other machines can reach."""

    def command(self):
        return [word.replace(f"127.0.0.1:{self.http_port}", f"0.0.0.0:{self.http_port}") for word in super().command()]


def test_other_machines_need_tls_and_a_user(scratch, authority, directory):
    status, said = OpenToAll(directory).start_failing()
    assert status == 3 and "has no certificate" in said
    assert "stratalog certificate create" in said and "stratalog user create" in said
    files = install(authority.issue("open", "localhost"), scratch / "tls-open")
    status, said = OpenToAll(directory, *flags(files)).start_failing()
    assert status == 3 and "no user has one" in said
    with Stratalog(directory, *flags(files)) as server:
        first_password(server)
    with OpenToAll(directory, *flags(files)) as server:
        psycopg.connect(target(server, authority)).close()


def test_the_shell_connects_with_tls(secured, authority):
    address = f"localhost:{secured.port}/stratalog"
    urls = {
        f"postgres://ann@{address}?sslmode=verify-full&sslrootcert={authority.cert}": None,
        f"postgres://ann@{address}?sslmode=require": None,
        f"postgres://ann@{address}": None,
        f"postgres://ann@{address}?sslmode=verify-full": "sslrootcert",
        f"postgres://ann@127.0.0.2:{secured.port}/stratalog?sslmode=verify-full&sslrootcert={authority.cert}": "connect",
    }
    for url, problem in urls.items():
        done = subprocess.run([stratalog_binary(), "sql", "--url", url, "-c", "SELECT 42 AS answer"],
                              capture_output=True, text=True, timeout=60, env={**os.environ, "PGPASSWORD": PASSWORD})
        if problem:
            assert done.returncode != 0 and problem in done.stderr, (url, done.stderr)
        else:
            assert done.returncode == 0 and "42" in done.stdout, (url, done.stderr)
