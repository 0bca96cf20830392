"""Reasons for differences from PostgreSQL: the first matching reason applies.

`open` reasons are faults of Stratalog, to be fixed or documented; all others name their documentation.
"""

import re

DIFFERENCES = "docs/sql/differences.md"


class Reason:
    def __init__(self, name, why, difference, sql="", sometimes=False):
        self.name, self.why, self.sometimes = name, why, sometimes
        self.difference, self.sql = re.compile(difference, re.DOTALL), re.compile(sql, re.IGNORECASE | re.DOTALL)

    def fits(self, compared):
        return self.difference.match(compared.difference) and self.sql.search(compared.statement.sql)


NO = r"error 0A000 .*"
MISSING = r"error 42883 (?:function )?"
SYNTAX = r"error 42601 syntax error"

REASONS = [
    # Refused by design.
    Reason("writes", "docs/sql/statements.md: events never change",
           NO + r"(?:UPDATE|TRUNCATE|DELETE|MERGE|FOR UPDATE|INSERT inside|DO UPDATE)"),
    Reason("writes", "the same, in syntax that is not read", r"error ", r"^\s*(?:update|delete|merge)\b|\bmerge into\b|do update set"),
    Reason("definitions", f"{DIFFERENCES}, Not yet: views, functions, types, constraints, sequences …",
           NO + r"(?:view|function, procedure|TYPE|DOMAIN|DROP|OPERATOR|temporary table|inherit|CONSTRAINT|CHECK|UNIQUE"
           r"|generated|serial|sequence|grants|ROLE|AUTHORIZATION|TABLE AS|SELECT INTO|CreateMemoryTable|an index|COLLATION)"),
    Reason("definitions", "the same, in syntax that is not read", r"error (?:42601|42704)",
           r"^\s*(?:create|alter|drop|comment|do|reset session|set session)\b"),
    Reason("types", "docs/sql/types.md, Not offered; limits of numeric, timestamp and time",
           r"error (?:0A000 .*(?:type \S+|bit strings|time with time zone|arrays? (?:of|with)|SQL type)"
           r"|42704 type \"|22023 (?:timestamp precision|NUMERIC (?:precision|scale)))"),
    Reason("json as jsonb", "docs/sql/types.md: json is not offered, a cast to it gives jsonb",
           r"(?:types 3802 -> 114|rows|names 3802|error .*)", r"\bjson\b(?! *\()"),
    Reason("bounds of numeric", f"{DIFFERENCES}: 38 digits, no NaN or infinity, constants beyond are double precision",
           r"error (?:0A000 numeric cannot hold|22003 (?:Cannot cast to Decimal|numeric field overflow"
           r"|\".*\" is out of range for type double precision)|22P02 invalid input syntax for type numeric: \"-?(?:nan|inf))"),
    Reason("infinite times", f"{DIFFERENCES}, Not yet: infinite dates, timestamps and intervals",
           NO + r"(?:date|timestamp|timestamp with time zone|interval) cannot hold"),
    Reason("range of timestamps", f"{DIFFERENCES}, Small things: from 1677 to 2262 without a precision",
           r"error 22008 (?:timestamp out of range|date out of range)"),
    Reason("numeric by double", f"{DIFFERENCES}: averages and quotients of numerics, sums of bigint",
           r"types (?:(?:701|20) -> 1700(?:, )?)+$"),
    Reason("open rows", "series, windows and orders within subqueries; variance of what is no number", r"rows", r"1\.234 \^|exp\(1234|\bvar_pop\((?:'|x::float)|\bFROM few\b|\bsq_limit\b"),
    Reason("numeric by double", "exp, ln, log, power, stddev and variance of numerics; digits beyond a double's",
           r"rows", r"\^|\b(?:exp|ln|log|power|stddev|var_pop)\b|num_exp_power|numeric/1000|/ 123\b|jsonb::numeric|regr_|num_col"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: cursors in SQL", NO + r"cursor of SQL"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: patterns of to_timestamp and to_date, of the zone in to_char",
           NO + r"(?:with a pattern|to_char has no pattern)"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: to_char of numbers and intervals", MISSING + r"to_(?:char\(|number)"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: EXCLUDE in the frame of a window", NO + r"EXCLUDE"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: subqueries that are not joins",
           r"error (?:0A000 .*(?:subquer|LATERAL|ANY and ALL)|42601 (?:In/Exist|Correlated))"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: series between columns, twice or beside *",
           r"error (?:0A000 .*(?:generate_series|a series between)|42601 Arguments must be literals)"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: yesterday, today, tomorrow", NO + r"\"(?:today|tomorrow|yesterday|now|allballs)"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: WITH TIES, several fractions, GROUP BY (), OVERLAPS, BETWEEN SYMMETRIC, slices",
           r"error (?:0A000 .*(?:WITH TIES|array of fractions|Empty tuple|literals are supported in tuples|Slice subscript)"
           r"|42601 .*near \"(?:symmetric|sets|rollup)\")"),
    Reason("not yet", f"{DIFFERENCES}, Not yet: functions that are not there",
           MISSING + r"(?:jsonb_(?:agg|object_agg|each|object_keys|set)|row_to_json|regexp_(?:matches|split_to_array|split_to_table)"
           r"|string_to_table|trim_array|array_fill|get_byte|isfinite)\b"),
    Reason("settings", "docs/sql/session-settings.md: what would have no effect, or is unknown, is refused",
           r"error (?:42704 unrecognized configuration|0A000 (?:DateStyle|standard_conforming)|55P02)"),
    Reason("text search", "to_tsvector and its like: not a part of Stratalog", MISSING + r"(?:\w*to_tsvector|ts_headline)"),
    Reason("server's own", "functions of PostgreSQL's inside: state transitions, binary forms, files of the server",
           MISSING + r"(?:float\w+(?:send|accum|combine)|numeric_inc|bool\w+_statefunc|interval_hash|pg_ls_\w+|pg_lsn"
           r"|pg_log_\w+|pg_tablespace_databases|pg_column_size|pg_collation_for)\b"),
    Reason("order left open", "ties of ORDER BY, rows of LIMIT or frames of windows without an order",
           r"(?:order|rows)", r"over *\(|limit \d"),
    # Faults, to be fixed or documented.
    Reason("open jsonb functions", "functions and operators of jsonb and json",
           r"error (?:42883 (?:function jsonb?_|function (?:to_json|array_to_json)\b|operator does not exist: (?:text|jsonb) - )|0A000 (?:Operator|.*<@)"
           r"|42883 .*jsonb|22023 Cannot access field|42804 cannot subscript type text)"),
    Reason("open functions", "functions that no list names", MISSING + r"(?:function )?\w+ does not exist"),
    Reason("open arguments", "arguments of unknown type, numbers of arguments; operators on them", r"error 42883"),
    Reason("open variadic", "VARIADIC", SYNTAX, r"variadic"),
    Reason("open syntax", "syntax that is not read", r"error 42601 "),
    Reason("open intervals", "interval input", r"error (?:22007 invalid input syntax for type interval|22015|0A000 Unsupported Interval)"),
    Reason("open times", "date and time input", r"error (?:22007|22008|22023 (?:time zone|numeric time zone))"),
    Reason("open aliases", "fewer names than columns", r"error 42P10 a table has"),
    Reason("open series types", "constants and series are bigint", r"types (?:.*(?:20 -> 23|1016 -> 1007|1231 -> 1007).*)"),
    Reason("open types", "types of results", r"types "),
    Reason("open names", "names of columns", r"names "),
    Reason("open accepted", "accepted, fails there", r"error none"),
    Reason("open rows", "wrong answers", r"rows|width|order"),
    Reason("open refused", "refused in words that no document has", r"error 0A000"),
    Reason("open errors", "another SQLSTATE, or one where none belongs", r"error "),
]


def reason_of(compared):
    return next((reason for reason in REASONS if reason.fits(compared)), None)
