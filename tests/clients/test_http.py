"""HTTP with a universal client: curl's requests, written out."""

import datetime
import gzip
import io
import json
import socket
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import psycopg
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

pytestmark = pytest.mark.ours


def ask(server, path, body=None, method=None, **headers):
    """(status, headers, body) of a request."""
    url = f"http://127.0.0.1:{server.http_port}{path}"
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def write(server, lines, path="/api/v3/write_lp?db=public&precision=ns", **headers):
    return ask(server, path, lines if isinstance(lines, bytes) else lines.encode(), "POST", **headers)


@pytest.fixture
def postgres(server):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def test_lines_make_tables_and_columns(server, postgres, table):
    lines = (f"{table},host=a,region=eu usage=1.5,count=3i,big=7u,ok=t,note=\"two \\\"words\\\"\" 1704067200000000000\n"
             f"{table},host=b usage=2 1704067200000000000\n")
    assert write(server, lines)[0] == 204
    rows = postgres.execute(f"SELECT host, region, usage, count, big, ok, note, time FROM {table} ORDER BY host").fetchall()
    when = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    assert rows == [("a", "eu", 1.5, 3, 7, True, 'two "words"', when), ("b", "", 2.0, None, None, None, None, when)]
    # A new field adds a column; a row with an existing key is replaced.
    assert write(server, f"{table},host=b usage=3,more=1i 1704067200000000000\n")[0] == 204
    assert postgres.execute(f"SELECT usage, more FROM {table} WHERE host = 'b'").fetchall() == [(3.0, 1)]
    keys = postgres.execute("SELECT column_name FROM information_schema.key_column_usage WHERE table_name = %s ORDER BY ordinal_position",
                            (table,)).fetchall()
    assert keys == [("host",), ("region",), ("time",)]


@pytest.mark.parametrize("path", ["/write?db=DB", "/api/v2/write?bucket=DB&org=x", "/api/v3/write_lp?db=DB"])
def test_databases_are_schemas(server, postgres, table, path):
    schema = f"db_{table}"
    assert write(server, f"{table} v=1i 1704067200000000000\n", path.replace("DB", schema))[0] == 204
    assert postgres.execute(f'SELECT v FROM "{schema}".{table}').fetchall() == [(1,)]


@pytest.mark.parametrize("precision, stamp", [("ns", 1704067200000000000), ("us", 1704067200000000), ("ms", 1704067200000), ("s", 1704067200)])
def test_precision(server, postgres, table, precision, stamp):
    assert write(server, f"{table} v=1 {stamp}\n", f"/write?precision={precision}")[0] == 204
    assert postgres.execute(f"SELECT extract(epoch FROM time)::bigint FROM {table}").fetchone() == (1704067200,)
    assert write(server, f"{table} v=2 {stamp}\n", "/api/v3/write_lp?db=public")[0] == 204
    assert postgres.execute(f"SELECT v FROM {table}").fetchall() == [(2.0,)]


def test_lines_without_a_time_are_rows_of_their_own(server, postgres, table):
    assert write(server, f"{table} v=1\n{table} v=2\n{table} v=3\n")[0] == 204
    assert postgres.execute(f"SELECT count(*), sum(v) FROM {table} WHERE time > now() - interval '1 minute'").fetchone() == (3, 6.0)


def test_good_lines_are_stored_where_others_are_not(server, postgres, table):
    lines = f"{table} v=1i 1\n{table} v=oops 2\n{table} v=2i 3\n{table} v=1.5 4\n"
    status, _, body = write(server, lines)
    told = json.loads(body)
    assert status == 400 and told["error"].startswith("partial write")
    assert [error["line_number"] for error in told["data"]] == [2, 4]
    assert told["data"][0]["original_line"] == f"{table} v=oops 2"
    # A conflict names the line, the field and both types.
    assert "v" in told["data"][1]["error_message"] and "bigint" in told["data"][1]["error_message"]
    assert postgres.execute(f"SELECT v FROM {table} ORDER BY time").fetchall() == [(1,), (2,)]
    status, _, body = write(server, f"{table} v=9i 9\n{table} v=oops 2\n", "/api/v3/write_lp?db=public&precision=ns&accept_partial=false")
    assert status == 400 and json.loads(body)["data"]["line_number"] == 2
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
    for path, key in (("/write", "error"), ("/api/v2/write?bucket=public", "message")):
        status, _, body = write(server, f"{table} v=3i 5\n{table} v= 2\n", path)
        assert status == 400 and "partial write" in json.loads(body)[key] and "dropped=1" in json.loads(body)[key]
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (3,)


