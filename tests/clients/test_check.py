"""CALL stratalog.check() by psql: the parts of a server that goes on, and damage as rows."""

import pytest

from servers import Stratalog
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
