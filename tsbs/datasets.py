"""TSBS's rows as files for loading: COPY text and columns of each table."""

import pathlib
import subprocess
import zlib

import tsbs

# Rows of a COPY statement, as in TSBS's own loader.
BATCH_ROWS = 10_000

TRUCK_TAGS = ["name", "fleet", "driver", "model", "device_version"]
TRUCK_FIGURES = ["load_capacity", "fuel_capacity", "nominal_fuel_consumption"]
READINGS = ["latitude", "longitude", "elevation", "velocity", "heading", "grade", "fuel_consumption"]
DIAGNOSTICS = ["fuel_state", "current_load", "status"]

TEXT, DOUBLE = "TEXT", "DOUBLE PRECISION"


class Table:
    """Name and columns of a table; `path` has its rows as COPY text."""

    def __init__(self, name, columns, key, path):
        self.name, self.columns, self.key, self.path = name, columns, key, pathlib.Path(path)
        self.rows = 0

    def batches(self, first=0.0, last=1.0):
        """COPY text in batches of about BATCH_ROWS rows; `first` and `last` select a part of the file, as fractions."""
        size = self.path.stat().st_size
        begin, end = int(size * first), int(size * last)
        batch = max(1, round(size / max(1, self.rows))) * BATCH_ROWS
        with open(self.path, "rb") as file:
            file.seek(begin)
            if begin:
                file.readline()
            while file.tell() <= end and file.tell() < size:
                take = min(batch, max(0, end - file.tell()))
                yield file.read(take) + file.readline()


def events(name, key, metrics, directory):
    return Table(name, [("time", "TIMESTAMPTZ"), *key, *((metric, DOUBLE) for metric in metrics)],
                 [column for column, _ in key][:1], directory / f"{name}.copy")


class Dataset:
    """The tables of a use case; `tagged` keeps the tags in a separate table, as `--timescale-use-tags` expects."""

    def __init__(self, use_case, tagged, tools, interval, directory):
        self.use_case, self.tagged, self.tools, self.interval = use_case, tagged, tools, interval
        self.directory = directory
        directory.mkdir(parents=True)
        self.lines = directory / "lines"
        if use_case == "iot":
            id_column = [("tags_id", "INTEGER")]
            self.tables = [events("readings", id_column, READINGS, directory), events("diagnostics", id_column, DIAGNOSTICS, directory)]
            tags = [*((tag, TEXT) for tag in TRUCK_TAGS), *((figure, DOUBLE) for figure in TRUCK_FIGURES)]
        elif tagged:
            self.tables = [events("cpu", [("tags_id", "INTEGER")], tsbs.METRICS, directory)]
            tags = [(tag, TEXT) for tag in tsbs.TAGS]
        else:
            self.tables = [events("cpu", [(tag, TEXT) for tag in tsbs.TAGS], tsbs.METRICS, directory)]
            tags = None
        self.tags = tags and Table("tags", [("id", "INTEGER"), *tags], ["id"], directory / "tags.copy")

    @property
    def rows(self):
        return sum(table.rows for table in self.tables)

    def generate(self):
        """Writes the files; their rows are the tool's rows in the original order."""
        process = subprocess.Popen(
            [self.tools.bin / "tsbs_generate_data", *self.tools.common, f"--timestamp-end={self.tools.end}",
             f"--log-interval={self.interval}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 20)
        if self.tags:
            self.write_tagged(process.stdout)
        else:
            with open(self.tables[0].path, "wb", buffering=1 << 20) as out:
                for line in tsbs.copy_lines(process.stdout):
                    out.write(line)
                    self.tables[0].rows += 1
        if process.wait() != 0:
            raise RuntimeError("tsbs_generate_data failed")
        return self

    def write_tagged(self, stream):
        """Writes rows with the number of their tags. As in TSBS's own loader, the first row of a name decides its
        tags, even if later rows differ (iot sometimes omits a tag). TSBS's loader loses rows without a name; here
        these rows get tags without a name."""
        files = {table.name.encode(): (table, open(table.path, "wb", buffering=1 << 20)) for table in self.tables}
        tag_file, ids, by_name, times, pending = open(self.tags.path, "wb"), {}, {}, {}, None
        for line in stream:
            if line.startswith(b"tags,"):
                pending = line
                continue
            name, _, rest = line.rstrip(b"\n").partition(b",")
            if name not in files or pending is None or b"=" not in pending:
                continue
            number = ids.get(pending)
            if number is None:
                values = [pair.split(b"=", 1)[1] or b"\\N" for pair in pending.rstrip(b"\n").split(b",")[1:]]
                known = values[0] if values[0] != b"\\N" else pending
                number = ids[pending] = by_name.setdefault(known, len(by_name) + 1)
                if number > self.tags.rows:
                    self.tags.rows += 1
                    tag_file.write(b"%d\t%s\n" % (number, b"\t".join(values)))
            stamp, _, metrics = rest.partition(b",")
            text = times.get(stamp)
            if text is None:
                if len(times) > 10_000:
                    times.clear()
                text = times[stamp] = tsbs.time_text(int(stamp))
            table, out = files[name]
            values = b"\t".join([value or b"\\N" for value in metrics.split(b",")])
            out.write(b"%s\t%d\t%s\n" % (text, number, values))
            table.rows += 1
        for file in (tag_file, *(out for _, out in files.values())):
            file.close()

    def generate_lines(self):
        """The same rows as line protocol."""
        import lines
        if not self.lines.exists():
            lines.generate(self.tools, self.lines, interval=self.interval)

    def remove(self):
        """Deletes the files that are needed only for loading."""
        for path in (self.lines, *(table.path for table in self.tables)):
            path.unlink(missing_ok=True)

    def fingerprint(self):
        """A hash of the rows: equal for two runs with the same rows."""
        found = 0
        for table in self.tables:
            with open(table.path, "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    found = zlib.crc32(block, found)
        return f"{found:08x}"
