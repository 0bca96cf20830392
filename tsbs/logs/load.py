"""The load that is the same for every log, and how the program that makes it is run."""

import json
import pathlib
import subprocess
from typing import NamedTuple

# Of all clients together there are so many times this on the way, at most.
WINDOW_BYTES = 512 << 10
WINDOW_MIN, WINDOW_MAX = 4, 1000


class Load(NamedTuple):
    """Clients that append records of a size, each with a window of those that are not acknowledged, and one reader."""

    size: int
    clients: int
    window: int
    warm_up: int
    seconds: int

    @property
    def alone(self):
        """Whether each record waits for the one before."""
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
    """Runs a program whose last line is JSON."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        causes = [line for line in done.stderr.splitlines() if "Exception" in line or "Error" in line]
        raise RuntimeError(f"{pathlib.Path(command[0]).name}: {' '.join(causes)[-1000:] or done.stderr[-1000:]}")
    return json.loads(lines[-1])
