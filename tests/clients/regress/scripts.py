"""Reads psql's scripts: statements, the data of COPY, variables."""

import re

TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*)
    | (?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>  '(?:[^']|'')*' | "(?:[^"]|"")*")
    | (?P<dollar>  (?<![\w$])\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<cast>    ::)
    | (?P<variable>:(?:'\w+'|"\w+"|[A-Za-z_]\w*))
    | (?P<command> \\(?:;|[^\s;]+[^\n]*))
    | (?P<mark>    [();])
    | (?P<other>   [\w]+ | \s+ | .)
    """,
    re.VERBOSE | re.DOTALL,
)


class Statement:
    """A statement: as written, as sent, and the lines behind a COPY FROM STDIN."""

    def __init__(self, line, written, sql):
        self.line = line
        self.written = written
        self.sql = sql
        self.data = None
        self.into = None


def comment_end(text, at):
    """The end of the comment that begins at `at`: comments nest."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def value_of(variable, variables):
    """The replacement for `:name`, `:'name'` or `:"name"`; the text itself if the variable is not set."""
    quote = variable[1] if variable[1] in "'\"" else ""
    name = variable[1:].strip(quote) if quote else variable[1:]
    if name not in variables:
        return variable
    value = variables[name]
    return quote + value.replace(quote, quote * 2) + quote if quote else value


def unquoted(words, variables):
    """The arguments of `\\set`, joined as in psql."""
    joined = ""
    for part in re.findall(r"'(?:[^']|'')*'|:'\w+'|:\w+|[^\s']+", words):
        if part.startswith("'"):
            part = part[1:-1].replace("''", "'")
        joined += value_of(part, variables) if part.startswith(":") else part
    return joined


def statements(text, variables):
    """The statements of a script, one after another; `variables` may change in between."""
    at, start, depth, written, sql = 0, None, 0, [], []

    def finished(into=None):
        nonlocal start, written, sql, depth
        done = Statement(text.count("\n", 0, start or 0) + 1, "".join(written).strip(), "".join(sql).strip())
        done.into = into
        start, depth, written, sql = None, 0, [], []
        return done

    while at < len(text):
        token = TOKEN.match(text, at)
        kind, found = token.lastgroup, token.group()
        if kind == "comment":
            at = comment_end(text, at) if found == "/*" else token.end()
            written.append(" ")
            sql.append(" ")
            continue
        at = token.end()
        if kind == "command" and found != "\\;":
            name, _, words = found[1:].partition(" ")
            if name == "set":
                variable, _, value = words.strip().partition(" ")
                variables[variable] = unquoted(value.strip(), variables)
            elif name in ("gset", "g", "gx") and start is not None:
                yield finished(into=words.strip() if name == "gset" else None)
            elif name in ("gdesc", "gexec", "crosstabview", "r"):
                finished()
            continue
        if found == "(":
            depth += 1
        elif found == ")":
            depth -= 1
        elif found == ";" and depth <= 0:
            if start is None:
                continue
            done = finished()
            if re.match(r"COPY\b.*\bFROM\s+STDIN\b", done.sql, re.IGNORECASE | re.DOTALL):
                begin = text.index("\n", at) + 1
                end = re.compile(r"^\\\.$", re.MULTILINE).search(text, begin)
                done.data, at = text[begin:end.start()], end.end()
            yield done
            continue
        if start is None:
            if found.isspace():
                continue
            start = token.start()
        written.append(found)
        sql.append(value_of(found, variables) if kind == "variable" else ";" if kind == "command" else found)
