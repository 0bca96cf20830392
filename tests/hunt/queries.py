"""Random queries as lists of parts; the shrinker can drop a part or cut an expression."""

from . import grammar
from .grammar import Node, expression, fill

TABLE = """time timestamptz NOT NULL, k int NOT NULL, i int, g bigint, f float8, r real, n numeric(30,6), s text, b bool,
    ts timestamp, z timestamptz, d date, tm time, v interval, PRIMARY KEY (k, time)"""
KINDS = ["int", "big", "float", "real", "num", "text", "bool", "ts", "tstz", "date", "time", "interval"]
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"]
SHOWN = ["int", "big", "float", "num", "text", "bool", "ts", "tstz", "date", "time", "interval", "ints", "texts", "json"]


def rows(random, count):
    """VALUES lists of the table: every type with NULLs, edge cases, and duplicates, all as plain literals."""
    for key in range(count):
        hour = random.randrange(24 * 400)
        values = [f"timestamptz '2023-12-01 00:00+00' + interval '{hour} hours'", str(key)]
        for kind in KINDS:
            values.append("NULL" if random.random() < 0.2 else random.choice(grammar.LITERALS[kind]))
        # Smaller, because the number exceeds the digits of the column.
        values[6] = values[6] if "99999999999999" not in values[6] else "12345678.5"
        yield f"({', '.join(values)})"


class Query:
    """A text with holes, and the trees for them. `drops` are lists of alternatives for a shorter text."""

    def __init__(self, text, nodes, ordered=False, rebuild=None):
        self.text, self.nodes, self.ordered, self.rebuild = text, list(nodes), ordered, rebuild

    def sql(self):
        operands = iter(self.nodes)
        return grammar.HOLE.sub(lambda _: next(operands).sql(), self.text)

    def size(self):
        return sum(node.size() for node in self.nodes)

    def smaller(self):
        if self.rebuild is not None:
            yield from self.rebuild(self)
        for at, node in enumerate(self.nodes):
            for other in node.smaller():
                yield Query(self.text, [*self.nodes[:at], other, *self.nodes[at + 1:]], self.ordered, self.rebuild)


def fewer(prefix, suffix):
    """Shorter select lists: each without one of its items. The last node, the condition, stays."""
    def rebuild(query):
        items, condition = query.nodes[:-1], query.nodes[-1]
        if len(items) > 1:
            for at in range(len(items)):
                left = items[:at] + items[at + 1:]
                yield select(left, condition, prefix, suffix, query.ordered)
        if condition.template != "true":
            yield select(items, Node("bool", "true"), prefix, suffix, query.ordered)
    return rebuild


def select(items, condition, prefix, suffix, ordered):
    holes = ", ".join(f"{{{item.kind}}}" for item in items)
    text = f"SELECT {prefix}{holes} FROM h WHERE {{bool}}{suffix}"
    return Query(text, [*items, condition], ordered, fewer(prefix, suffix))


def condition(random, depth=2):
    return expression(random, "bool", depth) if random.random() < 0.6 else Node("bool", "true")


def constants(random):
    """Queries without a table: constant expressions, computed by the planner."""
    nodes = [expression(random, random.choice(SHOWN), 3, columns=False) for _ in range(2)]
    holes = ", ".join(f"{{{node.kind}}}" for node in nodes)

    def one(query):
        if len(query.nodes) > 1:
            yield from (Query(f"SELECT {{{node.kind}}}", [node], True) for node in query.nodes)

    return Query(f"SELECT {holes}", nodes, True, one)


def scalars(random):
    nodes = [expression(random, random.choice(SHOWN), 3) for _ in range(random.randrange(1, 4))]
    return select(nodes, condition(random), "k, ", " ORDER BY k", True)


def aggregates(random):
    nodes = []
    for _ in range(random.randrange(1, 4)):
        template, kind = random.choice(grammar.AGGREGATES)
        nodes.append(fill(random, template, kind, 2))
    by = random.choice(["", "", "i", "b", "s", "f", "n", "r", "d", "date_trunc('day', z)", "k % 3", "coalesce(i, 0)"])
    if not by:
        return select(nodes, condition(random), "", "", False)
    grouping = random.choice([by, by, f"ROLLUP ({by})", f"CUBE ({by}, b)", f"GROUPING SETS (({by}), ())"])
    # The displayed key is an aggregate of the key: a group of equal floats may display any of its members.
    return select(nodes, condition(random), "", f" GROUP BY {grouping}", False)


