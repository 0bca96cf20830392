"""Random typed expressions over a table, as trees for the shrinker.

A rule is a text with a hole per operand, such as `round({num}, {small})`. The name in a hole is the operand's type.
"""

import re

HOLE = re.compile(r"\{(\w+)\}")

# Values per type: ordinary values, and edge cases in which engines differ.
LITERALS = {
    "int": ["0", "1", "-1", "2", "7", "42", "-2147483648", "2147483647", "NULL::int"],
    "small": ["0", "1", "2", "3", "-1"],
    "big": ["0::bigint", "1::bigint", "-5::bigint", "9223372036854775807", "(-9223372036854775807)", "NULL::bigint"],
    "float": ["0::float8", "'-0'::float8", "1.5::float8", "-2.25::float8", "'NaN'::float8", "'Infinity'::float8",
              "'-Infinity'::float8", "1e300::float8", "1e-300::float8", "NULL::float8"],
    "real": ["0::real", "'-0'::real", "1.1::real", "-29::real", "'NaN'::real", "NULL::real"],
    "num": ["0.0", "1.50", "-2.25", "0.1", "42.4382", "99999999.99", "123456789012345678.123456789",
            "99999999999999999999.9", "-0.000001", "NULL::numeric"],
    "text": ["''", "'a'", "'abc'", "'ABC'", "'ß'", "'a b'", "'%_\\'", "'é日本'", "'12'", "NULL::text"],
    "bool": ["true", "false", "NULL::bool"],
    "ts": ["timestamp '2024-03-10 02:30:00'", "timestamp '1969-12-31 23:59:59.999999'", "timestamp '2000-02-29'",
           "timestamp '2024-12-31 23:59:59.5'", "timestamp '1700-01-01'", "NULL::timestamp"],
    "tstz": ["timestamptz '2024-03-10 06:59:59+00'", "timestamptz '2024-11-03 05:30:00+00'",
             "timestamptz '2024-03-31 01:00:00+00'", "timestamptz '1970-01-01 00:00:00+00'",
             "timestamptz '2024-10-27 00:30:00.123456+00'", "NULL::timestamptz"],
    "date": ["date '2024-02-29'", "date '1970-01-01'", "date '2023-12-31'", "date '1900-03-01'", "NULL::date"],
    "time": ["time '00:00'", "time '23:59:59.999999'", "time '12:30'", "NULL::time"],
    "interval": ["interval '1 day'", "interval '-1 day'", "interval '1 month'", "interval '36 hours'",
                 "interval '1 mon -3 days 04:05:06.5'", "interval '0'", "NULL::interval"],
    "unit": ["'second'", "'minute'", "'hour'", "'day'", "'week'", "'month'", "'quarter'", "'year'", "'decade'"],
    "field": ["second", "minute", "hour", "day", "dow", "isodow", "doy", "week", "month", "quarter", "year", "epoch"],
    "ints": ["ARRAY[1,NULL,2]", "ARRAY[]::int[]", "'{3,1,2}'::int[]", "NULL::int[]"],
    "texts": ["ARRAY['a','b',NULL]", "'{}'::text[]", "ARRAY['x y','']", "NULL::text[]"],
    "json": ["'{\"a\": 1, \"b\": [1, 2.50, null]}'::jsonb", "'[]'::jsonb", "'\"t\"'::jsonb", "'null'::jsonb",
             "NULL::jsonb"],
}

COLUMNS = {
    "int": ["i", "k"], "big": ["g"], "float": ["f"], "real": ["r"], "num": ["n"], "text": ["s"], "bool": ["b"],
    "ts": ["ts"], "tstz": ["time", "z"], "date": ["d"], "time": ["tm"], "interval": ["v"],
}

COMPARED = ["int", "big", "float", "real", "num", "text", "ts", "tstz", "date", "time", "interval", "bool"]

