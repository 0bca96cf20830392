"""Prometheus remote write, OpenTelemetry's exporters, and requests that neither of them sends."""

import gzip
import json
import logging
import math
import pathlib
import shutil
import struct
import subprocess
import urllib.parse
import urllib.request

import psycopg
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from servers import free_port
from test_agents import eventually
from test_http import ask

pytestmark = pytest.mark.ours
SECOND = 1_704_067_200


@pytest.fixture
def postgres(server):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def series(labels, samples):
    """A series with labels in the given order."""
    body = b"".join(field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in labels.items())
    for value, at_ms in samples:
        body += field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at_ms))
    return field(1, body)


def snappy(body):
    """Snappy's block format, without any compression."""
    out = varint(len(body))
    for at in range(0, len(body), 60):
        piece = body[at:at + 60]
        out += bytes([len(piece) - 1 << 2]) + piece
    return out


def remote_write(server, body, path="/api/v1/write", **headers):
    headers = {"Content_Type": "application/x-protobuf", "Content_Encoding": "snappy",
               "X_Prometheus_Remote_Write_Version": "0.1.0", **headers}
    status, _, answer = ask(server, path, body, "POST", **headers)
    return status, answer.decode()


def documented_metrics():
    """The type of each metric in the documentation."""
    lines = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text().splitlines()
    cells = [line.split(" | ") for line in lines if line.startswith("| `stratalog_") and line.count(" | ") == 4]
    return {cell[0].removeprefix("| ").strip("`"): cell[1] for cell in cells}


def test_prometheus(server, postgres, table, tmp_path):
    program = shutil.which("prometheus")
    assert program, "Prometheus is missing: run scripts/setup test, and have scripts/environment in the PATH"
    port = free_port()
    each, one = f"each_{table}", f"one_{table}"
    (tmp_path / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: itself, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}
  - {{job_name: stratalog, static_configs: [{{targets: ["127.0.0.1:{server.http_port}"], labels: {{rack: r1}}}}]}}
remote_write:
  - {{url: "http://127.0.0.1:{server.http_port}/api/v1/write?db={each}", queue_config: {{batch_send_deadline: 1s}}}}
  - {{url: "http://127.0.0.1:{server.http_port}/api/v1/write?db={one}&table=samples", queue_config: {{batch_send_deadline: 1s}}}}
