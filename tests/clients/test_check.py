"""CALL stratalog.check() with psql: parts of a running server, and damage as rows."""

import os
import subprocess

import pytest

from servers import Stratalog, stratalog_binary
from tables import object_store
from test_psql import psql

pytestmark = pytest.mark.ours


def lines(server):
    done = psql(server, "-At", "-F", "\t", "-c", "CALL stratalog.check()")
    return [line.split("\t") for line in done.stdout.splitlines()]


def fill(server, table):
    psql(server, "-c", f"CREATE TABLE {table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, n BIGINT, "
                       f"PRIMARY KEY (host, time)) WITH (collision = 'last')")
    psql(server, "-c", f"INSERT INTO {table} SELECT '2026-01-01'::timestamptz + i * interval '1 second', "
                       f"'host' || (i % 5), i FROM generate_series(1, 20000) AS s(i)")


def test_what_is_sound(server, table):
    fill(server, table)
    for procedure in ("flush", "compact"):
        psql(server, "-c", f"CALL stratalog.{procedure}('{table}')")
        found = lines(server)
        assert all(state in ("sound", "warning") for _, _, _, _, _, state, _ in found), found
        assert {"format", "clock", "catalog", "manifest", "journal"} <= {line[0] for line in found}
        part = "tablets" if procedure == "flush" else "stories"
        ours = [line for line in found if line[0] == part and line[2] == f"public.{table}"]
        assert [line[3] for line in ours] == ["20000"], found


def test_damage_is_a_row(directory):
    with Stratalog(directory) as server:
        fill(server, "t")
        psql(server, "-c", "CALL stratalog.flush('t')")
        [path] = sorted(directory.glob("**/*.tablet"))[:1]
        with open(path, "r+b") as file:
            file.seek(5000)
            byte = file.read(1)[0]
            file.seek(5000)
            file.write(bytes([byte ^ 4]))
        damaged = [line for line in lines(server) if line[5] == "damaged"]
        assert [line[0] for line in damaged] == ["tablets"], damaged
        assert damaged[0][1].endswith(path.name) and damaged[0][2] == "public.t", damaged
        assert "2026-01-01T" in damaged[0][6] and "backup" in damaged[0][6], damaged


def test_stories_in_an_object_store(directory):
    bucket = object_store(directory)
    data, url = directory / "data", ("--story-url", "s3://lake/p")
    with bucket, Stratalog(data, *url, environment=bucket.environment()) as server:
        fill(server, "t")
        psql(server, "-c", "CALL stratalog.compact('t')")
        found = lines(server)
        assert ["20000"] == [line[3] for line in found if line[0] == "stories"], found
        server.stop()
        command = [str(stratalog_binary()), "check", "--data-dir", str(data), *url]

        def check():
            return subprocess.run(command, capture_output=True, text=True, timeout=300,
                                  env={**os.environ, **bucket.environment()})

        done = check()
        assert done.returncode == 0 and "20000 rows" in done.stdout, done.stdout + done.stderr
        [story] = (directory / "buckets").glob("**/*.parquet")
        whole = story.read_bytes()
        story.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
        done = check()
        assert done.returncode == 1 and story.name in done.stdout, done.stdout + done.stderr
        bucket.kill()
        # Unreachable parts are not damaged.
        done = check()
        assert done.returncode == 7 and "damaged" not in done.stdout, done.stdout + done.stderr