@pytest.mark.parametrize("lines, says", [
    (b"t", "field"), (b"t,a=1,a=2 v=1\n", "a"), (b"t v=1 99999999999999999999\n", "timestamp"), (b"t v=\xff\n", "UTF-8"),
    (b"t v=99999999999999999999i\n", "99999999999999999999i"), (b",a=b v=1\n", "measurement"), (b"t " + b"x" * 70 + b"=1\n", "63"),
])
def test_lines_that_cannot_be(server, lines, says):
    status, _, body = write(server, lines)
    assert status == 400 and says in json.loads(body)["data"][0]["error_message"], body


def test_the_new_columns_of_a_request_are_one_record_of_the_catalog(server, postgres, table):
    def records():
        segments = server.data_dir.joinpath("catalog").glob("*.journal")
        return sum(path.read_bytes().count(b'{"format":1,"change"') for path in segments)

    assert write(server, f"{table},host=a usage=1 1704067200000000000\n")[0] == 204
    before = records()
    tags = "".join(f",tag{n}=x{n}" for n in range(20))
    fields = ",".join(f"field{n}={n}" for n in range(30))
    assert write(server, f"{table},host=a{tags} {fields} 1704067201000000000\n")[0] == 204
    assert records() == before + 1
    columns = postgres.execute(f"SELECT * FROM {table} ORDER BY time").description
    assert {"tag0", "tag19", "field0", "field29"} < {column.name for column in columns}
    rows = postgres.execute(f"SELECT tag19, field29 FROM {table} ORDER BY time").fetchall()
    assert rows == [("", None), ("x19", 29.0)]


def test_too_many_columns_are_refused(server, postgres, table):
    fields = ",".join(f"f{n}=1i" for n in range(10_000))
    status, _, body = write(server, f"{table} {fields} 1\n")
    assert status == 400 and "column" in body.decode()
    assert write(server, f"{table} v=1i 1\n")[0] == 204


def test_a_tag_that_the_key_lacks_joins_it(server, postgres, table):
    assert write(server, f"{table},a=1 v=1i 1\n")[0] == 204
    # The same time and the same `a`, without and with `b`: two series.
    assert write(server, f"{table},a=1 v=2i 2\n{table},a=1,b=2 v=3i 2\n{table},b=2 v=4i 2\n")[0] == 204
    assert write(server, f"{table},a=1 v=5i 1\n{table},a=1,b=2,c=3 v=6i 1\n")[0] == 204
    rows = postgres.execute(f"SELECT a, b, c, v FROM {table} ORDER BY time, v").fetchall()
    assert rows == [("1", "", "", 5), ("1", "2", "3", 6), ("1", "", "", 2), ("1", "2", "", 3), ("", "2", "", 4)]
    assert postgres.execute(f"SELECT v FROM {table} WHERE a = '1' AND b = '' AND c = '' ORDER BY v").fetchall() == [(2,), (5,)]


def test_a_tag_of_a_table_without_a_key_is_refused(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, v bigint)")
    status, _, body = write(server, f"{table} v=2i 2\n{table},b=2 v=3i 3\n")
    assert status == 400 and "b" in body.decode() and "no primary key" in body.decode()
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_a_tag_of_a_column_outside_of_the_key_is_refused(server, postgres, table):
    # As a tag, `region` would make rows of two series replace each other.
    assert write(server, f'{table},host=a region="x" 1\n')[0] == 204
    status, _, body = write(server, f"{table},host=a,region=eu v=1 2\n{table},host=a v=2 2\n")
    assert status == 400 and "not part of the key" in body.decode()
    assert postgres.execute(f"SELECT region, v FROM {table} ORDER BY time").fetchall() == [("x", None), (None, 2.0)]


