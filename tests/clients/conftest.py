"""Fixtures: a shared server for the tests that only use SQL, and helpers for the other tests.

CLIENT_TESTS_AGAINST=postgres runs the common tests against PostgreSQL, to check the tests themselves.
Tests only for Stratalog have the mark `ours`.
"""

import itertools
import os
import pathlib
import shutil
import tempfile

import psycopg
import pytest

import servers
from servers import Postgres, Stratalog

AGAINST_POSTGRES = os.environ.get("CLIENT_TESTS_AGAINST") == "postgres"
# Tests of missing features, a line each: `test_file.py::test_name[case]`. A listed test that passes is an
# error: remove its line. A ` ?` at the end of the line marks a test that passes sometimes.
NOT_YET = pathlib.Path(__file__).with_name("not_yet.txt")
names = itertools.count()


def pytest_configure(config):
    config.addinivalue_line("markers", "ours: behaviour that PostgreSQL does not have")


def pytest_collection_modifyitems(items):
    if AGAINST_POSTGRES:
        for item in items:
            if item.get_closest_marker("ours"):
                item.add_marker(pytest.mark.skip(reason="PostgreSQL does not have it"))
        return
    lines = NOT_YET.read_text().splitlines()
    strict = {line.removesuffix(" ?"): not line.endswith(" ?") for line in lines}
    for item in items:
        if item.nodeid in strict:
            item.add_marker(pytest.mark.xfail(reason="not yet", strict=strict[item.nodeid]))


@pytest.fixture(scope="session")
def scratch():
    """A directory on a real file system, deleted after the run."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-clients-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def server(scratch):
    if AGAINST_POSTGRES:
        with Postgres() as postgres:
            yield postgres
        return
    with Stratalog(scratch / "shared") as stratalog:
        yield stratalog
        assert stratalog.alive(), stratalog.output()[-4000:]


@pytest.fixture(scope="session")
def postgres():
    with Postgres() as oracle:
        yield oracle


@pytest.fixture(autouse=True)
def nothing_left_running():
    """Stops servers that a failed test left running."""
    before = list(servers.running)
    yield
    servers.stop_all(besides=before)


@pytest.fixture
def connection(server):
    with psycopg.connect(server.dsn(), autocommit=True) as opened:
        yield opened


@pytest.fixture
def table():
    """A unique table name."""
    return f"t{next(names)}"


@pytest.fixture
def directory(scratch):
    """A directory for the server of a single test."""
    return scratch / f"d{next(names)}"
