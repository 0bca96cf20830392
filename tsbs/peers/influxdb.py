"""The distribution's InfluxDB 1: TSBS's InfluxQL over HTTP."""

import datetime
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import lines
import texts

from . import debian
from .contender import CpuOnly
from servers import dying_with_us, free_port  # noqa: E402

DATABASE = "benchmark"


class InfluxDb(CpuOnly):
    # TSBS's InfluxQL texts for iot are different queries: the first rows of trucks, or means of other groups.
    name, way, wants_lines = "InfluxDB", "HTTP, JSON", True
    program = None

    @classmethod
    def install(cls, cache):
        cls.program = debian.program(cache, "influxdb", "usr/bin/influxd")

    def version(self):
        said = subprocess.run([self.program, "version"], capture_output=True, text=True).stdout
        return said.split()[1].removeprefix("v")

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        environment = {
            "INFLUXDB_DATA_DIR": str(self.directory / "data"), "INFLUXDB_DATA_WAL_DIR": str(self.directory / "wal"),
            "INFLUXDB_META_DIR": str(self.directory / "meta"), "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{self.port}",
            "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{free_port()}", "INFLUXDB_REPORTING_DISABLED": "true",
            "INFLUXDB_HTTP_LOG_ENABLED": "false", "INFLUXDB_DATA_INDEX_VERSION": "tsi1", "INFLUXDB_MONITOR_STORE_ENABLED": "false",
            "INFLUXDB_DATA_QUERY_LOG_ENABLED": "false"}
        self.log = open(self.directory.with_suffix(".log"), "ab")
        self.process = subprocess.Popen([*dying_with_us("TERM"), self.program], stdout=self.log, stderr=subprocess.STDOUT,
                                        env={**os.environ, **environment})
        self.ready(lambda: self.ask("SHOW DATABASES"))

    def ask(self, text):
        query = urllib.parse.urlencode({"db": DATABASE, "q": text, "epoch": "u"})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/query?{query}", data=b"", timeout=600) as answer:
                found = json.load(answer)["results"][0]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error
        if "error" in found:
            raise RuntimeError(found["error"])
        return found.get("series", [])

    def load(self):
        lines.load_http(self.dataset.tools, self.dataset.lines, self.port, DATABASE)

    def settle(self):
        stored = self.ask("SELECT count(usage_user) FROM cpu")[0]["values"][0][1]
        if stored != self.dataset.rows:
            raise RuntimeError(f"{stored} rows, {self.dataset.rows} expected")

    def text(self, query_type, ours):
        theirs = self.dataset.texts.get("influx", query_type)
        if theirs is None:
            return None
        if query_type == "groupby-orderby-limit":
            # TSBS's text returns the first five minutes, but the query asks for the last.
            theirs = re.sub(r"limit 5", "order by time desc limit 5", theirs)
        return texts.with_parameters(theirs, ours, lambda at: at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))

    def answer(self, text):
        names, rows = [], []
        for series in self.ask(text):
            tags = series.get("tags", {})
            names = [*series["columns"], *tags]
            # Skips empty buckets, which InfluxDB returns as well.
            rows += [(*values, *tags.values()) for values in series["values"] if any(value is not None for value in values[1:])]
        if names[-1:] == ["hostname"]:
            # InfluxDB returns a grouping tag beside the columns; Stratalog returns it behind the time.
            names = [names[0], names[-1], *names[1:-1]]
            rows = [(row[0], row[-1], *row[1:-1]) for row in rows]
        return names, rows

    def run(self, texts, clients=1, seconds=20.0, again=False):
        flags = ["--kind=http", "--method=POST", f"--address=127.0.0.1:{self.port}", f"--before=/query?db={DATABASE}&q="]
        return self.ask_by_client(flags, texts, clients, seconds, again)

    def stop(self):
        self.process.terminate()
        self.process.wait(120)
        self.log.close()
