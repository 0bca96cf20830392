"""docker-compose.yml, the Dockerfile and the dashboards: the parsers of their programs read them, the services run
together, and every query of the dashboards answers with rows."""

import datetime
import re
import subprocess
import time
import urllib.request

import psycopg
import pytest

from compose_stack import Stack, as_yaml, checks, image_environment, project, run
from grafana import Dashboard, expand
from servers import ROOT, stratalog_binary

pytestmark = pytest.mark.ours
GRAFANA = ROOT / "compose" / "grafana"
DASHBOARDS = [Dashboard(path) for path in sorted((GRAFANA / "dashboards").glob("*.json"))]
UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def stack(scratch):
    running = Stack(scratch / "compose").up()
    yield running
    running.down()


@pytest.fixture(autouse=True)
def nothing_left_running():
    """The stack stays between the tests of this file."""


def administrator(stack):
    return psycopg.connect(stack.dsn("tester"), autocommit=True)


def reader(stack):
    """A connection as Grafana's source: its role, and statements without parameters as simple queries."""
    return psycopg.connect(stack.dsn("grafana"), autocommit=True, cursor_factory=psycopg.ClientCursor)


def eventually(check, seconds=90):
    """Repeats a check until it no longer fails: the services measure and send in intervals."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check()
        except (AssertionError, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_the_file_names_what_exists():
    services, volumes = project()["services"], project()["volumes"]
    for name, service in services.items():
        assert re.fullmatch(r"stratalog|[\w/]+:v?\d[\w.]+", service["image"]), f"{name}: an image without a version"
        for mount in service.get("volumes", []):
            assert mount["type"] == "volume" and mount["source"] in volumes or mount["source"].startswith(("/", str(ROOT)))
            if mount["type"] == "bind":
                assert mount["read_only"], f"{name} could write into {mount['source']}"
        # Published ports are for this machine only: Prometheus has no password.
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", []))
        assert service["cap_drop"] == ["ALL"], name
        secrets = {mount["source"] for mount in service.get("volumes", []) if mount["source"].startswith("secrets-")}
        expected = {"setup": 4, "store": 1, "stratalog": 1, "prometheus": 1, "grafana": 1, "telegraf": 1}
        assert len(secrets) == expected[name], f"{name}: {secrets}"


def test_the_image_sets_settings_that_exist():
    known = run(stratalog_binary(), "serve", "--help")
    variables = {**image_environment(), **project()["services"]["stratalog"]["environment"]}
    for name in variables:
        flag = "--" + name.removeprefix("STRATALOG_").lower().replace("_", "-")
        assert not name.startswith("STRATALOG_") or flag in known, name


def test_the_setup_of_the_image():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^USER stratalog$", dockerfile, re.MULTILINE)
    # A file that the build reads and that .dockerignore leaves out would fail the build.
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    members = re.findall(r'^  "([\w/]+)",$', (ROOT / "Cargo.toml").read_text().split("exclude")[0], re.MULTILINE)
    assert {member.split("/")[0] for member in members} | {"Cargo.toml", "Cargo.lock"} == set(kept)
    # Each volume of a process without root's rights has its folder in the image.
    folders = {mount["target"] for mount in project()["services"]["setup"]["volumes"] if mount["type"] == "volume"}
    assert all(folder in dockerfile for folder in folders)
    run("sh", "-n", ROOT / "compose" / "setup")


def test_grafana_is_provisioned_with_a_source_and_dashboards():
    mounts = {mount["target"]: mount for mount in project()["services"]["grafana"]["volumes"]}
    source, *_ = as_yaml(GRAFANA / "provisioning" / "datasources" / "stratalog.yml")["datasources"]
    assert (source["type"], source["user"]) == ("grafana-postgresql-datasource", "grafana")
    options = source["jsonData"]
    assert options["timescaledb"] is True and options["sslmode"] == "verify-full"
    assert options["sslRootCertFile"].rsplit("/", 1)[0] in mounts
    provider, = as_yaml(GRAFANA / "provisioning" / "dashboards" / "stratalog.yml")["providers"]
    assert mounts[provider["options"]["path"]]["source"] == str(GRAFANA / "dashboards")
    home = project()["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (GRAFANA / "dashboards" / home.removeprefix(provider["options"]["path"] + "/")).exists()
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels():
            used = [panel.get("datasource"), *(target["datasource"] for target in panel.get("targets", []))]
            assert all(one is None or one == {"type": source["type"], "uid": source["uid"]} for one in used), panel["title"]


def test_dashboards_have_the_types_of_grafana():
    run(checks(), "dashboards", *(dashboard.path for dashboard in DASHBOARDS))
    assert len({dashboard.body["uid"] for dashboard in DASHBOARDS}) == len(DASHBOARDS)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.path.stem)
def test_panels_have_places_units_and_descriptions(dashboard):
    taken = set()
    panels = list(dashboard.panels())
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, f"{panel['title']} overlaps another panel"
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
        if panel["type"] not in ("row", "table"):
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


@pytest.mark.parametrize("written, sent", [
    ("SELECT $__time(at)", 'SELECT at AS "time"'),
    ("WHERE $__timeFilter(at)", "WHERE at BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-01T06:00:00.5Z'"),
    ("$__timeFrom() $__timeTo()", "'2024-01-01T00:00:00Z' '2024-01-01T06:00:00.5Z'"),
    ("GROUP BY $__timeGroup(at,'5m')", "GROUP BY time_bucket('300.000s',at)"),
    ("GROUP BY $__timeGroup(at , 20ms, NULL)", "GROUP BY time_bucket('0.020s',at)"),
    ("SELECT $__timeGroup(at,'12d'), v", "SELECT time_bucket('1036800.000s',at) AS \"time\", v"),
    ("SELECT $__timeGroupAlias(at, $__interval)", "SELECT time_bucket('30.000s',at) AS \"time\""),
    ("$__interval_ms $__unixEpochFilter(n)", "30000 n >= 1704067200 AND n <= 1704088800"),
    ("host IN ($host) AND '$hosts'", "host IN ('a','o''b') AND '$hosts'"),
])
def test_macros(written, sent):
    start = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    end = start + datetime.timedelta(hours=6, milliseconds=500)
    assert expand(written, start, end, "30s", {"host": ["a", "o'b"]}) == sent


def test_the_services_run(stack):
    with administrator(stack) as connection:
        eventually(lambda: found(connection, "SELECT count(*) > 3 AND min(value) = 1 FROM prometheus.up"))
        for table in ("cpu", "disk", "mem", "net", "processes", "swap", "system"):
            eventually(lambda: found(connection, f"SELECT count(DISTINCT time) > 2 FROM telegraf.{table}"))
        connection.execute("CALL stratalog.compact('telegraf.cpu')")
        assert list((stack.directory / "volumes" / "stories" / "stories").glob("**/*.parquet"))
    assert all(process.process.poll() is None for process in stack.processes.values())
    log = stack.processes["telegraf"].output()
    assert " E! " not in log, log


def found(connection, sql):
    assert connection.execute(sql).fetchone() == (True,), sql


def test_health_checks(stack):
    """The commands that Docker repeats."""
    test = project()["services"]["store"]["healthcheck"]["test"]
    assert test[0] == "CMD"
    subprocess.run([stack.translated("store", word).replace("127.0.0.1:7070", f"127.0.0.1:{stack.ports['store:7070']}") for word in test[1:]],
                   check=True, timeout=30)
    # The image of the server has curl; the arguments are the arguments of HEALTHCHECK.
    script = re.search(r'CMD \["/bin/sh", "-c", "(.+)"\]', (ROOT / "Dockerfile").read_text())[1]
    script = script.replace("127.0.0.1:8086", f"127.0.0.1:{stack.server.http_port}")
    subprocess.run(["sh", "-c", script], env={"PATH": "/usr/bin:/bin", **stack.environment("stratalog")}, check=True, timeout=30)
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['prometheus:9090']}/-/ready", timeout=30) as answer:
        assert answer.status == 200


def test_grafana_reads_and_never_writes(stack):
    with reader(stack) as connection:
        eventually(lambda: found(connection, "SELECT count(*) > 0 FROM telegraf.cpu"))
        for statement in ("CREATE TABLE mine (time timestamptz)", "DELETE FROM telegraf.cpu", "DROP TABLE telegraf.cpu",
                          "INSERT INTO prometheus.up (time, value) VALUES (now(), 0)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(stack.server.dsn(user="grafana", password="wrong", sslmode="require"))


def test_the_sources_own_questions(stack):
    """What Grafana asks when an administrator saves the source, and for the lists of its query builder."""
    with reader(stack) as connection:
        connection.execute("SELECT 1")
        (version,) = connection.execute("SELECT current_setting('server_version_num')::int / 100").fetchone()
        assert version >= 1500
        tables = {name for (name,) in connection.execute(
            "SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) FROM information_schema.tables").fetchall()}
        assert {"telegraf.cpu", "prometheus.up"} <= tables


QUERIES = [(dashboard, *query) for dashboard in DASHBOARDS for query in dashboard.queries()]


@pytest.mark.parametrize("dashboard, title, form, sql", QUERIES,
                         ids=[f"{dashboard.path.stem}: {title}" for dashboard, title, _, _ in QUERIES])
def test_every_query_of_the_dashboards_answers(stack, dashboard, title, form, sql):
    with reader(stack) as connection:
        if title == "Moves between tiers":
            with administrator(stack) as other:
                eventually(lambda: other.execute("CALL stratalog.flush('telegraf.cpu')"))

        def answered():
            if title == "Errors":
                with pytest.raises(psycopg.errors.UndefinedColumn):
                    connection.execute("SELECT no_such_column FROM telegraf.cpu")
            end = datetime.datetime.now(UTC)
            variables = {name: [value for (value,) in connection.execute(query).fetchall()]
                         for name, query in dashboard.variables().items()}
            assert all(variables.values()), variables
            cursor = connection.execute(expand(sql, end - datetime.timedelta(minutes=15), end, "2s", variables))
            check_answer(form, cursor.description, cursor.fetchall())

        eventually(answered)


NUMBERS = {20, 21, 23, 700, 701, 1700}
TEXTS = {25, 1042, 1043}
TIMESTAMPTZ = 1184


def check_answer(form, columns, rows):
    """Checks rows as Grafana's source does before it makes series of them."""
    assert rows, "no rows"
    names = [column.name for column in columns]
    assert len(set(names)) == len(names), names
    if form == "table":
        assert any(value is not None for row in rows for value in row)
        return
    at = names.index("time")
    assert columns[at].type_code == TIMESTAMPTZ
    times = [row[at] for row in rows]
    assert times == sorted(times), "series need rows in the order of time"
    for number, column in enumerate(columns):
        if number != at:
            assert column.type_code in (TEXTS if column.name == "metric" else NUMBERS), column
    values = [n for n, column in enumerate(columns) if column.type_code in NUMBERS]
    for number in values:
        assert any(row[number] is not None for row in rows), f"{names[number]} has no value"
