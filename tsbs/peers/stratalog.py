"""Stratalog: TSBS's text for TimescaleDB, unchanged."""

import subprocess

from .pg import PgContender

from servers import Stratalog as Server, stratalog_binary  # noqa: E402

# Fractions of the rows if a tenth stays out of stories: half of the tenth in tablets, half in the journal.
SETTLED, IN_TABLETS = 0.9, 0.95


class Stratalog(PgContender):
    name, user = "Stratalog", "stratalog"

    @classmethod
    def runs(cls, use_case, tagged):
        return True

    def __init__(self, *arguments, fresh=False, **more):
        super().__init__(*arguments, **more)
        self.fresh = fresh
        self.server = Server(self.directory)

    def version(self):
        said = subprocess.run([stratalog_binary(), "--version"], capture_output=True, text=True).stdout
        return said.split()[-1]

    def start(self):
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.server.start(600)

    def create(self, table):
        """The DDL that a user would write: a series for each host or truck."""
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
        # Trucks without a name share their series, and may report at the same time.
        collision = "next" if self.dataset.use_case == "iot" else "last"
        return f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({table.key[0]}, time)) WITH (collision = '{collision}')"

    def load(self):
        tags = self.dataset.tags
        if tags:
            # Every table has a time column: here the first occurrence of the tags.
            columns = ", ".join(f"{name} {kind}" for name, kind in tags.columns)
            self.execute(f"CREATE TABLE tags (added TIMESTAMPTZ NOT NULL DEFAULT now(), {columns}, PRIMARY KEY (id, added))")
            with self.connect() as connection, connection.cursor() as cursor:
                with cursor.copy(f"COPY tags ({', '.join(name for name, _ in tags.columns)}) FROM STDIN") as copy:
                    copy.write(tags.path.read_bytes())
        for table in self.dataset.tables:
            self.execute(self.create(table))
        if not self.fresh:
            for table in self.dataset.tables:
                self.copy(table)
            return
        for first, last, then in ((0.0, SETTLED, "compact"), (SETTLED, IN_TABLETS, "flush"), (IN_TABLETS, 1.0, None)):
            for table in self.dataset.tables:
                self.copy(table, first, last)
                if then:
                    self.execute(f"CALL stratalog.{then}('{table.name}')")

    def settle(self):
        names = [table.name for table in self.dataset.tables] + (["tags"] if self.dataset.tags else [])
        if not self.fresh:
            for name in names:
                self.execute(f"CALL stratalog.compact('{name}')")
        self.count()
        with self.connect() as connection:
            tiers = dict(connection.execute("SELECT tier, sum(rows)::int8 FROM stratalog.pieces GROUP BY tier").fetchall())
        self.notes.append(", ".join(f"{rows:,} rows in tier {tier}" for tier, rows in sorted(tiers.items())))

    def restart(self):
        # Fresh rows are not moved.
        if not self.fresh:
            super().restart()

    def stop(self):
        self.server.stop(seconds=600)
