"""Runs TSBS's unmodified query tool against Stratalog and PostgreSQL over the same rows, of both
use cases and with tags in the rows or in a table of their own, and compares what it prints."""

import argparse
import pathlib
import shutil
import sys
import tempfile

import lines as line_loaders
import tsbs
from answers import OURS_ONLY, rank
from datasets import Dataset
from peers import PEERS, Stratalog as Ours

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from servers import Stratalog  # noqa: E402

START = "2016-01-01T00:00:00Z"

# Query types with intentionally different values: docs/sql/differences.md.
DIFFERENT = {"daily-activity": "the sum of a bigint is a bigint, and so is its quotient"}


class Part:
    """A use case on both servers."""

    def __init__(self, use_case, tagged, arguments, directory):
        self.use_case, self.tagged, self.count = use_case, tagged, arguments.queries
        self.name = f"{use_case}{', tags apart' if tagged else ''}"
        self.directory = directory / f"{use_case}-{tagged}"
        # Trucks need a day and a half until their fuel is low.
        day, hour = divmod(arguments.hours + (14 if use_case == "iot" else 0), 24)
        self.tools = tsbs.Tools(arguments.scale, START, f"2016-01-{1 + day:02d}T{hour:02d}:00:00Z", use_case=use_case)
        self.types = [each for each in (tsbs.IOT_QUERY_TYPES if use_case == "iot" else tsbs.QUERY_TYPES) if each in arguments.types]
        self.dataset = Dataset(use_case, tagged, self.tools, arguments.interval, self.directory / "rows")

    def run(self):
        """Returns (problems, number of failed types)."""
        self.dataset.generate()
        # Some rows in each tier.
        ours = Ours(self.dataset, self.directory / "ours", fresh=True)
        theirs = PEERS["postgresql"](self.dataset, self.directory / "theirs")
        problems, failed = [], 0
        try:
            for server in (ours, theirs):
                server.start()
                server.load()
                server.settle()
            for query_type in self.types:
                found, rows = self.compare(query_type, ours.server, theirs.server)
                problems += found
                failed += bool(found)
                print(f"{self.name:20} {query_type:34} {'differs' if found else 'same':8} {rows:8} rows", flush=True)
        finally:
            for server in (ours, theirs):
                server.stop()
            shutil.rmtree(self.directory, ignore_errors=True)
        return problems, failed

    def compare(self, query_type, ours, theirs):
        """The problems of a query type, and the number of compared rows."""
        path = self.directory / f"{query_type}.queries"
        self.tools.generate_queries(query_type, self.count, path, self.tagged)
        problems, rows = [], 0
        if self.use_case == "iot" and not self.same_text(query_type, path):
            problems.append(f"{query_type}: the text is another one without tags of their own")
        try:
            mine = self.tools.run_queries(path, ours.port, "stratalog", "stratalog", responses=True)
            peer = self.tools.run_queries(path, theirs.port, "postgres", "postgres", responses=True)
        except RuntimeError as error:
            return [*problems, f"{query_type}: {error}"], rows
        if len(mine) != self.count or len(peer) != self.count:
            problems.append(f"{query_type}: {len(mine)} and {len(peer)} answers for {self.count} queries")
        for answer, expected in zip(mine, peer):
            got, wanted = self.tidied(query_type, answer["results"]), self.tidied(query_type, expected["results"])
            rows += len(wanted)
            same = answer["query"] == expected["query"] and tsbs.same(got, wanted)
            if query_type in DIFFERENT:
                if len(got) != len(wanted):
                    problems.append(f"{self.name}, {query_type}: {len(got)} rows instead of {len(wanted)}")
            elif not same:
                problems.append(
                    f"{self.name}, {query_type}: {answer['query']}\n  {len(got)} rows: {first_of(got, wanted)}\n"
                    f"  PostgreSQL: {len(wanted)} rows: {first_of(wanted, got)}"
                )
        # Several concurrent workers, with the tool's own statistics.
        report = self.tools.run_queries(path, ours.port, "stratalog", "stratalog", responses=False, workers=4)
        if f"Run complete after {self.count} queries" not in report:
            problems.append(f"{query_type}: with 4 workers: {report}")
        return problems, rows

    def same_text(self, query_type, path):
        """`--timescale-use-tags` does not change the iot queries."""
        other = path.with_suffix(".other")
        self.tools.generate_queries(query_type, self.count, other, not self.tagged)
        return path.read_bytes() == other.read_bytes()

    def tidied(self, query_type, rows):
        """Rows in a comparable order, without the time column of Stratalog's tags table."""
        rows = [{name: number(value) for name, value in row.items() if name not in OURS_ONLY} for row in rows]
        if self.use_case == "iot" or query_type in tsbs.UNORDERED:
            return sorted(rows, key=lambda row: rank(row.values()))
        return rows


def number(value):
    """The tool prints PostgreSQL's numeric as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def first_of(rows, others):
    """The first rows that differ."""
    return [row for row, other in zip(rows, [*others, *[None] * len(rows)]) if not tsbs.same(row, other)][:2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=40)
    parser.add_argument("--hours", type=int, default=26)
    parser.add_argument("--interval", default="60s")
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--types", nargs="*", default=tsbs.QUERY_TYPES + tsbs.IOT_QUERY_TYPES)
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stratalog-tsbs-"))
    # PostgreSQL runs under another user if this process runs as root.
    directory.chmod(0o755)
    problems, failed, types = [], 0, 0
    try:
        for use_case, tagged in (("cpu-only", False), ("cpu-only", True), ("iot", True)):
            part = Part(use_case, tagged, arguments, directory)
            found, without = part.run()
            problems += found
            failed += without
            types += len(part.types)
        # The loaders require that their tables do not exist.
        with Stratalog(directory / "lines-data") as ours:
            tools = tsbs.Tools(arguments.scale, START, "2016-01-02T02:00:00Z")
            found, rows = line_loaders.smoke(tools, ours, directory)
            problems += found
            failed += bool(found)
            print(f"{'line protocol':55} {'differs' if found else 'same':8} {rows:8} rows", flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"TSBS: {types} query types, {len(problems)} differences")
    print(f"{types + 1 - failed} passed, {failed} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
