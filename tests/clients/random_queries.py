"""Random tables and random queries, in SQL with the same meaning on every server."""

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
    """The seed determines every choice."""

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
        """A condition on the single table of a query."""
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

    def plain_condition(self):
        """A condition without a subquery."""
        while True:
            condition = self.condition(2)
            if "SELECT" not in condition:
                return condition

    def number(self, depth=0):
        pick, below = self.random.choice, self.random.randrange
        kind = below(12)
        if depth < 2 and kind < 8:
            one, other = self.number(depth + 1), self.number(depth + 1)
            return [f"({one} + {other})", f"({one} - {other})", f"({one} * {other})", f"coalesce({one}, {below(5)})",
                    f"abs({one})", f"CASE WHEN n > {below(9)} THEN {one} ELSE {other} END",
                    f"greatest({one}, {other})", f"nullif({one}, {below(5)})"][kind]
        return pick(["n", "id", "rack", str(below(20) - 5), "length(s)", "extract(minute FROM time)::int", "f::int"])

    def text(self):
        return self.random.choice([
            "host", "s", "upper(host)", "host || '-' || rack", "substr(s, 1, 2)", "coalesce(s, 'none')", "n::text",
            "to_char(time, 'HH24:MI:SS')", "lpad(host, 3, '*')", "replace(s, 'a', 'zz')", "concat(host, n, s)",
            "left(s, -1)", "split_part(s, ' ', 1)", "repeat(host, rack)", "position('d' IN s)::text", "reverse(s)",
            "md5(host)", "initcap(s)", "ok::text", "d::text",
        ])

    def moment(self):
        units = ["minute", "hour", "day", "week", "month", "quarter", "year"]
        return self.random.choice([
            "time", f"date_trunc('{self.random.choice(units)}', time)", "time - interval '1 day 2 hours'",
            "date_bin('90 seconds', time, timestamptz '1970-01-01')", "d + 1", "time::date", "d + interval '1 month'",
            "time AT TIME ZONE 'Asia/Tokyo'", "time - timestamptz '1970-01-01 00:00+00'", "time::time",
            "age(d, date '2025-12-31')", f"time + interval '{self.random.randrange(90)} minutes'",
        ])

    def aggregate(self):
        number, ordered = self.number(), "ORDER BY time DESC, host, rack, ok"
        return self.random.choice([
            "count(*)", f"count({number})", f"count(DISTINCT {number})", f"sum({number})", f"min({number})",
            f"max({self.text()})", f"min({self.moment()})", f"max({self.moment()})", "sum(f)", "avg(f)", "bool_or(ok)",
            "bool_and(n > 3)", f"string_agg(host, ',' {ordered})", f"array_agg(n {ordered})", "sum(DISTINCT n)",
            f"count(*) FILTER (WHERE {self.plain_condition()})", f"max({number}) FILTER (WHERE n > 2)",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY f)", "mode() WITHIN GROUP (ORDER BY n)", "stddev_samp(f)",
            "round(avg(n), 3)",
        ])

    def over(self):
        pick = self.random.choice
        by = pick(["PARTITION BY host", "PARTITION BY host, rack", "PARTITION BY ok", ""])
        order = pick(["ORDER BY time, host, rack, ok", "ORDER BY time DESC, host, rack, ok"])
        if self.random.random() < 0.4:
            ranking = ["row_number()", "rank()", "dense_rank()", "ntile(3)", "cume_dist()", "percent_rank()", "lag(n)",
                       "lead(n, 2)", "lag(n, 1, -1)"]
            return f"{pick(ranking)} OVER ({by} {order})"
        frame = pick(["", "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING", "ROWS UNBOUNDED PRECEDING",
                      "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING"])
        function = pick(["first_value(n)", "last_value(n)", "nth_value(n, 2)", "sum(n)", "count(n)", "min(n)", "max(f)",
                         "avg(f)", "array_agg(n)", "bool_or(ok)", "string_agg(host, '')"])
        return f"{function} OVER ({by} {order} {frame})"

    def of_expressions(self):
        pick, below = self.random.choice, self.random.randrange
        where, joins = self.condition(), ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        group = pick(["host", "rack", "ok", "host, rack", self.text(), "date_trunc('hour', time)", "n % 3"])
        return pick([
            f"SELECT {self.number()} AS a, {self.text()} AS b, {self.moment()} AS c FROM keyed WHERE {where} "
            "ORDER BY time, host, rack, ok LIMIT 40",
            f"SELECT {group}, {self.aggregate()}, {self.aggregate()} FROM keyed WHERE {where} GROUP BY {group} "
            + pick(["", "HAVING count(*) > 2", "HAVING max(n) > 5"]),
            f"SELECT time, host, rack, ok, {self.over()}, {self.over()} FROM keyed WHERE {where} "
            "ORDER BY time, host, rack, ok LIMIT 60",
            f"SELECT host, n FROM keyed WHERE {where} {pick(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'])} "
            f"SELECT host, n + {below(2)} FROM {pick(['keyed', 'big', 'small'])} WHERE n > {below(4)}",
            f"WITH a AS (SELECT host, {self.aggregate()} AS x FROM keyed WHERE {where} GROUP BY host), "
            f"b AS (SELECT host, count(*) AS y FROM big GROUP BY host) SELECT * FROM a {pick(joins)} b ON a.host = b.host",
            f"SELECT {self.aggregate()}, {self.aggregate()}, {self.aggregate()} FROM keyed WHERE {where}",
            f"SELECT host, {self.aggregate()} FROM keyed WHERE {where} "
            f"GROUP BY {pick(['GROUPING SETS ((host), ())', 'ROLLUP (host)', 'CUBE (host)'])}",
        ])
