"""Runs a script of PostgreSQL's regression suite on Stratalog and on PostgreSQL, and compares the results."""

import hashlib
import math
import re
from decimal import Decimal, InvalidOperation

from psycopg import pq

from . import rewrite
from .scripts import statements

# Types compared as text: "char", name, bpchar, varchar, unknown, and arrays of these types.
TEXT, TEXTS = {18, 19, 1042, 1043, 705}, {1002, 1003, 1014, 1015}
FLOATS, NUMBERS = {700, 701}, {20, 21, 23, 700, 701, 1700}
MADE = re.compile(
    r"(?P<verb>CREATE|DROP)\s+(?:OR\s+REPLACE\s+)?(?:TEMP\s+|TEMPORARY\s+|UNLOGGED\s+|RECURSIVE\s+|MATERIALIZED\s+)*"
    r"(?:(?P<kind>FUNCTION|PROCEDURE|AGGREGATE)|TABLE|VIEW|TYPE|DOMAIN|SEQUENCE|SCHEMA|COLLATION)\s+"
    r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:\w+\.)?\"?(?P<name>\w+)",
    re.IGNORECASE,
)


class Answer:
    """A server's answer to a statement."""

    def __init__(self, result, copied=()):
        self.error = self.message = None
        if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
            self.error = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"?????").decode()
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
            self.message = message.decode(errors="replace")
        columns = range(result.nfields)
        self.names = [result.fname(at).decode() for at in columns]
        self.types = [25 if (kind := result.ftype(at)) in TEXT else 1009 if kind in TEXTS else kind for at in columns]
        self.rows = [tuple(decoded(result.get_value(row, at)) for at in columns) for row in range(result.ntuples)]
        self.rows += [(decoded(line),) for line in copied]
        if copied:
            self.types = [25]

    def shown(self, limit=700):
        if self.error:
            return f"{self.error} {self.message}"[:limit]
        rows = ", ".join("(" + ", ".join("NULL" if v is None else v for v in row) + ")" for row in self.rows[:8])
        return f"{list(zip(self.names, self.types))}: {len(self.rows)} rows: {rows}"[:limit]


def decoded(value):
    return None if value is None else bytes(value).decode(errors="replace")


class Side:
    """A connection to a server, with the simple protocol."""

    def __init__(self, connection):
        self.wire = connection.pgconn

    def run(self, sql, data=None):
        result, copied = self.wire.exec_(sql.encode()), []
        if result.status == pq.ExecStatus.COPY_IN:
            self.wire.put_copy_data((data or "").encode())
            self.wire.put_copy_end()
        elif result.status == pq.ExecStatus.COPY_OUT:
            while (line := self.wire.get_copy_data(0))[0] > 0:
                copied.append(line[1])
        else:
            return Answer(result)
        while (last := self.wire.get_result()) is not None:
            result = last
        return Answer(result, copied)


def number(value):
    try:
        return Decimal(value)
    except InvalidOperation:
        return None


def same_value(ours, theirs, kinds):
    """Equal, or numbers that differ only in trailing zeros, or floats that differ in their last digits."""
    if ours == theirs or None in (ours, theirs) or not set(kinds) <= NUMBERS:
        return ours == theirs
    one, other = number(ours), number(theirs)
    if None in (one, other) or not (one.is_finite() and other.is_finite()):
        return one is not None and other is not None and one.is_infinite() and one == other
    if not FLOATS & set(kinds):
        return one == other
    return math.isclose(one, other, rel_tol=5e-7 if 700 in kinds else 1e-13)


def same_rows(ours, theirs):
    kinds = list(zip(ours.types, theirs.types))
    return len(ours.rows) == len(theirs.rows) and all(
        same_value(a, b, pair) for one, other in zip(ours.rows, theirs.rows) for a, b, pair in zip(one, other, kinds)
    )


def order_of(row):
    """Sorts numbers by their value, so that 1.0 and 1 are equal."""
    parts = [(value, None if value is None else number(value)) for value in row]
    return [
        (2, 0, "") if value is None else (0, at, "") if at is not None and at.is_finite() else (1, 0, value)
        for value, at in parts
    ]


def difference(ours, theirs, ordered):
    """None if both answers are equal; otherwise a description of the difference in one line."""
    if ours.error or theirs.error:
        if ours.error == theirs.error:
            return None
        return f"error {ours.shown(200) if ours.error else 'none'} -> {theirs.shown(200) if theirs.error else 'none'}"
    if len(ours.types) != len(theirs.types):
        return f"width {len(ours.types)} -> {len(theirs.types)}"
    if not same_rows(ours, theirs):
        ours.rows.sort(key=order_of)
        theirs.rows.sort(key=order_of)
        if not same_rows(ours, theirs):
            return "rows"
        if ordered:
            return "order"
    if ours.names != theirs.names:
        pairs = {f"{one} -> {other}" for one, other in zip(ours.names, theirs.names) if one != other}
        return "names " + ", ".join(sorted(pairs))
    if ours.types != theirs.types:
        pairs = {f"{one} -> {other}" for one, other in zip(ours.types, theirs.types) if one != other}
        return "types " + ", ".join(sorted(pairs))
    return None


