"""PostgreSQL's own regression suite: every difference is known and has a reason."""

import pytest

from conftest import AGAINST_POSTGRES
from regress import known
from regress.reasons import REASONS
from servers import Postgres, Stratalog

pytestmark = pytest.mark.skipif(AGAINST_POSTGRES, reason="compares with PostgreSQL")


@pytest.fixture(scope="module")
def suite():
    return known.suite()


@pytest.fixture(scope="module")
def servers(scratch):
    with Stratalog(scratch / "regress") as ours, Postgres(settings={"fsync": "off"}) as theirs:
        yield ours, theirs


def described(one, reason, listed):
    return (
        f"{one.key} line {one.statement.line}, {reason}, listed: {listed}\n{one.statement.sql[:500]}\n"
        f"  ours:   {one.ours.shown(400)}\n  theirs: {one.theirs.shown(400)}"
    )


@pytest.mark.parametrize("file", known.FILES)
def test_what_differs_from_postgresql_is_known_and_has_a_reason(file, servers, suite):
    compared, listed = known.compare(file, *servers, suite), known.read(file)
    print(file, dict(known.counts(compared)))
    found, at_times = known.differing(compared), known.sometimes()
    new = [
        described(one, found[one.key], listed.get(one.key))
        for one in compared
        if one.difference and listed.get(one.key) not in ({found[one.key]} | at_times)
    ]
    assert not new, f"{len(new)} differ in a new way, among them\n" + "\n".join(new[:8])
    mended = sorted(key for key, reason in listed.items() if key not in found and reason not in at_times)
    assert not mended, f"no longer different: `python -m regress.known {file}` takes them out: {mended}"


def test_lists_name_reasons_that_there_are():
    used = {reason for file in known.FILES for reason in known.read(file).values()}
    assert used == {reason.name for reason in REASONS}


def test_no_difference_is_left_open():
    """Every difference is fixed or documented."""
    left = {}
    for file in known.FILES:
        for reason in known.read(file).values():
            if reason.startswith("open"):
                left[reason] = left.get(reason, 0) + 1
    assert not left, left
