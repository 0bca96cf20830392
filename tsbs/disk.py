"""The bare disk: the time of a write and fdatasync without any log."""

import os
import statistics
import time


class BareWrites:
    """Measures a block write and fdatasync on the disk alone. The files stay until the end,
    because deleting them would cause further disk work."""

    SIZE = 64 << 20

    def __init__(self, directory, block_bytes=4096):
        self.paths = [directory / "appended", directory / "overwritten"]
        self.block = b"\x55" * block_bytes

    def __enter__(self):
        flags = os.O_RDWR | os.O_CREAT
        self.appended, self.overwritten = (os.open(path, flags) for path in self.paths)
        for at in range(0, self.SIZE, 1 << 20):
            os.pwrite(self.overwritten, b"\0" * (1 << 20), at)
        os.fsync(self.overwritten)
        self.end = self.at = 0
        return self

    def __exit__(self, *_):
        for file, path in zip((self.appended, self.overwritten), self.paths):
            os.close(file)
            path.unlink()

    def append(self, seconds):
        """Median in ms of a write at the end of a file, with fdatasync."""
        self.end, median = self.timed(self.appended, self.end, seconds, 1 << 40)
        return median

    def overwrite(self, seconds):
        """Median in ms of a write over existing blocks, with fdatasync."""
        self.at, median = self.timed(self.overwritten, self.at, seconds, self.SIZE)
        return median

    def timed(self, file, offset, seconds, size):
        found, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            os.pwrite(file, self.block, offset)
            os.fdatasync(file)
            found.append((time.perf_counter() - began) * 1000)
            offset = (offset + len(self.block)) % size
        return offset, statistics.median(found)