""")
    running = subprocess.Popen(
        [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=(tmp_path / "log").open("w"))
    try:
        for schema, of in ((each, "up"), (one, "samples")):
            up = "" if of == "up" else "WHERE metric = 'up'"
            eventually(postgres, f"SELECT count(DISTINCT job), min(value), count(*) >= 6 FROM {schema}.{of} {up}", (2, 1.0, True), 60)
        # Its other metrics have labels that `up` lacks: all of them become columns.
        eventually(postgres, f"SELECT count(*) > 0 FROM {one}.samples WHERE metric = 'prometheus_http_requests_total' AND code = '200'", (True,), 60)
        assert postgres.execute(f"SELECT DISTINCT rack FROM {each}.stratalog_sessions").fetchall() == [("r1",)]
        asked = urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?query=prometheus_remote_storage_samples_failed_total%2Bprometheus_remote_storage_samples_dropped_total")
        failed = [result["value"][1] for result in json.load(asked)["data"]["result"]]
        assert failed == ["0", "0"], (tmp_path / "log").read_text()
        # Prometheus's own data equals the data stored by Stratalog.
        at = postgres.execute(f"SELECT max(time) FROM {each}.stratalog_gsn WHERE time < (SELECT max(time) FROM {each}.stratalog_gsn)").fetchone()[0]
        theirs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query=stratalog_gsn&time={at.timestamp()}"))
        ours = postgres.execute(f"SELECT value FROM {each}.stratalog_gsn WHERE time = %s", (at,)).fetchone()[0]
        assert float(theirs["data"]["result"][0]["value"][1]) == ours
        # Prometheus' own parser reads every documented metric with its type, and no other metric.
        asked = urllib.parse.urlencode({"match_target": '{job="stratalog"}'})
        parsed = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/targets/metadata?{asked}"))["data"]
        assert {one["metric"]: one["type"] for one in parsed} == documented_metrics()
        # Its functions accept the histograms: the statements of this test took less than two minutes each.
        asked = urllib.parse.urlencode({"query": 'histogram_quantile(0.99, sum by (le) (stratalog_query_execution_seconds_bucket{statement="read"}))'})
        [found] = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}"))["data"]["result"]
        assert 0 < float(found["value"][1]) <= 120
        eventually(postgres, f"SELECT max(value) > 0, count(DISTINCT job) FROM {each}.stratalog_door_request_seconds_bucket "
                             "WHERE door = 'http' AND request = 'telemetry' AND le = '+Inf'", (True, 1), 60)
    finally:
        running.terminate()
        running.wait(30)


def test_opentelemetry(server, postgres, table):
    schema = f"otel_{table}"
    resource = Resource.create({"service.name": "shop", "service.instance.id": "i1", "cloud.region": "no-1"})
    exporter = OTLPMetricExporter(endpoint=f"http://127.0.0.1:{server.http_port}/v1/metrics?db={schema}", compression=Compression.Gzip)
    provider = MeterProvider(metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)], resource=resource)
    meter = provider.get_meter("checkout", "1.2")
    orders = meter.create_counter("orders.placed", unit="1")
    orders.add(2, {"country": "NO"})
    orders.add(3, {"country": "SE", "paid.by": "card"})
    meter.create_histogram("duration", unit="s", explicit_bucket_boundaries_advisory=[0.1, 1.0]).record(0.5)
    meter.create_observable_gauge("depth", callbacks=[lambda _: []])
    assert provider.force_flush()
    orders.add(1, {"country": "NO"})
    provider.shutdown()
    rows = postgres.execute(f"SELECT country, paid_by, job, instance, otel_scope_name, max(value) FROM {schema}.orders_placed "
                            "GROUP BY 1, 2, 3, 4, 5 ORDER BY 1").fetchall()
    assert rows == [("NO", "", "shop", "i1", "checkout", 3.0), ("SE", "card", "shop", "i1", "checkout", 3.0)]
    buckets = postgres.execute(f"SELECT DISTINCT le, value FROM {schema}.duration_bucket ORDER BY le").fetchall()
    assert buckets == [("+Inf", 1.0), ("0.1", 0.0), ("1", 1.0)]
    assert postgres.execute(f"SELECT DISTINCT value FROM {schema}.duration_sum").fetchall() == [(0.5,)]
    assert postgres.execute(f"SELECT DISTINCT cloud_region FROM {schema}.target_info").fetchall() == [("no-1",)]

    logs = LoggerProvider(resource=resource)
    exporter = OTLPLogExporter(endpoint=f"http://127.0.0.1:{server.http_port}/v1/logs?db={schema}&table=lines")
    logs.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = logging.getLogger(f"shop.{table}")
    logger.propagate = False
    logger.addHandler(LoggingHandler(logger_provider=logs))
    logger.warning("slow %s", "query", extra={"seconds": 1.5})
    logger.error("line one\nline two")
    logs.shutdown()
    rows = postgres.execute(f"SELECT severity_text, body, service_name, attributes::jsonb ->> 'seconds' FROM {schema}.lines ORDER BY time").fetchall()
    assert rows == [("WARN", "slow query", "shop", "1.5"), ("ERROR", "line one\nline two", "shop", None)]


def test_samples_of_any_value_and_labels_that_come_later(server, postgres, table):
    at = SECOND * 1000
    body = series({"__name__": table, "host": "a"}, [(1.5, at), (math.inf, at + 1), (math.nan, at + 2)])
    assert remote_write(server, snappy(body)) == (204, "")
    # A repeated request has no effect.
    assert remote_write(server, snappy(body)) == (204, "")
    later = series({"__name__": table, "host": "a", "rack": "r"}, [(2, at)]) + series({"__name__": table}, [(3, at)])
    assert remote_write(server, snappy(later), "/api/v1/write?durability=relaxed") == (204, "")
    rows = postgres.execute(f"SELECT host, rack, value::text FROM {table} ORDER BY time, host, rack").fetchall()
    assert rows == [("", "", "3"), ("a", "", "1.5"), ("a", "r", "2"), ("a", "", "Infinity"), ("a", "", "NaN")]
    keys = postgres.execute("SELECT column_name FROM information_schema.key_column_usage WHERE table_name = %s ORDER BY ordinal_position",
                            (table,)).fetchall()
    assert sorted(keys) == [("host",), ("rack",), ("time",)]


def test_what_is_wrong_is_told_and_the_rest_is_stored(server, postgres, table):
    at = SECOND * 1000
    good = series({"__name__": table, "host": "a"}, [(1, at)])
    status, told = remote_write(server, snappy(good + series({"host": "x"}, [(2, at)])))
    assert status == 400 and "1 sample accepted, 1 rejected" in told and "__name__" in told, told
    status, told = remote_write(server, snappy(good + series({"zone": "z", "__name__": table}, [(2, at)])))
    assert status == 400 and "order" in told, told
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    for body, wanted in ((snappy(good)[:-3], 400), (b"\xff" * 10, 400), (varint(1 << 31) + b"\0", 413)):
        status, told = remote_write(server, body)
        assert (status, bool(told)) == (wanted, True), (body, told)
    for headers in ({"Content_Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"},
                    {"Content_Type": "text/plain"}, {"Content_Encoding": "gzip"}, {"X_Prometheus_Remote_Write_Version": "2.0.0"}):
        assert remote_write(server, snappy(good), **headers)[0] == 415, headers
    assert remote_write(server, snappy(good), "/api/v1/write?durability=never")[0] == 400
    assert remote_write(server, snappy(good), "/api/v1/write?durability=quorum")[0] == 501
    # A table without a key has no place for labels.
    postgres.execute(f"CREATE TABLE {table}_plain (time timestamptz, value double precision)")
    status, told = remote_write(server, snappy(series({"__name__": f"{table}_plain", "host": "a"}, [(1, at)])))
    assert status == 400 and "no primary key" in told, told


def otlp(server, what, body, path="", **headers):
    headers = {"Content_Type": "application/json", **headers}
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answered, answer = ask(server, f"/v1/{what}{path}", body, "POST", **headers)
    kind = answered["Content-Type"]
    return status, json.loads(answer) if kind == "application/json" else answer


def metric(name, points):
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": name, "gauge": {"dataPoints": points}}]}]}]}


def test_otlp_tells_what_it_refuses(server, postgres, table):
    good = {"asDouble": 1.5, "timeUnixNano": f"{SECOND}000000000"}
    assert otlp(server, "metrics", metric(table, [good])) == (200, {})
    status, told = otlp(server, "metrics", metric(table, [good, {"timeUnixNano": "1"}]))
    assert status == 200 and told["partialSuccess"]["rejectedDataPoints"] == "1", told
    assert otlp(server, "metrics", gzip.compress(json.dumps(metric(table, [good])).encode()), Content_Encoding="gzip")[0] == 200
    assert postgres.execute(f"SELECT count(*), max(value) FROM {table}").fetchone() == (1, 1.5)
    status, told = otlp(server, "metrics", b"{")
    assert status == 400 and told["code"] == 3 and told["message"], told
    assert otlp(server, "metrics", b"\x0a\xff", Content_Type="application/x-protobuf")[0] == 400
    assert otlp(server, "metrics", b"", Content_Type="text/plain")[0] == 415
    assert otlp(server, "metrics", b"", Content_Encoding="br")[0] == 415
    log = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": f"{SECOND}000000000", "body": {"stringValue": "x"}}] * 2}]}]}
    key = {"Idempotency_Key": "6a8e8a4e-7a4e-4d4b-9a9a-0d9f3c1b2a10/1"}
    for _ in range(2):
        assert otlp(server, "logs", log, f"?table={table}_logs", **key) == (200, {})
    # Both records have the same time, and both are kept; the repeated request is ignored.
    assert postgres.execute(f"SELECT count(*) FROM {table}_logs").fetchone() == (2,)
