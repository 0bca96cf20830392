"""TSBS: its pinned tools, its data as Stratalog tables, its queries."""

import datetime
import json
import os
import pathlib
import subprocess
import zlib

HERE = pathlib.Path(__file__).resolve().parent

TAGS = ["hostname", "region", "datacenter", "rack", "os", "arch", "team", "service",
        "service_version", "service_environment"]
METRICS = ["usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait",
           "usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice"]

# The query types of the generator for cpu-only.
QUERY_TYPES = ["single-groupby-1-1-1", "single-groupby-1-1-12", "single-groupby-1-8-1",
               "single-groupby-5-1-1", "single-groupby-5-1-12", "single-groupby-5-8-1",
               "cpu-max-all-1", "cpu-max-all-8", "cpu-max-all-32-24",
               "double-groupby-1", "double-groupby-5", "double-groupby-all",
               "high-cpu-1", "high-cpu-all", "lastpoint", "groupby-orderby-limit"]

# Query types without a fixed order of rows.
UNORDERED = {"high-cpu-1", "high-cpu-all"}

# The query types for iot, the same with and without `--timescale-use-tags`.
IOT_QUERY_TYPES = ["last-loc", "single-last-loc", "low-fuel", "high-load", "stationary-trucks",
                   "long-driving-sessions", "long-daily-sessions", "avg-vs-projected-fuel-consumption",
                   "avg-daily-driving-duration", "avg-daily-driving-session", "avg-load",
                   "daily-activity", "breakdown-frequency"]

# For servers without time_bucket.
TIME_BUCKET_FOR_POSTGRES = """
CREATE FUNCTION time_bucket(width interval, at timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT date_bin(width, at, timestamptz '2000-01-03 00:00:00+00') $$
"""


def table(name="cpu", ours=True):
    """CREATE TABLE for the 21 columns: the series is the host."""
    columns = ["time TIMESTAMPTZ NOT NULL", "hostname TEXT NOT NULL"]
    columns += [f"{tag} TEXT" for tag in TAGS[1:]]
    columns += [f"{metric} DOUBLE PRECISION" for metric in METRICS]
    if not ours:
        return f"CREATE TABLE {name} ({', '.join(columns)})"
    return f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY (hostname, time)) WITH (collision = 'last')"


class Tools:
    """The installed tools, and the parameters of the data set."""

    def __init__(self, scale, start, end, seed=123, use_case="cpu-only"):
        done = subprocess.run([HERE / "install"], check=True, stdout=subprocess.PIPE, text=True)
        self.bin = pathlib.Path(done.stdout.strip())
        self.common = [f"--use-case={use_case}", "--format=timescaledb", f"--seed={seed}",
                       f"--scale={scale}", f"--timestamp-start={start}"]
        self.end = end

    def client(self):
        """The program of `client/`; built if missing."""
        sources = sorted((HERE / "client").glob("*.go"))
        program = self.bin / f"client-{zlib.crc32(b''.join(path.read_bytes() for path in sources))}"
        if not program.exists():
            subprocess.run(["go", "build", "-mod=readonly", "-o", program, "./client"], cwd=HERE, check=True)
        return program

    def generate_rows(self, interval="10s"):
        """Yields the rows of tsbs_generate_data as lines of COPY text."""
        process = subprocess.Popen(
            [self.bin / "tsbs_generate_data", *self.common, f"--timestamp-end={self.end}",
             f"--log-interval={interval}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 20,
        )
        yield from copy_lines(process.stdout)
        if process.wait() != 0:
            raise RuntimeError("tsbs_generate_data failed")

    def generate_queries(self, query_type, count, path, use_tags=False, kind="timescaledb"):
        # The interval of the queries must not begin before the data, and ends one second later.
        end = datetime.datetime.fromisoformat(self.end.replace("Z", "+00:00"))
        end = (end + datetime.timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        common = [flag if not flag.startswith("--format") else f"--format={kind}" for flag in self.common]
        tags = str(use_tags).lower()
        with open(path, "wb") as out:
            subprocess.run(
                [self.bin / "tsbs_generate_queries", *common, f"--timestamp-end={end}", f"--timescale-use-tags={tags}",
                 f"--clickhouse-use-tags={tags}", f"--query-type={query_type}", f"--queries={count}"],
                check=True, stdout=out, stderr=subprocess.PIPE,
            )

    def run_queries(self, path, port, user, database, responses, workers=1):
        """Runs the unmodified query tool; returns its results, or its report."""
        command = [self.bin / "tsbs_run_queries_timescaledb", f"--file={path}", "--hosts=127.0.0.1",
                   f"--port={port}", f"--user={user}", f"--db-name={database}",
                   "--postgres=sslmode=disable", f"--workers={workers}", "--print-interval=0"]
        if responses:
            command.append("--print-responses")
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
        if done.returncode != 0:
            raise RuntimeError(f"{path.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return parse_responses(done.stdout) if responses else done.stdout


def copy_lines(stream):
    """The tool's pairs of lines (tags, metrics) as lines of COPY text, one per row."""
    times = {}
    tags = {}
    pending = None
    for line in stream:
        if line.startswith(b"tags,"):
            pending = line
        elif line.startswith(b"cpu,") and pending is not None and b"=" in pending:
            _, stamp, metrics = line.rstrip(b"\n").split(b",", 2)
            text = times.get(stamp)
            if text is None:
                if len(times) > 1000:
                    times.clear()
                text = times[stamp] = time_text(int(stamp))
            names = tags.get(pending)
            if names is None:
                values = [pair.split(b"=", 1)[1] or b"\\N" for pair in pending.rstrip(b"\n").split(b",")[1:]]
                names = tags[pending] = b"\t".join(values)
            values = [value or b"\\N" for value in metrics.split(b",")] if b",," in metrics else None
            body = b"\t".join(values) if values else metrics.replace(b",", b"\t")
            yield b"%s\t%s\t%s\n" % (text, names, body)


def time_text(nanoseconds):
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    base = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{base}{fraction}+00".encode()


def parse_responses(text):
    """The JSON objects that --print-responses writes, each a query and its rows."""
    decoder, found, at = json.JSONDecoder(), [], text.find("{")
    while at >= 0:
        answer, at = decoder.raw_decode(text, at)
        found.append(answer)
        rest = text[at:].lstrip()
        at = len(text) - len(rest) if rest.startswith("{") else -1
    return found


def same(left, right):
    """Compares two answers, with floats equal to nine digits: sums may add in another order."""
    if isinstance(left, float) or isinstance(right, float):
        return left == right or (
            isinstance(left, (int, float)) and isinstance(right, (int, float))
            and abs(left - right) <= 1e-9 * max(abs(left), abs(right))
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def ordered(query_type, rows):
    """Rows in a comparable order."""
    if query_type in UNORDERED:
        return sorted(rows, key=lambda row: (row["time"], row["hostname"]))
    return rows


def copy_into(dsn, statements, lines, name="cpu"):
    """Runs `statements`, then COPYs `lines`; returns the number of rows."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
        with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            chunk, count = [], 0
            for line in lines:
                chunk.append(line)
                count += 1
                if len(chunk) == 2000:
                    copy.write(b"".join(chunk))
                    chunk.clear()
            copy.write(b"".join(chunk))
        return count
