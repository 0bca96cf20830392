"""Peers that run in-process: each in a separate process, `asks.py` below this folder."""

import json
import os
import pathlib
import subprocess
import sys

from .contender import Contender, Missing
from servers import dying_with_us  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def python(cache):
    """The Python with the peers' packages, outside of the tree."""
    requirements = HERE / "requirements.txt"
    checksum = subprocess.run(["cksum"], stdin=open(requirements), capture_output=True, text=True, check=True).stdout.split()[0]
    place = cache / f"peers-{checksum}"
    if not (place / "complete").exists():
        print(f"installing {requirements.name} of tsbs/peers", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        done = subprocess.run([place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"pip: {done.stderr[-300:].strip()}")
        (place / "complete").touch()
    return place / "bin" / "python"


class Embedded(Contender):
    way = "in a process, as Arrow"
    engine = ""
    program = None

    @classmethod
    def install(cls, cache):
        Embedded.program = python(cache)

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = open(self.directory.with_suffix(".log"), "ab")
        self.process = subprocess.Popen(
            [*dying_with_us("KILL"), self.program, HERE / "asks" / "asks.py", self.engine, self.directory / "data"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, "TZ": "UTC"})
        self.ask({"do": "version"})

    def ask(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            said = self.directory.with_suffix(".log").read_text(errors="replace")[-500:]
            raise RuntimeError(f"{self.label}: the process ended with status {self.process.wait()}: {said}")
        found = json.loads(line)
        if "error" in found:
            raise RuntimeError(f"{self.label}: {found['error']}")
        return found

    def version(self):
        return self.ask({"do": "version"})["version"]

    def execute(self, *statements):
        self.ask({"do": "execute", "statements": statements})

    def answer(self, text):
        found = self.ask({"do": "answer", "text": text})
        return found["names"], [tuple(row) for row in found["rows"]]

    def run(self, texts, clients=1, seconds=20.0, again=False):
        return self.ask({"do": "run", "texts": texts, "clients": clients, "seconds": seconds, "again": again})

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.log.close()
