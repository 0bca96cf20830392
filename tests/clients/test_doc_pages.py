"""The pages of docs/clients: their examples work as documented, in order."""

import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ours
PAGES = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs" / "clients").glob("*.md"))
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_examples(server, page):
    text = next(path for path in PAGES if path.name == page).read_text()
    ports = {"5433": server.port, "50051": server.flight_port, "8086": server.http_port, "9009": server.ilp_port}
    python = []
    for kind, code in BLOCK.findall(text):
        for ours, port in ports.items():
            code = re.sub(rf"\b{ours}\b", str(port), code)
        if kind == "python":
            python.append(code)
            continue
        done = subprocess.run(["sh", "-e", "-c", code], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    # One program per page: later examples use the results of earlier examples.
    if python:
        done = subprocess.run([sys.executable, "-c", "\n".join(python)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