class Compared:
    """A statement, both answers, and their difference; `skipped` explains why the statement was not sent."""

    def __init__(self, statement, difference=None, ours=None, theirs=None, skipped=None):
        self.statement, self.difference, self.skipped = statement, difference, skipped
        self.ours, self.theirs = ours, theirs
        # A key from the text, independent of spaces and position.
        self.key = hashlib.sha256(" ".join(statement.written.split()).encode()).hexdigest()[:8]


class Comparison:
    """Two connections for the same scripts."""

    def __init__(self, ours, theirs, suite):
        self.ours, self.theirs = Side(ours), Side(theirs)
        self.variables = {"abs_srcdir": str(suite)}
        # Objects that Stratalog refused to create: `name`, or `name(` for a function.
        self.absent = set()

    def run(self, script, wanted=lambda statement: True):
        for statement in statements(script, self.variables):
            if wanted(statement):
                yield self.compared(statement)

    def compared(self, statement):
        sql = statement.sql
        if rewrite.LEFT_OUT.match(sql):
            return Compared(statement, skipped="left out")
        made = MADE.match(sql)
        words = re.findall(r"\w+\(?", re.sub("'[^']*'", "", sql.lower()))
        if not made and self.absent & {word.strip("(") for word in words} | self.absent & set(words):
            return Compared(statement, skipped="of what we do not have")
        if copied := re.match(r"(COPY\s+.*FROM\s+)'([^']+)'(.*)$", sql, rewrite.ANYHOW):
            sql, statement.data = f"{copied[1]}STDIN{copied[3]}", open(copied[2]).read()
        ours, theirs = self.both(sql, statement.data)
        both = not ours.error and not theirs.error
        if made and ours.error != "42P07":
            name = made["name"].lower() + ("(" if made["kind"] else "")
            (self.absent.add if ours.error and made["verb"].upper() == "CREATE" else self.absent.discard)(name)
        # Created by another script, or not at all.
        if ours.error == theirs.error == "42P01":
            return Compared(statement, skipped="of what we do not have")
        if statement.into is not None and both and theirs.rows:
            values = zip(theirs.names, theirs.rows[0])
            self.variables.update({statement.into + name: value for name, value in values if value is not None})
        ordered = "ORDER BY" in sql.upper().rpartition(")")[2]
        return Compared(statement, difference(ours, theirs, ordered), ours, theirs)

    def both(self, sql, data):
        """If one server refuses a statement, its effects on the other server are undone."""
        for_us, for_them, fill = self.rewritten(sql)
        undoable = sql[:6].upper() == "INSERT"
        if undoable:
            self.ours.run("BEGIN")
        if not sql.upper().startswith("DISCARD"):
            self.theirs.run("BEGIN")
        ours, theirs = self.ours.run(for_us, data), self.theirs.run(for_them, data)
        if ours.error == theirs.error == "42P07" and for_us != for_them:
            return self.again(sql)
        if fill and not ours.error and not theirs.error:
            ours, theirs = self.ours.run(fill), self.theirs.run(fill)
        end = "ROLLBACK" if ours.error or theirs.error else "COMMIT"
        self.theirs.run(end)
        if undoable:
            self.ours.run(end)
        return ours, theirs

    def again(self, sql):
        """Recreates a table that a transaction block would have rolled back: blocks are left out."""
        name = MADE.match(sql)["name"]
        self.theirs.run("ROLLBACK")
        if any(side.run(f"DROP TABLE {name}").error for side in (self.ours, self.theirs)):
            raise RuntimeError(f"{name} can be neither made nor dropped")
        return self.both(sql, None)

    def rewritten(self, sql):
        """The statement for Stratalog, the statement for PostgreSQL, and follow-up statements for both."""
        if tables := rewrite.table(sql):
            return *tables, None
        if found := rewrite.FROM_QUERY.match(sql):
            described = self.theirs.run(f"SELECT * FROM ({found['query']}) AS described LIMIT 0")
            if not described.error and described.types:
                formats = ", ".join(f"format_type({kind}, NULL)" for kind in described.types)
                kinds = self.theirs.run(f"SELECT {formats}").rows[0]
                return rewrite.from_query(found["name"], found["query"], list(zip(described.names, kinds)))
        return rewrite.plain(sql), rewrite.plain(sql), None
