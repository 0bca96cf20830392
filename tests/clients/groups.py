"""Control groups: a server in little memory."""

import os
import pathlib

V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group below the present group, with a memory limit. `reason` explains why none is available."""

    def __init__(self, bytes_max):
        self.reason = None
        self.path = None
        own = {}
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path.lstrip("/")
        if "memory" in own:
            root, limit, self.peak_file = V1 / own["memory"], "memory.limit_in_bytes", "memory.max_usage_in_bytes"
        else:
            root, limit, self.peak_file = V2 / own.get("", ""), "memory.max", "memory.peak"
        self.path = root / f"stratalog-test-{os.getpid()}"
        try:
            self.path.mkdir()
            (self.path / limit).write_text(str(bytes_max))
        except OSError as error:
            self.close()
            self.reason = f"no control group can be made: {error}"

    def wrapper(self):
        """The command prefix that runs a command in the group."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def killed(self):
        """Number of processes killed for lack of memory."""
        for name in ("memory.events", "memory.oom_control"):
            try:
                words = (line.split() for line in (self.path / name).read_text().splitlines())
                return next(int(count) for word, count in words if word == "oom_kill")
            except (OSError, StopIteration):
                continue
        return 0

    def peak(self):
        """Peak memory in bytes."""
        return int((self.path / self.peak_file).read_text())

    def close(self):
        """Removes the group after its processes have ended."""
        try:
            self.path.rmdir()
        except OSError:
            pass