def compressed(kind, lines):
    if kind == "gzip":
        return gzip.compress(lines)
    return pyarrow.compress(lines, codec="zstd", asbytes=True)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compressed_bodies(server, postgres, table, kind):
    lines = "".join(f"{table},host=h{n % 7} v={n}i {n}\n" for n in range(20_000)).encode()
    body = compressed(kind, lines)
    assert write(server, body, Content_Encoding=kind)[0] == 204
    assert postgres.execute(f"SELECT count(*), sum(v) FROM {table}").fetchone() == (20_000, 199990000)
    status, _, told = write(server, body[:len(body) // 2], Content_Encoding=kind)
    assert status == 400 and "decompress" in told.decode()
    bomb = compressed(kind, (b"#" * 1023 + b"\n") * (300 << 10))
    status, _, told = write(server, bomb, Content_Encoding=kind)
    assert status == 413 and "larger than" in told.decode()
    assert write(server, b"x", Content_Encoding="br")[0] == 501


def test_a_request_that_is_sent_again_is_stored_once(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, v bigint)")
    key = f"{uuid.uuid4()}/1"
    for _ in range(3):
        assert write(server, f"{table} v=1i 1\n", Idempotency_Key=key)[0] == 204
    assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    status, _, body = write(server, f"{table} v=1i 1\n", Idempotency_Key="what")
    assert status == 400 and "Idempotency-Key" in body.decode()


def test_the_retry_of_a_partial_request_names_the_refused_lines_again(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, v bigint, PRIMARY KEY (time)) WITH (collision = 'first')")
    producer = uuid.uuid4()
    assert write(server, f"{table} v=1i 1\n")[0] == 204
    body = f"{table} v=2i 1\n{table} v=3i 2\n"
    answers = [write(server, body, Idempotency_Key=f"{producer}/1") for _ in range(3)]
    assert [answer[0] for answer in answers] == [400] * 3 and len({answer[2] for answer in answers}) == 1, answers
    assert write(server, f"{table} v=4i 3\n", Idempotency_Key=f"{producer}/2")[0] == 204
    assert write(server, f"{table} v=4i 3\n", Idempotency_Key=f"{producer}/2")[0] == 204
    assert postgres.execute(f"SELECT v FROM {table} ORDER BY time").fetchall() == [(1,), (3,), (4,)]


def test_tables_made_by_sql_take_lines(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (at timestamptz(3), site text, n smallint, r real, note text, PRIMARY KEY (site, at)) WITH (collision = 'last')")
    assert write(server, f"{table},site=x n=5i,r=1.5,note=\"a\" 1704067200123456789\n")[0] == 204
    assert postgres.execute(f"SELECT site, n, r, note, at FROM {table}").fetchone()[:4] == ("x", 5, 1.5, "a")
    status, _, body = write(server, f"{table},site=x n=70000i 1\n")
    assert status == 400 and "smallint" in body.decode()


def test_f75_lines_for_a_table_whose_times_the_server_gives(server, postgres, table):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz, v double precision) WITH (time_source = 'server')")
    status, _, said = write(server, f"{table} v=1 1704067200000000000\n")
    assert status == 400 and b"non-DEFAULT value" in said, said
    assert write(server, f"{table} v=2\n{table} v=3\n")[0] == 204
    assert postgres.execute(f"SELECT v, abs(extract(epoch FROM now() - time)) < 60 FROM {table} ORDER BY v").fetchall() == [(2.0, True), (3.0, True)]


def test_rows_are_read_where_they_were_written(server, postgres, table):
    for n in range(20):
        assert write(server, f"{table} v={n}i {n}\n")[0] == 204
        assert postgres.execute(f"SELECT count(*) FROM {table}").fetchone() == (n + 1,)
        status, _, body = ask(server, "/api/sql?q=" + urllib.parse.quote(f"SELECT count(*) AS c FROM {table}"))
        assert status == 200 and json.loads(body) == [{"c": n + 1}]


def test_sql_in_every_form(server, postgres, table):
    write(server, f"{table},host=a v=1.5,n=1i 1704067200000000000\n{table},host=b n=2i 1704067200000000001\n")
    sql = f"SELECT host, v, n, time FROM {table} ORDER BY host"
    question = lambda form: json.dumps({"sql": sql, "format": form}).encode()  # noqa: E731
    json_type = {"Content_Type": "application/json"}
    status, headers, body = ask(server, "/api/sql", question("json"), "POST", **json_type)
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert json.loads(body) == [{"host": "a", "v": 1.5, "n": 1, "time": "2024-01-01 00:00:00+00"},
                                {"host": "b", "v": None, "n": 2, "time": "2024-01-01 00:00:00.000000001+00"}]
    _, _, body = ask(server, "/api/sql", question("ndjson"), "POST", **json_type)
    assert [json.loads(line)["n"] for line in body.decode().splitlines()] == [1, 2]
    _, _, body = ask(server, "/api/sql", question("csv"), "POST", **json_type)
    assert body.decode().splitlines()[:2] == ["host,v,n,time", "a,1.5,1,2024-01-01 00:00:00+00"]
    texts = json.dumps({"sql": """SELECT '' AS a, NULL AS b, 'x,"y"' AS c, E'1\n2' AS d""", "format": "csv"}).encode()
    assert ask(server, "/api/sql", texts, "POST", **json_type)[2].decode() == 'a,b,c,d\n"",,"x,""y""","1\n2"\n'
    _, _, body = ask(server, "/api/sql", question("arrow"), "POST", **json_type)
    arrow = pyarrow.ipc.open_stream(io.BytesIO(body)).read_all()
    assert arrow.column("host").to_pylist() == ["a", "b"] and arrow.schema.field("time").type == pyarrow.timestamp("ns", "UTC")
    _, _, body = ask(server, "/api/sql", question("parquet"), "POST", **json_type)
    assert pyarrow.parquet.read_table(io.BytesIO(body)).column("n").to_pylist() == [1, 2]
    _, _, body = ask(server, "/api/sql", sql.encode(), "POST", Accept="text/csv", Content_Type="text/plain")
    assert body.startswith(b"host,v,n,time\n")
    _, _, body = ask(server, f"/api/v3/query_sql?db=public&format=jsonl&q={urllib.parse.quote(sql)}")
    assert len(body.splitlines()) == 2


def test_sql_with_parameters_and_errors(server, table):
    def post(**question):
        status, _, body = ask(server, "/api/sql", json.dumps(question).encode(), "POST", Content_Type="application/json")
        return status, json.loads(body)
    assert post(sql="SELECT $1::int + $2 AS s, $3 AS t, $4::timestamptz IS NULL AS n", params=[1, 2, "x", None]) == (
        200, [{"s": 3, "t": "x", "n": True}])
    assert post(sql=f"CREATE TABLE {table} (time timestamptz, v int)")[1]["command"] == "CREATE TABLE"
    assert post(sql=f"INSERT INTO {table} VALUES ($1, $2)", params=["2024-01-01", 5]) == (200, {"command": "INSERT 0 1", "rows_affected": 1})
    status, told = post(sql="SELECT nope")
    assert status == 400 and told["sqlstate"] == "42703" and told["position"] == 8
    assert post(sql="SELECT * FROM no_such_table")[0] == 404
    assert post(sql="SELECT 1/0")[0] == 400
    assert post(sql="SELECT 1", format="xml")[0] == 400
    assert post(sql="SELECT $1", params=[])[0] == 400
    assert post(query="", wrong=1)[0] == 400
    assert ask(server, "/api/sql", b"", "POST")[0] == 400
    assert ask(server, "/nope")[0] == 404


def test_lists_are_parameters_of_arrays(server):
    def post(sql, params):
        body = json.dumps({"sql": sql, "params": params}).encode()
        status, _, answer = ask(server, "/api/sql", body, "POST", Content_Type="application/json")
        return status, json.loads(answer)
    assert post("SELECT 2 = ANY($1::int[]) AS a, $2::text[] AS t, $3::jsonb AS j", [[1, 2, None], ["x\"", "é,{}"], [1, "b"]]) == (
        200, [{"a": True, "t": ["x\"", "é,{}"], "j": [1, "b"]}])
    assert post("SELECT $1::int[] AS a", ["{3,4}"]) == (200, [{"a": [3, 4]}])
    assert post("SELECT $1::int[] AS a", [["x"]])[1]["sqlstate"] == "22P02"


def test_an_error_behind_the_first_rows_has_its_status(server, table, postgres):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz PRIMARY KEY, v int)")
    postgres.execute(f"INSERT INTO {table} SELECT '2024-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 500) g")
    for form in ("json", "ndjson", "csv", "arrow", "parquet"):
        sql = f"SELECT 1 / (500 - v) AS x FROM {table} ORDER BY time"
        status, _, answer = ask(server, f"/api/sql?format={form}", sql.encode(), "POST")
        assert (status, json.loads(answer)["sqlstate"]) == (400, "22012"), form
        sql = f"SELECT v FROM {table} UNION ALL SELECT 1 / (500 - v) FROM {table}"
        status, _, answer = ask(server, f"/api/sql?format={form}", sql.encode(), "POST")
        assert (status, json.loads(answer)["sqlstate"]) == (400, "22012"), form


@pytest.mark.parametrize("path", ["/exec?query=", "/api/sql?q="])
def test_copy_is_refused(server, table, postgres, path):
    postgres.execute(f"CREATE TABLE {table} (time timestamptz PRIMARY KEY, v int)")
    for copy in (f"COPY {table} TO STDOUT", f"COPY {table} FROM STDIN"):
        status, _, answer = ask(server, path + urllib.parse.quote(copy), b"", "POST")
        assert status in (400, 501) and b"Postgres protocol" in answer


def test_numbers_keep_their_digits(server, table):
    """CL-10: no protocol rounds a value."""
    def ask(sql, params=()):
        body = json.dumps({"sql": sql}).removesuffix("}") + f', "params": [{", ".join(params)}]}}'
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/api/sql", body.encode(), headers)
        return urllib.request.urlopen(request).read().decode().strip()

    digits = "12345678901234567890.123456789"
    ask(f"CREATE TABLE {table} (time timestamptz NOT NULL, v numeric(38,9), j jsonb, t text)")
    nested = f'{{"n": {digits}, "s": "1.50"}}'
    ask(f"INSERT INTO {table} (time, v, j, t) VALUES (now(), $1, $2, $3)", (digits, nested, "1.10"))
    assert ask(f"SELECT v, v::text AS s, j, t FROM {table}") == (
        f'[{{"v":{digits},"s":"{digits}","j":{nested},"t":"1.10"}}]')
    assert ask("SELECT 1 AS a, 2 AS a, 3 AS a_1, 'NaN'::float8 AS n") == '[{"a":1,"a_2":2,"a_1":3,"n":"NaN"}]'


def test_one_statement_in_a_request(server):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/api/sql?q=select%201", b"select 2")
    assert caught.value.code == 400 and b"another statement in the body" in caught.value.read()


def test_health_and_metrics(server):
    status, _, body = ask(server, "/health")
    assert status == 200 and json.loads(body)["status"] == "pass"
    assert ask(server, "/ready")[0] == 200
    assert ask(server, "/ping")[0] == 204 and ask(server, "/ping")[1]["X-Influxdb-Version"]
    assert "version" in json.loads(ask(server, "/version")[2])
    status, headers, body = ask(server, "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, value in (line.split() for line in lines)}
    assert values["stratalog_ingest_rows_total"] > 0 and values["stratalog_journal_poisoned"] == 0
    assert values['stratalog_door_request_seconds_count{door="http",request="write"}'] > 0


def test_influx_questions_before_writing(server, postgres, table):
    name = f"base_{table}"
    create = urllib.parse.urlencode({"q": f"CREATE DATABASE {name} WITH REPLICATION 1"})
    assert ask(server, f"/query?{create}", b"", "POST")[0] == 200
    # A repetition changes nothing; the statement may be in the form of the body.
    assert ask(server, "/query", create.encode(), "POST", Content_Type="application/x-www-form-urlencoded")[0] == 200
    _, _, body = ask(server, "/query?q=show%20databases")
    assert [name] in json.loads(body)["results"][0]["series"][0]["values"]
    assert write(server, "m v=1 1\n", f"/write?db={name}")[0] == 204
    assert ask(server, f"/query?q=drop+database+{name}", b"", "POST")[0] == 200
    assert postgres.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() == (0,)
    assert ask(server, "/query?q=SELECT+1")[0] == 501


def tcp(server, data, pieces=None):
    with socket.create_connection(("127.0.0.1", server.ilp_port), 10) as line:
        for at in range(0, len(data), pieces or len(data)):
            line.sendall(data[at:at + (pieces or len(data))])
        line.shutdown(socket.SHUT_WR)
        line.settimeout(30)
        return line.recv(1)


def eventually(postgres, sql, wanted, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = postgres.execute(sql).fetchone()
        except psycopg.errors.UndefinedTable:
            found = None
        if found == wanted or time.monotonic() > deadline:
            assert found == wanted
            return
        time.sleep(0.02)


@pytest.mark.parametrize("pieces", [None, 1000, 7])
def test_lines_over_tcp(server, postgres, table, pieces):
    count = 300 if pieces == 7 else 50_000
    data = "".join(f"{table},host=h{n % 10} v={n}i {n}\n" for n in range(count)).encode()
    # The server closes the connection after storing everything.
    assert tcp(server, data, pieces) == b""
    assert postgres.execute(f"SELECT count(*), sum(v) FROM {table}").fetchone() == (count, count * (count - 1) // 2)


def test_a_bad_line_over_tcp_ends_the_connection_after_the_good_ones(server, postgres, table):
    assert tcp(server, f"{table} v=1i 1\n{table} v=2i 2\n{table} oops\n{table} v=3i 3\n".encode()) == b""
    eventually(postgres, f"SELECT count(*) >= 2 FROM {table}", (True,))


def test_lines_over_tcp_are_stored_without_waiting_for_more(server, postgres, table):
    with socket.create_connection(("127.0.0.1", server.ilp_port), 10) as line:
        line.sendall(f"{table} v=1i 1\n{table} v=2i 2\n{table} v=".encode())
        eventually(postgres, f"SELECT count(*) FROM {table}", (2,))
        line.sendall(b"3i 3\n")
        eventually(postgres, f"SELECT count(*) FROM {table}", (3,))


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_half_a_line_over_tcp_is_no_row(server, postgres, table, how):
    data = f"{table} v=1i 1\n{table} v=12".encode()
    if how == "closed":
        tcp(server, data)
    else:
        with socket.create_connection(("127.0.0.1", server.ilp_port), 10) as line:
            line.sendall(data)
            eventually(postgres, f"SELECT count(*) FROM {table}", (1,))
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.5)
    assert postgres.execute(f"SELECT v FROM {table}").fetchall() == [(1,)]


def test_lines_over_tcp_without_a_time_have_that_of_their_arrival(server, postgres, table):
    with socket.create_connection(("127.0.0.1", server.ilp_port), 10) as line:
        line.sendall(f"{table} v=1i\n{table} v=2i\n".encode())
        eventually(postgres, f"SELECT count(*) FROM {table}", (2,))
        time.sleep(1.5)
        line.sendall(f"{table} v=3i\n".encode())
        eventually(postgres, f"SELECT count(*) FROM {table}", (3,))
    late = f"SELECT (max(time) FILTER (WHERE v = 3) - max(time) FILTER (WHERE v = 2)) > interval '1 s' FROM {table}"
    assert postgres.execute(late).fetchone() == (True,)


def test_slow_and_vanished_clients(server):
    with socket.create_connection(("127.0.0.1", server.http_port), 10) as half:
        half.sendall(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    with socket.create_connection(("127.0.0.1", server.http_port), 10) as garbage:
        garbage.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        garbage.settimeout(10)
        garbage.recv(1000)
    assert ask(server, "/health")[0] == 200
