"""Logs side by side: each log takes the same load in turns, while the others are idle."""

import os
import statistics

from .load import Load, window

MEASURES = [("append_per_second", "appended", "/s"), ("append_p50_ms", "acknowledged after, p50", "ms"),
            ("append_p99_ms", "acknowledged after, p99", "ms"), ("tail_per_second", "read at the tail", "/s"),
            ("tail_p50_ms", "read after, p50", "ms"), ("tail_p99_ms", "read after, p99", "ms")]


class Sides:
    def __init__(self, arguments, logs):
        self.arguments, self.logs = arguments, logs
        self.rounds, self.failures = [], {}

    def loads(self):
        for size in self.arguments.sizes:
            for clients, most in ((1, 1), (self.arguments.clients, window(size))):
                yield Load(size, clients, most, self.arguments.warm_up, self.arguments.seconds)

    def run(self):
        started = []
        try:
            for log in self.logs:
                log.start()
                started.append(log)
            for load in self.loads():
                for _ in range(self.arguments.rounds):
                    for log in self.logs:
                        self.turn(load, log)
                for log in self.logs:
                    print(f"  {title(load):52} {log.name:12}{self.line(load, log)}", flush=True)
        finally:
            for log in started:
                log.stop()

    def turn(self, load, log):
        # Finishes the disk writes of the other contenders first.
        os.sync()
        try:
            found = log.load(load)
        except Exception as error:
            self.failures.setdefault(f"{log.name}, {title(load)}", str(error)[:1000])
            print(f"  {log.name} failed: {error}", flush=True)
            return
        self.rounds.append({"log": log.name, "size": load.size, "clients": load.clients, "window": load.window, **found})

    def median(self, load, name, measure):
        """The median of the rounds; None without any round."""
        values = [each[measure] for each in self.rounds
                  if (each["log"], each["size"], each["clients"]) == (name, load.size, load.clients)]
        return statistics.median(values) if values else None

    def line(self, load, log):
        values = [self.median(load, log.name, measure) for measure, _, _ in MEASURES]
        return " ".join("       ?" if value is None else f"{value:>8,.{0 if value >= 100 else 2}f}" for value in values)

    def times(self, load, measure):
        """Stratalog's result relative to the best of the others; None if a result is missing."""
        mine = self.median(load, self.logs[0].name, measure)
        theirs = [value for value in (self.median(load, log.name, measure) for log in self.logs[1:]) if value]
        if not mine or not theirs:
            return None
        return mine / max(theirs) if measure.endswith("second") else min(theirs) / mine

    def behind(self):
        """The measurements in which another log is better."""
        found = [(load, measure) for load in self.loads() for measure, _, _ in MEASURES]
        return [(load, measure) for load, measure in found if (self.times(load, measure) or 1) < 1]


def size_text(size):
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def title(load):
    if load.alone:
        return f"{size_text(load.size)}, one at a time"
    return f"{size_text(load.size)}, {load.clients} clients, {load.window} each on the way"
