"""QuestDB: TSBS's text for QuestDB over HTTP, as in TSBS's own runner."""

import datetime
import json
import re
import urllib.error
import urllib.parse
import urllib.request

import lines
import texts
import tsbs

from .contender import CpuOnly, Missing
from servers import free_port  # noqa: E402


class QuestDb(CpuOnly):
    name, way, wants_lines = "QuestDB", "HTTP, JSON", True
    jar = None

    @classmethod
    def install(cls, cache):
        try:
            cls.jar = lines.questdb_jar(cache)
        except Exception as error:
            raise Missing(f"Maven: {error}") from error

    def version(self):
        return self.jar.stem.removeprefix("questdb-")

    def start(self):
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.server = lines.QuestDb(self.directory, free_port(), free_port(), free_port()).start(self.jar)

    def load(self):
        """TSBS's own loader, with line protocol over TCP; rows count as soon as they are visible."""
        count = self.dataset.rows
        lines.load_tcp(self.dataset.tools, self.dataset.lines, self.server.http_port, self.server.ilp_port)
        self.server.settled(count)

    def text(self, query_type, ours):
        theirs = self.dataset.texts.get("questdb", query_type)
        if theirs is None and query_type.startswith("cpu-max-all"):
            # TSBS has a text for this query, but its generator does not find it.
            maxima = ", ".join(f"max({metric}) AS max_{metric}" for metric in tsbs.METRICS)
            hosts = ", ".join(f"'{host}'" for host in texts.hosts(ours))
            theirs = (f"SELECT timestamp AS hour, {maxima} FROM cpu WHERE hostname IN ({hosts}) "
                      "AND timestamp >= '2016-01-01T00:00:00Z' AND timestamp < '2016-01-01T00:00:00Z' SAMPLE BY 1h")
        if theirs is None:
            return None
        if query_type == "groupby-orderby-limit":
            # TSBS's text returns the first five minutes, but the query asks for the last.
            theirs = re.sub(r"LIMIT 5", "ORDER BY minute DESC LIMIT 5", theirs)
        if query_type.startswith("double-groupby"):
            # QuestDB no longer accepts both clauses; the remaining clause groups by all columns that are no
            # aggregates.
            theirs = re.sub(r"GROUP BY timestamp, hostname", "", theirs)
        return texts.with_parameters(theirs, ours, lambda at: at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))

    def answer(self, text):
        url = f"http://127.0.0.1:{self.server.http_port}/exec?query={urllib.parse.quote(text)}"
        try:
            with urllib.request.urlopen(url, timeout=600) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error
        kinds = [column["type"] for column in found["columns"]]
        rows = [tuple(plain(value, kind) for value, kind in zip(row, kinds)) for row in found["dataset"]]
        return [column["name"] for column in found["columns"]], rows

    def run(self, texts, clients=1, seconds=20.0, again=False):
        flags = ["--kind=http", f"--address=127.0.0.1:{self.server.http_port}", "--before=/exec?count=false&query="]
        return self.ask_by_client(flags, texts, clients, seconds, again)

    def stop(self):
        self.server.stop(keep=True)


def plain(value, kind):
    if value is not None and kind.startswith("TIMESTAMP"):
        at = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        return (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
    return value
