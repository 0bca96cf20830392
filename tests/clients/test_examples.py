"""The programs of examples/ run, twice, and print the documented results. The Rust client's tests run rooms.rs."""

import pathlib
import re
import subprocess
import sys

import pytest

from servers import Stratalog

pytestmark = pytest.mark.ours
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    server = Stratalog(tmp_path_factory.mktemp("examples") / "data")
    yield server.start()
    server.stop()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def commands(server):
    http = f"http://127.0.0.1:{server.http_port}"
    return {
        "dashboard.sql": ["psql", "-X", "-d", server.dsn(), "-v", "ON_ERROR_STOP=1", "-f", FOLDER / "dashboard.sql"],
        "frames.py": [sys.executable, FOLDER / "frames.py", f"grpc://127.0.0.1:{server.flight_port}"],
        "lines.sh": ["sh", FOLDER / "lines.sh", http],
        "follow.py": [sys.executable, FOLDER / "follow.py", http, "2"],
    }


PRINTED = {
    "dashboard.sql": r"host3 \|.*90\.0",
    "frames.py": r"1000 rows stored(.*\n)+.*AAA  100\.0  100\.6",
    "lines.sh": r"station,rows,temperature,wind\nhill,2,4\.3,\nlake,1,6,3\.2\n",
    "follow.py": r"\d+ \{'_gsn': \d+, .*'item': 'pen', 'amount': 3\}\n.*'ink'",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_twice(own_server, name):
    for _ in range(2):
        assert re.search(PRINTED[name], run(*commands(own_server)[name]))


def test_the_page_lists_every_example():
    page = (FOLDER / "README.md").read_text()
    for path in FOLDER.iterdir():
        assert path.name == "README.md" or f"]({path.name})" in page, path.name
