"""The load, equal for every log, and the call of the load program."""

import json
import pathlib
import subprocess
from typing import NamedTuple

# Maximal window of a client in bytes: the records in flight.
WINDOW_BYTES = 512 << 10
WINDOW_MIN, WINDOW_MAX = 4, 1000


class Load(NamedTuple):
    """Clients that append records of a size, each with a window of unacknowledged records, and a reader."""

    size: int
    clients: int
    window: int
    warm_up: int
    seconds: int

    @property
    def alone(self):
        """True if each record waits for the previous record."""
        return self.clients == self.window == 1

    def flags(self):
        given = {"size": self.size, "clients": self.clients, "window": self.window, "warm-up": self.warm_up, "seconds": self.seconds}
        return words(given)


def window(size):
    return max(WINDOW_MIN, min(WINDOW_MAX, WINDOW_BYTES // size))


def words(given):
    """`--name value` …"""
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


def told(command, seconds=600):
    """Runs a program whose last line is JSON; returns the JSON."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        causes = [line for line in done.stderr.splitlines() if "Exception" in line or "Error" in line]
        raise RuntimeError(f"{pathlib.Path(command[0]).name}: {' '.join(causes)[-1000:] or done.stderr[-1000:]}")
    return json.loads(lines[-1])