RULES = {
    "int": ["({int} + {small})", "({int} - {small})", "({int} * {small})", "({int} / {int})", "({int} % {int})",
            "abs({int})", "-({int})", "length({text})", "({int} & {int})", "({int} | {int})", "({int} # {int})",
            "coalesce({int}, {int})", "nullif({int}, {int})", "greatest({int}, {int})", "least({int}, {int})",
            "CASE WHEN {bool} THEN {int} ELSE {int} END", "extract({field} FROM {tstz})::int", "{text}::int",
            "{float}::int", "{num}::int", "{bool}::int", "({date} - {date})", "position({text} IN {text})",
            "array_length({ints}, 1)", "({ints})[{small}]", "cardinality({ints})", "ascii({text})",
            "array_position({ints}, {int})", "jsonb_array_length({json})", "mod({int}, {int})", "sign({int})::int",
            "width_bucket({float}, 0, 10, 5)", "ceil({num})::int", "strpos({text}, {text})"],
    "small": ["({small} + 1)", "length({text})"],
    "big": ["({big} + {int})", "({big} - {big})", "({big} * {small})", "({big} / {int})", "{int}::bigint",
            "{num}::bigint", "coalesce({big}, {int})", "abs({big})", "greatest({big}, {int})", "({big} % {big})"],
    "float": ["({float} + {float})", "({float} - {float})", "({float} * {float})", "({float} / {float})", "-({float})",
              "abs({float})", "sqrt({float})", "round({float})", "floor({float})", "ceil({float})", "{int}::float8",
              "{num}::float8", "{real}::float8", "coalesce({float}, {float})", "greatest({float}, {float})",
              "least({float}, {float})", "nullif({float}, {float})", "extract(epoch FROM {tstz})::float8",
              "CASE WHEN {bool} THEN {float} ELSE {int} END", "exp({small}::float8)", "atan2({float}, {float})",
              "power({float}, {small})", "sign({float})", "trunc({float})", "{text}::float8", "ln({float})"],
    "real": ["({real} + {real})", "({real} * {real})", "{int}::real", "{num}::real", "-({real})", "abs({real})"],
    "num": ["({num} + {num})", "({num} - {num})", "({num} * {num})", "({num} / {num})", "({num} % {num})", "-({num})",
            "abs({num})", "round({num}, {small})", "round({num})", "floor({num})", "ceil({num})", "trunc({num}, {small})",
            "{int}::numeric", "{num}::numeric(20,4)", "coalesce({num}, {int})", "greatest({num}, {num})",
            "extract({field} FROM {ts})", "CASE WHEN {bool} THEN {num} ELSE {int} END", "{text}::numeric",
            "({int} * {num})", "nullif({num}, {num})", "mod({num}, {num})", "sign({num})", "div({num}, {num})"],
    "text": ["({text} || {text})", "upper({text})", "lower({text})", "initcap({text})", "reverse({text})",
             "substr({text}, {small}, {small})", "left({text}, {small})", "right({text}, {small})", "lpad({text}, 5, {text})",
             "rpad({text}, 4, {text})", "replace({text}, {text}, {text})", "repeat({text}, {small})", "{int}::text",
             "{num}::text", "{float}::text", "{bool}::text", "{ts}::text", "{tstz}::text", "{date}::text", "{interval}::text",
             "coalesce({text}, {text})", "concat({text}, {int}, {bool})", "concat_ws(',', {text}, {num})", "md5({text})",
             "to_char({tstz}, 'YYYY-MM-DD HH24:MI:SS.US TZ')", "to_char({num}, 'FM999990.009')", "trim({text})",
             "split_part({text}, ' ', 1)", "translate({text}, 'ab', 'x')", "regexp_replace({text}, '[a-b]+', '<\\&>')",
             "({texts})[{small}]", "array_to_string({texts}, ',', '*')", "quote_literal({text})", "to_hex({int})",
             "CASE {int} WHEN 1 THEN {text} ELSE {text} END", "({json} ->> 'a')", "greatest({text}, {text})",
             "format('%s|%I', {text}, 'x')", "overlay({text} placing 'zz' from 1)", "btrim({text}, 'a')",
             "nullif({text}, {text})", "string_agg_of_none({text})", "chr(abs({small}) + 65)", "{json}::text"],
    "bool": ["({bool} AND {bool})", "({bool} OR {bool})", "NOT ({bool})", "({bool}) IS TRUE", "({bool}) IS NOT FALSE",
             "({bool}) IS NULL", "({text} LIKE '%a%')", "({text} ~ '^a')", "({int} IN ({int}, {int}, 3))",
             "({text} NOT IN ('a', {text}))", "({int} = ANY ({ints}))", "({int} <> ALL ({ints}))",
             "({float} BETWEEN {float} AND {float})", "({num} IN ({num}, 1.5))", "({ints} @> {ints})", "({ints} = {ints})",
             "({json} ? 'a')", "({json} = {json})", "({int} IS DISTINCT FROM {int})", "({tstz} < {date})", "({ts} >= {date})",
             "({tstz} > {ts})", "(({int}, {text}) < ({int}, {text}))", "({int} < {big})", "({int} = {num})",
             "({float} = {num})", "({real} < {float})", "({text} ILIKE {text})", "starts_with({text}, {text})",
             "EXISTS (SELECT 1 FROM h o WHERE o.k = {int})", "({int} IN (SELECT i FROM h WHERE b))",
             "({ts}, {ts}) OVERLAPS ({ts}, {ts})"],
    "ts": ["({ts} + {interval})", "({ts} - {interval})", "date_trunc({unit}, {ts})", "{tstz}::timestamp", "{date}::timestamp",
           "({tstz} AT TIME ZONE 'America/New_York')", "coalesce({ts}, {ts})", "({date} + {time})", "{ts}::timestamp(0)",
           "{ts}::timestamp(3)", "greatest({ts}, {ts})", "date_bin('15 minutes', {ts}, timestamp '2001-01-01')",
           "({date} + {interval})", "({date} - {interval})", "make_timestamp(2024, 2, 3, 4, 5, 6.5)"],
    "tstz": ["({tstz} + {interval})", "({tstz} - {interval})", "date_trunc({unit}, {tstz})", "{ts}::timestamptz",
             "{date}::timestamptz", "({ts} AT TIME ZONE 'Europe/Berlin')", "coalesce({tstz}, {tstz})", "{tstz}::timestamptz(0)",
             "date_trunc({unit}, {tstz}, 'Australia/Lord_Howe')", "to_timestamp({int})", "least({tstz}, {ts})",
             "date_bin('1 day', {tstz}, timestamptz '2001-01-01 00:00+00')", "CASE WHEN {bool} THEN {tstz} END"],
    "date": ["({date} + {small})", "({date} - {small})", "{ts}::date", "{tstz}::date", "coalesce({date}, {date})",
             "greatest({date}, {date})", "make_date(2024, 2, 1 + abs({small}))"],
    "time": ["({time} + {interval})", "{ts}::time", "{tstz}::time", "date_trunc('minute', {interval})::time"],
    "interval": ["({interval} + {interval})", "({interval} - {interval})", "({interval} * {small})", "-({interval})",
                 "({ts} - {ts})", "({tstz} - {tstz})", "age({ts}, {ts})", "justify_hours({interval})", "justify_days({interval})",
                 "({time} - {time})", "make_interval(days => {small})", "date_trunc('hour', {interval})", "({interval} / 2)",
                 "greatest({interval}, {interval})", "age({tstz}, {tstz})"],
    "unit": [], "field": [],
    "ints": ["({ints} || {int})", "array_append({ints}, {int})", "array_remove({ints}, {int})", "({ints})[{small}:]",
             "ARRAY[{int}, {int}]", "string_to_array({text}, 'b')::text[]::int[]", "array_cat({ints}, {ints})"],
    "texts": ["array_append({texts}, {text})", "string_to_array({text}, ' ')", "regexp_split_to_array({text}, 'b')",
              "ARRAY[{text}, {text}]", "({texts})[1:{small}]", "regexp_match({text}, '(a)(b)?')"],
    "json": ["to_jsonb({int})", "to_jsonb({text})", "jsonb_build_object('k', {num})", "({json} -> 'b')", "({json} || {json})",
             "({json} -> {small})", "jsonb_build_array({int}, {text})", "({json} - 'a')"],
}
RULES["text"].remove("string_agg_of_none({text})")

