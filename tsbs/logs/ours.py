"""Stratalog: chronicles through the native Rust API, as in `flight/client/examples/log_load`."""

import subprocess

from measures import built
from servers import Stratalog as Server, stratalog_binary  # noqa: E402

from .load import told, words


def program():
    """The load program; built if missing or outdated."""
    return built("log_load", "build", "--release", "-p", "stratalog-client", "--example", "log_load")


class Stratalog:
    name, way = "Stratalog", "durability = 'disk'"

    def __init__(self, directory, *flags):
        self.server = Server(directory, *flags)
        self.program = program()

    def version(self):
        said = subprocess.run([stratalog_binary(), "--version"], capture_output=True, text=True).stdout
        return said.split()[-1]

    def start(self):
        self.server.data_dir.parent.mkdir(parents=True, exist_ok=True)
        self.server.start(600)

    def load(self, load, **more):
        # With one record in flight, a second thread has no work.
        if load.alone:
            more["threads"] = 1
        return self.work("append", *load.flags(), **more)

    def work(self, what, *flags, **more):
        given = {"server": f"chronolog://127.0.0.1:{self.server.flight_port}", "work": what}
        more = {name.replace("_", "-"): value for name, value in more.items()}
        return told([self.program, *words({**given, **more}), *flags])

    def stop(self):
        self.server.stop(seconds=600)
