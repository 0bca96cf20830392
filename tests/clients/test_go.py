"""pgx v5 and lib/pq, unmodified: the tests of go/."""

import json

import pytest

import languages

NAMES = [name.split(".", 1)[1] for name in languages.names("go", "*_test.go", r"^func (Test\w+)\(")]


@pytest.fixture(scope="module")
def found(server):
    # `environment` finds the Go installation of `scripts/setup`.
    script = f"source {languages.HERE.parents[1]}/scripts/environment; exec go test -count=1 -json -timeout 120s ."
    out, errors = languages.run(["bash", "-c", script], server, cwd=languages.HERE / "go")
    found, said = {}, {}
    for line in out.splitlines():
        event = json.loads(line) if line.startswith("{") else {"Output": line + "\n"}
        name = event.get("Test", "").split("/")[0]
        said[name] = said.get(name, "") + event.get("Output", "")
        if event.get("Action") in ("pass", "fail", "skip") and event.get("Test") == name:
            found[name] = (event["Action"], said[name])
    return {**found, "": ("fail", said.get("", "") + errors)}


@pytest.mark.parametrize("name", NAMES)
def test_go(found, name):
    languages.conclude(found, name)
