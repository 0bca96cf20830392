"""Runs TSBS's unmodified query tool against Stratalog and PostgreSQL over the same rows,
and compares what it prints."""

import argparse
import pathlib
import shutil
import sys
import tempfile

import lines as line_loaders
import tsbs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from servers import Postgres, Stratalog  # noqa: E402


def compare(tools, query_type, count, directory, ours, theirs):
    """Problems of one query type, and how many rows were compared."""
    path = directory / f"{query_type}.queries"
    tools.generate_queries(query_type, count, path)
    mine = tools.run_queries(path, ours.port, "stratalog", "stratalog", responses=True)
    peer = tools.run_queries(path, theirs.port, "postgres", "postgres", responses=True)
    problems, rows = [], 0
    if len(mine) != count or len(peer) != count:
        problems.append(f"{query_type}: {len(mine)} and {len(peer)} answers for {count} queries")
    for answer, expected in zip(mine, peer):
        got = tsbs.ordered(query_type, answer["results"])
        wanted = tsbs.ordered(query_type, expected["results"])
        rows += len(wanted)
        if answer["query"] != expected["query"] or not tsbs.same(got, wanted):
            problems.append(
                f"{query_type}: {answer['query']}\n  {len(got)} rows: {got[:2]}\n"
                f"  PostgreSQL: {len(wanted)} rows: {wanted[:2]}"
            )
    # Several workers at a time, with the tool's own statistics.
    report = tools.run_queries(path, ours.port, "stratalog", "stratalog", responses=False, workers=4)
    if f"Run complete after {count} queries" not in report:
        problems.append(f"{query_type}: with 4 workers: {report}")
    return problems, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=40)
    parser.add_argument("--hours", type=int, default=26)
    parser.add_argument("--interval", default="60s")
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--types", nargs="*", default=tsbs.QUERY_TYPES)
    arguments = parser.parse_args()
    day, hour = divmod(arguments.hours, 24)
    end = f"2016-01-{1 + day:02d}T{hour:02d}:00:00Z"
    tools = tsbs.Tools(arguments.scale, "2016-01-01T00:00:00Z", end)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-tsbs-"))
    problems, failed = [], 0
    try:
        lines = list(tools.generate_rows(arguments.interval))
        with Stratalog(directory / "data") as ours, Postgres() as theirs:
            tsbs.copy_into(ours.dsn(), [tsbs.table()], lines)
            tsbs.copy_into(theirs.dsn(), [tsbs.table(ours=False), tsbs.TIME_BUCKET_FOR_POSTGRES], lines)
            for query_type in arguments.types:
                found, rows = compare(tools, query_type, arguments.queries, directory, ours, theirs)
                problems += found
                failed += bool(found)
                print(f"{query_type:24} {'differs' if found else 'same':8} {rows:8} rows", flush=True)
        # The loaders want tables that are not there.
        with Stratalog(directory / "lines-data") as ours:
            found, rows = line_loaders.smoke(tools, ours, directory)
            problems += found
            failed += bool(found)
            print(f"{'line protocol':24} {'differs' if found else 'same':8} {rows:8} rows", flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"TSBS: {len(arguments.types)} query types over {len(lines)} rows, {len(problems)} differences")
    print(f"{len(arguments.types) + 1 - failed} passed, {failed} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
