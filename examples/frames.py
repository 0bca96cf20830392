"""Stores an Arrow table, and reads a query as a pandas frame.

pip install adbc-driver-flightsql pyarrow pandas
python examples/frames.py [grpc://host:port]
"""

import datetime
import sys

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow

url = sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:50051"
start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
trades = pyarrow.table({
    "time": pyarrow.array([start + datetime.timedelta(seconds=n) for n in range(1000)], pyarrow.timestamp("us", "UTC")),
    "symbol": ["AAA" if n % 2 else "BBB" for n in range(1000)],
    "price": [100 + n % 7 / 10 for n in range(1000)],
})

with flightsql.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute("DROP TABLE IF EXISTS trades")
    cursor.execute("CREATE TABLE trades (time timestamptz NOT NULL, symbol text NOT NULL, price double precision, PRIMARY KEY (symbol, time))")
    print(cursor.adbc_ingest("trades", trades, mode="append"), "rows stored")

    cursor.execute("""
        SELECT time_bucket(interval '5 minutes', time) AS bucket, symbol, min(price) AS low, max(price) AS high
        FROM trades GROUP BY bucket, symbol ORDER BY bucket, symbol
    """)
    print(cursor.fetch_df())
