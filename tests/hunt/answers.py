"""Runs a statement on both servers and classifies the difference of the answers."""

import re
from decimal import Decimal, InvalidOperation

from psycopg import pq

DIAGNOSTIC = pq.DiagnosticField
# SQLSTATE classes of evaluation: the order of rows is open, so an error against a success is no difference.
EVALUATION = ("22", "21")
# Documented refusals, and limits.
REFUSED = ("0A000", "54000", "54001")


class Answer:
    """The rows of a statement as text, or its error."""

    def __init__(self, result):
        self.state = self.message = None
        self.rows, self.kinds = [], []
        if result.status == pq.ExecStatus.TUPLES_OK:
            self.kinds = [result.ftype(at) for at in range(result.nfields)]
            self.rows = [tuple(_text(result.get_value(row, at)) for at in range(result.nfields)) for row in range(result.ntuples)]
        elif result.status != pq.ExecStatus.COMMAND_OK:
            self.state = (result.error_field(DIAGNOSTIC.SQLSTATE) or b"lost").decode()
            self.message = (result.error_field(DIAGNOSTIC.MESSAGE_PRIMARY) or result.error_message).decode(errors="replace")

    def shown(self, width=240):
        return f"{self.state}: {self.message}"[:width] if self.state else f"{len(self.rows)} rows: {self.rows}"[:width]


def _text(value):
    return None if value is None else bytes(value).decode(errors="replace")


def number(text):
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


# Quotients and averages of numerics have fewer digits than in PostgreSQL (docs/sql/differences.md).
SHORTER = re.compile(r"\bavg\(| / |stddev|var_pop|percentile_cont|\bln\(|\bexp\(|power\(|sqrt\(|div\(|regr_|corr\(")


FLOAT4 = 700
# A number within a text: `{1.50,"a"}`, `{"k": 2.0}`.
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")


def same_texts(ours, theirs, shorter):
    """Equal texts between the numbers, and equal numbers."""
    if NUMBER.sub("0", ours) != NUMBER.sub("0", theirs):
        return False
    return all(same(one, other, shorter) for one, other in zip(NUMBER.findall(ours), NUMBER.findall(theirs)))


def same(ours, theirs, shorter=False, kind=None):
    """Equal texts, or numbers that differ by rounding in the last digits of a double.

    `shorter` allows a number that is cut after four digits or more. PostgreSQL adds values of the type real in
    single precision, Stratalog in double precision.
    """
    if ours == theirs:
        return True
    if ours is None or theirs is None:
        return False
    one, other = number(ours), number(theirs)
    if one is None and other is None and NUMBER.search(ours):
        return same_texts(ours, theirs, shorter)
    if one is None or other is None or not one.is_finite() or not other.is_finite():
        return one is not None and other is not None and one.is_nan() and other.is_nan()
    # A sum of doubles may add its terms in another order.
    allowed = max(abs(one), abs(other)) * Decimal("1e-5" if kind == FLOAT4 else "1e-9")
    digits = -one.as_tuple().exponent
    if shorter and digits >= 4:
        allowed = max(allowed, Decimal(10) ** -digits)
    return one == other or abs(one - other) <= allowed


def difference(ours, theirs, ordered, sql=""):
    """None, or the class of the difference: `lost`, `internal`, `answer`, `error`, `accepted`."""
    if ours.state == "lost":
        return "lost"
    if ours.state and ours.state.startswith("XX"):
        return "internal"
    if ours.state in REFUSED:
        return None
    if theirs.state:
        if ours.state or theirs.state.startswith(EVALUATION):
            return None
        return "accepted"
    if ours.state:
        return "error"
    left, right = (ours.rows, theirs.rows) if ordered else (_sorted(ours.rows), _sorted(theirs.rows))
    if len(left) != len(right):
        return "answer"
    shorter = SHORTER.search(sql) is not None
    kinds = ours.kinds + [None] * max(map(len, left), default=0)
    equal = all(len(a) == len(b) and all(same(x, y, shorter, kind) for x, y, kind in zip(a, b, kinds))
                for a, b in zip(left, right))
    return None if equal else "answer"


def _sorted(rows):
    return sorted(rows, key=lambda row: [_rank(value) for value in row])


def _rank(value):
    """Sort key: NULL first, numbers by their first nine digits and then by all digits, then texts."""
    known = None if value is None else number(value)
    if known is None or not known.is_finite():
        return (0, 0.0, "") if value is None else (2, 0.0, value)
    return (1, float(f"{float(known):.9g}") + 0.0, float(known))


def signature(kind, query, ours):
    """Probably equal for findings with a common cause: the functions and operators, or the words of the error."""
    if kind in ("internal", "error"):
        return kind, ours.state, re.sub(r"[\d.]+|'[^']*'|\"[^\"]*\"", "?", ours.message)[:60]
    return kind, " ".join(sorted(set(re.findall(r"[a-z_]+(?=\()|::\w+|[A-Z]{3,}|[<>=%/*@~|#&^]+", query))))
