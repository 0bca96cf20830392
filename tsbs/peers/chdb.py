"""chDB, which is ClickHouse as a library: TSBS's text for ClickHouse."""

import re

import texts

from .embedded import Embedded

KINDS = {"TIMESTAMPTZ": "DateTime('UTC')", "TEXT": "Nullable(String)", "DOUBLE PRECISION": "Nullable(Float64)", "INTEGER": "UInt32"}


class ChDb(Embedded):
    name, engine = "chDB", "chdb"

    @classmethod
    def runs(cls, use_case, tagged):
        return use_case == "cpu-only"

    def kind(self, table, name, kind):
        if name in table.key:
            return "UInt32" if kind == "INTEGER" else "LowCardinality(String)"
        if kind == "TEXT" and table is not self.dataset.tags:
            return "LowCardinality(String)"
        return KINDS[kind]

    def load(self):
        for table in [*self.dataset.tables, *([self.dataset.tags] if self.dataset.tags else [])]:
            names = ["created_at" if name == "time" else name for name, _ in table.columns]
            columns = ", ".join(f"{name} {self.kind(table, name, kind)}" for name, (_, kind) in zip(names, table.columns))
            order = "id" if table is self.dataset.tags else f"({table.key[0]}, created_at)"
            given = ", ".join(f"{name} {'String' if name == 'created_at' else self.kind(table, name, kind)}"
                              for name, (_, kind) in zip(names, table.columns))
            taken = ", ".join("toDateTime(substring(created_at, 1, 19), 'UTC')" if name == "created_at" else name for name in names)
            self.execute(f"CREATE TABLE {table.name} ({columns}) ENGINE = MergeTree ORDER BY {order}",
                         f"INSERT INTO {table.name} SELECT {taken} FROM file('{table.path}', 'TSV', '{given.replace(chr(39), chr(92) + chr(39))}')")

    def settle(self):
        for table in self.dataset.tables:
            self.execute(f"OPTIMIZE TABLE {table.name} FINAL")

    def text(self, query_type, ours):
        theirs = self.dataset.texts.get("clickhouse", query_type)
        if theirs is None:
            return None
        if not self.dataset.tagged and query_type.startswith("double-groupby"):
            # TSBS's text uses the number of tags in a separate table.
            theirs = re.sub(r"tags_id AS id", "hostname", theirs)
            theirs = re.sub(r"GROUP BY(\s+)hour,(\s+)id", r"GROUP BY\1hour,\2hostname", theirs)
        # ANY INNER JOIN once had the meaning of ANY LEFT JOIN; now it uses each row of both sides only once.
        theirs = theirs.replace("ANY INNER JOIN", "INNER JOIN")
        if query_type == "lastpoint":
            if not self.dataset.tagged:
                # TSBS's text returns every row, because DISTINCT applies to all columns in ClickHouse.
                theirs = "SELECT * FROM cpu ORDER BY hostname ASC, created_at DESC LIMIT 1 BY hostname"
            else:
                theirs = theirs.replace("c.time DESC", "c.created_at DESC")
        return texts.with_parameters(theirs, ours, texts.whole_seconds)
