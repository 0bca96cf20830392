"""Server operation: foreign directories, damage, two servers, full disks and budgets, restarts."""

import os
import random
import shutil
import signal
import subprocess
import time

import psycopg
import pytest

from servers import Stratalog

pytestmark = pytest.mark.ours


def fill(server, rows, start=0, table="t", text=""):
    """COPYs rows with `n` ascending from `start`."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (time TIMESTAMPTZ NOT NULL, n INT NOT NULL, x TEXT, PRIMARY KEY (n, time))")
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            copy.write("".join(f"2024-01-01 00:00:00+00\t{n}\t{text}{n}\n" for n in range(start, start + rows)))


def contents(server, table="t"):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        return [n for (n,) in connection.execute(f"SELECT n FROM {table} ORDER BY n").fetchall()]


def segments(server):
    """Files of the journal of events, oldest first."""
    return sorted(path for path in (server.data_dir / "journal").rglob("*") if path.is_file() and path.stat().st_size > 4096)


def test_stop_and_start(directory):
    server = Stratalog(directory).start()
    fill(server, 1000)
    assert server.stop() == 0
    server.start()
    assert contents(server) == list(range(1000))
    assert server.stop(signal.SIGINT) == 0


def test_kill_9(directory):
    server = Stratalog(directory).start()
    acknowledged = 0
    for _ in range(3):
        fill(server, 500, start=acknowledged)
        acknowledged += 500
        server.kill()
        server.start()
        assert contents(server) == list(range(acknowledged))
    server.stop()


def test_kill_9_while_a_copy_runs(directory):
    server = Stratalog(directory).start()
    fill(server, 10)
    connection = psycopg.connect(server.dsn(), autocommit=True)
    connection.pgconn.exec_(b"COPY t FROM STDIN")
    for n in range(100, 200_000, 1000):
        connection.pgconn.put_copy_data("".join(f"2024-01-01\t{k}\tx\n" for k in range(n, n + 1000)).encode())
        connection.pgconn.flush()
    server.kill()
    server.start()
    assert contents(server) == list(range(10))
    server.stop()


def test_directory_of_something_else(directory):
    directory.mkdir()
    (directory / "holiday.jpg").write_bytes(b"not ours")
    status, said = Stratalog(directory).start_failing()
    assert status != 0 and "holiday.jpg" in said and "hint" in said
    assert [path.name for path in directory.iterdir()] == ["holiday.jpg"]


def test_foreign_file_in_the_journal(directory):
    server = Stratalog(directory).start()
    fill(server, 100)
    server.stop()
    (server.data_dir / "journal" / "notes.txt").write_text("left here by somebody")
    shutil.copy("/bin/ls", server.data_dir / "journal" / "a.out")
    try:
        server.start()
        assert contents(server) == list(range(100))
        server.stop()
    except RuntimeError as refused:
        assert "notes.txt" in str(refused) or "a.out" in str(refused)
    assert (server.data_dir / "journal" / "notes.txt").read_text() == "left here by somebody"


def test_a_file_as_directory(tmp_path):
    (tmp_path / "file").write_text("x")
    status, said = Stratalog(tmp_path / "file").start_failing()
    assert status != 0 and "file" in said


def test_newer_format(directory):
    server = Stratalog(directory).start()
    server.stop()
    format_file = server.data_dir / "FORMAT"
    lines = format_file.read_text().splitlines()
    body = f"{lines[0]}\nversion 999\n"
    format_file.write_text(f"{body}crc32c {crc32c(body.encode()):08x}\n")
    status, said = server.start_failing()
    assert status == 6 and "999" in said
    format_file.write_text("garbage")
    status, said = server.start_failing()
    assert status != 0 and "FORMAT" in said


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_two_servers_on_one_directory(directory):
    with Stratalog(directory) as first:
        fill(first, 10)
        status, said = Stratalog(directory).start_failing()
        assert status == 4 and "in use" in said and str(first.process.pid) in said
        assert contents(first) == list(range(10))
    with Stratalog(directory) as second:
        assert contents(second) == list(range(10))


def test_port_taken(directory, scratch):
    with Stratalog(directory) as first:
        status, said = Stratalog(scratch / (directory.name + "-other"), port=first.port).start_failing()
        assert status == 3 and "in use" in said and "--pg-listen" in said


def test_unknown_and_bad_settings(directory):
    for flags in (["--no-such-flag", "1"], ["--connections-max", "many"], ["--pg-listen", "nowhere:port"]):
        status, said = Stratalog(directory, *flags).start_failing()
        assert status != 0 and said.strip(), flags
    server = Stratalog(directory)
    server.environment = {"STRATALOG_CONNECTIONS_MAX": "many"}
    with pytest.raises(RuntimeError):
        server.start()


# The smallest segments that hold a frame of the maximal size.
SMALL_SEGMENTS = ["--segment-bytes", str(17 << 20)]


def damaged(directory, rows=60_000):
    """A stopped server with several journal segments, and the segments."""
    server = Stratalog(directory, *SMALL_SEGMENTS).start()
    for start in range(0, rows, 5000):
        fill(server, 5000, start=start, text="%0900d " % random.randrange(10**12))
    assert server.stop() == 0
    files = segments(server)
    assert len(files) >= 3, files
    return server, files


def test_bit_flip(directory):
    server, files = damaged(directory)
    victim = files[len(files) // 2]
    offset = used_bytes(victim) // 2
    flip(victim, offset)
    status, said = server.start_failing()
    assert status != 0, "damage in the middle of the journal must not be passed over"
    assert victim.name in said and "offset" in said.lower(), said
    # Restoring the byte makes everything readable again.
    flip(victim, offset)
    server.start()
    assert contents(server) == list(range(60_000))
    server.stop()


def test_bit_flips_never_show_wrong_rows(directory):
    source = random.Random(3)
    server, files = damaged(directory, rows=50_000)
    for _ in range(12):
        victim = source.choice(files)
        offset = source.randrange(used_bytes(victim))
        flip(victim, offset)
        status = None
        try:
            server.start()
        except RuntimeError:
            status = "refused"
        if status is None:
            found = contents(server)
            assert found == list(range(len(found))), "what is shown is what was stored"
            if victim != files[-1]:
                assert len(found) == 50_000
            server.kill()
        server.ended()
        flip(victim, offset)
    server.start()
    assert contents(server) == list(range(50_000))
    server.stop()


def test_truncated_segment(directory):
    server, files = damaged(directory)
    victim = files[len(files) // 2]
    whole = victim.read_bytes()
    os.truncate(victim, len(whole.rstrip(b"\0")) // 2)
    status, said = server.start_failing()
    assert status != 0 and victim.name in said, said
    victim.write_bytes(whole)
    server.start()
    assert contents(server) == list(range(60_000))
    server.stop()


def test_missing_segment(directory):
    server, files = damaged(directory)
    for victim in (files[0], files[len(files) // 2], files[-1]):
        moved = victim.rename(directory.with_name(directory.name + "-moved"))
        status, said = server.start_failing()
        assert status == 5 and victim.name in said and "missing" in said, said
        moved.rename(victim)
    server.start()
    assert contents(server) == list(range(60_000))
    server.stop()


def used_bytes(path):
    return len(path.read_bytes().rstrip(b"\0"))


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


@pytest.fixture
def small_disk(scratch):
    """A file system of 192 MB."""
    mount = scratch / "small-disk"
    mount.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", mount], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"NOT TESTED: disk full (cannot mount a tmpfs here: {done.stderr.strip()})")
    yield mount
    subprocess.run(["umount", "-l", mount], check=False)


def test_disk_full(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\1" * (48 << 20))
    server = Stratalog(small_disk / "data", *SMALL_SEGMENTS, "--free-bytes-min", "8388608",
                       "--spill-bytes-max", "1048576").start()
    text = "x" * 900
    stored, error = 0, None
    for start in range(0, 200_000, 1000):
        try:
            fill(server, 1000, start=start, text=text)
            stored += 1000
        except psycopg.Error as full:
            error = full
            break
    assert error is not None and error.sqlstate == "53100", error
    # Only this request failed.
    assert server.alive()
    assert contents(server) == list(range(stored))
    assert shutil.disk_usage(small_disk).free > 4 << 20
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.DiskFull):
            for n in range(1_000_000, 1_100_000):
                connection.execute("INSERT INTO t VALUES ('2024-01-01', %s, %s)", (n, text))
        stored_rows = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    # After space is freed the server continues, without a restart.
    ballast.unlink()
    deadline = time.monotonic() + 20
    while True:
        try:
            fill(server, 1000, start=stored, text=text)
            break
        except psycopg.errors.DiskFull:
            assert time.monotonic() < deadline, "still full although there is room"
            time.sleep(0.2)
    assert len(contents(server)) == stored_rows + 1000
    server.kill()
    server.start()
    assert len(contents(server)) == stored_rows + 1000
    server.stop()


def test_budget_full(directory):
    server = Stratalog(directory, "--memory-bytes-max", str(24 << 20)).start()
    text = "y" * 500
    # When memory is short, events move into tablets: more is stored than fits into memory.
    stored = 0
    while stored < 100_000:
        fill(server, 2000, start=stored, text=text)
        stored += 2000
    # A statement that needs more memory than available: its rows cannot move before the commit.
    with pytest.raises(psycopg.Error) as error:
        fill(server, 100_000, start=stored, text=text)
    assert error.value.sqlstate == "53200", error.value
    # The statement was undone as a whole, and its memory was freed.
    fill(server, 2000, start=stored, text=text)
    stored += 2000
    assert contents(server) == list(range(stored))
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        assert connection.execute("SELECT count(*), min(n), max(n) FROM t").fetchone() == (stored, 0, stored - 1)
        connection.execute("DROP TABLE t")
    fill(server, 2000, text=text)
    assert contents(server) == list(range(2000))
    server.kill()
    server.start()
    assert contents(server) == list(range(2000))
    server.stop()


def test_query_memory_is_bounded(directory):
    server = Stratalog(directory, "--query-memory-bytes-max", str(32 << 20), "--spill-bytes-max", str(16 << 20)).start()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as error:
            connection.execute("SELECT count(*) FROM (SELECT a, b FROM generate_series(1, 3000) AS x(a), "
                               "generate_series(1, 3000) AS y(b) GROUP BY a, b) AS t").fetchone()
        assert error.value.sqlstate in ("53200", "53100")
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.stop()


def test_connection_limit(directory):
    with Stratalog(directory, "--connections-max", "5") as server:
        opened = [psycopg.connect(server.dsn()) for _ in range(5)]
        with pytest.raises(psycopg.OperationalError) as error:
            psycopg.connect(server.dsn())
        assert "connection" in str(error.value).lower() or "53300" in str(error.value)
        opened.pop().close()
        deadline = time.monotonic() + 10
        while True:
            try:
                psycopg.connect(server.dsn()).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        for connection in opened:
            connection.close()


def test_message_limit(directory):
    with Stratalog(directory, "--message-bytes-max", "1048576") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT '" + "x" * (2 << 20) + "'")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT length(%s)", ("x" * (512 << 10),)).fetchone() == (512 << 10,)


def test_shutdown_lets_statements_end(directory):
    server = Stratalog(directory).start()
    fill(server, 1000)
    connection = psycopg.connect(server.dsn(), autocommit=True)
    connection.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 20000000) AS g(n) WHERE n % 7 = 1")
    time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    server.ended()
    server.start()
    assert contents(server) == list(range(1000))
    server.stop()


def test_sql_in_process_while_stopped(directory):
    from servers import stratalog_binary

    server = Stratalog(directory).start()
    fill(server, 100)
    program = [str(stratalog_binary()), "sql", "--data-dir", str(directory)]
    locked = subprocess.run([*program, "-c", "SELECT 1"], capture_output=True, text=True, timeout=60)
    assert locked.returncode != 0 and "in use" in locked.stderr + locked.stdout
    server.stop()
    done = subprocess.run([*program, "-c", "SELECT count(*), sum(n) FROM t"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "100" in done.stdout and "4950" in done.stdout


