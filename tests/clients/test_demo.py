"""`stratalog demo` with few rows: it succeeds, fits a terminal, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import time

import pytest

from servers import stratalog_binary

pytestmark = pytest.mark.ours


def start(directory, *flags):
    return subprocess.Popen([str(stratalog_binary()), "demo", "--hosts", "8", *flags], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "TMPDIR": str(directory)})


def assert_gone(pid):
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def processes(said):
    return {int(pid) for pid in re.findall(r"process (\d+)", said)}


def test_from_start_to_end(tmp_path):
    said, errors = start(tmp_path).communicate(timeout=120)
    assert errors == ""
    # The length of the program's path varies.
    lines = said.replace(str(stratalog_binary()), "stratalog").splitlines()
    assert not [line for line in lines if len(line) > 80]
    assert "40,320 rows of 21 columns" in said and "unchanged" in said and "psql -h" in said
    before, after = re.findall(r"count 40,320, sum of metrics [\d,]+, checksum [0-9a-f]{8}", said)
    assert before == after
    for query_type in ("single-groupby-5-8-1", "cpu-max-all-8", "double-groupby-all", "high-cpu-all", "lastpoint",
                       "groupby-orderby-limit"):
        assert re.search(rf"^   {query_type} .* [1-9][\d,]* +\d+\.\d\d +\d+\.\d\d$", said, re.MULTILINE), query_type
    assert len(processes(said)) == 2
    for pid in processes(said):
        assert_gone(pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_interrupted(tmp_path, how):
    demo = start(tmp_path)
    line = ""
    while "Server" not in line:
        line = demo.stdout.readline()
        assert line or demo.poll() is None
    demo.send_signal(how)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130 and "removed" in errors
    for pid in processes(line):
        assert_gone(pid)
    assert list(tmp_path.iterdir()) == []


def test_kept(tmp_path):
    demo = start(tmp_path, "--keep")
    said, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0
    port, pid = int(re.search(r"-p (\d+)", said)[1]), int(re.search(r"kill (\d+)", said)[1])
    try:
        done = subprocess.run(["psql", "-X", "-At", "-h", "127.0.0.1", "-p", str(port), "-U", "stratalog",
                               "-c", "SELECT count(*) FROM cpu", "stratalog"], capture_output=True, text=True, timeout=60)
        assert done.stdout == "40320\n", done.stderr
    finally:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        # A container without an init process never reaps zombies: a zombie counts as ended.
        with open(f"/proc/{pid}/stat") as stat:
            if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                break
        assert time.monotonic() < deadline
        time.sleep(0.02)