def windows(random):
    nodes = []
    for _ in range(random.randrange(1, 3)):
        by = random.choice(["", "PARTITION BY i ", "PARTITION BY f ", "PARTITION BY b ", "PARTITION BY s "])
        if random.random() < 0.3:
            column, widths = random.choice(grammar.RANGES)
            low, high = random.choice(widths), random.choice(widths)
            frame = random.choice([f"RANGE BETWEEN {low} PRECEDING AND {high} FOLLOWING", f"RANGE {low} PRECEDING",
                                   f"RANGE BETWEEN {low} FOLLOWING AND UNBOUNDED FOLLOWING"])
            order = f"ORDER BY {column}{random.choice(['', ' DESC', ' NULLS FIRST'])} {frame}"
            picks = [(t, kind) for t, kind in grammar.AGGREGATES if "WITHIN" not in t and "DISTINCT" not in t and "ORDER" not in t]
            template, kind = random.choice(picks)
        elif random.random() < 0.5:
            template = random.choice(grammar.RANKS)
            kind, order = "value", f"ORDER BY {random.choice(['f', 'i', 'n DESC', 's', 'z'])}, k"
            if template.startswith(("rank", "dense", "percent", "cume")):
                order = f"ORDER BY {random.choice(['f', 'i', 'n DESC', 'r', 'z'])}"
        else:
            picks = [(t, kind) for t, kind in grammar.AGGREGATES if "WITHIN" not in t and "DISTINCT" not in t and "ORDER" not in t]
            template, kind = random.choice(picks)
            order = f"ORDER BY {random.choice(['f', 'i', 'n', 'z'])}, k {random.choice(grammar.FRAMES)}"
        nodes.append(fill(random, f"{template} OVER ({by}{order})", kind, 1))
    return select(nodes, condition(random, 1), "k, ", " ORDER BY k", True)


def sets(random):
    kind = random.choice(["int", "float", "num", "text", "tstz", "date", "interval", "bool"])
    operator = random.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
    return Query(f"SELECT {{{kind}}} FROM h WHERE {{bool}} {operator} SELECT {{{kind}}} FROM h WHERE {{bool}}",
                 [expression(random, kind, 1), condition(random, 1), expression(random, kind, 1), condition(random, 1)])


def distinct(random):
    kind = random.choice(["int", "float", "real", "num", "text", "tstz", "interval"])
    if random.random() < 0.5:
        return Query(f"SELECT count(*) FROM (SELECT DISTINCT {{{kind}}} FROM h WHERE {{bool}}) q",
                     [expression(random, kind, 1), condition(random, 1)])
    return Query(f"SELECT DISTINCT ON (({{{kind}}})) k FROM h WHERE {{bool}} ORDER BY ({{{kind}}}), k",
                 [node := expression(random, kind, 0), condition(random, 1), node])


def joins(random):
    kind = random.choice(["int", "float", "num", "text", "tstz", "date", "bool"])
    how = random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    column = random.choice(grammar.COLUMNS[kind])
    return Query(f"SELECT count(*), count(a.x), count(c.x), sum(a.k), sum(c.k) FROM (SELECT k, {{{kind}}} AS x FROM h WHERE {{bool}}) a "
                 f"{how} (SELECT k, {column} AS x FROM h) c ON a.x = c.x",
                 [expression(random, kind, 1), condition(random, 1)])


def subqueries(random):
    kind = random.choice(["int", "num", "text", "float"])
    template, shown = random.choice([pick for pick in grammar.AGGREGATES if "WITHIN" not in pick[0] and "ORDER" not in pick[0]])
    return Query(f"SELECT k, (SELECT {{{shown}}} FROM h o WHERE o.i = h.i), "
                 f"{{{kind}}} {random.choice(['IN', 'NOT IN'])} (SELECT {{{kind}}} FROM h o WHERE o.b = h.b) FROM h WHERE {{bool}} ORDER BY k",
                 [Node(shown, _inner(template, random)), expression(random, kind, 1),
                  Node(kind, random.choice(grammar.COLUMNS[kind])), condition(random, 1)], True)


def _inner(template, random):
    return grammar.HOLE.sub(lambda hole: "o." + random.choice(grammar.COLUMNS[hole[1]]), template)


SHAPES = [constants, scalars, scalars, aggregates, aggregates, windows, windows, sets, distinct, joins, subqueries]
