"""Tests in other languages: a suite runs once as a whole, and each of its tests becomes a pytest test.

A suite gets the server through libpq's variables (PGHOST, PGPORT, PGUSER, PGDATABASE). For each test it prints a
line "== pass NAME", "== fail NAME" or "== skip NAME", followed by details.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import servers
from conftest import AGAINST_POSTGRES

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_MAX = 300


def names(folder, files, pattern):
    """The names of a folder's tests, from its sources: FILE.NAME for each match of the pattern."""
    return [f"{path.name.split('.')[0]}.{name}" for path in sorted((HERE / folder).glob(files))
            for name in re.findall(pattern, path.read_text(), re.MULTILINE)]


def installed(language):
    """The directory in which `install-languages` installs a language's packages."""
    done = subprocess.run([HERE / "install-languages", language], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip())


def laid_out(language, scratch):
    """A copy of a JavaScript folder next to its packages, where `import` finds them."""
    place = scratch / language
    shutil.copytree(HERE / language, place)
    (place / "node_modules").symlink_to(installed(language) / "node_modules")
    return place


def environment(server):
    database = "postgres" if AGAINST_POSTGRES else "stratalog"
    return {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": database, "PGDATABASE": database}


def run(command, server, cwd=HERE, **more):
    """Runs a suite; returns its output from both streams."""
    suite = subprocess.Popen([*servers.dying_with_us("KILL"), *command], cwd=cwd, env={**environment(server), **more},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        return suite.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        # The results so far still count.
        suite.kill()
        return suite.communicate()


def outcomes(printed):
    """Name → (status, details) from a suite's output; the whole output under ""."""
    out, errors = printed
    parts = re.split(r"^== (pass|fail|skip) (.+)\n", out, flags=re.MULTILINE)
    found = {name: (status, text) for status, name, text in zip(parts[1::3], parts[2::3], parts[3::3])}
    return {**found, "": ("fail", parts[0] + errors)}


def conclude(found, name):
    """Passes, skips or fails like the suite's test of this name."""
    status, text = found.get(name, ("fail", f"{name} did not run\n{found[''][1]}"))
    if status == "skip":
        pytest.skip(text.strip())
    if status == "fail":
        pytest.fail(text.strip()[:6000], pytrace=False)
