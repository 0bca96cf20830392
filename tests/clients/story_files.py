"""The contents of stories as read by other tools, and the server's answers, in a common form for comparison.

Everything becomes Arrow. Times become whole numbers of nanoseconds, or of microseconds for types with only
microseconds and a wider range. Floats become their bits, so that equality is bitwise and NaN equals NaN.
"""

import datetime
import re
import struct

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg.adapt import Loader

UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DIGITS_NS = 9
INTERVAL = pa.struct([("months", pa.int64()), ("days", pa.int64()), ("nanoseconds", pa.int64())])


def files(folder):
    """The stories below a folder, in numeric order."""
    return sorted(folder.glob("*/*.parquet"))


# ---------------------------------------------------------------- tools

def pyarrow_reads(paths):
    return pa.concat_tables([pq.read_table(path) for path in paths], promote_options="default")


def duckdb_reads(paths):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [str(path) for path in paths]
        return connection.sql("SELECT * FROM read_parquet(?, union_by_name = true)", params=[names]).to_arrow_table()


def polars_reads(paths):
    frames = [polars.read_parquet(path) for path in paths]
    return polars.concat(frames, how="diagonal").to_arrow()


TOOLS = {"pyarrow": pyarrow_reads, "duckdb": duckdb_reads, "polars": polars_reads}


# ---------------------------------------------------------------- the server's answers

def nanoseconds_of_day(text):
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = text.lstrip("+-").split(":")
    whole, _, part = seconds.partition(".")
    return sign * ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**9 + sign * int(part.ljust(DIGITS_NS, "0") or 0)


def days(text):
    """Days since 1970, for any year from 1 on."""
    return datetime.date.fromisoformat(text).toordinal() - datetime.date(1970, 1, 1).toordinal()


class Raw(Loader):
    """A value from its text form."""

    def load(self, data):
        return self.parse(bytes(data).decode())


class Moment(Raw):
    def parse(self, text):
        day, clock = text.removesuffix("+00").split(" ")
        return days(day) * 86_400 * 10**9 + nanoseconds_of_day(clock)


class Day(Raw):
    def parse(self, text):
        return days(text)


class Clock(Raw):
    def parse(self, text):
        return nanoseconds_of_day(text)


class Interval(Raw):
    def parse(self, text):
        parts = {"months": 0, "days": 0, "nanoseconds": 0}
        for number, unit in re.findall(r"([+-]?\d+) (year|mon|day)s?", text):
            name, factor = {"year": ("months", 12), "mon": ("months", 1), "day": ("days", 1)}[unit]
            parts[name] += int(number) * factor
        clock = re.search(r"[+-]?\d+:\d\d:\d\d(\.\d+)?$", text)
        parts["nanoseconds"] = nanoseconds_of_day(clock[0]) if clock else 0
        return parts


class Uuid(Raw):
    def parse(self, text):
        return bytes.fromhex(text.replace("-", ""))


class Text(Raw):
    def parse(self, text):
        return text


class Real(Raw):
    def parse(self, text):
        return struct.unpack("<i", struct.pack("<f", float(text)))[0]


class Double(Raw):
    def parse(self, text):
        return struct.unpack("<q", struct.pack("<d", float(text)))[0]


LOADERS = {"timestamp": Moment, "timestamptz": Moment, "date": Day, "time": Clock, "interval": Interval, "uuid": Uuid,
           "jsonb": Text, "float4": Real, "float8": Double}


def server_answers(connection, table, columns):
    """`columns` of a table (name: SQL type) and `_seq`, by `_seq`."""
    for name, loader in LOADERS.items():
        connection.adapters.register_loader(name, loader)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET stratalog.fraction_digits = 9")
    names = ["_seq", *columns]
    rows = connection.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY _seq").fetchall()
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    types = ["bigint", *columns.values()]
    return pa.table([pa.array(in_unit(column, of), form(of)) for column, of in zip(values, types, strict=True)], names=names)


