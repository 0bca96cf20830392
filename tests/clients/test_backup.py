"""Backups of a running server: with psql, to a folder and to an object store, and restores."""

import http.server
import os
import subprocess
import threading
import time

import pytest

from servers import Stratalog, stratalog_binary
from tables import connect, object_store

pytestmark = pytest.mark.ours

TABLE = "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, v BIGINT, PRIMARY KEY (host, time))"
SUMS = "SELECT count(*), sum(v), count(DISTINCT _tier) FROM t"


def program(*arguments, environment=None):
    done = subprocess.run([stratalog_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def psql(server, statement):
    done = subprocess.run(["psql", "-XAt", "-h", "127.0.0.1", "-p", str(server.port), "-U", "stratalog", "-d", "stratalog",
                           "-v", "ON_ERROR_STOP=1", "-c", statement], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def append(connection, first, last):
    """Appends in a single statement."""
    connection.execute("INSERT INTO t SELECT '2025-01-01'::timestamptz + n * INTERVAL '1 second', 'h' || n % 5, n "
                       f"FROM generate_series({first}, {last}) AS n")


def fill(connection):
    connection.execute(TABLE)
    append(connection, 1, 20_000)
    connection.execute("CALL stratalog.compact('t')")
    append(connection, 20_001, 30_000)
    connection.execute("CALL stratalog.flush('t')")
    append(connection, 30_001, 31_000)


def test_backup_by_psql_while_rows_come(tmp_path):
    place = tmp_path / "place"
    with Stratalog(tmp_path / "data", "--backup-urls", str(place)) as server, connect(server) as connection:
        fill(connection)
        acknowledged = [31]
        stop = threading.Event()

        def load():
            with connect(server) as loading:
                while not stop.is_set():
                    first = acknowledged[0] * 1000 + 1
                    append(loading, first, first + 999)
                    acknowledged[0] += 1
                    if acknowledged[0] % 7 == 0:
                        loading.execute("CALL stratalog.compact('t')")

        loader = threading.Thread(target=load)
        loader.start()
        made = []
        try:
            for _ in range(4):
                before = acknowledged[0]
                (answer,) = psql(server, f"CALL stratalog.backup('{place}')")
                made.append((answer.split("|")[0], before, acknowledged[0] + 1))
        finally:
            stop.set()
            loader.join()
    listed = program("backups", "--from", place).splitlines()[1:]
    assert [line.split()[0] for line in listed] == [name for name, _, _ in made]
    for name, before, after in made:
        target = tmp_path / name
        program("restore", "--from", place, "--backup", name, "--data-dir", target)
        with Stratalog(target) as restored, connect(restored) as connection:
            count, total, _ = connection.execute(SUMS).fetchone()
            # All acknowledged rows, and only whole statements.
            assert count % 1000 == 0 and before <= count // 1000 <= after, name
            assert total == count * (count + 1) // 2


def test_backup_to_an_object_store(tmp_path):
    store = object_store(tmp_path)
    place = "s3://lake/backups/here"
    with store:
        environment = store.environment()
        flags = ["--story-url", "s3://lake/stories", "--backup-urls", "s3://lake/backups"]
        with Stratalog(tmp_path / "data", *flags, environment=environment) as server:
            with connect(server) as connection:
                fill(connection)
                expected = connection.execute(SUMS).fetchone()
                first = connection.execute(f"CALL stratalog.backup('{place}')").fetchone()
                assert first[1] == first[3] > 5
                append(connection, 31_001, 31_010)
                second = connection.execute(f"CALL stratalog.backup('{place}')").fetchone()
                # Stories and tablets are not copied again.
                assert second[3] < second[1] and second[0] > first[0]
                latest = connection.execute(SUMS).fetchone()
        # With stories in the directory, and at another place of the store.
        program("restore", "--from", place, "--backup", first[0], "--data-dir", tmp_path / "one", environment=environment)
        with Stratalog(tmp_path / "one") as restored, connect(restored) as connection:
            assert connection.execute(SUMS).fetchone() == expected
        stories = "s3://lake/restored"
        program("restore", "--from", place, "--data-dir", tmp_path / "two", "--story-url", stories, environment=environment)
        with Stratalog(tmp_path / "two", "--story-url", stories, environment=environment) as restored:
            with connect(restored) as connection:
                assert connection.execute(SUMS).fetchone() == latest
        # A directory without a server, with its stories in the store.
        program("backup", "--data-dir", tmp_path / "two", "--story-url", stories, "--to", place, environment=environment)
        said = program("backups", "--from", place, "--keep", "1", environment=environment)
        assert said.startswith("removed 2 backups")
        program("restore", "--from", place, "--data-dir", tmp_path / "three", environment=environment)
        with Stratalog(tmp_path / "three") as restored, connect(restored) as connection:
            assert connection.execute(SUMS).fetchone() == latest


def test_a_store_that_is_not_reached(tmp_path):
    store = object_store(tmp_path)
    flags = ["--backup-urls", "s3://lake"]
    with Stratalog(tmp_path / "data", *flags, environment=store.environment()) as server, connect(server) as connection:
        fill(connection)
        before = connection.execute(SUMS).fetchone()
        connection.execute("SET statement_timeout = '3s'")
        with pytest.raises(Exception) as caught:
            connection.execute("CALL stratalog.backup('s3://lake/nowhere')").fetchall()
        assert caught.value.sqlstate in ("08006", "57014")
        connection.execute("SET statement_timeout = 0")
        append(connection, 31_001, 31_010)
        assert connection.execute("SELECT count(*) FROM t").fetchone()[0] == before[0] + 10


def test_a_client_makes_backups_only_where_the_operator_allows(tmp_path):
    listed, other = tmp_path / "listed", tmp_path / "other"
    for folder in (listed, other):
        folder.mkdir()
    (listed / "link").symlink_to(other)
    # Without credentials object_store would ask the metadata service, at an address that answers on this machine.
    environment = {name: "" for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))}
    flags = ["--backup-urls", f"{listed}, s3://lake/backups"]
    with Stratalog(tmp_path / "data", *flags, environment=environment) as server, connect(server) as connection:
        connection.execute(TABLE)
        refused = [tmp_path / "data/tablets", other, "/etc/x", "file:///etc/x", f"{listed}/../other", f"{listed}/link/x", f"{listed}x",
                   "s3://lake/backups/../other", "s3://lakes/backups", "s3://169.254.169.254/backups", "gs://lake/backups"]
        for place in refused:
            with pytest.raises(Exception) as caught:
                connection.execute(f"CALL stratalog.backup('{place}')").fetchall()
            assert caught.value.sqlstate in ("42501", "22023"), (place, caught.value)
            assert "backups" in str(caught.value) or "data directory" in str(caught.value)
        assert list(other.iterdir()) == []
        begun = time.monotonic()
        with pytest.raises(Exception) as caught:
            connection.execute("CALL stratalog.backup('s3://lake/backups')").fetchall()
        assert caught.value.sqlstate == "22023" and "object_store_metadata" in str(caught.value), caught.value
        assert time.monotonic() - begun < 2
        for place in (listed / "new" / "one", tmp_path / "data" / "backups"):
            assert connection.execute(f"CALL stratalog.backup('{place}')").fetchone()[1] > 0
        assert (listed / "new" / "one" / "backups").is_dir()
    with Stratalog(tmp_path / "data") as server, connect(server) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_an_error_of_an_object_store_shows_no_foreign_body(tmp_path):
    class Secret(http.server.BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = b"<Error><Code>Secret</Code><Message>the foreign body</Message></Error>"
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Secret) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": "true",
                       "AWS_ENDPOINT": f"http://127.0.0.1:{foreign.server_address[1]}"}
        flags = ["--backup-urls", "s3://lake"]
        with Stratalog(tmp_path / "data", *flags, environment=environment) as server, connect(server) as connection:
            with pytest.raises(Exception) as caught:
                connection.execute("CALL stratalog.backup('s3://lake/x')").fetchall()
            assert "403" in str(caught.value) and "foreign" not in str(caught.value) and "Secret" not in str(caught.value)
            assert caught.value.sqlstate == "55000"
            foreign.shutdown()
