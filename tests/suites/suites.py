"""Runs suites of drivers and peers on Stratalog and on PostgreSQL.

    tests/suites/run [--small] [SUITE …]

A test that passes on PostgreSQL, or has an answer there, and not on Stratalog, is a difference. Each difference is a line of
`known/SUITE.txt`: the test, ` | `, and the reason. A difference without a line, and a line without a difference, is a failure.
A listed test that did not run, because only a part of the suite runs, or that fails on PostgreSQL this time, is neither. The
suites come from their packages, which are fetched once into the cache of the client tests; nothing of the suites is in the tree.
"""

import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from servers import Postgres, Stratalog  # noqa: E402

from .drivers import Asyncpg, Pg8000  # noqa: E402
from .sqlite import Sqlite  # noqa: E402

SUITES = {suite.name: suite for suite in (Asyncpg(), Pg8000(), Sqlite())}


def known(name):
    """`{test: reason}`."""
    path = HERE / "known" / f"{name}.txt"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    if wrong := [line for line in lines if not line.partition(" | ")[2].strip()]:
        raise SystemExit(f"{path}: a line without a reason: {wrong[0]}")
    return dict(line.split(" | ", 1) for line in lines)


def differences(name, ours, theirs):
    """`{test: Stratalog's result}` for tests that PostgreSQL passes."""
    if name == "sqlite":
        return {test: ours.get(test, "not run") for test, answer in theirs.items() if ours.get(test) != answer}
    passed = [test for test, problem in theirs.items() if problem is None]
    return {test: ours.get(test, "not run") for test in passed if ours.get(test, "not run") is not None}


def compare(name, small, folder):
    """(tests, differences, unexplained differences, unused reasons) of a suite."""
    suite = SUITES[name]
    with Postgres(settings={"fsync": "off"}) as postgres:
        theirs = suite.run(postgres, small)
    with Stratalog(pathlib.Path(folder) / name) as stratalog:
        ours = suite.run(stratalog, small)
    compared = [test for test, problem in theirs.items() if problem is None or name == "sqlite"]
    if not compared:
        raise SystemExit(f"{name}: PostgreSQL passes no test: the suite does not run here")
    found, listed = differences(name, ours, theirs), known(name)
    new = {test: problem for test, problem in found.items() if test not in listed}
    closed = sorted(test for test in listed if test in compared and test not in found)
    return len(theirs), len(found), new, closed


def main():
    words = argparse.ArgumentParser(prog="tests/suites/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("suites", nargs="*", default=list(SUITES), metavar="SUITE", help=", ".join(SUITES))
    words.add_argument("--small", action="store_true", help="a part of each suite, as `make test` runs it")
    chosen = words.parse_args()
    if unknown := set(chosen.suites) - set(SUITES):
        words.error(f"unknown suites: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    passed = failed = 0
    for name in chosen.suites:
        with tempfile.TemporaryDirectory(prefix="stratalog-suites-") as folder:
            tests, found, new, closed = compare(name, chosen.small, folder)
        print(f"{name}: {tests} tests, {found} differences, {len(new)} without a reason, {len(closed)} reasons without a difference")
        for test, problem in new.items():
            print(f"  {test} | {problem}")
        for test in closed:
            print(f"  no difference any more: {test}")
        passed += tests - len(new) - len(closed)
        failed += len(new) + len(closed)
    # The same summary line as pytest, for the total of `make test`.
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
