"""Arrow's JDBC driver of Flight SQL, unmodified: the tests of java_flight/."""

import subprocess

import pytest

import languages

pytestmark = pytest.mark.ours
NAMES = languages.names("java_flight", "*.java", r"^    static void (\w+)\(Connection c\)")


@pytest.fixture(scope="module")
def found(server, scratch):
    classes, path = scratch / "java_flight", f"{languages.installed('java_flight')}/*"
    sources = [str(source) for source in (languages.HERE / "java_flight").glob("*.java")]
    subprocess.run(["javac", "-d", classes, "-cp", path, *sources], check=True, timeout=120)
    java = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp",
            f"{classes}:{path}", "FlightSql"]
    return languages.outcomes(languages.run(java, server, FLIGHT_PORT=str(server.flight_port)))


@pytest.mark.parametrize("name", NAMES)
def test_jdbc_flight(found, name):
    languages.conclude(found, name)
