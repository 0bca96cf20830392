"""Adapts statements of PostgreSQL's suite to tables of events.

Both servers get the same statement, except for the end of CREATE TABLE: each table gets an additional last column
for the time, always with the same value, which is its key.
"""

import re

ADDED = "added TIMESTAMPTZ NOT NULL DEFAULT '2000-01-01 00:00+00'"
KEY = ", PRIMARY KEY (added)"
OPTIONS = " WITH (collision = 'all')"

ANYHOW = re.IGNORECASE | re.DOTALL
KINDS = r"(?:(?:GLOBAL|LOCAL)\s+)?(?:TEMP\s+|TEMPORARY\s+|UNLOGGED\s+)?"
TABLE = re.compile(rf"CREATE\s+{KINDS}TABLE\s+(?P<name>(?:IF\s+NOT\s+EXISTS\s+)?[\w.\"]+)\s*\(", ANYHOW)
# Allowed text behind the columns: storage options, and ON COMMIT of a temporary table.
TAIL = re.compile(r"\s*(?:WITH\s*\([^)]*\)\s*)?(?:ON\s+COMMIT[\w\s]+)?$", ANYHOW)
FROM_QUERY = re.compile(
    rf"CREATE\s+{KINDS}TABLE\s+(?P<name>[\w.\"]+)\s+AS\s+(?P<query>(?:SELECT|WITH|VALUES|TABLE)\b.*)$", ANYHOW
)
CONSTRAINT = re.compile(r"(?:CONSTRAINT\s+\w+\s+)?(?:PRIMARY\s+KEY|UNIQUE|FOREIGN\s+KEY)\b", ANYHOW)
# Parts removed from a column: unsupported constraints, unsupported types, unenforced lengths.
AS_OURS = [
    (re.compile(r"\bPRIMARY\s+KEY\b|\bUNIQUE\b|\bREFERENCES\s+\w+(?:\s*\(\w+\))?|\bCOLLATE\s+\"\w+\"", ANYHOW), ""),
    (re.compile(r"(?<=\s)(?:name|(?:varchar|bpchar|char|character(?:\s+varying)?)(?:\s*\(\d+\))?)(?=\s|\[|$)", ANYHOW), "text"),
    (re.compile(r"\bnumeric\s*\(\d{3,},", ANYHOW), "numeric(38,"),
    (re.compile(r"\b(timestamp(?:tz)?)\s*\([1245]\)", ANYHOW), r"\1(3)"),
    (re.compile(r"\btime\s*\([0-5]\)", ANYHOW), "time"),
]
# Sent to neither server. Blocks would contain definitions, `now` differs; the others do not affect answers.
LEFT_OUT = re.compile(
    r"(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|VACUUM|ANALYZE|GRANT|REVOKE|EXPLAIN"
    r"|INSERT\s+INTO\s+\w+\s+VALUES\s*\(\s*'now'|CLUSTER|REINDEX|CHECKPOINT|LOCK|LISTEN|NOTIFY|UNLISTEN|SECURITY|CREATE\s+(?:UNIQUE\s+)?INDEX|DROP\s+INDEX"
    r"|(?:SET|RESET)\s+(?:LOCAL\s+|SESSION\s+)?(?:enable_\w+|\w*work_mem|hash_mem_\w+|(?:max_|min_)?parallel_\w+|max_parallel_\w+"
    r"|random_page_cost|seq_page_cost|cpu_\w+|force_parallel_mode|jit\w*|debug_\w+|plan_cache_mode|geqo\w*|\w+_collapse_limit"
    r"|constraint_exclusion|default_statistics_target|from_collapse_limit|default_toast_compression))(?!\w)",
    ANYHOW,
)


def split(columns):
    """The definitions up to the closing parenthesis of CREATE TABLE, and the rest."""
    parts, depth = [""], 1
    for piece in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|.", columns, re.DOTALL):
        depth += (piece[0] in "([") - (piece[0] in ")]")
        if depth == 0:
            return [part.strip() for part in parts if part.strip()], columns[piece.end():]
        if piece[0] == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += piece[0]
    return [], columns


def as_ours(column):
    for pattern, ours in AS_OURS:
        column = pattern.sub(ours, column)
    return column.strip()


def table(sql):
    """CREATE TABLE for Stratalog and for PostgreSQL; None unless it is a plain list of columns."""
    found = TABLE.match(sql)
    parts, tail = split(sql[found.end():]) if found else ([], "")
    # `CREATE TABLE a (b, c) AS` and `(LIKE …)` list no types.
    if not TAIL.match(tail) or not parts or re.match(r"\w+$|LIKE\b", parts[0], re.IGNORECASE):
        return None
    return both(found["name"], [as_ours(part) for part in parts if not CONSTRAINT.match(part)])


def from_query(name, query, columns):
    """CREATE TABLE AS in both forms, given (name, type) of the query's columns; and the filling statement."""
    names = ", ".join(f'"{column}"' for column, _ in columns)
    defined = [f'"{column}" {as_ours(" " + kind)}' for column, kind in columns if column != "added"]
    return *both(name, defined), f"INSERT INTO {name} ({names}) {query}"


def both(name, columns):
    create = f"CREATE TABLE {name} ({', '.join([*columns, ADDED])}"
    return f"{create}{KEY}){OPTIONS}", f"{create})"


def plain(sql):
    """Other statements: SET LOCAL becomes SET, since LOCAL would end with the statement."""
    return re.sub(r"^SET\s+LOCAL\s+", "SET ", sql, flags=re.IGNORECASE)
