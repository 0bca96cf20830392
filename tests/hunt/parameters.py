"""Sends some literals of a query as parameters, in text or in binary."""

import re
import struct
import zlib

# The group `quoted` keeps the digits of other texts out of the search.
LITERAL = re.compile(r"timestamptz '(?P<tstz>[^']*)'|(?<![\w'.:-])(?P<int>\d{1,9})(?![\w'.)\"]|::)|'(?P<text>[a-zA-Z ]{1,6})'(?!::)(?=[ ,)])|(?P<quoted>'[^']*')")
INT4, INT8, TEXT, TSTZ = 23, 20, 25, 1184


def none(query):
    return query.sql(), None


def taken(query):
    """The text with some literals as $1, $2, …, and (value, type, format) for each. The choice depends on the query
    alone, so trials repeat it."""
    sql, sent = query.sql(), []
    # Positions, units and frames must be constants: only the condition behind the last WHERE changes.
    head, where, tail = sql.rpartition(" WHERE ")
    if not where:
        return sql, None
    choice = zlib.crc32(tail.encode())

    def replace(found):
        kind = found.lastgroup
        if kind == "quoted":
            return found[0]
        binary = (choice >> len(sent) % 16) & 1
        if kind == "int":
            number = int(found["int"])
            value = (struct.pack("!i", number) if binary else str(number).encode(), INT4, binary)
        elif kind == "text":
            value = (found["text"].encode(), TEXT, binary)
        else:
            value = (found["tstz"].encode(), TSTZ, 0)
        sent.append(value)
        return f"${len(sent)}"

    condition, by, rest = tail, "", ""
    for word in (" GROUP BY ", " ORDER BY k"):
        if word in condition:
            condition, by, rest = condition.partition(word)
            break
    if "OVERLAPS" in condition or "make_" in condition or "interval" in condition:
        return sql, None
    return head + where + LITERAL.sub(replace, condition) + by + rest, sent or None
