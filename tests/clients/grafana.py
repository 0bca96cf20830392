"""Grafana's dashboards as its PostgreSQL source reads them: queries, variables and macros.

The rules are the rules of Grafana's source with `timescaledb: true`. Grafana first replaces variables, then
`$__interval`, then macros with arguments.
"""

import datetime
import json
import re

MACRO = re.compile(r"\$([_a-zA-Z0-9]+)\(([^)]*)\)")
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_557_600}


def seconds_of(interval):
    """The seconds of an interval in Grafana's notation: 20ms, 5m, 12d."""
    number, unit = re.fullmatch(r"(\d+)([a-z]+)", interval.strip(" '")).groups()
    return int(number) * SECONDS[unit]


def rfc3339(moment):
    """A time as Go's RFC3339Nano: without trailing zeros of the fraction."""
    text = moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return f"{text}Z"


def quoted(value):
    return "'" + value.replace("'", "''") + "'"


def macro(name, arguments, start, end):
    """The SQL of one macro."""
    column = arguments[0]
    match name:
        case "__time":
            return f'{column} AS "time"'
        case "__timeEpoch":
            return f'extract(epoch from {column}) as "time"'
        case "__timeFilter":
            return f"{column} BETWEEN '{rfc3339(start)}' AND '{rfc3339(end)}'"
        case "__timeFrom":
            return f"'{rfc3339(start)}'"
        case "__timeTo":
            return f"'{rfc3339(end)}'"
        case "__timeGroup":
            # A third argument fills gaps, in Grafana and not in SQL.
            return f"time_bucket('{seconds_of(arguments[1]):.3f}s',{column})"
        case "__timeGroupAlias":
            return macro("__timeGroup", arguments, start, end) + ' AS "time"'
        case "__unixEpochFilter":
            return f"{column} >= {int(start.timestamp())} AND {column} <= {int(end.timestamp())}"
    raise ValueError(f"unknown macro {name}")


def expand(sql, start, end, interval, variables=None):
    """The statement that Grafana sends for the text of a query."""
    for name, values in (variables or {}).items():
        listed = ",".join(quoted(value) for value in values)
        sql = re.sub(rf"\$(?:{name}\b|\{{{name}(?::sqlstring)?\}})", lambda _: listed, sql)
    sql = sql.replace("$__interval_ms", str(int(seconds_of(interval) * 1_000))).replace("$__interval", interval)

    def replaced(found):
        name, arguments = found[1], [word.strip(" ") for word in found[2].split(",")]
        # A comma behind $__timeGroup: a query from the time before $__timeGroupAlias.
        if name == "__timeGroup" and sql[sql.index(found[0]) + len(found[0]):].startswith(","):
            name = "__timeGroupAlias"
        return macro(name, arguments, start, end)

    return MACRO.sub(replaced, sql)


class Dashboard:
    """One dashboard's JSON."""

    def __init__(self, path):
        self.path = path
        self.body = json.loads(path.read_text())

    def panels(self):
        """All panels, including the panels of collapsed rows."""
        for panel in self.body["panels"]:
            yield panel
            yield from panel.get("panels", [])

    def queries(self):
        """(title of the panel, format, SQL) of each query."""
        for panel in self.panels():
            for target in panel.get("targets", []):
                yield panel["title"], target["format"], target["rawSql"]

    def variables(self):
        """The query of each variable."""
        return {variable["name"]: variable["query"] for variable in self.body["templating"]["list"]}
