"""The distribution's PostgreSQL: TSBS's text for TimescaleDB, with an added function `time_bucket`."""

import os
import subprocess

import tsbs

from .contender import Missing
from .pg import PgContender

from servers import Postgres as Server  # noqa: E402


class Postgres(PgContender):
    name, user = "PostgreSQL", "postgres"
    SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB", "work_mem": "64MB", "maintenance_work_mem": "1GB",
                "effective_cache_size": "8GB", "random_page_cost": "1.1"}

    @classmethod
    def runs(cls, use_case, tagged):
        return True

    @classmethod
    def install(cls, cache):
        try:
            Server.programs()
        except RuntimeError as error:
            raise Missing(str(error)) from error

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.server = Server(self.directory, self.SETTINGS)

    def version(self):
        said = subprocess.run([Server.programs() / "postgres", "--version"], capture_output=True, text=True).stdout
        return said.split(") ", 1)[-1].split()[0].strip()

    def start(self):
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.server.start()

    def load(self):
        tables = [*self.dataset.tables, *([self.dataset.tags] if self.dataset.tags else [])]
        for table in tables:
            columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
            self.execute(f"CREATE TABLE {table.name} ({columns})")
            self.copy(table)
        # The same indexes as in TSBS's own loader.
        for table in self.dataset.tables:
            self.execute(f"CREATE INDEX ON {table.name} ({table.key[0]}, time DESC)", f"CREATE INDEX ON {table.name} (time DESC)")
        if self.dataset.tags:
            tag = self.dataset.tags.columns[1][0]
            self.execute("ALTER TABLE tags ADD PRIMARY KEY (id)", f"CREATE INDEX ON tags ({tag})")

    def settle(self):
        self.execute(tsbs.TIME_BUCKET_FOR_POSTGRES)
        with self.connect() as connection:
            for table in self.dataset.tables:
                connection.execute(f"VACUUM ANALYZE {table.name}")
            if self.dataset.tags:
                connection.execute("VACUUM ANALYZE tags")
            connection.execute("CHECKPOINT")
        self.count()

    def stored_bytes(self):
        with self.connect() as connection:
            return connection.execute("SELECT pg_database_size(current_database())").fetchone()[0]

    def stop(self):
        self.server.stop()


# The distribution's server does not run as root. It runs under its own user, which must be able to reach the folder.
os.umask(0o022)
