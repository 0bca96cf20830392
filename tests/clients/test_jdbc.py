"""pgjdbc, unmodified: the tests of java/, and HikariCP over it."""

import subprocess

import pytest

import languages

NAMES = languages.names("java", "*.java", r"^    static void (\w+)\(Session s\)")


@pytest.fixture(scope="module")
def found(server, scratch):
    classes, path = scratch / "java", f"{languages.installed('java')}/*"
    sources = [str(source) for source in (languages.HERE / "java").glob("*.java")]
    subprocess.run(["javac", "-d", classes, "-cp", path, *sources], check=True, timeout=120)
    # A time zone whose offset from UTC is neither zero nor whole hours.
    java = ["java", "-Duser.timezone=Asia/Kolkata", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{classes}:{path}", "Runner"]
    return languages.outcomes(languages.run([*java, *sorted({name.split(".")[0] for name in NAMES})], server))


@pytest.mark.parametrize("name", NAMES)
def test_jdbc(found, name):
    languages.conclude(found, name)
