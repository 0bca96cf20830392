"""node-postgres with its cursors, streams and COPY, and postgres.js: the tests of node/."""

import pytest

import languages

NAMES = [name.split(".", 1)[1] for name in languages.names("node", "*.test.mjs", r'^(?:test|ours)\("([^"]+)"')]
assert len(set(NAMES)) == len(NAMES), "the runner tells tests by their names alone"


@pytest.fixture(scope="module")
def found(server, scratch):
    place = languages.laid_out("node", scratch)
    files = sorted(path.name for path in place.glob("*.test.mjs"))
    return languages.outcomes(languages.run(["node", "--test", "--test-reporter=./reporter.mjs", *files], server, cwd=place))


@pytest.mark.parametrize("name", NAMES)
def test_node(found, name):
    languages.conclude(found, name)
