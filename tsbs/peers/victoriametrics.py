"""The distribution's VictoriaMetrics: TSBS's PromQL over HTTP."""

import os
import re
import subprocess
import urllib.parse
import urllib.request

import texts

from . import debian
from .contender import CpuOnly, in_threads
from servers import dying_with_us, free_port  # noqa: E402

CONNECTIONS, BATCH_BYTES = 2, 4 << 20


class VictoriaMetrics(CpuOnly):
    name, way, wants_lines = "VictoriaMetrics", "HTTP, JSON", True
    # Its windows end at each step, counted from the start of the query; the other contenders use minutes and hours.
    comparable = False
    program = None

    @classmethod
    def install(cls, cache):
        cls.program = debian.program(cache, "victoria-metrics", "usr/bin/victoria-metrics")

    def version(self):
        policy = subprocess.run(["apt-cache", "policy", "victoria-metrics"], capture_output=True, text=True).stdout
        found = re.search(r"Candidate: ([0-9.]+)", policy)
        return found[1] if found else "?"

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.log = open(self.directory.with_suffix(".log"), "ab")
        self.process = subprocess.Popen(
            [*dying_with_us("TERM"), self.program, f"-storageDataPath={self.directory / 'data'}",
             f"-httpListenAddr=127.0.0.1:{self.port}", "-retentionPeriod=100y"],
            stdout=self.log, stderr=subprocess.STDOUT, env=os.environ)
        self.ready(lambda: self.get("/health"))

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=600) as answer:
            return answer.read()

    def load(self):
        """Line protocol over HTTP, two connections."""
        def send(batch):
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/write", data=batch, timeout=600).close()

        with open(self.dataset.lines, "rb") as file:
            in_threads(CONNECTIONS, send, iter(lambda: file.read(BATCH_BYTES) + file.readline(), b""))

    def settle(self):
        self.get("/internal/force_flush")

    def text(self, query_type, ours):
        theirs = self.dataset.texts.get("victoriametrics", query_type)
        if theirs is None:
            return None
        path, _, query = theirs.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        each = iter(texts.hosts(ours))
        query["query"] = texts.HOST.sub(lambda _: next(each), query["query"])
        query["start"], query["end"] = (f"{at.timestamp():.3f}" for at in texts.times(ours))
        return f"{path}?{urllib.parse.urlencode(query)}"

    def answer(self, text):
        return [], [(len(self.get(text)),)]

    def run(self, texts, clients=1, seconds=20.0, again=False):
        return self.ask_by_client(["--kind=http", f"--address=127.0.0.1:{self.port}", "--whole"], texts, clients, seconds, again)

    def stop(self):
        self.process.terminate()
        self.process.wait(120)
        self.log.close()
