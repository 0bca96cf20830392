"""Drivers of other languages with TLS, passwords and tokens: the right ones open a session, the wrong ones do not."""

import subprocess
import urllib.parse

import pytest

import languages
from logins import certificate, token, user
from servers import Stratalog

pytestmark = pytest.mark.ours


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    data = tmp_path_factory.mktemp("secure") / "data"
    ca = certificate(data)
    other = certificate(tmp_path_factory.mktemp("other") / "data")
    place = {"ca": ca, "other": other, "ann": user(data, "ann"), "token": token(data, "driver", "ann")}
    flags = ("--tls-cert-file", str(data / "tls" / "server.crt"), "--tls-key-file", str(data / "tls" / "server.key"))
    with Stratalog(data, *flags) as server:
        yield {**place, "server": server}


def url(scheme, host, port, **options):
    return f"{scheme}://{host}:{port}/stratalog?" + urllib.parse.urlencode(options)


def conclude(printed, expected):
    """One line a URL: `as ann`, or `refused` with a text that says why."""
    lines = printed.strip().splitlines()
    assert len(lines) == len(expected), printed
    for line, part in zip(lines, expected):
        assert line == "as ann" if part is None else line.startswith("refused") and part in line, f"{part}: {line}"


def test_pgjdbc(place):
    right = {"user": "ann", "password": place["ann"], "sslmode": "verify-full", "sslrootcert": place["ca"],
             "channelBinding": "require"}
    port = place["server"].port
    cases = [
        (right, "localhost", None), ({**right, "sslNegotiation": "direct"}, "localhost", None),
        ({**right, "password": "wrong"}, "localhost", "28P01"), ({**right, "user": "nobody"}, "localhost", "28P01"),
        ({**right, "sslrootcert": place["other"]}, "localhost", "08"), (right, "ip6-localhost.invalid", "08"),
    ]
    urls = [url("jdbc:postgresql", host, port, **options) for options, host, _ in cases]
    jars = f"{languages.installed('java')}/*"
    done = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-cp", jars, languages.HERE / "secure" / "Ask.java", *urls],
                          capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    conclude(done.stdout, [part for _, _, part in cases])


def test_jdbc_of_flight_sql(place):
    right = {"useEncryption": "true", "user": "ann", "password": place["ann"], "tlsRootCerts": place["ca"]}
    by_token = {"useEncryption": "true", "token": place["token"], "tlsRootCerts": place["ca"]}
    port = place["server"].flight_port
    cases = [
        (right, None), (by_token, None), ({**right, "password": "wrong"}, "password authentication failed"),
        ({**by_token, "token": "slt_" + "A" * 43}, ""), ({**right, "tlsRootCerts": place["other"]}, ""),
    ]
    urls = [url("jdbc:arrow-flight-sql", "localhost", port, **options).replace("/stratalog", "") for options, _ in cases]
    jars = f"{languages.installed('java_flight')}/*"
    java = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-cp", jars]
    done = subprocess.run([*java, languages.HERE / "secure" / "Ask.java", *urls], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    conclude(done.stdout, [part for _, part in cases])


def test_pgx(place):
    right = {"sslmode": "verify-full", "sslrootcert": place["ca"], "channel_binding": "require"}
    port, login = place["server"].port, f"ann:{place['ann']}@localhost"
    cases = [
        (login, right, None), ("ann:wrong@localhost", right, "28P01"), ("nobody:x@localhost", right, "28P01"),
        (login, {**right, "sslrootcert": place["other"]}, "certificate"),
    ]
    urls = [url("postgres", host, port, **options) for host, options, _ in cases]
    script = f"source {languages.HERE.parents[1]}/scripts/environment; exec go run ./secure \"$@\""
    done = subprocess.run(["bash", "-c", script, "go", *urls], cwd=languages.HERE / "go", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    conclude(done.stdout, [part for _, _, part in cases])
