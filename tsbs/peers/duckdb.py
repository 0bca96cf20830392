"""DuckDB: TSBS's text for TimescaleDB, adapted to DuckDB's dialect."""

from .embedded import Embedded

# DuckDB divides whole numbers as fractions where PostgreSQL's result is a whole number, and has no average of
# intervals.
REWRITES = [
    ("count(*) / 6", "count(*) // 6"),
    ("/ count(*)", "// count(*)"),
    ("avg(age(stop, start))", "avg(epoch(stop - start))"),
]
# Column types for which `r.*` of a LATERAL join, and `time_bucket` of a text, work unchanged.
KINDS = {"TIMESTAMPTZ": "TIMESTAMP", "TEXT": "VARCHAR", "DOUBLE PRECISION": "DOUBLE"}


class DuckDb(Embedded):
    name, engine = "DuckDB", "duckdb"

    @classmethod
    def runs(cls, use_case, tagged):
        return True

    def load(self):
        for table in [*self.dataset.tables, *([self.dataset.tags] if self.dataset.tags else [])]:
            columns = ", ".join(f"{name} {KINDS.get(kind, kind)}" for name, kind in table.columns)
            types = ", ".join(f"'{name}': '{KINDS.get(kind, kind)}'" for name, kind in table.columns)
            self.execute(
                f"CREATE TABLE {table.name} ({columns})",
                f"INSERT INTO {table.name} SELECT * FROM read_csv('{table.path}', delim = '\t', header = false, quote = '', "
                f"escape = '', nullstr = '\\N', auto_detect = false, columns = {{{types}}})")

    def settle(self):
        self.execute("CHECKPOINT", "ANALYZE")

    def text(self, query_type, ours):
        for before, after in REWRITES:
            ours = ours.replace(before, after)
        return ours
