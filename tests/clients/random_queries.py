"""Random tables and random queries over them, in SQL that means the same everywhere."""

import random

DDL = {
    "keyed": """time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, rack INT NOT NULL, ok BOOLEAN NOT NULL,
        id INT, n INT, f DOUBLE PRECISION, s TEXT, d DATE, PRIMARY KEY (host, rack, ok, time)""",
    "big": "time TIMESTAMPTZ NOT NULL, host TEXT, id INT, n INT",
    "small": "time TIMESTAMPTZ NOT NULL, host TEXT, id INT, n INT",
}
EVENTS = {"keyed": 600, "big": 120, "small": 9}
ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"]


class Generator:
    """Everything is decided by the seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, value):
        return "NULL" if self.random.random() < 0.2 else str(value)

    def inserts(self):
        """INSERT statements: times around 1970, half of them before."""
        pick, below = self.random.choice, self.random.randrange
        for table, events in EVENTS.items():
            rows, keys = [], set()
            while len(rows) < events:
                at = f"'1970-01-01 00:00+00'::timestamptz + interval '{below(-3000, 3000)} s'"
                host = f"'{pick('abcd')}'"
                if table != "keyed":
                    rows.append(f"({at}, {self.maybe(host)}, {self.maybe(below(12))}, {self.maybe(below(4))})")
                    continue
                key = (at, host, below(4), pick(["true", "false"]))
                if key in keys:
                    continue
                keys.add(key)
                text = repr(pick(["a", "b", "c d", "%x_"]))
                rows.append(f"({at}, {host}, {key[2]}, {key[3]}, {self.maybe(below(12))}, {self.maybe(below(10))}, "
                            f"{self.maybe(below(100) / 4)}, {self.maybe(text)}, {self.maybe(repr(f'2026-01-{below(1, 29):02d}'))})")
            yield f"INSERT INTO {table} VALUES {', '.join(rows)}"

    def time(self):
        below = self.random.randrange
        hour, day = self.random.choice([("23", "1969-12-31"), ("00", "1970-01-01")])
        return f"timestamptz '{day} {hour}:{below(60):02d}:{below(60):02d}+00'"

    def condition(self, depth=0):
        """A condition on the one table of a query."""
        pick, below, time = self.random.choice, self.random.randrange, self.time
        kind = below(24)
        if depth < 3 and kind < 5:
            return f"({self.condition(depth + 1)} {pick(['AND', 'OR'])} {self.condition(depth + 1)})"
        if depth < 3 and kind == 5:
            return f"NOT ({self.condition(depth + 1)})"
        if depth < 3 and kind == 6:
            test = pick(["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "NULL", "NOT NULL"])
            return f"({self.condition(depth + 1)}) IS {test}"
        return pick([
            f"time {pick(['<', '<=', '>', '>=', '=', '<>'])} {time()}", f"time BETWEEN {time()} AND {time()}",
            f"time NOT BETWEEN {time()} AND {time()}", f"time IN ({time()}, {time()}, NULL)",
            f"time + interval '1 minute' > {time()}", "time::date = '1969-12-31'",
            f"extract(minute FROM time) = {below(60)}", f"date_trunc('hour', time) = {time()}",
            f"host = '{pick('abcdz')}'", f"host IN ('{pick('abcd')}', NULL)", "host IN ('a', 'b', NULL)",
            "host NOT IN ('a', 'z')", "host NOT IN ('a', NULL)", "host = ANY (ARRAY['a', NULL, 'c'])",
            "host <> ALL (ARRAY['a', 'b'])", "host < 'c'", "host IS NULL", "upper(host) = 'A'", "host || s = 'aa'",
            "nullif(host, 'a') IS NULL", f"rack = {below(5)}", f"rack IN ({below(5)}, {below(5)})",
            "rack IN (1, NULL)", "rack BETWEEN 1 AND 2", "rack = ANY ('{1,2}')", "ok", "NOT ok", "ok = false",
            "ok IS TRUE", "n IN (1, 2, NULL)", f"n > {below(10)}", "n IS NULL", "coalesce(n, 3) = 3", "f * 2 > n",
            f"s LIKE '%{pick(['a', 'x_', 'c'])}%'", f"d >= '2026-01-{below(1, 29):02d}'",
            "(host, rack) IN (('a', 1), ('b', 2), (NULL, 3))", "(rack, n) < (2, 5)", "NULL", "TRUE",
            "CASE WHEN n > 5 THEN host = 'a' ELSE rack = 1 END",
            f"host IN (SELECT host FROM keyed WHERE rack = 1 AND n = {below(10)})",
            "EXISTS (SELECT 1 FROM keyed b WHERE b.host = keyed.host AND b.n = keyed.n AND b.rack <> keyed.rack)",
        ])

    def of_one_table(self):
        where, pick = self.condition(), self.random.choice
        if self.random.random() < 0.1:
            newest = f"SELECT host, max(n) FROM keyed WHERE rack = {self.random.randrange(4)} GROUP BY host"
            where += f" AND (host, n) {pick(['', 'NOT '])}IN ({newest})"
        columns = "time, host, rack, ok, n"
        return pick([
            f"SELECT count(*), sum(n), min(time), max(time), count(s) FROM keyed WHERE {where}",
            f"SELECT {columns} FROM keyed WHERE {where} ORDER BY time, host, rack, ok LIMIT {pick([3, 50])}",
            f"SELECT {columns} FROM keyed WHERE {where} ORDER BY time DESC, host, rack, ok LIMIT 5",
            f"SELECT host, count(*), sum(f), max(time) FROM keyed WHERE {where} GROUP BY host ORDER BY host",
            f"SELECT DISTINCT ON (host) host, time, rack, ok, n FROM keyed WHERE {where} "
            "ORDER BY host, time DESC, rack, ok",
            f"SELECT count(*) FROM keyed WHERE {where} AND host = 'b'",
            "SELECT time, host, rack, ok, row_number() OVER w, sum(n) OVER (w ROWS 3 PRECEDING) FROM keyed "
            f"WHERE {where} WINDOW w AS (PARTITION BY host ORDER BY time, rack, ok) ORDER BY host, time, rack, ok LIMIT 30",
            f"SELECT date_trunc('hour', time), ok, count(*) FROM keyed WHERE {where} GROUP BY 1, 2 ORDER BY 1, 2",
        ])

    def condition_on(self, aliases):
        """A condition on one or two of the tables of a join."""
        pick, below = self.random.choice, self.random.randrange
        a, b = pick(aliases), pick(aliases)
        return pick([
            f"{a}.id IS NULL", f"{a}.n IS NULL", f"{a}.n = {below(4)}", f"coalesce({a}.n, 0) = {below(3)}",
            f"({a}.n = 1) IS NOT TRUE", f"({a}.n = {b}.id) IS NOT FALSE", f"{a}.id IN (1, 2, NULL)",
            f"{a}.host IN ('a', NULL)", f"{a}.host NOT IN ('a', 'b')", f"{a}.n > {b}.n", f"{a}.id + 1 = {b}.id",
            f"{a}.host IS NOT DISTINCT FROM {b}.host", f"{a}.time < {self.time()}", f"{a}.time >= {b}.time",
            f"NOT ({a}.n = 2 AND {b}.id > 3)", f"({a}.n = 1 OR {b}.n = 2)", f"abs({a}.n) = 1",
            f"{a}.host || {b}.host = 'ab'", f"{a}.id BETWEEN 2 AND 7", f"{a}.host = ANY (ARRAY['a', NULL])",
            f"EXISTS (SELECT 1 FROM keyed k WHERE k.id = {a}.id AND k.n = 1)",
            f"{a}.id IN (SELECT id FROM keyed WHERE n = 2)",
            f"{a}.id NOT IN (SELECT id FROM keyed WHERE n = 1 AND id IS NOT NULL)",
        ])

    def of_a_join(self):
        pick, chance = self.random.choice, self.random.random
        kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        left, right = self.random.sample(list(DDL), 2)
        on = pick(["x.id = y.id", "x.id = y.id AND x.host = y.host", "x.n = y.n AND x.id = y.id"])
        aliases, tables = ["x", "y"], f"{left} x {pick(kinds)} {right} y ON {on}"
        if chance() < 0.35:
            aliases.append("z")
            tables += f" {pick(kinds)} {pick(['big', 'small'])} z ON {pick(['x', 'y'])}.id = z.id"
        joined = pick([" AND ", " AND ", " OR "])
        where = joined.join(self.condition_on(aliases) for _ in range(pick([1, 1, 2, 3])))
        shown = pick(["count(*), sum(x.n), sum(y.n), count(x.id), count(y.id)",
                      "x.id, y.id, x.n, y.n, x.host, y.host, x.time, y.time"])
        return f"SELECT {shown} FROM {tables} WHERE {where}"