AGGREGATES = [
    ("count(*)", "big"), ("count({int})", "big"), ("count(DISTINCT {float})", "big"), ("count(DISTINCT {text})", "big"),
    ("sum({int})", "big"), ("sum({big})", "num"), ("sum({num})", "num"), ("sum({float})", "float"), ("sum({real})", "real"),
    ("avg({int})", "num"), ("avg({num})", "num"), ("avg({float})", "float"), ("min({int})", "int"), ("max({float})", "float"),
    ("min({float})", "float"), ("max({num})", "num"), ("min({text})", "text"), ("max({tstz})", "tstz"), ("min({date})", "date"),
    ("max({interval})", "interval"), ("sum({interval})", "interval"), ("bool_or({bool})", "bool"), ("bool_and({bool})", "bool"),
    ("stddev_samp({float})", "float"), ("var_pop({float})", "float"), ("corr({float}, {float})", "float"),
    ("string_agg({text}, ',' ORDER BY k)", "text"), ("array_agg({int} ORDER BY k)", "ints"),
    ("count(*) FILTER (WHERE {bool})", "big"), ("sum({num}) FILTER (WHERE {bool})", "num"), ("sum(DISTINCT {num})", "num"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY {float})", "float"), ("bit_and({int})", "int"), ("bit_or({int})", "int"),
    ("mode() WITHIN GROUP (ORDER BY {int})", "int"), ("jsonb_agg({int} ORDER BY k)", "json"), ("every({bool})", "bool"),
    ("percentile_disc(0.3) WITHIN GROUP (ORDER BY {num})", "num"), ("max({time})", "time"), ("regr_count({float}, {float})", "big"),
]

