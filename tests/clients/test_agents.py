"""Unmodified clients and agents of other products that write lines: InfluxDB's, QuestDB's, Glances."""

import datetime
import shutil
import subprocess
import sys
import time

import influxdb_client
import influxdb_client_3
import pandas
import psycopg
import pytest
import questdb.ingress
from influxdb_client.client.write_api import SYNCHRONOUS

pytestmark = pytest.mark.ours

UTC = datetime.timezone.utc
WHEN = datetime.datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def postgres(server):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def eventually(postgres, sql, wanted, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = postgres.execute(sql).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            found = None
        if found == wanted or time.monotonic() > deadline:
            assert found == wanted
            return
        time.sleep(0.05)


def test_influxdb_3_writes_over_http_and_reads_over_flight(server, table):
    # The client has a single address: the test sends writes to the HTTP port and queries to Flight's port.
    database = f"three_{table}"
    with influxdb_client_3.InfluxDBClient3(
        host=f"http://127.0.0.1:{server.http_port}", database=database, token="any",
        write_client_options=influxdb_client_3.write_client_options(write_options=influxdb_client_3.SYNCHRONOUS),
    ) as client:
        client.write(influxdb_client_3.Point("home").tag("room", "hall").field("degrees", 20.5).field("people", 3).time(WHEN))
        client.write("home,room=attic degrees=12.25 1704067200000000001")
    with influxdb_client_3.InfluxDBClient3(host=f"http://127.0.0.1:{server.flight_port}", database=database, token="any") as client:
        rows = client.query("SELECT room, degrees, people, time FROM home ORDER BY room", language="sql").to_pylist()
        assert [(row["room"], row["degrees"], row["people"]) for row in rows] == [("attic", 12.25, None), ("hall", 20.5, 3)]
        frame = client.query("SELECT count(*) AS c FROM home", language="sql", mode="pandas")
        assert frame["c"].tolist() == [2]
        with pytest.raises(Exception, match="influxql"):
            client.query("SELECT * FROM home", language="influxql")


def test_influxdb_2_points_frames_and_errors(server, postgres, table):
    bucket = f"two_{table}"
    with influxdb_client.InfluxDBClient(url=f"http://127.0.0.1:{server.http_port}", token="any", org="any", enable_gzip=True) as client:
        assert client.ping()
        api = client.write_api(write_options=SYNCHRONOUS)
        api.write(bucket, record=[influxdb_client.Point("m").tag("t", "a,b c=d").field("s", 'say "x"').field("n", 5).time(WHEN)])
        frame = pandas.DataFrame({"v": [1.5, 2.5]}, index=pandas.to_datetime(["2024-01-02", "2024-01-03"], utc=True))
        api.write(bucket, record=frame, data_frame_measurement_name="frame")
        with pytest.raises(influxdb_client.rest.ApiException) as refused:
            api.write(bucket, record="m,t=x n=oops")
        assert refused.value.status == 400
    assert postgres.execute(f'SELECT t, s, n FROM "{bucket}".m').fetchall() == [("a,b c=d", 'say "x"', 5)]
    assert postgres.execute(f'SELECT sum(v) FROM "{bucket}".frame').fetchone() == (4.0,)


@pytest.mark.parametrize("protocol", ["tcp", "http"])
def test_questdb_rows_and_frames(server, postgres, table, protocol):
    port = server.ilp_port if protocol == "tcp" else server.http_port
    with questdb.ingress.Sender.from_conf(f"{protocol}::addr=127.0.0.1:{port};protocol_version=1;") as sender:
        sender.row(table, symbols={"host": "a"}, columns={"v": 1.5, "n": 3, "ok": True, "s": "text"}, at=WHEN)
        frame = pandas.DataFrame({"host": pandas.Categorical(["b", "c"]), "v": [2.5, 3.5], "at": pandas.to_datetime(["2024-01-02", "2024-01-03"])})
        sender.dataframe(frame, table_name=table, symbols=["host"], at="at")
        sender.flush()
    eventually(postgres, f"SELECT count(*), sum(v) FROM {table}", (3, 7.5))
    assert postgres.execute(f"SELECT n, ok, s FROM {table} WHERE host = 'a'").fetchone() == (3, True, "text")


def test_glances_sends_what_it_measures(server, postgres, table, scratch):
    bucket = f"glances_{table}"
    conf = scratch / "glances.conf"
    conf.write_text(f"[influxdb2]\nhost=127.0.0.1\nport={server.http_port}\nprotocol=http\norg=any\nbucket={bucket}\ntoken=any\ninterval=1\n")
    program = shutil.which("glances", path=str(pathlib_of(sys.executable))) or "glances"
    output = scratch / "glances.log"
    # At its end Glances may wait up to five minutes for its threads: the test ends the process.
    with open(output, "wb") as log:
        agent = subprocess.Popen([program, "-C", str(conf), "--export", "influxdb2", "--quiet", "--time", "1"], stdout=log, stderr=log)
    try:
        eventually(postgres, f'SELECT count(*) > 1 FROM "{bucket}".cpu', (True,), 120)
        eventually(postgres, f"SELECT count(*) > 3 FROM information_schema.tables WHERE table_schema = '{bucket}'", (True,))
        assert agent.poll() is None, output.read_text()
    finally:
        agent.kill()
        agent.wait()


def pathlib_of(program):
    return program.rsplit("/", 1)[0]
