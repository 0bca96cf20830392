"""SQLite's sqllogictest: runs each statement on both servers and ignores SQLite's answers in the file."""

import psycopg

from regress import rewrite

from . import packages

# Number of queries in the short run.
SMALL = 150


def records(text):
    """The (kind, statement) of each record of a file."""
    for block in text.split("\n\n"):
        lines = [line for line in block.strip().splitlines() if line and not line.startswith("#")]
        while lines and lines[0].startswith(("onlyif", "skipif", "hash-threshold", "halt")):
            lines = lines[1:]
        if not lines or not lines[0].startswith(("statement", "query")):
            continue
        statement = []
        for line in lines[1:]:
            if line == "----":
                break
            statement.append(line)
        yield lines[0].split()[0], "\n".join(statement)


class Sqlite:
    """The file select1.test: expressions, subqueries and sorts over one table."""

    name, version = "sqlite", "v0.0.0-20240618184124-ca47f9354216"
    answers = None

    def run(self, server, small):
        folder = packages.go_module("github.com/dolthub/sqllogictest/go", self.version)
        text = (folder / "logictest/parser/testdata/select1.test").read_text()
        found, theirs = {}, "user=postgres" in server.dsn()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS t1")
            for number, (kind, statement) in enumerate(records(text)):
                if small and number > SMALL:
                    break
                made = rewrite.table(statement)
                if made is not None:
                    statement = made[1 if theirs else 0]
                try:
                    cursor = connection.execute(statement.encode())
                    found[f"{number}"] = repr(sorted(cursor.fetchall(), key=repr)) if kind == "query" else "done"
                except psycopg.Error as error:
                    found[f"{number}"] = f"{error.sqlstate}: {error}".split("\n")[0][:160]
        return found
