"""The memory cost of idle connections."""

import pathlib
import resource
import time

import psycopg
import pytest

from servers import Stratalog
from wire import Wire

CONNECTIONS = 5_000

# Kilobytes of a new connection without any query, and of a used connection at rest. Measured: 18 and 54.
NEW_KB_MAX = 64
RESTED_KB_MAX = 96

pytestmark = pytest.mark.ours


def resident_kb(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_idle_connections_are_small(scratch):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CONNECTIONS * 2:
        pytest.skip(f"only {soft} files may be open")
    with Stratalog(scratch / "idle", "--connections-max", str(CONNECTIONS + 10)) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SELECT 1")
            before = resident_kb(server.process)
            idle = []
            for _ in range(CONNECTIONS):
                idle.append(Wire(server.port).startup())
                idle[-1].ready()
            new = (resident_kb(server.process) - before) / CONNECTIONS
            count = connection.execute("SELECT count(*) FROM pg_stat_activity").fetchone()
            assert count == (CONNECTIONS + 1,)
            for wire in idle:
                wire.send(b"Q\0\0\0\x0dSELECT 1\0").ready()
            # After a few seconds a connection releases memory that it can rebuild.
            deadline = time.monotonic() + 60
            while (rested := (resident_kb(server.process) - before) / CONNECTIONS) > RESTED_KB_MAX:
                assert time.monotonic() < deadline, f"{rested:.1f} KB"
                time.sleep(0.5)
            print(f"{new:.1f} KB for each of {CONNECTIONS} new connections, {rested:.1f} KB when they rest")
            for wire in idle:
                wire.send(b"Q\0\0\0\x0dSELECT 1\0").ready()
                wire.socket.close()
        assert new <= NEW_KB_MAX
