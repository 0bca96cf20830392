"""The texts of queries from TSBS's generator, in each dialect, all with the same parameters."""

import datetime
import json
import re
import subprocess

import tsbs

TIME = re.compile(r"'(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?)(?: \+0000|Z)?'")
HOST = re.compile(r"host_\d+")

# Query types with a fixed time range, independent of the size of the table.
FIXED_RANGE = [name for name in tsbs.QUERY_TYPES if name not in ("lastpoint", "groupby-orderby-limit")]


class Texts:
    """Runs the generator once for each dialect and query type."""

    def __init__(self, tools, tagged, directory):
        self.tools, self.tagged, self.directory = tools, tagged, directory
        self.samples = {}

    def ours(self, query_type, count):
        """`count` texts of TSBS for TimescaleDB with different parameters; None if the data is too short
        or has too few hosts."""
        return self.generate("timescaledb", query_type, count)

    def get(self, kind, query_type):
        """A text in another dialect, with arbitrary parameters; None if the generator has none."""
        if (kind, query_type) not in self.samples:
            self.samples[kind, query_type] = (self.generate(kind, query_type, 1) or [None])[0]
        return self.samples[kind, query_type]

    def generate(self, kind, query_type, count):
        path = self.directory / "queries"
        try:
            self.tools.generate_queries(query_type, count, path, self.tagged, kind)
        except subprocess.CalledProcessError:
            return None
        with open(path, "rb") as file:
            done = subprocess.run([self.tools.client(), "texts"], stdin=file, capture_output=True, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        return found if len(found) == count else None


def hosts(text):
    return HOST.findall(text)


def times(text):
    return [datetime.datetime.fromisoformat(at) for at in TIME.findall(text)]


def whole_seconds(at):
    """Rounds up to whole seconds: for a column of whole seconds, the comparison with `at` gives the same
    rows."""
    return (at + datetime.timedelta(microseconds=999_999)).strftime("%Y-%m-%d %H:%M:%S")


def with_parameters(text, ours, time_form):
    """`text` with the hosts and times of Stratalog's text, in the order of their positions."""
    ours_hosts, ours_times = hosts(ours), times(ours)
    if (len(HOST.findall(text)), len(TIME.findall(text))) != (len(ours_hosts), len(ours_times)):
        raise RuntimeError(f"other parameters than in {ours}: {text}")
    each_host, each_time = iter(ours_hosts), iter(ours_times)
    text = HOST.sub(lambda _: next(each_host), text)
    return TIME.sub(lambda _: f"'{time_form(next(each_time))}'", text)
