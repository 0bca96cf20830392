"""Suites of drivers: pytest runs them against a server, and its report lists the passed tests."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

from . import packages

# Timeout of a suite, in seconds.
TIME_MAX = 1800


def outcomes(folder, arguments, environment):
    """`{test: None | the first line of its failure}` of a pytest run, without skipped tests.

    An unreadable file, for example with a missing package, is an error: otherwise its tests would be missed.
    """
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report.name}", *arguments]
        done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIME_MAX)
        # 0 and 1: all tests ran.
        if done.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}")
        cases = xml.parse(report.name).getroot().iter("testcase")
        found = {}
        for case in cases:
            if case.find("skipped") is not None:
                continue
            problem = case.find("failure")
            problem = case.find("error") if problem is None else problem
            name = f"{case.get('classname')}::{case.get('name')}"
            found[name] = None if problem is None else (problem.get("message") or "failed").split("\n")[0][:160]
        return found


class Asyncpg:
    """asyncpg's own tests; PGHOST and PGPORT select the server. test_connect is excluded: it starts servers itself."""

    name, version = "asyncpg", "0.32.0"
    small = ["test_execute", "test_prepare", "test_cursor", "test_record"]
    whole = [*small, "test_cache_invalidation", "test_cancellation", "test_codecs", "test_copy", "test_exceptions",
             "test_introspection", "test_listeners", "test_pool", "test_timeout", "test_transaction", "test_utils"]

    def run(self, server, small):
        folder = packages.sdist(self.name, self.version)
        words = dict(word.split("=") for word in server.dsn().split())
        environment = {"PGHOST": words["host"], "PGPORT": words["port"], "PGUSER": words["user"], "PGDATABASE": words["dbname"],
                       "PYTHONPATH": ""}
        # The tests are imported from a folder without the driver's sources, so that they use the installed package.
        sources = folder / "asyncpg"
        if sources.exists():
            sources.rename(folder / "sources-of-asyncpg")
        return outcomes(folder, [f"tests/{file}.py" for file in (self.small if small else self.whole)], environment)


class Pg8000:
    """pg8000's own tests."""

    name, version = "pg8000", "1.31.6"
    small = ["native/test_query.py"]
    whole = ["native/test_query.py", "native/test_copy.py", "native/test_prepared_statement.py", "native/test_typeconversion.py",
             "native/test_core.py", "dbapi/test_dbapi.py", "dbapi/test_query.py", "dbapi/test_paramstyle.py",
             "dbapi/test_typeconversion.py", "dbapi/test_copy.py", "legacy/test_query.py", "legacy/test_typeconversion.py",
             "legacy/test_error_recovery.py", "legacy/test_prepared_statement.py"]

    def run(self, server, small):
        folder = packages.sdist(self.name, self.version)
        words = dict(word.split("=") for word in server.dsn().split())
        environment = {"PGHOST": words["host"], "PGPORT": words["port"], "PGUSER": words["user"], "PGDATABASE": words["dbname"],
                       "PGPASSWORD": "none", "PYTHONPATH": str(packages.libraries("pytz==2025.2"))}
        files = [f"test/{file}" for file in (self.small if small else self.whole)]
        return outcomes(folder, [file for file in files if (folder / file).exists()], environment)