def in_unit(values, sql_type):
    """Converts times from nanoseconds to the unit of the comparison."""
    factor = unit_ns(sql_type)
    if factor == 1:
        return values
    of = in_unit if sql_type.endswith("[]") else lambda value, _: value // factor
    return [None if value is None else of(value, sql_type[:-2]) for value in values]


# ---------------------------------------------------------------- the form to compare by

def unit_ns(sql_type):
    """The unit in which times of a type are compared."""
    return 1000 if re.match(r"timestamp(tz)?\([036]\)", sql_type) else 1


def form(sql_type):
    """The Arrow type in which a column is compared."""
    if sql_type.endswith("[]"):
        return pa.list_(form(sql_type[:-2]))
    if sql_type.startswith("numeric"):
        return pa.decimal128(*(int(number) for number in re.findall(r"\d+", sql_type)))
    if sql_type.startswith("timestamp"):
        return pa.int64()
    return {"boolean": pa.bool_(), "text": pa.string(), "jsonb": pa.string(), "bytea": pa.binary(), "date": pa.int64(),
            "time": pa.int64(), "interval": INTERVAL, "uuid": pa.binary(), "real": pa.int32()}.get(sql_type, pa.int64())


def in_form(array, sql_type):
    """Converts a column read by a tool to the type of `form`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if sql_type.endswith("[]"):
        # Flattened, so that gaps under NULLs do not matter.
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
        offsets, end = [], 0
        for length, there in zip(lengths, array.is_valid().to_pylist(), strict=True):
            offsets.append(end if there else None)
            end += length
        return pa.ListArray.from_arrays(pa.array([*offsets, end], pa.int32()), in_form(array.flatten(), sql_type[:-2]))
    if sql_type.startswith("timestamp"):
        assert pa.types.is_timestamp(array.type), f"{sql_type} is read as {array.type}"
        assert (array.type.tz is not None) == sql_type.startswith("timestamptz"), f"{sql_type} is read as {array.type}"
        if unit_ns(sql_type) == 1:
            return pc.multiply_checked(array.cast(pa.int64()), UNITS_NS[array.type.unit])
        return array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    if sql_type == "time":
        assert pa.types.is_time(array.type), f"time is read as {array.type}"
        return pc.multiply_checked(array.cast(pa.int64()), UNITS_NS[array.type.unit])
    if sql_type == "date":
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if sql_type in ("real", "double precision"):
        width, bits = (pa.float32(), pa.int32()) if sql_type == "real" else (pa.float64(), pa.int64())
        assert array.type == width, f"{sql_type} is read as {array.type}"
        return array.view(bits)
    if sql_type == "interval":
        return pa.StructArray.from_arrays(
            [pc.struct_field(array, name).cast(pa.int64()) for name in ("months", "days", "nanoseconds")],
            fields=list(INTERVAL), mask=array.is_null())
    if sql_type == "uuid" and pa.types.is_string(array.type):
        bare = pc.replace_substring(array, "-", "").to_pylist()
        return pa.array([None if value is None else bytes.fromhex(value) for value in bare], pa.binary())
    return array.cast(form(sql_type))


def differences(read, answered, columns):
    """The differences between a tool's rows and the server's answers, a line each; empty if equal."""
    read = read.sort_by("_seq")
    if read.num_rows != answered.num_rows:
        return [f"{read.num_rows} rows are read, {answered.num_rows} answered"]
    found = []
    for name, sql_type in {"_seq": "bigint", **columns}.items():
        if name not in read.column_names:
            found.append(f"{name} is missing")
            continue
        try:
            ours = answered.column(name).combine_chunks()
            theirs = in_form(read.column(name), sql_type)
        except (AssertionError, pa.ArrowException) as error:
            found.append(f"{name} ({sql_type}): {error}")
            continue
        if not theirs.equals(ours):
            pairs = zip(theirs.to_pylist(), ours.to_pylist(), strict=True)
            place, pair = next(((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1]), (None, ("?", "?")))
            found.append(f"{name} ({sql_type}), row {place}: read {pair[0]!r}, answered {pair[1]!r}"[:300])
    return found
