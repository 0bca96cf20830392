"""Us: chronicles by the native API of Rust, as `flight/client/examples/log_load` uses it."""

import subprocess

from measures import built
from servers import Stratalog as Server, stratalog_binary  # noqa: E402

from .load import told, words


def program():
    """Built when it is not yet, or not of these sources."""
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
        # Who waits for each record has nothing for a second thread to do.
        if load.alone:
            more["threads"] = 1
        return self.work("append", *load.flags(), **more)

    def work(self, what, *flags, **more):
        given = {"server": f"chronolog://127.0.0.1:{self.server.flight_port}", "work": what}
        more = {name.replace("_", "-"): value for name, value in more.items()}
        return told([self.program, *words({**given, **more}), *flags])

    def stop(self):
        self.server.stop(seconds=600)
