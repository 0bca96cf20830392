"""The statements with known differences: `known/FILE.txt` lists them by reason.

python -m regress.known FILE …     runs the files and rewrites their lists
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict

import psycopg

from .compare import Comparison
from .reasons import REASONS, reason_of

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "known"
FILES = """boolean int2 int4 int8 float4 float8 numeric text strings name uuid numerology regex json jsonb json_encoding
arrays date time timestamp timestamptz interval horology select select_distinct select_distinct_on select_having
select_implicit limit case expressions subselect union with join aggregates groupingsets window tsrf rowtypes prepare
random incremental_sort errors guc comments dbsize unicode regproc""".split()
# Scripts whose tables are used by other scripts, besides the tables of the suite's setup.
MAKERS = {"horology": ["time", "timestamp", "timestamptz", "interval", "date"]}
# The suite's settings that both servers have; and a timeout for endless statements.
SETTINGS = ["SET TimeZone = 'America/Los_Angeles'", "SET IntervalStyle = 'postgres'", "SET statement_timeout = '5s'"]


def suite():
    """The folder of the suite; fetched at first use."""
    done = subprocess.run([HERE / "fetch"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return pathlib.Path(done.stdout.strip())


def tables_of(script):
    """True if a statement creates or fills a table used by the script."""
    words = set(re.findall(r"\w+", script.lower()))

    def wanted(statement):
        found = re.match(r"(?:CREATE TABLE|INSERT INTO|COPY)\s+(\w+)", statement.written)
        return found and found[1].lower() in words

    return wanted


def compare(file, ours, theirs, suite):
    """All statements of a file, compared in new databases."""
    for server in (ours, theirs):
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE regress_{file}")
    script = (suite / "sql" / f"{file}.sql").read_text()
    dsn = {"dbname": f"regress_{file}"}
    with (
        psycopg.connect(ours.dsn(**dsn), autocommit=True) as us,
        psycopg.connect(theirs.dsn(**dsn), autocommit=True) as them,
    ):
        for setting in SETTINGS:
            us.execute(setting)
            them.execute(setting)
        comparison = Comparison(us, them, suite)
        for maker in ["test_setup", *MAKERS.get(file, [])]:
            list(comparison.run((suite / "sql" / f"{maker}.sql").read_text(), tables_of(script)))
        return list(comparison.run(script))


def counts(compared):
    """The counts of statements: equal in rows, equal in errors, different, and not sent."""
    return Counter(
        one.skipped or ("equal" if not one.ours.error else "equal errors") if one.difference is None else "different"
        for one in compared
    )


def differing(compared):
    """The key of each differing statement, with the name of its reason."""
    return {one.key: reason.name if (reason := reason_of(one)) else "unknown" for one in compared if one.difference}


def read(file):
    path, keys = FOLDER / f"{file}.txt", {}
    for line in path.read_text().splitlines() if path.exists() else []:
        reason, _, listed = line.partition(": ")
        keys.update({key: reason for key in listed.split()})
    return keys


def write(file, keys):
    by_reason = defaultdict(list)
    for key, reason in keys.items():
        by_reason[reason].append(key)
    lines = [
        f"{reason}: {part}\n"
        for reason in sorted(by_reason)
        for part in textwrap.wrap(" ".join(sorted(by_reason[reason])), 110 - len(reason))
    ]
    (FOLDER / f"{file}.txt").write_text("".join(lines))


def sometimes():
    """Reasons for differences that appear in some runs only."""
    return {reason.name for reason in REASONS if reason.sometimes}


def main(files):
    from servers import Postgres, Stratalog

    scratch, total, reasons = tempfile.mkdtemp(prefix="stratalog-regress-"), Counter(), Counter()
    FOLDER.mkdir(exist_ok=True)
    with Stratalog(pathlib.Path(scratch) / "data") as ours, Postgres(settings={"fsync": "off"}) as theirs:
        for file in files or FILES:
            compared = compare(file, ours, theirs, suite())
            found = differing(compared)
            kept = {key: reason for key, reason in read(file).items() if reason in sometimes()}
            write(file, found | kept)
            print(file, dict(counts(compared)))
            total += counts(compared)
            reasons += Counter(found.values())
    print("all", dict(total), sum(total.values()))
    print(*(f"{count:5} {reason}" for reason, count in reasons.most_common()), sep="\n")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main(sys.argv[1:])
