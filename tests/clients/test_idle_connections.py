"""What connections cost that do nothing."""

import pathlib
import resource

import psycopg
import pytest

from servers import Stratalog
from wire import Wire

CONNECTIONS = 5_000

# Kilobytes of one. Measured: 41 in a release build; the rest is for allocators of other days.
KILOBYTES_MAX = 64

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
            idle = [Wire(server.port).startup() for _ in range(CONNECTIONS)]
            for wire in idle:
                wire.ready()
            # Each has been of use.
            for wire in idle:
                wire.send(b"Q\0\0\0\x0dSELECT 1\0")
            for wire in idle:
                wire.ready()
            each = (resident_kb(server.process) - before) / CONNECTIONS
            print(f"{each:.1f} KB for each of {CONNECTIONS} idle connections")
            count = connection.execute("SELECT count(*) FROM pg_stat_activity").fetchone()
            assert count == (CONNECTIONS + 1,)
            for wire in idle:
                wire.socket.close()
        assert each <= KILOBYTES_MAX