RANKS = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)", "lag({num})", "lead({text}, 2)",
         "lag({int}, 1, -1)", "first_value({float})", "last_value({tstz})", "nth_value({num}, 2)", "lag({float}, 1, 0.7)"]

FRAMES = [
    "", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "RANGE UNBOUNDED PRECEDING", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
]

# The order column of a RANGE frame, and frame widths for its type.
RANGES = [("i", ["1", "3", "-1"]), ("f", ["1", "0.5", "-2"]), ("n", ["1", "2.5"]), ("ts", ["'1 day'", "'-1 hour'"]),
          ("z", ["'1 day'", "'1 month'", "'90 minutes'"]), ("d", ["'1 day'", "'1 month'"]), ("tm", ["'1 hour'"])]


class Node:
    """An expression: a template, and an operand for each of its holes."""

    def __init__(self, kind, template, children=()):
        self.kind, self.template, self.children = kind, template, list(children)

    def sql(self):
        operands = iter(self.children)
        return HOLE.sub(lambda _: next(operands).sql(), self.template)

    def size(self):
        return 1 + sum(child.size() for child in self.children)

    def smaller(self):
        """Trees with a cut: this node replaced by an operand of the same type or by a literal, or a cut further
        down."""
        for child in self.children:
            if child.kind == self.kind:
                yield child
        if self.children and self.kind in LITERALS:
            for literal in LITERALS[self.kind]:
                yield Node(self.kind, literal)
        for at, child in enumerate(self.children):
            for other in child.smaller():
                yield Node(self.kind, self.template, [*self.children[:at], other, *self.children[at + 1:]])


def fill(random, template, kind, depth, columns=True):
    """A node of a template, with random operands."""
    return Node(kind, template, [expression(random, hole, depth, columns) for hole in HOLE.findall(template)])


def expression(random, kind, depth, columns=True):
    """A random expression of a type; `depth` bounds the nesting."""
    if kind == "bool" and depth > 0 and random.random() < 0.4:
        compared = random.choice(COMPARED)
        template = f"({{{compared}}} {random.choice(['=', '<>', '<', '<=', '>', '>='])} {{{compared}}})"
        return fill(random, template, "bool", depth - 1, columns)
    if depth > 0 and RULES.get(kind) and random.random() < 0.75:
        return fill(random, random.choice(RULES[kind]), kind, depth - 1, columns)
    if columns and kind in COLUMNS and random.random() < 0.6:
        return Node(kind, random.choice(COLUMNS[kind]))
    return Node(kind, random.choice(LITERALS[kind]))
