"""Contenders with the PostgreSQL protocol: loading by COPY, plain values of answers."""

import datetime
import decimal
import threading

from .contender import Contender, in_threads

CONNECTIONS = 2


class PgContender(Contender):
    way = "protocol of PostgreSQL, binary"
    user = ""

    def connect(self):
        import psycopg

        return psycopg.connect(self.server.dsn(), autocommit=True)

    def execute(self, *statements):
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def copy(self, table, first=0.0, last=1.0):
        """Batches as in TSBS's own loader, over two connections."""
        here = threading.local()

        def send(batch):
            if not hasattr(here, "connection"):
                here.connection = self.connect()
            with here.connection.cursor() as cursor, cursor.copy(f"COPY {table.name} FROM STDIN") as copy:
                copy.write(batch)

        in_threads(CONNECTIONS, send, table.batches(first, last))

    def count(self):
        """True if all rows are stored."""
        with self.connect() as connection:
            for table in self.dataset.tables:
                stored = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
                if stored != table.rows:
                    raise RuntimeError(f"{self.label}: {stored} rows of {table.name}, {table.rows} expected")

    def text(self, query_type, ours):
        return ours

    def answer(self, text):
        with self.connect() as connection:
            cursor = connection.execute(text)
            return [column.name for column in cursor.description], [tuple(map(plain, row)) for row in cursor.fetchall()]

    def run(self, texts, clients=1, seconds=20.0, again=False):
        return self.ask_by_client([f"--address=127.0.0.1:{self.server.port}", f"--user={self.user}"], texts, clients, seconds, again)


def plain(value):
    """Times as microseconds since 1970, intervals as seconds, numbers unchanged."""
    if isinstance(value, datetime.datetime):
        at = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value
